"""What a model must beat: guessing what a relation usually leads to, whoever is asked about.

One interpretation more of the query algebra, and a humble one: a state is a score for every entity. A step along a
relation forgets where it came from and scores an entity by how often the relation arrives at it in training.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
import torch

from flexkg.plan.algebra import Operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from flexkg.kg.graph import Graph


class RelationFrequency:
    """Scores in [0, 1]: the share of a relation's edges that arrive at an entity; connectives as on truth values."""

    operators = frozenset(Operator)

    def __init__(self, graph: Graph) -> None:
        self.num_entities = graph.num_entities
        edges = np.diff(graph.pair_offsets)
        # The pairs of the inverse relation are where the relation arrives, and how often.
        self._table = torch.zeros(graph.num_relations, graph.num_entities)
        places = (
            torch.from_numpy(graph.pair_relations.astype(np.int64) ^ 1),
            torch.from_numpy(graph.pair_entities.astype(np.int64)),
        )
        self._table[places] = torch.from_numpy(edges.astype(np.float32))
        self._table /= self._table.sum(dim=1, keepdim=True).clamp(min=1)

    def take(self, state: Tensor, rows: slice | Tensor) -> Tensor:
        """Some rows."""
        return state[rows]

    def concat(self, states: Sequence[Tensor]) -> Tensor:
        """All rows."""
        return torch.cat(list(states))

    def entity(self, ids: Tensor) -> Tensor:
        """Certain."""
        return torch.nn.functional.one_hot(ids, self.num_entities).float()

    def any(self, count: int) -> Tensor:
        """Everything alike."""
        return torch.ones(count, self.num_entities)

    def project(self, state: Tensor, relations: Tensor) -> Tensor:  # noqa: ARG002
        """Where the relation usually arrives."""
        return self._table[relations]

    def negate(self, state: Tensor) -> Tensor:
        """1 - p."""
        return 1 - state

    def intersect(self, states: Sequence[Tensor]) -> Tensor:
        """Product."""
        return torch.stack(list(states)).prod(dim=0)

    def unite(self, states: Sequence[Tensor]) -> Tensor:
        """1 - product of 1 - p."""
        return 1 - torch.stack([1 - state for state in states]).prod(dim=0)

    def minus(self, left: Tensor, right: Tensor) -> Tensor:
        """p (1 - q)."""
        return left * (1 - right)

    def xor(self, left: Tensor, right: Tensor) -> Tensor:
        """p + q - 2 p q."""
        return left + right - 2 * left * right

    def implies(self, left: Tensor, right: Tensor) -> Tensor:
        """1 - p (1 - q)."""
        return 1 - left * (1 - right)

    def iff(self, left: Tensor, right: Tensor) -> Tensor:
        """Not xor."""
        return 1 - self.xor(left, right)

    def keeping_candidates(self) -> nullcontext[None]:
        """Nothing is made of candidates."""
        return nullcontext()

    def score_all(self, state: Tensor, owner: Tensor | None = None, count: int | None = None) -> Tensor:  # noqa: ARG002
        """A state is its scores."""
        return state
