"""From states to scores: the routine for each kind of distance, parts of unions put together, and the best k."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from flexkg.models import distance
from flexkg.models.pairs import BUDGET as MEMORY_BUDGET
from flexkg.models.reference import DistanceSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


def prepare(spec: DistanceSpec, table: Tensor, memory: int = MEMORY_BUDGET) -> tuple[DistanceSpec, Tensor]:
    """A table (candidates, width) as it serves many calls best, and the distance that takes it so."""
    if spec.kind != "beta":
        return spec, table
    return DistanceSpec("divergence"), distance.prepare_beta(*table.chunk(2, dim=-1), memory=memory)


def pairwise(spec: DistanceSpec, query: tuple[Tensor, ...], table: Tensor, memory: int = MEMORY_BUDGET) -> Tensor:
    """Distance of every query (rows, width) to every row of a table (candidates, width); (rows, candidates)."""
    match spec.kind:
        case "l1":
            (point,) = query
            return distance.l1(point, table, memory=memory)
        case "l2" | "modulus":
            return distance.between(spec.kind, query[0], table, memory=memory)
        case "dot":
            return query[0] @ table.T
        case "box":
            centre, offset = query
            return distance.box(centre, offset, table, 1.0, spec.inside_weight, memory=memory)
        case "cone":
            axis, aperture = query
            return distance.cone(axis, aperture, table, spec.inside_weight, memory=memory)
        case "beta":
            alpha, beta = query
            return distance.beta(alpha, beta, *table.chunk(2, dim=-1), memory=memory)
        case "divergence":
            alpha, beta = query
            return distance.divergence(alpha, beta, table, memory=memory)


def gathered(
    spec: DistanceSpec, query: tuple[Tensor, ...], table: Tensor, ids: Tensor, memory: int = MEMORY_BUDGET
) -> Tensor:
    """Distance of queries (rows, width) to the listed rows of a table; (rows, c).

    `ids` is (rows, c), or (chunks, c): one list for each run of rows / chunks queries.
    """
    match spec.kind:
        case "l1":
            (point,) = query
            return distance.l1_gathered(point, table, ids, memory=memory)
        case "l2" | "modulus" | "dot":
            return distance.between(spec.kind, query[0], table, ids, memory=memory)
        case "box":
            centre, offset = query
            return distance.box_gathered(centre, offset, table, ids, 1.0, spec.inside_weight, memory=memory)
        case "cone":
            axis, aperture = query
            return distance.cone_gathered(axis, aperture, table, ids, spec.inside_weight, memory=memory)
        case "beta":
            alpha, beta = query
            first, second = table.chunk(2, dim=-1)
            return distance.beta_gathered(alpha, beta, first, second, ids, memory=memory)
        case "divergence":
            alpha, beta = query
            return distance.divergence_gathered(alpha, beta, table, ids, memory=memory)


def nearest(
    spec: DistanceSpec, query: tuple[Tensor, ...], table: Tensor, k: int, memory: int = MEMORY_BUDGET
) -> tuple[Tensor, Tensor]:
    """The k nearest rows of a table and their distances, (rows, k) each; of equal ones the lower id first."""
    parts = table.chunk(2, dim=-1) if spec.kind == "beta" else (table,)
    found = distance.top_k(spec.kind, query, parts, k, inside_weight=spec.inside_weight, memory=memory)
    return found.distances, found.ids


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
    parts = torch.zeros(count, dtype=torch.int64, device=owner.device).scatter_add(0, owner, torch.ones_like(owner))
    return torch.where((parts == 1)[:, None], best, either)


_LINEAR = 30.0


def _log_softplus(scores: Tensor) -> Tensor:
    return torch.where(scores < -_LINEAR, scores, functional.softplus(scores.clamp(min=-_LINEAR)).log())


def _inverse_softplus(values: Tensor) -> Tensor:
    return values + torch.log(-torch.expm1(-values))


def top_k(
    score: Callable[[slice], Tensor], rows: int, num_entities: int, k: int, memory: int, entity_bytes: int
) -> tuple[Tensor, Tensor]:
    """The k best scores and their entities, (rows, k) each, from `score`, which takes a run of entities at a time.

    Of equal scores the lower id comes first. A score that is no number counts as the least there can be.
    """
    k = min(k, num_entities)
    # A run of scores of every part, what combines them, the sorted copy with its places; and the entities themselves.
    step = max(k, 1, memory // (2 * (64 * rows + 4 * entity_bytes)))
    best: tuple[Tensor, Tensor] | None = None
    for start in range(0, num_entities, step):
        scores = score(slice(start, min(start + step, num_entities)))
        scores = scores.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
        values, ids = scores.sort(dim=1, descending=True, stable=True)
        values, ids = values[:, :k], ids[:, :k] + start
        if best is not None:
            values, order = torch.cat([best[0], values], dim=1).sort(dim=1, descending=True, stable=True)
            ids = torch.cat([best[1], ids], dim=1).gather(1, order)
        best = values[:, :k], ids[:, :k]
    assert best is not None
    return best
