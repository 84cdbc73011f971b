"""Training repeats, resumes exactly, shares its batch between processes, and says when it goes wrong."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from flexkg.config import build_model, load_recipe
from flexkg.errors import ConfigError, DataError, TrainingError
from flexkg.evaluation import ranking
from flexkg.evaluation.ranking import score_groups
from flexkg.kg.dataset import Dataset
from flexkg.kg.graph import Graph
from flexkg.kg.vocabulary import Vocabulary
from flexkg.models import interpretation, run_plan
from flexkg.query.shapes import SHAPES
from flexkg.sampling.build import Pair, sample_queries
from flexkg.sampling.near import NearMisses
from flexkg.training import checkpoint
from flexkg.training.batches import Batches, counts_for
from flexkg.training.losses import negative_sampling, sampled_loss
from flexkg.training.online import FreshQueries
from small_training import ENTITIES, RELATIONS, SMALL, trainer

if TYPE_CHECKING:
    from flexkg.training.loop import Trainer


def same(left: Trainer, right: Trainer) -> bool:
    ours, theirs = left.model.state_dict(), right.model.state_dict()
    return all(torch.equal(ours[name], theirs[name]) for name in ours)


def stop_after(steps: int):
    """Say stop once, after so many steps."""
    left = steps

    def stop() -> bool:
        nonlocal left
        left -= 1
        return left == 0

    return stop


def test_seeded_runs_repeat(tmp_path, queries):
    runs = [trainer(tmp_path / name, queries, "training.steps=15") for name in "ab"]
    assert all(run.run() for run in runs)
    assert same(*runs)
    other = trainer(tmp_path / "c", queries, "training.steps=15", "training.seed=8")
    other.run()
    assert not same(runs[0], other)


@pytest.mark.parametrize(
    "extra",
    [
        [],
        ["training.ema=0.9", "training.clip=0.5"],
        ["training.update=released"],
        ["model.dropout=0.3", "training.update=released"],
    ],
)
def test_an_interrupted_run_ends_bit_identical(tmp_path, queries, extra):
    settings = ["training.steps=24", "training.validate_every=10", *extra]
    whole = trainer(tmp_path / "whole", queries, *settings)
    assert whole.run()
    first = trainer(tmp_path / "cut", queries, *settings, stop=stop_after(11))
    assert not first.run()
    second = trainer(tmp_path / "cut", queries, *settings)
    assert second.resume()
    assert second.run()
    assert same(whole, second)
    assert all(torch.equal(whole.weights()[name], value) for name, value in second.weights().items())
    assert second.best["mrr"] == whole.best["mrr"]
    moments = [t.optimiser.tensors() for t in (whole, second)]
    assert all(torch.equal(moments[0][name], moments[1][name]) for name in moments[0])


def test_a_temperature_of_zero_for_every_shape_is_the_plain_loss(tmp_path, queries):
    zero = "training.temperatures={1p=0.0, 2p=0.0, 2i=0.0, 2in=0.0}"
    some = "training.temperatures={2in=0.0}"
    plain, adversarial = "training.loss=negative-sampling", "training.loss=self-adversarial"
    runs = []
    for name, settings in {"a": [plain], "b": [adversarial, zero], "c": [adversarial, some]}.items():
        runs.append(trainer(tmp_path / name, queries, "training.steps=3", *settings))
        runs[-1].run()
    for mine, theirs in zip(runs[0].model.parameters(), runs[1].model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    assert not same(runs[1], runs[2])


def test_training_learns(tmp_path, queries):
    losses = []
    run = trainer(tmp_path, queries, "training.steps=150", "training.learning_rate=0.01", record=losses.append)
    run.run()
    steps = [row["loss"] for row in losses if "loss" in row]
    assert steps[-1] < 0.8 * steps[0]
    assert [row["valid_mrr"] for row in losses if "valid_mrr" in row][-1] == run.best["last"]


def test_a_damaged_checkpoint_is_skipped_for_the_one_before(tmp_path, queries):
    settings = ["training.steps=20", "training.checkpoint_every=5", "training.validate_every=1000"]
    trainer(tmp_path, queries, *settings).run()
    newest, before = sorted(checkpoint.steps(tmp_path / "checkpoints"), reverse=True)[:2]
    file = tmp_path / "checkpoints" / f"step-{newest:09d}" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-10])
    warnings = []
    again = trainer(tmp_path, queries, *settings, warn=warnings.append)
    assert again.resume()
    assert again.step == before
    assert str(newest) in warnings[0]
    assert "damaged" in warnings[0]
    for step in checkpoint.steps(tmp_path / "checkpoints"):
        (tmp_path / "checkpoints" / f"step-{step:09d}" / "state.json").write_text("{")
    with pytest.raises(DataError, match="No checkpoint"):
        trainer(tmp_path, queries, *settings).resume()


def test_only_the_newest_and_the_best_are_kept(tmp_path, queries):
    run = trainer(tmp_path, queries, "training.steps=30", "training.checkpoint_every=3", "training.validate_every=6")
    run.run()
    kept = checkpoint.steps(tmp_path / "checkpoints")
    assert kept[-1] == 30
    assert run.best["step"] in kept
    assert len(kept) <= 3
    assert not [path.name for path in (tmp_path / "checkpoints").iterdir() if path.name.startswith(".")]


def test_divergence_stops_with_a_diagnosis_and_keeps_the_last_good_state(tmp_path, queries):
    settings = ["training.steps=40", "training.checkpoint_every=10", "training.validate_every=1000"]
    run = trainer(tmp_path, queries, *settings)
    update, steps = run._update, iter(range(1000))

    def broken():
        update()
        if next(steps) == 25:
            run._losses.fill_(math.nan)

    run._update = broken
    with pytest.raises(TrainingError, match=r"diverged at step 26.*step 20 is kept.*learning_rate"):
        run.run()
    assert checkpoint.steps(tmp_path / "checkpoints")[-1] == 20
    with torch.no_grad():
        next(run.model.parameters()).fill_(math.nan)
    with pytest.raises(TrainingError, match="parameter is no longer a number"):
        run.save()


def test_early_stopping(tmp_path, queries):
    said = []
    run = trainer(
        tmp_path, queries, "training.steps=500", "training.validate_every=2", "training.patience=3",
        "training.learning_rate=1e-9", warn=said.append,
    )  # fmt: skip
    assert run.run()
    assert run.step < 500
    assert "stopped early" in said[0]


def test_processes_share_one_batch(queries):
    sets, _ = queries
    model = build_model(load_recipe("flex-small", SMALL).model, ENTITIES, 2 * RELATIONS)
    chosen = [sets[shape] for shape in ("1p", "2p", "2u")]
    by = interpretation(model)
    for by_run in (1, 6):
        make = lambda share, runs=by_run: Batches(chosen, [9, 5, 4], by, ENTITIES, 6, 3, share=share, shared_by=runs)  # noqa: E731
        whole, parts = make((0, 1)), [make((rank, 3)) for rank in range(3)]
        for step in (0, 5):
            expected = _loss(model, whole, step)
            assert sum(_loss(model, part, step) for part in parts).item() == pytest.approx(expected.item(), rel=1e-5)


def _loss(model, batches, step):
    batch = batches.draw(step)
    return sampled_loss(model, run_plan(model, batches.prepared, batch.grounding), batch, batches.prepared)


def test_shared_negatives_are_scored_as_if_each_query_had_its_own(queries):
    sets, _ = queries
    model = build_model(load_recipe("flex-small", SMALL).model, ENTITIES, 2 * RELATIONS)
    batches = Batches([sets["1p"], sets["2i"]], [8, 4], interpretation(model), ENTITIES, 40, 3, shared_by=4)
    batch = batches.draw(1)
    assert batch.negatives.shape == (3, 40)
    assert not batch.allowed.all()  # forty entities of sixty: some are answers
    states = run_plan(model, batches.prepared, batch.grounding)
    scores = model.score(states, torch.cat([batch.positives, batch.negatives.repeat_interleave(4, dim=0)], dim=1))
    expected = negative_sampling(scores, batch.weights, batch.total, batch.allowed)
    assert _loss(model, batches, 1).item() == pytest.approx(expected.item(), rel=1e-6)
    with pytest.raises(ConfigError, match=r"multiple of training\.shared_by"):
        Batches([sets["1p"]], [8], interpretation(model), ENTITIES, 4, 3, shared_by=3)


def test_batches_are_decided_by_seed_and_step(queries):
    sets, _ = queries
    by = interpretation(build_model(load_recipe("flex-small", SMALL).model, ENTITIES, 2 * RELATIONS))
    make = lambda seed: Batches([sets["2p"]], [16], by, ENTITIES, 5, seed)  # noqa: E731
    assert torch.equal(make(1).draw(4).negatives, make(1).draw(4).negatives)
    assert not torch.equal(make(1).draw(4).negatives, make(1).draw(5).negatives)
    assert not torch.equal(make(1).draw(4).negatives, make(2).draw(4).negatives)


def test_counts_follow_the_shares():
    assert counts_for(["1p", "2p", "2in"], {"2in": 0.1}, 1000) == [476, 476, 48]
    assert counts_for(["a", "b", "c"], {}, 2) == [1, 1, 1]
    assert sum(counts_for(list("abcdefg"), {"a": 3.0}, 512)) == 512


def test_a_shape_without_queries_is_named():
    empty = sample_queries(
        Pair.of(Graph.from_triples(np.zeros((0, 3), int), 3, 1), None),
        "2p",
        SHAPES["2p"],
        1,
        cap=1,
        seed=0,
        split="train",
    )
    by = interpretation(build_model(load_recipe("flex-small", SMALL).model, 3, 2))
    with pytest.raises(DataError, match="no training queries of the shape 2p"):
        Batches([empty], [4], by, 3, 2, 0)
    assert json.dumps(empty.extra)


def test_near_misses_are_among_the_negatives(tmp_path, graphs, queries):
    find = NearMisses(graphs[0])
    found = {shape: find(part) for shape, part in queries[0].items()}
    sets = [found["1p"], found["2in"]]
    by = interpretation(build_model(load_recipe("flex-small", SMALL).model, ENTITIES, 2 * RELATIONS))
    make = lambda near, share=(0, 1): Batches(sets, [6, 10], by, ENTITIES, 8, 3, share=share, near=near)  # noqa: E731
    plain, some = make(0).draw(4), make(3).draw(4)
    assert torch.equal(plain.positives, some.positives)
    assert torch.equal(plain.negatives[:6], some.negatives[:6])
    assert torch.equal(plain.negatives[6:, 3:], some.negatives[6:, 3:])
    near = [set(row.tolist()) for row in sets[1].answers["near"].rows()]
    assert all(any(set(drawn) <= row for row in near) for drawn in some.negatives[6:, :3].tolist())
    assert some.near.nonzero().tolist() == [[row, place] for row in range(6, 16) for place in range(3)]
    halves = [make(3, (process, 2)).draw(4) for process in range(2)]
    for part in ("negatives", "near"):
        values = [getattr(half, part) for half in halves]
        both = torch.cat([value[:3] for value in values] + [value[3:] for value in values])
        assert torch.equal(both, getattr(some, part))
    runs = []
    # A share too small for one of the four negatives still gives one.
    for name, share in {"a": 0, "b": 0.25, "c": 0.01}.items():
        settings = ["training.steps=3", f"training.near_misses={share}"]
        runs.append(trainer(tmp_path / name, (found, queries[1]), *settings))
        runs[-1].run()
    assert same(runs[1], runs[2])
    assert not same(runs[0], runs[1])


def test_fresh_queries_take_the_place_of_the_first_ones(tmp_path, edges, queries):
    facts = {"train": edges[:-60]}
    names = [Vocabulary([f"{kind}{i}" for i in range(n)]) for kind, n in (("e", ENTITIES), ("r", RELATIONS))]
    fresh = FreshQueries(Dataset("tiny", *names, facts), [], seed=3)
    sets, _ = queries
    first, second = fresh(1, sets["2p"]), fresh(2, sets["2p"])
    assert len(first) == len(second) == len(sets["2p"])
    assert not np.array_equal(first.entities, second.entities)
    assert np.array_equal(first.entities, fresh(1, sets["2p"]).entities)
    assert fresh(1, sets["1p"]) is sets["1p"]
    near = NearMisses(Graph.from_triples(edges[:-60], ENTITIES, RELATIONS))
    found = FreshQueries(Dataset("tiny", *names, facts), [], seed=3, near=near)(1, sets["2in"])
    assert len(found.answers["near"]) == len(sets["2in"])
    settings = ["training.steps=24", "training.online=true", "training.refresh_every=7"]
    whole = trainer(tmp_path / "whole", queries, *settings, fresh=fresh)
    fixed = trainer(tmp_path / "fixed", queries, "training.steps=24")
    assert whole.run()
    assert fixed.run()
    assert not same(whole, fixed)
    cut = trainer(tmp_path / "cut", queries, *settings, fresh=fresh, stop=stop_after(16))
    assert not cut.run()
    again = trainer(tmp_path / "cut", queries, *settings, fresh=fresh)
    assert again.resume()
    assert again.run()
    assert same(whole, again)


@pytest.mark.parametrize("recipe", ["flex-small", "betae", "cone"])
def test_a_validation_keeps_nothing_of_the_weights_it_saw(tmp_path, queries, recipe, monkeypatch):
    seen = []

    def spy(model, *arguments):
        seen.append(model._kept)
        return score_groups(model, *arguments)

    monkeypatch.setattr(ranking, "score_groups", spy)
    settings = ["training.steps=12", "training.ema=0.5"]
    often = trainer(tmp_path / "often", queries, *settings, "training.validate_every=3", recipe=recipe)
    once = trainer(tmp_path / "once", queries, *settings, "training.validate_every=12", recipe=recipe)
    assert often.run()
    assert len(seen) == 4
    # Every validation prepares the candidates anew, from the weights that it is about.
    tables = [table for _, table in seen]
    assert not any(torch.equal(*pair) for pair in pairwise(tables))
    assert often.model._kept is None
    assert once.run()
    assert same(often, once)


def test_a_validation_that_fails_keeps_nothing(tmp_path, queries, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(ranking, "score_groups", fail)
    run = trainer(tmp_path, queries, "training.steps=3")
    with pytest.raises(ZeroDivisionError):
        run.run()
    assert run.model._kept is None
