"""Whatever a query is rewritten into, its exact answers stay the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flexkg.errors import LimitError
from flexkg.plan.algebra import Operator
from flexkg.plan.prepare import Interpretation, prepare
from flexkg.query.shapes import key_of
from laws.strategies import graphs, naive_answers, terms

BASE = frozenset({Operator.ENTITY, Operator.ANY, Operator.PROJECT, Operator.INTERSECT, Operator.NEGATE})
EXTRA = (Operator.MINUS, Operator.XOR, Operator.IMPLIES, Operator.IFF)


@pytest.mark.parametrize("union", ["dnf", "demorgan", "native"])
@given(data=st.data())
def test_rewriting_keeps_the_answers(union, data):
    graph = data.draw(graphs())
    query = data.draw(terms(graph.num_entities, graph.num_relations, max_depth=4, printable=False))
    native = BASE | data.draw(st.frozensets(st.sampled_from(EXTRA)))
    by = Interpretation(native | {Operator.UNITE} if union == "native" else native, union)
    try:
        parts = prepare(query, by)
    except LimitError:
        return
    answers = frozenset().union(*(naive_answers(term, graph) for term in parts.terms))
    assert answers == naive_answers(query, graph)
    if union != "native":
        assert not any("|" in key_of(term) for term in parts.terms)
    if union != "dnf":
        assert len(parts.terms) == 1
