"""Filtered ranks: each answer that had to be predicted, against everything that is no answer.

For a query with easy and hard answers, a hard answer's rank is one more than the number of non-answers with a higher
score. Equal scores count half: the realistic rank, between the optimistic and the pessimistic one, so that a model
that scores everything alike gets what chance gives it. Ranks are averaged over a query's hard answers first, then
over queries. Scores that are not numbers are counted, and rank last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from flexkg.plan.executor import execute
from flexkg.plan.prepare import prepare_groups

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray
    from torch import Tensor

    from flexkg.models import QueryModel
    from flexkg.plan.prepare import Interpretation
    from flexkg.sampling.queries import QuerySet

_BUDGET = 256 << 20
"""Bytes of scores that are held at a time."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """The ranks of the hard answers of some queries, in the order of their `hard` column."""

    lengths: NDArray[np.int64]
    """(queries,): hard answers of each."""
    optimistic: NDArray[np.float64]
    """(hard answers,)."""
    pessimistic: NDArray[np.float64]
    """(hard answers,)."""
    not_numbers: int = 0
    """Scores that were NaN."""

    @property
    def realistic(self) -> NDArray[np.float64]:
        """(hard answers,): half way between the two."""
        return (self.optimistic + self.pessimistic) / 2

    def metrics(self) -> dict[str, float]:
        """MRR and hits, averaged per query, then over queries."""
        ranks = self.realistic
        values = {"mrr": 1 / ranks} | {f"hits@{k}": (ranks <= k).astype(float) for k in (1, 3, 10)}
        return {name: float(self._per_query(value).mean()) for name, value in values.items()}

    def _per_query(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        sums: NDArray[np.float64] = np.add.reduceat(values, np.cumsum(self.lengths) - self.lengths)
        return sums / self.lengths


@torch.no_grad()
def rank(
    model: QueryModel, queries: QuerySet, interpretation: Interpretation, device: torch.device | str = "cpu"
) -> Ranks:
    """Ranks of all hard answers of one shape's queries."""
    if queries.complement:
        raise ValueError("queries whose answers are co-finite cannot be ranked: there are next to no non-answers")
    height = max(1, min(len(queries), _BUDGET // (8 * model.num_entities)))
    found: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    not_numbers = 0
    for first in range(0, len(queries), height):
        rows = slice(first, min(first + height, len(queries)))
        scores = score_queries(model, queries, rows, interpretation, device)
        not_numbers += int(scores.isnan().sum())
        found.append(_ranks(scores.masked_fill_(scores.isnan(), -torch.inf), queries, rows))
    optimistic = np.concatenate([np.zeros(0), *(best for best, _ in found)])
    pessimistic = np.concatenate([np.zeros(0), *(worst for _, worst in found)])
    return Ranks(queries.answers["hard"].lengths, optimistic, pessimistic, not_numbers)


def score_queries(
    model: QueryModel, queries: QuerySet, rows: slice, interpretation: Interpretation, device: torch.device | str
) -> Tensor:
    """Scores of all entities for some queries, (rows, entities)."""
    prepared = prepare_groups([(queries.template, rows.stop - rows.start)], interpretation).to(device)
    ids = [torch.from_numpy(kind[rows].astype(np.int64)).to(device) for kind in (queries.entities, queries.relations)]
    states = execute(prepared.plan, prepared.plan.ground([(ids[0], ids[1])], device), model)
    return model.score_all(states, prepared.owner, prepared.count)


def _ranks(scores: Tensor, queries: QuerySet, rows: slice) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    device = scores.device
    hard_rows, hard = _places(queries, "hard", rows, device)
    easy_rows, easy = _places(queries, "easy", rows, device)
    wanted = scores[hard_rows, hard]
    others = scores.clone()
    # Answers do not compete: nothing is above or equal to what is not a number.
    others[hard_rows, hard] = torch.nan
    others[easy_rows, easy] = torch.nan
    above, equal = [], []
    step = max(1, _BUDGET // (8 * scores.shape[1]))
    for start in range(0, len(wanted), step):
        part = slice(start, start + step)
        rivals, own = others[hard_rows[part]], wanted[part, None]
        above.append((rivals > own).sum(dim=1))
        equal.append((rivals == own).sum(dim=1))
    higher = (torch.cat(above) if above else torch.zeros(0)).cpu().numpy().astype(np.float64)
    alike = (torch.cat(equal) if equal else torch.zeros(0)).cpu().numpy().astype(np.float64)
    return higher + 1, higher + 1 + alike


def _places(queries: QuerySet, column: str, rows: slice, device: torch.device) -> tuple[Tensor, Tensor]:
    answers = queries.answers[column]
    lengths = torch.from_numpy(answers.lengths[rows])
    members = answers.members[answers.offsets[rows.start] : answers.offsets[rows.stop]]
    row_of = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    return row_of.to(device), torch.from_numpy(members.astype(np.int64)).to(device)


def mean_mrr(results: Iterable[dict[str, float]]) -> float:
    """The mean over shapes of their MRR."""
    values = [result["mrr"] for result in results]
    return float(np.mean(values)) if values else float("nan")
