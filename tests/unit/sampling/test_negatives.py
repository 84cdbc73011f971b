"""Negatives never answer, positives always do, and both are uniform."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flexkg.errors import DataError
from flexkg.sampling.draws import Draws
from flexkg.sampling.negatives import TrainingAnswers
from flexkg.sampling.queries import Column, QuerySet


def query_set(answers: list[set[int]], complement: bool = False) -> QuerySet:
    offsets = np.concatenate([[0], np.cumsum([len(a) for a in answers])]).astype(np.int64)
    members = np.array([e for a in answers for e in sorted(a)], dtype=np.int32)
    zeros = np.zeros((len(answers), 1), np.int32)
    return QuerySet("1p", "ep", zeros, zeros, {"train": Column(offsets, members)}, complement)


@st.composite
def listed_sets(draw):
    universe = draw(st.integers(2, 40))
    some = st.sets(st.integers(0, universe - 1), min_size=1, max_size=universe - 1)
    return universe, draw(st.lists(some, min_size=1, max_size=5)), draw(st.lists(some, max_size=3))


@given(listed_sets(), st.integers(0, 100))
def test_negatives_never_answer_and_positives_always_do(case, seed):
    universe, finite, cofinite = case
    everything = set(range(universe))
    answers = TrainingAnswers([query_set(finite), query_set(cofinite, complement=True)], universe)
    truth = [*finite, *(everything - listed for listed in cofinite)]
    queries = torch.arange(len(truth))
    random = Draws(seed, 5)
    for query, negatives in enumerate(answers.negatives(queries, 64, random).tolist()):
        assert set(negatives) <= everything - truth[query]
    for query, positive in enumerate(answers.positives(queries, random).tolist()):
        assert positive in truth[query]
    for lists in {1, len(truth)}:
        ids, allowed = answers.shared_negatives(queries, 50, lists, random)
        for query in range(len(truth)):
            expected = [entity not in truth[query] for entity in ids[query * lists // len(truth)].tolist()]
            assert allowed[query].tolist() == expected
    assert answers.weights(queries).tolist() == pytest.approx([(4 + len(a)) ** -0.5 for a in truth])
    assert answers.weights(queries, 0.25).tolist() == pytest.approx([(4 + len(a)) ** 0.25 for a in truth])


@given(listed_sets(), st.sampled_from([0.0, 0.25]))
def test_lists_hold_all_answers(case, spare):
    universe, finite, cofinite = case
    sets = [query_set(finite), *([query_set(cofinite, complement=True)] if cofinite else [])]
    answers = TrainingAnswers(sets, universe, spare=spare)
    truth = [*finite, *(set(range(universe)) - listed for listed in cofinite)]
    order = torch.arange(len(truth)).flip(0)
    lists = answers.lists(order)
    assert lists.ids.shape == (len(truth), universe if spare else max(map(len, finite + cofinite)))
    values = torch.randn(len(truth), universe, dtype=torch.float64, requires_grad=True)
    expected = torch.zeros_like(values)
    for row, query in enumerate(order.tolist()):
        expected[row, sorted(truth[query])] = 1
    torch.testing.assert_close(lists.total(values), (values * expected).sum(dim=1))
    assert torch.equal(torch.autograd.grad(lists.total(values).sum(), values)[0], expected)


@pytest.mark.parametrize("complement", [False, True])
def test_draws_are_uniform(complement):
    listed, universe, count = {0, 1, 5, 6, 7, 19}, 20, 40_000
    answers = TrainingAnswers([query_set([listed], complement)], universe)
    random = Draws(0, 0)
    inside, outside = listed, set(range(universe)) - listed
    if complement:
        inside, outside = outside, inside
    negatives = torch.bincount(answers.negatives(torch.tensor([0]), count, random)[0], minlength=universe)
    positives = torch.bincount(answers.positives(torch.zeros(count, dtype=torch.int64), random), minlength=universe)
    for counts, support in ((negatives, outside), (positives, inside)):
        expected = count / len(support)
        assert set(torch.nonzero(counts).view(-1).tolist()) == support
        # Chi-square with at most 13 degrees of freedom: beyond 40 once in 10,000 seeds; the seed is fixed.
        assert sum((int(counts[e]) - expected) ** 2 / expected for e in support) < 40


@pytest.mark.parametrize(
    ("listed", "complement"), [(set(range(5)), False), (set(), False), (set(), True), (set(range(5)), True)]
)
def test_a_query_without_negative_or_positive_is_refused(listed, complement):
    with pytest.raises(DataError, match="every entity or by none"):
        TrainingAnswers([query_set([listed], complement)], 5)
