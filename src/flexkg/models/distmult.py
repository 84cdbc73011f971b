"""DistMult: a relation is a factor for every dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flexkg.models.layers import Table
from flexkg.models.links import ProductPredictor

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor

    from flexkg.models.base import State


class DistMult(ProductPredictor):
    """State x (d wide), multiplied by the relation; the score is the product with an entity.

    Yang et al., Embedding Entities and Relations for Learning and Inference in Knowledge Bases (2015), with the N3
    regularisation of Lacroix et al. (2018).
    """

    name = "distmult"

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
        self.entities = Table(num_entities, dim, -self.range, self.range)
        self.relations = Table(num_relations, dim, -self.range, self.range)

    def project(self, state: State, relations: Int[Tensor, " rows"]) -> State:
        """x * r."""
        return state * self.relations(relations)  # type: ignore[no-any-return]
