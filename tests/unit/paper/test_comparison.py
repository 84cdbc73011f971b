"""Two models query by query: what is kept beside a result, and the differences that follow from it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from flexkg.cli.main import run
from flexkg.errors import DataError
from flexkg.evaluation.compare import load_values
from flexkg.evaluation.statistics import resampled_means
from flexkg.paper.comparison import compare
from flexkg.paper.measure import VALUES
from flexkg.paper.plan import Book, the_paper
from flexkg.paper.queries import load_queries, queries_path
from flexkg.paper.render import page_of
from flexkg.paper.results import load, load_all
from flexkg.paper.runner import missing
from flexkg.paper.workloads import read_registry

if TYPE_CHECKING:
    from pathlib import Path

PLAN = """
seed = 1

[models.FLEX]
recipe = "flex-small"
set = ["model.dim=8", "model.hidden=16", "training.batch_size=32", "training.negatives=4", "training.steps=20"]
shapes = ["1p", "2i", "2in"]

[models.GQE]
recipe = "gqe"
set = ["model.dim=8", "training.batch_size=32", "training.negatives=4", "training.steps=20"]
shapes = ["1p", "2i"]

[models.Other]
recipe = "transe"
set = ["model.dim=8", "training.batch_size=32", "training.negatives=4", "training.steps=20"]
shapes = ["1p"]

[tables.versus]
seeds.world.GQE = [1, 5]

[content.printed]
title = "As printed"
source = "a test"
kind = "mrr"
unit = "MRR × 100"
dataset = "world"
columns = ["1p", "2i"]
rows = [
    { row = "FLEX", values = [10.0, 20.0] },
    { row = "GQE", values = [8.0, 15.0] },
    { row = "Other", values = [7.0, "-"] },
]

[content.versus]
title = "FLEX against GQE"
source = "a test"
kind = "comparison"
unit = "difference"
dataset = "world"
columns = ["1p", "2i", "2in"]
rows = [{ row = "GQE" }]
"""


def places(folder: Path) -> list[str]:
    return ["--results", str(folder / "results"), "--work", str(folder / "work"), "--plan", str(folder / "plan.toml")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two models with two seeds, measured; and a model that is not compared."""
    folder = tmp_path_factory.mktemp("comparison")
    (folder / "plan.toml").write_text(PLAN)
    assert run(["paper", "workload", "world", "--count", "30", *places(folder)[:4]]) == 0
    assert run(["paper", "run", "all", "--device", "cpu", "--shared-device", *places(folder)]) == 0
    return folder


def result(folder: Path, name: str):
    return load(folder / "results" / "world" / f"{name}.json")


def test_every_querys_value_is_kept_beside_the_results_that_are_compared(folder):
    names = sorted(path.name for path in (folder / "results" / "world").iterdir())
    kept = [f"{name}-seed{seed}" for name in ("flex-small", "gqe") for seed in (1, 5)]
    assert names == sorted(
        [f"{name}{end}" for name in kept for end in (".json", ".queries.npz")] + ["transe-seed1.json"]
    )

    book, registry = Book.load(folder / "plan.toml"), read_registry(folder / "results")
    [job] = missing(book.select("printed"), book, [], registry, ["FLEX"])
    [kept] = (folder / "work" / "runs").glob(f"{job.name}-*/{VALUES}")
    full, _ = load_values(kept)
    found = load_queries(result(folder, "flex-small-seed1"))
    assert found is not None
    values, prints = found
    assert set(values) == {"1p", "2i", "2in"}
    for shape, column in values.items():
        assert prints[shape] == full[shape].fingerprint
        assert len(column) == len(full[shape]) > 0
        assert np.abs(column - full[shape].values["mrr"]).max() < 1e-5
    assert load_queries(result(folder, "transe-seed1")) is None
    assert all(found.shared_device and found.seconds["start"] >= 0 for found in load_all(folder / "results"))


def test_differences_are_means_over_seeds_and_intervals_are_of_pairs(folder):
    both = [(result(folder, f"flex-small-seed{seed}"), result(folder, f"gqe-seed{seed}")) for seed in (1, 5)]
    comparison = compare(both)
    assert comparison is not None
    assert comparison.seeds == (1, 5)
    recorded = [[run.metrics["shapes"]["1p"]["mrr"] for run in pair] for pair in both]
    each = [one - other for one, other in recorded]
    assert comparison.each(["1p"]) == pytest.approx(each, abs=2e-5)
    assert comparison.value(["1p"]) == pytest.approx(sum(each) / 2, abs=2e-5)
    assert comparison.value(["2in"]) is None  # GQE has no negation
    loaded = [[load_queries(run)[0] for run in pair] for pair in both]
    gaps = {shape: np.mean([one[shape] - other[shape] for one, other in loaded], axis=0) for shape in ("1p", "2i")}
    means = (resampled_means(gaps["1p"], "1p") + resampled_means(gaps["2i"], "2i")) / 2
    found = comparison.difference(["1p", "2i"])
    assert found.difference == pytest.approx(np.mean([gap.mean() for gap in gaps.values()]))
    assert found.ci95 == pytest.approx(tuple(np.percentile(means, (2.5, 97.5))))


def test_the_table_shows_the_difference_beside_the_papers(folder, capsys):
    show = ["paper", "versus", *places(folder)[:2], *places(folder)[4:]]
    assert run([*show, "--json"]) == 0
    [table] = json.loads(capsys.readouterr().out)["tables"]
    first, second = table["cells"]  # no cell for 2in, where neither has a value
    assert (first["column"], first["paper"], first["seeds"], first["exact"]) == ("1p", 2.0, [1, 5], True)
    assert (second["column"], second["paper"]) == ("2i", 5.0)
    assert first["ours"] == pytest.approx(sum(first["by_seed"]) / 2, abs=1e-5)
    assert first["ci95"][0] <= first["ours"] <= first["ci95"][1]
    assert len(first["result"]) == 4
    assert run(show) == 0
    sign = "+" if first["ours"] > 0 else "−"
    assert f"{sign}{abs(first['ours']):.2f} (" in capsys.readouterr().out


def test_a_result_without_its_queries_counts_but_not_in_comparisons(folder, capsys):
    path = queries_path(folder / "results" / "world" / "gqe-seed5.json")
    data = path.read_bytes()
    path.unlink()
    try:
        book, registry = Book.load(folder / "plan.toml"), read_registry(folder / "results")
        found = load_all(folder / "results")
        assert missing(book.select("printed"), book, found, registry) == []
        assert [job.name for job in missing(book.select("versus"), book, found, registry)] == ["world/gqe-seed5"]
        cell = page_of(book.tables["versus"], book, found, registry).cell("world", "GQE", "1p")
        assert cell.comparison.seeds == (1,)
    finally:
        path.write_bytes(data)


@pytest.mark.parametrize("damage", ["cut", "byte", "pickle", "other", "older", "values", "different"])
def test_queries_that_do_not_belong_to_the_result_are_named(folder, tmp_path, damage):
    source = folder / "results" / "world" / "gqe-seed1.json"
    copy = tmp_path / "world" / source.name
    copy.parent.mkdir()
    copy.write_bytes(source.read_bytes())
    data = queries_path(source).read_bytes()
    with np.load(queries_path(source)) as file:
        arrays = {name: file[name] for name in file.files}
    about = json.loads(arrays["about"].tobytes())
    kept, other = load(copy), None
    if damage == "cut":
        queries_path(copy).write_bytes(data[: len(data) // 2])
    elif damage == "byte":
        # Within the first column's packed values, not in a header that would be found damaged first.
        begin = data.index(b"1p.npy") + 60
        queries_path(copy).write_bytes(
            data[:begin] + bytes(byte ^ 255 for byte in data[begin : begin + 8]) + data[begin + 8 :]
        )
    elif damage == "other":
        queries_path(copy).write_bytes(queries_path(source.with_name("gqe-seed5.json")).read_bytes())
    else:
        if damage == "pickle":
            arrays["1p"] = np.array([object()])
        elif damage == "older":
            kept = replace(kept, date="2020-01-01T00:00:00Z")
        elif damage == "values":
            arrays["1p"] = arrays["1p"] // 2
        else:
            about["queries"]["1p"] = "other"
            arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
            other = load(source.with_name("flex-small-seed1.json"))
        np.savez_compressed(queries_path(copy), **arrays)
    messages = {
        "cut": "is not a file of recorded queries",
        "byte": "is not a file of recorded queries",
        "pickle": "is not a file of recorded queries",
        "other": "does not belong to gqe-seed1.json",
        "older": "does not belong to gqe-seed1.json of 2020-01-01",
        "values": "1p queries of MRR",
        "different": "asked different 1p queries",
    }
    with pytest.raises(DataError) as caught:
        load_queries(kept) if other is None else compare([(other, kept)])
    assert messages[damage] in str(caught.value)
    assert str(copy.parent) in str(caught.value)


def test_the_papers_margins_follow_from_its_rows():
    book = the_paper()
    page = page_of(book.tables["comparison"], book, [], {})
    assert page.cell("fb15k-237", "ConE", "EPFO").cell.paper == pytest.approx(1.2)
    assert page.cell("fb15k-237", "ConE", "negation").cell.paper == pytest.approx(0.54)
    assert page.cell("nell995", "GQE", "negation") is None
    assert book.compared == {"GQE", "Q2B", "BetaE", "ConE", "FLEX"}
    assert book.job("FLEX", "fb15k-237").keep_queries
    assert not book.job("FLEX", "fb15k-237", label="d200").keep_queries
    assert not book.job("FLEX-2F", "fb15k-237").keep_queries
    jobs = missing(book.select("comparison"), book, [], {}, ["EPFO"])
    assert len([job for job in jobs if job.seed == book.seed]) == 15
