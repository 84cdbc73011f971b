"""TuckER: a relation mixes the slices of one tensor that all relations share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from flexkg.models.layers import Table
from flexkg.models.links import ProductPredictor

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from flexkg.models.base import State


class TuckER(ProductPredictor):
    """State x (d wide), through the core tensor contracted with the relation; the score is the product with an entity.

    Balažević et al., TuckER: Tensor Factorization for Knowledge Graph Completion (2019).
    """

    name = "tucker"
    least_batch = 2  # it takes statistics of them

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        dim: int = 200,
        relation_dim: int = 200,
        input_dropout: float = 0.3,
        core_dropout: float = 0.4,
        output_dropout: float = 0.5,
        union: str = "dnf",
        disjunction: str = "max",
    ) -> None:
        super().__init__(num_entities, num_relations, dim=dim, margin=0.0, union=union, disjunction=disjunction)
        wide, narrow = (6 / (num_entities + dim)) ** 0.5, (6 / (num_relations + relation_dim)) ** 0.5
        self.entities = Table(num_entities, dim, -wide, wide)
        self.relations = Table(num_relations, relation_dim, -narrow, narrow)
        self.core = nn.Parameter(torch.empty(relation_dim, dim, dim).uniform_(-1, 1))
        self.before, self.after = _Normalised(dim), _Normalised(dim)
        self.input_dropout = nn.Dropout(input_dropout)
        self.core_dropout = nn.Dropout(core_dropout)
        self.output_dropout = nn.Dropout(output_dropout)

    def project(self, state: State, relations: Int[Tensor, " rows"]) -> State:
        """x times the relation's matrix, normalised before and after."""
        relation = self.relations(relations)
        matrices = self.core_dropout((relation @ self.core.flatten(1)).view(-1, self.dim, self.dim))
        moved = torch.bmm(self.input_dropout(self.before(state))[:, None], matrices)[:, 0]
        return self.output_dropout(self.after(moved))  # type: ignore[no-any-return]


class _Normalised(nn.Module):
    """Batch normalisation; unlike torch's it keeps no whole number among its weights, so that they can be averaged."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))
        self.mean: Tensor
        self.variance: Tensor

    def forward(self, values: Float[Tensor, "rows width"]) -> Float[Tensor, "rows width"]:
        """By the batch's own mean and variance in training, by their running means afterwards."""
        return functional.batch_norm(values, self.mean, self.variance, self.weight, self.bias, self.training)
