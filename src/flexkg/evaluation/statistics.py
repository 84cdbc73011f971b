"""How far a mean over queries can be trusted: bootstrap intervals, of one model and of two on the same queries.

Queries are drawn again with replacement, within each shape; a mean over shapes is resampled shape by shape.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

RESAMPLES = 1000
_AT_ONCE = 1 << 22
"""Draws that are held at a time: 32 MB of places."""


@dataclass(frozen=True)
class Difference:
    """How much better one model is than another on the same queries."""

    difference: float
    ci95: tuple[float, float]
    p: float
    """Two-sided: how often chance alone in the choice of queries would turn the sign."""

    def to_dict(self) -> dict[str, object]:
        """Plain Python."""
        return {"difference": self.difference, "ci95": list(self.ci95), "p": self.p}


def resampled_means(values: Numbers, name: str, seed: int = 0, count: int = RESAMPLES) -> Numbers:
    """Means of `count` bootstrap samples of the values, (count,); decided by the seed and the name."""
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    height = max(1, _AT_ONCE // max(1, len(values)))
    means = np.empty(count)
    for first in range(0, count, height):
        rows = slice(first, min(first + height, count))
        places = random.integers(0, len(values), (rows.stop - rows.start, len(values)), dtype=np.int32)
        means[rows] = values[places].mean(axis=1)
    return means


def interval(means: Numbers) -> tuple[float, float]:
    """The middle 95% of bootstrap means."""
    low, high = np.percentile(means, (2.5, 97.5))
    return float(low), float(high)


def average(columns: Mapping[str, Numbers], shapes: Sequence[str]) -> Numbers:
    """Bootstrap means of an average over shapes, from those of the shapes, which are independent of each other."""
    means: Numbers = np.mean([columns[shape] for shape in shapes], axis=0)
    return means


def difference(means: Numbers, observed: float) -> Difference:
    """What bootstrap means of paired differences tell."""
    beyond = min(int((means <= 0).sum()), int((means >= 0).sum()))
    return Difference(observed, interval(means), min(1.0, 2 * (beyond + 1) / (len(means) + 1)))
