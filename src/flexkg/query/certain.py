"""What facts settle for good: answers that stay answers, and entities that never become one, whatever is missing.

Facts that are missing can only be added. So what facts prove without a negation stays proved, and what a query excludes
by a fact stays excluded: in "borders France, but does not use the euro" a country that is known to use it is no answer,
and needs no prediction. Nothing is settled behind a step: what it leads to may be reached from elsewhere. But a single
step along a relation without loops does not lead back to where it began.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from flexkg.query.limits import MAX_DEPTH, MAX_NODES
from flexkg.query.terms import And, Any, Entity, Iff, Implies, Minus, Not, Or, Project, Term, Xor, size_and_depth
from flexkg.query.walk import fold

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Settled:
    """Queries over the facts at hand; None where nothing is settled."""

    sure: Term | None
    never: Term | None

    def negated(self) -> Settled:
        """What is settled of the complement."""
        return Settled(self.never, self.sure)

    def __and__(self, other: Settled) -> Settled:
        return Settled(_both(self.sure, other.sure), _either(self.never, other.never))

    def __or__(self, other: Settled) -> Settled:
        return Settled(_either(self.sure, other.sure), _both(self.never, other.never))


def _never(_: int) -> bool:
    return False


def excluding(term: Term, loopless: Callable[[int], bool] = _never) -> Term | None:
    """The query whose answers, by the facts at hand, are no answers of this one whatever else is true."""
    return settled(term, loopless).never


def settled(term: Term, loopless: Callable[[int], bool] = _never) -> Settled:
    """What the facts settle of a query, node by node; `loopless` says of its relations which have no loops."""
    return fold(term, lambda node, parts: _within_limits(_settled(node, parts, loopless)))


def _settled(node: Term, parts: tuple[Settled, ...], loopless: Callable[[int], bool]) -> Settled:
    match node:
        case Entity():
            return Settled(node, Not(node))
        case Any():
            return Settled(node, None)
        case Project(relation=relation, operand=operand):
            start = parts[0].sure
            away = isinstance(operand, Entity) and loopless(relation)
            return Settled(None if start is None else Project(relation, start), operand if away else None)
        case Not():
            return parts[0].negated()
        case And():
            return reduce(Settled.__and__, parts)
        case Or():
            return reduce(Settled.__or__, parts)
        case Minus():
            return parts[0] & parts[1].negated()
        case Implies():
            return parts[0].negated() | parts[1]
        case Xor():
            return _differ(*parts)
        case Iff():
            return _differ(*parts).negated()


def _differ(left: Settled, right: Settled) -> Settled:
    return (left & right.negated()) | (left.negated() & right)


def _both(left: Term | None, right: Term | None) -> Term | None:
    return None if left is None or right is None else left if left == right else And(left, right)


def _either(left: Term | None, right: Term | None) -> Term | None:
    return right if left is None else left if right is None or left == right else Or(left, right)


def _within_limits(found: Settled) -> Settled:
    """The same without what has grown past the limits of terms, as nested `xor` does."""
    return Settled(*(part if part is None or _fits(part) else None for part in (found.sure, found.never)))


def _fits(term: Term) -> bool:
    size, depth = size_and_depth(term)
    return size <= MAX_NODES and depth <= MAX_DEPTH
