"""Two models on the same test queries, over the seeds that both have: differences and how far they can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from flexkg.errors import DataError
from flexkg.evaluation.statistics import average, difference, resampled_means
from flexkg.paper.queries import load_queries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from flexkg.evaluation.statistics import Difference
    from flexkg.paper.results import Result

    Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Comparison:
    """One model minus another, query by query."""

    results: tuple[tuple[Result, Result], ...]
    """The two runs of each seed."""
    gaps: Mapping[str, Numbers]
    """(queries,) for each shape that both answer: the mean over the seeds of the differences of a query."""
    by_seed: Mapping[str, tuple[float, ...]]
    """For each shape the difference of MRR with each seed."""

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that both have."""
        return tuple(one.seed for one, _ in self.results)

    def value(self, shapes: Sequence[str]) -> float | None:
        """The mean difference over shapes; None where one of them was not answered by both."""
        return self._mean([float(self.gaps[shape].mean()) for shape in shapes]) if self._has(shapes) else None

    def each(self, shapes: Sequence[str]) -> tuple[float, ...]:
        """The mean difference over shapes with each seed."""
        if not self._has(shapes):
            return ()
        return tuple(map(self._mean, zip(*(self.by_seed[shape] for shape in shapes), strict=True)))

    def difference(self, shapes: Sequence[str]) -> Difference | None:
        """The mean difference over shapes with its interval, by bootstrap over queries within each shape."""
        observed = self.value(shapes)
        return None if observed is None else difference(average(self._resampled, shapes), observed)

    @cached_property
    def _resampled(self) -> Mapping[str, Numbers]:
        return {shape: resampled_means(gap, shape) for shape, gap in self.gaps.items()}

    def _has(self, shapes: Sequence[str]) -> bool:
        return all(shape in self.gaps for shape in shapes)

    @staticmethod
    def _mean(values: Sequence[float]) -> float:
        return float(np.mean(values))


def compare(pairs: Sequence[tuple[Result, Result]]) -> Comparison | None:
    """Compare the runs of each seed; pairs of which a run has no queries beside it, or other queries, are left out."""
    used, found = [], []
    for one, other in pairs:
        mine, theirs = load_queries(one), load_queries(other)
        if mine is None or theirs is None or one.workload["checksum"] != other.workload["checksum"]:
            continue
        used.append((one, other))
        found.append(_gaps(one, other, mine, theirs))
    if not used:
        return None
    common = [shape for shape in found[0] if all(shape in gaps for gaps in found)]
    means = {shape: np.mean([gaps[shape] for gaps in found], axis=0) for shape in common}
    by_seed = {shape: tuple(float(gaps[shape].mean()) for gaps in found) for shape in common}
    return Comparison(tuple(used), means, by_seed)


def _gaps(
    one: Result,
    other: Result,
    mine: tuple[Mapping[str, Numbers], Mapping[str, str]],
    theirs: tuple[Mapping[str, Numbers], Mapping[str, str]],
) -> dict[str, Numbers]:
    gaps = {}
    for shape, values in mine[0].items():
        if shape not in theirs[0]:
            continue
        if mine[1][shape] != theirs[1][shape]:
            raise DataError(
                f"{one.path} and {other.path} asked different {shape} queries.",
                hint="Measure both again with `flexkg paper run comparison`.",
            )
        gaps[shape] = values - theirs[0][shape]
    return gaps
