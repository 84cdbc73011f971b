"""Rewrites of terms that keep their answers: negation inwards, De Morgan, derived connectives, unions outwards."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from flexkg.errors import LimitError
from flexkg.query.limits import MAX_DISJUNCTS, MAX_NODES
from flexkg.query.terms import And, Iff, Implies, Minus, Not, Or, Project, Term, Xor, operands, rebuild
from flexkg.query.walk import check_size, fold

if TYPE_CHECKING:
    from collections.abc import Iterable

# All disjuncts together; each alone is a query of its own.
_MAX_DNF_NODES = 10 * MAX_NODES


def push_negation(term: Term) -> Term:
    """Move negations inwards until each stands directly above a projection, an entity or `Any`."""

    def combine(node: Term, parts: tuple[tuple[Term, Term], ...]) -> tuple[Term, Term]:
        """The node and its complement, both with negations moved inwards."""
        plain = rebuild(node, tuple(part for part, _ in parts))
        match node:
            case Not():
                return parts[0][1], parts[0][0]
            case And():
                return plain, Or(*(complement for _, complement in parts))
            case Or():
                return plain, And(*(complement for _, complement in parts))
            case Minus():
                return plain, Or(parts[0][1], parts[1][0])
            case Implies():
                return plain, And(parts[0][0], parts[1][1])
            case Xor():
                return plain, Iff(parts[0][0], parts[1][0])
            case Iff():
                return plain, Xor(parts[0][0], parts[1][0])
            case _:
                return plain, Not(plain)

    return fold(term, combine)[0]


def de_morgan(term: Term) -> Term:
    """Write every union as the complement of an intersection of complements."""

    def combine(node: Term, parts: tuple[Term, ...]) -> Term:
        return _without_or(parts) if isinstance(node, Or) else rebuild(node, parts)

    return fold(term, combine)


@dataclass(frozen=True, slots=True)
class Derived:
    """A term with derived connectives written out, and what was done."""

    term: Term
    notes: tuple[str, ...]


def derive(term: Term, allowed: frozenset[type[Term]]) -> Derived:
    """Write the connectives outside `allowed` with those in it, as far as that can be done.

    Minus, xor, implies and iff are written with and, or, not; or itself with and and not where it is not
    allowed. Entity, Any and Project are not connectives and always stay.
    """
    notes: dict[str, None] = {}
    negation = {And, Not} <= allowed

    def either(*parts: Term) -> Term:
        return Or(*parts) if Or in allowed else _without_or(parts)

    def combine(node: Term, parts: tuple[tuple[Term, int], ...]) -> tuple[Term, int]:
        new, size = _derived(node, parts)
        if size > MAX_NODES:
            raise LimitError(
                f"The query grows past the limit of {MAX_NODES:,} parts when its connectives are written out.",
                hint="Nest fewer ^ and <-> in one another.",
            )
        return new, size

    def _derived(node: Term, parts: tuple[tuple[Term, int], ...]) -> tuple[Term, int]:
        inner = tuple(part for part, _ in parts)
        size = 1 + sum(size for _, size in parts)
        if type(node) in allowed or not negation:
            return rebuild(node, inner), size
        match node:
            case Or():
                notes["a | b is computed as !(!a & !b)"] = None
                return _without_or(inner), size + 1 + len(inner)
            case Minus():
                notes["a \\ b is computed as a & !b"] = None
                return And(inner[0], _not(inner[1])), size + 1
            case Implies():
                notes["a -> b is computed as !a | b" if Or in allowed else "a -> b is computed as !(a & !b)"] = None
                return either(_not(inner[0]), inner[1]), size + 2
            case Xor():
                notes[f"a ^ b is computed as {'(a & !b) | (!a & b)' if Or in allowed else '!(a & b) & !(!a & !b)'}"] = (
                    None
                )
                if Or not in allowed:
                    return And(_not(And(*inner)), _not(And(_not(inner[0]), _not(inner[1])))), 2 * size + 6
                return Or(And(inner[0], _not(inner[1])), And(_not(inner[0]), inner[1])), 2 * size + 6
            case Iff():
                notes[
                    f"a <-> b is computed as {'(a & b) | (!a & !b)' if Or in allowed else '!(a & !b) & !(!a & b)'}"
                ] = None
                if Or not in allowed:
                    return And(_not(And(inner[0], _not(inner[1]))), _not(And(_not(inner[0]), inner[1]))), 2 * size + 6
                return Or(And(*inner), And(_not(inner[0]), _not(inner[1]))), 2 * size + 6
            case _:
                return rebuild(node, inner), size

    new, _ = fold(term, combine)
    return Derived(new, tuple(notes))


def dnf(term: Term, limit: int = MAX_DISJUNCTS) -> tuple[Term, ...]:
    """Pull unions to the top: the term is the union of the returned terms, which hold no union.

    Xor, implies and iff count as unions and are written out. Parts without a union stay as they are, negations
    and all, so that a term already free of unions comes back unchanged.
    """
    check_size(term)
    disjuncts = tuple(_conjunction(literals) for literals in _Disjuncts(limit).of(term, True))
    sizes: dict[int, int] = {}
    if sum(_shared_size(disjunct, sizes) for disjunct in disjuncts) > _MAX_DNF_NODES:
        raise _too_large()
    return disjuncts


class _Disjuncts:
    """Lists of conjunctions, worked out for both signs and remembered, as xor asks for each part twice."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.known: dict[tuple[int, bool], list[tuple[Term, ...]]] = {}
        self.unions: dict[int, bool] = {}

    def of(self, term: Term, positive: bool) -> list[tuple[Term, ...]]:
        """The disjuncts of the term or, unless `positive`, of its complement, each as literals to intersect."""
        key = (id(term), positive)
        if key not in self.known:
            self.known[key] = self.compute(term, positive)
        return self.known[key]

    def compute(self, term: Term, positive: bool) -> list[tuple[Term, ...]]:
        if not self.has_union(term):
            # A complement without a union stays whole: pushing it inwards could only make unions.
            literal = term if positive else _not(term)
            return [literal.operands if isinstance(literal, And) else (literal,)]
        match term:
            case Project(relation=relation, operand=operand):
                # Projection distributes over union; its complement is then one intersection of complements.
                reached = [Project(relation, _conjunction(literals)) for literals in self.of(operand, True)]
                return [(part,) for part in reached] if positive else [tuple(Not(part) for part in reached)]
            case Not(operand=operand):
                return self.of(operand, not positive)
            case And() | Or():
                sides = [self.of(operand, positive) for operand in term.operands]
                return self.both(sides) if isinstance(term, And) is positive else self.either(sides)
            case Minus(left=left, right=right):
                sides = [self.of(left, positive), self.of(right, not positive)]
                return self.both(sides) if positive else self.either(sides)
            case Implies(left=left, right=right):
                sides = [self.of(left, not positive), self.of(right, positive)]
                return self.either(sides) if positive else self.both(sides)
            case Xor(left=left, right=right) | Iff(left=left, right=right):
                same = isinstance(term, Iff) is positive
                first = self.both([self.of(left, True), self.of(right, same)])
                return self.either([first, self.both([self.of(left, False), self.of(right, not same)])])
            case _:
                raise AssertionError(f"{type(term).__name__} holds no union")

    def both(self, sides: list[list[tuple[Term, ...]]]) -> list[tuple[Term, ...]]:
        count, literals = 1, 0
        for side in sides:
            count *= len(side)
            literals += max(map(len, side))
        self.check(count)
        if count * literals > _MAX_DNF_NODES:
            raise _too_large()
        return [tuple(literal for part in choice for literal in part) for choice in product(*sides)]

    def either(self, sides: Iterable[list[tuple[Term, ...]]]) -> list[tuple[Term, ...]]:
        joined = [literals for side in sides for literals in side]
        self.check(len(joined))
        return joined

    def check(self, disjuncts: int) -> None:
        if disjuncts > self.limit:
            raise LimitError(
                f"Written as a union of parts without unions the query has more than {self.limit:,} of them.",
                hint="Use fewer | and ^ inside & and inside paths.",
            )

    def has_union(self, term: Term) -> bool:
        known = self.unions.get(id(term))
        if known is None:
            known = isinstance(term, Or | Xor | Implies | Iff) or any(map(self.has_union, operands(term)))
            self.unions[id(term)] = known
        return known


def _shared_size(term: Term, sizes: dict[int, int]) -> int:
    """Number of nodes written out, in time proportional to the nodes in memory, which disjuncts share."""
    size = sizes.get(id(term))
    if size is None:
        size = sizes[id(term)] = 1 + sum(_shared_size(operand, sizes) for operand in operands(term))
    return size


def _too_large() -> LimitError:
    return LimitError(f"Written without unions the query grows past the limit of {_MAX_DNF_NODES:,} parts.")


def _conjunction(literals: tuple[Term, ...]) -> Term:
    return literals[0] if len(literals) == 1 else And(*literals)


def _not(term: Term) -> Term:
    return term.operand if isinstance(term, Not) else Not(term)


def _without_or(parts: tuple[Term, ...]) -> Term:
    return Not(And(*map(_not, parts)))
