"""What may come next in the text of a query: relations outside of an atom, entities inside one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flexkg.query.tokens import KEYWORDS, written

if TYPE_CHECKING:
    from flexkg.kg.dataset import Dataset

_BREAKS = re.compile(r'["()&|!\\^:,<>\-.\s]')


@dataclass(frozen=True, slots=True)
class Completion:
    """A name that begins as what was typed does."""

    text: str
    """As it is written in a query, quoted where it must be."""
    start: int
    """Where in the text it begins, so that it replaces what was typed from there on."""
    kind: str
    """`entity` or `relation`."""
    about: str
    """Words that tell it from others."""


def complete(dataset: Dataset, text: str, limit: int = 10) -> list[Completion]:
    """Names that may stand at the end of an unfinished query."""
    start, in_atom = _place(text)
    prefix = text[start:].removeprefix('"')
    if prefix.startswith("?") or prefix.casefold() in KEYWORDS:
        return []
    names = dataset.names
    if in_atom:
        ids = dataset.entities.complete(prefix, limit)
        return [Completion(written(names.entity_text(id)), start, "entity", names.describe_entity(id)) for id in ids]
    if ":" not in text:
        return []
    ids = dataset.relations.complete(prefix, limit)
    return [Completion(written(names.relation_text(id)), start, "relation", names.describe_relation(id)) for id in ids]


def _place(text: str) -> tuple[int, bool]:
    """Where the last name begins, and whether it is an argument of an atom."""
    start, quoted = 0, False
    atoms: list[bool] = []
    before = ""
    for place, sign in enumerate(text):
        if sign == '"':
            quoted = not quoted
            if quoted:
                start = place
            before = sign
            continue
        if quoted:
            continue
        if sign == "(":
            # A parenthesis right behind a name opens an atom, any other one a group.
            atoms.append(before == '"' or (bool(before) and not _BREAKS.match(before)))
        elif sign == ")" and atoms:
            atoms.pop()
        if _BREAKS.match(sign):
            start = place + 1
        if not sign.isspace():
            before = sign
    return start, bool(atoms) and atoms[-1]
