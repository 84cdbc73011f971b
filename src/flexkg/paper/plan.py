"""Which run measures what: the paper's models as our recipes, with their settings, graphs and seeds (runs.toml)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from flexkg.errors import DataError
from flexkg.kg.storage import os_errors
from flexkg.paper.results import RATES, file_stem, is_plain, plain_name
from flexkg.paper.tables import (
    AVERAGE,
    COMPARISON,
    KINDS,
    NAMES,
    OPTIONAL,
    Table,
    load_plan,
    load_table,
    only,
    parse_table,
)
from flexkg.query.shapes import SHAPES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from flexkg.config import RunConfig

_PARTS = ("seed", "common", "models", "tables", "content")
_MODEL = ("recipe", "label", "common", "set", "datasets", "shapes")
_SEE = "See the reference of `paper run`."
_LETTERS = "letters, digits, '.', '_' and '-' can"
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "mrr": (*SHAPES, AVERAGE),
    "error-bars": (*SHAPES, AVERAGE),
    "metrics": RATES,
    COMPARISON: (*SHAPES, "EPFO", "negation"),
}
"""What tables of models may have as columns; of `metrics` these are the rows."""


@dataclass(frozen=True)
class Job:
    """One run, whose result fills one cell or many."""

    kind: str
    """`run`: train and evaluate; `time`: train for some seconds."""
    dataset: str
    recipe: str
    seed: int
    label: str = ""
    overrides: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    """To evaluate; none stands for all that the model can express."""
    seconds: float = 0.0
    """How long a `time` is measured."""
    keep_queries: bool = False
    """Whether what each query came to is kept beside the result, for the table that compares models."""

    @property
    def recipe_name(self) -> str:
        """What results call the recipe: of a file of one's own, its name without folder and ending."""
        return PurePath(self.recipe).stem if self.recipe.endswith(".toml") else self.recipe

    @property
    def stem(self) -> str:
        """The result file's name without its ending."""
        return file_stem(self.kind, self.recipe_name, self.seed, self.label)

    @property
    def name(self) -> str:
        """The same with its folder."""
        return f"{self.dataset}/{self.stem}"

    @property
    def config(self) -> RunConfig:
        """The settings that the run has."""
        return _config(self.recipe, (*self.overrides, f"training.seed={self.seed}"))


@dataclass(frozen=True, eq=False)
class Book:
    """Tables, and how their cells are measured."""

    tables: Mapping[str, Table]
    seed: int
    models: Mapping[str, Mapping[str, Any]]
    """By the paper's name: `recipe`, `common`, `set`, `datasets`, `shapes`; `label` tells those of one recipe apart."""
    settings: Mapping[str, Mapping[str, Any]]
    """By table."""
    common: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Settings that several models share, by name."""

    @classmethod
    def load(cls, path: Path) -> Book:
        """A book of one's own: a TOML file such as runs.toml that also holds its tables, each as [content.NAME]."""
        with os_errors(path, "read"):
            data = path.read_bytes()
        try:
            plan = tomllib.loads(data.decode("utf-8"))
            only(plan, _PARTS, "it")
            tables = {name: parse_table(name, content) for name, content in plan["content"].items()}
            book = cls(
                tables, plan.get("seed", 0), plan.get("models", {}), plan.get("tables", {}), plan.get("common", {})
            )
            book.check()
            return book
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DataError(f"{path} is not TOML: {error}.") from None
        except KeyError as error:
            raise DataError(f"{path} is not a plan: it lacks {error.args[0]}.", hint=_SEE) from None
        except (TypeError, ValueError, AttributeError) as error:
            raise DataError(f"{path} is not a plan: {error}.", hint=_SEE) from None

    def check(self) -> None:
        """Raise a ValueError unless the parts fit together."""
        named: dict[tuple[str, str], str] = {}
        for model, entry in self.models.items():
            only(entry, _MODEL, f"[models.{model}]")
            if "recipe" not in entry:
                raise ValueError(f"[models.{model}] names no recipe")
            if "common" in entry and str(entry["common"]) not in self.common:
                raise ValueError(f"its [common] has no {entry['common']}")
            key = Job("run", "", str(entry["recipe"]), 0).recipe_name, str(entry.get("label", ""))
            for part in filter(None, key):
                if not is_plain(part):
                    raise ValueError(f"{part!r} of [models.{model}] cannot name a file: {_LETTERS}")
            if key in named:
                raise ValueError(f"the models {named[key]} and {model} have one recipe: give one of them a `label`")
            named[key] = model
        for name in self.settings:
            if name not in self.tables:
                raise ValueError(f"[tables.{name}] is about none of its tables")
        for table in self.tables.values():
            if table.kind not in KINDS:
                raise ValueError(f"table {table.name} is of no kind {table.kind!r}; there are {', '.join(KINDS)}")
            self._check_table(table, self.settings.get(table.name, {}))

    def _check_table(self, table: Table, settings: Mapping[str, Any]) -> None:
        for need in KINDS[table.kind]:
            if need not in settings:
                raise ValueError(f"[tables.{table.name}] has to say {need}")
        only(settings, (*KINDS[table.kind], *OPTIONAL.get(table.kind, ())), f"[tables.{table.name}]")
        rows = [row.row for row in table.rows]
        models, columns = {"metrics": (table.columns, rows)}.get(table.kind, (rows, table.columns))
        if table.kind in _COLUMNS:
            favourite = [self.favourite(table)] if table.kind == COMPARISON else []
            for model in (*favourite, *models):
                if model not in self.models:
                    raise ValueError(f"table {table.name} is about {model}, which is none of its [models]")
            for column in columns:
                if column not in _COLUMNS[table.kind]:
                    raise ValueError(f"table {table.name} has no {column}; there are {', '.join(_COLUMNS[table.kind])}")
        _check_seeds(table, settings.get("seeds"))
        if table.kind == "sweep" and len({swept_label(settings, row) for row in rows}) < len(set(rows)):
            raise ValueError(f"two rows of table {table.name} would have one name as files: {_LETTERS}")
        for row in table.rows:
            if not is_plain(row.dataset):
                raise ValueError(f"{row.dataset!r} is no name of a graph; give it one with `flexkg data import`")

    def select(self, text: str | None = None) -> list[Table]:
        """The tables whose names begin so: `main` gives both main tables, `all` or nothing gives every table."""
        if text is None or text == "all":
            return list(self.tables.values())
        found = [text] if text in self.tables else [name for name in self.tables if name.startswith(text)]
        if not found:
            raise DataError(f"There is no table {text!r}.", hint=f"Choose among {', '.join(self.tables)}, or all.")
        return [self.tables[name] for name in found]

    @cached_property
    def compared(self) -> frozenset[str]:
        """The models of the tables that compare them in pairs."""
        tables = [table for table in self.tables.values() if table.kind == COMPARISON]
        return frozenset(name for table in tables for name in (self.favourite(table), *(row.row for row in table.rows)))

    @cached_property
    def _lengths(self) -> frozenset[str]:
        """What rows of sweeps are called by that differ in the number of updates alone."""
        swept = [(table, self.settings[table.name]) for table in self.tables.values() if table.kind == "sweep"]
        return frozenset(
            swept_label(settings, row.row)
            for table, settings in swept
            if settings["setting"] == "training.steps"
            for row in table.rows
        )

    def without_length(self, label: str) -> str:
        """The label of the same run with its model's own number of updates; one of them takes as long."""
        rest, _, last = label.rpartition("-")
        return rest if last in self._lengths else label

    def favourite(self, table: Table) -> str:
        """The model that a table compares the others with."""
        return str(self.settings.get(table.name, {}).get("model", "FLEX"))

    def printed(self, dataset: str, model: str, shape: str) -> float | None:
        """A model's MRR on a shape as the first table that has it prints it."""
        for table in self.tables.values():
            if table.kind == "mrr" and shape in table.columns and (dataset, model) in table.places:
                return table.value(dataset, model, shape)
        return None

    def job(self, model: str, dataset: str, *, seed: int | None = None, **more: Any) -> Job | None:
        """The run of one of the paper's models on a graph; None if there is no recipe for it."""
        if model not in self.models:
            return None
        entry = self.models[model]
        more.setdefault("keep_queries", model in self.compared and not more.get("label"))
        more["label"] = "-".join(part for part in (str(entry.get("label", "")), more.get("label", "")) if part)
        shared = self.common[entry["common"]] if "common" in entry else ()
        own = (*entry.get("set", ()), *entry.get("datasets", {}).get(dataset, ()))
        overrides = (*shared, *own, *more.pop("overrides", ()))
        return Job(
            "run",
            dataset,
            entry["recipe"],
            self.seed if seed is None else seed,
            overrides=overrides,
            shapes=tuple(entry.get("shapes", ())),
            **more,
        )


def swept_label(settings: Mapping[str, Any], row: str) -> str:
    """What the run of a sweep's row is called by."""
    return plain_name(f"{settings['label']}{row}")


def _check_seeds(table: Table, seeds: Any) -> None:
    """Raise a ValueError unless the seeds of a table are lists, and of rows that it has."""
    if table.kind == COMPARISON:
        lists = {(graph, row): found for graph, part in dict(seeds or {}).items() for row, found in dict(part).items()}
        for place in lists.keys() - table.places:
            raise ValueError(f"[tables.{table.name}] has seeds of {'.'.join(place)}, which is none of its rows")
    else:
        lists = {} if seeds is None else {("", ""): seeds}
    for found in lists.values():
        if not isinstance(found, list) or not all(isinstance(seed, int) for seed in found):
            raise ValueError(f"[tables.{table.name}] has seeds that are no list of whole numbers")


@cache
def the_paper() -> Book:
    """The FLEX paper's tables."""
    plan = load_plan()
    tables = {name: load_table(name) for name in NAMES}
    return Book(tables, plan["seed"], plan["models"], plan["tables"], plan["common"])


@cache
def _config(recipe: str, overrides: tuple[str, ...]) -> RunConfig:
    from flexkg.config import load_recipe

    return load_recipe(recipe, overrides)
