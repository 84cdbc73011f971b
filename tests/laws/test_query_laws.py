"""Laws of the query language: texts, rewrites and templates keep exactly what a query means."""

from __future__ import annotations

import json

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from flexkg.errors import FlexError, LimitError, QueryError
from flexkg.query import betae, parse, shapes, to_text
from flexkg.query import terms as t
from flexkg.query.rewrite import de_morgan, derive, dnf, push_negation
from flexkg.query.walk import postorder
from laws.strategies import (
    Graph,
    PlainNames,
    dense_graphs,
    formula_text,
    formulas,
    graphs,
    naive_answers,
    naive_formula_answers,
    terms,
    tree_formulas,
)

ENTITIES, RELATIONS = 6, 3
NAMES = PlainNames(ENTITIES, RELATIONS)
CONNECTIVES = (t.Not, t.And, t.Or, t.Minus, t.Xor, t.Implies, t.Iff)


class OddNames(PlainNames):
    """The same with spellings that need quotes, look like keywords or are not Latin."""

    def __init__(self) -> None:
        self.entities = ["St.Lucia", "Côte d'Ivoire", "or", 'say "hi"', "back\\slash", "日本"]
        self.relations = ["ex:knows", "EXISTS", "/people/person/born in"]


def attempt(read, *arguments, **options):
    """What `read` returns and None, or None and the error it raises for a user's mistake."""
    try:
        return read(*arguments, **options), None
    except FlexError as error:
        return None, error


def same_answers(term, others, data):
    sparse = graphs(ENTITIES, RELATIONS).map(lambda graph: Graph(ENTITIES, RELATIONS, graph.edges))
    for graph in data.draw(st.tuples(dense_graphs(ENTITIES, RELATIONS), sparse)):
        union = frozenset().union(*(naive_answers(other, graph) for other in others))
        assert union == naive_answers(term, graph)


@given(terms(ENTITIES, RELATIONS, 6), st.sampled_from([NAMES, OddNames()]))
@settings(max_examples=300, deadline=None)
def test_reading_what_was_written_gives_the_same_term(term, names):
    text = to_text(term, names)
    assert parse(text, names) == term
    assert to_text(parse(text, names), names) == text


@given(
    st.one_of(
        formulas(3, 2),
        formulas(3, 2, "xy", 3).map(lambda formula: ("exists", "y", formula)),
        tree_formulas(3, 2),
        tree_formulas(3, 2),
    ),
    st.lists(dense_graphs(3, 2), min_size=3, max_size=3),
)
@settings(max_examples=800, deadline=None)
def test_a_text_means_what_first_order_logic_says(formula, some_graphs):
    check_first_order(formula, some_graphs)


def edge(relation, inner, outer="x"):
    return ("atom", relation, inner, outer)


RARE = [
    ("exists", "y", ("&", edge(0, "y"), ("!", ("\\", edge(0, 1, "y"), edge(1, 0))))),
    ("exists", "y", ("&", edge(0, "y"), ("!", ("->", edge(0, 1, "y"), edge(1, 0))))),
    ("exists", "y", ("\\", ("&", edge(0, "y"), edge(0, 1, "y")), edge(1, "y"))),
    ("exists", "y", ("\\", edge(0, "y"), ("|", edge(1, 0), edge(1, "y")))),
    ("exists", "y", ("->", edge(0, "y"), edge(1, 0))),
    ("exists", "y", ("->", ("!", edge(0, "y")), edge(1, 0))),
    (
        "exists",
        "y",
        ("&", edge(0, "y"), edge(1, 0, "y"), ("!", ("exists", "z", ("&", edge(0, "y", "z"), edge(1, "z"))))),
    ),
    (
        "exists",
        "y",
        ("&", edge(0, "y"), edge(1, 0, "y"), ("!", ("!", ("exists", "z", ("|", edge(0, "z"), edge(0, "y")))))),
    ),
    (
        "exists",
        "y",
        ("&", edge(1, 0, "y"), ("!", ("exists", "z", ("|", ("!", edge(0, "z", "y")), ("!", edge(1, "z")))))),
    ),
]


@given(st.sampled_from(RARE), st.lists(dense_graphs(3, 2), min_size=5, max_size=5))
@settings(deadline=None)
def test_rare_formulas_mean_what_first_order_logic_says(formula, some_graphs):
    check_first_order(formula, some_graphs)


def check_first_order(formula, some_graphs):
    text = f"?x : {formula_text(formula)}"
    term, error = attempt(parse, text, NAMES)
    if error is not None:
        event(f"error: {error.message.split()[0]}")
        assert isinstance(error, QueryError)
        assert error.line == 1
        assert error.caret() is not None
        return
    event("read")
    for graph in some_graphs:
        assert naive_answers(term, graph) == naive_formula_answers(formula, graph)


@given(terms(ENTITIES, RELATIONS, 5, printable=False), st.data())
@settings(deadline=None)
def test_push_negation(term, data):
    new = push_negation(term)
    same_answers(term, [new], data)
    for node in postorder(new):
        if isinstance(node, t.Not):
            assert isinstance(node.operand, t.Project | t.Entity | t.Any)


@given(terms(ENTITIES, RELATIONS, 5, printable=False), st.data())
@settings(deadline=None)
def test_de_morgan(term, data):
    new = de_morgan(term)
    same_answers(term, [new], data)
    assert not any(isinstance(node, t.Or) for node in postorder(new))


@given(terms(ENTITIES, RELATIONS, 5, printable=False), st.frozensets(st.sampled_from(CONNECTIVES)), st.data())
@settings(deadline=None)
def test_derive(term, allowed, data):
    derived = derive(term, allowed)
    same_answers(term, [derived.term], data)
    left = {type(node) for node in postorder(derived.term)} - {t.Entity, t.Any, t.Project}
    if {t.And, t.Not} <= allowed:
        assert left <= allowed
    assert bool(derived.notes) == (derived.term != term)


@given(terms(ENTITIES, RELATIONS, 5, printable=False), st.data())
@settings(deadline=None)
def test_dnf(term, data):
    try:
        disjuncts = dnf(term, 200)
    except LimitError:
        event("over the limit")
        return
    same_answers(term, disjuncts, data)
    for disjunct in disjuncts:
        assert not any(isinstance(node, t.Or | t.Xor | t.Implies | t.Iff) for node in postorder(disjunct))


@given(terms(ENTITIES, RELATIONS, 5, printable=False))
@settings(deadline=None)
def test_templates_and_keys(term):
    template, entities, relations = shapes.split(term)
    assert shapes.ground(template, entities, relations) == term
    key = shapes.key_of(term)
    assert key == shapes.key_of(template)
    assert shapes.template_of(key) == template
    assert shapes.build(key, entities, relations) == term


@given(terms(ENTITIES, RELATIONS, 5), terms(ENTITIES, RELATIONS, 3))
@settings(deadline=None)
def test_keys_are_equal_exactly_for_equal_templates(one, other):
    same_template = shapes.split(one)[0] == shapes.split(other)[0]
    assert (shapes.key_of(one) == shapes.key_of(other)) == same_template


@given(terms(ENTITIES, RELATIONS, 6), st.booleans())
@settings(deadline=None)
def test_nested_lists_keep_the_term(term, identifiers):
    if identifiers:
        nested = betae.to_nested(term, entity=lambda id: f"/m/{id}", relation=lambda id: "+-"[id & 1] + f"r{id >> 1}")
        back = {f"{sign}r{k}": 2 * k + d for k in range(RELATIONS) for d, sign in enumerate("+-")}
        read = betae.from_nested(nested, entity=lambda leaf: int(leaf[3:]), relation=back.__getitem__)
    else:
        nested = betae.to_nested(term)
        read = betae.from_nested(nested, entity=int, relation=int)
        key, entities, relations = betae.read_grounding(nested)
        assert (shapes.template_of(key), tuple(entities), tuple(relations)) == shapes.split(term)
    assert read == term
    assert json.loads(json.dumps(nested)) == nested


PIECES = ["?x", "?y", ":", "r0", "e1", "(", ")", ",", "&", "|", "!", "\\", "^", "->", "<->", "exists", ".", '"', "not"]


@given(st.one_of(st.text(), st.text().map("?x : ".__add__), st.lists(st.sampled_from(PIECES)).map(" ".join)))
@settings(max_examples=400, deadline=None)
@example("?x : \x00")
@example("\ufeff?x:r0(e1,?x)\u2028")
@example("?x : r0(e0,?x)\n\n")
def test_any_text_is_read_or_refused_at_a_place(text):
    term, error = attempt(parse, text, NAMES)
    if error is None:
        assert parse(to_text(term, NAMES), NAMES) == term
        return
    assert isinstance(error, QueryError)
    assert error.line is not None
    assert error.column is not None
    assert "\n" not in str(error)
    assert len(error.caret().splitlines()) == 2


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(), st.integers(-7, 5), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=2), inner, max_size=2)),
    max_leaves=12,
)


@given(JSON)
@settings(max_examples=400, deadline=None)
def test_any_nested_list_is_read_or_refused(value):
    term, error = attempt(betae.from_nested, value, entity=hash, relation=hash)
    if error is None:
        key = betae.read_grounding(value)[0]
        assert key == shapes.key_of(term)
        assert betae.read_grounding(betae.to_nested(shapes.template_of(key)))[0] == key
    else:
        assert "\n" not in str(error)


@pytest.mark.parametrize("wide", [t.And, t.Or])
def test_a_flat_term_stays_flat_in_every_form(wide):
    atoms = [t.Project(0, t.Entity(id)) for id in range(4)]
    term = wide(wide(*atoms[:2]), *atoms[2:])
    assert len(term.operands) == 4
    assert parse(to_text(term, NAMES), NAMES) == term
    marker = [] if wide is t.And else [[-1]]
    inner = [[0, [0]], [1, [0]], *marker]
    assert betae.from_nested([inner, [2, [0]], [3, [0]], *marker], entity=int, relation=int) == term
