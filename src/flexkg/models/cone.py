"""ConE: an answer set is a product of sector cones."""

from __future__ import annotations

from math import pi
from typing import TYPE_CHECKING

import torch
from torch import nn

from flexkg.models.base import QueryModel, Target
from flexkg.models.layers import MLP, Gate, OperandAttention, Table
from flexkg.models.reference import DistanceSpec
from flexkg.plan.algebra import Operator

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from flexkg.models.base import State, States


class ConE(QueryModel):
    """State [axis ; aperture], each d wide, axes in [-pi, pi], apertures in [0, pi].

    Zhang et al., ConE: Cone Embeddings for Multi-Hop Reasoning over Knowledge Graphs (2021).
    """

    name = "cone"
    available = QueryModel.available | {Operator.NEGATE}

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        dim: int = 800,
        hidden: int = 1600,
        margin: float = 30.0,
        inside_weight: float = 0.02,
        dropout: float = 0.1,
        modulus: float | str = "range/2",
        union: str = "dnf",
        disjunction: str = "max",
    ) -> None:
        super().__init__(num_entities, num_relations, dim=dim, margin=margin, union=union, disjunction=disjunction)
        self.inside_weight = inside_weight
        self.entities = Table(num_entities, dim, -self.range, self.range)
        self.relation_axes = Table(num_relations, dim, -self.range, self.range)
        self.relation_apertures = Table(num_relations, dim, -self.range, self.range)
        self.projection = MLP(2 * dim, hidden, hidden, 2 * dim)
        self.attention = OperandAttention(2 * dim, dim, dim)
        self.gate = Gate(2 * dim, dim, dim)
        self.dropout = nn.Dropout(dropout)
        self.modulus = nn.Parameter(self.first_modulus(modulus))

    def angle(self, values: Float[Tensor, "... width"]) -> Float[Tensor, "... width"]:
        """Table rows as angles in [-pi, pi]."""
        return pi * torch.tanh(values / self.range)

    def entity(self, ids: Int[Tensor, " rows"]) -> State:
        """A cone without aperture."""
        axis = self.candidates(ids)
        return torch.cat([axis, torch.zeros_like(axis)], dim=-1)

    def project(self, state: State, relations: Int[Tensor, " rows"]) -> State:
        """Rotate and widen, then a network."""
        turn = torch.cat([self.relation_axes(relations), self.relation_apertures(relations)], dim=-1)
        axis, aperture = self.projection(state + self.angle(turn)).chunk(2, dim=-1)
        return torch.cat([pi * torch.tanh(axis), pi / 2 * torch.tanh(2 * aperture) + pi / 2], dim=-1)

    def intersect(self, states: States) -> State:
        """Axes averaged as directions; the smallest aperture, shrunk by a gate."""
        axes, apertures = self.stacked(states).chunk(2, dim=-1)
        edges = torch.cat([axes - apertures, axes + apertures], dim=-1)
        weights = self.attention(edges)
        x, y = (weights * axes.cos()).sum(dim=1), (weights * axes.sin()).sum(dim=1)
        x = torch.where(x.abs() < 1e-3, 1e-3, x)
        half_turn = pi * (x < 0).to(x) * (1 - 2 * (y < 0).to(x))
        aperture = self.dropout(apertures).min(dim=1).values * self.gate(edges)
        return torch.cat([torch.atan(y / x) + half_turn, aperture], dim=-1)

    def negate(self, state: State) -> State:
        """The cone that fills the rest of the circle."""
        axis, aperture = state.chunk(2, dim=-1)
        return torch.cat([torch.where(axis >= 0, axis - pi, axis + pi), pi - aperture], dim=-1)

    @property
    def distance_spec(self) -> DistanceSpec:
        """Chords to the cone's edges, and a share of the chord to its axis."""
        return DistanceSpec("cone", self.inside_weight)

    def target(self, state: State) -> Target:
        """The cone."""
        axis, aperture = state.chunk(2, dim=-1)
        return Target((axis, aperture))

    def candidates(self, rows: Int[Tensor, "..."] | slice) -> Float[Tensor, "... width"]:
        """Axes."""
        return self.angle(self.entities(rows))
