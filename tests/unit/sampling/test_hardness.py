"""The number of missing links of an answer is the cheapest proof's."""

from __future__ import annotations

import math

import pytest

from flexkg.query.terms import And, Any, Entity, Iff, Implies, Minus, Not, Or, Project, Xor
from flexkg.sampling.build import Pair, sample_queries
from flexkg.sampling.hardness import missing_links
from laws.strategies import naive_answers
from unit.sampling.test_sampler import TEMPLATES, index, random_plain, smaller_than, terms_of


def cost(term, entity, large, small) -> float:
    """The least number of edges of `large` without `small` that make the entity an answer, by plain recursion."""
    holds = lambda part: entity in naive_answers(part, large)  # noqa: E731
    free = lambda truth: 0 if truth else math.inf  # noqa: E731
    match term:
        case Entity(id=id):
            return free(id == entity)
        case Any():
            return 0
        case Project(relation=relation, operand=operand):
            sources = range(large.num_entities)
            return min(
                (
                    cost(operand, head, large, small) + (entity not in small.step(frozenset({head}), relation))
                    for head in sources
                    if entity in large.step(frozenset({head}), relation)
                ),
                default=math.inf,
            )
        case Not(operand=operand):
            return free(not holds(operand))
        case And():
            return sum(cost(part, entity, large, small) for part in term.operands)
        case Or():
            return min(cost(part, entity, large, small) for part in term.operands)
    left, right = cost(term.left, entity, large, small), cost(term.right, entity, large, small)
    no_left, no_right = free(not holds(term.left)), free(not holds(term.right))
    match term:
        case Minus():
            return left + no_right
        case Xor():
            return min(left + no_right, right + no_left)
        case Implies():
            return min(no_left, right)
        case Iff():
            return min(left + right, no_left + no_right)


@pytest.mark.parametrize("shape", TEMPLATES)
def test_missing_links_are_those_of_the_cheapest_proof(shape):
    large = random_plain(entities=25, relations=3, edges=90)
    small = smaller_than(large, share=0.6)
    pair = Pair.of(index(large), index(small))
    queries = sample_queries(pair, shape, TEMPLATES[shape], 30, cap=20, seed=0, split="test")
    links = missing_links(pair, queries)
    hard = queries.answers["hard"]
    assert len(links) == len(hard.members) > 0
    for row, term in enumerate(terms_of(queries)):
        span = slice(hard.offsets[row], hard.offsets[row + 1])
        expected = [cost(term, entity, large, small) for entity in hard.row(row).tolist()]
        assert links[span].tolist() == expected
    if shape in ("1p", "2i", "3i", "2p", "3p", "ip", "pi"):
        assert links.min() >= 1
