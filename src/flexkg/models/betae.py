"""BetaE: an answer set is a product of Beta densities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from flexkg.models.base import QueryModel, Target
from flexkg.models.layers import MLP, OperandAttention, Table
from flexkg.models.reference import DistanceSpec
from flexkg.plan.algebra import Operator

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from flexkg.models.base import State, States


class BetaE(QueryModel):
    """State [alpha ; beta], each d wide and positive; negation is 1/alpha, 1/beta, distance a KL divergence.

    Ren & Leskovec, Beta Embeddings for Multi-Hop Logical Reasoning in Knowledge Graphs (2020).
    """

    name = "betae"
    available = QueryModel.available | {Operator.NEGATE}
    distance_spec = DistanceSpec("beta")

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        dim: int = 400,
        hidden: int = 1600,
        margin: float = 60.0,
        union: str = "dnf",
        disjunction: str = "max",
    ) -> None:
        super().__init__(num_entities, num_relations, dim=dim, margin=margin, union=union, disjunction=disjunction)
        self.entities = Table(num_entities, 2 * dim, -self.range, self.range)
        self.relations = Table(num_relations, dim, -self.range, self.range)
        self.projection = MLP(3 * dim, hidden, hidden, 2 * dim)
        self.attention = OperandAttention(2 * dim, 2 * dim, dim)

    @staticmethod
    def positive(values: Float[Tensor, "... width"]) -> Float[Tensor, "... width"]:
        """Parameters of a density: x + 1, at least 0.05."""
        return (values + 1).clamp(0.05, 1e9)

    def entity(self, ids: Int[Tensor, " rows"]) -> State:
        """The entity's own density."""
        return self.candidates(ids)

    def project(self, state: State, relations: Int[Tensor, " rows"]) -> State:
        """A network on the state and the relation's raw row."""
        return self.positive(self.projection(torch.cat([state, self.relations(relations)], dim=-1)))

    def intersect(self, states: States) -> State:
        """One set of weights averages both parameters."""
        operands = self.stacked(states)
        weights = self.attention(operands)
        return (torch.cat([weights, weights], dim=-1) * operands).sum(dim=1)

    def negate(self, state: State) -> State:
        """High density becomes low."""
        return 1 / state

    def target(self, state: State) -> Target:
        """The density."""
        alpha, beta = state.chunk(2, dim=-1)
        return Target((alpha, beta))

    def candidates(self, rows: Int[Tensor, "..."] | slice) -> Float[Tensor, "... width"]:
        """Densities."""
        return self.positive(self.entities(rows))
