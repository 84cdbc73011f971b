"""`flexkg paper`: tables beside results, and the runs that fill them, on a small graph."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

import flexkg
from flexkg.cli.main import run
from flexkg.paper.cells import cells_of
from flexkg.paper.plan import Book, the_paper
from flexkg.paper.results import load_all
from flexkg.paper.runner import Budget, Place, missing, work_off
from flexkg.paper.workloads import build, check, read_registry
from flexkg.sampling.workload import Workload
from flexkg.training.listener import Listener

ROOT = Path(__file__).resolve().parents[3]
PLAN = """
seed = 3

[common]
short = ["training.steps=99", "training.batch_size=16", "training.negatives=4"]

[models.Small]
recipe = "flex-small"
common = "short"
set = ["model.dim=8", "model.hidden=16", "training.shapes=1p,2i"]
datasets.world = ["training.steps=30"]
shapes = ["1p", "2i"]

[tables.speed]
seconds = 0.1
steps = 1000
set = ["training.batch_size=16", "training.shapes=1p"]
models.Small = ["flex-small", "model.hidden=16"]

[content.tiny]
title = "A tiny table"
source = "a test"
kind = "mrr"
unit = "MRR × 100"
columns = ["1p", "2i", "AVG"]
rows = [{ dataset = "world", row = "Small", values = [10.0, 20.0, 15.0] }]

[content.one-hop]
title = "The same run"
source = "a test"
kind = "metrics"
unit = "× 100"
dataset = "world"
columns = ["Small"]
rows = [{ row = "hits@10", values = [30.0] }]

[content.speed]
title = "How fast"
source = "a test"
kind = "time"
unit = "days"
dataset = "world"
columns = ["Small"]
rows = [{ row = "8", values = [2.0] }]
"""


@dataclass(frozen=True)
class Steps(Budget):
    """A budget of steps: the clock is no part of these tests."""

    limit: int = 0
    asked: list[int] = field(default_factory=list)

    def over(self) -> bool:
        self.asked.append(1)
        return len(self.asked) > self.limit


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("paper")
    (folder / "plan.toml").write_text(PLAN)
    assert run(["paper", "workload", "world", "--count", "20", *places(folder)]) == 0
    return folder


def places(folder: Path) -> list[str]:
    return ["--results", str(folder / "results"), "--work", str(folder / "work")]


def command(folder: Path, *words: str) -> list[str]:
    return ["paper", "run", *words, "--plan", str(folder / "plan.toml"), "--device", "cpu", *places(folder)]


def test_a_table_is_worked_off_in_pieces_and_only_once(folder, capsys):
    assert run([*command(folder, "all", "--dry-run"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    names = ["world/flex-small-seed3", "world/flex-small-time-hidden16-d8"]
    assert [entry["run"] for entry in found["missing"]] == names  # one run fills the cells of two tables
    assert [entry["steps"] for entry in found["missing"]] == [30, None]
    assert run(command(folder, "all", "--dry-run")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == names
    assert "30 updates" in lines[0]
    assert "its speed alone" in lines[1]
    assert lines[-1] == "2 runs are missing; --json has their settings"

    assert run([*command(folder, "all", "--budget", "0"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["left"] == names
    assert not (folder / "work" / "runs").exists()

    book, place = Book.load(folder / "plan.toml"), Place(folder / "results", folder / "work")
    registry = read_registry(place.results)
    jobs = missing(book.select("tiny"), book, [], registry)
    report = work_off(jobs, place, Steps(None, limit=8), torch.device("cpu"))
    assert (report.done, report.left) == ([], names[:1])
    assert load_all(place.results) == []

    done = subprocess.run(
        [sys.executable, "-m", "flexkg", *command(folder, "all"), "--json"], capture_output=True, text=True, check=True
    )
    assert [entry["run"] for entry in json.loads(done.stdout)["done"]] == names
    assert "going on from step 8" in done.stderr

    trained, timed = load_all(place.results)
    assert (trained.steps, trained.seed, trained.device) == (30, 3, "cpu")
    assert set(trained.metrics["shapes"]) == {"1p", "2i"}
    assert trained.workload["checksum"] == registry["world"].checksum
    assert trained.seconds["whole"] >= trained.seconds["train"] > 0
    assert trained.overrides[-1] == "training.steps=30"
    assert timed.metrics["seconds_per_step"] == pytest.approx(timed.seconds["train"] / timed.steps)

    assert run([*command(folder, "all"), "--json"]) == 0
    nothing = {"tables": ["tiny", "one-hop", "speed"], "done": [], "left": [], "elsewhere": [], "failed": []}
    assert json.loads(capsys.readouterr().out) == nothing

    shown(folder, capsys, trained)
    changed(folder, capsys)


def shown(folder, capsys, trained):
    plan = ["--plan", str(folder / "plan.toml"), "--results", str(folder / "results")]
    assert run(["paper", "tiny", *plan, "--json"]) == 0
    [table] = json.loads(capsys.readouterr().out)["tables"]
    assert table["notes"] == ["world: all test queries were sampled here."]
    values = [100 * trained.metrics["shapes"][shape]["mrr"] for shape in ("1p", "2i")]
    values.append(sum(values) / 2)
    assert (table["name"], table["recorded"]) == ("tiny", 3)
    for cell, ours, paper in zip(table["cells"], values, (10.0, 20.0, 15.0), strict=True):
        assert (cell["dataset"], cell["row"], cell["paper"]) == ("world", "Small", paper)
        assert cell["ours"] == pytest.approx(ours, abs=1e-5)
        assert cell["difference"] == pytest.approx(ours - paper, abs=1e-5)
        assert cell["result"] == "world/flex-small-seed3.json"
        assert cell["exact"] is True
    assert run(["paper", "show", "speed", *plan]) == 0
    assert "How fast (days)" in capsys.readouterr().out


def changed(folder, capsys):
    """Other settings: the old figure is still shown, with a mark, and the run is missing again."""
    plan = folder / "plan.toml"
    plan.write_text(PLAN.replace("training.steps=30", "training.steps=31"))
    assert run([*command(folder, "tiny", "--dry-run"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["missing"]) == 1
    assert run(["paper", "tiny", "--plan", str(plan), "--results", str(folder / "results")]) == 0
    assert "~ made with settings or queries that have changed since" in capsys.readouterr().out
    plan.write_text(PLAN)


def test_other_queries_are_refused(folder, tmp_path, capsys):
    assert run(["paper", "workload", "world", "--count", "10", "--results", str(folder / "results"),
                "--work", str(tmp_path / "work")]) == 2  # fmt: skip
    assert "fixed already" in capsys.readouterr().err
    registry = (folder / "results" / "workloads.toml").read_text()
    (tmp_path / "workloads.toml").write_text(registry.replace('\nchecksum = "', '\nchecksum = "00'))
    arguments = [*command(folder, "tiny"), "--results", str(tmp_path)]
    assert run(arguments) == 2
    assert "registered is 00" in capsys.readouterr().err
    (tmp_path / "workloads.toml").unlink()
    assert run(arguments) == 2
    assert "flexkg paper workload world" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "expected", "fits"),
    [(None, 1e9, True), (100, 40, True), (100, 60, False), (100, 101, True), (100, None, True), (50, None, False)],
    ids=["no-budget", "fits", "too-late", "never-fits", "unknown", "spent"],
)
def test_what_cannot_be_done_in_time_is_not_begun(seconds, expected, fits):
    assert Budget(seconds, begin=time.monotonic() - 50).fits(expected) is fits


def test_the_papers_tables_are_listed(tmp_path, capsys):
    assert run(["paper", "--json", "--results", str(tmp_path)]) == 0
    tables = {table["name"]: table for table in json.loads(capsys.readouterr().out)["tables"]}
    assert list(tables) == list(the_paper().tables)
    assert (tables["main-epfo"]["count"], tables["main-epfo"]["recorded"]) == (150, 0)
    assert (tables["parameters"]["count"], tables["parameters"]["recorded"]) == (25, 25)
    assert tables["running-time"]["count"] == 25
    assert run(["paper", "figures"]) == 2
    assert "There is no table 'figures'" in capsys.readouterr().err


def test_what_needs_no_run_is_as_in_the_paper():
    book, registry = the_paper(), read_registry(ROOT / "results")
    for name, most in (("parameters", 0.0101), ("datasets", 0), ("query-counts", 0)):
        for cell in cells_of(book.tables[name], book, registry):
            assert cell.live is not None
            assert abs(cell.live - cell.paper) <= most, (name, cell)


def test_a_cell_is_chosen_by_row_column_and_graph():
    book = the_paper()
    everything = missing(book.select("main"), book, [], {})
    assert len(everything) == 15
    [job] = missing(book.select("main"), book, [], {}, ["nell995", "flex"])
    assert job.name == "nell995/flex-seed1"
    assert len(missing(book.select("error-bars"), book, [], {}, ["nell995"])) == 5
    dimensions = missing(book.select("dimensions"), book, [], {})
    assert "fb15k-237/flex-seed1" in [job.name for job in dimensions]  # d 800 is the main table's run
    assert len(missing(book.select("running-time"), book, [], {})) == 25


def test_a_model_without_negation_is_validated_on_what_it_can_say(folder, capsys):
    """The paper's workload has all shapes; GQE and Query2box are trained on it all the same."""
    out = folder / "gqe"
    small = [("model.dim", 8), ("training.steps", 2), ("training.batch_size", 16), ("training.negatives", 4)]
    settings = [word for key, value in small for word in ("--set", f"{key}={value}")]
    workload = str(folder / "work" / "workloads" / "world")
    assert run(["train", "gqe", "--data", "world", "--workload", workload, "--out", str(out), *settings, "--json"]) == 0
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    [last] = [row for row in rows if "valid" in row and row["step"] == 2]
    assert set(last["valid"]) == {"1p", "2p", "3p", "2i", "3i", "ip", "pi", "2u", "up"}


def test_a_word_that_fits_no_cell_is_named(capsys):
    assert run(["paper", "run", "main", "--only", "FLEXX", "--dry-run"]) == 2
    message = capsys.readouterr().err
    assert "No row, column, graph or run is called 'FLEXX'" in message
    assert "FLEX" in message


@pytest.mark.parametrize("words", [["cone-seed10"], ["fb15k-237/ConE-seed10"], ["ConE", "fb15k-237", "cone-seed10"]])
def test_one_run_can_be_asked_for_by_its_name(words, capsys, tmp_path):
    (tmp_path / "workloads.toml").write_bytes((ROOT / "results" / "workloads.toml").read_bytes())
    only = [part for word in words for part in ("--only", word)]
    assert run(["paper", "run", "comparison", *only, "--dry-run", "--results", str(tmp_path), "--json"]) == 0
    assert [entry["run"] for entry in json.loads(capsys.readouterr().out)["missing"]] == ["fb15k-237/cone-seed10"]


def test_models_share_settings_which_each_may_change():
    book = the_paper()
    gqe, cone = book.job("GQE", "fb15k-237"), book.job("ConE", "nell995")
    assert gqe.config.training.schedule == cone.config.training.schedule == "linear"
    assert gqe.config.training.shares["1p"] == cone.config.training.shares["1p"] == 3
    assert gqe.config.training.steps != cone.config.training.steps
    assert cone.config.model.margin == 20


def test_common_settings_that_the_plan_has_not_are_named(tmp_path, capsys):
    (tmp_path / "plan.toml").write_text(PLAN.replace('common = "short"', 'common = "shrot"'))
    assert run(command(tmp_path, "tiny")) == 2
    assert "its [common] has no shrot" in capsys.readouterr().err


def test_the_rules_are_registered_and_used_again(tmp_path: Path) -> None:
    protocol = ["--protocol", "betae-as-written", "--count", "100"]
    assert run(["paper", "workload", "world", *protocol, *places(tmp_path)]) == 0
    entry = read_registry(tmp_path / "results")["world"]
    assert entry.protocol == "betae-as-written"
    world = flexkg.load("world").dataset
    check(world, tmp_path / "again", entry, None, "cpu", Listener())
    assert Workload.load(tmp_path / "again").settings["protocol"] == "betae-as-written"


def test_runs_side_by_side_build_their_workload_once(tmp_path: Path) -> None:
    world, folder = flexkg.load("world").dataset, tmp_path / "work" / "world"
    said: list[str] = []
    how = {"seed": 0, "count": 50, "published": None, "device": "cpu", "listener": Listener(said.append)}
    with ThreadPoolExecutor() as pool:
        made = list(pool.map(lambda _: build(world, folder, **how), range(3)))
    assert said == ["building the workload of world"]
    assert made[0] == made[1] == made[2]
    assert sorted(path.name for path in folder.parent.iterdir()) == ["world", "world.origin.json"]


def test_words_that_fit_no_run_together_are_named(capsys):
    assert run(["paper", "run", "main-epfo", "--only", "GQE", "--only", "ConE", "--dry-run"]) == 2
    assert "No run fits all of GQE, ConE." in capsys.readouterr().err
