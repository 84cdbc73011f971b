"""Who uses the cores: compiled kernels share out rows by themselves, in one pool, so torch must not do so too."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeVar

    Result = TypeVar("Result")

RUNS = 4
"""Runs of rows for each thread: who is done early takes another."""
_SMALL = 1 << 16
"""Elements below which starting threads costs more than it saves."""


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


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(kernel_threads(), thread_name_prefix="flexkg-kernels")


def run_between(edges: Sequence[int], work: Callable[[int, int], Result]) -> list[Result]:
    """`work(first, last)` for every two neighbouring edges, in threads where there are several; results in order.

    The work must hold no lock of the interpreter, and must not come back here.
    """
    if len(edges) == 2:
        return [work(edges[0], edges[1])]
    return list(_pool().map(lambda bounds: work(*bounds), pairwise(edges)))


def share_out(tasks: int, elements: int, work: Callable[[int, int], Any]) -> None:
    """`work(first, last)` over all tasks, a few runs of about as many for every core; `elements` is how much it is."""
    runs = min(tasks, RUNS * kernel_threads()) if elements > _SMALL else 1
    if tasks and elements:
        run_between([tasks * run // runs for run in range(runs + 1)], work)
