"""Filtered ranks: each answer that had to be predicted, against everything that is no answer.

For a query with easy and hard answers, a hard answer's rank is one more than the number of non-answers with a higher
score. Equal scores count half: the realistic rank, between the optimistic and the pessimistic one, so that a model
that scores everything alike gets what chance gives it. Ranks are averaged over a query's hard answers first, then
over queries. Scores that are not numbers are counted, and never help (see `flexkg.evaluation.counting`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from flexkg.evaluation.counting import Counts, count_rivals
from flexkg.plan.executor import execute
from flexkg.plan.prepare import prepare_groups
from flexkg.sampling.queries import Column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from flexkg.models import QueryModel
    from flexkg.plan.prepare import Interpretation
    from flexkg.sampling.queries import QuerySet

HITS = (1, 3, 10)

_BUDGET = {"cpu": 24 << 20, "cuda": 256 << 20}
"""Bytes of scores that are held at a time. On a CPU memory that is asked for in larger pieces is new every time, and
fresh pages cost more than what is written to them; on a GPU sorting takes up to ten times as much beside it."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """The ranks of the hard answers of some queries, in the order of their `hard` column."""

    lengths: NDArray[np.int64]
    """(queries,): hard answers of each."""
    optimistic: NDArray[np.float64]
    """(hard answers,)."""
    pessimistic: NDArray[np.float64]
    """(hard answers,)."""
    not_numbers: NDArray[np.int64]
    """(queries,): scores that are not numbers."""
    constant: NDArray[np.bool_]
    """(queries,): whether all entities have the same score."""

    @cached_property
    def realistic(self) -> NDArray[np.float64]:
        """(hard answers,): half way between the two."""
        return (self.optimistic + self.pessimistic) / 2

    def metrics(self) -> dict[str, float]:
        """MRR and hits, averaged per query, then over queries."""
        return {name: float(values.mean()) for name, values in self.per_query().items()}

    def per_query(self) -> dict[str, NDArray[np.float64]]:
        """MRR and hits of every query, (queries,) each."""
        hits = {f"hits@{k}": self.mean((self.realistic <= k).astype(np.float64)) for k in HITS}
        return {"mrr": self.mean(1 / self.realistic)} | hits

    def mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean over each query's hard answers of a value of theirs, (queries,)."""
        query = np.repeat(np.arange(len(self.lengths)), self.lengths)
        return np.bincount(query, values, len(self.lengths)) / np.maximum(self.lengths, 1)


def rank(
    model: QueryModel, queries: QuerySet, interpretation: Interpretation, device: torch.device | str = "cpu"
) -> Ranks:
    """Ranks of all hard answers of one shape's queries."""
    return rank_together(model, [queries], interpretation, device)[0]


@torch.no_grad()
def rank_together(
    model: QueryModel,
    query_sets: Sequence[QuerySet],
    interpretation: Interpretation,
    device: torch.device | str = "cpu",
    report: Callable[[int], None] = lambda _: None,
) -> list[Ranks]:
    """Ranks of the hard answers of several shapes, which share batches; `report` takes how many queries are done."""
    for queries in query_sets:
        if queries.complement:
            raise ValueError("queries whose answers are co-finite cannot be ranked: there are next to no non-answers")
    counts: list[list[Counts]] = [[] for _ in query_sets]
    done = 0
    with model.keeping_candidates():
        for batch in _batches([len(queries) for queries in query_sets], batch_height(model, device)):
            groups = [(query_sets[index], rows) for index, rows in batch]
            found = count_rivals(
                score_groups(model, groups, interpretation, device), _joined(groups, "hard"), _joined(groups, "easy")
            )
            row = answer = 0
            for (index, rows), (queries, _) in zip(batch, groups, strict=True):
                offsets = queries.answers["hard"].offsets
                height, width = rows.stop - rows.start, int(offsets[rows.stop] - offsets[rows.start])
                here, answers = slice(row, row + height), slice(answer, answer + width)
                part = Counts(found.above[answers], found.equal[answers], found.not_numbers[here], found.constant[here])
                counts[index].append(part)
                row, answer = here.stop, answers.stop
            done += row
            report(done)
    return [_ranks(queries, parts) for queries, parts in zip(query_sets, counts, strict=True)]


def batch_height(model: QueryModel, device: torch.device | str = "cpu") -> int:
    """How many queries are scored at a time, so that memory is bounded however many entities there are."""
    return max(1, _BUDGET.get(torch.device(device).type, _BUDGET["cpu"]) // (4 * model.num_entities))


def score_groups(
    model: QueryModel,
    groups: Sequence[tuple[QuerySet, slice]],
    interpretation: Interpretation,
    device: torch.device | str,
) -> Tensor:
    """Scores of all entities for some queries of each set, (queries, entities), one set after the other."""
    heights = [(queries.template, rows.stop - rows.start) for queries, rows in groups]
    prepared = prepare_groups(heights, interpretation).to(device)
    ids = [(_ids(queries.entities[rows], device), _ids(queries.relations[rows], device)) for queries, rows in groups]
    states = execute(prepared.plan, prepared.plan.ground(ids, device), model)
    return model.score_all(states, prepared.owner, prepared.count)


def mean_mrr(results: Iterable[dict[str, float]]) -> float:
    """The mean over shapes of their MRR."""
    values = [result["mrr"] for result in results]
    return float(np.mean(values)) if values else float("nan")


def _batches(sizes: Sequence[int], height: int) -> Iterator[list[tuple[int, slice]]]:
    """Runs of rows of the sets in their order, `height` rows at a time in all."""
    batch: list[tuple[int, slice]] = []
    room = height
    for index, size in enumerate(sizes):
        first = 0
        while first < size:
            taken = min(room, size - first)
            batch.append((index, slice(first, first + taken)))
            first, room = first + taken, room - taken
            if room == 0:
                yield batch
                batch, room = [], height
    if batch:
        yield batch


def _joined(groups: Sequence[tuple[QuerySet, slice]], name: str) -> Column:
    """A column of answers of all groups, one after the other."""
    columns = [(queries.answers[name], rows) for queries, rows in groups]
    lengths = np.concatenate([column.lengths[rows] for column, rows in columns])
    members = [column.members[column.offsets[rows.start] : column.offsets[rows.stop]] for column, rows in columns]
    return Column.of(lengths, np.concatenate(members))


def _ids(ids: NDArray[np.int32], device: torch.device | str) -> Tensor:
    return torch.from_numpy(ids.astype(np.int64)).to(device)


def _ranks(queries: QuerySet, parts: Sequence[Counts]) -> Ranks:
    none = np.zeros(0, np.int64)
    best = 1.0 + np.concatenate([none, *(part.above for part in parts)])
    equal = np.concatenate([none, *(part.equal for part in parts)])
    not_numbers = np.concatenate([none, *(part.not_numbers for part in parts)])
    constant = np.concatenate([none.astype(np.bool_), *(part.constant for part in parts)])
    return Ranks(queries.answers["hard"].lengths, best, best + equal, not_numbers, constant)
