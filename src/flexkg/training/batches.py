"""Training batches, drawn on the device where queries, answers and the negative filter live.

A batch is decided by the seed and the step alone: no epoch, no worker, no order to remember, so that a run resumed
at a step goes on exactly as one that was never interrupted, and several processes can each take their share of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from flexkg.errors import ConfigError, DataError
from flexkg.plan.prepare import PreparedPlan, prepare_groups
from flexkg.sampling.draws import Draws
from flexkg.sampling.near import NearLists
from flexkg.sampling.negatives import AnswerLists, TrainingAnswers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from flexkg.config import TrainingSettings
    from flexkg.plan.plan import Grounding
    from flexkg.plan.prepare import Interpretation
    from flexkg.sampling.queries import QuerySet

_PATHS = ("1p", "2p", "3p")
_SPARE = 0.25
"""Room for answers of queries that take the place of the first ones, beyond what those have."""


@dataclass(frozen=True, eq=False)
class Batch:
    """What one update learns from."""

    grounding: Grounding
    positives: Tensor
    """(queries, 1): an answer."""
    negatives: Tensor
    """(queries, k), entities that are none; or (lists, k), entities that runs of queries share."""
    allowed: Tensor | None
    """(queries, k) where negatives are shared: whether they are no answers."""
    weights: Tensor
    """(queries,)."""
    total: Tensor
    """The sum of the weights of the whole batch, of which this may be one process's share."""
    answers: AnswerLists | None = None
    """All answers, where the loss is about all of them."""
    near: Tensor | None = None
    """(queries, k) where some are: whether a negative is a near miss."""
    part: float = 1.0
    """How much of the whole batch's queries these are."""


class Batches:
    """Draws batches with a fixed number of queries of each shape."""

    def __init__(
        self,
        query_sets: Sequence[QuerySet],
        counts: Sequence[int],
        interpretation: Interpretation,
        num_entities: int,
        negatives: int,
        seed: int,
        device: torch.device | str = "cpu",
        share: tuple[int, int] = (0, 1),
        *,
        shared_by: int = 1,
        refillable: bool = False,
        weight_exponent: float = -0.5,
        all_answers: bool = False,
        near: int = 0,
    ) -> None:
        """`share` is (this process, number of processes): each takes its part of every shape of the same batch.

        `shared_by` queries share their negatives. `refillable` keeps room for other queries in place of these. A query
        with n answers weighs (4 + n) ** `weight_exponent`. `all_answers` puts all answers of its queries into a batch.
        `near` of the negatives are near misses where a query has any (see `flexkg.sampling.near`).
        """
        self.device = torch.device(device)
        self.query_sets = query_sets
        self._counts = list(counts)
        self.queries_per_batch = sum(self._counts)
        if self.queries_per_batch % shared_by:
            raise ConfigError(
                f"training.shared_by: a batch of {self.queries_per_batch:,} cannot be cut into runs of {shared_by}.",
                hint="Make training.batch_size a multiple of training.shared_by.",
            )
        for queries in query_sets:
            if len(queries) == 0:
                raise DataError(
                    f"The workload has no training queries of the shape {queries.shape}.",
                    hint="Leave it out with --set training.shapes=..., or build a workload that has some.",
                )
        sizes = [len(queries) for queries in query_sets]
        self._ids = [self._grounds(queries) for queries in query_sets]
        self._limits = torch.repeat_interleave(torch.tensor(sizes), torch.tensor(self._counts)).to(self.device)
        first = torch.tensor([0, *np.cumsum(sizes)[:-1].tolist()])
        self._first = torch.repeat_interleave(first, torch.tensor(self._counts)).to(self.device)
        self._answers = TrainingAnswers(query_sets, num_entities, self.device, _SPARE if refillable else 0.0)
        self._near = NearLists(query_sets, self.device, _SPARE if refillable else 0.0) if near else None
        self._near_count = near
        self._negatives = negatives
        self._shared_by = shared_by
        self._weight_exponent = weight_exponent
        self._all_answers = all_answers
        self._seed = seed
        parts = [_part(count, *share) for count in self._counts]
        starts = np.cumsum([0, *self._counts]).tolist()
        self._spans = [slice(start, start + count) for start, count in zip(starts, self._counts, strict=False)]
        self._mine: Tensor | None = None
        if share[1] > 1:
            runs = [np.arange(start + p.start, start + p.stop) for start, p in zip(starts, parts, strict=False)]
            self._mine = torch.from_numpy(np.concatenate(runs)).to(self.device)
        self._parts = parts
        groups = [(queries.template, part.stop - part.start) for queries, part in zip(query_sets, parts, strict=True)]
        self.prepared: PreparedPlan = prepare_groups(groups, interpretation).to(self.device)

    @property
    def rows(self) -> int:
        """How many of a batch's queries are this process's."""
        return sum(part.stop - part.start for part in self._parts)

    def draw(self, step: Tensor | int) -> Batch:
        """The batch of a step; all shapes are static and nothing waits for the device."""
        random = Draws(self._seed, step, self.device)
        rows = random.below(self._limits, 1)[:, 0]
        queries = rows + self._first
        weights = self._answers.weights(queries, self._weight_exponent)
        # All processes draw the candidates of the whole batch, so that each finds the same ones for its share.
        positives = self._answers.positives(queries, random)[:, None]
        allowed = near = None
        if self._shared_by == 1:
            negatives = self._answers.negatives(queries, self._negatives, random)
            if self._near is not None:
                negatives, near = self._near.put(negatives, queries, self._near_count, random)
        else:
            lists = len(queries) // self._shared_by
            negatives, allowed = self._answers.shared_negatives(queries, self._negatives, lists, random)
        total = weights.sum()
        if self._mine is not None:
            if allowed is not None:
                negatives, allowed = negatives.repeat_interleave(self._shared_by, dim=0), allowed[self._mine]
            positives, negatives, weights = positives[self._mine], negatives[self._mine], weights[self._mine]
            queries, near = queries[self._mine], None if near is None else near[self._mine]
        local = [rows[span][part] for span, part in zip(self._spans, self._parts, strict=True)]
        groups = [(entities[row], relations[row]) for (entities, relations), row in zip(self._ids, local, strict=True)]
        grounding = self.prepared.plan.ground(groups, self.device)
        answers = self._answers.lists(queries) if self._all_answers else None
        part = len(queries) / self.queries_per_batch
        return Batch(grounding, positives, negatives, allowed, weights, total, answers, near, part)

    def by_row(self, values: Sequence[float]) -> Tensor:
        """A value for each shape, laid out as the rows of a batch are."""
        lengths = torch.tensor([part.stop - part.start for part in self._parts])
        return torch.repeat_interleave(torch.tensor(values), lengths).to(self.device)

    def refill(self, query_sets: Sequence[QuerySet]) -> bool:
        """Put other queries in the place of these, as many of each shape; False if there is no room for them."""
        if any(len(new) != len(old[0]) for new, old in zip(query_sets, self._ids, strict=True)):
            return False
        if self._near is not None and not self._near.fits(query_sets):
            return False
        if not self._answers.refill(query_sets):
            return False
        if self._near is not None:
            self._near.refill(query_sets)
        for queries, mine in zip(query_sets, self._ids, strict=True):
            for old, new in zip(mine, self._grounds(queries), strict=True):
                old.copy_(new)
        return True

    def _grounds(self, queries: QuerySet) -> tuple[Tensor, Tensor]:
        entities, relations = (
            torch.from_numpy(kind.astype(np.int64)).to(self.device) for kind in (queries.entities, queries.relations)
        )
        return entities, relations


def counts_by_update(shapes: Sequence[str], settings: TrainingSettings) -> list[dict[str, int]]:
    """How many queries of each shape the updates of a step have: all are in one, or the released schedule has three."""
    parts: list[Sequence[str]] = [shapes]
    if settings.update == "released":
        paths = [shape for shape in shapes if shape in _PATHS]
        parts = [paths, [shape for shape in shapes if shape not in _PATHS], paths]
    counted = [(part, counts_for(part, settings.shares, settings.batch_size)) for part in parts if part]
    return [dict(zip(part, counts, strict=True)) for part, counts in counted]


def counts_for(shapes: Sequence[str], shares: Mapping[str, float], batch_size: int) -> list[int]:
    """Queries of each shape in a batch: in proportion to the shares, at least one, `batch_size` in all if it can be."""
    size = max(batch_size, len(shapes))
    wanted = np.array([shares.get(shape, 1.0) for shape in shapes])
    exact = wanted / wanted.sum() * size
    counts = np.maximum(1, np.floor(exact)).astype(int)
    # The largest remainders get what is left over.
    for place in np.argsort(counts - exact)[: max(0, size - counts.sum())]:
        counts[place] += 1
    # What small shares were given beyond theirs, the largest give back.
    for _ in range(counts.sum() - size):
        counts[counts.argmax()] -= 1
    return [int(count) for count in counts]


def _part(count: int, rank: int, processes: int) -> slice:
    return slice(count * rank // processes, count * (rank + 1) // processes)
