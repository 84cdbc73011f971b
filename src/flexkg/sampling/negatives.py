"""Positives and negatives for training, drawn on the device: uniform, exact, without rejection.

The answers of a query are sorted, so the j-th answer a_j has a_j - j non-answers before it, a number that does not
fall with j. The u-th non-answer is u plus the number of answers with a_j - j <= u: one binary search, and
never an entity that has to be drawn again. All shapes are static, so a captured CUDA graph can hold the draw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from flexkg.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from flexkg.sampling.queries import QuerySet


class TrainingAnswers:
    """The training answers of many queries, of any mix of shapes, on one device; queries are numbered through."""

    def __init__(self, query_sets: Sequence[QuerySet], num_entities: int, device: torch.device | str = "cpu") -> None:
        columns = [queries.answers["train"] for queries in query_sets]
        lengths = np.concatenate([np.zeros(0, np.int64), *(column.lengths for column in columns)])
        complement = np.repeat([queries.complement for queries in query_sets], [len(column) for column in columns])
        outside = np.where(complement, lengths, num_entities - lengths)
        if len(lengths) and (outside.min() < 1 or outside.max() >= num_entities):
            raise DataError(
                "A training query is answered by every entity or by none: it has no negative or no positive to draw.",
                hint="Build the workload again; `workload build` leaves such queries out.",
            )
        self.num_entities = num_entities
        self.device = torch.device(device)
        self._lengths = torch.from_numpy(lengths).to(self.device)
        self._starts = torch.from_numpy(np.cumsum(lengths) - lengths).to(self.device)
        members = np.concatenate([np.zeros(0, np.int32), *(column.members for column in columns)])
        self._members = torch.from_numpy(members).to(self.device)
        self._complement = torch.from_numpy(complement.astype(bool)).to(self.device)
        self._any_complement = bool(complement.any())
        self._search_steps = int(lengths.max(initial=0)).bit_length()

    def __len__(self) -> int:
        return len(self._lengths)

    def positives(self, queries: Tensor, random: torch.Generator | None = None) -> Tensor:
        """One uniform answer of each query, (n,)."""
        return self._draw(queries, 1, random, inside=True)[:, 0]

    def negatives(self, queries: Tensor, count: int, random: torch.Generator | None = None) -> Tensor:
        """`count` independent uniform non-answers of each query, (n, count)."""
        return self._draw(queries, count, random, inside=False)

    def shared_negatives(
        self, queries: Tensor, count: int, random: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """`count` uniform entities for all queries together, (count,), and where they are no answers, (n, count)."""
        ids = torch.randint(self.num_entities, (count,), generator=random, device=self.device)
        return ids, ~self.contains(queries, ids.expand(len(queries), count))

    def weights(self, queries: Tensor) -> Tensor:
        """The subsampling weight 1 / sqrt(4 + number of answers) of each query, (n,)."""
        lengths = self._lengths[queries]
        answers = torch.where(self._complement[queries], self.num_entities - lengths, lengths)
        return (4 + answers).to(torch.float32).rsqrt()

    def contains(self, queries: Tensor, entities: Tensor) -> Tensor:
        """Whether each entity (n, count) answers its row's query."""
        rank = self._rank(queries, entities, lambda members, _: members < entities)
        places = (self._starts[queries][:, None] + rank).clamp_(max=max(len(self._members) - 1, 0))
        listed = (rank < self._lengths[queries][:, None]) & (self._members[places] == entities)
        return listed ^ self._complement[queries][:, None]

    def _draw(self, queries: Tensor, count: int, random: torch.Generator | None, *, inside: bool) -> Tensor:
        if not self._any_complement:
            return self._listed(queries, count, random) if inside else self._unlisted(queries, count, random)
        flip = self._complement[queries][:, None] == inside
        return torch.where(flip, self._unlisted(queries, count, random), self._listed(queries, count, random))

    def _listed(self, queries: Tensor, count: int, random: torch.Generator | None) -> Tensor:
        places = self._starts[queries][:, None] + self._below(self._lengths[queries], count, random)
        return self._members[places.clamp_(max=max(len(self._members) - 1, 0))].to(torch.int64)

    def _unlisted(self, queries: Tensor, count: int, random: torch.Generator | None) -> Tensor:
        draws = self._below(self.num_entities - self._lengths[queries], count, random)
        return draws + self._rank(queries, draws, lambda members, place: members - place <= draws)

    def _rank(self, queries: Tensor, values: Tensor, before: _Before) -> Tensor:
        """How many listed members come before each value, by a binary search in step, (n, count)."""
        start = self._starts[queries][:, None]
        low = torch.zeros_like(values)
        high = self._lengths[queries][:, None].expand_as(values)
        last = max(len(self._members) - 1, 0)
        for _ in range(self._search_steps):
            middle = (low + high) >> 1
            right = before(self._members[(start + middle).clamp_(max=last)], middle) & (low < high)
            low = torch.where(right, middle + 1, low)
            high = torch.where(right, high, middle)
        return low

    def _below(self, limits: Tensor, count: int, random: torch.Generator | None) -> Tensor:
        draws = torch.rand((len(limits), count), generator=random, device=self.device, dtype=torch.float64)
        return (draws * limits[:, None]).to(torch.int64)


if TYPE_CHECKING:
    from collections.abc import Callable

    _Before = Callable[[Tensor, Tensor], Tensor]
