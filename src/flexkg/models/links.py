"""What link predictors share: an entity is a row of one table, as a state and as a candidate alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from flexkg.models.base import LINKS, QueryModel, Target
from flexkg.models.reference import DistanceSpec

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from flexkg.models.base import State
    from flexkg.models.layers import Table


class LinkPredictor(QueryModel):
    """Follows relations: a model adds its tables, `project`, and the kind of its distance."""

    available = LINKS
    entities: Table
    relations: Table

    def entity(self, ids: Int[Tensor, " rows"]) -> State:
        """The entity's own row."""
        return self.entities(ids)  # type: ignore[no-any-return]

    def target(self, state: State) -> Target:
        """The state itself."""
        return Target((state,))

    def candidates(self, rows: Int[Tensor, "..."] | slice) -> Float[Tensor, "... width"]:
        """Rows of the table."""
        return self.entities(rows)  # type: ignore[no-any-return]


class ProductPredictor(LinkPredictor):
    """Scores by the product of state and entity, and may hold the embeddings small while training."""

    distance_spec = DistanceSpec("dot")
    regularisation: float = 0.0
    """Weight of N3 (Lacroix et al., 2018)."""

    def target(self, state: State) -> Target:
        """The opposite vector: what is alike has a large product, and is to be near."""
        return Target((-state,))

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
        return self.regularisation * torch.stack([self.cubes(part).sum() for part in parts]).sum() / len(answers)

    def cubes(self, values: Float[Tensor, "rows width"]) -> Float[Tensor, "rows numbers"]:
        """The cube of the size of every number."""
        return values.abs().pow(3)
