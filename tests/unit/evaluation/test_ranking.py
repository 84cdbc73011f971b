"""Ranks are those of a naive ranker; constant scores earn chance; ids mean nothing."""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.cases import NUM_ENTITIES, make
from flexkg.evaluation import ranking
from flexkg.evaluation.evaluate import evaluate
from flexkg.evaluation.ranking import rank, rank_together
from flexkg.models import interpretation
from unit.evaluation.fixed import BY, Fixed, query_set

FIXTURE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture(params=["compiled", "sorted"])
def path(request, monkeypatch):
    """The compiled way to count, and the one of tensors."""
    if request.param == "compiled":
        pytest.importorskip("numba")
    else:
        monkeypatch.setenv("FLEXKG_PLAIN", "1")
    return request.param


@st.composite
def cases(draw, values=(-math.inf, -1.0, 0.0, 0.5, 2.0, math.inf)):
    universe = draw(st.integers(3, 12))
    count = draw(st.integers(1, 4))
    scores = [[draw(st.sampled_from(values)) for _ in range(universe)] for _ in range(count)]
    easy, hard = [], []
    for _ in range(count):
        answers = draw(st.sets(st.integers(0, universe - 1), min_size=1, max_size=universe - 1))
        split = draw(st.integers(1, len(answers)))
        hard.append(set(sorted(answers)[:split]))
        easy.append(answers - hard[-1])
    return scores, easy, hard


def naive_ranks(scores, easy, hard) -> list[tuple[float, float]]:
    """Optimistic and pessimistic ranks in Python's own doubles, one comparison at a time."""
    ranks = []
    for row, known, wanted in zip(scores, easy, hard, strict=True):
        others = [score for entity, score in enumerate(row) if entity not in known | wanted]
        for own in (row[entity] for entity in sorted(wanted)):
            above = sum(not math.isnan(s) and (math.isnan(own) or s > own) for s in others)
            equal = sum(math.isnan(s) or s == own for s in others)
            ranks.append((1 + above, 1 + above + equal))
    return ranks


@FIXTURE
@given(cases() | cases((math.nan, -math.inf, 0.0, 1.0)))
def test_ranks_are_those_of_a_naive_ranker(path, case):
    scores, easy, hard = case
    ranks = rank(Fixed(scores), query_set(easy, hard), BY)
    assert list(zip(ranks.optimistic, ranks.pessimistic, strict=True)) == naive_ranks(scores, easy, hard)
    assert ranks.realistic.tolist() == [(best + worst) / 2 for best, worst in naive_ranks(scores, easy, hard)]
    assert ranks.not_numbers.tolist() == [sum(map(math.isnan, row)) for row in scores]
    assert ranks.constant.tolist() == [len({repr(score) for score in row}) == 1 for row in scores]


def test_wide_rows_of_single_precision_are_counted_exactly(path):
    """Several blocks a row, many hard answers, many ties."""
    random = np.random.default_rng(0)
    scores = torch.from_numpy(random.integers(0, 50, (3, 9001)).astype(np.float32))
    answers = [random.choice(9001, 550, replace=False).tolist() for _ in range(3)]
    easy, hard = [set(row[:500]) for row in answers], [set(row[500:]) for row in answers]
    model = Fixed(scores)
    model.table = scores
    ranks = rank(model, query_set(easy, hard), BY)
    found = list(zip(ranks.optimistic, ranks.pessimistic, strict=True))
    assert found == naive_ranks(scores.tolist(), easy, hard)


@FIXTURE
@given(cases(), st.integers(0, 99))
def test_shuffling_the_ids_changes_nothing(path, case, seed):
    scores, easy, hard = case
    order = np.random.default_rng(seed).permutation(len(scores[0]))
    moved = np.empty_like(np.array(scores))
    moved[:, order] = scores
    rename = lambda sets: [{int(order[e]) for e in s} for s in sets]  # noqa: E731
    assert rank(Fixed(moved), query_set(rename(easy), rename(hard)), BY).metrics() == pytest.approx(
        rank(Fixed(scores), query_set(easy, hard), BY).metrics()
    )


@pytest.mark.parametrize("value", [0.0, math.nan, -math.inf])
def test_a_constant_scorer_gets_what_chance_gives(path, value):
    universe = 1001
    ranks = rank(Fixed(np.full((1, universe), value)), query_set([set()], [{3}]), BY)
    assert ranks.metrics()["mrr"] == pytest.approx(1 / (1 + (universe - 1) / 2))
    assert ranks.metrics()["hits@10"] == 0
    assert ranks.constant.tolist() == [True]


def test_scores_that_are_not_numbers_never_help(path):
    table = [[math.nan, 1.0, 2.0, math.nan], [1.0, math.nan, math.nan, math.nan]]
    ranks = rank(Fixed(table), query_set([set(), set()], [{0}, {0}]), BY)
    assert ranks.not_numbers.tolist() == [2, 3]
    # An answer without a number is behind all numbers; of rivals without one it is half before, half behind.
    assert (ranks.optimistic.tolist(), ranks.pessimistic.tolist()) == ([3.0, 1.0], [4.0, 4.0])


def test_shapes_that_share_batches_are_ranked_as_if_alone(path, monkeypatch):
    random = np.random.default_rng(1)
    model = Fixed(random.integers(0, 9, (7, 20)))
    sets = [
        query_set([{0}] * count, [set(random.choice(range(1, 20), 3, replace=False).tolist()) for _ in range(count)])
        for count in (5, 1, 7, 2)
    ]
    alone = [rank(model, queries, BY).realistic.tolist() for queries in sets]
    monkeypatch.setattr(ranking, "batch_height", lambda *_: 4)
    done = []
    together = rank_together(model, sets, BY, report=done.append)
    assert [ranks.realistic.tolist() for ranks in together] == alone
    assert done == [4, 8, 12, 15]


@pytest.mark.parametrize("name", ["flex", "betae", "cone"])
def test_candidates_are_made_once_and_ranks_stay_the_same(name, monkeypatch):
    model = make(name).float()
    random = np.random.default_rng(1)
    hard = [set(random.choice(NUM_ENTITIES, 3, replace=False).tolist()) for _ in range(NUM_ENTITIES)]
    queries = query_set([set()] * NUM_ENTITIES, hard)
    by = interpretation(model)
    monkeypatch.setattr(ranking, "batch_height", lambda *_: 2)
    made = []
    candidates = model.candidates
    monkeypatch.setattr(model, "candidates", lambda rows: made.append(rows) or candidates(rows))
    evaluated = evaluate(model, {"1p": queries, "again": queries}, by).shapes
    assert made.count(slice(None)) == 1
    ranks = rank(model, queries, by)
    assert made.count(slice(None)) == 2
    assert model._kept is None
    monkeypatch.setattr(model, "keeping_candidates", nullcontext)
    plain = rank(model, queries, by)
    for values in ("optimistic", "pessimistic"):
        assert getattr(ranks, values).tolist() == getattr(plain, values).tolist()
    for values in evaluated.values():
        assert values.values["mrr"].tolist() == plain.per_query()["mrr"].tolist()


def test_batches_shrink_as_the_graph_grows():
    class Sized:
        def __init__(self, entities):
            self.num_entities = entities

    heights = [ranking.batch_height(Sized(entities)) for entities in (14_505, 1_000_000, 100_000_000)]
    assert heights == [433, 6, 1]


def test_the_baseline_knows_what_a_relation_usually_leads_to():
    from flexkg.evaluation.baseline import RelationFrequency
    from flexkg.kg.graph import Graph

    graph = Graph.from_triples(np.array([[0, 0, 3], [1, 0, 3], [2, 0, 4]]), 5, 1)
    baseline = RelationFrequency(graph)
    scores = baseline.project(baseline.entity(torch.tensor([0])), torch.tensor([0]))
    assert scores[0].tolist() == pytest.approx([0, 0, 0, 2 / 3, 1 / 3])
    assert baseline.project(scores, torch.tensor([1]))[0].tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0, 0])
