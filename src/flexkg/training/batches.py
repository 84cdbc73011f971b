"""Training batches, drawn on the device where queries, answers and the negative filter live.

A batch is decided by the seed and the step alone: no epoch, no worker, no order to remember, so that a run resumed
at a step goes on exactly as one that was never interrupted, and several processes can each take their share of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from flexkg.errors import DataError
from flexkg.plan.prepare import PreparedPlan, prepare_groups
from flexkg.sampling.negatives import TrainingAnswers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from flexkg.plan.plan import Grounding
    from flexkg.plan.prepare import Interpretation
    from flexkg.sampling.queries import QuerySet


@dataclass(frozen=True, eq=False)
class Batch:
    """What one update learns from."""

    grounding: Grounding
    candidates: Tensor
    """(queries, 1 + negatives): an answer, then entities that are none."""
    weights: Tensor
    """(queries,)."""
    total: Tensor
    """The sum of the weights of the whole batch, of which this may be one process's share."""

    def copy_(self, other: Batch) -> None:
        """Overwrite this batch in place: a captured step reads the next batch from where it read the last."""
        self.grounding.copy_(other.grounding)
        self.candidates.copy_(other.candidates)
        self.weights.copy_(other.weights)
        self.total.copy_(other.total)


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
    ) -> None:
        """`share` is (this process, number of processes): each takes its part of every shape of the same batch."""
        self.device = torch.device(device)
        self._counts = list(counts)
        self._sizes = [len(queries) for queries in query_sets]
        for queries in query_sets:
            if len(queries) == 0:
                raise DataError(
                    f"The workload has no training queries of the shape {queries.shape}.",
                    hint="Leave it out with --set training.shapes=..., or build a workload that has some.",
                )
        self._ids = [
            tuple(
                torch.from_numpy(kind.astype(np.int64)).to(self.device)
                for kind in (queries.entities, queries.relations)
            )
            for queries in query_sets
        ]
        self._first = np.concatenate([[0], np.cumsum(self._sizes)]).tolist()
        self._answers = TrainingAnswers(query_sets, num_entities, self.device)
        self._negatives = negatives
        self._seed = seed
        self._share = share
        self._parts = [_part(count, *share) for count in self._counts]
        groups = [
            (queries.template, part.stop - part.start) for queries, part in zip(query_sets, self._parts, strict=True)
        ]
        self.prepared: PreparedPlan = prepare_groups(groups, interpretation).to(self.device)
        self.queries_per_batch = sum(self._counts)

    def draw(self, step: int) -> Batch:
        """The batch of a step."""
        random = torch.Generator(self.device).manual_seed(_mixed(self._seed, step))
        rows = [
            torch.randint(size, (count,), generator=random, device=self.device)
            for size, count in zip(self._sizes, self._counts, strict=True)
        ]
        everything = torch.cat([row + first for row, first in zip(rows, self._first, strict=False)])
        total = self._answers.weights(everything).sum()
        mine = [row[part] for row, part in zip(rows, self._parts, strict=True)]
        queries = torch.cat([row + first for row, first in zip(mine, self._first, strict=False)])
        # All processes draw the candidates of the whole batch, so that each finds the same ones for its share.
        positives = self._answers.positives(everything, random)
        negatives = self._answers.negatives(everything, self._negatives, random)
        candidates = torch.cat([positives[:, None], negatives], dim=1)
        if self._share[1] > 1:
            whole = candidates
            starts = np.cumsum([0, *self._counts]).tolist()
            candidates = torch.cat(
                [whole[start + own.start : start + own.stop] for start, own in zip(starts, self._parts, strict=False)]
            )
        groups = [(entities[row], relations[row]) for (entities, relations), row in zip(self._ids, mine, strict=True)]
        return Batch(self.prepared.plan.ground(groups, self.device), candidates, self._answers.weights(queries), total)


def counts_for(shapes: Sequence[str], shares: Mapping[str, float], batch_size: int) -> list[int]:
    """Queries of each shape in a batch: in proportion to the shares, at least one, `batch_size` in all if it can be."""
    wanted = np.array([shares.get(shape, 1.0) for shape in shapes])
    exact = wanted / wanted.sum() * max(batch_size, len(shapes))
    counts = np.maximum(1, np.floor(exact)).astype(int)
    # The largest remainders get what is left over.
    for place in np.argsort(counts - exact)[: max(0, batch_size - counts.sum())]:
        counts[place] += 1
    return [int(count) for count in counts]


def _part(count: int, rank: int, processes: int) -> slice:
    return slice(count * rank // processes, count * (rank + 1) // processes)


def _mixed(seed: int, step: int) -> int:
    """A seed for a step that has nothing in common with its neighbours'."""
    value = (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB) & (2**64 - 1)
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    return (value ^ (value >> 27)) & (2**63 - 1)
