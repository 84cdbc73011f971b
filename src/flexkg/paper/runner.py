"""Work a table off: which runs are missing, and making them within a budget of time."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flexkg.errors import DataError, FlexError
from flexkg.kg import catalog
from flexkg.kg.storage import locked, os_errors
from flexkg.paper import results, workloads
from flexkg.paper.cells import cells_of, recorded, up_to_date
from flexkg.paper.queries import has_queries, queries_path, save_queries
from flexkg.training.listener import NOBODY, Listener

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import torch

    from flexkg.kg.dataset import Dataset
    from flexkg.paper.measure import Bench, Stopped
    from flexkg.paper.plan import Book, Job
    from flexkg.paper.results import Result
    from flexkg.paper.tables import Table
    from flexkg.paper.workloads import Registry

_SLACK = 30.0
"""Seconds that a measurement of speed takes beside the seconds it measures."""


class _TakenError(DataError):
    """Another process makes this run."""


@dataclass(frozen=True)
class Place:
    """Where things are."""

    results: Path
    work: Path
    """Workloads and run folders, kept so that an interrupted run can go on."""
    source: Path | None = None
    """Holds DATASET/train.tsv.gz and DATASET/queries."""

    def workload(self, dataset: str) -> Path:
        """The folder of a graph's workload."""
        return self.work / "workloads" / dataset

    def published(self, dataset: str) -> Path | None:
        """The folder of a graph's published queries, if it is here."""
        if self.source is None or not (self.source / dataset / "queries").is_dir():
            return None
        return self.source / dataset / "queries"


@dataclass
class Report:
    """What was done, and what is left."""

    done: list[dict[str, Any]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    """Another process makes them."""
    failed: list[dict[str, str]] = field(default_factory=list)
    signal: int | None = None


@dataclass(frozen=True)
class Budget:
    """Seconds that may be spent, from now on."""

    seconds: float | None
    begin: float = field(default_factory=time.monotonic)

    def remaining(self) -> float:
        """Seconds left; infinite without a budget."""
        return float("inf") if self.seconds is None else self.seconds - (time.monotonic() - self.begin)

    def over(self) -> bool:
        """Whether it is spent."""
        return self.remaining() <= 0

    def fits(self, expected: float | None) -> bool:
        """Whether to begin something. What exceeds even a whole budget can only go piece by piece, and may begin."""
        if self.over():
            return False
        whole = float("inf") if self.seconds is None else self.seconds
        return expected is None or expected <= self.remaining() or expected > whole


def missing(
    tables: Sequence[Table], book: Book, found: Sequence[Result], registry: Registry, only: Sequence[str] = ()
) -> list[Job]:
    """The runs that the tables still need, each once, in the order of the tables."""
    jobs: dict[str, Job] = {}
    cells = [cell for table in tables for cell in cells_of(table, book, registry)]
    names = dict.fromkeys(name for cell in cells for name in (cell.dataset, cell.row, cell.column) if name)
    runs = {name for cell in cells for job in cell.jobs for name in (job.name, job.stem)}
    known = {name.casefold() for name in (*names, *runs)}
    for word in only:
        if word.casefold() not in known:
            raise DataError(
                f"No row, column, graph or run is called {word!r}.",
                hint=f"There are {', '.join(names)}; without --only, --dry-run lists the runs that are missing.",
            )
    chosen = [(cell, cell.matching(only)) for cell in cells]
    if only and not any(fitting for _, fitting in chosen):
        raise DataError(f"No run fits all of {', '.join(only)}.", hint="Each --only narrows the choice.")
    for cell, fitting in chosen:
        for job in fitting:
            if job.name in jobs:
                continue
            result = recorded(job, found)
            if result is None or not up_to_date(result, job, registry) or (cell.pairs and not has_queries(result)):
                jobs[job.name] = job
    return list(jobs.values())


def open_dataset(name: str, source: Path | None) -> Dataset:
    """A graph by name; one that was not fetched is prepared from the source folder if that has it."""
    try:
        return catalog.resolve(name)
    except DataError:
        if source is None or not (source / name).is_dir():
            raise
    catalog.get(name, source / name)
    return catalog.resolve(name)


def expected_seconds(job: Job, found: Sequence[Result]) -> float | None:
    """How long a run may take, by what the same recipe took on the same graph; None if nobody knows."""
    if job.kind == "time":
        return job.seconds + _SLACK
    alike = [
        result.seconds["whole"]
        for result in found
        if (result.kind, result.dataset, result.recipe, result.label)
        == (job.kind, job.dataset, job.recipe_name, job.label)
    ]
    return max(alike, default=None)


def work_off(
    jobs: Sequence[Job],
    place: Place,
    budget: Budget,
    device: torch.device,
    *,
    shared_device: bool = False,
    watch: Callable[[str], AbstractContextManager[Listener]] = lambda _: nullcontext(NOBODY),
) -> Report:
    """Make the runs, one result file each as soon as it is there, until all are done or the budget is spent.

    `shared_device` says that something else computes there meanwhile, `watch` who hears of a run by its name. One that
    fails among several is reported, and takes no other with it; one that another process makes is left to that.
    """
    from flexkg.paper.measure import Stopped

    report = Report()
    found = results.load_all(place.results)
    registry = workloads.read_registry(place.results)
    benches: dict[str, Bench] = {}
    for number, job in enumerate(jobs):
        expected = expected_seconds(job, found)
        if not budget.fits(expected):
            report.left.append(job.name)
            continue
        with watch(job.name) as listener:
            try:
                if job.dataset not in benches:
                    benches[job.dataset] = open_bench(job.dataset, place, registry, device, listener)
                listener.say(f"{job.name} ({number + 1} of {len(jobs)})")
                bench = replace(benches[job.dataset], shared_device=shared_device, listener=listener)
                outcome = _make(job, bench, place, registry, budget.over)
            except _TakenError:
                listener.say(f"{job.name} is made by another process")
                report.elsewhere.append(job.name)
                continue
            except (FlexError, MemoryError, RuntimeError) as error:  # torch's want of memory is a RuntimeError
                if len(jobs) == 1:
                    raise
                listener.say(f"{job.name} failed: {error}")
                report.failed.append({"run": job.name, "error": str(error)})
                continue
        if outcome is None:
            listener.say(f"{job.name} was recorded meanwhile")
            continue
        if isinstance(outcome, Stopped):
            listener.say(f"{job.name} stopped at step {outcome.steps:,}; it goes on next time")
            report.left.append(job.name)
            report.signal = outcome.signal
            if outcome.signal is not None:
                report.left += [later.name for later in jobs[number + 1 :]]
                break
            continue
        path = place.results / outcome.dataset / outcome.name
        found.append(outcome)
        report.done.append({"run": job.name, "result": str(path), "seconds": dict(outcome.seconds)})
        listener.say(f"recorded {path}")
    return report


def _make(
    job: Job, bench: Bench, place: Place, registry: Registry, stop: Callable[[], bool]
) -> Result | Stopped | None:
    """Measure and record; None where another process has done so since the runs were chosen."""
    from flexkg.paper.measure import Stopped, measure_run, measure_time, run_folder

    folder = run_folder(job, bench)
    with os_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder, busy=_TakenError(f"{job.name} is made by another process.")):
        path = place.results / job.dataset / f"{job.stem}.json"
        now = results.load(path) if path.is_file() else None
        if now is not None and up_to_date(now, job, registry) and (has_queries(now) or not job.keep_queries):
            return None
        outcome = measure_time(job, bench, stop) if job.kind == "time" else measure_run(job, bench, stop)
        if not isinstance(outcome, Stopped):
            _record(outcome, job, place, folder)
        return outcome


def _record(result: Result, job: Job, place: Place, folder: Path) -> None:
    """Write the result, and beside it what its queries came to where that is kept."""
    from flexkg.evaluation.compare import load_values
    from flexkg.paper.measure import VALUES

    # In this order an interruption leaves a result without its queries, never one with those of another.
    path = place.results / result.dataset / result.name
    with os_errors(path):
        queries_path(path).unlink(missing_ok=True)
    results.save(result, place.results)
    if job.keep_queries:
        values, _ = load_values(folder / VALUES)
        save_queries(path, values, result.date)


def open_bench(name: str, place: Place, registry: Registry, device: torch.device, listener: Listener) -> Bench:
    """What runs on a graph are made with; its workload is built, or checked."""
    from flexkg.paper.measure import Bench

    if name not in registry:
        raise DataError(
            f"{place.results / workloads.FILE} does not say which queries results on {name} are measured with.",
            hint=f"Fix them first: flexkg paper workload {name}",
        )
    dataset = open_dataset(name, place.source)
    workloads.check(dataset, place.workload(name), registry[name], place.published(name), device, listener)
    return Bench(dataset, place.workload(name), registry[name], place.work / "runs", device)
