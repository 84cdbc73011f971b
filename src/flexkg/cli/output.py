"""How commands speak: one JSON object or a readable page on standard output, everything else on standard error."""

from __future__ import annotations

import json
import re
import time
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rich.console import Console

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

_SHOW_AFTER = 2.0
# Control characters, line breaks, and marks that turn the direction of writing.
_STEERS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_shown: ContextVar[Console | None] = ContextVar("_shown", default=None)
"""Where the bar is that is shown now."""


class Device(StrEnum):
    """Where to compute."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class Report(Protocol):
    """Takes how much is done and, where they change, what is being done, how much there is, and what to say of it."""

    def __call__(self, done: int, now: str = ..., total: int | None = ..., note: str = ...) -> None:
        """Show it."""


def say(line: str) -> None:
    """A line for people, above the bar where there is one."""
    if (console := _shown.get()) is None:
        typer.echo(line, err=True)
    else:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def visible(text: str) -> str:
    """Text from a user's file for a terminal: what would steer it, such as an escape sequence, is spelt out."""
    return _STEERS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def in_markup(text: str) -> str:
    """The same where Rich reads markup."""
    from rich.markup import escape

    return escape(visible(text))


def emit(result: Mapping[str, Any], as_json: bool, render: Callable[[], object]) -> None:
    """Print the result as JSON, or call `render` to print it for people."""
    if as_json:
        from flexkg.kg.storage import finite

        typer.echo(json.dumps(finite(result), ensure_ascii=False, allow_nan=False))
    else:
        render()


@contextmanager
def progress(what: str, unit: str, total: int | None = None) -> Iterator[Report]:
    """Give a function that takes how much is done; after two seconds a bar with rate and time left appears."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, emoji=False)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task(what, total=total, rate="")
    begin = since = last = time.monotonic()
    whole = total
    token = None

    def report(done: int, now: str = what, total: int | None = total, note: str = "") -> None:
        nonlocal since, last, whole, token
        if total != whole:
            # Another piece of work, with a pace of its own; it began when the one before it ended.
            since, whole = last, total
            bar.reset(task, total=total)
        last = time.monotonic()
        if last - begin < _SHOW_AFTER or not console.is_terminal:
            return
        rate = note or f"{done:,} {unit}, {done / max(last - since, 1e-9):,.0f}/s"
        bar.update(task, description=now, completed=done, total=total, rate=rate)
        if token is None:
            bar.start()
            token = _shown.set(console)

    try:
        yield report
    finally:
        if token is not None:
            bar.stop()
            _shown.reset(token)
