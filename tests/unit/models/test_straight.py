"""Distances along straight lines, whose gradients are written down, against automatic ones in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flexkg.config import build_model, load_recipe
from flexkg.models import distance, plain, reference
from flexkg.sampling.queries import Column, QuerySet
from flexkg.training.loop import Trainer

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

WRITTEN = {"l2": reference.l2, "modulus": reference.modulus}


def check(kind: str, queries: Tensor, table: Tensor, ids: Tensor | None, memory: int = 1 << 28) -> None:
    """Values and gradients are those of the formula."""
    leaves = [queries.requires_grad_(), table.requires_grad_()]
    lists = table[None] if ids is None else table[ids.repeat_interleave(len(queries) // len(ids), dim=0)]
    expected = WRITTEN[kind](queries[:, None], lists)
    found = distance.between(kind, queries, table, ids, memory=memory)  # type: ignore[arg-type]
    torch.testing.assert_close(found, expected)
    weights = torch.linspace(-1, 1, expected.numel(), dtype=queries.dtype).view_as(expected)
    wanted = torch.autograd.grad((expected * weights).sum(), leaves)
    for gradient, want in zip(torch.autograd.grad((found * weights).sum(), leaves), wanted, strict=True):
        torch.testing.assert_close(gradient, want)


sizes = st.integers(1, 9) | st.just(40)


@pytest.mark.parametrize("kind", WRITTEN)
@settings(max_examples=25)
@given(
    chunks=st.integers(1, 4), per=st.integers(1, 3), c=sizes, m=sizes, half=st.integers(1, 6), seed=st.integers(0, 999)
)
def test_values_and_gradients(kind: str, chunks: int, per: int, c: int, m: int, half: int, seed: int) -> None:
    torch.manual_seed(seed)
    queries, table = (torch.randn(rows, 2 * half, dtype=torch.float64) for rows in (chunks * per, m))
    # On some the distance is nothing, and has no derivative: it is taken as 0.
    queries[0] = table[0]
    for memory in (1 << 28, 8 * 4 * 2 * half * 3):
        check(kind, queries.clone(), table.clone(), None, memory)
        check(kind, queries.clone(), table.clone(), torch.randint(0, m, (chunks, c)), memory)


@pytest.mark.parametrize("kind", WRITTEN)
def test_what_is_no_number_stays_none(kind: str) -> None:
    table = torch.randn(3, 4)
    table[1, 2] = torch.nan
    queries = torch.randn(2, 4, requires_grad=True)
    found = distance.between(kind, queries, table)  # type: ignore[arg-type]
    assert found.isnan().tolist() == [[False, True, False]] * 2
    found.sum().backward()
    assert queries.grad is not None
    assert queries.grad.isnan().any(dim=1).all()


@pytest.mark.parametrize("kind", WRITTEN)
def test_compiling_keeps_one_graph(kind: str) -> None:
    from functorch.compile import make_boxed_compiler
    from torch._dynamo.backends.common import aot_autograd

    torch.manual_seed(0)
    leaves = [torch.randn(rows, 6, dtype=torch.float64, requires_grad=True) for rows in (4, 9)]
    ids = torch.randint(0, 9, (2, 3))

    def work(queries: Tensor, table: Tensor) -> Tensor:
        whole = distance.between(kind, queries, table, memory=1000)  # type: ignore[arg-type]
        return whole.square().sum() + distance.between(kind, queries, table, ids).sum()  # type: ignore[arg-type]

    compiled = torch.compile(work, fullgraph=True, backend="aot_eager", dynamic=False)
    torch.testing.assert_close(compiled(*leaves), work(*leaves))
    wanted = torch.autograd.grad(work(*leaves), leaves)
    for gradient, want in zip(torch.autograd.grad(compiled(*leaves), leaves), wanted, strict=True):
        torch.testing.assert_close(gradient, want)
    # However many chunks there are, the compiler sees an operator for each distance and for its gradient.
    graphs: list[str] = []

    def looked_at(graph: torch.fx.GraphModule, _inputs: object) -> torch.fx.GraphModule:
        graphs.append(graph.code)
        return graph

    backend = aot_autograd(fw_compiler=make_boxed_compiler(looked_at))
    torch.compile(work, fullgraph=True, backend=backend, dynamic=False)(*leaves).backward()
    assert [graph.count("torch.ops.flexkg.lengths") for graph in graphs] == [2, 2]


def test_the_operators_declare_what_they_do() -> None:
    queries, table, ids = torch.randn(4, 6), torch.randn(9, 6), torch.randint(0, 9, (2, 3))
    for kind in WRITTEN:
        for listed in (None, ids):
            given: tuple[Any, ...] = kind, queries, table, listed, 1000
            torch.library.opcheck(plain._operator, given)
            torch.library.opcheck(plain._operator_backward, (*given, torch.randn(4, 9 if listed is None else 3)))


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("rotate", ()),
        ("transe", ("model.norm=2",)),
        ("complex", ()),
        ("tucker", ("model.relation_dim=4",)),
        ("tucker", ("model.relation_dim=4", "training.loss=binary")),
    ],
    ids=["rotate", "transe-l2", "complex", "tucker", "tucker-binary"],
)
def test_a_step_of_training_is_one_graph(name: str, overrides: tuple[str, ...], tmp_path: Path) -> None:
    offsets = torch.arange(13).numpy()
    heads = torch.arange(12, dtype=torch.int32)[:, None].numpy()
    answers = {"train": Column(offsets, (heads[:, 0] + 1) % 12)}
    queries = QuerySet("1p", "ep", heads, heads % 2, answers)
    small = ["model.dim=8", "training.batch_size=6", "training.negatives=4", *overrides]
    config = load_recipe(name, small)
    torch.manual_seed(0)
    model = build_model(config.model, 12, 2)
    trainer = Trainer(model, config.training, [queries], [], tmp_path, torch.device("cpu"))
    model.eval()  # dropout is drawn, and compiled code may draw otherwise
    loss_of = trainer._loss(0)
    compiled = torch.compile(loss_of, fullgraph=True, backend="aot_eager", dynamic=False)
    for step in (torch.tensor(0), torch.tensor(1)):
        expected = trainer._backward(loss_of, step)
        wanted = [parameter.grad for parameter in model.parameters()]
        torch.testing.assert_close(trainer._backward(compiled, step), expected)
        for parameter, want in zip(model.parameters(), wanted, strict=True):
            torch.testing.assert_close(parameter.grad, want)
