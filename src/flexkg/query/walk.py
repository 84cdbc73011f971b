"""Walks over terms without recursion, so that a deep term costs memory and never a stack overflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from flexkg.errors import LimitError
from flexkg.query.limits import MAX_DEPTH, MAX_NODES
from flexkg.query.terms import Term, operands, size_and_depth

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def postorder(term: Term) -> list[Term]:
    """Every node, each behind its operands, operands from left to right."""
    order: list[Term] = []
    stack = [term]
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(operands(node))
    order.reverse()
    return order


def fold(term: Term, combine: Callable[[Term, tuple[T, ...]], T]) -> T:
    """Compute a value bottom-up from each node and the values of its operands."""
    values: list[T] = []
    for node in postorder(term):
        count = len(operands(node))
        parts = tuple(values[len(values) - count :]) if count else ()
        del values[len(values) - count :]
        values.append(combine(node, parts))
    return values[0]


def check_size(term: Term) -> None:
    """Raise unless the term keeps within the limits on depth and on number of nodes."""
    size, depth = size_and_depth(term)
    if depth > MAX_DEPTH:
        raise LimitError(f"The query is nested {depth:,} levels deep; the limit is {MAX_DEPTH}.")
    if size > MAX_NODES:
        raise LimitError(f"The query has {size:,} parts; the limit is {MAX_NODES:,}.")
