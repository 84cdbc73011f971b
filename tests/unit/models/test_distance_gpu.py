"""Triton kernels against formulas in float64. Run by hand on a machine with a CUDA device: `pytest -m gpu`.

With Triton installed and TRITON_INTERPRET=1 the kernels themselves also run on the CPU, slowly.
"""

from __future__ import annotations

import math
import os
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

from flexkg.models import distance, pairs, plain, reference

HAS_GPU = torch.cuda.is_available()
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1" and find_spec("triton") is not None
DEVICE = "cuda" if HAS_GPU else "cpu"
PARTS = {"l1": 1, "box": 2, "cone": 2, "dot": 1, "modulus": 1}
on_gpu = pytest.mark.skipif(not HAS_GPU, reason="needs a CUDA device")
runs_kernels = pytest.mark.skipif(not (HAS_GPU or INTERPRETED), reason="needs a CUDA device")

pytestmark = pytest.mark.gpu

# n, m, d, and candidates c of each of the chunks (None: all pairs).
SHAPES = [
    (5, 37, 11, None, 1),
    (70, 130, 130, None, 1),
    (5, 37, 11, 9, 5),
    (6, 37, 48, 19, 3),
    (6, 3, 1, 1, 2),
    (66, 70, 130, 17, 2),
    (33, 20, 16, 64, 33),
]


def operands(kind: str, n: int, m: int, d: int) -> tuple[list[Tensor], Tensor]:
    torch.manual_seed(n + m)
    scale = math.pi if kind == "cone" else 1.0
    d = 2 * d if kind == "modulus" else d  # complex numbers, real parts first
    queries = [scale * (2 * torch.rand(n, d, device=DEVICE) - 1)]
    queries += [scale * torch.rand(n, d, device=DEVICE) for _ in range(PARTS[kind] - 1)]
    return queries, scale * (2 * torch.rand(m, d, device=DEVICE) - 1)


def expected(
    kind: str, queries: list[Tensor], table: Tensor, ids: Tensor | None, grad: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """Distances and gradients (table first) in float64, by autograd over the plain formulas."""
    leaves = [part.double().requires_grad_() for part in (table, *queries)]
    if ids is None:
        candidates = leaves[0][None].expand(len(queries[0]), -1, -1)
    else:
        candidates = leaves[0][ids.repeat_interleave(len(queries[0]) // len(ids), dim=0)]
    if kind == "modulus":
        result = reference.modulus(leaves[1][:, None], candidates)
    else:
        result = plain.formula(kind, leaves[1:], candidates, 1.0, 0.02)
    return result.detach(), list(torch.autograd.grad(result, leaves, grad.double()))


def close(found: Tensor, wanted: Tensor) -> None:
    assert found.isfinite().all()
    # Near a kink float32 and float64 may fall on different sides: an element of a sum then differs by its whole slope.
    assert (found.double() - wanted).norm() <= 1e-5 * wanted.norm() + 1e-6


@runs_kernels
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("atomic", [False, True], ids=["sorted", "atomic"])
def test_kernels(kind: str, shape: tuple[int, int, int, int | None, int], atomic: bool) -> None:
    from flexkg.models import kernels_gpu

    n, m, d, c, chunks = shape
    queries, table = operands(kind, n, m, d)
    ids = None if c is None else torch.randint(0, m, (chunks, c), device=DEVICE)
    grad = torch.randn(n, m if c is None else c, device=DEVICE)
    result, (of_table, *of_queries) = expected(kind, queries, table, ids, grad)
    settings = kind, *pairs.pack(kernels_gpu, kind, queries, table), ids, 1.0, 0.02
    close(kernels_gpu.forward(*settings), result)
    close(kernels_gpu.backward_table(*settings, grad, atomic), of_table)
    found = list(kernels_gpu.backward_queries(*settings, grad).chunk(PARTS[kind], dim=1))
    if kind == "cone":
        found[1] = found[1] * 0.5 * torch.sign(torch.sin(queries[1]))
    for gradient, wanted in zip(found, of_queries, strict=True):
        close(gradient, wanted)


@runs_kernels
def test_numbers_that_are_equal_pull_nowhere() -> None:
    """A length has no slope at 0, and what is not asked for in a tile must not become one."""
    from flexkg.models import kernels_gpu

    table = torch.randn(20, 2 * 7, device=DEVICE)
    queries = table[:5].clone()
    queries[:, 3] += 1
    ids = torch.arange(5, device=DEVICE)[:, None]
    settings = "modulus", queries, table, ids, 1.0, 0.02
    grad = torch.ones(5, 1, device=DEVICE)
    assert torch.allclose(kernels_gpu.forward(*settings), grad)
    wanted = torch.zeros_like(table)
    wanted[:5, 3] = -1
    for atomic in (False, True):
        assert torch.allclose(kernels_gpu.backward_table(*settings, grad, atomic), wanted)
    assert torch.allclose(kernels_gpu.backward_queries(*settings, grad), -wanted[:5])


@on_gpu
@pytest.mark.parametrize("kind", ["l1", "box", "cone", "modulus"])
@pytest.mark.parametrize("table_type", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_through_autograd(kind: str, table_type: torch.dtype) -> None:
    queries, table = operands(kind, 64, 500, 96)
    queries, table = [part.requires_grad_() for part in queries], table.to(table_type).requires_grad_()
    ids = torch.randint(0, 500, (64, 33), device=DEVICE)
    for listed in (None, ids, ids[:2]):
        grad = torch.randn(64, 500 if listed is None else 33, device=DEVICE)
        result, wanted = expected(kind, queries, table, listed, grad)
        found = pairs.pairs(kind, queries, table, listed, 1.0, 0.02, "sorted", distance.BUDGET)  # type: ignore[arg-type]
        of_table, *of_queries = torch.autograd.grad(found, [table, *queries], grad)
        close(found, result)
        for gradient, want in zip(of_queries, wanted[1:], strict=True):
            close(gradient, want)
        assert of_table.dtype == table_type
        rounding = 4e-3 if table_type == torch.bfloat16 else 1e-5
        assert (of_table.double() - wanted[0]).norm() <= rounding * wanted[0].norm()


@on_gpu
def test_sorted_gradients_have_the_same_bits_every_time() -> None:
    queries, table = operands("l1", 256, 300, 128)
    table.requires_grad_()
    ids = torch.randint(0, 300, (256, 129), device=DEVICE)
    grad = torch.randn(256, 129, device=DEVICE)
    runs = [torch.autograd.grad(distance.l1_gathered(*queries, table, ids), table, grad)[0] for _ in range(5)]
    assert all(torch.equal(runs[0], run) for run in runs)


@on_gpu
def test_beta_densities() -> None:
    torch.manual_seed(0)
    leaves = [(torch.rand(rows, 64, device=DEVICE) * 3 + 0.05).requires_grad_() for rows in (32, 32, 200, 200)]
    exact = [part.detach().double().requires_grad_() for part in leaves]
    ids = torch.randint(0, 200, (32, 17), device=DEVICE)
    wanted, found = distance.beta(*exact), distance.beta(*leaves)
    close(found, wanted)
    for gradient, want in zip(
        torch.autograd.grad(found.sum(), leaves),
        torch.autograd.grad(wanted.sum(), exact, retain_graph=True),
        strict=True,
    ):
        close(gradient, want)
    found, wanted = distance.beta_gathered(*leaves, ids), wanted.gather(1, ids)
    assert (found.double() - wanted).norm() <= 1e-5 * wanted.norm()
    prepared = distance.prepare_beta(*leaves[2:])
    close(distance.divergence(*leaves[:2], prepared), distance.beta(*exact))
    again = distance.divergence_gathered(*leaves[:2], prepared, ids)
    assert (again.double() - wanted).norm() <= 1e-5 * wanted.norm()
    for gradient, want in zip(
        torch.autograd.grad(found.sum(), leaves), torch.autograd.grad(wanted.sum(), exact), strict=True
    ):
        assert (gradient.double() - want).norm() <= 1e-4 * want.norm()


@on_gpu
@pytest.mark.parametrize("plain", ["", "1"], ids=["kernels", "plain"])
def test_nearest(plain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEXKG_PLAIN", plain)
    torch.manual_seed(0)
    queries, table = (torch.randint(0, 3, (rows, 4), device=DEVICE).float() for rows in (9, 700))
    wanted = (queries[:, None] - table).abs().sum(-1).sort(dim=1, stable=True)
    for memory in (9 * 80 * 64, 1 << 28):
        found = distance.top_k("l1", [queries], [table], 20, memory=memory)
        assert torch.equal(found.ids, wanted.indices[:, :20])
        assert torch.equal(found.distances, wanted.values[:, :20])


@on_gpu
def test_a_graph_records_forward_and_backward() -> None:
    queries, table = operands("box", 64, 500, 96)
    queries, table = [part.requires_grad_() for part in queries], table.requires_grad_()
    ids = torch.randint(0, 500, (64, 33), device=DEVICE)

    def step() -> tuple[Tensor, ...]:
        return torch.autograd.grad(distance.box_gathered(*queries, table, ids).sum(), [*queries, table])

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = step()
    ids.copy_(torch.randint(0, 500, (64, 33), device=DEVICE))
    graph.replay()
    for replayed, again in zip(recorded, step(), strict=True):
        torch.testing.assert_close(replayed, again)
