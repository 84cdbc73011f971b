"""Whether anybody still waits for a result: long computations ask between their parts, and stop when nobody does."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from flexkg.errors import LimitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class GivenUp(LimitError):  # noqa: N818  (it is no mistake)
    """Nobody waits for the result any more."""


_WANTED: ContextVar[Callable[[], bool] | None] = ContextVar("flexkg_wanted", default=None)


@contextmanager
def only_while(wanted: Callable[[], bool]) -> Iterator[None]:
    """What this thread computes inside may stop with `GivenUp` as soon as `wanted` says no."""
    token = _WANTED.set(wanted)
    try:
        yield
    finally:
        _WANTED.reset(token)


def check() -> None:
    """Raise `GivenUp` unless the result of this thread's computation is still wanted."""
    wanted = _WANTED.get()
    if wanted is not None and not wanted():
        raise GivenUp("Nobody waits for this answer any more.")
