"""Tables of one's own: a plan with models that the paper does not have, worked off alone and side by side."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from flexkg.cli.main import run
from flexkg.errors import DataError
from flexkg.kg.storage import locked
from flexkg.paper.plan import Book
from flexkg.paper.results import load_all

if TYPE_CHECKING:
    from pathlib import Path

OWN = """
[models.Narrow]
recipe = "flex-small"
set = ["model.dim=8", "model.hidden=16", "training.shapes=1p", "training.batch_size=16", "training.steps=6"]

[models.Wide]
recipe = "flex-small"
label = "wide"
set = ["model.dim=8", "model.hidden=32", "training.shapes=1p", "training.batch_size=16", "training.steps=6"]

[models.Mine]
recipe = "RECIPE"

[content.mine]
title = "A table of one's own"
source = "a test"
kind = "mrr"
unit = "MRR × 100"
columns = ["1p"]
rows = [
    { dataset = "world", row = "Narrow" },
    { dataset = "world", row = "Wide" },
    { dataset = "world", row = "Mine" },
]
"""


def places(folder: Path) -> list[str]:
    return ["--results", str(folder / "results"), "--work", str(folder / "work")]


def command(folder: Path, *words: str) -> list[str]:
    return ["paper", "run", *words, "--plan", str(folder / "plan.toml"), "--device", "cpu", *places(folder)]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A plan whose rows the paper does not have: one recipe twice, and one from a file."""
    recipe = tmp_path / "mine.toml"
    recipe.write_text('[model]\nname = "gqe"\ndim = 8\n\n[training]\nsteps = 6\nbatch_size = 16\nshapes = ["1p"]\n')
    (tmp_path / "plan.toml").write_text(OWN.replace("RECIPE", recipe.as_posix()))
    assert run(["paper", "workload", "world", "--count", "20", *places(tmp_path)]) == 0
    return tmp_path


def test_rows_of_ones_own_are_measured_each_by_itself(own, capsys):
    capsys.readouterr()
    assert run([*command(own, "mine"), "--json"]) == 0
    names = ["world/flex-small-seed0", "world/flex-small-seed0-wide", "world/mine-seed0"]
    assert [entry["run"] for entry in json.loads(capsys.readouterr().out)["done"]] == names
    assert run(["paper", "mine", "--plan", str(own / "plan.toml"), "--results", str(own / "results"), "--json"]) == 0
    [table] = json.loads(capsys.readouterr().out)["tables"]
    assert [(cell["row"], cell["result"], cell["exact"]) for cell in table["cells"]] == [
        (row, f"{name}.json", True) for row, name in zip(("Narrow", "Wide", "Mine"), names, strict=True)
    ]
    assert run([*command(own, "mine"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["done"] == []


def test_other_queries_train_a_run_anew(own, capsys):
    only = ["--only", "Narrow"]
    assert run(command(own, "mine", *only)) == 0
    [first] = load_all(own / "results")
    # A workload is what its seed and count make it: it is not registered as another.
    assert run(["paper", "workload", "world", "--seed", "5", "--count", "20", *places(own)]) == 2
    assert "was made by betae with seed 0 and count 20, not by betae with 5 and 20" in capsys.readouterr().err
    as_written = ["--protocol", "betae-as-written"]
    assert run(["paper", "workload", "world", "--count", "20", *as_written, *places(own)]) == 2
    assert "not by betae-as-written with 0 and 20" in capsys.readouterr().err
    (own / "results" / "workloads.toml").unlink()
    (own / "work" / "workloads" / "world").rename(own / "work" / "old")
    assert run(["paper", "workload", "world", "--seed", "5", "--count", "20", *places(own)]) == 0
    assert run(command(own, "mine", *only)) == 0
    [second] = load_all(own / "results")
    assert first.workload["seed"] == 0
    assert second.workload["seed"] == 5
    trained = [json.loads(path.read_text()) for path in (own / "work" / "runs").glob("world/*/run.json")]
    assert {run["workload"]["checksum"] for run in trained} == {
        first.workload["checksum"],
        second.workload["checksum"],
    }


def test_a_run_that_fails_takes_no_other_with_it(own, capsys):
    plan = own / "plan.toml"
    plan.write_text(plan.read_text().replace('"training.shapes=1p"', '"training.shapes=epppp"', 1))
    capsys.readouterr()
    assert run([*command(own, "mine"), "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert [entry["run"] for entry in found["done"]] == ["world/flex-small-seed0-wide", "world/mine-seed0"]
    assert [entry["run"] for entry in found["failed"]] == ["world/flex-small-seed0"]
    assert "epppp" in found["failed"][0]["error"]


def test_two_at_once_make_every_run_once(own):
    start = [sys.executable, "-m", "flexkg", *command(own, "mine"), "--json"]
    both = [subprocess.Popen(start, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    done = [entry["run"] for out, _ in outputs for entry in json.loads(out)["done"]]
    assert sorted(done) == ["world/flex-small-seed0", "world/flex-small-seed0-wide", "world/mine-seed0"]


def test_a_run_that_another_process_makes_is_left_to_it(own, capsys):
    assert run(command(own, "mine", "--only", "Narrow")) == 0
    [made] = (own / "work" / "runs" / "world").glob("flex-small-seed0-*/run.json")
    (own / "results" / "world" / "flex-small-seed0.json").unlink()
    capsys.readouterr()
    with locked(made.parent):
        assert run([*command(own, "mine"), "--json"]) == 0
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert [entry["run"] for entry in report["done"]] == ["world/flex-small-seed0-wide", "world/mine-seed0"]
    assert (report["elsewhere"], report["left"]) == (["world/flex-small-seed0"], [])
    assert "world/flex-small-seed0 is made by another process" in captured.err
    assert run([*command(own, "mine"), "--json"]) == 0
    assert [entry["run"] for entry in json.loads(capsys.readouterr().out)["done"]] == ["world/flex-small-seed0"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('label = "wide"', ""), "the models Narrow and Wide have one recipe: give one of them a `label`"),
        (('label = "wide"', 'lable = "wide"'), "[models.Wide] has 'lable', which is none of recipe, label"),
        (('kind = "mrr"', 'kind = "rmr"'), "table mine is of no kind 'rmr'; there are mrr, error-bars"),
        (('kind = "mrr"', 'kind = "error-bars"'), "[tables.mine] has to say seeds"),
        (('row = "Wide"', 'row = "Wider"'), "table mine is about Wider, which is none of its [models]"),
        (('dataset = "world", row = "Wide"', 'dataset = "a/b", row = "Wide"'), "'a/b' is no name of a graph"),
        (('recipe = "RECIPE"', ""), "[models.Mine] names no recipe"),
        (("[content.mine]", "[contents.mine]"), "it has 'contents', which is none of seed, common"),
        (('label = "wide"', 'label = "very wide"'), "'very wide' of [models.Wide] cannot name a file: letters, digits"),
        (('recipe = "RECIPE"', 'recipe = "my recipe.toml"'), "'my recipe' of [models.Mine] cannot name a file"),
        (('unit = "', 'unti = "'), "[content.mine] has 'unti', which is none of title, source"),
        (('row = "Wide" }', 'row = "Wide", valeus = [1.0] }'), "has 'valeus', which is none of dataset, row, values"),
        (('columns = ["1p"]', 'columns = ["1p", "2j"]'), "table mine has no 2j; there are 1p, 2p"),
        (('kind = "mrr"', 'kind = "metrics"'), "table mine is about 1p, which is none of its [models]"),
        (("[content.mine]", "[tables.other]\n[content.mine]"), "[tables.other] is about none of its tables"),
        (
            ("[content.mine]", "[tables.mine]\nseeds = [1]\n[content.mine]"),
            "[tables.mine] has 'seeds', which is none of",
        ),
        (
            ("[content.mine]", '[tables.mine]\nseeds = 3\n[content.mine]\nkind = "error-bars"', 'kind = "mrr"\n', ""),
            "[tables.mine] has seeds that are no list of whole numbers",
        ),
        (
            ('kind = "mrr"', 'kind = "comparison"'),
            "table mine is about FLEX, which is none of its [models]",
        ),
        (
            (
                'kind = "mrr"',
                'kind = "comparison"',
                "[content",
                '[tables.mine]\nmodel = "Wide"\nsedes.world.Mine = [1]\n[content',
            ),
            "[tables.mine] has 'sedes', which is none of model, seeds",
        ),
        (
            (
                'kind = "mrr"',
                'kind = "comparison"',
                "[content",
                '[tables.mine]\nmodel = "Wide"\nseeds.wrld.Mine = [1]\n[content',
            ),
            "[tables.mine] has seeds of wrld.Mine, which is none of its rows",
        ),
    ],
)
def test_mistakes_in_a_plan_are_named(change, message, tmp_path, capsys):
    text = OWN
    for old, new in zip(change[::2], change[1::2], strict=True):
        text = text.replace(old, new)
    (tmp_path / "plan.toml").write_text(text)
    assert run(command(tmp_path, "mine", "--dry-run")) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "is not a plan" in error


SWEEP = """
[models.Small]
recipe = "flex-small"
set = ["model.dim=8", "model.hidden=16", "training.shapes=1p", "training.batch_size=16", "training.steps=4"]

[models.Other]
recipe = "gqe"
set = ["model.dim=8", "training.shapes=1p", "training.batch_size=16", "training.steps=4"]

[tables.moduli]
model = "Small"
setting = "model.modulus"
label = "m"

[content.moduli]
title = "Where the modulus starts"
source = "a test"
kind = "sweep"
unit = "MRR × 100"
dataset = "world"
columns = ["validation MRR", "minutes"]
rows = [{ row = "range/2" }, { row = 0.5 }]

[tables.sizes]
models.Small = ["flex-small"]

[content.sizes]
title = "Parameters"
source = "a test"
kind = "parameters"
unit = "millions of parameters"
dataset = "world"
columns = ["Small"]
rows = [{ row = 8 }, { row = "16" }]

[tables.bars]
seeds = [1, 2]

[content.bars]
title = "Seeds"
source = "a test"
kind = "error-bars"
unit = "MRR × 100"
columns = ["1p"]
rows = [{ dataset = "world", row = "Small" }]

[tables.gap]
model = "Small"

[content.gap]
title = "Differences"
source = "a test"
kind = "comparison"
unit = "MRR × 100"
columns = ["1p"]
rows = [{ dataset = "world", row = "Other", values = [1.5] }]
"""


def test_other_kinds_of_tables_on_a_graph_of_ones_own(tmp_path, capsys):
    (tmp_path / "plan.toml").write_text(SWEEP)
    assert run(["paper", "workload", "world", "--count", "20", *places(tmp_path)]) == 0
    assert run(command(tmp_path, "all")) == 0
    capsys.readouterr()
    results = tmp_path / "results" / "world"
    assert {path.stem for path in results.glob("*.json")} == {
        "flex-small-seed0-mrange-2", "flex-small-seed0-m0.5", "flex-small-seed0", "gqe-seed0",
        "flex-small-seed1", "flex-small-seed2",
    }  # fmt: skip
    assert run(["paper", "all", "--plan", str(tmp_path / "plan.toml"), *places(tmp_path)[:2], "--json"]) == 0
    tables = {table["name"]: table["cells"] for table in json.loads(capsys.readouterr().out)["tables"]}
    assert all(cell["ours"] is not None for cells in tables.values() for cell in cells)
    assert [cell["row"] for cell in tables["sizes"]] == ["8", "16"]
    assert tables["sizes"][0]["ours"] < tables["sizes"][1]["ours"]
    assert tables["bars"][0]["ours_error"] is not None
    assert tables["gap"][0]["paper"] == 1.5
    assert run([*command(tmp_path, "all"), "--dry-run"]) == 0
    assert "nothing is missing" in capsys.readouterr().out


def test_rows_of_a_sweep_that_would_share_a_file_are_refused(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(SWEEP.replace('{ row = "range/2" }, { row = 0.5 }', '{ row = "-1" }, { row = "1" }'))
    assert [row.row for row in Book.load(plan).tables["moduli"].rows] == ["-1", "1"]
    plan.write_text(SWEEP.replace('{ row = "range/2" }, { row = 0.5 }', '{ row = "a/b" }, { row = "a b" }'))
    with pytest.raises(DataError, match="two rows of table moduli would have one name as files"):
        Book.load(plan)


@pytest.mark.parametrize("name", ["città", "./world", "a b"])
def test_a_graph_of_results_has_a_plain_name(name, tmp_path, capsys):
    assert run(["paper", "workload", name, "--count", "5", *places(tmp_path)]) == 2
    assert f"{name} cannot be the name of a graph in results" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_a_registry_of_any_names_can_be_read_again(tmp_path):
    from flexkg.paper.workloads import Entry, read_registry, write_registry

    entry = Entry(0, "betae", 1, ("1p",), "a", "b", {"test": ("1p",)}, {"test": {"1p": 1}})
    (tmp_path / "results").mkdir()
    write_registry(tmp_path, {"città": entry, "fb15k-237": entry})
    assert read_registry(tmp_path) == {"città": entry, "fb15k-237": entry}
