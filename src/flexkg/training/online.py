"""Fresh training queries while training, in the place of those that a workload holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from flexkg.sampling.build import Pair, sample_queries
from flexkg.sampling.protocol import DEFAULT, PUBLISHED, TRAIN_SHAPES
from flexkg.sampling.sampler import fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flexkg.kg.dataset import Dataset
    from flexkg.sampling.near import NearMisses
    from flexkg.sampling.queries import QuerySet


class FreshQueries:
    """Samples as many queries as a set has, of the same shape, decided by seed and number."""

    def __init__(
        self,
        dataset: Dataset,
        evaluated: Sequence[QuerySet],
        seed: int,
        device: torch.device | str = "cpu",
        near: NearMisses | None = None,
    ) -> None:
        """`evaluated` are queries that must not be learnt where the benchmarks do not train their shape.

        `near` finds their near misses, where these are wanted.
        """
        self._pair = Pair.of(dataset.graph("train"), None, device)
        self._cap = PUBLISHED.get(dataset.name, DEFAULT).cap
        self._evaluated = {queries.shape: queries for queries in evaluated}
        self._seed = seed
        self._near = near

    def __call__(self, number: int, queries: QuerySet) -> QuerySet:
        """The `number`-th replacement of a set; the one-hop queries are all there already and stay."""
        if queries.shape == "1p":
            return queries
        avoid = None
        if queries.shape not in TRAIN_SHAPES and queries.shape in self._evaluated:
            kept = self._evaluated[queries.shape]
            ids = (torch.from_numpy(kind.astype(np.int64)) for kind in (kept.entities, kept.relations))
            avoid = fingerprint(kept.template, *ids)[0]
        fresh = sample_queries(
            self._pair,
            queries.shape,
            queries.template,
            len(queries),
            cap=self._cap,
            seed=self._seed + 7919 * number,
            split="train",
            avoid=avoid,
        )
        # A small graph may not have as many: some come twice, as in the set itself they come again and again.
        fresh = fresh if len(fresh) == len(queries) else fresh.take(np.arange(len(queries)) % len(fresh))
        return fresh if self._near is None else self._near(fresh)
