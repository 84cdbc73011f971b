"""Measures how long an update of the paper's runs takes, each alone, and puts it into results/pace.json.

    python scripts/pace.py --device cuda --only fb15k-237

The runs of a group are compiled side by side, which takes most of the time; then each is measured while the others
wait.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from flexkg.errors import FlexError
from flexkg.kg.catalog import home
from flexkg.paper.measure import WARM_UP, Stopped, measure_time
from flexkg.paper.pace import Pace, keep_paces
from flexkg.paper.plan import Book, the_paper
from flexkg.paper.runner import Place, missing, open_bench
from flexkg.paper.workloads import read_registry
from flexkg.training.listener import NOBODY, Listener

if TYPE_CHECKING:
    from flexkg.paper.plan import Job

ROOT = Path(__file__).resolve().parents[1]

_start: Any = None
_alone: Any = None


def _share(start: Any, alone: Any) -> None:
    """What the processes of a group meet at."""
    global _start, _alone
    _start, _alone = start, alone


def measure(job: Job, place: Place, device: str) -> Pace:
    """Train until all of the group have compiled; then, alone, for the job's seconds."""
    where = torch.device(device)
    bench = open_bench(job.dataset, place, read_registry(place.results), where, NOBODY)
    steps = 0

    def pause() -> bool:
        nonlocal steps
        steps += 1
        if steps == WARM_UP - 1:
            if where.type == "cuda":
                torch.cuda.synchronize()
            _start.wait()
            _alone.acquire()
        return False

    try:
        found = measure_time(job, bench, pause)
    except BaseException:
        _start.abort()  # the others must not wait for this one
        raise
    _alone.release()
    assert not isinstance(found, Stopped)
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    return Pace(replace(job, kind="run").name, 1000 * found.metrics["seconds_per_step"], found.device, date)


def chosen(book: Book, place: Place, only: list[str]) -> list[Job]:
    """One run of every kind, with the first of its seeds."""
    first: dict[tuple[str, str, str], Job] = {}
    for job in missing(book.select("all"), book, [], read_registry(place.results), only):
        if job.kind == "run":
            first.setdefault((job.dataset, job.recipe, job.label), job)
    return list(first.values())


def main(arguments: list[str] | None = None) -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description="Measure how long updates of the paper's runs take.")
    parser.add_argument("--only", action="append", default=[], help="this row, column, graph or run; all must fit")
    parser.add_argument("--seconds", type=float, default=2.5, help="how long each is measured")
    parser.add_argument("--together", type=int, default=8, help="runs that are compiled side by side")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--source", type=Path, help="holds DATASET/queries and DATASET/train.tsv.gz")
    parser.add_argument("--work", type=Path, default=home() / "paper")
    parser.add_argument("--plan", type=Path, help="tables and runs in place of the paper's")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args(arguments)
    if given.together < 1:
        parser.error("--together must be at least 1")
    place = Place(given.results, given.work, given.source)
    try:
        jobs = chosen(the_paper() if given.plan is None else Book.load(given.plan), place, given.only)
        for name in dict.fromkeys(job.dataset for job in jobs):
            listener = Listener(say=print)
            open_bench(name, place, read_registry(place.results), torch.device(given.device), listener)
        for at in range(0, len(jobs), given.together):
            group = jobs[at : at + given.together]
            context = multiprocessing.get_context("spawn")
            meet = context.Barrier(len(group)), context.Lock()
            # How many queries there are to draw from does not change how long an update takes.
            timed = [
                replace(job, kind="time", seconds=given.seconds, overrides=(*job.overrides, "training.fill_up=0"))
                for job in group
            ]
            with ProcessPoolExecutor(len(group), context, _share, meet) as pool:
                futures = [pool.submit(measure, job, place, given.device) for job in timed]
                wait(futures)
            # Of those that failed one did so by itself, and the others because it did.
            errors = [error for future in futures if (error := future.exception()) is not None]
            for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
                raise error
            paces = [future.result() for future in futures]
            keep_paces(given.results, paces)
            for pace in paces:
                print(f"{pace.run}: {pace.milliseconds:.2f} ms an update", flush=True)
    except FlexError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
