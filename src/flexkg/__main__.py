"""The `flexkg` command, also as `python -m flexkg`."""

import atexit
import os
import signal
import sys
from types import FrameType
from typing import Any

_IMPORTING = "<frozen importlib._bootstrap>"


def _leave(*_: Any) -> None:
    """End at once, with a word and without what was written by half."""
    # Not imported here: what is not loaded has written nothing.
    if clear := getattr(sys.modules.get("flexkg.kg.storage"), "clear_own_partial", None):
        clear()
    os.write(2, b"interrupted\n")
    os._exit(130)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """As Python does it, but while modules are loaded the process ends: their C code may swallow or die of a raise."""
    inner = frame
    while inner is not None:
        if inner.f_code.co_filename == _IMPORTING:
            _leave()
        inner = inner.f_back
    signal.default_int_handler(number, frame)


def main() -> None:
    """Run the command line; Ctrl-C ends it with a word and no traceback, also while its parts are loaded."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, _interrupt)
        # Registered first, hence called last: all is said, and what is left is to take the interpreter down.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    try:
        from flexkg.cli.main import main

        main()
    except KeyboardInterrupt:
        _leave()
    finally:
        # There is nothing to unwind while the interpreter waits for threads, and a raise would be swallowed.
        if ours:
            signal.signal(signal.SIGINT, _leave)


if __name__ == "__main__":
    main()
