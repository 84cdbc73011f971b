"""What the parser and the printer need to know about names; a graph's vocabularies provide it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Names(Protocol):
    """Looks names up. Relation ids here count one direction only: relation k, not 2k and 2k + 1."""

    def find_entities(self, text: str) -> Sequence[int]:
        """Ids of the entities that `text` may mean: none, one, or several when it is ambiguous."""

    def find_relations(self, text: str) -> Sequence[int]:
        """Ids of the relations that `text` may mean."""

    def suggest_entities(self, text: str) -> Sequence[str]:
        """Known spellings close to `text`, best first, at most a few."""

    def suggest_relations(self, text: str) -> Sequence[str]:
        """Known spellings close to `text`, best first, at most a few."""

    def entity_text(self, id: int) -> str:
        """A spelling that `find_entities` maps to this id alone."""

    def relation_text(self, id: int) -> str:
        """A spelling that `find_relations` maps to this id alone."""

    def describe_entity(self, id: int) -> str:
        """Words that tell this entity from others of the same name, such as identifier and description."""

    def describe_relation(self, id: int) -> str:
        """Words that tell this relation from others of the same name."""
