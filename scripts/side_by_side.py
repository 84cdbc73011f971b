"""Works off runs of tables side by side on one device, and begins only what will end in time.

    python scripts/side_by_side.py --workers 4 --minutes 28 --device cuda --source FOLDER

For a machine that is lent for so many minutes. Each run is a process of its own (`flexkg paper run all --only RUN`), so
that one prepares and compiles while others compute. How long a run takes alone is known from results/pace.json, or from
earlier results of its recipe, and how far the others are from what they record; one of which nothing is known may
begin. What does not end is interrupted before the time is over, and goes on next time where its folder is still there.
Names of runs after the options: these, in this order.
"""

from __future__ import annotations

import argparse
import re
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
_FIRST_LOOK = 60.0
"""Seconds of updates after which it shows how much faster several runs are together than one after another."""
_GRACE = 20.0
"""Seconds before the end in which what still runs is interrupted, and saves what it has."""


@dataclass(frozen=True)
class Run:
    """What is known of a run beforehand."""

    name: str
    steps: int
    seconds: float | None
    """That its updates take alone, where that is known."""

    def done(self, work: Path) -> float:
        """The part of its updates that are done, by what it has recorded."""
        files = list((work / "runs").glob(f"{self.name}-????????/metrics.jsonl"))
        if not files:
            return 0.0
        # Runs of other settings have folders of their own; the one that goes on is the one written last.
        lines = max(files, key=lambda path: path.stat().st_mtime).read_text().splitlines()
        # The last line may be half written.
        steps = (re.match(r'\{"step": (\d+)', line) for line in lines[-2:])
        return max((int(found[1]) for found in steps if found), default=0) / self.steps


@dataclass
class Board:
    """What is to be done, what is being done, and what came of it."""

    waiting: list[Run]
    command: list[str]
    work: Path
    active: dict[Run, tuple[subprocess.Popen[bytes], float]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    stopping: bool = False
    together: float = 1.0
    """How much faster the runs are side by side than one after another."""
    _before: dict[Run, float] = field(default_factory=dict)
    """The part of each run's updates that an earlier time had done."""
    _ended: float = 0.0
    """Seconds, each alone, of the updates of runs that ended."""
    _computing: float | None = None
    """When the first update was seen."""

    def next(self, remaining: float) -> Run | None:
        """The first run that would end in time: what all have left to do, its own included, is shared among them."""
        left = sum((run.seconds or 0.0) * (1 - run.done(self.work)) for run in self.active)
        for run in self.waiting:
            if run.seconds is None or _BESIDE + (left + run.seconds) / self.together <= remaining:
                return run
        return None

    def look(self) -> None:
        """See how fast the runs are together."""
        done = self._ended + sum(map(self._gone, self.active))
        if self._computing is None:
            self._computing = time.monotonic() if done else None
        elif (seconds := time.monotonic() - self._computing) > _FIRST_LOOK:
            self.together = max(1.0, done / seconds)

    def _gone(self, run: Run) -> float:
        return (run.seconds or 0.0) * (run.done(self.work) - self._before[run])

    def begin(self, run: Run) -> None:
        """Start a run; what it says goes to a file."""
        name = run.name
        self._log(name).parent.mkdir(parents=True, exist_ok=True)
        with self._log(name).open("wb") as log:
            # Ctrl-C is for this process, which hands it on once.
            process = subprocess.Popen(
                [*self.command, "--only", name], stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self.active[run] = process, time.monotonic()
        self._before[run] = run.done(self.work)
        self.waiting.remove(run)
        print(f"{name} begins", flush=True)

    def collect(self) -> None:
        """See which runs have ended, and how."""
        for run, (process, begun) in list(self.active.items()):
            if (code := process.poll()) is None:
                continue
            del self.active[run]
            name = run.name
            self._ended += self._gone(run)
            took = f"{(time.monotonic() - begun) / 60:.1f} minutes"
            if code == 0:
                faster = f", together {self.together:.2f} times as fast as alone" if self.together > 1 else ""
                print(f"{name} ended, {took}{faster}", flush=True)
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
        return self.work / "logs" / f"{name.replace('/', '-')}.log"


def work(board: Board, workers: int, until: float) -> None:
    """Keep so many runs going until all are done or none would end in time."""
    try:
        while (remaining := until - _GRACE - time.monotonic()) > 0:
            board.collect()
            board.look()
            if len(board.active) < workers and (run := board.next(remaining)) is not None:
                board.begin(run)
            elif not board.active:
                break
            else:
                time.sleep(0.5)
    finally:
        board.stop()
        board.left += [run.name for run in board.waiting]


def expected(job: Job, paces: Mapping[str, Pace], found: Sequence[Result]) -> float | None:
    """Seconds that the updates of a run may take alone; None if nobody knows."""
    # A recipe with one setting changed, as in a sweep, is taken to be as fast as the recipe.
    known = (find_pace(paces, job.dataset, job.recipe_name, label) for label in (job.label, ""))
    if (pace := next(filter(None, known), None)) is None:
        return expected_seconds(job, found)
    return 60 * pace.minutes(job.config.training.steps)


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
        waiting = [Run(job.name, job.config.training.steps, expected(job, paces, found)) for job in jobs]
    except FlexError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    command = [sys.executable, "-m", "flexkg", "paper", "run", "all", "--device", given.device]
    command += ["--results", str(given.results), "--work", str(given.work)]
    command += ["--shared-device"] * (given.workers > 1)
    for option in ("source", "plan"):
        if (value := getattr(given, option)) is not None:
            command += [f"--{option}", str(value)]
    board = Board(waiting, command, given.work)
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
