"""The `flexkg` command, also as `python -m flexkg`."""

import os
import signal
from types import FrameType
from typing import NoReturn


def _end() -> NoReturn:
    os.write(2, b"interrupted\n")
    os._exit(130)


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but end at once while something is imported: libraries lose it there, or break by it."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            _end()
        frame = frame.f_back
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line. Ctrl-C ends it with a word and no traceback, whatever is just being loaded."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from flexkg.cli.main import main

        main()
    except KeyboardInterrupt:
        _end()


if __name__ == "__main__":
    main()
