"""Distances by chunked tensor operations, wherever there is no kernel for them.

Most are written down as the papers do and differentiated chunk by chunk. Straight lines, which have no kernel on a CPU,
have their gradient written down too, and are opaque operators where torch.compile looks: it could not take a backward
pass that differentiates, and would unroll the chunks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

STRAIGHT = ("l2", "modulus")
"""Kinds of distance that add up lengths of vectors: of one vector, or of one for every complex number."""
_LIVE = 8
"""Temporaries of (rows, candidates, dimension) that are held at a time, gradients included."""


def plain(
    kind: str, queries: list[Tensor], table: Tensor, ids: Tensor | None, outside: float, inside: float, memory: int
) -> Tensor:
    """Distances (n, m), or (n, c) to listed candidates; beside them about `memory` bytes are taken at a time."""
    if kind in STRAIGHT:
        measure: Callable[..., Tensor] = _operator if torch.compiler.is_compiling() else _Straight.apply
        return measure(kind, queries[0], table, ids, memory)
    result: Tensor = _Plain.apply(kind, outside, inside, memory, ids, table, *queries)  # type: ignore[no-untyped-call]
    return result


def formula(kind: str, queries: Sequence[Tensor], candidates: Tensor, outside: float, inside: float) -> Tensor:
    """Other distances as the papers write them: parts (n, d) to a table (m, d), or to lists of their own (n, c, d)."""
    if candidates.dim() == 2 and kind in ("l1", "box"):
        return _by_routine(queries, candidates, outside, inside)
    first, *others = (part[:, None] for part in queries)
    away = candidates - first
    match kind:
        case "l1":
            return away.abs().sum(-1)
        case "box":
            apart = away.abs()
            return ((outside - inside) * torch.relu(apart - others[0]) + inside * apart).sum(-1)
        case "cone":
            sine, edge = torch.sin(away / 2).abs(), torch.sin(others[0] / 2).abs()
            nearer = torch.minimum(torch.sin((away + others[0]) / 2).abs(), torch.sin((away - others[0]) / 2).abs())
            return (torch.where(sine < edge, 0.0, nearer) + inside * torch.minimum(sine, edge)).sum(-1)
        case _:
            return (first * candidates).sum(-1)


def _by_routine(queries: Sequence[Tensor], table: Tensor, outside: float, inside: float) -> Tensor:
    """All pairs by torch's own L1 routine, which holds nothing but the result.

    Σ relu(|x| - o) is half of Σ|x + o| + |x - o|, less Σ o, for o ≥ 0; a negative offset adds its size.
    """
    centre = queries[0]
    direct = torch.cdist(centre, table, p=1.0)
    if len(queries) == 1:
        return direct
    offset = queries[1].clamp(min=0)
    edges = torch.cdist(centre + offset, table, p=1.0) + torch.cdist(centre - offset, table, p=1.0)
    beyond = edges / 2 - queries[1].sum(-1, keepdim=True)
    return (outside - inside) * beyond + inside * direct


def _tiles(rows: int, columns: int, elements: int) -> Iterator[tuple[slice, slice]]:
    """Cut rows and columns into tiles of at most so many pairs, whole rows while they fit."""
    high = max(1, min(rows, elements // max(1, columns)))
    wide = max(1, min(columns, elements))
    for row in range(0, rows, high):
        for column in range(0, columns, wide):
            yield slice(row, row + high), slice(column, column + wide)


class _Plain(torch.autograd.Function):
    """Tensor operations, a tile at a time; backward computes each tile again and differentiates it."""

    @staticmethod
    def forward(
        ctx: Any, kind: str, outside: float, inside: float, memory: int, ids: Any, table: Any, *queries: Any
    ) -> Any:
        ctx.save_for_backward(ids, table, *queries)
        columns = len(table) if ids is None else ids.shape[1]
        elements = memory // (_LIVE * table.element_size() * max(1, table.shape[1]))
        if ids is None and kind in ("l1", "box"):
            elements = len(queries[0]) * columns  # no temporary to keep small
        ctx.settings = kind, outside, inside, columns, elements
        out = queries[0].new_empty(len(queries[0]), columns)
        for rows, span in _tiles(len(out), columns, elements):
            candidates = table[span] if ids is None else table[_listed(ids, len(out), rows, span)]
            out[rows, span] = formula(kind, [part[rows] for part in queries], candidates, outside, inside)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        ids, table, *queries = ctx.saved_tensors
        kind, outside, inside, columns, elements = ctx.settings
        grads = [torch.zeros_like(part) for part in queries]
        of_table = torch.zeros_like(table)
        for rows, span in _tiles(len(grad), columns, elements):
            places: Any = span if ids is None else _listed(ids, len(grad), rows, span)
            parts = [part[rows].detach().requires_grad_() for part in queries]
            candidates = table[places].detach().requires_grad_()
            with torch.enable_grad():
                tile = formula(kind, parts, candidates, outside, inside)
            *of_parts, of_candidates = torch.autograd.grad(tile, [*parts, candidates], grad[rows, span])
            for whole, part in zip(grads, of_parts, strict=True):
                whole[rows] += part
            if ids is None:
                of_table[span] += of_candidates
            else:
                of_table.index_add_(0, places.reshape(-1), of_candidates.reshape(-1, table.shape[1]))
        return None, None, None, None, None, of_table, *grads


def _listed(ids: Tensor, num_rows: int, rows: slice, span: slice) -> Tensor:
    """The candidates of some rows, (rows, span), from lists that runs of rows share."""
    places = torch.arange(num_rows, device=ids.device)[rows]
    return ids[places // (num_rows // len(ids)), span]


# ---------------------------------------------------------------- straight lines


def _away(
    kind: str, query: Tensor, table: Tensor, ids: Tensor | None, memory: int
) -> Iterator[tuple[slice, slice, Any, Tensor, Tensor]]:
    """Tiles: rows, columns, where in the table; the vectors (r, c, along, vectors) from rows to candidates; lengths."""
    columns, width = len(table) if ids is None else ids.shape[1], table.shape[1]
    elements = memory // (_LIVE * table.element_size() * max(1, width))
    for rows, span in _tiles(len(query), columns, elements):
        places: Any = span if ids is None else _listed(ids, len(query), rows, span)
        away = table[places] - query[rows, None]
        if kind == "modulus":
            vectors = away.view(*away.shape[:2], 2, width // 2)
            real, imaginary = vectors.unbind(-2)
            # Not torch's norm: along any dimension but the last it is ten times slower on a CPU.
            lengths = real.square().addcmul_(imaginary, imaginary).sqrt_()
        else:
            vectors, lengths = away[..., None], torch.linalg.vector_norm(away, dim=-1, keepdim=True)
        yield rows, span, places, vectors, lengths


def _lengths(kind: str, query: Tensor, table: Tensor, ids: Tensor | None, memory: int) -> Tensor:
    out = query.new_empty(len(query), len(table) if ids is None else ids.shape[1])
    for rows, span, _, _, lengths in _away(kind, query, table, ids, memory):
        out[rows, span] = lengths.sum(-1)
    return out


def _lengths_backward(
    kind: str, query: Tensor, table: Tensor, ids: Tensor | None, memory: int, grad: Tensor
) -> list[Tensor]:
    """Gradients of the table and of the query: a length grows along its vector, by one; nowhere from 0."""
    of_table, of_query = torch.zeros_like(table), torch.zeros_like(query)
    for rows, span, places, vectors, lengths in _away(kind, query, table, ids, memory):
        slope = (grad[rows, span, None] / lengths).masked_fill_(lengths == 0, 0)
        pull = vectors.mul_(slope.unsqueeze(-2)).flatten(-2)
        of_query[rows] -= pull.sum(1)
        if ids is None:
            of_table[span] += pull.sum(0)
        else:
            of_table.index_add_(0, places.reshape(-1), pull.flatten(0, 1).to(table.dtype))
    return [of_table, of_query]


_SETTINGS = "str kind, Tensor query, Tensor table, Tensor? ids, int memory"
_operator = torch.library.custom_op("flexkg::lengths", _lengths, mutates_args=(), schema=f"({_SETTINGS}) -> Tensor")
_operator_backward = torch.library.custom_op(
    "flexkg::lengths_backward", _lengths_backward, mutates_args=(), schema=f"({_SETTINGS}, Tensor grad) -> Tensor[]"
)


@_operator.register_fake
def _(_kind: str, query: Tensor, table: Tensor, ids: Tensor | None, _memory: int) -> Tensor:
    return query.new_empty(query.shape[0], table.shape[0] if ids is None else ids.shape[1])


@_operator_backward.register_fake
def _(_kind: str, query: Tensor, table: Tensor, *_: Any) -> list[Tensor]:
    return [torch.empty_like(table), torch.empty_like(query)]


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001
    kind, query, table, ids, memory = inputs
    ctx.save_for_backward(query, table, ids)
    ctx.settings = kind, memory


def _derive(ctx: Any, grad: Tensor, backward: Callable[..., list[Tensor]] | None = None) -> tuple[Any, ...]:
    (query, table, ids), (kind, memory) = ctx.saved_tensors, ctx.settings
    of_table, of_query = (backward or _operator_backward)(kind, query, table, ids, memory, grad)
    return None, of_query, of_table, None, None


_operator.register_autograd(_derive, setup_context=_save)


class _Straight(torch.autograd.Function):
    """The same as a plain function: the first call of an operator loads all of torch's compiler."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Any:
        out = _lengths(*inputs)
        _save(ctx, inputs, out)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        return _derive(ctx, grad, _lengths_backward)
