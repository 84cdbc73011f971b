"""Positives and negatives for training, drawn on the device: uniform, exact, without rejection.

The answers of a query are sorted, so the j-th answer a_j has a_j - j non-answers before it, a number that does not
fall with j. The u-th non-answer is u plus the number of answers with a_j - j <= u: one binary search, and
never an entity that has to be drawn again. All shapes are static, so a captured CUDA graph can hold the draw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from flexkg.errors import DataError
from flexkg.sampling.lists import Lists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from flexkg.sampling.draws import Draws
    from flexkg.sampling.queries import Column, QuerySet


class AnswerLists(NamedTuple):
    """All answers of some queries, in lists of one length: shapes that a captured CUDA graph can hold."""

    ids: Tensor
    """(n, longest): entities, each at most once among those that are listed."""
    listed: Tensor
    """(n, longest): which places are taken."""
    complement: Tensor | None
    """(n,): whether the list is of all that are no answers; None where none is."""

    def total(self, values: Tensor) -> Tensor:
        """The sum of values (n, entities) over each query's answers, (n,)."""
        of_list = values.gather(1, self.ids).masked_fill(~self.listed, 0).sum(dim=1)
        if self.complement is None:
            return of_list
        return torch.where(self.complement, values.sum(dim=1) - of_list, of_list)


class TrainingAnswers:
    """The training answers of many queries, of any mix of shapes, on one device; queries are numbered through."""

    def __init__(
        self,
        query_sets: Sequence[QuerySet],
        num_entities: int,
        device: torch.device | str = "cpu",
        spare: float = 0.0,
    ) -> None:
        """`spare` is the share of room beyond these answers that is kept for `refill`."""
        self.num_entities = num_entities
        self.device = torch.device(device)
        columns, complement = self._checked(query_sets)
        self._listed = Lists(columns, self.device, spare)
        self._complement = torch.from_numpy(complement).to(self.device)
        self._any_complement = bool(complement.any())
        self._longest = num_entities if spare else max((int(c.lengths.max(initial=0)) for c in columns), default=0)

    def refill(self, query_sets: Sequence[QuerySet]) -> bool:
        """Put other queries, as many of the same shapes, in the place of these; False if there is no room for them."""
        columns, complement = self._checked(query_sets)
        if not self._listed.fits(columns):
            return False
        self._listed.replace(columns)
        self._complement.copy_(torch.from_numpy(complement))
        return True

    def _checked(self, query_sets: Sequence[QuerySet]) -> tuple[list[Column], NDArray[np.bool_]]:
        """The listed answers of each set, and of every query whether they are what is left out."""
        columns = [queries.answers["train"] for queries in query_sets]
        lengths = np.concatenate([np.zeros(0, np.int64), *(column.lengths for column in columns)])
        complement = np.repeat([queries.complement for queries in query_sets], [len(column) for column in columns])
        outside = np.where(complement, lengths, self.num_entities - lengths)
        if len(lengths) and (outside.min() < 1 or outside.max() >= self.num_entities):
            raise DataError(
                "A training query is answered by every entity or by none: it has no negative or no positive to draw.",
                hint="Build the workload again; `workload build` leaves such queries out.",
            )
        return columns, complement.astype(bool)

    def __len__(self) -> int:
        return len(self._listed.lengths)

    def positives(self, queries: Tensor, random: Draws) -> Tensor:
        """One uniform answer of each query, (n,)."""
        return self._draw(queries, 1, random, inside=True)[:, 0]

    def negatives(self, queries: Tensor, count: int, random: Draws) -> Tensor:
        """`count` independent uniform non-answers of each query, (n, count)."""
        return self._draw(queries, count, random, inside=False)

    def shared_negatives(self, queries: Tensor, count: int, lists: int, random: Draws) -> tuple[Tensor, Tensor]:
        """Uniform entities that runs of queries share, (lists, count), and where they are no answers, (n, count)."""
        ids = random.below(torch.full((lists,), self.num_entities, device=self.device), count)
        return ids, ~self.contains(queries, ids.repeat_interleave(len(queries) // lists, dim=0))

    def weights(self, queries: Tensor, exponent: float = -0.5) -> Tensor:
        """What each query counts, (4 + number of answers) ** exponent, (n,); the released code's is -0.5."""
        lengths = self._listed.lengths[queries]
        answers = torch.where(self._complement[queries], self.num_entities - lengths, lengths)
        return (4 + answers).to(torch.float32).pow(exponent)

    def lists(self, queries: Tensor) -> AnswerLists:
        """All answers of each query; a list is never longer than there are entities."""
        places = torch.arange(self._longest, device=self.device)
        listed = places < self._listed.lengths[queries][:, None]
        members = self._listed.at(self._listed.starts[queries][:, None] + places)
        # What fills a list up is spread over the entities: a gradient of 0 for each, not thousands for a single one.
        ids = torch.where(listed, members.to(torch.int64), places)
        return AnswerLists(ids, listed, self._complement[queries] if self._any_complement else None)

    def contains(self, queries: Tensor, entities: Tensor) -> Tensor:
        """Whether each entity (n, count) answers its row's query."""
        rank = self._rank(queries, entities, lambda members, _: members < entities)
        members = self._listed.at(self._listed.starts[queries][:, None] + rank)
        listed = (rank < self._listed.lengths[queries][:, None]) & (members == entities)
        return listed ^ self._complement[queries][:, None]

    def _draw(self, queries: Tensor, count: int, random: Draws, *, inside: bool) -> Tensor:
        if not self._any_complement:
            return self._listed.draw(queries, count, random) if inside else self._unlisted(queries, count, random)
        flip = self._complement[queries][:, None] == inside
        return torch.where(flip, self._unlisted(queries, count, random), self._listed.draw(queries, count, random))

    def _unlisted(self, queries: Tensor, count: int, random: Draws) -> Tensor:
        draws = random.below(self.num_entities - self._listed.lengths[queries], count)
        return draws + self._rank(queries, draws, lambda members, place: members - place <= draws)

    def _rank(self, queries: Tensor, values: Tensor, before: _Before) -> Tensor:
        """How many listed members come before each value, by a binary search in step, (n, count)."""
        start = self._listed.starts[queries][:, None]
        low = torch.zeros_like(values)
        high = self._listed.lengths[queries][:, None].expand_as(values)
        for _ in range(self._longest.bit_length()):
            middle = (low + high) >> 1
            right = before(self._listed.at(start + middle), middle) & (low < high)
            low = torch.where(right, middle + 1, low)
            high = torch.where(right, high, middle)
        return low


if TYPE_CHECKING:
    from collections.abc import Callable

    _Before = Callable[[Tensor, Tensor], Tensor]
