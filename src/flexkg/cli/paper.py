"""`flexkg paper`: the paper's tables beside our results, and the runs that are still missing."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from flexkg.cli.output import AsJson, Device, emit, progress, say
from flexkg.cli.train import listen
from flexkg.cli.workload_build import ProtocolName, ProtocolOption

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flexkg.paper.plan import Book
    from flexkg.paper.runner import Place, Report
    from flexkg.training.listener import Listener

Results = Annotated[Path, typer.Option(metavar="DIR", help="The folder of result files.")]
Source = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Holds DATASET/queries and DATASET/train.tsv.gz, as published.")
]
Work = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Workloads and run folders; a folder in the user's cache by default.")
]
Home = Annotated[Path | None, typer.Option(metavar="DIR", help="Fetched graphs, in place of $FLEXKG_HOME.")]
Plan = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Tables and runs of your own, in place of the paper's.")
]

_RESULTS = Path("results")


class PaperGroup(TyperGroup):
    """`paper [TABLE]` stands for `paper show [TABLE]`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command in that was left out."""
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["show", *args]
        return list(super().parse_args(ctx, args))


def show_command(
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="A table, or how its name begins.")] = None,
    results: Results = _RESULTS,
    plan: Plan = None,
    json: AsJson = False,
) -> None:
    """List the paper's tables, or show one cell by cell: the paper's value, ours, the difference."""
    from flexkg.paper import render
    from flexkg.paper.results import load_all
    from flexkg.paper.workloads import read_registry

    book = _book(plan)
    found = load_all(results)
    pages = [render.page_of(entry, book, found, read_registry(results)) for entry in book.select(table)]
    if not results.is_dir() and any(filled.cell.jobs for page in pages for filled in page.cells):
        say(f"there is no folder {results}, so no run is shown: name one with --results")
    if table is None:
        emit({"tables": [page.summary() for page in pages]}, json, lambda: render.print_list(pages))
    else:
        emit({"tables": [page.to_dict() for page in pages]}, json, lambda: render.print_pages(pages))


def run_command(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A table, how its name begins, or all.")],
    budget: Annotated[float | None, typer.Option(metavar="MINUTES", min=0, help="Stop after so many minutes.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="This row, column, graph or run; all words must fit.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be trained.")] = False,
    shared_device: Annotated[
        bool, typer.Option("--shared-device", help="Mark the seconds: something else computes there meanwhile.")
    ] = False,
    results: Results = _RESULTS,
    source: Source = None,
    work: Work = None,
    data_home: Home = None,
    plan: Plan = None,
    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.AUTO,
    json: AsJson = False,
) -> None:
    """Train and evaluate what a table still lacks; interrupt it at any time, the same command goes on."""
    from flexkg.paper.results import load_all
    from flexkg.paper.runner import Budget, expected_seconds, missing, work_off
    from flexkg.paper.workloads import read_registry

    clock = Budget(None if budget is None else 60 * budget)
    book = _book(plan)
    place = _place(results, source, work, data_home)
    found = load_all(results)
    tables = book.select(table)
    jobs = missing(tables, book, found, read_registry(results), only or ())
    names = [entry.name for entry in tables]
    if dry_run:
        runs = [
            {
                "run": job.name,
                "steps": job.config.training.steps if job.kind == "run" else None,
                "overrides": job.overrides,
                "expected_seconds": expected_seconds(job, found),
            }
            for job in jobs
        ]
        emit({"tables": names, "missing": runs}, json, lambda: _show_missing(runs))
        return
    from flexkg.api import choose_device
    from flexkg.training.memory import keep_freed_memory

    where = choose_device(device)
    keep_freed_memory(where)
    report = work_off(jobs, place, clock, where, shared_device=shared_device, watch=_watch)
    content = {
        "tables": names,
        "done": report.done,
        "left": report.left,
        "elsewhere": report.elsewhere,
        "failed": report.failed,
    }
    emit(content, json, lambda: _show_report(report))
    if report.signal is not None:
        raise typer.Exit(128 + report.signal)
    if report.failed:
        raise typer.Exit(2)


def workload_command(
    data: Annotated[str, typer.Argument(metavar="DATASET", help="The graph whose queries are to be fixed.")],
    seed: Annotated[int, typer.Option(min=0, help="Of the queries that are sampled.")] = 0,
    count: Annotated[int, typer.Option(min=0, help="Queries of each shape and split; 0 follows the protocol.")] = 0,
    protocol: ProtocolOption = ProtocolName.BETAE,
    results: Results = _RESULTS,
    source: Source = None,
    work: Work = None,
    data_home: Home = None,
    json: AsJson = False,
) -> None:
    """Fix the queries that results on a graph are measured with: their seed and checksum go to workloads.toml."""
    from flexkg.errors import DataError
    from flexkg.paper.results import is_plain
    from flexkg.paper.runner import open_dataset
    from flexkg.paper.workloads import build, read_registry, write_registry

    if not is_plain(data):
        raise DataError(
            f"{data} cannot be the name of a graph in results.",
            hint="Give a name of plain letters, digits, '.', '_' and '-', such as that of a folder that is here.",
        )
    place = _place(results, source, work, data_home)
    dataset = open_dataset(data, source)
    registry = read_registry(results)
    with _watch(data) as listener:
        entry = build(
            dataset,
            place.workload(data),
            seed=seed,
            count=count,
            published=place.published(data),
            protocol=str(protocol),
            device="cpu",
            listener=listener,
        )
    if data in registry and registry[data] != entry:
        raise DataError(
            f"The queries of {data} are fixed already, and these are others.",
            hint=f"Remove its entry from {results}/workloads.toml, and every result on it, to start anew.",
        )
    registry[data] = entry
    write_registry(results, registry)
    counts = {split: sum(shapes.values()) for split, shapes in entry.queries.items()}
    content = {"dataset": data, "seed": seed, "checksum": entry.checksum, "queries": counts}
    emit(content, json, lambda: typer.echo(f"{data}: {sum(counts.values()):,} queries, checksum {entry.checksum}"))


def _book(plan: Path | None) -> Book:
    from flexkg.paper.plan import Book, the_paper

    return the_paper() if plan is None else Book.load(plan)


def _place(results: Path, source: Path | None, work: Path | None, data_home: Path | None) -> Place:
    from flexkg.errors import DataError
    from flexkg.kg import catalog
    from flexkg.paper.runner import Place

    if source is not None and not source.is_dir():
        raise DataError(f"There is no folder {source}.", hint="Give the folder that holds DATASET/queries.")
    if data_home is not None:
        os.environ["FLEXKG_HOME"] = str(data_home)
    return Place(results, catalog.home() / "paper" if work is None else work, source)


@contextmanager
def _watch(what: str) -> Iterator[Listener]:
    with progress(what, "queries") as report:
        yield listen(report, what)


def _show_missing(runs: list[dict[str, Any]]) -> None:
    width = max((len(run["run"]) for run in runs), default=0)
    for run in runs:
        steps, expected = run["steps"], run["expected_seconds"]
        updates = "its speed alone" if steps is None else f"{steps:,} updates"
        about = "" if expected is None else f"  about {expected / 60:.1f} minutes"
        typer.echo(f"{run['run']:<{width}}  {updates:>17}{about}")
    plural = "run is" if len(runs) == 1 else "runs are"
    typer.echo(f"{len(runs)} {plural} missing; --json has their settings" if runs else "nothing is missing")


def _show_report(report: Report) -> None:
    for done in report.done:
        typer.echo(f"{done['result']}  {done['seconds']['whole']:.0f} s")
    for failure in report.failed:
        typer.echo(f"{failure['run']} failed: {failure['error']}")
    elsewhere = f", {len(report.elsewhere)} made by another process" if report.elsewhere else ""
    failed = f", {len(report.failed)} failed" if report.failed else ""
    typer.echo(f"{len(report.done)} runs recorded, {len(report.left)} left{elsewhere}{failed}")
