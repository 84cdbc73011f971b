"""Distances on a GPU, in Triton: the same functions as `kernels_cpu`, forward and backward, in float32.

The gradient of the table first sorts the candidates by entity, so that each of its rows is written once, by one
instance of a program, in a fixed order: no atomic additions, and the same bits in every run. All shapes are known
before a launch, so that CUDA graphs can record it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton

from flexkg.models import programs_gpu

if TYPE_CHECKING:
    from torch import Tensor

KINDS = ("l1", "box", "cone", "dot", "modulus")
QUERY_PARTS = (1, 2, 2, 1, 2)
"""Vectors a query is packed of, and its gradient: point; centre, offset; axis, aperture (as `angles` has them); vector;
real and imaginary parts."""
TABLE_PARTS = (1, 1, 1, 1, 2)

_ROWS = 64
_CANDIDATES = 16
_DIMENSIONS = 128
_TO_QUERIES = {"BC": 4, "BD": 128, "num_warps": 1}
_TO_TABLE = {"BC": 4, "BD": 256, "num_warps": 1}
"""Small tiles of one warp: rows are short of work, and what matters is how many of them are under way at a time."""
_SHARED = 16
"""Rows that must share their candidates for tiles to pay."""


def angles(axis: Tensor, aperture: Tensor, table: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Cones and angles as tangents of quarters, which make sines and cosines of halves: half as many bytes as those."""
    axis, aperture, table = (torch.tan(part * 0.25) for part in (axis, aperture, table))
    return [axis, aperture], [table]


def _wide(axis: Tensor, aperture: Tensor | None = None) -> Tensor:
    """Cosines and sines of halves side by side: where a row meets many candidates, its functions are taken once."""
    parts = [(1 - axis * axis) / (1 + axis * axis), 2 * axis / (1 + axis * axis)]
    return torch.cat(parts if aperture is None else [*parts, *_wide(aperture).abs().chunk(2, dim=1)], dim=1)


def forward(kind: str, queries: Tensor, table: Tensor, ids: Tensor | None, outside: float, inside: float) -> Tensor:
    """Distances (n, c) of packed queries to the candidates that `ids` (chunks, c) lists for their chunk."""
    number = KINDS.index(kind)
    n, d = len(queries), queries.shape[1] // QUERY_PARTS[number]
    chunks, c = (1, len(table)) if ids is None else ids.shape
    per = n // max(1, chunks)
    out = queries.new_empty(n, c, dtype=torch.float32)
    if out.numel() == 0:
        return out
    weights = outside - inside, inside
    with torch.cuda.device_of(queries):
        if ids is not None and per < _SHARED:
            grid = (n * triton.cdiv(c, _CANDIDATES),)
            listed = ids.contiguous()
            programs_gpu.gathered[grid](
                queries, table, listed, out, per, c, d, *weights, KIND=number, BC=_CANDIDATES, BD=_DIMENSIONS
            )
            return out
        if kind == "cone":
            queries, table = _wide(*queries.chunk(2, dim=1)), _wide(table)
        # A list that many rows share is gathered once: at most a sixteenth of what the rows would gather.
        rows = table[None] if ids is None else table[ids]
        along = rows.transpose(1, 2).contiguous()
        turned = queries.view(chunks, per, -1).transpose(1, 2).contiguous()
        high = min(_ROWS, max(16, triton.next_power_of_2(per)))
        grid = (chunks * triton.cdiv(per, high) * triton.cdiv(c, _ROWS),)
        # Six operands of a cone do not fit the registers of four warps.
        warps = 8 if kind == "cone" else 4
        programs_gpu.tile[grid](
            turned, along, out, per, c, d, *weights, KIND=number, BN=high, BM=_ROWS, num_warps=warps
        )
    return out


def backward_queries(
    kind: str, queries: Tensor, table: Tensor, ids: Tensor | None, outside: float, inside: float, grad: Tensor
) -> Tensor:
    """Gradient (n, parts * d) of the packed queries."""
    number = KINDS.index(kind)
    n, d = len(queries), queries.shape[1] // QUERY_PARTS[number]
    chunks, c = (1, len(table)) if ids is None else ids.shape
    out = queries.new_empty(n, QUERY_PARTS[number] * d, dtype=torch.float32)
    if c == 0:
        out.zero_()
    elif out.numel():
        listed = grad if ids is None else ids.contiguous()  # not read without ids; any tensor will do
        with torch.cuda.device_of(queries):
            programs_gpu.to_queries[(n * triton.cdiv(d, _TO_QUERIES["BD"]),)](
                queries, table, listed, grad.contiguous(), out, n // chunks, c, d, outside - inside, inside,
                KIND=number, LISTED=ids is not None, **_TO_QUERIES,
            )  # fmt: skip
    return out


def backward_table(
    kind: str,
    queries: Tensor,
    table: Tensor,
    ids: Tensor | None,
    outside: float,
    inside: float,
    grad: Tensor,
    atomic: bool = False,
) -> Tensor:
    """Gradient (m, parts * d) of the table; `atomic` adds where the candidates fall, in no fixed order."""
    number = KINDS.index(kind)
    n, d, m = len(queries), queries.shape[1] // QUERY_PARTS[number], len(table)
    chunks, c = (1, m) if ids is None else ids.shape
    out = queries.new_empty(m, TABLE_PARTS[number] * d, dtype=torch.float32)
    if out.numel() == 0 or grad.numel() == 0:
        return out.zero_()
    sizes = n // chunks, c, d, outside - inside, inside
    g = grad.contiguous()
    with torch.cuda.device_of(queries):
        if atomic and ids is not None:
            out.zero_()
            grid = (n * triton.cdiv(c, _CANDIDATES),)
            listed = ids.contiguous()
            programs_gpu.to_table_atomic[grid](
                queries, table, listed, g, out, *sizes, KIND=number, BC=_CANDIDATES, BD=_DIMENSIONS
            )
            return out
        order = offsets = g
        if ids is not None:
            # 32-bit keys: a radix sort makes half the passes.
            keys, order = ids.reshape(-1).int().sort(stable=True)
            offsets = torch.searchsorted(keys, torch.arange(m + 1, device=keys.device, dtype=keys.dtype))
        programs_gpu.to_table[(m * triton.cdiv(d, _TO_TABLE["BD"]),)](
            queries, table, order, offsets, g, out, *sizes, KIND=number, LISTED=ids is not None, **_TO_TABLE
        )
    return out
