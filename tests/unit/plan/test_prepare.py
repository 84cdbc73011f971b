"""Rewriting queries for what an interpretation has."""

from __future__ import annotations

import pytest
import torch

from flexkg.errors import LimitError, UnsupportedOperator
from flexkg.plan.algebra import Operator
from flexkg.plan.prepare import Interpretation, Union, prepare, prepare_groups, prepare_terms
from flexkg.query.shapes import SHAPES, key_of
from flexkg.query.terms import And, Any, Entity, Implies, Minus, Not, Or, Project, Xor

POINTS = frozenset({Operator.ENTITY, Operator.PROJECT, Operator.INTERSECT})
CONES = POINTS | {Operator.NEGATE}
A, B, C = (Project(0, Entity(number)) for number in range(3))
INSTEAD = {Operator.NEGATE: ("betae", "cone", "flex")}


def by(operators, union=Union.DNF, name="query2box"):
    return Interpretation(frozenset(operators), union, name, INSTEAD)


def test_what_can_be_run_stays_as_it_is():
    query = And(A, Not(B))
    assert prepare(query, by(CONES)).terms == (query,)
    assert prepare(query, by(CONES)).notes == ()


def test_unions_are_pulled_to_the_top():
    parts = prepare(Project(2, Or(A, B, C)), by(POINTS))
    assert parts.terms == (Project(2, A), Project(2, B), Project(2, C))
    assert "part by part" in parts.notes[-1]


def test_unions_by_de_morgan():
    parts = prepare(Or(A, B), by(CONES, "demorgan"))
    assert parts.terms == (Not(And(Not(A), Not(B))),)
    assert parts.notes == ("a | b is computed as !(!a & !b)",)


def test_native_unions_stay():
    assert prepare(Or(A, B), by(CONES | {Operator.UNITE}, "native")).terms == (Or(A, B),)
    with pytest.raises(UnsupportedOperator, match="union"):
        prepare(Or(A, B), by(CONES, "native"))


def test_a_union_operator_is_not_used_unless_asked_for():
    assert len(prepare(Or(A, B), by(CONES | {Operator.UNITE}, "dnf")).terms) == 2


def test_derived_connectives_are_written_out_and_noted():
    parts = prepare(Minus(A, B), by(CONES))
    assert parts.terms == (And(A, Not(B)),)
    assert parts.notes == ("a \\ b is computed as a & !b",)
    assert prepare(Minus(A, B), by(CONES | {Operator.MINUS})).terms == (Minus(A, B),)
    assert set(prepare(Implies(A, B), by(CONES)).terms) == {Not(A), B}
    assert len(prepare(Xor(A, B), by(CONES)).terms) == 2
    assert prepare(Xor(A, B), by(CONES | {Operator.XOR})).terms == (Xor(A, B),)


def test_native_connectives_stay_whole_beside_unions():
    mine = by(CONES | {Operator.XOR, Operator.IMPLIES})
    nested = Xor(Implies(A, B), C)
    assert prepare(And(nested, Or(A, B)), mine).terms == (And(nested, A), And(nested, B))
    assert prepare(Or(Not(nested), C), mine).terms == (Not(nested), C)
    assert len(prepare(Xor(Or(A, B), C), mine).terms) == 3, "a union inside has to come out"


@pytest.mark.parametrize("union", ["dnf", "demorgan"])
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_is_prepared_without_union(name, union):
    for term in prepare(SHAPES[name], by(CONES, union)).terms:
        assert "|" not in key_of(term)


def test_what_cannot_be_expressed_is_named():
    with pytest.raises(UnsupportedOperator) as caught:
        prepare(SHAPES["2in"], by(POINTS))
    assert str(caught.value) == "query2box cannot express negation (in a 2in query); try betae, cone or flex."
    with pytest.raises(
        UnsupportedOperator, match=r"query2box cannot express difference \(in a query of shape epep-\)\."
    ):
        prepare(Minus(A, B), by(POINTS))
    with pytest.raises(UnsupportedOperator, match="nothing anchors"):
        prepare(Project(0, Any()), by(CONES))


def test_growth_is_capped():
    with pytest.raises(LimitError):
        prepare(And(*(Or(A, Project(2 * k, B)) for k in range(1, 30))), by(POINTS))


def test_owners_of_terms():
    prepared, _ = prepare_terms([A, Or(A, B), B], by(POINTS))
    assert prepared.owner.tolist() == [0, 1, 1, 2]
    assert prepared.count == 3
    assert sum(step.count for step in prepared.plan.steps) == 4, "equal parts are computed once"
    assert prepare_terms([A, B], by(POINTS))[0].owner is None


def test_owners_of_groups():
    prepared = prepare_groups([(SHAPES["1p"], 2), (SHAPES["up"], 3), (SHAPES["2p"], 1)], by(POINTS))
    assert prepared.owner.tolist() == [0, 1, 2, 3, 4, 2, 3, 4, 5]
    assert prepared.count == 6
    assert prepare_groups([(SHAPES["2p"], 4)], by(POINTS)).owner is None


def test_a_plan_moves_and_its_grounding_is_overwritten_in_place():
    prepared = prepare_groups([(SHAPES["2i"], 2), (SHAPES["up"], 2)], by(POINTS)).to("meta")
    assert prepared.owner.device.type == "meta"
    plan = prepare_groups([(SHAPES["2i"], 2)], by(POINTS)).plan
    first = plan.ground([(torch.zeros(2, 2, dtype=torch.int64), torch.zeros(2, 2, dtype=torch.int64))])
    before = [ids.data_ptr() for ids in first.ids if ids is not None]
    first.copy_(plan.ground([(torch.ones(2, 2, dtype=torch.int64), torch.ones(2, 2, dtype=torch.int64))]))
    assert all(bool((ids == 1).all()) for ids in first.ids if ids is not None)
    assert [ids.data_ptr() for ids in first.ids if ids is not None] == before
