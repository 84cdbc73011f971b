"""Rewrites on examples; that they keep all answers is a law."""

from __future__ import annotations

import time

import pytest

from flexkg.errors import LimitError
from flexkg.query import shapes
from flexkg.query.rewrite import de_morgan, derive, dnf, push_negation
from flexkg.query.terms import And, Entity, Iff, Implies, Minus, Not, Or, Project, Xor

a, b, c, d = (Project(0, Entity(id)) for id in range(4))


def test_push_negation():
    assert push_negation(Not(And(a, Or(b, Not(c))))) == Or(Not(a), And(Not(b), c))
    assert push_negation(Not(Xor(a, b))) == Iff(a, b)
    assert push_negation(Not(Iff(a, b))) == Xor(a, b)
    assert push_negation(Not(Minus(a, b))) == Or(Not(a), b)
    assert push_negation(Not(Implies(a, b))) == And(a, Not(b))
    assert push_negation(Not(Project(2, Not(Or(a, b))))) == Not(Project(2, And(Not(a), Not(b))))


def test_de_morgan_gives_the_published_forms():
    for name in ("2u", "up"):
        assert de_morgan(shapes.SHAPES[name]) == shapes.DE_MORGAN_SHAPES[f"{name}-DM"]
    assert de_morgan(Or(Not(a), b)) == Not(And(a, Not(b)))


def test_derive_notes_what_it_did():
    derived = derive(Minus(Xor(a, b), c), frozenset({And, Or, Not}))
    assert derived.term == And(Or(And(a, Not(b)), And(Not(a), b)), Not(c))
    assert derived.notes == ("a ^ b is computed as (a & !b) | (!a & b)", "a \\ b is computed as a & !b")


def test_derive_without_or():
    assert derive(Or(a, b), frozenset({And, Not})).term == Not(And(Not(a), Not(b)))
    assert derive(Implies(a, b), frozenset({And, Not})).term == Not(And(a, Not(b)))


def test_derive_leaves_what_is_allowed_and_what_cannot_be_written():
    assert derive(Xor(a, b), frozenset({Xor})).term == Xor(a, b)
    assert derive(And(Minus(a, b), c), frozenset({And, Or})).term == And(Minus(a, b), c)


def test_dnf():
    assert dnf(a) == (a,)
    assert dnf(Project(2, Or(a, b))) == (Project(2, a), Project(2, b))
    assert dnf(And(Or(a, b), c)) == (And(a, c), And(b, c))
    assert dnf(Not(Project(2, Or(a, b)))) == (And(Not(Project(2, a)), Not(Project(2, b))),)
    assert dnf(Implies(a, b)) == (Not(a), b)
    assert dnf(Not(Or(a, b))) == (And(Not(a), Not(b)),)


@pytest.mark.parametrize("name", [name for name in shapes.SHAPES if "u" not in name])
def test_dnf_leaves_a_query_without_unions_alone(name):
    assert dnf(shapes.SHAPES[name]) == (shapes.SHAPES[name],)


def test_dnf_keeps_a_complement_without_unions_whole():
    for term in shapes.DE_MORGAN_SHAPES.values():
        assert dnf(term) == (term,)
    assert dnf(Or(Not(And(a, b)), Minus(c, d))) == (Not(And(a, b)), Minus(c, d))


def test_dnf_is_capped():
    wide = And(*(Or(a, Project(2, Entity(id))) for id in range(40)))
    with pytest.raises(LimitError, match="more than 1,000"):
        dnf(wide)
    with pytest.raises(LimitError, match="more than 3"):
        dnf(And(Or(a, b), Or(c, d)), 3)
    assert len(dnf(And(Or(a, b), Or(c, d)), 4)) == 4


def chain(kind, length):
    term = a
    for _ in range(length):
        term = kind(term, b)
    return term


def buried(length):
    term = a
    for _ in range(length):
        term = Xor(Not(Project(2, term)), b)
    return term


@pytest.mark.parametrize(
    "rewrite",
    [lambda: dnf(chain(Xor, 60)), lambda: dnf(buried(20)), lambda: derive(chain(Iff, 60), frozenset({And, Not}))],
    ids=["xor", "buried", "derive"],
)
def test_growth_ends_quickly(rewrite):
    started = time.perf_counter()
    with pytest.raises(LimitError, match=r"limit|more than"):
        rewrite()
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize("kind", [Minus, Implies])
def test_deep_terms_are_rewritten_without_recursion(kind):
    deep = chain(kind, 1_500)
    assert push_negation(Not(deep)) is not None
    assert de_morgan(deep) is not None
    assert derive(deep, frozenset({And, Or, Not})) is not None
    assert shapes.split(deep)[1][0] == 0
