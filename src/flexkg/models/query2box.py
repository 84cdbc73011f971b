"""Query2box: an answer set is a box."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from flexkg.models.base import QueryModel, Target
from flexkg.models.layers import Gate, OperandAttention, Table
from flexkg.models.reference import DistanceSpec

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from flexkg.models.base import State, States


class Query2box(QueryModel):
    """State [centre ; offset], each d wide; centres as in GQE, offsets grow by projection and shrink by intersection.

    Ren et al., Query2box: Reasoning over Knowledge Graphs in Vector Space using Box Embeddings (2020).
    """

    name = "query2box"

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        dim: int = 400,
        margin: float = 24.0,
        inside_weight: float = 0.02,
        union: str = "dnf",
        disjunction: str = "max",
    ) -> None:
        super().__init__(num_entities, num_relations, dim=dim, margin=margin, union=union, disjunction=disjunction)
        self.inside_weight = inside_weight
        self.entities = Table(num_entities, dim, -self.range, self.range)
        self.relation_centres = Table(num_relations, dim, -self.range, self.range)
        self.relation_offsets = Table(num_relations, dim, 0.0, self.range)
        self.attention = OperandAttention(dim, dim, dim)
        self.gate = Gate(dim, dim, dim)

    def entity(self, ids: Int[Tensor, " rows"]) -> State:
        """A box without extent."""
        centre = self.entities(ids)
        return torch.cat([centre, torch.zeros_like(centre)], dim=-1)

    def project(self, state: State, relations: Int[Tensor, " rows"]) -> State:
        """Move the centre, widen the box."""
        return state + torch.cat([self.relation_centres(relations), self.relation_offsets(relations)], dim=-1)

    def intersect(self, states: States) -> State:
        """Weighted mean of the centres; the smallest offset, shrunk by a gate."""
        centres, offsets = self.stacked(states).chunk(2, dim=-1)
        centre = (self.attention(centres) * centres).sum(dim=1)
        return torch.cat([centre, offsets.min(dim=1).values * self.gate(offsets)], dim=-1)

    @property
    def distance_spec(self) -> DistanceSpec:
        """Way to the box, and a share of the way inside."""
        return DistanceSpec("box", self.inside_weight)

    def target(self, state: State) -> Target:
        """The box; trained without an activation an offset can turn negative, which costs every candidate alike."""
        centre, offset = state.chunk(2, dim=-1)
        # relu(D - o) + w |min(D, o)|, as published, is D + (1 + w)|o| where o < 0.
        constant = (1 + self.inside_weight) * torch.relu(-offset).sum(dim=-1)
        return Target((centre, torch.relu(offset)), constant)

    def candidates(self, rows: Int[Tensor, "..."] | slice) -> Float[Tensor, "... width"]:
        """Points."""
        return self.entities(rows)  # type: ignore[no-any-return]
