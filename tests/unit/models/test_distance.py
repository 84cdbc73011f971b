"""Distances against formulas written out in float64, in every form, on the compiled and on the plain path."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Beta, kl_divergence

from flexkg.models import distance, pairs

if TYPE_CHECKING:
    from collections.abc import Callable

PATHS = [
    pytest.param("plain", id="plain"),
    pytest.param("compiled", marks=pytest.mark.skipif(find_spec("numba") is None, reason="needs the extra `fast`")),
]
KINDS = ("l1", "box", "cone", "beta")
WHOLE: dict[str, Callable[..., Tensor]] = {
    "l1": distance.l1,
    "box": distance.box,
    "cone": distance.cone,
    "beta": distance.beta,
}
GATHERED: dict[str, Callable[..., Tensor]] = {
    "l1": distance.l1_gathered,
    "box": distance.box_gathered,
    "cone": distance.cone_gathered,
    "beta": distance.beta_gathered,
}


@pytest.fixture(params=PATHS)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("FLEXKG_PLAIN", "1" if request.param == "plain" else "")
    return str(request.param)


def sine(angle: Tensor) -> Tensor:
    return torch.sin(angle / 2).abs()


def reference(kind: str, parts: list[Tensor], table: list[Tensor]) -> Tensor:
    """All pairs, as the papers write them, with every temporary: (n, d) and (m, d) -> (n, m)."""
    first, *others = (part[:, None].double() for part in parts)
    entity = table[0][None].double()
    match kind:
        case "l1":
            return (entity - first).abs().sum(-1)
        case "box":
            apart = (entity - first).abs()
            return (torch.relu(apart - others[0]) + 0.02 * torch.minimum(apart, others[0])).sum(-1)
        case "cone":
            apart, edge = sine(entity - first), sine(others[0])
            nearer = torch.minimum(sine(entity - (first - others[0])), sine(entity - (first + others[0])))
            outside = torch.where(apart < edge, torch.zeros_like(nearer), nearer)
            return (outside + 0.02 * torch.minimum(apart, edge)).sum(-1)
        case _:
            query = Beta(first, others[0], validate_args=False)
            return kl_divergence(Beta(entity, table[1][None].double(), validate_args=False), query).abs().sum(-1)


def operands(kind: str, n: int, m: int, d: int, dtype: torch.dtype, seed: int = 0) -> tuple[list[Tensor], list[Tensor]]:
    """Queries and table in parts, as the geometry has them."""
    torch.manual_seed(seed)
    uniform = lambda rows: torch.rand(rows, d, dtype=dtype)  # noqa: E731
    # On a grid, with edges between its points: rounding takes nobody across an edge, where the slope jumps.
    grid = lambda rows: (uniform(rows) * 1024).floor() / 1024  # noqa: E731
    match kind:
        case "l1":
            parts, table = [2 * uniform(n) - 1], [2 * uniform(m) - 1]
        case "box":
            parts, table = [2 * grid(n) - 1, grid(n) + 1 / 2048], [2 * grid(m) - 1]
        case "cone":
            # The slope jumps at the axis too, and opposite of it.
            parts = [math.pi * (2 * grid(n) - 1), math.pi * (grid(n) + 1 / 2048)]
            table = [math.pi * (2 * grid(m) - 1 + 1 / 4096)]
        case _:
            parts, table = [3 * uniform(n) + 0.05, 3 * uniform(n) + 0.05], [3 * uniform(m) + 0.05, uniform(m) + 0.05]
    return [part.requires_grad_() for part in parts], [part.requires_grad_() for part in table]


def check(kind: str, parts: list[Tensor], table: list[Tensor], ids: Tensor | None, **options: Any) -> None:
    """Values and gradients of float32 or float64 tensors against the reference in float64."""
    rows = len(parts[0])
    leaves = [*parts, *table]
    expected = reference(kind, parts, table)
    if ids is None:
        found = WHOLE[kind](*leaves, **options)
    else:
        expected = expected.gather(1, ids.repeat_interleave(rows // len(ids), dim=0))
        found = GATHERED[kind](*leaves, ids, **options)
    assert found.dtype == parts[0].dtype
    weights = torch.linspace(-1, 1, expected.numel(), dtype=torch.float64).view_as(expected)
    wanted = torch.autograd.grad((expected * weights).sum(), leaves)
    gradients = torch.autograd.grad((found * weights.to(found.dtype)).sum(), leaves)
    loose = 2e-5 if found.dtype == torch.float32 else 1e-11
    torch.testing.assert_close(found.double(), expected, rtol=loose, atol=loose * parts[0].shape[1])
    for gradient, want in zip(gradients, wanted, strict=True):
        bound = loose * max(1.0, float(want.abs().max()))
        torch.testing.assert_close(gradient.double(), want.double(), rtol=loose, atol=5 * bound)


sizes = st.integers(1, 9) | st.sampled_from([16, 65, 70])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@settings(max_examples=15)
@given(n=sizes, m=sizes, d=st.integers(1, 9) | st.just(33), seed=st.integers(0, 1000))
def test_all_pairs(kind: str, dtype: torch.dtype, n: int, m: int, d: int, seed: int) -> None:
    for plain in ("1", ""):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FLEXKG_PLAIN", plain)
            check(kind, *operands(kind, n, m, d, dtype, seed), None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@settings(max_examples=15)
@given(chunks=st.integers(1, 6), per=st.sampled_from([1, 1, 2, 5, 67]), c=sizes, m=sizes, seed=st.integers(0, 1000))
def test_listed_candidates(kind: str, dtype: torch.dtype, chunks: int, per: int, c: int, m: int, seed: int) -> None:
    for plain in ("1", ""):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FLEXKG_PLAIN", plain)
            parts, table = operands(kind, chunks * per, m, 5, dtype, seed)
            check(kind, parts, table, torch.randint(0, m, (chunks, c)))


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_by_differences(kind: str, path: str) -> None:
    parts, table = operands(kind, 4, 6, 3, torch.float64)
    assert torch.autograd.gradcheck(WHOLE[kind], (*parts, *table))
    ids = torch.randint(0, 6, (2, 5))
    assert torch.autograd.gradcheck(lambda *leaves: GATHERED[kind](*leaves, ids), (*parts, *table))


@pytest.mark.parametrize("kind", KINDS)
def test_little_memory_changes_nothing(kind: str, path: str) -> None:
    check(kind, *operands(kind, 7, 11, 6, torch.float64), None, memory=1000)
    parts, table = operands(kind, 8, 11, 6, torch.float64)
    check(kind, parts, table, torch.randint(0, 11, (4, 9)), memory=1000)


@given(st.floats(-3, 3), st.floats(0, 1), st.floats(-1, 1))
def test_a_box_is_the_released_boundary(v: float, l: float, f: float) -> None:  # noqa: E741
    apart = abs(v - f)
    outside = min(abs(v - (f - l)), abs(v - (f + l))) if apart >= l else 0.0
    one = lambda x: torch.tensor([[x]], dtype=torch.float64)  # noqa: E731
    found = distance.box(one(f), one(l), one(v)).item()
    assert found == pytest.approx(outside + 0.02 * min(apart, l), abs=1e-12)
    assert found == pytest.approx(0.98 * max(apart - l, 0) + 0.02 * apart, abs=1e-12)


def test_any_weights_and_negative_offsets(path: str) -> None:
    centre, table = torch.randn(5, 4, dtype=torch.float64), torch.randn(9, 4, dtype=torch.float64)
    offset = torch.randn(5, 4, dtype=torch.float64)
    apart = (table[None] - centre[:, None]).abs()
    edge = offset[:, None]
    expected = (0.7 * torch.relu(apart - edge) + 0.3 * torch.minimum(apart, edge)).sum(-1)
    torch.testing.assert_close(distance.box(centre, offset, table, 0.7, 0.3), expected)


def test_angles_beyond_one_turn(path: str) -> None:
    parts, table = operands("cone", 5, 9, 4, torch.float64)
    with torch.no_grad():
        for part in (*parts, *table):
            part.mul_(3).sub_(2)
    check("cone", parts, table, None)


def test_far_densities_keep_their_digits(path: str) -> None:
    """Distances of about 1,000 that are small differences of large terms; float32 in, float64 within."""
    torch.manual_seed(0)
    leaves = [torch.rand(rows, 400).pow(3) * 40 + 0.05 for rows in (4, 4, 30, 30)]
    expected = reference("beta", leaves[:2], leaves[2:])
    assert expected.max() > 1000
    torch.testing.assert_close(distance.beta(*leaves).double(), expected, rtol=1e-6, atol=0)
    prepared = distance.prepare_beta(*leaves[2:], memory=1 << 18)
    for memory in (1, 1 << 28):
        found = distance.divergence(*leaves[:2], prepared, memory=memory)
        torch.testing.assert_close(found, distance.beta(*leaves), rtol=1e-6, atol=0)
    ids = torch.randint(0, 30, (4, 7))
    found = distance.beta_gathered(*leaves, ids).double()
    torch.testing.assert_close(found, expected.gather(1, ids), rtol=1e-6, atol=0)
    again = distance.divergence_gathered(*leaves[:2], prepared, ids)
    torch.testing.assert_close(again.double(), found, rtol=1e-6, atol=0)
    shared = distance.divergence_gathered(*leaves[:2], prepared, ids[:2])
    torch.testing.assert_close(shared, distance.beta_gathered(*leaves, ids[:2]), rtol=1e-6, atol=0)


def test_equal_points_have_no_slope(path: str) -> None:
    point = torch.zeros(2, 3, requires_grad=True)
    table = torch.zeros(4, 3, requires_grad=True)
    gradients = torch.autograd.grad(distance.l1(point, table).sum(), [point, table])
    assert all(not gradient.any() for gradient in gradients)


@pytest.mark.parametrize("kind", KINDS[:3])
def test_faults_show(kind: str, path: str) -> None:
    parts, table = operands(kind, 3, 5, 4, torch.float32)
    with torch.no_grad():
        parts[0][1, 2] = torch.nan
    found = WHOLE[kind](*parts, *table)
    assert found.isnan().tolist() == [[False] * 5, [True] * 5, [False] * 5]


@pytest.mark.parametrize("kind", KINDS[:3])
def test_no_rows_and_no_candidates(kind: str, path: str) -> None:
    for n, c in ((0, 3), (3, 0)):
        parts, table = operands(kind, n, 5, 4, torch.float32)
        found = GATHERED[kind](*parts, *table, torch.zeros(n, c, dtype=torch.int64))
        assert found.shape == (n, c)
        gradients = torch.autograd.grad(found.sum(), [*parts, *table])
        assert all(not gradient.any() for gradient in gradients)


def test_bad_ids_are_refused(path: str) -> None:
    queries, table = torch.rand(4, 3), torch.rand(5, 3)
    for bad in ([[5]], [[-1]]):
        with pytest.raises(IndexError, match="outside the table of 5"):
            distance.l1_gathered(queries, table, torch.tensor(bad))
    with pytest.raises(ValueError, match="do not divide 4 rows"):
        distance.l1_gathered(queries, table, torch.zeros(3, 1, dtype=torch.int64))


@given(st.data())
def test_nearest_with_ties(data: st.DataObject) -> None:
    n, m, k = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 40)), data.draw(st.integers(1, 12))
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    torch.manual_seed(data.draw(st.integers(0, 1000)))
    queries, table = torch.randint(0, 3, (n, 2)).to(dtype), torch.randint(0, 3, (m, 2)).to(dtype)
    expected = (queries[:, None] - table).abs().sum(-1).sort(dim=1, stable=True)
    for plain in ("1", ""):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FLEXKG_PLAIN", plain)
            found = distance.top_k("l1", [queries], [table], k, memory=data.draw(st.sampled_from([1, 4000, 1 << 28])))
            assert found.ids.tolist() == expected.indices[:, :k].tolist()
            assert found.distances.tolist() == expected.values[:, :k].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_nearest_of_every_kind(kind: str, path: str) -> None:
    parts, table = operands(kind, 5, 60, 8, torch.float64)
    expected = reference(kind, parts, table).sort(dim=1, stable=True)
    found = distance.top_k(kind, parts, table, 10, memory=5 * 80 * 16)  # type: ignore[arg-type]
    assert torch.equal(found.ids, expected.indices[:, :10])
    if kind == "beta":
        again = distance.top_k("divergence", parts, [distance.prepare_beta(*table)], 10, memory=5 * 80 * 16)
        assert torch.equal(again.ids, found.ids)


def test_nearest_among_infinities(path: str) -> None:
    table = torch.tensor([[math.inf], [1.0], [math.nan], [-math.inf]])
    for dtype in (torch.float32, torch.float64):
        found = distance.top_k("l1", [torch.zeros(1, 1, dtype=dtype)], [table.to(dtype)], 4, memory=160)
        assert found.ids.tolist() == [[1, 0, 2, 3]]


def test_the_operators_declare_what_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.setenv("FLEXKG_PLAIN", "")
    parts, (table,) = operands("box", 4, 9, 5, torch.float32)
    ids = torch.randint(0, 9, (4, 3))
    torch.library.opcheck(pairs._pairs, ("box", parts, table, ids, 1.0, 0.02, False))


def test_compiling_keeps_one_graph(path: str) -> None:
    if path == "plain":
        pytest.skip("differentiates inside its backward pass")
    parts, table = operands("box", 4, 9, 5, torch.float32)
    ids = torch.randint(0, 9, (4, 3))
    work = lambda *leaves: distance.box(*leaves).sum() + distance.box_gathered(*leaves, ids).sum()  # noqa: E731
    whole = torch.compile(work, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(whole(*parts, *table), work(*parts, *table))
