"""How the C library treats memory that a step lets go of: kept for the next step, which wants the same again."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

# From glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4


def keep_freed_memory(device: torch.device) -> bool:
    """Let this process keep what it frees; False on a GPU, and where the C library has no such setting.

    Otherwise every temporary of more than a few megabytes is asked of the system anew, at every step, and comes as
    empty pages that have to be filled with zeros one by one. For a process that is ours alone: it never shrinks.
    On a GPU temporaries are not in this memory.
    """
    if device.type != "cpu" or not sys.platform.startswith("linux"):
        return False
    try:
        setting = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(setting(_MMAP_MAX, 0)) and bool(setting(_TRIM_THRESHOLD, 2**31 - 1))
