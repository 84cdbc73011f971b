"""The query algebra: a term denotes a set of entities.

Ids are plain integers. A relation id carries its direction: relation k of the graph is 2k read forwards
(head to tail) and 2k + 1 read backwards, so `relation ^ 1` is the inverse.

`And` and `Or` are n-ary and flat by construction: an operand of the same kind is spliced in, because a
learned intersection of three sets differs from two nested ones and must not depend on how a query was typed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Entity:
    """The set that holds one entity."""

    id: int


@dataclass(frozen=True, slots=True)
class Any:
    """Every entity: an unanchored leaf."""


@dataclass(frozen=True, slots=True)
class Project:
    """Everything reached from the operand by one step along a relation."""

    relation: int
    operand: Term


@dataclass(frozen=True, slots=True)
class Not:
    """Everything that is not in the operand."""

    operand: Term


@dataclass(frozen=True, slots=True, init=False)
class _Flat:
    operands: tuple[Term, ...]

    def __init__(self, *operands: Term) -> None:
        flat: list[Term] = []
        for operand in operands:
            if type(operand) is type(self):
                flat.extend(operand.operands)
            else:
                flat.append(operand)
        if len(flat) < 2:
            raise ValueError(f"{type(self).__name__} needs at least two operands")
        object.__setattr__(self, "operands", tuple(flat))


@dataclass(frozen=True, slots=True, init=False)
class And(_Flat):
    """In every operand."""


@dataclass(frozen=True, slots=True, init=False)
class Or(_Flat):
    """In at least one operand."""


@dataclass(frozen=True, slots=True)
class _Binary:
    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Minus(_Binary):
    """In the left but not in the right operand."""


@dataclass(frozen=True, slots=True)
class Xor(_Binary):
    """In exactly one of the two operands."""


@dataclass(frozen=True, slots=True)
class Implies(_Binary):
    """In the right operand if in the left one; everything outside the left one counts."""


@dataclass(frozen=True, slots=True)
class Iff(_Binary):
    """In both operands or in neither."""


Term: TypeAlias = Entity | Any | Project | Not | And | Or | Minus | Xor | Implies | Iff


def operands(term: Term) -> tuple[Term, ...]:
    """The direct sub-terms, left to right."""
    match term:
        case Entity() | Any():
            return ()
        case Project(operand=operand) | Not(operand=operand):
            return (operand,)
        case And() | Or():
            return term.operands
        case _:
            return (term.left, term.right)


def rebuild(term: Term, parts: tuple[Term, ...]) -> Term:
    """The same node over other sub-terms."""
    match term:
        case Entity() | Any():
            return term
        case Project(relation=relation):
            return Project(relation, parts[0])
        case _:
            return type(term)(*parts)


def size_and_depth(term: Term) -> tuple[int, int]:
    """Number of nodes and length of the longest branch, counted without recursion."""
    size, deepest, stack = 0, 0, [(term, 1)]
    while stack:
        node, depth = stack.pop()
        size, deepest = size + 1, max(deepest, depth)
        stack.extend((part, depth + 1) for part in operands(node))
    return size, deepest
