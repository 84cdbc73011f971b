"""TransE: a relation is a translation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flexkg.models.layers import Table
from flexkg.models.links import LinkPredictor
from flexkg.models.reference import DistanceSpec

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor

    from flexkg.models.base import State


class TransE(LinkPredictor):
    """State x (d wide), moved by the relation; L1 or L2 distance.

    Bordes et al., Translating Embeddings for Modeling Multi-relational Data (2013), with the settings of Sun et al.
    (2019).
    """

    name = "transe"

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        dim: int = 1000,
        margin: float = 9.0,
        norm: int = 1,
        union: str = "dnf",
        disjunction: str = "max",
    ) -> None:
        super().__init__(num_entities, num_relations, dim=dim, margin=margin, union=union, disjunction=disjunction)
        self.norm = norm
        self.entities = Table(num_entities, dim, -self.range, self.range)
        self.relations = Table(num_relations, dim, -self.range, self.range)

    def project(self, state: State, relations: Int[Tensor, " rows"]) -> State:
        """x + r."""
        return state + self.relations(relations)  # type: ignore[no-any-return]

    @property
    def distance_spec(self) -> DistanceSpec:
        """L1 or L2."""
        return DistanceSpec("l1" if self.norm == 1 else "l2")
