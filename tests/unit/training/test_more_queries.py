"""Training queries that are sampled beside those of the workload (`training.fill_up`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

import flexkg
from flexkg.config import load_recipe
from flexkg.engine.engine import Engine
from flexkg.kg.dataset import Dataset
from flexkg.kg.vocabulary import Vocabulary
from flexkg.sampling.make import Order, make_workload
from flexkg.sampling.workload import Workload
from flexkg.training.folder import RunFolder
from flexkg.training.listener import Listener
from flexkg.training.online import FreshQueries
from flexkg.training.run import _filled_up, train

if TYPE_CHECKING:
    from pathlib import Path

SHAPES = ("1p", "2p", "3i", "2in", "pni")


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workload") / "world"
    order = Order(splits=("train", "valid"), shapes=SHAPES, count=40)
    make_workload(flexkg.load("world").dataset, folder, order)
    return folder


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_the_set_grows_by_other_queries_with_exact_answers(workload: Path, shape: str) -> None:
    world = flexkg.load("world").dataset
    fresh, first = FreshQueries(world, [], seed=3), Workload.load(workload).queries("train", shape)
    more = fresh.fill(first, 300)
    assert len(more) == 300
    assert np.array_equal(more.entities[:40], first.entities)
    ids = np.concatenate([more.entities, more.relations], axis=1)
    assert len(np.unique(ids, axis=0)) == 300
    tensors = (torch.from_numpy(kind.astype(np.int64)) for kind in (more.entities, more.relations))
    found: list[list[int]] = []
    for _, sets in Engine(world.graph("train")).stream(more.template, *tensors):
        members = sets.listed.members.tolist()
        spans = zip(sets.listed.starts.tolist(), sets.listed.lengths.tolist(), strict=True)
        found += [members[start : start + length] for start, length in spans]
    assert [row.tolist() for row in more.answers["train"].rows()] == found
    again = fresh.fill(first, 300)
    assert np.array_equal(again.entities, more.entities)
    assert not np.array_equal(FreshQueries(world, [], seed=4).fill(first, 300).entities, more.entities)


def test_no_more_than_a_run_draws(workload: Path) -> None:
    world, loaded, said = flexkg.load("world").dataset, Workload.load(workload), []
    settings = ["training.fill_up=1", "training.batch_size=50", "training.steps=32"]
    settings += [f"training.shapes={','.join(SHAPES)}", "training.shares={1p=2.0, 2p=1.0, 3i=1.0, 2in=0.8, pni=0.2}"]

    def sizes(*more: str) -> list[int]:
        training = load_recipe("flex-small", [*settings, *more]).training
        learnt = [loaded.queries("train", shape) for shape in SHAPES]
        filled = _filled_up(learnt, FreshQueries(world, [], seed=3), training, 9012, Listener(said.append))
        return [len(queries) for queries in filled]

    # One-hop queries stay; of 50 in a batch ten are 2p, ten 3i, eight 2in and two pni, 32 times; each is to be
    # drawn four times.
    assert sizes() == [40, 80, 80, 64, 40]
    assert said == ["sampling 104 more training queries"]
    assert sizes("training.fill_up=0.005") == [40, 45, 45, 45, 40]
    assert sizes("training.fill_up=0") == [40] * 5
    # The paths come twice in a step of the released schedule: 17 of 50 each time.
    assert sizes("training.update=released") == [40, 272, 200, 160, 40]
    # Too few to come in a batch at all.
    assert sizes("training.batch_size=5", "training.fill_up=0.1")[-1] == 40


def test_a_small_graph_gives_what_it_has(tmp_path: Path) -> None:
    names = [Vocabulary(words) for words in (["a", "b", "c", "d"], ["r"])]
    tiny = Dataset("tiny", *names, {"train": np.array([[0, 0, 1], [1, 0, 2], [2, 0, 3]])})
    make_workload(tiny, tmp_path / "workload", Order(splits=("train",), shapes=("2p",), count=1))
    first = Workload.load(tmp_path / "workload").queries("train", "2p")
    more = FreshQueries(tiny, [], seed=0).fill(first, 1000)
    assert 1 < len(more) < 20


def test_a_run_learns_from_them_and_resumes(workload: Path, tmp_path: Path) -> None:
    settings = ["model.dim=8", "model.hidden=16", "training.batch_size=32", "training.negatives=4"]
    settings += ["training.near_misses=0.25", "training.steps=96", f"training.shapes={','.join(SHAPES)}"]
    config, said, heard = load_recipe("flex-small", [*settings, "training.fill_up=0.01"]), [], []
    world = flexkg.load("world").dataset
    listener = Listener(said.append, lambda *counted: heard.append(counted))

    def weights(name: str, config=config, **more) -> torch.Tensor:
        train(world, config, tmp_path / name, recipe="flex-small", workload=workload, listener=listener, **more)
        return RunFolder.open(tmp_path / name).model("cpu").entities.weight.detach()

    whole = weights("whole")
    (line,) = (line for line in said if line.startswith("sampling "))
    total = int(line.removeprefix("sampling ").removesuffix(" more training queries").replace(",", ""))
    sampled = [counted for counted in heard if counted[0].startswith("sampling ")]
    assert sampled[0] == ("sampling 2p", 50, total)
    assert sampled[-1][1:] == (total, total)
    sought = [done for what, done, _ in heard if what.startswith("near misses of ")]
    assert sought == sorted(sought)
    assert not torch.equal(whole, weights("fewer", config=load_recipe("flex-small", settings)))
    calls = iter([False] * 10 + [True] * 1000)
    train(world, config, tmp_path / "cut", recipe="flex-small", workload=workload, stop=lambda: next(calls))
    assert torch.equal(whole, weights("cut", resume=True))
