"""Works off runs of tables side by side on one device, and begins only what will end in time.

    python scripts/side_by_side.py --workers 4 --minutes 28 --device cuda --source FOLDER

For a machine that is lent for so many minutes. Each run is a process of its own (`flexkg paper run all --only RUN`), so
that one prepares and compiles while others compute. How long a run takes is known from results/pace.json, or from
earlier results of its recipe; one of which nothing is known may begin. What does not end is interrupted before the time
is over, and goes on next time where its folder is still there. Names of runs after the options: these, in this order.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flexkg.errors import DataError, FlexError
from flexkg.kg.catalog import home
from flexkg.paper.pace import find_pace, read_paces
from flexkg.paper.plan import Book, Job, the_paper
from flexkg.paper.results import load_all
from flexkg.paper.runner import expected_seconds, missing
from flexkg.paper.workloads import read_registry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flexkg.paper.pace import Pace
    from flexkg.paper.results import Result

ROOT = Path(__file__).resolve().parents[1]

_BESIDE = 80.0
"""Seconds that a run takes beside its updates: to start, prepare, compile, validate, evaluate."""
_GRACE = 20.0
"""Seconds before the end in which what still runs is interrupted, and saves what it has."""


@dataclass
class Board:
    """What is to be done, what is being done, and what came of it."""

    waiting: dict[str, float | None]
    """Seconds that each run is expected to take, where that is known."""
    command: list[str]
    logs: Path
    active: dict[str, tuple[subprocess.Popen[bytes], float]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    stopping: bool = False

    def begin(self, name: str) -> None:
        """Start a run; what it says goes to a file."""
        self.logs.mkdir(parents=True, exist_ok=True)
        with self._log(name).open("wb") as log:
            # Ctrl-C is for this process, which hands it on once.
            process = subprocess.Popen(
                [*self.command, "--only", name], stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self.active[name] = process, time.monotonic()
        del self.waiting[name]
        print(f"{name} begins", flush=True)

    def collect(self) -> None:
        """See which runs have ended, and how."""
        for name, (process, begun) in list(self.active.items()):
            if (code := process.poll()) is None:
                continue
            del self.active[name]
            took = f"{(time.monotonic() - begun) / 60:.1f} minutes"
            if code == 0:
                print(f"{name} ended, {took}", flush=True)
            elif self.stopping:
                self.left.append(name)
                print(f"{name} interrupted, {took}", flush=True)
            else:
                self.failed.append(name)
                print(f"{name} failed, {took}: {self._log(name)}", flush=True)

    def stop(self) -> None:
        """Interrupt what is running, so that it can go on another time."""
        self.stopping = True
        for process, _ in self.active.values():
            process.send_signal(signal.SIGINT)
        end = time.monotonic() + _GRACE
        try:
            while self.active and time.monotonic() < end:
                time.sleep(0.1)
                self.collect()
        finally:
            # Too slow, or interrupted twice: none must go on alone.
            for process, _ in self.active.values():
                process.kill()
                process.wait()
            self.collect()

    def _log(self, name: str) -> Path:
        return self.logs / f"{name.replace('/', '-')}.log"


def work(board: Board, workers: int, until: float) -> None:
    """Keep so many runs going until all are done or none would end in time."""
    try:
        while (remaining := until - _GRACE - time.monotonic()) > 0:
            board.collect()
            fitting = (name for name, seconds in board.waiting.items() if seconds is None or seconds <= remaining)
            if len(board.active) < workers and (name := next(fitting, None)) is not None:
                board.begin(name)
            elif not board.active:
                break
            else:
                time.sleep(0.2)
    finally:
        board.stop()
        board.left += board.waiting


def expected(job: Job, paces: Mapping[str, Pace], found: Sequence[Result], workers: int) -> float | None:
    """Seconds that a run may take among others, each of which has its share of the device; None if nobody knows."""
    # A recipe with one setting changed, as in a sweep, is taken to be as fast as the recipe.
    known = (find_pace(paces, job.dataset, job.recipe_name, label) for label in (job.label, ""))
    if (pace := next(filter(None, known), None)) is None:
        return expected_seconds(job, found)
    return _BESIDE + 60 * pace.minutes(job.config.training.steps) * workers


def chosen(jobs: list[Job], names: list[str]) -> list[Job]:
    """The jobs of these names, in their order; all of them without names."""
    known = {job.name: job for job in jobs}
    if unknown := [name for name in names if name not in known]:
        raise DataError(
            f"{unknown[0]} is no run that is missing.", hint="flexkg paper run all --dry-run lists those that are."
        )
    return [known[name] for name in names] if names else jobs


def main(arguments: list[str] | None = None) -> int:
    """Work off what was asked for; 1 if a run failed."""
    parser = argparse.ArgumentParser(description="Work off runs side by side, until the time is over.")
    parser.add_argument("runs", nargs="*", help="as `flexkg paper run all --dry-run` names them; all that are missing")
    parser.add_argument("--minutes", type=float, default=1e6, help="all is over by then")
    parser.add_argument("--workers", type=int, default=3, help="runs at a time")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--source", type=Path, help="holds DATASET/queries and DATASET/train.tsv.gz")
    parser.add_argument("--work", type=Path, default=home() / "paper", help="workloads, run folders, and logs/")
    parser.add_argument("--plan", type=Path, help="tables and runs in place of the paper's")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    given = parser.parse_args(arguments)
    if given.workers < 1:
        parser.error("--workers must be at least 1")
    until = time.monotonic() + 60 * given.minutes
    try:
        book = the_paper() if given.plan is None else Book.load(given.plan)
        found, registry = load_all(given.results), read_registry(given.results)
        # Speed is measured with nothing beside it.
        jobs = [job for job in missing(book.select("all"), book, found, registry) if job.kind == "run"]
        jobs = chosen(jobs, given.runs)
        paces = read_paces(given.results)
        waiting = {job.name: expected(job, paces, found, given.workers) for job in jobs}
    except FlexError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    command = [sys.executable, "-m", "flexkg", "paper", "run", "all", "--device", given.device]
    command += ["--results", str(given.results), "--work", str(given.work)]
    command += ["--shared-device"] * (given.workers > 1)
    for option in ("source", "plan"):
        if (value := getattr(given, option)) is not None:
            command += [f"--{option}", str(value)]
    board = Board(waiting, command, given.work / "logs")
    # The runs are no part of this process's session: whatever ends it has to end them.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    try:
        work(board, given.workers, until)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        return 130
    if board.left:
        print(f"left: {', '.join(board.left)}")
    return 1 if board.failed else 0


if __name__ == "__main__":
    sys.exit(main())
