"""What is trained beyond the benchmarks' own shapes keeps clear of the queries that are evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

import flexkg
from flexkg.config import load_recipe
from flexkg.query.shapes import SHAPES
from flexkg.sampling.make import Order, make_workload
from flexkg.sampling.sampler import fingerprints
from flexkg.sampling.workload import Workload
from flexkg.training.loop import Trainer
from flexkg.training.run import train

if TYPE_CHECKING:
    from pathlib import Path

    from flexkg.sampling.queries import QuerySet

WORLD = flexkg.load("world").dataset
SMALL = ["model.dim=4", "model.hidden=4", "training.batch_size=16", "training.negatives=2", "training.steps=4000"]


@pytest.fixture
def learnt(monkeypatch: pytest.MonkeyPatch) -> list[Trainer]:
    """The trainers of runs, which end before their first step."""
    seen: list[Trainer] = []

    def run(trainer: Trainer) -> bool:
        seen.append(trainer)
        return False

    monkeypatch.setattr(Trainer, "run", run)
    return seen


def shared(queries: QuerySet, others: QuerySet) -> int:
    return int(torch.isin(fingerprints(queries), fingerprints(others)).sum())


@pytest.mark.parametrize("name", ["2u", "either"])
@pytest.mark.parametrize("online", [False, True])
def test_more_queries_are_none_of_those(learnt: list[Trainer], tmp_path: Path, name: str, online: bool) -> None:
    # A workload may call a shape by any name; settings know it by its own.
    shapes = ("1p", name)
    order = Order(shapes=shapes, train_shapes=shapes, templates={name: SHAPES["2u"]}, count=600)
    make_workload(WORLD, tmp_path / "queries", order)
    workload = Workload.load(tmp_path / "queries")
    settings = [*SMALL, "training.shapes=1p,2u", "training.shares={1p=1.0, 2u=3.0}"]
    settings += [f"training.online={str(online).lower()}", f"training.fill_up={int(not online)}"]
    train(WORLD, load_recipe("flex-small", settings), tmp_path / "run", recipe="x", workload=tmp_path / "queries")
    [trainer] = learnt
    assert [queries.shape for queries in trainer.train] == ["1p", "2u"]
    assert [batches._counts for batches in trainer.rounds] == [[4, 12]]
    fresh = trainer.train[1] if trainer.fresh is None else trainer.fresh(1, trainer.train[1])
    assert len(fresh) == (600 if online else 9012)
    for split in ("valid", "test"):
        assert shared(fresh, workload.queries(split, name)) == 0


def test_a_workload_of_the_runs_own_holds_what_will_be_tested(learnt: list[Trainer], tmp_path: Path) -> None:
    train(WORLD, load_recipe("flex-small", [*SMALL, "training.shapes=1p,2u"]), tmp_path / "run", recipe="x")
    own = Workload.load(tmp_path / "run" / "workload")
    assert own.shapes("test") == list(SHAPES)
    for split in ("valid", "test"):
        assert shared(learnt[0].train[1], own.queries(split, "2u")) == 0
    # The benchmarks' own shapes need no such care, and training has no use for test queries.
    train(WORLD, load_recipe("flex-small", [*SMALL, "training.shapes=1p,2i"]), tmp_path / "usual", recipe="x")
    assert Workload.load(tmp_path / "usual" / "workload").shapes("test") == []


def test_templates_are_kept_apart_whatever_they_are_called(tmp_path: Path) -> None:
    order = Order(shapes=("2u", "either"), train_shapes=("either",), templates={"either": SHAPES["2u"]}, count=2000)
    make_workload(WORLD, tmp_path / "queries", order)
    workload = Workload.load(tmp_path / "queries")
    assert shared(workload.queries("train", "either"), workload.queries("test", "2u")) == 0
