"""Batches of sorted integer sets as windows on a flat tensor of members, on any device.

Windows may overlap and lie in any order, so taking rows, or the tails of an edge straight from the graph, copies
nothing. Unions count which (row, member) keys occur: in a dense table when rows x universe is small beside the
keys, by sorting otherwise. Intersections and differences look the smaller side up in the larger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from torch import Tensor

LEFT_ONLY, RIGHT_ONLY, BOTH = 1, 2, 4
"""What a merge of two sets keeps: bits of an operation."""
UNION, DIFFERENCE = LEFT_ONLY | RIGHT_ONLY | BOTH, LEFT_ONLY | RIGHT_ONLY

_DENSE_CELLS = 1 << 25
"""Most cells of a dense table: 32M cells, 128 MB when weighted, 32 MB when not."""


class Ragged(NamedTuple):
    """Row i holds `members[starts[i] : starts[i] + lengths[i]]`, ascending and distinct."""

    starts: Tensor
    """(rows,) int64."""
    lengths: Tensor
    """(rows,) int64."""
    members: Tensor
    """int32; may hold more than the rows show."""

    @property
    def num_rows(self) -> int:
        """Number of sets."""
        return len(self.starts)


def offsets_of(lengths: Tensor) -> Tensor:
    """Row starts from row lengths, and the total at the end: (rows + 1,) int64."""
    offsets = torch.zeros(len(lengths) + 1, dtype=torch.int64, device=lengths.device)
    torch.cumsum(lengths, 0, out=offsets[1:])
    return offsets


def ranges(starts: Tensor, lengths: Tensor) -> Tensor:
    """starts[0] .. starts[0] + lengths[0] - 1, starts[1] .. and so on, as one flat tensor."""
    offsets = offsets_of(lengths)
    total = int(offsets[-1])
    shift = torch.repeat_interleave(starts - offsets[:-1], lengths, output_size=total)
    return shift + torch.arange(total, device=starts.device)


def row_of_member(sets: Ragged) -> Tensor:
    """The row that each shown member belongs to, int64."""
    return torch.repeat_interleave(torch.arange(sets.num_rows, device=sets.starts.device), sets.lengths)


def shown(sets: Ragged) -> Tensor:
    """The members of all rows, row after row, int32."""
    return sets.members[ranges(sets.starts, sets.lengths)]


def packed(sets: Ragged) -> Ragged:
    """The same sets, their members side by side and nothing else held."""
    return Ragged(offsets_of(sets.lengths)[:-1], sets.lengths, shown(sets))


def take(sets: Ragged, rows: slice | Tensor) -> Ragged:
    """Some rows, sharing the members."""
    return Ragged(sets.starts[rows], sets.lengths[rows], sets.members)


def concat(parts: list[Ragged]) -> Ragged:
    """All rows, one batch after the other."""
    lengths = torch.cat([part.lengths for part in parts])
    if all(part.members is parts[0].members for part in parts):
        return Ragged(torch.cat([part.starts for part in parts]), lengths, parts[0].members)
    return Ragged(offsets_of(lengths)[:-1], lengths, torch.cat([shown(part) for part in parts]))


def keys_of(sets: Ragged, universe: int) -> Tensor:
    """For every shown member its row * universe + itself: ascending, int64."""
    return row_of_member(sets) * universe + shown(sets)


def from_keys(keys: Tensor, num_rows: int, universe: int) -> Ragged:
    """Sets from ascending distinct keys."""
    offsets = torch.searchsorted(keys, torch.arange(num_rows + 1, device=keys.device) * universe)
    return Ragged(offsets[:-1], offsets.diff(), (keys % universe).to(torch.int32))


def distinct(keys: Tensor, num_rows: int, universe: int) -> Tensor:
    """The keys without repeats, ascending."""
    if _dense_pays(len(keys), num_rows, universe):
        seen = torch.zeros(num_rows * universe, dtype=torch.bool, device=keys.device)
        seen[keys] = True
        return torch.nonzero(seen).view(-1)
    ordered: Tensor = torch.unique_consecutive(keys.sort().values)
    return ordered


def tally(keys: Tensor, weights: Tensor, num_rows: int, universe: int) -> tuple[Tensor, Tensor]:
    """The distinct keys, ascending, and the sum of the (positive) weights of each."""
    if _dense_pays(len(keys), num_rows, universe):
        table = torch.zeros(num_rows * universe, dtype=torch.int32, device=keys.device)
        table.index_add_(0, keys, weights.to(torch.int32))
        found = torch.nonzero(table).view(-1)
        return found, table[found].to(torch.int64)
    order = keys.sort()
    found, inverse = torch.unique_consecutive(order.values, return_inverse=True)
    sums = torch.zeros(len(found), dtype=torch.int64, device=keys.device)
    sums.index_add_(0, inverse, weights[order.indices].to(torch.int64))
    return found, sums


def contains(sets: Ragged, rows: Tensor, values: Tensor) -> Tensor:
    """Whether each value is in its row's set: one binary search for all of them in step, (values,) bool."""
    low = sets.starts[rows]
    end = low + sets.lengths[rows]
    if len(rows) == 0 or len(sets.members) == 0:
        return torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
    high, last = end, len(sets.members) - 1
    for _ in range(int(sets.lengths.max()).bit_length()):
        middle = (low + high) >> 1
        below = (sets.members[middle.clamp(max=last)] < values) & (low < high)
        low = torch.where(below, middle + 1, low)
        high = torch.where(below, high, middle)
    return (low < end) & (sets.members[low.clamp(max=last)] == values)


def combine(operations: Tensor, left: Ragged, right: Ragged, universe: int) -> Ragged:
    """Merge two batches row by row, each row by its own operation (LEFT_ONLY, BOTH, UNION, ...)."""
    left_smaller = left.lengths <= right.lengths
    by_left = (operations == LEFT_ONLY) | ((operations == BOTH) & left_smaller)
    by_right = (operations == RIGHT_ONLY) | ((operations == BOTH) & ~left_smaller)
    parts, order = [], []
    for mask, first, second in ((by_left, left, right), (by_right, right, left), (~by_left & ~by_right, left, right)):
        rows = torch.nonzero(mask).view(-1)
        if len(rows):
            merge = _filter if mask is by_left or mask is by_right else _unite
            parts.append(merge(operations[rows], take(first, rows), take(second, rows), universe))
            order.append(rows)
    if len(parts) <= 1:
        return parts[0] if parts else left
    return take(concat(parts), torch.argsort(torch.cat(order)))


def _filter(operations: Tensor, kept: Ragged, other: Ragged, universe: int) -> Ragged:  # noqa: ARG001
    """Members of `kept` that are in `other` (BOTH), or that are not (otherwise)."""
    rows, values = row_of_member(kept), shown(kept)
    stay = contains(other, rows, values) == (operations == BOTH)[rows]
    lengths = torch.bincount(rows[stay], minlength=len(operations))
    return Ragged(offsets_of(lengths)[:-1], lengths, values[stay])


def _unite(operations: Tensor, left: Ragged, right: Ragged, universe: int) -> Ragged:
    """Members of either, less those of both where the operation does not keep them."""
    rows = len(operations)
    keys = torch.cat([keys_of(left, universe), keys_of(right, universe)])
    keys, sides = tally(keys, torch.ones(1, dtype=torch.int32, device=keys.device).expand(len(keys)), rows, universe)
    kept = (sides == 1) | (operations == UNION)[keys // universe]
    return from_keys(keys[kept], rows, universe)


def _dense_pays(num_keys: int, num_rows: int, universe: int) -> bool:
    cells = num_rows * universe
    return cells <= _DENSE_CELLS and cells <= 64 * num_keys
