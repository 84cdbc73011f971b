"""Rows against candidates: compiled kernels where there are some, chunked tensor operations anywhere else.

The kernels are opaque operators with declared shapes, so that torch.compile and CUDA graphs take them whole. What they
are tested against is the plain path, in `flexkg.models.plain`.
"""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from flexkg.models.plain import plain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

PairKind = Literal["l1", "l2", "box", "cone", "dot", "modulus"]
Reduction = Literal["sorted", "atomic"]

_KERNELS = {"cpu": ("l1", "box", "cone", "dot"), "cuda": ("l1", "box", "cone", "dot", "modulus")}
"""Kinds that have a kernel, by device."""

BUDGET = 1 << 28
"""Bytes of temporaries beside arguments and results, unless the caller says otherwise: 256 MB."""


def pairs(
    kind: PairKind,
    queries: list[Tensor],
    table: Tensor,
    ids: Tensor | None,
    outside: float,
    inside: float,
    reduction: Reduction,
    memory: int,
) -> Tensor:
    """Distances (n, m), or (n, c) to listed candidates; see `flexkg.models.distance` for the kinds.

    `dot` is the plain product. `atomic` adds a GPU's table gradients where they fall instead of sorting them first.
    """
    if ids is not None:
        ids = _checked(ids, len(queries[0]), len(table))
    device = queries[0].device.type
    if kind not in _KERNELS.get(device, ()) or not _has_kernels(device, queries[0].dtype, table.dtype):
        return plain(kind, queries, table, ids, outside, inside, memory)
    result: Tensor
    if device == "cpu" and not torch.compiler.is_compiling():
        result = _Compiled.apply(kind, outside, inside, ids, table, *queries)  # type: ignore[no-untyped-call]
        return result
    result = _pairs(kind, queries, table, ids, outside, inside, reduction == "atomic")
    return result


def _checked(ids: Tensor, rows: int, entities: int) -> Tensor:
    if ids.dim() != 2 or (len(ids) == 0) != (rows == 0) or (rows and rows % len(ids)):
        raise ValueError(f"ids of shape {tuple(ids.shape)} do not divide {rows} rows into runs of equal length")
    # On a GPU looking would wait for the device; there a bad id is the caller's fault, as in torch itself.
    look = ids.device.type == "cpu" and ids.numel() and not torch.compiler.is_compiling()
    if look and not 0 <= int(ids.min()) <= int(ids.max()) < entities:
        raise IndexError(f"a candidate is outside the table of {entities} entities")
    return ids.long()


def find_kernels(queries: Tensor, table: Tensor) -> ModuleType | None:
    """The module of compiled kernels for these tensors, or None for the plain path."""
    device = queries.device.type
    if not _has_kernels(device, queries.dtype, table.dtype):
        return None
    return _load("gpu" if device == "cuda" else "cpu")


def _has_kernels(device: str, queries: torch.dtype, table: torch.dtype) -> bool:
    if os.environ.get("FLEXKG_PLAIN"):
        return False
    if device == "cuda":
        return queries == torch.float32 and table in (torch.float32, torch.bfloat16) and _installed("triton")
    return device == "cpu" and queries == table in (torch.float32, torch.float64) and _installed("numba")


# What `torch.compiler.assume_constant_result` does, without loading the compiler: that takes a second and 70 MB.
_has_kernels._dynamo_marked_constant = True  # type: ignore[attr-defined]


@lru_cache(maxsize=2)
def _installed(package: str) -> bool:
    return find_spec(package) is not None


def _load(where: Literal["cpu", "gpu"]) -> ModuleType:
    if where == "cpu":
        from flexkg.models import kernels_cpu

        return kernels_cpu
    from flexkg.models import kernels_gpu

    return kernels_gpu


# ---------------------------------------------------------------- kernels


def _run(
    kind: str,
    queries: list[Tensor],
    table: Tensor,
    ids: Tensor | None,
    outside: float,
    inside: float,
    _atomic: bool,
) -> Tensor:
    kernels = find_kernels(queries[0], table)
    assert kernels is not None
    result: Tensor = kernels.forward(kind, *pack(kernels, kind, queries, table), ids, outside, inside)
    return result


def _run_backward(
    kind: str,
    queries: list[Tensor],
    table: Tensor,
    ids: Tensor | None,
    outside: float,
    inside: float,
    atomic: bool,
    grad: Tensor,
    to_queries: bool,
    to_table: bool,
) -> list[Tensor]:
    """Gradient of the table, if wanted, then those of the queries' parts, if wanted."""
    kernels = find_kernels(queries[0], table)
    assert kernels is not None
    packed, rows = pack(kernels, kind, queries, table)
    grads = []
    if to_table:
        grads.append(kernels.backward_table(kind, packed, rows, ids, outside, inside, grad, atomic).to(table.dtype))
    if to_queries:
        parts = kernels.backward_queries(kind, packed, rows, ids, outside, inside, grad).chunk(len(queries), dim=1)
        if kind == "cone":
            # Kernels differentiate by y = aperture/2 in |sin y| and |cos y|, which change sign with sin 2y.
            parts = (parts[0], parts[1] * (0.5 * torch.sign(torch.sin(queries[1]))))
        grads += [part.clone(memory_format=torch.contiguous_format) for part in parts]  # outputs may not share memory
    return grads


class _Compiled(torch.autograd.Function):
    """The kernels as a plain function: the first call of an operator loads all of torch's compiler."""

    @staticmethod
    def forward(ctx: Any, kind: str, outside: float, inside: float, ids: Any, table: Any, *queries: Any) -> Any:
        ctx.save_for_backward(ids, table, *queries)
        ctx.settings = kind, outside, inside
        return _run(kind, list(queries), table, ids, outside, inside, False)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        ids, table, *queries = ctx.saved_tensors
        kind, outside, inside = ctx.settings
        to_table, to_queries = ctx.needs_input_grad[4], any(ctx.needs_input_grad[5:])
        grads = _run_backward(
            kind, queries, table, ids, outside, inside, False, grad.contiguous(), to_queries, to_table
        )
        of_table = grads.pop(0) if to_table else None
        return None, None, None, None, of_table, *(grads if to_queries else [None] * len(queries))


# Opaque operators with declared shapes: torch.compile and CUDA graphs take them whole, without breaking the graph.
_SETTINGS = "str kind, Tensor[] queries, Tensor table, Tensor? ids, float outside, float inside, bool atomic"
_pairs = torch.library.custom_op("flexkg::pairs", _run, mutates_args=(), schema=f"({_SETTINGS}) -> Tensor")
_pairs_backward = torch.library.custom_op(
    "flexkg::pairs_backward",
    _run_backward,
    mutates_args=(),
    schema=f"({_SETTINGS}, Tensor grad, bool to_queries, bool to_table) -> Tensor[]",
)


@_pairs.register_fake
def _(_kind: str, queries: list[Tensor], table: Tensor, ids: Tensor | None, *_: Any) -> Tensor:
    return queries[0].new_empty(queries[0].shape[0], table.shape[0] if ids is None else ids.shape[1])


@_pairs_backward.register_fake
def _(_kind: str, queries: list[Tensor], table: Tensor, *settings: Any) -> list[Tensor]:
    to_queries, to_table = settings[-2:]
    return [like.new_empty(like.shape) for like in [table] * to_table + queries * to_queries]


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001
    kind, queries, table, ids, outside, inside, atomic = inputs
    ctx.save_for_backward(*queries, table, ids)
    ctx.settings = kind, outside, inside, atomic


def _derive(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    *queries, table, ids = ctx.saved_tensors
    kind, outside, inside, atomic = ctx.settings
    to_queries, to_table = any(ctx.needs_input_grad[1]), ctx.needs_input_grad[2]
    grads = _pairs_backward(kind, queries, table, ids, outside, inside, atomic, grad.contiguous(), to_queries, to_table)
    of_table = grads.pop(0) if to_table else None
    return None, grads if to_queries else [None] * len(queries), of_table, None, None, None, None


_pairs.register_autograd(_derive, setup_context=_save)


def pack(kernels: ModuleType, kind: str, queries: Sequence[Tensor], table: Tensor) -> tuple[Tensor, Tensor]:
    """What the kernels read: queries (n, parts * d) and table (m, parts * d), the parts side by side."""
    rows = [table]
    if kind == "cone":
        queries, rows = kernels.angles(*queries, table.to(queries[0].dtype))
    packed, listed = (torch.cat(tuple(parts), dim=1) if len(parts) > 1 else parts[0] for parts in (queries, rows))
    return packed.contiguous(), listed.contiguous()
