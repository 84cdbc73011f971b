"""DistMult: a relation is a factor for every dimension."""

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


class DistMult(QueryModel):
    """State x (d wide), multiplied by the relation; the score is the product with an entity.

    Yang et al., Embedding Entities and Relations for Learning and Inference in Knowledge Bases (2015), with the N3
    regularisation of Lacroix et al. (2018).
    """

    name = "distmult"
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
        self.entities = Table(num_entities, dim, -self.range, self.range)
        self.relations = Table(num_relations, dim, -self.range, self.range)

    def entity(self, ids: Int[Tensor, " rows"]) -> State:
        """The entity's own vector."""
        return self.entities(ids)  # type: ignore[no-any-return]

    def project(self, state: State, relations: Int[Tensor, " rows"]) -> State:
        """x * r."""
        return state * self.relations(relations)  # type: ignore[no-any-return]

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
        """N3: the cubes of all numbers that the batch touches, for each query."""
        if not self.regularisation:
            return None
        parts = (self.entities(entities), self.relations(relations), self.entities(answers))
        cubes = torch.stack([part.abs().pow(3).sum() for part in parts]).sum()
        return self.regularisation * cubes / len(answers)
