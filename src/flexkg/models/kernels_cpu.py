"""Compiled distances for the CPU (extra `fast`): rows against candidates, forward and backward, in any precision.

Each chunk of `per` rows has its own list of candidates `ids`. All pairs are one chunk that lists the whole table;
candidates drawn for each row are chunks of one row. So a single set of loops serves evaluation and training.

A kernel takes one row and four candidates at a time and sums along the dimension: one load of the row serves four
sums, which stay in registers. Loops around it keep tiles of rows and candidates in the nearest caches.

Sums may be taken in any order (so they vectorise), but NaN and infinity stay what they are: a run that diverges must
show it. Kernels hold no lock of the interpreter; `share_out` gives every core a run of tiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from flexkg.compiled import compiled
from flexkg.threads import share_out

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    Array = NDArray[Any]

KINDS = ("l1", "box", "cone", "dot")
L1, BOX, CONE, DOT = range(4)
QUERY_PARTS = (1, 2, 4, 1)
"""Vectors a query is packed of: point; centre, offset; cos, sin of half the axis, |cos|, |sin| of half the aperture."""
QUERY_GRADIENTS = (1, 2, 2, 1)
"""Vectors its gradient is packed of: point; centre, offset; axis, aperture (up to half the sign of its sine)."""

_TILE = 64
"""Candidates, and rows, of a tile: at dimension 400 in float32 either takes 100 KB, a part of the second cache."""
_NEAR = 8
"""Candidates that every row of a tile meets before the next ones: these stay in the first cache."""
_REORDER = {"reassoc", "contract", "nsz"}
# What sums in any order is inlined by force. A copy of its own is optimised by itself in the process that compiles it,
# and together with its caller in those that load the caller: these rounded differently, and a first run was another.


@compiled(fastmath=_REORDER, forceinline=True)
def _l1_four(q, a, b, c, d):
    s0, s1, s2, s3 = q.dtype.type(0), q.dtype.type(0), q.dtype.type(0), q.dtype.type(0)
    for j in range(len(q)):
        x = q[j]
        s0 += abs(x - a[j])
        s1 += abs(x - b[j])
        s2 += abs(x - c[j])
        s3 += abs(x - d[j])
    return s0, s1, s2, s3


@compiled(fastmath=_REORDER, forceinline=True)
def _dot_four(q, a, b, c, d):
    s0, s1, s2, s3 = q.dtype.type(0), q.dtype.type(0), q.dtype.type(0), q.dtype.type(0)
    for j in range(len(q)):
        x = q[j]
        s0 += x * a[j]
        s1 += x * b[j]
        s2 += x * c[j]
        s3 += x * d[j]
    return s0, s1, s2, s3


@compiled(fastmath=_REORDER, inline="always")
def _box_one(x, o, e, extra, inside, zero):
    """inside * min(a, o) + outside * relu(a - o), with min(a, o) = a - relu(a - o) and extra = outside - inside."""
    a = abs(x - e)
    beyond = a - o
    return inside * a + extra * (beyond if beyond > zero else zero)


@compiled(fastmath=_REORDER, forceinline=True)
def _box_four(q, a, b, c, d, extra, inside):
    zero = q.dtype.type(0)
    s0, s1, s2, s3 = zero, zero, zero, zero
    width = len(a)
    for j in range(width):
        x, o = q[j], q[width + j]
        s0 += _box_one(x, o, a[j], extra, inside, zero)
        s1 += _box_one(x, o, b[j], extra, inside, zero)
        s2 += _box_one(x, o, c[j], extra, inside, zero)
        s3 += _box_one(x, o, d[j], extra, inside, zero)
    return s0, s1, s2, s3


@compiled(fastmath=_REORDER, inline="always")
def _cone_one(ca, sa, cy, sy, ce, se, inside, zero):
    """Outside and inside of the cone from sines and cosines alone (see `distance.cone`)."""
    s, c = abs(se * ca - ce * sa), abs(ce * ca + se * sa)
    outside = s * cy - c * sy
    return (outside if outside > zero else zero) + inside * (sy if sy < s else s)


@compiled(fastmath=_REORDER, forceinline=True)
def _cone_four(q, a, b, c, d, inside):
    zero = q.dtype.type(0)
    s0, s1, s2, s3 = zero, zero, zero, zero
    w = len(a) >> 1
    # Cut out first: 2 * w + j might be negative for all the compiler knows, and the loop would not vectorise.
    cos_axis, sin_axis, cos_edge, sin_edge = q[:w], q[w : 2 * w], q[2 * w : 3 * w], q[3 * w :]
    cos_a, cos_b, cos_c, cos_d = a[:w], b[:w], c[:w], d[:w]
    sin_a, sin_b, sin_c, sin_d = a[w:], b[w:], c[w:], d[w:]
    for j in range(w):
        ca, sa, cy, sy = cos_axis[j], sin_axis[j], cos_edge[j], sin_edge[j]
        s0 += _cone_one(ca, sa, cy, sy, cos_a[j], sin_a[j], inside, zero)
        s1 += _cone_one(ca, sa, cy, sy, cos_b[j], sin_b[j], inside, zero)
        s2 += _cone_one(ca, sa, cy, sy, cos_c[j], sin_c[j], inside, zero)
        s3 += _cone_one(ca, sa, cy, sy, cos_d[j], sin_d[j], inside, zero)
    return s0, s1, s2, s3


@compiled()
def _forward(first, last, kind, queries, table, ids, extra, inside, out):
    """Distances of tiles first to last; a tile is some candidates of one chunk and all of the chunk's rows."""
    chunks, width = ids.shape
    per = len(queries) // chunks
    tiles = -(-width // _TILE)
    for tile in range(first, last):
        chunk = tile // tiles
        begin = (tile % tiles) * _TILE
        end = min(begin + _TILE, width)
        for rows in range(chunk * per, (chunk + 1) * per, _TILE):
            for near in range(begin, end, _NEAR):
                for row in range(rows, min(rows + _TILE, (chunk + 1) * per)):
                    q = queries[row]
                    for at in range(near, min(near + _NEAR, end), 4):
                        # Past the end the last candidate is taken again, and not written.
                        a = table[ids[chunk, at]]
                        b = table[ids[chunk, min(at + 1, end - 1)]]
                        c = table[ids[chunk, min(at + 2, end - 1)]]
                        d = table[ids[chunk, min(at + 3, end - 1)]]
                        if kind == L1:
                            s = _l1_four(q, a, b, c, d)
                        elif kind == BOX:
                            s = _box_four(q, a, b, c, d, extra, inside)
                        elif kind == CONE:
                            s = _cone_four(q, a, b, c, d, inside)
                        else:
                            s = _dot_four(q, a, b, c, d)
                        for more in range(min(4, end - at)):
                            out[row, at + more] = s[more]


@compiled(fastmath=_REORDER, forceinline=True)
def _pull_l1(x, y, g, into):
    none = x.dtype.type(0)
    for j in range(len(x)):
        away = x[j] - y[j]
        into[j] += g if away > none else (-g if away < none else none)


@compiled(fastmath=_REORDER, forceinline=True)
def _pull_dot(other, g, into):
    for j in range(len(other)):
        into[j] += g * other[j]


@compiled(fastmath=_REORDER, inline="always")
def _box_slope(x, o, near, beyond, none):
    """Derivative by the candidate, x away from the centre, and the share of it that comes from the outside."""
    far = beyond if abs(x) > o else none
    step = near + far
    return (step if x > none else (-step if x < none else none)), far


@compiled(fastmath=_REORDER, forceinline=True)
def _pull_box(centre, offset, e, near, beyond, to_centre, to_offset):
    none = e.dtype.type(0)
    for j in range(len(e)):
        slope, far = _box_slope(e[j] - centre[j], offset[j], near, beyond, none)
        to_centre[j] -= slope
        to_offset[j] -= far


@compiled(fastmath=_REORDER, forceinline=True)
def _pull_box_table(centre, offset, e, near, beyond, into):
    none = e.dtype.type(0)
    for j in range(len(e)):
        slope, _ = _box_slope(e[j] - centre[j], offset[j], near, beyond, none)
        into[j] += slope


@compiled(fastmath=_REORDER, inline="always")
def _cone_slope(s, c, cy, sy, outside, inside, none):
    """Twice the derivative by the candidate's angle: d sin(x/2) = cos(x/2)/2, d cos(x/2) = -sin(x/2)/2."""
    on_s = (cy if outside else none) + (inside if abs(s) < sy else none)
    on_c = sy if outside else none
    by_s, by_c = c * on_s, s * on_c
    return (by_s if s > none else (-by_s if s < none else none)) + (by_c if c > none else (-by_c if c < none else none))


@compiled(fastmath=_REORDER, forceinline=True)
def _pull_cone(ca, sa, cy, sy, ce, se, g, half, inside, to_axis, to_aperture):
    none = ca.dtype.type(0)
    for j in range(len(ca)):
        s, c = se[j] * ca[j] - ce[j] * sa[j], ce[j] * ca[j] + se[j] * sa[j]
        outside = abs(s) * cy[j] - abs(c) * sy[j] > none
        to_axis[j] -= half * _cone_slope(s, c, cy[j], sy[j], outside, inside, none)
        edge = inside * cy[j] if abs(s) >= sy[j] else none
        to_aperture[j] += g * (edge - ((abs(s) * sy[j] + abs(c) * cy[j]) if outside else none))


@compiled(fastmath=_REORDER, forceinline=True)
def _pull_cone_table(ca, sa, cy, sy, ce, se, half, inside, into):
    none = ca.dtype.type(0)
    for j in range(len(ca)):
        s, c = se[j] * ca[j] - ce[j] * sa[j], ce[j] * ca[j] + se[j] * sa[j]
        outside = abs(s) * cy[j] - abs(c) * sy[j] > none
        into[j] += half * _cone_slope(s, c, cy[j], sy[j], outside, inside, none)


@compiled(forceinline=True)
def _pull(kind, to_table, q, e, g, extra, inside, into):
    """Add g times the derivative of one distance to the gradient of its candidate or of its query."""
    # Parts are cut out first: within a loop, two places of one array might overlap, and it would not vectorise.
    own, other = (e, q) if to_table else (q, e)
    if kind == L1:
        _pull_l1(own, other, g, into)
    elif kind == DOT:
        _pull_dot(other, g, into)
    elif kind == BOX:
        w = len(e)
        if to_table:
            _pull_box_table(q[:w], q[w:], e, g * inside, g * extra, into)
        else:
            _pull_box(q[:w], q[w:], e, g * inside, g * extra, into[:w], into[w:])
    else:
        w = len(e) >> 1
        half = g * q.dtype.type(0.5)
        ca, sa, cy, sy = q[:w], q[w : 2 * w], q[2 * w : 3 * w], q[3 * w :]
        if to_table:
            _pull_cone_table(ca, sa, cy, sy, e[:w], e[w:], half, inside, into)
        else:
            _pull_cone(ca, sa, cy, sy, e[:w], e[w:], g, half, inside, into[:w], into[w:])


@compiled()
def _backward_queries(first, last, kind, queries, table, ids, extra, inside, grad, out):
    """Gradients of tiles of rows first to last."""
    chunks, width = ids.shape
    per = len(queries) // chunks
    tiles = -(-per // _TILE)
    for tile in range(first, last):
        chunk = tile // tiles
        begin = chunk * per + (tile % tiles) * _TILE
        end = min(begin + _TILE, (chunk + 1) * per)
        for block in range(0, width, _TILE):
            for row in range(begin, end):
                for at in range(block, min(block + _TILE, width)):
                    entity = ids[chunk, at]
                    _pull(kind, False, queries[row], table[entity], grad[row, at], extra, inside, out[row])


@compiled()
def _backward_table(first, last, kind, queries, table, chunks, width, order, offsets, extra, inside, grad, out):
    """Gradients of tiles of entities first to last: each entity collects from the places that list it."""
    per = len(queries) // chunks
    for tile in range(first, last):
        end = min((tile + 1) * _TILE, len(out))
        for block in range(0, per, _TILE):
            for entity in range(tile * _TILE, end):
                for place in range(offsets[entity], offsets[entity + 1]):
                    chunk, at = order[place] // width, order[place] % width
                    for row in range(chunk * per + block, chunk * per + min(block + _TILE, per)):
                        _pull(kind, True, queries[row], table[entity], grad[row, at], extra, inside, out[entity])


@compiled()
def _group(ids, num_entities):
    """Places in `ids` sorted by entity, stably, and where each entity's places begin."""
    offsets = np.zeros(num_entities + 1, np.int64)
    for place in range(len(ids)):
        offsets[ids[place] + 1] += 1
    for entity in range(num_entities):
        offsets[entity + 1] += offsets[entity]
    position, order = offsets[:-1].copy(), np.empty(len(ids), np.int64)
    for place in range(len(ids)):
        entity = ids[place]
        order[position[entity]] = place
        position[entity] += 1
    return order, offsets


@compiled()
def _merge(first, last, scores, base, values, ids):
    """Insert candidates base, base + 1, … into each row's sorted k best; an equal score keeps the lower id first."""
    k = values.shape[1]
    infinity = values.dtype.type(np.inf)
    for row in range(first, last):
        for at in range(scores.shape[1]):
            score = scores[row, at]
            if score != score:
                score = infinity
            # Ids come in order, so only a place that nothing has filled yet has the higher one.
            worst = values[row, k - 1]
            if not (score < worst or (score == worst and base + at < ids[row, k - 1])):
                continue
            place = k - 1
            while place > 0 and (
                score < values[row, place - 1] or (score == values[row, place - 1] and base + at < ids[row, place - 1])
            ):
                values[row, place] = values[row, place - 1]
                ids[row, place] = ids[row, place - 1]
                place -= 1
            values[row, place] = score
            ids[row, place] = base + at


def _weights(queries: Array, outside: float, inside: float) -> tuple[Any, Any]:  # a float would make sums doubles
    return queries.dtype.type(outside - inside), queries.dtype.type(inside)


def _listed(ids: Tensor | None, table: Tensor) -> Array:
    """The candidates of each chunk; all pairs are one chunk that lists everything."""
    return np.arange(len(table))[None] if ids is None else _array(ids)


def angles(axis: Tensor, aperture: Tensor, table: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Vectors that a cone and an entity's angles are packed of; see QUERY_PARTS."""
    axis, aperture, table = (part * 0.5 for part in (axis, aperture, table))
    return [axis.cos(), axis.sin(), aperture.cos().abs(), aperture.sin().abs()], [table.cos(), table.sin()]


def forward(kind: str, queries: Tensor, table: Tensor, ids: Tensor | None, outside: float, inside: float) -> Tensor:
    """Distances (n, c) of packed queries to the candidates that `ids` (chunks, c) lists for their chunk."""
    number, q, t, listed = KINDS.index(kind), _array(queries), _array(table), _listed(ids, table)
    out = np.zeros((len(q), listed.shape[1]), q.dtype)
    weights = _weights(q, outside, inside)
    tiles = len(listed) * -(-listed.shape[1] // _TILE)
    share_out(tiles, out.size * t.shape[1], lambda i, j: _forward(i, j, number, q, t, listed, *weights, out))
    return torch.from_numpy(out)


def backward_queries(
    kind: str, queries: Tensor, table: Tensor, ids: Tensor | None, outside: float, inside: float, grad: Tensor
) -> Tensor:
    """Gradient (n, parts * d) of the packed queries."""
    number, q, t = KINDS.index(kind), _array(queries), _array(table)
    listed, g = _listed(ids, table), _array(grad)
    out = np.zeros((len(q), q.shape[1] // QUERY_PARTS[number] * QUERY_GRADIENTS[number]), q.dtype)
    weights = _weights(q, outside, inside)
    tiles = len(listed) * -(-(len(q) // max(1, len(listed))) // _TILE)
    share_out(tiles, g.size * t.shape[1], lambda i, j: _backward_queries(i, j, number, q, t, listed, *weights, g, out))
    return torch.from_numpy(out)


def backward_table(
    kind: str,
    queries: Tensor,
    table: Tensor,
    ids: Tensor | None,
    outside: float,
    inside: float,
    grad: Tensor,
    _atomic: bool = False,
) -> Tensor:
    """Gradient (m, d) of the table, summed entity by entity: no two threads write one row, and the order is fixed."""
    number, q, t = KINDS.index(kind), _array(queries), _array(table)
    listed, g = _listed(ids, table), _array(grad)
    out = np.zeros((len(t), q.shape[1] // QUERY_PARTS[number]), q.dtype)
    order, offsets = _group(listed.reshape(-1), len(t))
    weights, shape = _weights(q, outside, inside), listed.shape
    share_out(
        -(-len(t) // _TILE),
        g.size * out.shape[1],
        lambda i, j: _backward_table(i, j, number, q, t, *shape, order, offsets, *weights, g, out),
    )
    return torch.from_numpy(out)


def merge_smallest(scores: Tensor, base: int, values: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Bring a block of scores (n, c), of candidates from `base` on, into the running k smallest (n, k), in place."""
    block, best, named = _array(scores), values.numpy(), ids.numpy()
    share_out(len(block), block.size, lambda first, last: _merge(first, last, block, base, best, named))
    return values, ids


def _array(tensor: Tensor) -> Array:
    return tensor.detach().contiguous().numpy()
