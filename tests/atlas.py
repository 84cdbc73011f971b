"""A small vocabulary to read queries by."""

from __future__ import annotations

import pytest

from flexkg.errors import QueryError
from flexkg.query import parse
from flexkg.query.terms import Entity


class Atlas:
    """A small vocabulary with an ambiguous name, an alias and names that need quotes."""

    entities = ("A", "B", "C", "France", "United States", "Georgia", "Georgia", "Euro", "or", "St.Lucia", "d'Ivoire")
    relations = ("p", "q", "r", "s", "borders", "ex:knows", "part of", "/a/b", "uses", "uses")

    def find_entities(self, text):
        if text == "USA":
            return [4]
        return [id for id, name in enumerate(self.entities) if text in (name, f"Q{id}")]

    def find_relations(self, text):
        return [id for id, name in enumerate(self.relations) if text in (name, f"P{id}")]

    def suggest_entities(self, text):
        return [name for name in ("France", "United States") if name[0] == text[0]]

    def suggest_relations(self, text):
        return ["borders"] if text[0] == "b" else []

    def entity_text(self, id):
        name = self.entities[id]
        return name if self.entities.count(name) == 1 else f"Q{id}"

    def relation_text(self, id):
        name = self.relations[id]
        return name if self.relations.count(name) == 1 else f"P{id}"

    def describe_entity(self, id):
        return f"Q{id} ({'country' if id == 5 else 'state'})"

    def describe_relation(self, id):
        return f"P{id}"


ATLAS = Atlas()
A, B, C = (Entity(id) for id in range(3))
P, Q, R, S = 0, 2, 4, 6


def read(formula: str):
    return parse(f"?x : {formula}", ATLAS)


def refused(text: str) -> QueryError:
    with pytest.raises(QueryError) as caught:
        parse(text, ATLAS)
    assert caught.value.caret() is not None
    return caught.value


def marked(error: QueryError) -> str:
    """What stands above the carets."""
    shown, marks = error.caret().split("\n")
    return shown[marks.index("^") : len(marks)]
