"""How commands speak: one JSON object or a readable page on standard output, everything else on standard error."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

_SHOW_AFTER = 2.0


class Device(StrEnum):
    """Where to compute."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class Report(Protocol):
    """Takes how much is done and, where they change, what is being done and how much there is."""

    def __call__(self, done: int, now: str = ..., total: int | None = ...) -> None:
        """Show it."""


def emit(result: Mapping[str, Any], as_json: bool, render: Callable[[], object]) -> None:
    """Print the result as JSON, or call `render` to print it for people."""
    if as_json:
        typer.echo(json.dumps(result, ensure_ascii=False))
    else:
        render()


@contextmanager
def progress(what: str, unit: str, total: int | None = None) -> Iterator[Report]:
    """Give a function that takes how much is done; after two seconds a bar with rate and time left appears."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task(what, total=total, rate="")
    begin = time.monotonic()
    started = False

    def report(done: int, now: str = what, total: int | None = total) -> None:
        nonlocal started
        passed = time.monotonic() - begin
        if passed < _SHOW_AFTER or not console.is_terminal:
            return
        if not started:
            bar.start()
            started = True
        bar.update(task, description=now, completed=done, total=total, rate=f"{done:,} {unit}, {done / passed:,.0f}/s")

    try:
        yield report
    finally:
        if started:
            bar.stop()
