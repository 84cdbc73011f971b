"""Processes that train one model together, each with its part of every batch, as torchrun starts them."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import torch
from torch import distributed

from flexkg.errors import TrainingError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

_PATIENCE = timedelta(hours=2)
"""How long a process waits for the others: the first one may have a large workload to make. An end is seen at once."""

_SOURCE = re.compile(r"\[[^][]*\.(?:cc|cpp|h|hpp):\d+\] ?")
"""Where in a library an error arose."""


class OtherEnded(TrainingError):  # noqa: N818  (no mistake of this process)
    """A process that trains together with this one has gone."""


@contextmanager
def joined(device: torch.device) -> Iterator[tuple[int, int]]:
    """Number of this process and how many there are, as torchrun says; several join a group, and leave it again."""
    if os.environ.get("WORLD_SIZE", "") in ("", "1"):
        yield 0, 1
        return
    _check_surroundings()
    if device.type == "cuda":
        _take_gpu()
    with _others():
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=_PATIENCE)
    try:
        yield distributed.get_rank(), distributed.get_world_size()
    finally:
        # A process that ends while its group's threads run is aborted.
        distributed.destroy_process_group()


def wait(share: tuple[int, int]) -> None:
    """Go on when all processes are here."""
    if share[1] > 1:
        with _others():
            distributed.barrier()


def add_up(value: Tensor, share: tuple[int, int]) -> None:
    """Sum a tensor over the processes, in place."""
    if share[1] > 1:
        with _others():
            distributed.all_reduce(value)


def agreed(value: float, share: tuple[int, int], device: torch.device) -> float:
    """The first process's value, so that all decide alike."""
    if share[1] == 1:
        return value
    told = torch.tensor(value, dtype=torch.float64, device=device)
    with _others():
        distributed.broadcast(told, 0)
    return float(told)


def gathered(own: Tensor, processes: int) -> list[Tensor]:
    """What each process has; all of one size."""
    parts = [torch.empty_like(own) for _ in range(processes)]
    with _others():
        distributed.all_gather(parts, own)
    return parts


@contextmanager
def _others() -> Iterator[None]:
    """Around what fails when another process has ended: whichever that is, it is not this one's fault."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        said = _SOURCE.sub("", str(error)).strip().splitlines() or [type(error).__name__]
        raise OtherEnded(
            f"Another process of this training ended, or cannot be reached ({said[0].partition('. ')[0]}).",
            hint="What it says is why; one that says nothing was killed, as for want of memory.",
        ) from error


def _check_surroundings() -> None:
    """Torchrun says all of it; clusters at times say how many processes there are, and no more."""
    numbers = {}
    for name in ("WORLD_SIZE", "RANK", "MASTER_PORT"):
        value = os.environ.get(name, "")
        if not value.isdecimal():
            raise _surroundings(f"{name} is {value!r}, no number" if value else f"{name} is not set")
        numbers[name] = int(value)
    if not os.environ.get("MASTER_ADDR"):
        raise _surroundings("MASTER_ADDR is not set")
    if numbers["RANK"] >= numbers["WORLD_SIZE"]:
        raise _surroundings(f"RANK is {numbers['RANK']}, which is none of them")


def _surroundings(lacking: str) -> TrainingError:
    return TrainingError(
        f"The environment says that WORLD_SIZE={os.environ['WORLD_SIZE']} processes train together, but {lacking}.",
        hint="Start them with torchrun, or unset WORLD_SIZE to train in one process.",
    )


def _take_gpu() -> None:
    """Each process of a machine has a GPU of its own."""
    local, there = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if local >= there:
        raise TrainingError(
            f"Process {local + 1} of this machine has no GPU: there {'is' if there == 1 else 'are'} {there}.",
            hint="Start one process for each GPU: torchrun --nproc-per-node gpu.",
        )
    torch.cuda.set_device(local)
