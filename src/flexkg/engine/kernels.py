"""Compiled set operations for the CPU (extra `fast`): the same results as the tensor operations, several times faster.

Each kernel walks rows and writes their members one after the other into a buffer; it stops before a row that
might not fit, so memory is bounded by the buffers and no row is computed twice. Kernels hold no lock of the
interpreter: `_in_threads` gives every core a run of rows.

A union collects its members in a hierarchical bitmap (one bit an entity, above it one bit a word, three levels):
members come out sorted and distinct at a cost that does not depend on the number of entities.

A pair (relation, entity) is found in a bitmap with ranks beside it: one bit says whether there is such a pair,
the bits before it count where. That is 12 bytes for 64 entities and relation; where it would be too big, a binary
search takes its place. Rows are walked in the order of their relations, whose edges then stay in the cache.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numba import types
from numba.extending import intrinsic

from flexkg.compiled import compiled
from flexkg.engine.ragged import Ragged, offsets_of
from flexkg.threads import RUNS, kernel_threads, run_between

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from torch import Tensor

    from flexkg.kg.graph import Graph

    Array = NDArray[Any]

_BUFFER = 1 << 22
"""Members a worker's buffer holds: 16 MB."""
_INDEX_BYTES = 1 << 28
"""Largest bitmap of pairs: 256 MB."""


class PairIndex(NamedTuple):
    """Everything that finds the tails of a (relation, entity)."""

    relation_offsets: Array
    pair_entities: Array
    pair_offsets: Array
    present: Array
    """(relations * words,) uint64: bit e % 64 of word relation * words + e // 64 is the pair; empty if too big."""
    ranks: Array
    """(relations * words,) int32: pairs before each word."""
    words: int
    """Words a relation."""


def index_pairs(graph: Graph) -> PairIndex:
    """Build the bitmap of pairs, or leave it out where the graph is too large for it."""
    words = -(-graph.num_entities // 64)
    total = words * graph.num_relations
    present, ranks = np.zeros(0, np.uint64), np.zeros(0, np.int32)
    if 12 * total <= _INDEX_BYTES:
        entities = graph.pair_entities.astype(np.int64)
        places = graph.pair_relations.astype(np.int64) * words + (entities >> 6)
        firsts = np.flatnonzero(np.diff(places, prepend=-1))
        present = np.zeros(total, np.uint64)
        if len(firsts):
            bits = np.uint64(1) << (entities & 63).astype(np.uint64)
            present[places[firsts]] = np.bitwise_or.reduceat(bits, firsts)
        ranks = np.searchsorted(places, np.arange(total)).astype(np.int32)
    return PairIndex(graph.relation_offsets, graph.pair_entities, graph.pair_offsets, present, ranks, words)


@intrinsic
def _trailing_zeros(typingctx: Any, word: Any) -> Any:  # noqa: ARG001
    """Number of zero bits below the lowest set bit of a 64-bit word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.cttz(arguments[0], context.get_constant(types.boolean, False))

    return types.uint64(types.uint64), generate


@intrinsic
def _ones(typingctx: Any, word: Any) -> Any:  # noqa: ARG001
    """Number of set bits of a 64-bit word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@compiled()
def _find_pair(entity, relation, index):
    """Position of the pair (relation, entity), or -1."""
    if len(index.present) > 0:
        place = relation * index.words + (np.int64(entity) >> 6)
        word = index.present[place]
        bit = np.uint64(1) << np.uint64(entity & 63)
        if word & bit == 0:
            return np.int64(-1)
        return index.ranks[place] + np.int64(_ones(word & (bit - np.uint64(1))))
    low, high = index.relation_offsets[relation], index.relation_offsets[relation + 1]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if index.pair_entities[middle] < entity:
            low = middle + 1
        else:
            high = middle
    if low < end and index.pair_entities[low] == entity:
        return low
    return np.int64(-1)


@compiled()
def _collect(tails, start, stop, bottom, middle, top):
    """Put tails[start:stop] into the bitmap."""
    one = np.uint64(1)
    for j in range(start, stop):
        tail = np.int64(tails[j])
        b = tail >> 6
        word = bottom[b]
        if word == 0:
            m = b >> 6
            middle[m] |= one << np.uint64(b & 63)
            top[m >> 6] |= one << np.uint64(m & 63)
        bottom[b] = word | (one << np.uint64(tail & 63))


@compiled()
def _drain(bottom, middle, top, out, position):
    """Write the bitmap's members in order, and clear it."""
    one = np.uint64(1)
    for t in range(len(top)):
        upper = top[t]
        if upper == 0:
            continue
        top[t] = 0
        while upper != 0:
            m = (t << 6) + np.int64(_trailing_zeros(upper))
            upper &= upper - one
            inner = middle[m]
            middle[m] = 0
            while inner != 0:
                b = (m << 6) + np.int64(_trailing_zeros(inner))
                inner &= inner - one
                word = bottom[b]
                bottom[b] = 0
                base = b << 6
                while word != 0:
                    out[position] = base + np.int64(_trailing_zeros(word))
                    position += 1
                    word &= word - one
    return position


@compiled()
def _project_rows(
    first, last, order, starts, lengths, members, relations, index, tails, universe, bottom, middle, top, out, counts
):
    """Union of the tails of each row's members; returns (first row not done, members written)."""
    written = 0
    for place in range(first, last):
        if written + universe > len(out):
            return place, written
        row = order[place]
        relation = relations[row]
        before = written
        sources = 0
        only_start = only_stop = np.int64(0)
        for i in range(starts[row], starts[row] + lengths[row]):
            pair = _find_pair(members[i], relation, index)
            if pair < 0:
                continue
            sources += 1
            if sources == 1:
                # One source needs no bitmap: its tails are sorted and distinct. Wait for a second one.
                only_start, only_stop = index.pair_offsets[pair], index.pair_offsets[pair + 1]
                continue
            if sources == 2:
                _collect(tails, only_start, only_stop, bottom, middle, top)
            _collect(tails, index.pair_offsets[pair], index.pair_offsets[pair + 1], bottom, middle, top)
        if sources == 1:
            for j in range(only_start, only_stop):
                out[written] = tails[j]
                written += 1
        elif sources > 1:
            written = _drain(bottom, middle, top, out, written)
        counts[place] = written - before
    return last, written


@compiled(inline="always")
def _reach(members, low, high, value):
    """First position in members[low:high] that is not below value, by galloping from low."""
    step = 1
    while low + step < high and members[low + step] < value:
        low += step
        step <<= 1
    high = min(high, low + step + 1)
    while low < high:
        middle = (low + high) >> 1
        if members[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@compiled()
def _combine_rows(
    first, last, operations, left_starts, left_lengths, left, right_starts, right_lengths, right, out, counts
):
    """Merge two sets row by row by each row's operation; returns (first row not done, members written)."""
    written = 0
    for row in range(first, last):
        i, j = left_starts[row], right_starts[row]
        left_stop, right_stop = i + left_lengths[row], j + right_lengths[row]
        if written + left_lengths[row] + right_lengths[row] > len(out):
            return row, written
        before = written
        operation = operations[row]
        keep_left = operation & 1 != 0
        keep_right = operation & 2 != 0
        keep_both = operation & 4 != 0
        if operation == 4 and 16 * left_lengths[row] < right_lengths[row]:
            while i < left_stop and j < right_stop:
                j = _reach(right, j, right_stop, left[i])
                if j < right_stop and right[j] == left[i]:
                    out[written] = left[i]
                    written += 1
                i += 1
        elif operation == 4 and 16 * right_lengths[row] < left_lengths[row]:
            while i < left_stop and j < right_stop:
                i = _reach(left, i, left_stop, right[j])
                if i < left_stop and left[i] == right[j]:
                    out[written] = right[j]
                    written += 1
                j += 1
        else:
            while i < left_stop and j < right_stop:
                a, b = left[i], right[j]
                # Written always, counted when kept: no branch to predict.
                out[written] = min(a, b)
                written += np.int64((keep_left and a < b) or (keep_right and b < a) or (keep_both and a == b))
                i += np.int64(a <= b)
                j += np.int64(b <= a)
            if keep_left:
                while i < left_stop:
                    out[written] = left[i]
                    written += 1
                    i += 1
            if keep_right:
                while j < right_stop:
                    out[written] = right[j]
                    written += 1
                    j += 1
        counts[row] = written - before
    return last, written


@compiled()
def _find_pairs(entities, relations, index, starts, lengths):
    """Where the tails of each (entity, relation) lie."""
    for row in range(len(entities)):
        pair = _find_pair(entities[row], relations[row], index)
        if pair >= 0:
            starts[row] = index.pair_offsets[pair]
            lengths[row] = index.pair_offsets[pair + 1] - index.pair_offsets[pair]


@compiled()
def _copy_rows(starts, lengths, members, offsets, out):
    """Write each row to its place."""
    for row in range(len(starts)):
        source, target = starts[row], offsets[row]
        for i in range(lengths[row]):
            out[target + i] = members[source + i]


_local = threading.local()


def _buffer(size: int) -> Array:
    """A buffer of this thread's own, used again and again: fresh pages cost more than the work itself."""
    held: Array | None = getattr(_local, "buffer", None)
    if held is None or len(held) < size:
        held = _local.buffer = np.empty(max(size, _BUFFER), np.int32)
    return held


def _in_threads(work: Array, widest_row: int, kernel: Callable[..., tuple[int, int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Run `kernel(first, last, out, counts)` over all rows, each thread a run of rows of about equal work.

    Returns where each row starts, its length, and the members.
    """
    num_rows = len(work)
    counts = np.zeros(num_rows, np.int64)
    runs = RUNS * kernel_threads() if num_rows >= 64 else 1
    running = np.cumsum(work)
    edges = [0, *np.searchsorted(running, running[-1] * np.arange(1, runs) / runs).tolist(), num_rows]

    def one_run(row: int, last: int) -> list[Array]:
        parts, out = [], _buffer(widest_row)
        while row < last:
            row, written = kernel(row, last, out, counts)
            parts.append(out[:written].copy())
        return parts

    parts = [part for result in run_between(edges, one_run) for part in result]
    members = np.concatenate(parts or [np.zeros(0, np.int32)])
    lengths = torch.from_numpy(counts)
    return offsets_of(lengths)[:-1], lengths, torch.from_numpy(members)


def find_pairs(index: PairIndex, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
    """Where the tails of each (entity, relation) start, and how many there are."""
    starts, lengths = np.zeros(len(entities), np.int64), np.zeros(len(entities), np.int64)
    _find_pairs(entities.contiguous().numpy(), relations.contiguous().numpy(), index, starts, lengths)
    return torch.from_numpy(starts), torch.from_numpy(lengths)


def project(graph: Graph, index: PairIndex, sets: Ragged, relations: Tensor) -> Ragged:
    """Union of the tails of each row's members along the row's relation."""
    order = torch.argsort(relations)
    rows = [array.contiguous().numpy() for array in (order, *sets, relations)]
    words = [-(-graph.num_entities // 64**level) for level in (1, 2, 3)]

    def kernel(first: int, last: int, out: Array, counts: Array) -> Any:
        bitmap = [np.zeros(size, np.uint64) for size in words]
        return _project_rows(first, last, *rows, index, graph.tails, graph.num_entities, *bitmap, out, counts)

    starts, lengths, members = _in_threads(sets.lengths[order].numpy(), graph.num_entities, kernel)
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order))
    return Ragged(starts[back], lengths[back], members)


def combine(operations: Tensor, left: Ragged, right: Ragged) -> Ragged:
    """Merge two batches row by row, each row by its own operation (see `ragged.combine`)."""
    work = (left.lengths + right.lengths).numpy()
    rows = [array.contiguous().numpy() for array in (operations, *left, *right)]

    def kernel(first: int, last: int, out: Array, counts: Array) -> Any:
        return _combine_rows(first, last, *rows, out, counts)

    return Ragged(*_in_threads(work, int(work.max(initial=1)), kernel))


def pack(sets: Ragged) -> Ragged:
    """The same sets, their members side by side and nothing else held."""
    offsets = offsets_of(sets.lengths)
    out = np.empty(int(offsets[-1]), np.int32)
    starts, lengths, members = (array.contiguous().numpy() for array in sets)
    _copy_rows(starts, lengths, members, offsets.numpy(), out)
    return Ragged(offsets[:-1], sets.lengths, torch.from_numpy(out))
