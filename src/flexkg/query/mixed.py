"""Conditions that speak of several variables at once: the steps that take them apart, and the error where none can."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flexkg.query.formula import And, Atom, Exists, Formula, Iff, Implies, Minus, Not, Or, Xor
from flexkg.query.printer import formula_text
from flexkg.query.tokens import Source, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flexkg.errors import QueryError
    from flexkg.query.formula import FreeVariables


def unfold(formula: Formula) -> Formula:
    """Write a derived connective with and, or, not."""
    start, end = formula.start, formula.end
    match formula:
        case Minus(left=left, right=right):
            return And((left, _not(right)), start, end)
        case Implies(left=left, right=right):
            return Or((_not(left), right), start, end)
        case Xor(left=left, right=right):
            return _either((left, _not(right)), (_not(left), right), start, end)
        case Iff(left=left, right=right):
            return _either((left, right), (_not(left), _not(right)), start, end)
        case _:
            raise AssertionError(f"{type(formula).__name__} is not derived")


def negate(formula: Formula) -> Formula | None:
    """Push one negation into the formula, or None where it would have to cross a quantifier or meets an atom."""
    start, end = formula.start, formula.end
    match formula:
        case Atom() | Exists():
            return None
        case Not(operand=operand):
            return operand
        case And(operands=operands):
            return Or(tuple(map(_not, operands)), start, end)
        case Or(operands=operands):
            return And(tuple(map(_not, operands)), start, end)
        case Minus(left=left, right=right):
            return Or((_not(left), right), start, end)
        case Implies(left=left, right=right):
            return And((left, _not(right)), start, end)
        case Xor(left=left, right=right):
            return Iff(left, right, start, end)
        case Iff(left=left, right=right):
            return Xor(left, right, start, end)


def negated_edge(
    source: Source, negation: Not, others: list[Formula], root: int, free: FreeVariables, names: dict[int, str]
) -> QueryError:
    """The error for a negation between two variables where the inner one is tied outside the negation too."""
    keys = free(negation)
    outer = root if root in keys else _nearest(keys, others, root, free)
    inner = min(keys - {outer})
    ties = _held_together(inner, outer, others, free)
    shared = any(free(tie) & {outer, root} for tie in ties)
    if shared:
        # Inner and outer occurrences of one name would be read as one variable, so the suggestion says `exists`.
        ties = [tie for tie in ties if free(tie) == {inner}]
    operands = (*ties, *(negation.operand.operands if isinstance(negation.operand, And) else (negation.operand,)))
    body: Formula = And(operands) if len(operands) > 1 else operands[0]
    text = formula_text(_without_exists(body), lambda atom: " ".join(source.text[atom.start : atom.end].split()))
    inner_name, outer_name = f"?{shown(names[inner])}", f"?{shown(names[outer])}"
    if shared or not ties:
        text = f"exists {inner_name}. {text}"
    outside = "tied outside of it as well" if shared or ties else "quantified outside of it"
    return source.error(
        f"The negation speaks of {inner_name} and {outer_name}, and {inner_name} is {outside}.",
        negation.start,
        negation.end,
        f"Write !({shown(text, 400)}), which holds where no such {inner_name} exists.",
    )


def _not(formula: Formula) -> Formula:
    return formula.operand if isinstance(formula, Not) else Not(formula, formula.start, formula.end)


def _either(first: tuple[Formula, ...], second: tuple[Formula, ...], start: int, end: int) -> Formula:
    return Or((And(first, start, end), And(second, start, end)), start, end)


def _without_exists(formula: Formula) -> Formula:
    # The quantifiers inside were implicit as a rule; left out, they are implicit again.
    if isinstance(formula, Exists):
        return _without_exists(formula.body)
    if isinstance(formula, And):
        flat: list[Formula] = []
        for operand in map(_without_exists, formula.operands):
            flat.extend(operand.operands if isinstance(operand, And) else (operand,))
        return And(tuple(flat))
    return formula


def _nearest(keys: Iterable[int], others: list[Formula], root: int, free: FreeVariables) -> int:
    """The first of the variables met on the way from the root."""
    wanted, seen, rest = set(keys), {root}, others
    while not wanted & seen:
        near = [other for other in rest if free(other) & seen]
        if not near:
            return min(wanted)
        seen = seen.union(*map(free, near))
        rest = [other for other in rest if other not in near]
    return min(wanted & seen)


def _held_together(inner: int, outer: int, others: list[Formula], free: FreeVariables) -> list[Formula]:
    """The conditions that reach the inner variable without passing through the outer one."""
    seen: frozenset[int] = frozenset({inner})
    while True:
        ties = [other for other in others if (free(other) - {outer}) & seen]
        grown = seen.union(*map(free, ties)) - {outer}
        if grown == seen:
            return ties
        seen = grown
