"""Random numbers that are a function of their place: the same on every device, in any order, in a captured graph.

A generator with a hidden state would have to be saved, moved and advanced; here the seed, the step, the number of the
call and the place in the tensor are mixed into 64 bits (SplitMix64: Steele, Lea and Flood, 2014). All of it is integer
arithmetic, so a CPU and a GPU draw the same batch, and `step` may be a tensor that a CUDA graph counts up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND = 0x94D049BB133111EB - (1 << 64)
_BITS = 31
"""Of randomness in a draw: with limits below 2^31 the product still fits 64 bits."""


class Draws:
    """The random numbers of one step."""

    def __init__(self, seed: int, step: Tensor | int, device: torch.device | str = "cpu") -> None:
        """`step` is a number, or a tensor () of int64 on the device."""
        self.device = torch.device(device)
        at = step if isinstance(step, torch.Tensor) else torch.tensor(step, device=self.device)
        # The seed enters twice, so that no seed is another one some steps later; as a number, for a capture cannot
        # copy a tensor from the CPU.
        self._key = _mixed(_mixed(at * _GOLDEN + _wrapped(seed * _SECOND + _FIRST)) + _wrapped(seed))
        self._calls = 0

    def below(self, limits: Tensor, count: int) -> Tensor:
        """Uniform integers from 0 up to each limit (n,), itself excluded, (n, count)."""
        self._calls += 1
        key = _mixed(self._key + self._calls)
        places = torch.arange(len(limits) * count, device=self.device).view(len(limits), count)
        bits = _shifted(_mixed(key + places), 64 - _BITS)
        return (bits * limits[:, None]) >> _BITS


def _mixed(value: Tensor) -> Tensor:
    value = (value ^ _shifted(value, 30)) * _FIRST
    value = (value ^ _shifted(value, 27)) * _SECOND
    return value ^ _shifted(value, 31)


def _wrapped(value: int) -> int:
    """As a signed number of 64 bits."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _shifted(value: Tensor, by: int) -> Tensor:
    """To the right as if unsigned: torch's own shift would copy the sign."""
    return (value >> by) & ((1 << (64 - by)) - 1)
