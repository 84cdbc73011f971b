"""How batches are compiled."""

from __future__ import annotations

from flexkg.plan.algebra import OPERATOR_OF, Operator
from flexkg.plan.compiler import compile_groups, compile_terms
from flexkg.query.shapes import SHAPES
from flexkg.query.terms import And, Entity, Project, Term


def test_a_mixed_batch_of_the_fourteen_shapes_takes_few_calls():
    plan = compile_groups([(template, 5) for template in SHAPES.values()])
    operators = [step.operator for step in plan.steps]
    assert operators.count(Operator.PROJECT) == 3
    assert operators.count(Operator.ENTITY) == 1
    assert len(operators) <= 10


def test_every_row_of_a_template_is_planned_once():
    plan = compile_groups([(SHAPES["3p"], 7)])
    assert [(step.operator, step.count) for step in plan.steps] == [("entity", 7)] + [("project", 7)] * 3


def test_intersections_of_different_arity_are_different_calls():
    plan = compile_groups([(SHAPES["2i"], 2), (SHAPES["3i"], 3)])
    calls = [(step.count, len(step.operands)) for step in plan.steps if step.operator == Operator.INTERSECT]
    assert sorted(calls) == [(2, 2), (3, 3)]


def test_equal_parts_of_ad_hoc_queries_are_merged():
    shared = Project(0, Entity(1))
    plan, _ = compile_terms([Project(2, shared), And(shared, Project(4, shared)), shared])
    assert sum(step.count for step in plan.steps) == 5  # entity, shared, two projections of it, the intersection


def test_every_kind_of_term_has_an_operator():
    assert set(OPERATOR_OF) == set(Term.__args__)
    assert set(OPERATOR_OF.values()) == set(Operator)
