"""Kinds of query: shapes regardless of the order in which operands were written."""

from __future__ import annotations

from functools import cache

from flexkg.query.shapes import CODES, DE_MORGAN_SHAPES, SHAPES
from flexkg.query.terms import And, Iff, Or, Term, Xor
from flexkg.query.walk import fold


def kind_of(term: Term) -> str:
    """The name of a query's or a template's shape, or the key of its template with operands in a fixed order."""
    key = _key(term)
    return _names().get(key, key)


def _key(term: Term) -> str:
    def combine(node: Term, parts: tuple[str, ...]) -> str:
        if isinstance(node, And | Or | Xor | Iff):
            parts = tuple(sorted(parts))
        number = str(len(parts)) if isinstance(node, And | Or) else ""
        return "".join(parts) + CODES[type(node)] + number

    return fold(term, combine)


@cache
def _names() -> dict[str, str]:
    return {_key(template): name for name, template in (SHAPES | DE_MORGAN_SHAPES).items()}
