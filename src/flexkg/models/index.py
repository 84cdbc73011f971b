"""The best k entities without scoring all of them: a table of bytes that tells which ones cannot be among the best.

Every coordinate is kept as one of 256 levels. Sums over bytes take a quarter of the memory traffic of the table itself,
and are exact. Less what rounding to levels can have added, they are lower bounds of the distances. Whatever is farther
by its bound than k entities are in truth is out; the few others are scored as ever. So answers, scores and their order
are those of scoring everything, to the last bit.

With levels t' of an entity and q' of a query, e and f their roundings (sums of |t - t'| and |q - q'|):

    l1:   Σ|q - t| ≥ Σ|q' - t'| - e - f
    box:  each term rises with a = |c - t|, by at most `outside`; so it is no less than its value at |c' - t'|, the
          offset rounded up to a level, less `outside` times the roundings

A coordinate of a query beyond all of the table's is moved to the nearest of theirs; the way there is added whole.
Distances are summed in float32. n numbers of one sign are summed to a relative error of n units in the last place at
most, in any order; bounds are lowered by twice that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from flexkg.models.pairs import find_kernels

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from torch import Tensor

    from flexkg.models.reference import DistanceSpec

    Ids = NDArray[np.int64]

KINDS = ("l1", "box")
"""Distances that have such a bound."""
_UNIT = float(np.finfo(np.float32).eps)
_LARGEST = 1e15
"""Coordinates beyond this could overflow a sum that the whole table would show."""
_ROWS = 1 << 14
"""Entities that are turned into levels at a time."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """What an index knows of one query."""

    size: int
    """Number of entities."""
    values: NDArray[np.float32]
    """(entities of all blocks,): no entity is nearer; behind the last entity infinite."""
    least: NDArray[np.float32]
    """(blocks,): the least of each block."""


@dataclass(frozen=True, eq=False)
class Index:
    """A table of entities as bytes."""

    spec: DistanceSpec
    size: int
    low: float
    high: float
    step: float
    codes: NDArray[np.uint8]
    """(blocks, width, entities of a block)."""
    errors: NDArray[np.float64]
    """(entities of all blocks,): sum of what rounding moved; minus infinity behind the last entity."""

    @property
    def bytes(self) -> int:
        """Memory: a quarter of a float32 table, and eight bytes an entity."""
        return self.codes.nbytes + self.errors.nbytes

    def bounds(self, query: tuple[Tensor, ...], constant: Tensor | None = None) -> list[Bounds] | None:
        """Lower bounds of the distances of queries (rows, width); None where a query's numbers rule that out."""
        from flexkg.models import kernels_index

        parts = [part.double().numpy() for part in query]
        added = np.zeros(len(parts[0])) if constant is None else constant.double().numpy()
        if not all(bool((np.abs(part) <= _LARGEST).all()) for part in (*parts, added)):
            return None
        centre = parts[0]
        moved = centre.clip(self.low, self.high)
        levels = self.levels(moved)
        rounding = np.abs(moved - (self.low + self.step * levels)).sum(1)
        rest = np.abs(centre - moved)
        outside, inside = (1.0, 1.0) if self.spec.kind == "l1" else (1.0, self.spec.inside_weight)
        extra, edges, beyond = outside - inside, np.zeros((0, 0), np.uint8), 0.0
        # What subtracting an offset from a rounded distance can lose, over all dimensions.
        lost = 0.0
        if self.spec.kind == "box":
            offset = parts[1]
            edges = np.ceil((offset - rest) / self.step).clip(0, 255).astype(np.uint8)
            beyond = (rest - offset).clip(0).sum(1)
            most = max(abs(self.low), abs(self.high))
            lost = 4 * _UNIT * (most + np.abs(centre) + np.abs(offset)).sum(1)
        rows, width = centre.shape
        weights, shifts = np.empty((rows, 4)), np.empty((rows, 2))
        weights[:, 0], weights[:, 1], weights[:, 2] = inside * self.step, extra * self.step, outside
        weights[:, 3] = 1 - 2 * _UNIT * (width + 16)
        # The last factor pays for sums in float64 here.
        shifts[:, 0] = inside * rest.sum(1) + extra * beyond - outside * (rounding + lost) * (1 + 1e-9)
        shifts[:, 1] = added
        found = kernels_index.bounds(self.codes, levels, edges, weights, shifts, self.errors)
        return [Bounds(self.size, values, least) for values, least in zip(*found, strict=True)]

    def levels(self, values: NDArray[np.float64]) -> NDArray[np.uint8]:
        """The nearest level of each coordinate."""
        nearest: NDArray[np.uint8] = np.rint((values - self.low) / self.step).clip(0, 255).astype(np.uint8)
        return nearest


@torch.no_grad()
def build(spec: DistanceSpec, rows: Callable[[slice], Tensor], size: int) -> Index | None:
    """An index over a table, or None where there is no such bound or no compiled kernel for it.

    `rows` gives a run of the table's `size` rows, which are asked for twice.
    """
    if spec.kind not in KINDS or not 0 <= spec.inside_weight <= 1 or not size:
        return None
    first = rows(slice(0, 1))
    if first.device.type != "cpu" or first.dtype != torch.float32 or find_kernels(first, first) is None:
        return None
    from flexkg.models.kernels_index import BLOCK

    width = first.shape[1]
    runs = [slice(start, min(start + _ROWS, size)) for start in range(0, size, _ROWS)]
    ends = np.array([torch.stack(rows(run).aminmax()).numpy() for run in runs])
    # A number that is none makes the comparison false.
    if not np.abs(ends).max() <= _LARGEST:
        return None
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    blocks = -(-size // BLOCK)
    codes = np.zeros((blocks, width, BLOCK), np.uint8)
    errors = np.full(blocks * BLOCK, -np.inf)
    index = Index(spec, size, low, high, (high - low) / 255 or 1.0, codes, errors)
    for run in runs:
        some = rows(run).double().numpy()
        levels = index.levels(some)
        moved = np.abs(some - (low + index.step * levels)).sum(1)
        # Rows that are computed again, with others beside them, may differ in their last place.
        errors[run] = moved * (1 + 1e-9) + 4 * _UNIT * width * max(abs(low), abs(high))
        whole = np.zeros((-(-len(some) // BLOCK) * BLOCK, width), np.uint8)
        whole[: len(some)] = levels
        codes[run.start // BLOCK :][: len(whole) // BLOCK] = whole.reshape(-1, BLOCK, width).transpose(0, 2, 1)
    return index


@dataclass(frozen=True)
class Line:
    """How scores come from distances: margin - modulus * distance, in float32."""

    margin: float
    modulus: float

    def farthest(self, score: float, constant: float) -> float:
        """A distance beyond which, rounding included, every score is less than the given one."""
        slack = 16 * _UNIT * (abs(self.margin) + abs(score)) / self.modulus
        return (self.margin - score) / self.modulus + slack + 16 * _UNIT * abs(constant)


def best(
    bounds: list[Bounds],
    line: Line,
    constant: float,
    exact: Callable[[Ids], NDArray[np.float32]],
    k: int,
    barred: Ids,
) -> tuple[Ids, NDArray[np.float32]]:
    """The k highest scores among all entities but the barred, and their ids; of equal ones the lower id first.

    `bounds` are those of a query's parts, the best of which counts; `exact` scores entities; `constant` is the largest
    that was added to a distance, whatever its sign.
    """
    values = np.minimum.reduce([part.values for part in bounds]) if len(bounds) > 1 else bounds[0].values
    least = np.minimum.reduce([part.least for part in bounds]) if len(bounds) > 1 else bounds[0].least
    k = min(k, bounds[0].size - len(barred))
    if k <= 0:
        return np.zeros(0, np.int64), np.zeros(0, np.float32)
    # Any k entities give a threshold; those of the blocks that look nearest give a good one.
    seeds = _members(_smallest(least, k + len(barred)), len(values) // len(least))
    seeds = seeds[~np.isin(seeds, barred) & np.isfinite(values[seeds])]
    seeds = seeds[_smallest(values[seeds], k)]
    limit = line.farthest(float(exact(np.sort(seeds)).min()), constant)
    near = _members(np.flatnonzero(least <= limit), len(values) // len(least))
    near = near[values[near] <= limit]
    near = near[~np.isin(near, barred)]
    scores = exact(near)
    order = np.argsort(-scores, kind="stable")[:k]
    return near[order], scores[order]


def _members(blocks: Ids, size: int) -> Ids:
    """The entities of blocks."""
    return np.asarray((blocks[:, None] * size + np.arange(size)).ravel())


def _smallest(values: NDArray[np.float32], count: int) -> Ids:
    """Where the `count` smallest are."""
    return np.arange(len(values)) if count >= len(values) else np.argpartition(values, count)[:count]
