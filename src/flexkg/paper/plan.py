"""Which run measures what: the paper's models as our recipes, with their settings, graphs and seeds (runs.toml)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from flexkg.errors import DataError
from flexkg.kg.storage import os_errors
from flexkg.paper.results import file_stem
from flexkg.paper.tables import COMPARISON, NAMES, Table, load_plan, load_table, parse_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from flexkg.config import RunConfig


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
    def stem(self) -> str:
        """The result file's name without its ending."""
        return file_stem(self.kind, self.recipe, self.seed, self.label)

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
    """By the paper's name: `recipe`, `common`, `set`, `datasets`, `shapes`."""
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
            tables = {name: parse_table(name, content) for name, content in plan["content"].items()}
            book = cls(
                tables, plan.get("seed", 0), plan.get("models", {}), plan.get("tables", {}), plan.get("common", {})
            )
            for entry in book.models.values():
                if "common" in entry and str(entry["common"]) not in book.common:
                    raise ValueError(f"its [common] has no {entry['common']}")
            return book
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DataError(f"{path} is not TOML: {error}.") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"{path} is not a plan: {error}.", hint="See the reference of `paper run`.") from None

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
