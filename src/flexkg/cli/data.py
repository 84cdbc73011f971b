"""`flexkg data list`, `get` and `info`: what data there is, fetching it, and its statistics."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path  # noqa: TC003  typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flexkg.cli.output import AsJson, emit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from flexkg.kg.dataset import Dataset


def list_command(json: AsJson = False) -> None:
    """List the datasets that are here and those that can be fetched."""
    from flexkg.kg.catalog import home, list_datasets

    datasets = [
        {
            "name": listing.name,
            "embedded": listing.embedded,
            "available": listing.available,
            "entities": listing.entities,
            "relations": listing.relations,
            "edges": listing.edges,
            "about": listing.about,
            "path": None if listing.path is None else str(listing.path),
        }
        for listing in list_datasets()
    ]
    _emit({"datasets": datasets, "home": str(home())}, _show_list, as_json=json)


def get_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name that `flexkg data list` shows.")],
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Prepare it from this folder of train, valid, test, entities, relations .tsv.gz."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Fetch it again although it is there.")] = False,
    json: AsJson = False,
) -> None:
    """Fetch a benchmark graph: download it, or prepare it from a local folder."""
    from flexkg.kg.catalog import get, resolve

    with terminal_progress() as progress:
        path = get(name, source, progress=progress, force=force)
    dataset = resolve(path)
    sizes = dataset.info()
    result = {"name": name, "path": str(path), **{key: sizes[key] for key in ("entities", "relations", "edges")}}
    _emit(result, _show_got, as_json=json)


def info_command(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A dataset's name, or a prepared folder.")],
    json: AsJson = False,
) -> None:
    """Show the statistics of a dataset, its origin and its licence."""
    from flexkg.kg.catalog import locate
    from flexkg.kg.dataset import Dataset

    path = locate(data)
    dataset = Dataset.load(path)
    report = {key: value for key, value in dataset.report.items() if key not in ("files", "examples")}
    _emit(
        {**report, **dataset.info(), "edges_by_relation": _by_relation(dataset), "path": str(path)},
        _show_info,
        as_json=json,
    )


def _by_relation(dataset: Dataset) -> dict[str, int]:
    """Edges over all splits for each relation, the most frequent first."""
    import numpy as np

    relations = np.concatenate([triples[:, 1] for triples in dataset.triples.values()])
    counts = np.bincount(relations, minlength=len(dataset.relations))
    return {dataset.relations.identifier(int(id)): int(counts[id]) for id in np.argsort(-counts, kind="stable")}


def _emit(result: dict[str, Any], show: Callable[[dict[str, Any], Console], None], *, as_json: bool) -> None:
    def render() -> None:
        from rich.console import Console

        show(result, Console(highlight=False, emoji=False))

    emit(result, as_json, render)


def _show_list(result: dict[str, Any], console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("name", "here", box=None, pad_edge=False)
    for column in ("entities", "relations", "edges"):
        table.add_column(column, justify="right")
    table.add_column("about")
    for row in result["datasets"]:
        here = "built in" if row["embedded"] else "yes" if row["available"] else "no"
        edges = sum(row["edges"].values())
        sizes = (f"{count:,}" for count in (row["entities"], row["relations"], edges))
        table.add_row(Text(row["name"]), here, *sizes, Text(row["about"]))
    console.print(table)
    if not all(row["available"] for row in result["datasets"]):
        console.print(Text("Fetch one with: flexkg data get NAME", style="dim"))


def _show_got(result: dict[str, Any], console: Console) -> None:
    from rich.text import Text

    edges = ", ".join(f"{split} {count:,}" for split, count in result["edges"].items())
    console.print(
        Text(
            f"{result['name']}: {result['entities']:,} entities, {result['relations']:,} relations, {edges} edges\n"
            f"in {result['path']}"
        ),
        soft_wrap=True,
    )


_SHOWN_RELATIONS = 10


def _show_info(result: dict[str, Any], console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    edges = result["edges"]
    rows = {
        "entities": f"{result['entities']:,}",
        "relations": f"{result['relations']:,}",
        **{f"{split} edges": f"{count:,}" for split, count in edges.items()},
        "self loops": f"{result['self_loops']:,}",
        "entities that share their name": f"{result['ambiguous_names']:,}",
        "unseen in train": f"{result['unseen']['entities']:,} entities, {result['unseen']['relations']:,} relations",
        "test edges whose inverse is in train": f"{result['leak']['inverse']:.1%}",
        "most frequent relations": "\n".join(
            f"{count:>9,}  {relation}"
            for relation, count in list(result["edges_by_relation"].items())[:_SHOWN_RELATIONS]
        ),
    }
    for key in ("source", "licence", "attribution", "path"):
        if result.get(key):
            rows[key] = str(result[key])
    table = Table(box=None, show_header=False, title=Text(result["name"], style="bold"), title_justify="left")
    for label, value in rows.items():
        table.add_row(Text(label, style="dim"), Text(value))
    console.print(table)


class TerminalProgress:
    """Shows a download on standard error with its rate and the time left."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._task: TaskID | None = None

    def start(self, what: str, done: int, total: int | None) -> None:
        """Begin, or begin anew, with `done` bytes there already."""
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(what, total=total, completed=done)

    def advance(self, count: int) -> None:
        """`count` more bytes came."""
        if self._task is not None:
            self._bar.advance(self._task, count)

    def note(self, text: str) -> None:
        """Print a line above the bar."""
        from rich.text import Text

        self._bar.console.print(Text(text, style="dim"), soft_wrap=True)


@contextmanager
def terminal_progress() -> Iterator[TerminalProgress]:
    """A progress bar on standard error, where that is a terminal; notes are printed either way."""
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    console = Console(stderr=True, highlight=False, emoji=False)
    with progress.Progress(*columns, console=console, disable=not sys.stderr.isatty()) as bar:
        yield TerminalProgress(bar)
