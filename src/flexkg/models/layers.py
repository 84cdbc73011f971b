"""The few kinds of layer that the models share; weights start Xavier-uniform, biases as in `nn.Linear`."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor


class Table(nn.Module):
    """One trainable row for each id, uniform in [low, high] at first."""

    def __init__(self, count: int, width: int, low: float, high: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, width).uniform_(low, high))
        self.sparse = False
        """Whether a gradient holds only the rows that were asked for by id."""

    def forward(self, rows: Int[Tensor, "..."] | slice) -> Float[Tensor, "... width"]:
        """Rows by id, or a run of them; no copy is made for a run."""
        if not isinstance(rows, slice):
            return functional.embedding(rows, self.weight, sparse=self.sparse)
        # The whole table is itself: the gradient of a slice would be copied into zeros first.
        return self.weight if rows == slice(None) else self.weight[rows]


class _Tanh(torch.autograd.Function):
    """factor * tanh(rate * x), one temporary each way: of a table of all entities, five cost more than a layer."""

    @staticmethod
    def forward(ctx: Any, values: Any, rate: float, factor: float) -> Any:
        out = (values * rate).tanh_()
        ctx.save_for_backward(out)
        ctx.slope = rate * factor
        if abs(factor) != 1:
            return out * factor
        # The derivative only sees the square, so what is kept may have the sign.
        return out if factor == 1 else out.neg_()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        (out,) = ctx.saved_tensors
        return torch.ops.aten.tanh_backward(grad, out).mul_(ctx.slope), None, None


def scaled_tanh(values: Float[Tensor, "... width"], rate: float, factor: float) -> Float[Tensor, "... width"]:
    """factor * tanh(rate * x)."""
    if values.device.type == "cpu" and not torch.compiler.is_compiling():
        return _Tanh.apply(values, rate, factor)  # type: ignore[no-any-return, no-untyped-call]
    return factor * torch.tanh(values * rate)


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer with Xavier-uniform weights."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    return layer


class MLP(nn.Module):
    """Linear layers of the given widths with relu, and in training dropout, between them."""

    def __init__(self, *widths: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(linear(inputs, outputs) for inputs, outputs in pairwise(widths))

    def forward(self, values: Float[Tensor, "... inputs"]) -> Float[Tensor, "... outputs"]:
        """Apply to the last dimension; the result is as precise as the input, whatever the products were done in."""
        *hidden, last = self.layers
        given = values.dtype
        for layer in hidden:
            values = self.dropout(functional.relu(layer(values)))
        return last(values).to(given)  # type: ignore[no-any-return]


class OperandAttention(nn.Module):
    """Weights of operands, per dimension: softmax over the operands of a two-layer network on each of them."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.first = linear(inputs, hidden)
        self.second = linear(hidden, outputs)

    def forward(self, operands: Float[Tensor, "rows arity inputs"]) -> Float[Tensor, "rows arity outputs"]:
        """Blind to the order of the operands."""
        return self.second(functional.relu(self.first(operands))).softmax(dim=1)  # type: ignore[no-any-return]


class OrderedAttention(nn.Module):
    """The same for connectives whose operands have places: each place has its own first layer."""

    def __init__(self, inputs: int, hidden: int, outputs: int, places: int = 2) -> None:
        super().__init__()
        self.first = nn.ModuleList(linear(inputs, hidden) for _ in range(places))
        self.second = linear(hidden, outputs)

    def forward(self, operands: Float[Tensor, "rows arity inputs"]) -> Float[Tensor, "rows arity outputs"]:
        """Operand i goes through first layer i."""
        hidden = [layer(operand) for layer, operand in zip(self.first, operands.unbind(dim=1), strict=True)]
        return self.second(functional.relu(torch.stack(hidden, dim=1))).softmax(dim=1)  # type: ignore[no-any-return]


class Gate(nn.Module):
    """A factor in (0, 1) from a set of operands: sigmoid of a layer on the mean of relu of a layer (DeepSets)."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.first = linear(inputs, hidden)
        self.second = linear(hidden, outputs)

    def forward(self, operands: Float[Tensor, "rows arity inputs"]) -> Float[Tensor, "rows outputs"]:
        """Blind to the order of the operands."""
        return torch.sigmoid(self.second(functional.relu(self.first(operands)).mean(dim=1)))
