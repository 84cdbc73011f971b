"""Ranks are those of a naive ranker; constant scores earn chance; ids mean nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flexkg.evaluation.ranking import rank
from flexkg.plan.algebra import Operator
from flexkg.plan.prepare import Interpretation, Union
from flexkg.sampling.queries import Column, QuerySet

BY = Interpretation(frozenset(Operator), Union.NATIVE)


class Fixed:
    """Scores by a table: the state of a 1p query is its entity's id."""

    def __init__(self, table):
        self.table = torch.as_tensor(table, dtype=torch.float64)
        self.num_entities = self.table.shape[1]
        self.operators = frozenset(Operator)

    def take(self, state, rows):
        return state[rows]

    def entity(self, ids):
        return ids

    def project(self, state, relations):
        return state

    def score_all(self, state, owner=None, count=None):
        return self.table[state].clone()


def column(sets):
    offsets = np.concatenate([[0], np.cumsum([len(s) for s in sets])]).astype(np.int64)
    return Column(offsets, np.array([e for s in sets for e in sorted(s)], np.int32))


def query_set(easy, hard):
    entities = np.arange(len(easy), dtype=np.int32)[:, None]
    return QuerySet("1p", "ep", entities, np.zeros_like(entities), {"easy": column(easy), "hard": column(hard)})


@st.composite
def cases(draw):
    universe = draw(st.integers(3, 12))
    count = draw(st.integers(1, 4))
    scores = [[draw(st.sampled_from([-1.0, 0.0, 0.5, 2.0])) for _ in range(universe)] for _ in range(count)]
    easy, hard = [], []
    for _ in range(count):
        answers = draw(st.sets(st.integers(0, universe - 1), min_size=1, max_size=universe - 1))
        split = draw(st.integers(1, len(answers)))
        hard.append(set(sorted(answers)[:split]))
        easy.append(answers - hard[-1])
    return scores, easy, hard


def naive_mrr(scores, easy, hard) -> float:
    means = []
    for row, known, wanted in zip(scores, easy, hard, strict=True):
        others = [score for entity, score in enumerate(row) if entity not in known | wanted]
        ranks = [1 + sum(s > row[e] for s in others) + sum(s == row[e] for s in others) / 2 for e in wanted]
        means.append(sum(1 / r for r in ranks) / len(ranks))
    return sum(means) / len(means)


@given(cases())
def test_ranks_are_those_of_a_naive_ranker(case):
    scores, easy, hard = case
    ranks = rank(Fixed(scores), query_set(easy, hard), BY)
    assert ranks.metrics()["mrr"] == pytest.approx(naive_mrr(scores, easy, hard))
    assert (ranks.optimistic <= ranks.realistic).all()
    assert (ranks.realistic <= ranks.pessimistic).all()


@given(cases(), st.integers(0, 99))
def test_shuffling_the_ids_changes_nothing(case, seed):
    scores, easy, hard = case
    order = np.random.default_rng(seed).permutation(len(scores[0]))
    moved = np.empty_like(np.array(scores))
    moved[:, order] = scores
    rename = lambda sets: [{int(order[e]) for e in s} for s in sets]  # noqa: E731
    assert rank(Fixed(moved), query_set(rename(easy), rename(hard)), BY).metrics() == pytest.approx(
        rank(Fixed(scores), query_set(easy, hard), BY).metrics()
    )


def test_a_constant_scorer_gets_what_chance_gives():
    universe = 1001
    metrics = rank(Fixed(np.zeros((1, universe))), query_set([set()], [{3}]), BY).metrics()
    assert metrics["mrr"] == pytest.approx(1 / (1 + (universe - 1) / 2))
    assert metrics["hits@10"] == 0


def test_scores_that_are_not_numbers_are_counted_and_come_last():
    scores = np.array([[np.nan, 1.0, 2.0, np.nan]])
    ranks = rank(Fixed(scores), query_set([set()], [{0}]), BY)
    assert ranks.not_numbers == 2
    assert ranks.optimistic.tolist() == [3.0]


def test_the_baseline_knows_what_a_relation_usually_leads_to():
    from flexkg.evaluation.baseline import RelationFrequency
    from flexkg.kg.graph import Graph

    graph = Graph.from_triples(np.array([[0, 0, 3], [1, 0, 3], [2, 0, 4]]), 5, 1)
    baseline = RelationFrequency(graph)
    scores = baseline.project(baseline.entity(torch.tensor([0])), torch.tensor([0]))
    assert scores[0].tolist() == pytest.approx([0, 0, 0, 2 / 3, 1 / 3])
    assert baseline.project(scores, torch.tensor([1]))[0].tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0, 0])
