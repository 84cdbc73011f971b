"""Training queries beside those that a workload holds, or in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from flexkg.sampling.build import Pair, sample_queries
from flexkg.sampling.protocol import DEFAULT, PUBLISHED
from flexkg.sampling.queries import join
from flexkg.sampling.sampler import fingerprints

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flexkg.kg.dataset import Dataset
    from flexkg.sampling.near import NearMisses
    from flexkg.sampling.queries import QuerySet


_FILLING = -1
"""The number of what fills a set up; its replacements count from 1."""


class FreshQueries:
    """Samples training queries, of the shapes of sets that are there, decided by seed and number."""

    def __init__(
        self,
        dataset: Dataset,
        evaluated: Sequence[QuerySet],
        seed: int,
        device: torch.device | str = "cpu",
        near: NearMisses | None = None,
    ) -> None:
        """`evaluated` are queries that must not be learnt: of shapes that the benchmarks do not train.

        `near` finds near misses of replacements, where these are wanted.
        """
        self._pair = Pair.of_split(dataset, "train", device)
        self._cap = PUBLISHED.get(dataset.name, DEFAULT).cap
        self._evaluated = evaluated
        self._seed = seed
        self._near = near

    def __call__(self, number: int, queries: QuerySet) -> QuerySet:
        """The `number`-th replacement of a set, from 1; the one-hop queries are all there already and stay."""
        if queries.shape == "1p":
            return queries
        fresh = self._sampled(queries, len(queries), number, [])
        if len(fresh) == 0:
            return queries
        # A small graph may not have as many: some come twice, as in the set itself they come again and again.
        fresh = fresh if len(fresh) == len(queries) else fresh.take(np.arange(len(queries)) % len(fresh))
        return fresh if self._near is None else self._near(fresh)

    def fill(self, queries: QuerySet, least: int, progress: Callable[[int], None] = lambda _: None) -> QuerySet:
        """The set with others of its shape, until there are `least` or the graph has no more."""
        return join([queries, self._sampled(queries, least - len(queries), _FILLING, [queries], progress)])

    def _sampled(
        self,
        queries: QuerySet,
        count: int,
        number: int,
        apart_from: list[QuerySet],
        progress: Callable[[int], None] = lambda _: None,
    ) -> QuerySet:
        apart_from = [*apart_from, *(kept for kept in self._evaluated if kept.key == queries.key)]
        return sample_queries(
            self._pair,
            queries.shape,
            queries.template,
            count,
            cap=self._cap,
            seed=self._seed + 7919 * number,
            split="train",
            avoid=torch.cat([fingerprints(kept) for kept in apart_from]) if apart_from else None,
            progress=progress,
        )
