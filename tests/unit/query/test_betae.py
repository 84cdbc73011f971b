"""The nested-list form of the benchmarks."""

from __future__ import annotations

import time

import pytest

from flexkg.errors import FlexError, LimitError, QueryError
from flexkg.query import betae, shapes
from flexkg.query.terms import And, Any, Entity, Iff, Implies, Minus, Not, Or, Project, Xor

PUBLISHED = {
    "1p": [1, [2]],
    "2p": [1, [2, 3]],
    "3p": [1, [2, 3, 4]],
    "2i": [[1, [2]], [3, [4]]],
    "3i": [[1, [2]], [3, [4]], [5, [6]]],
    "ip": [[[1, [2]], [3, [4]]], [5]],
    "pi": [[1, [2, 3]], [4, [5]]],
    "2in": [[1, [2]], [3, [4, -2]]],
    "3in": [[1, [2]], [3, [4]], [5, [6, -2]]],
    "inp": [[[1, [2]], [3, [4, -2]]], [5]],
    "pin": [[1, [2, 3]], [4, [5, -2]]],
    "pni": [[1, [2, 3, -2]], [4, [5]]],
    "2u": [[1, [2]], [3, [4]], [-1]],
    "up": [[[1, [2]], [3, [4]], [-1]], [5]],
    "2u-DM": [[[1, [2, -2]], [3, [4, -2]]], [-2]],
    "up-DM": [[[1, [2, -2]], [3, [4, -2]]], [-2, 5]],
}


def read(query):
    return betae.from_nested(query, entity=int, relation=int)


@pytest.mark.parametrize(("name", "nested"), PUBLISHED.items())
def test_published_forms(name, nested):
    term = read(nested)
    assert shapes.shape_name(term) == name
    assert betae.to_nested(term) == nested
    assert shapes.split(term)[0] == (shapes.SHAPES | shapes.DE_MORGAN_SHAPES)[name]


def test_fourteen_shapes():
    assert list(shapes.SHAPES) == [name for name in PUBLISHED if "DM" not in name]
    assert len(shapes.SHAPES) == 14
    assert shapes.shape_name(Project(0, Any())) is None


def test_what_the_forms_mean():
    p, q = Project(2, Entity(1)), Project(4, Entity(3))
    assert read(PUBLISHED["2p"]) == Project(3, p)
    assert read(PUBLISHED["pni"]) == And(Not(Project(3, p)), Project(5, Entity(4)))
    assert read(PUBLISHED["up"]) == Project(5, Or(p, q))
    assert read(PUBLISHED["up-DM"]) == Project(5, Not(And(Not(p), Not(q))))


@pytest.mark.parametrize(("marker", "kind"), [(-3, Xor), (-4, Implies), (-5, Iff), (-6, Minus)])
def test_the_other_connectives(marker, kind):
    nested = [[1, [2]], [3, [4]], [marker]]
    term = kind(Project(2, Entity(1)), Project(4, Entity(3)))
    assert read(nested) == term
    assert betae.to_nested(term) == nested
    with pytest.raises(QueryError, match="needs two queries before it, not 3"):
        read([[1, [2]], [3, [4]], [3, [4]], [marker]])


def test_null_is_any():
    assert read([None, [3]]) == Project(3, Any())
    assert betae.to_nested(Project(3, Any())) == [None, [3]]


def test_tuples_are_lists():
    assert read((((1, (2,)), (3, (4,)), (-1,)), (5,))) == read(PUBLISHED["up"])


def test_identifiers():
    query = [["/m/1", ["+borders", "-speaks"]], ["/m/2", ["-uses", -2]]]
    entities, relations = {"/m/1": 1, "/m/2": 2}, {"+borders": 0, "-speaks": 3, "-uses": 5}
    term = betae.from_nested(query, entity=entities.__getitem__, relation=relations.__getitem__)
    assert term == And(Project(3, Project(0, Entity(1))), Not(Project(5, Entity(2))))


@pytest.mark.parametrize(("name", "nested"), PUBLISHED.items())
def test_groundings_are_in_slot_order(name, nested):
    key, entities, relations = betae.read_grounding(nested)
    template, split_entities, split_relations = shapes.split(read(nested))
    assert (shapes.template_of(key), tuple(entities), tuple(relations)) == (template, split_entities, split_relations)
    assert shapes.ground(template, entities, relations) == read(nested)


def test_slots_count_operands_before_their_projection():
    term = Project(9, And(Project(7, Project(8, Entity(5))), Project(6, Entity(4))))
    assert shapes.split(term)[1:] == ((5, 4), (8, 7, 6, 9))


@pytest.mark.parametrize("key", ["", "p", "ee", "e&", "ep&2", "q", "ep|", "e&0", "epx"])
def test_a_string_that_is_no_key(key):
    with pytest.raises(ValueError, match="not the key of a template"):
        shapes.template_of(key)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (5, "cannot be a number, 5"),
        ("x", "cannot be a string"),
        (None, "cannot be null"),
        ({}, "cannot be an object"),
        ([], "two items or more"),
        ([1], "two items or more"),
        ([1, 2], "end in a list"),
        ([1, []], "empty list"),
        ([[], [1]], "two items or more"),
        ([[1, [2]], 3], "end in a list"),
        ([1, [2, [3]]], "cannot be a number, 1"),
        ([[1, [2]], [3, 4], [5, [6]]], "end in a list"),
        ([True, [2]], "A truth value"),
        ([1, [True]], "A truth value"),
        ([1.0, [2]], "A fraction"),
        ([1, [-2.0]], "A fraction"),
        ([1, [float("nan")]], "A fraction"),
        ([1, [None]], "Null cannot name"),
        ([1, [[2], 3]], "A list"),
        ([-1, [2]], "-1 is not an id"),
        ([1, [-7]], "-7 is not an id"),
        ([1, ["+r"]], "mixes integer ids and identifiers"),
        (["a", ["r"]], "gives no direction"),
        (["a", ["+"]], "gives no direction"),
        (["", ["+r"]], "identifier is empty"),
        ([[1, [2]], [-1]], "-1 (union) needs two queries or more"),
        ([[1, [2]], [-3]], "-3 (xor) needs two queries or more"),
        ([[1, [2]], [3, [4]], [-2]], "cannot follow several queries"),
        ([[1, [2]], [3, [4]], [5]], "cannot follow several queries"),
        ([[1, [2]], [3, [4]], [-1, -1]], "cannot follow several queries"),
        ([[1, [2]], [3, [4]], [-1.0]], "cannot follow several queries"),
    ],
)
def test_refused(query, words):
    with pytest.raises(QueryError) as caught:
        read(query)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 400


def nested(depth, wrap):
    query = [1, [2]]
    for _ in range(depth):
        query = wrap(query)
    return query


@pytest.mark.parametrize(
    "query",
    [
        nested(100_000, lambda query: [query]),
        nested(100_000, lambda query: [query, [1]]),
        nested(100_000, lambda query: [query, query]),
        nested(64, lambda query: [query, query]),
        nested(100_000, lambda query: [[1, [2]], query, [-3]]),
        [1, [2] * 100_000],
        [1, [-2] * 100_000],
        [[1, [2]]] * 100_000,
        [[1, [2]]] * 100_000 + [[-1]],
        [1, nested(100_000, lambda query: [query])],
        [nested(100_000, lambda query: [query]), 1],
        [{"a": 1}] * 100_000,
        ["a" * 100_000, ["b" * 100_000]],
    ],
    ids=range(13),
)
def test_nonsense_of_any_size_ends_quickly(query):
    started = time.perf_counter()
    with pytest.raises(FlexError) as caught:
        read(query)
    assert time.perf_counter() - started < 5
    assert len(str(caught.value)) < 1_000


def test_depth_limit():
    assert read([1, [2] * 63])
    with pytest.raises(LimitError, match="the limit is 64 levels"):
        read([1, [2] * 64])


@pytest.mark.parametrize("term", [Entity(1), Any(), And(Entity(1), Project(0, Any())), Or(Any(), Project(0, Any()))])
def test_sets_without_a_nested_list(term):
    with pytest.raises(QueryError, match="as a condition of its own"):
        betae.to_nested(term)
