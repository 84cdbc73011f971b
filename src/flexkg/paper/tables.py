"""The tables of the FLEX paper: what it printed, with the place where it did."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAMES = (
    "main-epfo",
    "main-negation",
    "comparison",
    "error-bars-epfo",
    "error-bars-negation",
    "variants",
    "more-variants",
    "training-shapes",
    "link-prediction",
    "dimensions",
    "training-length",
    "parameters",
    "running-time",
    "datasets",
    "query-counts",
    "hyper-parameters",
)
"""Every table, the results first."""

COMPARISON = "comparison"
"""The kind of a table whose cells are differences of two models on the same queries."""

KINDS: Mapping[str, tuple[str, ...]] = {
    "mrr": (),
    "error-bars": ("seeds",),
    COMPARISON: (),
    "metrics": (),
    "sweep": ("model", "setting", "label"),
    "time": ("models", "set", "seconds", "steps"),
    "parameters": ("models",),
    "datasets": (),
    "queries": (),
    "settings": (),
}
"""How tables are measured, and what a plan has to say in [tables.NAME] for that."""

OPTIONAL: Mapping[str, tuple[str, ...]] = {COMPARISON: ("model", "seeds")}
"""What it may say besides."""

_CONTENT = ("title", "source", "kind", "unit", "dataset", "columns", "rows", "notes", "discrepancies")
_ROW = ("dataset", "row", "values", "errors")

AVERAGE = "AVG"
"""The column that holds the mean of the other columns of its row."""


@dataclass(frozen=True)
class Row:
    """A line of a table; a value that the paper does not give is None."""

    dataset: str
    row: str
    values: tuple[float | None, ...]
    errors: tuple[float | None, ...]
    """Standard deviations, where the table has them."""


@dataclass(frozen=True)
class Discrepancy:
    """A printed value that disagrees with other printed values."""

    dataset: str
    row: str
    column: str
    text: str


@dataclass(frozen=True)
class Table:
    """One table of the paper."""

    name: str
    title: str
    source: str
    kind: str
    """How its cells are measured here; see `cells.py`."""
    unit: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    discrepancies: tuple[Discrepancy, ...]

    @property
    def datasets(self) -> tuple[str, ...]:
        """The graphs of its rows, in order."""
        return tuple(dict.fromkeys(row.dataset for row in self.rows))

    @property
    def places(self) -> frozenset[tuple[str, str]]:
        """Graph and name of each row."""
        return frozenset((row.dataset, row.row) for row in self.rows)

    def value(self, dataset: str, row: str, column: str) -> float | None:
        """What the paper printed there."""
        for line in self.rows:
            if (line.dataset, line.row) == (dataset, row):
                return line.values[self.columns.index(column)]
        raise KeyError((dataset, row, column))


@cache
def load_table(name: str) -> Table:
    """A table by its name."""
    text = (resources.files("flexkg") / "paper" / "tables" / f"{name}.toml").read_text(encoding="utf-8")
    return parse_table(name, tomllib.loads(text))


@cache
def load_plan() -> Mapping[str, Any]:
    """How the tables are measured here, as runs.toml says it; `plan.py` reads it."""
    return tomllib.loads((resources.files("flexkg") / "paper" / "runs.toml").read_text(encoding="utf-8"))


def parse_table(name: str, content: Mapping[str, Any]) -> Table:
    """A table from the content of its TOML file."""
    only(content, _CONTENT, f"[content.{name}]")
    return Table(
        name,
        content["title"],
        content["source"],
        content["kind"],
        content["unit"],
        tuple(content["columns"]),
        tuple(_row(row, content) for row in content["rows"]),
        tuple(content.get("notes", ())),
        tuple(Discrepancy(**entry) for entry in content.get("discrepancies", ())),
    )


def published(dataset: str, model: str) -> dict[str, float]:
    """The paper's test MRR by shape, between 0 and 1, of a model by its name in the paper or by our recipe's name.

    Empty where the paper has no such row.
    """
    names = {model} | {name for name, entry in load_plan()["models"].items() if entry["recipe"] == model}
    found: dict[str, float] = {}
    for name in ("main-epfo", "main-negation", "variants", "more-variants"):
        table = load_table(name)
        for row in table.rows:
            if row.dataset == dataset and row.row in names:
                for column, value in zip(table.columns, row.values, strict=True):
                    if value is not None and column != AVERAGE:
                        found.setdefault(column, round(value / 100, 6))
    return found


def _row(row: Mapping[str, Any], content: Mapping[str, Any]) -> Row:
    only(row, _ROW, f"a row of {content['title']}")
    # A table of our own has rows that the paper says nothing about.
    values = tuple(map(_number, row.get("values", ["-"] * len(content["columns"]))))
    errors = tuple(map(_number, row.get("errors", ["-"] * len(values))))
    if not len(values) == len(errors) == len(content["columns"]):
        raise ValueError(f"the row {row['row']} of {content['title']} does not have a value for each column")
    return Row(row.get("dataset") or content["dataset"], str(row["row"]), values, errors)


def only(content: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    """Raise a ValueError if a key is none of those."""
    for key in content:
        if key not in known:
            raise ValueError(f"{where} has {key!r}, which is none of {', '.join(known)}")


def _number(value: object) -> float | None:
    # TOML has no null.
    return None if value == "-" else float(value)  # type: ignore[arg-type]
