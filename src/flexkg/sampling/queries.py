"""Queries of one shape with their answers, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from flexkg.query.shapes import template_of
from flexkg.query.terms import And, Iff, Implies, Minus, Not, Or, Xor
from flexkg.query.terms import Any as Everything
from flexkg.query.walk import fold

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from flexkg.query.terms import Term

    Index = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Column:
    """A set of entities for each query: row i is `members[offsets[i]:offsets[i + 1]]`, ascending and distinct."""

    offsets: NDArray[np.int64]
    """(queries + 1,)."""
    members: NDArray[np.int32]
    """(total,)."""

    @classmethod
    def of(cls, lengths: NDArray[np.int64], members: NDArray[np.int32]) -> Column:
        """From the sizes of the sets, and the sets one after the other."""
        return cls(np.concatenate([[0], np.cumsum(lengths)]), members)

    @classmethod
    def joined(cls, columns: Sequence[Column]) -> Column:
        """All rows of all columns, of which there may be none."""
        lengths = np.concatenate([np.zeros(0, np.int64), *(column.lengths for column in columns)])
        return cls.of(lengths, np.concatenate([np.zeros(0, np.int32), *(column.members for column in columns)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, index: int) -> NDArray[np.int32]:
        """The set of one query."""
        return self.members[self.offsets[index] : self.offsets[index + 1]]

    def rows(self) -> Iterator[NDArray[np.int32]]:
        """The sets one after the other."""
        for start, stop in pairwise(self.offsets.tolist()):
            yield self.members[start:stop]

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """(queries,): the sizes of the sets."""
        return np.diff(self.offsets)

    def take(self, rows: Index) -> Column:
        """Some rows, in the given order."""
        lengths = self.lengths[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[rows] - offsets[:-1], lengths)
        return Column(offsets, self.members[places])


@dataclass(frozen=True, eq=False)
class QuerySet:
    """Queries of one template for one split.

    Training queries carry `answers["train"]`. Validation and test queries carry `easy`, the answers in the smaller
    graph (of which, under negation, the larger one may take some away), and `hard`, what the larger one adds.
    """

    shape: str
    """A label: the template's familiar name, or the name it was given."""
    key: str
    """The template (see `flexkg.query.shapes`)."""
    entities: NDArray[np.int32]
    """(queries, entity slots)."""
    relations: NDArray[np.int32]
    """(queries, relation slots), directed ids."""
    answers: dict[str, Column]
    complement: bool = False
    """True when `train` and `easy` list what is *not* an answer; a property of the template. `hard` never does."""
    hardness: NDArray[np.uint8] | None = None
    """For each member of `hard`, the least number of missing links that its proof needs."""
    extra: dict[str, Any] = field(default_factory=dict)
    """What else is worth keeping about how they were made: seconds, attempts, shortfall."""

    def __len__(self) -> int:
        return len(self.entities)

    def take(self, rows: Index) -> QuerySet:
        """Some queries, in the given order."""
        hardness = self.hardness
        if hardness is not None:
            hard = self.answers["hard"]
            numbered = Column(hard.offsets, np.arange(len(hard.members), dtype=np.int32)).take(rows)
            hardness = hardness[numbered.members]
        answers = {name: column.take(rows) for name, column in self.answers.items()}
        return replace(
            self, entities=self.entities[rows], relations=self.relations[rows], answers=answers, hardness=hardness
        )

    @cached_property
    def template(self) -> Term:
        """The queries' common term, with slot numbers for ids."""
        return template_of(self.key)


def join(parts: Sequence[QuerySet]) -> QuerySet:
    """Training queries of one template, one part after the other."""
    return replace(
        parts[0],
        entities=np.concatenate([part.entities for part in parts]),
        relations=np.concatenate([part.relations for part in parts]),
        answers={"train": Column.joined([part.answers["train"] for part in parts])},
    )


def cofinite(template: Term) -> bool:
    """Whether the engine gives the answers to queries of a template as a complement."""

    def combine(node: Term, parts: tuple[bool, ...]) -> bool:
        match node:
            case Everything():
                return True
            case Not():
                return not parts[0]
            case And():
                return all(parts)
            case Or():
                return any(parts)
            case Minus():
                return parts[0] and not parts[1]
            case Implies():
                return parts[1] or not parts[0]
            case Xor():
                return parts[0] != parts[1]
            case Iff():
                return parts[0] == parts[1]
        # An entity is one, and what a projection reaches is listed whatever it starts from.
        return False

    return fold(template, combine)
