"""Who uses the cores: our kernels share out rows by themselves, so torch must not do so too."""

from __future__ import annotations

from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


@lru_cache(maxsize=1)
def kernel_threads() -> int:
    """Threads for the compiled kernels: as many as torch had when first asked."""
    return max(1, torch.get_num_threads())


@contextmanager
def leave_cores_to_kernels(used: bool = True) -> Iterator[None]:
    """Let torch use one thread while the compiled kernels, if they are used, use all.

    Between kernels there are many tensor operations that are too small to share. torch's threads wait for each other
    by spinning; on a machine with anything else to do that made sampling ten times slower.
    """
    if not used:
        yield
        return
    kernel_threads()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
