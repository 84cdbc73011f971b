"""ComplEx: a relation is a complex factor for every dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from flexkg.models.base import LINKS, QueryModel, Target
from flexkg.models.layers import Table
from flexkg.models.reference import DistanceSpec

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from flexkg.models.base import State

_TINY = 1e-12
"""Added under the root: the modulus of 0 has no derivative."""


class ComplEx(QueryModel):
    """State: d complex numbers, real parts first, multiplied by the relation; score Re(x · conjugate of e).

    Trouillon et al., Complex Embeddings for Simple Link Prediction (2016); N3 regularisation by Lacroix et al.,
    Canonical Tensor Decomposition for Knowledge Base Completion (2018).
    """

    name = "complex"
    available = LINKS
    distance_spec = DistanceSpec("dot")

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        dim: int = 1000,
        regularisation: float = 0.05,
        union: str = "dnf",
        disjunction: str = "max",
    ) -> None:
        super().__init__(num_entities, num_relations, dim=dim, margin=0.0, union=union, disjunction=disjunction)
        self.regularisation = regularisation
        self.entities = Table(num_entities, 2 * dim, -self.range, self.range)
        self.relations = Table(num_relations, 2 * dim, -self.range, self.range)

    def entity(self, ids: Int[Tensor, " rows"]) -> State:
        """The entity's own vector."""
        return self.entities(ids)  # type: ignore[no-any-return]

    def project(self, state: State, relations: Int[Tensor, " rows"]) -> State:
        """x * r."""
        real, imaginary = state.chunk(2, dim=-1)
        other, turned = self.relations(relations).chunk(2, dim=-1)
        return torch.cat([real * other - imaginary * turned, real * turned + imaginary * other], dim=-1)

    def target(self, state: State) -> Target:
        """The opposite vector: what is alike has a large product, and is to be near."""
        return Target((-state,))

    def candidates(self, rows: Int[Tensor, "..."] | slice) -> Float[Tensor, "... width"]:
        """Vectors."""
        return self.entities(rows)  # type: ignore[no-any-return]

    def penalty(
        self,
        entities: Int[Tensor, " anchors"],
        relations: Int[Tensor, " links"],
        answers: Int[Tensor, " queries"],
    ) -> Float[Tensor, ""] | None:
        """N3: the cubes of the moduli of all numbers that the batch touches, for each query."""
        if not self.regularisation:
            return None
        parts = (self.entities(entities), self.relations(relations), self.entities(answers))
        cubes = torch.stack([(_squares(part) + _TINY).pow(1.5).sum() for part in parts]).sum()
        return self.regularisation * cubes / len(answers)


def _squares(values: Float[Tensor, "rows width"]) -> Float[Tensor, "rows half"]:
    real, imaginary = values.chunk(2, dim=-1)
    return real.square() + imaginary.square()
