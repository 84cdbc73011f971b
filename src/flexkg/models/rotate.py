"""RotatE: a relation turns every complex number by an angle of its own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from flexkg.models.layers import Table
from flexkg.models.links import LinkPredictor
from flexkg.models.reference import DistanceSpec

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor

    from flexkg.models.base import State


class RotatE(LinkPredictor):
    """State: d complex numbers, real parts first, turned by the relation; distance: the sum of moduli.

    Sun et al., RotatE: Knowledge Graph Embedding by Relational Rotation in Complex Space (2019).
    """

    name = "rotate"
    distance_spec = DistanceSpec("modulus")

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        dim: int = 1000,
        margin: float = 9.0,
        union: str = "dnf",
        disjunction: str = "max",
    ) -> None:
        super().__init__(num_entities, num_relations, dim=dim, margin=margin, union=union, disjunction=disjunction)
        self.entities = Table(num_entities, 2 * dim, -self.range, self.range)
        self.relations = Table(num_relations, dim, -self.range, self.range)

    def project(self, state: State, relations: Int[Tensor, " rows"]) -> State:
        """x * exp(i angle); the table's range is half a turn either way."""
        real, imaginary = state.chunk(2, dim=-1)
        angle = self.relations(relations) * (math.pi / self.range)
        cosine, sine = angle.cos(), angle.sin()
        return torch.cat([real * cosine - imaginary * sine, real * sine + imaginary * cosine], dim=-1)
