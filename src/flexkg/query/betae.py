"""The nested-list form of the benchmarks, read and written.

A path `[start, [relation, ...]]` begins at an entity or at a nested query and may hold `-2`, negation, among
its relations. `[query, query, ...]` is an intersection and, with `[-1]` behind, a union. Beyond the benchmarks,
`[-3]` xor, `[-4]` implies, `[-5]` iff and `[-6]` minus follow two queries, and `null` starts a path at `Any`.
Entities and relations are integers, or identifiers with `+relation` and `-relation` for the two directions.
"""

from __future__ import annotations

from reprlib import repr as short
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias, cast

from flexkg.errors import LimitError, QueryError
from flexkg.query import shapes
from flexkg.query.limits import MAX_DEPTH, MAX_NODES
from flexkg.query.terms import And, Any, Entity, Iff, Implies, Minus, Not, Or, Project, Term, Xor
from flexkg.query.walk import check_size, fold

if TYPE_CHECKING:
    from collections.abc import Callable

Leaf: TypeAlias = int | str

NEGATION: Final = -2
_MARKERS: Final = {-1: "|", -3: "^", -4: ">", -5: "=", -6: "-"}
_MEANINGS: Final = {-1: "union", -2: "negation", -3: "xor", -4: "implies", -5: "iff", -6: "minus"}
_TYPE_MARKERS: dict[type[Term], int] = {Or: -1, Xor: -3, Implies: -4, Iff: -5, Minus: -6}
_LISTS: Final = frozenset({list, tuple})
_FORM: Final = "A query is a path [entity, [relation, ...]] or a list of queries."


def from_nested(query: object, *, entity: Callable[[Leaf], int], relation: Callable[[Leaf], int]) -> Term:
    """Read a nested list; `entity` and `relation` turn a leaf, as written, into an id, a directed one for relations."""
    key, entities, relations = read_grounding(query)
    return shapes.build(key, [entity(leaf) for leaf in entities], [relation(leaf) for leaf in relations])


def read_grounding(query: object) -> tuple[str, list[Leaf], list[Leaf]]:
    """Separate a nested list into its template's key and its leaves in slot order, the same as `shapes.split`'s.

    Two queries have equal keys exactly if their templates are equal; `shapes.template_of` gives the template.
    """
    codes: list[str] = []
    entities: list[object] = []
    relations: list[object] = []
    if _walk(query, codes, entities, relations, 1) > MAX_DEPTH:
        _too_deep()
    if len(codes) > MAX_NODES:
        raise LimitError(f"The query has {len(codes):,} parts; the limit is {MAX_NODES:,}.")
    kinds = set(map(type, entities))
    kinds.update(map(type, relations))
    if not (kinds == {int} and min(relations, default=0) >= 0 and min(entities, default=0) >= 0):  # type: ignore[type-var, operator]
        _check_leaves(entities, relations, kinds)
    return "".join(codes), cast("list[Leaf]", entities), cast("list[Leaf]", relations)


def to_nested(
    term: Term,
    *,
    entity: Callable[[int], Leaf] | None = None,
    relation: Callable[[int], Leaf] | None = None,
) -> list[object]:
    """Write a term as a nested list, with ids for leaves or what `entity` and `relation` make of them."""
    check_size(term)

    def combine(node: Term, parts: tuple[object, ...]) -> object:
        match node:
            case Entity(id=id):
                return id if entity is None else entity(id)
            case Any():
                return None
            case Not(operand=operand):
                return _extended(operand, parts[0], NEGATION)
            case Project(relation=id, operand=operand):
                return _extended(operand, parts[0], id if relation is None else relation(id))
        for part in parts:
            if type(part) is not list:
                _no_list(part)
        return [*parts] if isinstance(node, And) else [*parts, [_TYPE_MARKERS[type(node)]]]

    nested = fold(term, combine)
    if not isinstance(nested, list):
        _no_list(nested)
    return nested


def _walk(query: object, codes: list[str], entities: list[object], relations: list[object], level: int) -> int:
    """Append what the query is made of, operands first, and return the depth of its term."""
    if type(query) not in _LISTS:
        raise QueryError(f"A query cannot be {_describe(query).rstrip(',')}.", hint=_FORM)
    if level > MAX_DEPTH:
        _too_deep()
    items = cast("list[object]", query)
    last = items[-1] if len(items) > 1 else None
    if type(last) not in _LISTS:
        raise QueryError(
            f"{short(query)} is not a query: it must hold two items or more and end in a list.", hint=_FORM
        )
    tail = cast("list[object]", last)
    if not tail:
        raise QueryError(f"{short(query)} ends in an empty list.", hint=_FORM)
    if type(tail[-1]) in _LISTS:
        return _connective("&", items, codes, entities, relations, level)
    if len(items) > 2:
        code = _MARKERS.get(tail[0]) if len(tail) == 1 and type(tail[0]) is int else None
        if code is None:
            raise QueryError(
                f"{short(tail)} cannot follow several queries.",
                hint="[-1] makes a union of them, [-3] xor, [-4] implies, [-5] iff, [-6] minus.",
            )
        return _connective(code, items[:-1], codes, entities, relations, level)
    start = items[0]
    if type(start) in _LISTS:
        depth = _walk(start, codes, entities, relations, level + 1)
    elif start is None:
        codes.append("*")
        depth = 1
    else:
        codes.append("e")
        entities.append(start)
        depth = 1
    for step in tail:
        if step == NEGATION and type(step) is int:
            codes.append("n")
        else:
            codes.append("p")
            relations.append(step)
    return depth + len(tail)


def _connective(
    code: str, parts: list[object], codes: list[str], entities: list[object], relations: list[object], level: int
) -> int:
    flat = code in "&|"
    count = depth = 0
    for part in parts:
        depth = max(depth, _walk(part, codes, entities, relations, level + 1))
        if flat and codes[-1][0] == code:
            # An intersection in an intersection is one with more operands, as in `And` itself.
            count += int(codes.pop()[1:])
        else:
            count += 1
    if not flat and count != 2:
        raise QueryError(f"{_meaning(code)} needs two queries before it, not {count}.")
    codes.append(f"{code}{count}" if flat else code)
    return depth + 1


def _check_leaves(entities: list[object], relations: list[object], kinds: set[type]) -> None:
    """Raise unless all leaves are non-negative integers, or all are identifiers."""
    for leaf in (*entities, *relations):
        if type(leaf) not in (int, str):
            raise QueryError(
                f"{_describe(leaf).capitalize()} cannot name an entity or a relation.",
                hint="Use integer ids, or identifiers with +relation and -relation.",
            )
    if len(kinds) > 1:
        raise QueryError(
            "A query mixes integer ids and identifiers.", hint="Use one kind for all its entities and relations."
        )
    if kinds == {int}:
        for leaf in relations:
            if leaf in _MARKERS:
                raise QueryError(f"{leaf} ({_MEANINGS[leaf]}) needs two queries or more before it.")
        raise QueryError(f"{min(cast('list[int]', entities + relations))} is not an id.", hint="Ids count from 0.")
    if not all(entities):
        raise QueryError("An entity's identifier is empty.")
    for leaf in cast("list[str]", relations):
        if leaf[:1] not in ("+", "-") or len(leaf) < 2:
            raise QueryError(
                f"{short(leaf)} gives no direction.", hint="Write +relation to follow it forwards, -relation backwards."
            )


def _extended(operand: Term, nested: object, step: object) -> list[object]:
    """The path with one more step, or a new path that begins at what is no path."""
    if isinstance(operand, Project | Not):
        start, steps = cast("list[object]", nested)
        return [start, [*cast("list[object]", steps), step]]
    return [nested, [step]]


def _meaning(code: str) -> str:
    marker = next(marker for marker, other in _MARKERS.items() if other == code)
    return f"[{marker}] ({_MEANINGS[marker]})"


def _describe(value: object) -> str:
    names = {bool: "a truth value", float: "a fraction", str: "a string", int: "a number", dict: "an object"}
    kind = names.get(type(value), "null" if value is None else "a list" if type(value) in _LISTS else "this")
    return kind if value is None else f"{kind}, {short(value)},"


def _no_list(leaf: object) -> NoReturn:
    what = "the set of all entities" if leaf is None else f"the single entity {leaf}"
    raise QueryError(
        f"A nested list cannot have {what} as a condition of its own.", hint="Only the start of a path can be one."
    )


def _too_deep() -> NoReturn:
    raise LimitError(f"The query is nested too deeply; the limit is {MAX_DEPTH} levels.")
