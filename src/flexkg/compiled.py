"""Functions compiled by numba (extra `fast`), kept for the next process where there is a place to keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function when it is first called; no other thread waits for it while it runs."""

    def wrap(function: Callable[..., Any]) -> Any:
        try:
            return njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:
            # Neither beside the module nor in the user's cache may be written: compiled anew in each process.
            return njit(nogil=True, **options)(function)

    return wrap
