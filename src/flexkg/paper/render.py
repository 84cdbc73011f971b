"""Tables for people: in the terminal, and as pages of the documentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flexkg.paper.cells import cells_of, fill_all
from flexkg.paper.tables import COMPARISON

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table as Grid

    from flexkg.paper.cells import Filled
    from flexkg.paper.plan import Book
    from flexkg.paper.results import Result
    from flexkg.paper.tables import Table
    from flexkg.paper.workloads import Registry

_ASKED = ("mrr", "error-bars", COMPARISON, "sweep")
"""Kinds of tables whose figures depend on the queries of every shape."""


LEGENDS = {
    "~": "made with settings or queries that have changed since",
    "†": "something else used the device meanwhile: these times compare with no others",
}
"""What the marks mean."""


@dataclass(frozen=True)
class Page:
    """A table with its cells filled as far as there are results."""

    table: Table
    cells: tuple[Filled, ...]
    queries: tuple[str, ...] = ()
    """Which test queries are the published ones, a sentence for each graph."""

    @property
    def recorded(self) -> int:
        """Cells that have a value of ours."""
        return sum(filled.ours is not None for filled in self.cells)

    def summary(self) -> dict[str, Any]:
        """What a list of tables says of it."""
        return {
            "name": self.table.name,
            "title": self.table.title,
            "source": self.table.source,
            "count": len(self.cells),
            "recorded": self.recorded,
        }

    def to_dict(self) -> dict[str, Any]:
        """The summary, and every cell."""
        return {
            **self.summary(),
            "unit": self.table.unit,
            "notes": [*self.table.notes, *self.queries],
            "discrepancies": [
                {"dataset": entry.dataset, "row": entry.row, "column": entry.column, "text": entry.text}
                for entry in self.table.discrepancies
            ],
            "cells": [filled.to_dict() for filled in self.cells],
        }

    def cell(self, dataset: str, row: str, column: str) -> Filled | None:
        """A cell by its place."""
        for filled in self.cells:
            if (filled.cell.dataset, filled.cell.row, filled.cell.column) == (dataset, row, column):
                return filled
        return None


def page_of(table: Table, book: Book, found: Sequence[Result], registry: Registry) -> Page:
    """A table with what the results say of it."""
    cells = tuple(fill_all(cells_of(table, book, registry), found, registry))
    return Page(table, cells, _published(table, registry) if any(filled.results for filled in cells) else ())


def _published(table: Table, registry: Registry) -> tuple[str, ...]:
    if table.kind not in _ASKED:
        return ()
    given = {name: registry[name].published["test"] for name in table.datasets if name in registry}
    return tuple(
        f"{name}: test queries of {' '.join(shapes)} are the published ones, others were sampled here."
        if shapes
        else f"{name}: all test queries were sampled here."
        for name, shapes in given.items()
        if set(shapes) != set(registry[name].queries["test"])
    )


def number(value: float | None, kind: str) -> str:
    """A value as a table of this kind prints it."""
    if value is None:
        return ""
    if kind in ("datasets", "queries"):
        return f"{value:,.0f}"
    if kind == "settings":
        return f"{value:g}"
    if kind == "parameters":
        return f"{value:.2f}"
    if kind == "time":
        return f"{value:.1f}" if value >= 1 else f"{value:.2g}"
    if kind == COMPARISON:
        return f"{value:+.2f}".replace("-", "−")
    return f"{value:.1f}"


def triple(filled: Filled | None, kind: str) -> tuple[str, str, str]:
    """The paper's value, ours with its marks, and the difference, as text."""
    if filled is None:
        return "", "", ""
    ours = number(filled.ours, kind)
    if (against := filled.against) is not None:
        ours += " ({} to {})".format(*(number(100 * end, kind) for end in against.ci95))
    if filled.ours_error is not None:
        ours += f" ±{filled.ours_error:.3f}"
    ours += marks(filled, kind)
    paper = number(filled.cell.paper, kind)
    if filled.cell.paper_error is not None:
        paper += f" ±{filled.cell.paper_error:.3f}"
    difference = "" if filled.difference is None else _signed(filled.difference, kind)
    return paper, ours, difference


def marks(filled: Filled, kind: str) -> str:
    """`~` where settings are no longer these, a dagger at times that something else on the device made longer."""
    timed = kind == "time" or filled.cell.column == "minutes"
    shared = timed and any(result.shared_device for result in filled.results)
    return "~" * bool(filled.results and not filled.exact) + " †" * shared


def both(paper: str, ours: str) -> str:
    """The paper's value and ours in one cell of a page."""
    return f"{paper} / **{ours}**" if paper and ours else paper or (f"**{ours}**" if ours else "")


def listed(shapes: Sequence[str]) -> str:
    """Shapes by name, unless it is all of them."""
    return "all fourteen" if len(shapes) == 14 else " ".join(shapes) or "none"


def _signed(value: float, kind: str) -> str:
    text = number(abs(value), "mrr" if kind == COMPARISON else kind)
    return text if float(text.replace(",", "")) == 0 else f"{'+' if value > 0 else '−'}{text}"


def print_list(pages: Sequence[Page]) -> None:
    """The tables, and how many of their cells are recorded."""
    from rich.console import Console
    from rich.table import Table as Grid

    grid = Grid("table", "what it shows")
    grid.add_column("cells", justify="right")
    grid.add_column("recorded", justify="right")
    for page in pages:
        grid.add_row(page.table.name, page.table.title, str(len(page.cells)), str(page.recorded))
    Console(emoji=False).print(grid)


def print_pages(pages: Sequence[Page]) -> None:
    """Each table cell by cell, its columns downwards so that any terminal is wide enough."""
    from rich.console import Console

    console = Console(emoji=False)
    for page in pages:
        console.print(f"{page.table.title} ({page.table.unit})", style="bold", highlight=False, markup=False)
        console.print(page.table.source, style="dim", highlight=False, markup=False, soft_wrap=True)
        console.print(_grid(page))
        marked = {mark for filled in page.cells for mark in marks(filled, page.table.kind)}
        for mark, text in LEGENDS.items():
            if mark in marked:
                console.print(f"{mark} {text}", style="dim", highlight=False, markup=False, soft_wrap=True)
        for note in notes_of(page):
            console.print(note, style="dim", highlight=False, markup=False, soft_wrap=True)


def notes_of(page: Page) -> list[str]:
    """What has to be known to read a table."""
    odd = [f"{entry.dataset} {entry.row} {entry.column}: {entry.text}." for entry in page.table.discrepancies]
    return [*page.table.notes, *odd, *page.queries]


def _grid(page: Page) -> Grid:
    from rich.table import Table as Grid

    grid = Grid("graph", "row", "column")
    for name in ("paper", "ours", "difference"):
        grid.add_column(name, justify="right")
    before: tuple[str, str] | None = None
    for filled in page.cells:
        place = filled.cell.dataset, filled.cell.row
        if before is not None and before != place:
            grid.add_section()
        shown = place if before != place else ("", "")
        grid.add_row(*shown, filled.cell.column, *triple(filled, page.table.kind))
        before = place
    return grid
