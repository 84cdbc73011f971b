"""Formulas as they are written, each part with its place in the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable; `key` tells variables of the same name apart once their scopes are known."""

    name: str
    start: int = 0
    end: int = 0
    key: int = -1


@dataclass(frozen=True, slots=True)
class Name:
    """An entity's or a relation's name; `id` once it has been looked up."""

    text: str
    start: int = 0
    end: int = 0
    id: int = -1


Argument: TypeAlias = Variable | Name


# Formulas compare by identity: two equal atoms at two places are different parts of a text.
@dataclass(frozen=True, slots=True, eq=False)
class Atom:
    """relation(subject, object)."""

    relation: Name
    subject: Argument
    object: Argument
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Not:
    """The operand does not hold."""

    operand: Formula
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class _Nary:
    operands: tuple[Formula, ...]
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class And(_Nary):
    """Every operand holds."""


@dataclass(frozen=True, slots=True, eq=False)
class Or(_Nary):
    """At least one operand holds."""


@dataclass(frozen=True, slots=True, eq=False)
class _Binary:
    left: Formula
    right: Formula
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Minus(_Binary):
    """The left holds and the right does not."""


@dataclass(frozen=True, slots=True, eq=False)
class Xor(_Binary):
    """Exactly one of both holds."""


@dataclass(frozen=True, slots=True, eq=False)
class Implies(_Binary):
    """The right holds if the left does."""


@dataclass(frozen=True, slots=True, eq=False)
class Iff(_Binary):
    """Both hold or neither does."""


@dataclass(frozen=True, slots=True, eq=False)
class Exists:
    """The body holds for some value of the variables."""

    variables: tuple[Variable, ...]
    body: Formula
    start: int = 0
    end: int = 0


Formula: TypeAlias = Atom | Not | And | Or | Minus | Xor | Implies | Iff | Exists


def parts(formula: Formula) -> tuple[Formula, ...]:
    """The direct sub-formulas, left to right."""
    match formula:
        case Atom():
            return ()
        case Not(operand=operand):
            return (operand,)
        case And() | Or():
            return formula.operands
        case Exists(body=body):
            return (body,)
        case _:
            return (formula.left, formula.right)


def rebuild(formula: Formula, new: tuple[Formula, ...]) -> Formula:
    """The same node at the same place over other sub-formulas."""
    match formula:
        case Atom():
            return formula
        case Not(start=start, end=end):
            return Not(new[0], start, end)
        case And() | Or():
            return type(formula)(new, formula.start, formula.end)
        case Exists(variables=variables, start=start, end=end):
            return Exists(variables, new[0], start, end)
        case _:
            return type(formula)(new[0], new[1], formula.start, formula.end)


def atoms(formula: Formula) -> Iterator[Atom]:
    """The atoms, left to right."""
    stack = [formula]
    while stack:
        node = stack.pop()
        if isinstance(node, Atom):
            yield node
        else:
            stack.extend(reversed(parts(node)))


def variables(formula: Formula) -> Iterator[Variable]:
    """The occurrences of variables in atoms, left to right."""
    for atom in atoms(formula):
        for argument in (atom.subject, atom.object):
            if isinstance(argument, Variable):
                yield argument


class FreeVariables:
    """Keys of the free variables of a formula, remembered for every sub-formula met."""

    def __init__(self) -> None:
        self._known: dict[Formula, frozenset[int]] = {}

    def __call__(self, formula: Formula) -> frozenset[int]:
        """Keys of the variables that occur in the formula and are not quantified in it."""
        known = self._known.get(formula)
        if known is None:
            if isinstance(formula, Atom):
                known = frozenset(variable.key for variable in variables(formula))
            else:
                known = frozenset().union(*map(self, parts(formula)))
                if isinstance(formula, Exists):
                    known -= {variable.key for variable in formula.variables}
            self._known[formula] = known
        return known
