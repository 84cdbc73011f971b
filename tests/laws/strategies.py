"""Random graphs, terms and formulas, and the slow evaluators that say what they mean."""

from __future__ import annotations

import difflib
import itertools
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from hypothesis import strategies as st

from flexkg.query import terms as t


@dataclass(frozen=True)
class Graph:
    """Entities 0..n-1, relations 0..m-1 (one direction each) and edges (head, relation, tail)."""

    num_entities: int
    num_relations: int
    edges: frozenset[tuple[int, int, int]]

    def step(self, sources: frozenset[int], relation: int) -> frozenset[int]:
        """Everything reached along a directed relation: 2k forwards, 2k + 1 backwards."""
        name, backwards = divmod(relation, 2)
        if backwards:
            return frozenset(head for head, label, tail in self.edges if label == name and tail in sources)
        return frozenset(tail for head, label, tail in self.edges if label == name and head in sources)


@st.composite
def graphs(draw, max_entities: int = 6, max_relations: int = 3, max_edges: int = 24) -> Graph:
    num_entities = draw(st.integers(1, max_entities))
    num_relations = draw(st.integers(1, max_relations))
    entity, relation = st.integers(0, num_entities - 1), st.integers(0, num_relations - 1)
    edges = draw(st.frozensets(st.tuples(entity, relation, entity), max_size=max_edges))
    return Graph(num_entities, num_relations, edges)


def dense_graphs(num_entities: int, num_relations: int) -> st.SearchStrategy[Graph]:
    """Graphs of this size with about half of all edges: on sparse ones most queries have the same, empty, answers."""

    def graph(seed: int) -> Graph:
        random = Random(seed)
        possible = itertools.product(range(num_entities), range(num_relations), range(num_entities))
        return Graph(num_entities, num_relations, frozenset(edge for edge in possible if random.random() < 0.5))

    return st.builds(graph, st.integers(0, 2**32))


def terms(
    num_entities: int, num_relations: int, max_depth: int = 5, *, printable: bool = True
) -> st.SearchStrategy[t.Term]:
    """Terms with all connectives; `printable` keeps bare entities and `Any` to the operands of projections."""
    relation = st.integers(0, 2 * num_relations - 1)
    leaf = st.one_of(
        st.builds(t.Entity, st.integers(0, num_entities - 1)),
        st.builds(t.Entity, st.integers(0, num_entities - 1)),
        st.builds(t.Entity, st.integers(0, num_entities - 1)),
        st.just(t.Any()),
    )
    atom = st.builds(t.Project, relation, leaf)
    level = atom if printable else st.one_of(atom, atom, leaf)
    for _ in range(max_depth - 2):
        lower = level
        pair = {kind: st.builds(kind, lower, lower) for kind in (t.Minus, t.Xor, t.Implies, t.Iff)}
        several = st.lists(lower, min_size=2, max_size=3)
        level = st.one_of(
            lower,
            st.builds(t.Project, relation, lower),
            st.builds(t.Not, lower),
            several.map(lambda parts: t.And(*parts)),
            several.map(lambda parts: t.Or(*parts)),
            *pair.values(),
        )
    return level


def naive_answers(term: t.Term, graph: Graph) -> frozenset[int]:
    """The term's meaning with plain Python sets."""
    everything = frozenset(range(graph.num_entities))
    match term:
        case t.Entity(id=id):
            return frozenset({id})
        case t.Any():
            return everything
        case t.Project(relation=relation, operand=operand):
            return graph.step(naive_answers(operand, graph), relation)
    parts = [naive_answers(operand, graph) for operand in t.operands(term)]
    match term:
        case t.Not():
            return everything - parts[0]
        case t.And():
            return frozenset.intersection(*parts)
        case t.Or():
            return frozenset.union(*parts)
        case t.Minus():
            return parts[0] - parts[1]
        case t.Xor():
            return parts[0] ^ parts[1]
        case t.Implies():
            return (everything - parts[0]) | parts[1]
        case t.Iff():
            return everything - (parts[0] ^ parts[1])
    raise AssertionError(term)


class PlainNames:
    """Names e0, e1, ... and r0, r1, ...; enough of a vocabulary to read and write queries."""

    def __init__(self, num_entities: int, num_relations: int) -> None:
        self.entities = [f"e{id}" for id in range(num_entities)]
        self.relations = [f"r{id}" for id in range(num_relations)]

    def find_entities(self, text: str) -> list[int]:
        return [id for id, name in enumerate(self.entities) if name == text]

    def find_relations(self, text: str) -> list[int]:
        return [id for id, name in enumerate(self.relations) if name == text]

    def suggest_entities(self, text: str) -> list[str]:
        return difflib.get_close_matches(text, self.entities)

    def suggest_relations(self, text: str) -> list[str]:
        return difflib.get_close_matches(text, self.relations)

    def entity_text(self, id: int) -> str:
        return self.entities[id]

    def relation_text(self, id: int) -> str:
        return self.relations[id]

    def describe_entity(self, id: int) -> str:
        return f"{self.entities[id]} (entity {id})"

    def describe_relation(self, id: int) -> str:
        return f"{self.relations[id]} (relation {id})"


# A formula as the laws see it, apart from the package's own: ("atom", relation, argument, argument),
# ("exists", variable, body), or (sign, operand, ...); an argument is a variable's name or an entity's id.
Formula: TypeAlias = tuple
Argument: TypeAlias = str | int

TARGET = "x"
_SIGNS = ("&", "|", "\\", "^", "->", "<->")


@st.composite
def formulas(draw, num_entities: int, num_relations: int, variables: str = "xyz", max_depth: int = 4) -> Formula:
    """Formulas over few variables, so that many are trees around ?x and many are not."""
    relation = st.integers(0, num_relations - 1)
    variable = st.sampled_from(variables)
    argument = st.one_of(variable, variable, st.integers(0, num_entities - 1))
    atom = st.tuples(st.just("atom"), relation, argument, argument)
    level = atom
    for _ in range(max_depth - 1):
        lower = level
        several = st.lists(lower, min_size=2, max_size=3)
        level = st.one_of(
            lower,
            several.map(lambda parts: ("&", *parts)),
            several.map(lambda parts: ("|", *parts)),
            st.tuples(st.just("!"), lower),
            st.tuples(st.sampled_from(_SIGNS[2:]), lower, lower),
            st.tuples(st.just("exists"), st.sampled_from(variables[1:]), lower),
        )
    return draw(level)


@st.composite
def tree_formulas(draw, num_entities: int, num_relations: int) -> Formula:
    """Formulas grown from the target: each variable hangs on an earlier one, with conditions mixed in anyhow."""
    relation = st.integers(0, num_relations - 1)
    entity = st.integers(0, num_entities - 1)
    names = ["x", "y", "z", "w"][: draw(st.integers(2, 4))]

    def condition(variable: str) -> Formula:
        pair = draw(st.permutations([variable, draw(entity)]))
        atom = ("atom", draw(relation), *pair)
        return ("!", atom) if draw(st.integers(0, 3)) == 0 else atom

    conjuncts = []
    for index, name in enumerate(names[1:], start=1):
        pair = draw(st.permutations([name, draw(st.sampled_from(names[:index]))]))
        conjuncts.append(("atom", draw(relation), *pair))
    if draw(st.integers(0, 5)) == 0:
        # One edge too many: a cycle, or a second way to say the same.
        conjuncts.append(("atom", draw(relation), *draw(st.permutations(names))[:2]))
    for _ in range(draw(st.integers(0, 4))):
        left = condition(draw(st.sampled_from(names)))
        right = condition(draw(st.sampled_from(names)))
        sign = draw(st.sampled_from(["", *_SIGNS]))
        conjunct = (sign, left, right) if sign else left
        conjuncts.append(("!", conjunct) if draw(st.integers(0, 4)) == 0 else conjunct)
    conjuncts = draw(st.permutations(conjuncts))
    formula = ("&", *conjuncts) if len(conjuncts) > 1 else conjuncts[0]
    if draw(st.integers(0, 2)) == 0:
        # Under a quantifier, a second formula that may speak of the same variables.
        other = draw(formulas(num_entities, num_relations, "".join(names), 2))
        sign = draw(st.sampled_from(_SIGNS))
        formula = (sign, formula, other) if draw(st.booleans()) else (sign, other, formula)
    for name in names[1:]:
        # Most are written out: left implicit, many would be shared across a connective, which is an error.
        if draw(st.integers(0, 3)) > 0:
            formula = ("exists", name, formula)
    return formula


def formula_text(formula: Formula) -> str:
    """The formula as text with a parenthesis wherever one can stand."""

    def argument(value: Argument) -> str:
        return f"?{value}" if isinstance(value, str) else f"e{value}"

    match formula:
        case ("atom", relation, subject, object):
            return f"r{relation}({argument(subject)}, {argument(object)})"
        case ("!", operand):
            return f"!({formula_text(operand)})"
        case ("exists", name, body):
            return f"(exists ?{name}. {formula_text(body)})"
        case (sign, *operands):
            return f" {sign} ".join(f"({formula_text(operand)})" for operand in operands)
    raise AssertionError(formula)


def naive_formula_answers(formula: Formula, graph: Graph) -> frozenset[int]:
    """The values of ?x under first-order semantics, found by trying every assignment of the variables."""
    places = {}
    for name in _free(formula) - {TARGET}:
        node = formula
        while len(holders := [part for part in _parts(node) if name in _free(part)]) == 1:
            node = holders[0]
        places.setdefault(id(node), []).append(name)
    domain = range(graph.num_entities)

    def holds(node: Formula, values: dict[str, int]) -> bool:
        names = places.get(id(node), [])
        choices = itertools.product(domain, repeat=len(names))
        return any(holds_as_is(node, {**values, **dict(zip(names, choice, strict=True))}) for choice in choices)

    def holds_as_is(node: Formula, values: dict[str, int]) -> bool:
        match node:
            case ("atom", relation, subject, object):
                head, tail = (values[part] if isinstance(part, str) else part for part in (subject, object))
                return (head, relation, tail) in graph.edges
            case ("!", operand):
                return not holds(operand, values)
            case ("exists", name, body):
                return any(holds(body, {**values, name: value}) for value in domain)
        parts = [holds(part, values) for part in _parts(node)]
        match node[0]:
            case "&":
                return all(parts)
            case "|":
                return any(parts)
            case "\\":
                return parts[0] and not parts[1]
            case "^":
                return parts[0] != parts[1]
            case "->":
                return not parts[0] or parts[1]
            case "<->":
                return parts[0] == parts[1]
        raise AssertionError(node)

    return frozenset(value for value in domain if holds(formula, {TARGET: value}))


def _parts(formula: Formula) -> tuple[Formula, ...]:
    if formula[0] == "atom":
        return ()
    return formula[2:] if formula[0] == "exists" else formula[1:]


def _free(formula: Formula) -> frozenset[str]:
    if formula[0] == "atom":
        return frozenset(argument for argument in formula[2:] if isinstance(argument, str))
    inside = frozenset().union(*map(_free, _parts(formula)))
    return inside - {formula[1]} if formula[0] == "exists" else inside
