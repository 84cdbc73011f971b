"""GQE: an answer set is a point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flexkg.models.base import QueryModel, Target
from flexkg.models.layers import OperandAttention, Table
from flexkg.models.reference import DistanceSpec

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from flexkg.models.base import State, States


class GQE(QueryModel):
    """State x (d wide); translation, attention over operands, L1 distance.

    Hamilton et al., Embedding Logical Queries on Knowledge Graphs (2018), with the settings of Ren & Leskovec (2020).
    """

    name = "gqe"
    distance_spec = DistanceSpec("l1")

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        dim: int = 800,
        margin: float = 24.0,
        union: str = "dnf",
        disjunction: str = "max",
    ) -> None:
        super().__init__(num_entities, num_relations, dim=dim, margin=margin, union=union, disjunction=disjunction)
        self.entities = Table(num_entities, dim, -self.range, self.range)
        self.relations = Table(num_relations, dim, -self.range, self.range)
        self.attention = OperandAttention(dim, dim, dim)

    def entity(self, ids: Int[Tensor, " rows"]) -> State:
        """The entity's own point."""
        return self.entities(ids)  # type: ignore[no-any-return]

    def project(self, state: State, relations: Int[Tensor, " rows"]) -> State:
        """x + r."""
        return state + self.relations(relations)  # type: ignore[no-any-return]

    def intersect(self, states: States) -> State:
        """Weighted mean of the points."""
        points = self.stacked(states)
        return (self.attention(points) * points).sum(dim=1)  # type: ignore[no-any-return]

    def target(self, state: State) -> Target:
        """The point."""
        return Target((state,))

    def candidates(self, rows: Int[Tensor, "..."] | slice) -> Float[Tensor, "... width"]:
        """Points."""
        return self.entities(rows)  # type: ignore[no-any-return]
