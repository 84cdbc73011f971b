"""Templates: what is left of a query without its entities and relations, and names for the familiar ones.

A template is a term whose entity and relation ids are slot numbers, counted from 0 in the order in which
operands come before what is made of them. Its key spells that order out: `e` entity, `*` Any, `p` projection,
`n` negation, `&3` and `|3` with the number of operands, `-` minus, `^` xor, `>` implies, `=` iff.
Names are labels only; nothing in the package decides anything by them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from flexkg.query.terms import And, Any, Entity, Iff, Implies, Minus, Not, Or, Project, Term, Xor, operands, rebuild
from flexkg.query.walk import fold, postorder

if TYPE_CHECKING:
    from collections.abc import Sequence

CODES: dict[type[Term], str] = {
    Entity: "e",
    Any: "*",
    Project: "p",
    Not: "n",
    And: "&",
    Or: "|",
    Minus: "-",
    Xor: "^",
    Implies: ">",
    Iff: "=",
}
"""How a node is written in the key of a shape."""
_CONNECTIVES = {"&": And, "|": Or, "-": Minus, "^": Xor, ">": Implies, "=": Iff}
_LONGEST_REMEMBERED = 200
_TOKEN = re.compile(r"[e*pn^>=-]|[&|](\d+)")


def split(term: Term) -> tuple[Term, tuple[int, ...], tuple[int, ...]]:
    """Separate a query into its template, its entity ids and its relation ids, both in slot order."""
    entities: list[int] = []
    relations: list[int] = []

    def combine(node: Term, parts: tuple[Term, ...]) -> Term:
        match node:
            case Entity(id=id):
                entities.append(id)
                return Entity(len(entities) - 1)
            case Project(relation=relation):
                relations.append(relation)
                return Project(len(relations) - 1, parts[0])
            case _:
                return rebuild(node, parts)

    template = fold(term, combine)
    return template, tuple(entities), tuple(relations)


def ground(template: Term, entities: Sequence[int], relations: Sequence[int]) -> Term:
    """Put entities and relations into the slots of a template."""

    def combine(node: Term, parts: tuple[Term, ...]) -> Term:
        match node:
            case Entity(id=slot):
                return Entity(entities[slot])
            case Project(relation=slot):
                return Project(relations[slot], parts[0])
            case _:
                return rebuild(node, parts)

    return fold(template, combine)


def key_of(term: Term) -> str:
    """A short string, equal for two terms exactly if their templates are equal."""
    return "".join(
        f"{CODES[type(node)]}{len(operands(node))}" if isinstance(node, And | Or) else CODES[type(node)]
        for node in postorder(term)
    )


def template_of(key: str) -> Term:
    """The template that a key stands for."""
    return build(key, range(key.count("e")), range(key.count("p")))


def build(key: str, entities: Sequence[int], relations: Sequence[int]) -> Term:
    """The term that a key stands for over these entities and relations: `ground` for those who hold a key."""
    # Long keys are rare and large, so that remembering them would only fill memory.
    program = _remembered_program(key) if len(key) <= _LONGEST_REMEMBERED else _program(key)
    next_entity, next_relation = iter(entities).__next__, iter(relations).__next__
    stack: list[Term] = []
    for code, count in program:
        if code == "e":
            stack.append(Entity(next_entity()))
        elif code == "p":
            stack[-1] = Project(next_relation(), stack[-1])
        elif code == "n":
            stack[-1] = Not(stack[-1])
        elif code == "*":
            stack.append(Any())
        else:
            parts = stack[-count:]
            del stack[-count:]
            stack.append(_CONNECTIVES[code](*parts))
    return stack[0]


def _program(key: str) -> tuple[tuple[str, int], ...]:
    """The nodes of a key, each with the number of operands it takes off the stack."""
    program: list[tuple[str, int]] = []
    position = height = 0
    while position < len(key):
        match = _TOKEN.match(key, position)
        if match is None:
            raise _no_key(key)
        code, position = match[0][0], match.end()
        count = 0 if code in "e*" else 1 if code in "pn" else int(match[1] or 2)
        if count > height or (match[1] and count < 2):
            raise _no_key(key)
        height += 1 - count
        program.append((code, count))
    if height != 1:
        raise _no_key(key)
    return tuple(program)


def _no_key(key: str) -> ValueError:
    return ValueError(f"not the key of a template: {key[:80]!r}")


_remembered_program = lru_cache(maxsize=4096)(_program)

_KEYS = {
    "1p": "ep",
    "2p": "epp",
    "3p": "eppp",
    "2i": "epep&2",
    "3i": "epepep&3",
    "ip": "epep&2p",
    "pi": "eppep&2",
    "2in": "epepn&2",
    "3in": "epepepn&3",
    "inp": "epepn&2p",
    "pin": "eppepn&2",
    "pni": "eppnep&2",
    "2u": "epep|2",
    "up": "epep|2p",
}
_DE_MORGAN_KEYS = {"2u-DM": "epnepn&2n", "up-DM": "epnepn&2np"}
_NAMES = {key: name for name, key in (_KEYS | _DE_MORGAN_KEYS).items()}

SHAPES: dict[str, Term] = {name: template_of(key) for name, key in _KEYS.items()}
"""The fourteen benchmark shapes as templates, operands in the order of the published nested lists."""

DE_MORGAN_SHAPES: dict[str, Term] = {name: template_of(key) for name, key in _DE_MORGAN_KEYS.items()}
"""The two union shapes written without union."""


def shape_name(term: Term) -> str | None:
    """The familiar name of a query's or a template's shape, or None."""
    return _NAMES.get(key_of(term))
