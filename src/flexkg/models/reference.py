"""Distances written as in the papers: what tests compare the fast routines with.

Every function takes what a query asks for and candidates, broadcasts them and sums over the last dimension, so
that it materialises queries x candidates x dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["l1", "l2", "box", "cone", "beta", "divergence", "dot", "modulus"]


@dataclass(frozen=True)
class DistanceSpec:
    """Which distance a model has, so that scoring can pick a routine for it."""

    kind: Kind
    inside_weight: float = 0.0
    """For box and cone: what a unit of distance inside counts."""


def l1(query: Tensor, candidates: Tensor) -> Tensor:
    """Sum of |v - q|."""
    return (candidates - query).abs().sum(dim=-1)


def l2(query: Tensor, candidates: Tensor) -> Tensor:
    """Root of the sum of squares of v - q."""
    distance: Tensor = torch.linalg.vector_norm(candidates - query, dim=-1)
    return distance


def modulus(query: Tensor, candidates: Tensor) -> Tensor:
    """Sum of |v - q| over complex numbers, whose real parts come first."""
    # Not hypot: its derivative at 0 is no number.
    parts = torch.stack((candidates - query).chunk(2, dim=-1))
    distance: Tensor = torch.linalg.vector_norm(parts, dim=0).sum(dim=-1)
    return distance


def dot(query: Tensor, candidates: Tensor) -> Tensor:
    """The product: models that score by one hand over the opposite of what they look for."""
    return (query * candidates).sum(dim=-1)


def box(centre: Tensor, offset: Tensor, candidates: Tensor, inside_weight: float) -> Tensor:
    """Way to the box centre +- offset (offset >= 0), plus a small share of the way inside it."""
    way = (candidates - centre).abs()
    return torch.relu(way - offset).sum(dim=-1) + inside_weight * torch.minimum(way, offset).sum(dim=-1)


def cone(axis: Tensor, aperture: Tensor, candidates: Tensor, inside_weight: float) -> Tensor:
    """The same for sector cones, measured by S(v) = |sin(v / 2)|."""

    def s(angle: Tensor) -> Tensor:
        return (angle / 2).sin().abs()

    to_axis, width = s(candidates - axis), s(aperture)
    to_edge = torch.minimum(s(candidates - (axis - aperture)), s(candidates - (axis + aperture)))
    outside = torch.where(to_axis < width, torch.zeros_like(to_edge), to_edge)
    return outside.sum(dim=-1) + inside_weight * torch.minimum(to_axis, width).sum(dim=-1)


def beta(alpha: Tensor, beta: Tensor, candidates: Tensor) -> Tensor:
    """Sum of |KL(Beta(candidate) || Beta(query))|; candidates hold alpha and beta side by side."""
    ours, theirs = candidates.chunk(2, dim=-1)
    total, mine = ours + theirs, alpha + beta
    divergence = (
        (torch.lgamma(alpha) + torch.lgamma(beta) - torch.lgamma(mine))
        - (torch.lgamma(ours) + torch.lgamma(theirs) - torch.lgamma(total))
        + (ours - alpha) * torch.digamma(ours)
        + (theirs - beta) * torch.digamma(theirs)
        + (mine - total) * torch.digamma(total)
    )
    return divergence.abs().sum(dim=-1)


def divergence(alpha: Tensor, beta: Tensor, candidates: Tensor) -> Tensor:
    """The same as a linear function: candidates hold its slope along [alpha ; beta], and its constant."""
    own = (torch.lgamma(alpha) + torch.lgamma(beta) - torch.lgamma(alpha + beta)).sum(dim=-1)
    along = (torch.cat([alpha, beta], dim=-1) * candidates[..., :-1]).sum(dim=-1)
    return along + candidates[..., -1] + own


def distance(spec: DistanceSpec, query: tuple[Tensor, ...], candidates: Tensor) -> Tensor:
    """The distance of a kind between broadcastable queries and candidates; the last dimension is summed."""
    match spec.kind:
        case "l1":
            (point,) = query
            return l1(point, candidates)
        case "l2":
            (point,) = query
            return l2(point, candidates)
        case "modulus":
            (point,) = query
            return modulus(point, candidates)
        case "dot":
            (vector,) = query
            return dot(vector, candidates)
        case "box":
            centre, offset = query
            return box(centre, offset, candidates, spec.inside_weight)
        case "cone":
            axis, aperture = query
            return cone(axis, aperture, candidates, spec.inside_weight)
        case "beta":
            first, second = query
            return beta(first, second, candidates)
        case "divergence":
            first, second = query
            return divergence(first, second, candidates)
