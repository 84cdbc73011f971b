"""Every run of every table, on a small graph with tiny settings: none must break when a GPU is at last at hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from flexkg.cli.main import run
from flexkg.config import load_recipe
from flexkg.paper.plan import Book, the_paper
from flexkg.paper.render import page_of
from flexkg.paper.results import load_all
from flexkg.paper.runner import Budget, Place, missing, work_off
from flexkg.paper.workloads import read_registry

TRAINED = [
    "main-epfo", "main-negation", "comparison", "error-bars-epfo", "variants", "more-variants", "training-shapes",
    "link-prediction", "dimensions", "training-length", "running-time",
]  # fmt: skip
SMALL = ["training.steps=2", "training.batch_size=32", "training.negatives=4", "training.warm_up=0", "model.dim=8"]


def small(recipe: str) -> list[str]:
    has_hidden = hasattr(load_recipe(recipe).model, "hidden")
    return [*SMALL, "model.hidden=16"] if has_hidden else SMALL


def tiny_book() -> Book:
    """The paper's book, but all on one small graph, with tiny models and few steps."""
    paper = the_paper()
    tables = {}
    for name in TRAINED:
        table = paper.tables[name]
        rows = {row.row: replace(row, dataset="world") for row in table.rows}
        sizes = {"dimensions": (8, 12, 16), "running-time": (8, 12, 16), "training-length": (2, 3)}.get(name)
        if sizes is not None:
            rows = {str(size): replace(row, row=str(size)) for size, row in zip(sizes, rows.values(), strict=False)}
        tables[name] = replace(table, rows=tuple(rows.values()))
    models = {
        name: {**entry, "set": [*entry.get("set", []), *small(entry["recipe"])], "datasets": {}}
        for name, entry in paper.models.items()
    }
    times = {**paper.settings["running-time"], "seconds": 0.05}
    times["set"] = [*times["set"], "model.hidden=16", "training.batch_size=32"]
    settings = {
        **paper.settings,
        "running-time": times,
        "comparison": {"seeds": {"world": {"ConE": [1, 10]}}},
        "error-bars-epfo": {"seeds": [1, 10]},
    }
    return Book(tables, paper.seed, models, settings, paper.common)


@pytest.mark.slow
def test_every_run_trains_is_evaluated_and_recorded(tmp_path):
    book, place = tiny_book(), Place(tmp_path / "results", tmp_path / "work")
    fixed = ["paper", "workload", "world", "--count", "5", "--results", str(place.results), "--work", str(place.work)]
    assert run(fixed) == 0
    registry = read_registry(place.results)
    jobs = missing(book.select(), book, [], registry)
    report = work_off(jobs, place, Budget(None), torch.device("cpu"))
    assert report.left == []
    found = load_all(place.results)
    # 5 models of the main tables, 2 of them with a second seed; 7 variants of FLEX, and 3 sets of shapes to train on;
    # 5 link predictors; 2 more dimensions, another length; 15 times.
    assert len(found) == len(jobs) == 5 + 2 + 7 + 3 + 5 + 2 + 1 + 15 == 40
    assert missing(book.select(), book, found, registry) == []
    for name in TRAINED:
        page = page_of(book.tables[name], book, found, registry)
        assert page.recorded == len(page.cells), name
    kept = sorted(path.name for path in (place.results / "world").glob("*.npz"))
    names = ("betae-seed1", "cone-seed1", "cone-seed10", "flex-seed1", "flex-seed10", "gqe-seed1", "query2box-seed1")
    assert kept == [f"{name}.queries.npz" for name in names]
