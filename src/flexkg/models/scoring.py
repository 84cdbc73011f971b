"""Distances without the queries x candidates x dimension temporary, parts of unions put together, and top-k.

| kind | all pairs | given candidates |
|---|---|---|
| l1, box | L1 routine; a box is two L1 distances and one to its centre | gathered rows |
| beta | one matrix product and constants | one batched matrix product |
| cone | in chunks under the memory budget | gathered rows |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from flexkg.models import reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from flexkg.models.reference import DistanceSpec

MEMORY_BUDGET = 256 << 20
"""Bytes that temporaries of scoring may take, unless the caller says otherwise."""


def pairwise(spec: DistanceSpec, query: tuple[Tensor, ...], table: Tensor, budget: int = MEMORY_BUDGET) -> Tensor:
    """Distance of every query (rows, width) to every row of a table (candidates, width); (rows, candidates)."""
    match spec.kind:
        case "l1":
            return torch.cdist(query[0], table, p=1.0)
        case "box":
            centre, offset = query
            outside = torch.cdist(centre + offset, table, p=1.0) + torch.cdist(centre - offset, table, p=1.0)
            outside = outside / 2 - offset.sum(dim=-1, keepdim=True)
            return (1 - spec.inside_weight) * outside + spec.inside_weight * torch.cdist(centre, table, p=1.0)
        case "beta":
            slope, constant = _beta_table(table)
            return _log_beta(*query).sum(dim=-1, keepdim=True) + torch.addmm(
                constant, torch.cat(query, dim=-1), slope.T
            )
        case "cone":
            return _in_chunks(spec, query, table, budget)


def gathered(spec: DistanceSpec, query: tuple[Tensor, ...], candidates: Tensor) -> Tensor:
    """Distance of each query (rows, width) to its own candidates (rows, c, width); (rows, c)."""
    if spec.kind == "beta":
        slope, constant = _beta_table(candidates)
        cross = (slope @ torch.cat(query, dim=-1)[:, :, None]).squeeze(-1)
        return _log_beta(*query).sum(dim=-1, keepdim=True) + constant + cross
    return reference.distance(spec, tuple(part[:, None] for part in query), candidates)


def _in_chunks(spec: DistanceSpec, query: tuple[Tensor, ...], table: Tensor, budget: int) -> Tensor:
    rows, width = query[0].shape
    # A handful of temporaries of that size live at a time.
    step = max(1, budget // max(1, 8 * rows * width * table.element_size()))
    first = tuple(part[:, None] for part in query)
    chunks = torch.split(table, step)
    return torch.cat([reference.distance(spec, first, chunk[None]) for chunk in chunks], dim=1)


def _log_beta(alpha: Tensor, beta: Tensor) -> Tensor:
    return torch.lgamma(alpha) + torch.lgamma(beta) - torch.lgamma(alpha + beta)


def _beta_table(table: Tensor) -> tuple[Tensor, Tensor]:
    """The part of the divergence that is linear in the query, (..., 2 width), and the part without it, (...)."""
    alpha, beta = table.chunk(2, dim=-1)
    total = torch.digamma(alpha + beta)
    slope = torch.cat([total - torch.digamma(alpha), total - torch.digamma(beta)], dim=-1)
    return slope, -_log_beta(alpha, beta).sum(dim=-1) - (slope * table).sum(dim=-1)


def combine(scores: Tensor, owner: Tensor, count: int, disjunction: str) -> Tensor:
    """Put the parts of unions together: (parts, c) scores, owner (parts,) -> (count, c) scores.

    `max` takes the best part. `probability-or` reads a score as the logit of a probability and takes
    1 - product of (1 - p); its logit is returned, so that a query of one part keeps its score.
    """
    index = owner[:, None].expand_as(scores)
    target = scores.new_full((count, scores.shape[1]), -torch.inf)
    best = target.scatter_reduce(0, index, scores, "amax")
    if disjunction == "max":
        return best
    # -log(1 - p) = softplus(score); these add up. Far below 0 softplus is exp, so that sums are kept as logarithms.
    weight = _log_softplus(scores)
    top = target.scatter_reduce(0, index, weight.detach(), "amax")
    total = torch.zeros_like(target).scatter_add(0, index, (weight - top.gather(0, index)).exp()).log() + top
    either = torch.where(total < -_LINEAR, total, _inverse_softplus(total.clamp(min=-_LINEAR).exp()))
    single = torch.zeros(count, dtype=torch.int64, device=owner.device).scatter_add(0, owner, torch.ones_like(owner))
    return torch.where((single == 1)[:, None], best, either)


_LINEAR = 30.0


def _log_softplus(scores: Tensor) -> Tensor:
    return torch.where(scores < -_LINEAR, scores, functional.softplus(scores.clamp(min=-_LINEAR)).log())


def _inverse_softplus(values: Tensor) -> Tensor:
    return values + torch.log(-torch.expm1(-values))


def top_k(
    score: Callable[[slice], Tensor], rows: int, num_entities: int, k: int, budget: int, width: int
) -> tuple[Tensor, Tensor]:
    """The k best scores and their entities, (rows, k) each, from `score`, which takes a run of entities at a time."""
    k = min(k, num_entities)
    step = min(num_entities, max(k, budget // (8 * 4 * max(1, rows + width))))
    best: tuple[Tensor, Tensor] | None = None
    for start in range(0, num_entities, step):
        stop = min(start + step, num_entities)
        scores = score(slice(start, stop))
        values, places = scores.topk(min(k, stop - start), dim=1)
        ids = places + start
        if best is not None:
            values, ids = torch.cat([best[0], values], dim=1), torch.cat([best[1], ids], dim=1)
        # Stable, so that of equal scores the one found first stays first.
        values, order = values.sort(dim=1, descending=True, stable=True)
        best = values[:, :k], ids.gather(1, order)[:, :k]
    assert best is not None
    return best
