"""A round of training as one CUDA graph: the batch is copied into place, forward and backward are replayed.

Hundreds of small launches cost more than the work on a large GPU; a replay is one. The optimiser stays outside: it
is a launch or two already, and the learning rate and the sharing of gradients stay ordinary code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

    from flexkg.training.batches import Batch

_WARM_UP = 3
"""Runs before the capture, in which libraries and compilers make up their minds."""


class CapturedRound:
    """Computes the loss of a batch and the gradients of all parameters."""

    def __init__(self, model: nn.Module, batch: Batch, loss: Callable[[Batch], Tensor]) -> None:
        """`batch` gives the shapes; its tensors become the buffers that the graph reads."""
        self._batch = batch
        self._parameters = list(model.parameters())
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                model.zero_grad(set_to_none=True)
                loss(batch).backward()  # type: ignore[no-untyped-call]
        torch.cuda.current_stream().wait_stream(stream)
        # Without gradients at the start, the captured backward writes them anew at every replay.
        model.zero_grad(set_to_none=True)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            value = loss(batch)
            value.backward()  # type: ignore[no-untyped-call]
        self._loss = value.detach()
        self._gradients = [parameter.grad for parameter in self._parameters]

    def __call__(self, batch: Batch) -> Tensor:
        """The loss; the gradients are in place."""
        self._batch.copy_(batch)
        self._graph.replay()
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient
        return self._loss.clone()
