"""What a run tells while it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Progress:
    """How far training is."""

    step: int
    steps: int
    loss: float
    queries_per_second: float
    mrr: float | None
    """Of the last validation."""


@dataclass(frozen=True)
class Listener:
    """Who hears of it."""

    say: Callable[[str], None] = lambda _: None
    """A line for people."""
    queries: Callable[[str, int, int], None] = lambda _what, _done, _total: None
    """Before and after training: what is done with queries, with how many it is done, and how many there are."""
    trained: Callable[[Progress], None] = lambda _: None


NOBODY = Listener()
