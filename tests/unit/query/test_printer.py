"""The canonical text of a term."""

from __future__ import annotations

import pytest

from flexkg.errors import LimitError, QueryError
from flexkg.query import to_text
from flexkg.query.terms import And, Any, Entity, Iff, Implies, Minus, Not, Or, Project, Xor
from flexkg.query.tokens import written
from laws.strategies import PlainNames

NAMES = PlainNames(4, 4)
a, b, c = (Project(0, Entity(id)) for id in range(3))


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (a, "r0(e0, ?x)"),
        (Project(1, Entity(0)), "r0(?x, e0)"),
        (Project(2, Any()), "r1(?y, ?x)"),
        (Project(2, a), "r1(?y, ?x) & r0(e0, ?y)"),
        (Project(5, Project(3, a)), "r2(?x, ?y) & r1(?y, ?z) & r0(e0, ?z)"),
        (Not(a), "!r0(e0, ?x)"),
        (Not(Not(a)), "!!r0(e0, ?x)"),
        (Not(And(a, b)), "!(r0(e0, ?x) & r0(e1, ?x))"),
        (And(a, Or(b, c)), "r0(e0, ?x) & (r0(e1, ?x) | r0(e2, ?x))"),
        (Or(And(a, b), c), "r0(e0, ?x) & r0(e1, ?x) | r0(e2, ?x)"),
        (Minus(Minus(a, b), c), "r0(e0, ?x) \\ r0(e1, ?x) \\ r0(e2, ?x)"),
        (Minus(a, Minus(b, c)), "r0(e0, ?x) \\ (r0(e1, ?x) \\ r0(e2, ?x))"),
        (Implies(a, Implies(b, c)), "r0(e0, ?x) -> r0(e1, ?x) -> r0(e2, ?x)"),
        (Implies(Implies(a, b), c), "(r0(e0, ?x) -> r0(e1, ?x)) -> r0(e2, ?x)"),
        (Iff(Xor(a, b), c), "r0(e0, ?x) ^ r0(e1, ?x) <-> r0(e2, ?x)"),
        (Project(2, Or(a, b)), "r1(?y, ?x) & (r0(e0, ?y) | r0(e1, ?y))"),
        (
            And(*(Project(2, Any()) for _ in range(5))),
            "r1(?y, ?x) & r1(?z, ?x) & r1(?w, ?x) & r1(?v1, ?x) & r1(?v2, ?x)",
        ),
    ],
)
def test_text(term, text):
    assert to_text(term, NAMES) == f"?x : {text}"


@pytest.mark.parametrize("term", [Entity(0), Any(), Not(Entity(1)), And(a, Any()), Project(0, Not(Entity(2)))])
def test_sets_without_a_text(term):
    with pytest.raises(QueryError, match="as a condition of its own"):
        to_text(term, NAMES)


def test_too_deep_for_a_text():
    term = a
    for _ in range(5_000):
        term = Not(term)
    with pytest.raises(LimitError, match="the limit is 64"):
        to_text(term, NAMES)


@pytest.mark.parametrize("name", ["France", "ex:knows", "d'Ivoire", "St.Lucia", "x-y", "_a", "3D", "日本", "Or"])
def test_bare_names(name):
    assert written(name) == name


@pytest.mark.parametrize("name", ["United States", "or", "NOT", "a/b", "a.", "-a", "a--b", "?x", "e (f)", "'a", "1,5"])
def test_quoted_names(name):
    assert written(name) == f'"{name}"'


def test_escapes():
    assert written('a"b\\c') == r'"a\"b\\c"'
