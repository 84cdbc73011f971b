"""Writes what `flexkg ask` prints into docs/how-to/ask.md, below each command that asks `runs/demo`.

Run it after `make demo`:  python scripts/ask_page.py runs/demo
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "ask.md"
SHOWN = re.compile(r"(```sh\n(?:.*\n)*?(flexkg ask runs/demo .*)\n```\n\n```text\n)((?:.*\n)*?)(```\n)")


def render(page: str, run: Path) -> str:
    """The page with each output as the run gives it."""
    return SHOWN.sub(lambda found: found[1] + printed(found[2], run) + found[4], page)


def printed(command: str, run: Path) -> str:
    """What a command prints, with the run in the place of `runs/demo`."""
    words = [str(run) if word == "runs/demo" else word for word in shlex.split(command)]
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "flexkg", *words[1:]], env=environment, check=True, capture_output=True, encoding="utf-8"
    )
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run folder")
    given = parser.parse_args()
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8"), given.run), encoding="utf-8")
    print(f"{PAGE.name} written")


if __name__ == "__main__":
    main()
