"""ComplEx: a relation is a complex factor for every dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from flexkg.models.layers import Table
from flexkg.models.links import ProductPredictor

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from flexkg.models.base import State

_TINY = 1e-12
"""Added under the root: the modulus of 0 has no derivative."""


class ComplEx(ProductPredictor):
    """State: d complex numbers, real parts first, multiplied by the relation; score Re(x · conjugate of e).

    Trouillon et al., Complex Embeddings for Simple Link Prediction (2016); N3 regularisation by Lacroix et al.,
    Canonical Tensor Decomposition for Knowledge Base Completion (2018).
    """

    name = "complex"

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

    def project(self, state: State, relations: Int[Tensor, " rows"]) -> State:
        """x * r."""
        real, imaginary = state.chunk(2, dim=-1)
        other, turned = self.relations(relations).chunk(2, dim=-1)
        return torch.cat([real * other - imaginary * turned, real * turned + imaginary * other], dim=-1)

    def cubes(self, values: Float[Tensor, "rows width"]) -> Float[Tensor, "rows numbers"]:
        """The cube of the modulus of every complex number."""
        real, imaginary = values.chunk(2, dim=-1)
        return (real.square() + imaginary.square() + _TINY).pow(1.5)
