"""A round of training as one CUDA graph: draw a batch, forward, backward, update, count.

Hundreds of small launches cost more than the work on a large GPU; a replay is one. The graph reads the number of its
step from a tensor that it counts up itself, so that nothing has to be copied in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

_WARM_UP = 3
"""Runs before the capture, in which libraries and compilers make up their minds."""


class CapturedRound:
    """One round, to be replayed."""

    def __init__(
        self, at: Tensor, stride: int, backward: Callable[[Tensor], Tensor], update: Callable[[Tensor], None]
    ) -> None:
        """`backward` leaves the gradients of step `at` in the parameters and returns the loss; `update` uses them.

        `at` () int64 grows by `stride` with every replay.
        """
        self._at = at  # the graph reads it, and nobody else may hold it
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                backward(at)
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            update(backward(at))
            at += stride

    def replay(self) -> None:
        """Do it again."""
        self._graph.replay()
