"""Compiled bounds on distances for the CPU (extra `fast`): sums over a table of bytes, many entities at once.

Bytes lie in blocks of `BLOCK` entities, one dimension behind the other. So the innermost loop runs over entities, adds
numbers of 16 bits, and needs no sum across a register; the codes of a block stay in the nearest cache for all queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from flexkg.compiled import compiled
from flexkg.threads import share_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

BLOCK = 64
"""Entities of a block."""
_RUN = 256
"""Dimensions whose sum fits 16 bits: 256 * 255 < 65,536."""


@compiled()
def _bounds(first, last, codes, points, edges, weights, shifts, errors, out, least):
    """Lower bounds of the distances of all queries to the entities of blocks first to last, and each block's least.

    `weights` of a query: of the sum of |point - code|, of the sum of what goes beyond the edge, of the errors, and what
    everything is multiplied with; `shifts`: what is added before that, and after.
    """
    width, boxed = codes.shape[1], len(edges) > 0
    near, far = np.empty(BLOCK, np.uint16), np.empty(BLOCK, np.uint16)
    all_near, all_far = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.uint32)
    for block in range(first, last):
        for query in range(len(points)):
            all_near[:] = 0
            all_far[:] = 0
            for run in range(0, width, _RUN):
                near[:] = 0
                far[:] = 0
                for j in range(run, min(run + _RUN, width)):
                    x, row = points[query, j], codes[block, j]
                    if boxed:
                        o = edges[query, j]
                        for i in range(BLOCK):
                            away = np.uint8(max(x, row[i]) - min(x, row[i]))
                            near[i] += np.uint16(away)
                            far[i] += np.uint16(max(away, o) - o)
                    else:
                        for i in range(BLOCK):
                            near[i] += np.uint16(max(x, row[i]) - min(x, row[i]))
                for i in range(BLOCK):
                    all_near[i] += near[i]
                    all_far[i] += far[i]
            lowest = np.float32(np.inf)
            for i in range(BLOCK):
                at = block * BLOCK + i
                sums = weights[query, 0] * all_near[i] + weights[query, 1] * all_far[i]
                distance = sums + shifts[query, 0] - weights[query, 2] * errors[at]
                bound = np.float32(max(0.0, distance) * weights[query, 3] + shifts[query, 1])
                out[query, at] = bound
                lowest = min(lowest, bound)
            least[query, block] = lowest


def bounds(
    codes: Array, points: Array, edges: Array, weights: Array, shifts: Array, errors: Array
) -> tuple[Array, Array]:
    """Lower bounds (queries, entities of all blocks), and the least of each block (queries, blocks)."""
    blocks = len(codes)
    out = np.empty((len(points), blocks * BLOCK), np.float32)
    least = np.empty((len(points), blocks), np.float32)
    share_out(
        blocks,
        codes.size * len(points),
        lambda i, j: _bounds(i, j, codes, points, edges, weights, shifts, errors, out, least),
    )
    return out, least
