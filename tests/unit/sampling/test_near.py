"""Near misses: what only a query's negation excludes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flexkg.engine.engine import Engine
from flexkg.kg.graph import Graph
from flexkg.query.shapes import SHAPES, build, key_of
from flexkg.query.terms import And, Entity, Minus, Not, Or, Project
from flexkg.sampling import near
from flexkg.sampling.draws import Draws
from flexkg.sampling.near import NearLists, NearMisses, relaxed
from flexkg.sampling.queries import Column, QuerySet

ENTITIES, RELATIONS = 7, 2
A, B, C = (Project(relation, Entity(relation)) for relation in range(3))
NEGATED = ("2in", "3in", "inp", "pin", "pni")


@st.composite
def asked(draw):
    """A small graph, and queries of one shape over it."""
    edge = st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1))
    edges = np.array(sorted(draw(st.sets(edge, min_size=1, max_size=30))))
    shape = draw(st.sampled_from([*SHAPES, "epep-"]))
    key = key_of(SHAPES[shape]) if shape in SHAPES else shape
    count = draw(st.integers(0, 4))
    rows = lambda sign, limit: draw(  # noqa: E731
        st.lists(st.lists(st.integers(0, limit - 1), min_size=key.count(sign), max_size=key.count(sign)),
                 min_size=count, max_size=count)
    )  # fmt: skip
    entities, relations = rows("e", ENTITIES), rows("p", 2 * RELATIONS)
    column = Column(np.arange(count + 1), np.zeros(count, np.int32))
    queries = QuerySet(
        shape, key, np.array(entities, np.int32).reshape(count, key.count("e")),
        np.array(relations, np.int32).reshape(count, key.count("p")), {"train": column},
    )  # fmt: skip
    return Graph.from_triples(edges, ENTITIES, RELATIONS), queries


def answers(engine, term):
    (listed, complement), *_ = engine.answer([term]).rows()
    return set(range(ENTITIES)) - set(listed) if complement else set(listed)


@given(asked())
def test_they_answer_without_the_negation_and_not_with_it(case):
    graph, queries = case
    found = NearMisses(graph)(queries)
    if queries.shape not in (*NEGATED, "epep-"):
        assert found is queries
        return
    engine = Engine(graph)
    assert found.answers["train"] is queries.answers["train"]
    for entities, relations, row in zip(queries.entities, queries.relations, found.answers["near"].rows(), strict=True):
        query = build(queries.key, entities.tolist(), relations.tolist())
        assert set(row.tolist()) == answers(engine, relaxed(query)) - answers(engine, query)
        assert row.tolist() == sorted(row.tolist())


def test_what_is_left_of_a_query():
    assert relaxed(And(A, Not(B))) == A
    assert relaxed(And(A, B, Not(C))) == And(A, B)
    assert relaxed(Minus(A, B)) == A
    assert relaxed(Project(1, And(A, Not(B)))) == Project(1, A)
    assert relaxed(Or(And(A, Not(B)), C)) == Or(A, C)
    # Where nothing would be left, everything stays.
    for term in (A, And(A, B), Not(A), And(Not(A), Not(B))):
        assert relaxed(term) == term
    assert tuple(shape for shape, template in SHAPES.items() if relaxed(template) != template) == NEGATED


def test_of_many_an_even_part_is_taken(monkeypatch):
    monkeypatch.setattr(near, "_MOST", 4)
    # 0 reaches all others by one relation and by the other: ten near misses.
    edges = np.array([[0, relation, tail] for relation in range(2) for tail in range(1, 11)])
    queries = QuerySet("2in", "epepn&2", np.zeros((2, 2), np.int32), np.array([[0, 2], [0, 1]], np.int32), {})
    found = NearMisses(Graph.from_triples(edges, 11, 2))(queries).answers["near"]
    assert [row.tolist() for row in found.rows()] == [[1, 3, 6, 8], []]


def listed(rows):
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    zeros = np.zeros((len(rows), 1), np.int32)
    column = Column(offsets, np.array([e for row in rows for e in row], np.int32))
    return QuerySet("2in", "epepn&2", zeros, zeros, {"near": column})


def test_they_come_first_where_there_are_any():
    plain = QuerySet("1p", "ep", np.zeros((2, 1), np.int32), np.zeros((2, 1), np.int32), {})
    lists = NearLists([plain, listed([[3, 5, 8], []])], spare=0.5)
    negatives = torch.full((4, 6), 99)
    drawn, near = lists.put(negatives, torch.tensor([2, 0, 3, 2]), 4, Draws(1, 2))
    assert torch.equal(near, drawn != 99)
    assert drawn[:, 4:].eq(99).all()
    assert drawn[[1, 2]].eq(99).all()
    assert set(drawn[[0, 3], :4].flatten().tolist()) <= {3, 5, 8}
    many, _ = lists.put(torch.full((1, 3000), 99), torch.tensor([2]), 3000, Draws(0, 0))
    assert torch.bincount(many[0])[[3, 5, 8]].tolist() == pytest.approx([1000] * 3, abs=120)
    assert lists.fits([plain, listed([[1, 2], [4, 6]])])
    assert not lists.fits([plain, listed([[1, 2, 3], [4, 6]])])
    lists.refill([plain, listed([[1, 2], [4, 6]])])
    drawn, near = lists.put(negatives, torch.tensor([2, 3, 0, 1]), 6, Draws(1, 2))
    assert torch.equal(near, drawn != 99)
    assert set(drawn[0].tolist()) <= {1, 2}
    assert set(drawn[1].tolist()) <= {4, 6}
    assert drawn[2:].eq(99).all()
