"""The `flexkg` command, also as `python -m flexkg`."""

import os
import signal
from typing import Any


def _interrupted(*_: Any) -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)


def main() -> None:
    """Run the command line. Ctrl-C while its parts are loaded ends it as later, with a word and no traceback."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupted)
    from flexkg.cli.main import main

    signal.signal(signal.SIGINT, before)
    main()


if __name__ == "__main__":
    main()
