"""The cells of a table: what the paper printed, which runs measure it here, and what they gave."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from flexkg.errors import DataError
from flexkg.paper.plan import Job, swept_label
from flexkg.paper.results import changed_settings, find, plain_name
from flexkg.paper.tables import AVERAGE, COMPARISON

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from flexkg.evaluation.statistics import Difference
    from flexkg.paper.comparison import Comparison
    from flexkg.paper.plan import Book
    from flexkg.paper.results import Result
    from flexkg.paper.tables import Row, Table
    from flexkg.paper.workloads import Registry

EPFO = ("1p", "2p", "3p", "2i", "3i", "pi", "ip", "2u", "up")
NEGATION = ("2in", "3in", "inp", "pin", "pni")

_OURS = ("sweep", "metrics")
"""Kinds of tables that may have columns that the paper has not."""


@dataclass(frozen=True)
class Cell:
    """A place in a table."""

    table: str
    dataset: str
    row: str
    column: str
    paper: float | None
    paper_error: float | None = None
    jobs: tuple[Job, ...] = ()
    """Several for several seeds."""
    pairs: tuple[tuple[Job, Job], ...] = ()
    """In a comparison the two runs of each seed, which are among the jobs; the value is a difference of the two."""
    shapes: tuple[str, ...] = ()
    """In a comparison: what it is about."""
    take: Callable[[Result], float | None] | None = None
    """Reads the value from a result."""
    live: float | None = None
    """A value that needs no run."""

    def matching(self, words: Sequence[str]) -> list[Job]:
        """The runs for which every word is the cell's row, column or graph, or the run's own name."""
        asked = {word.casefold() for word in words} - {
            self.dataset.casefold(),
            self.row.casefold(),
            self.column.casefold(),
        }
        return [job for job in self.jobs if asked <= {job.name.casefold(), job.stem.casefold()}]


@dataclass(frozen=True)
class Filled:
    """A cell with what was measured here."""

    cell: Cell
    ours: float | None
    ours_error: float | None
    results: tuple[Result, ...]
    exact: bool
    """Whether the results were made with the present settings and the committed queries."""
    comparison: Comparison | None = None
    """Behind a difference of two models."""

    @property
    def against(self) -> Difference | None:
        """The difference of two models with its interval; between -1 and 1, not × 100."""
        return None if self.comparison is None else self.comparison.difference(self.cell.shapes)

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.ours is None or self.cell.paper is None else self.ours - self.cell.paper

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        paths = [f"{result.dataset}/{result.name}" for result in self.results]
        content: dict[str, Any] = {
            "dataset": self.cell.dataset,
            "row": self.cell.row,
            "column": self.cell.column,
            "paper": self.cell.paper,
            "ours": _rounded(self.ours),
            "difference": _rounded(self.difference),
            "result": paths[0] if len(paths) == 1 else paths or None,
        }
        if self.cell.paper_error is not None:
            content["paper_error"] = self.cell.paper_error
        if self.cell.paper_error is not None or self.ours_error is not None:
            content["ours_error"] = _rounded(self.ours_error)
        if self.results:
            content["exact"] = self.exact
        if self.comparison is not None and (against := self.against) is not None:
            content |= {
                "ci95": [_rounded(100 * end) for end in against.ci95],
                "p": against.p,
                "seeds": list(self.comparison.seeds),
                "by_seed": [_rounded(100 * value) for value in self.comparison.each(self.cell.shapes)],
            }
        return content


def cells_of(table: Table, book: Book, registry: Registry) -> list[Cell]:
    """The cells of a table; those that the paper leaves empty are left out, unless they are for runs of our own."""
    cells = []
    for row in table.rows:
        made = [_cell(table, row, place, book, registry) for place in range(len(table.columns))]
        # A row that the paper says nothing of is one of our own.
        ours = table.kind in _OURS or all(cell.paper is None for cell in made)
        cells += [cell for cell in made if cell.paper is not None or (ours and (cell.jobs or cell.live is not None))]
    return cells


def _cell(table: Table, row: Row, place: int, book: Book, registry: Registry) -> Cell:
    column = table.columns[place]
    try:
        extra = _MAKERS[table.kind](table, row, column, book, registry)
    except KeyError as error:
        raise DataError(f"The table {table.name} cannot be about {error.args[0]!r} ({row.row}, {column}).") from None
    printed = extra.pop("paper", None)
    paper = printed if row.values[place] is None else row.values[place]
    return Cell(table.name, row.dataset, row.row, column, paper, row.errors[place], **extra)


def fill_all(cells: Sequence[Cell], results: Sequence[Result], registry: Registry) -> list[Filled]:
    """What the results say about cells; those of one comparison share it, since reading its queries takes a while."""
    compared: dict[tuple[tuple[Job, Job], ...], Filled] = {}
    filled = []
    for cell in cells:
        if not cell.pairs:
            filled.append(fill(cell, results, registry))
            continue
        if cell.pairs not in compared:
            compared[cell.pairs] = _compared(cell, results, registry)
        row = compared[cell.pairs]
        value = None if row.comparison is None else row.comparison.value(cell.shapes)
        nothing = Filled(cell, None, None, (), False)
        filled.append(nothing if value is None else replace(row, cell=cell, ours=100 * value))
    return filled


def _compared(cell: Cell, results: Sequence[Result], registry: Registry) -> Filled:
    """The comparison behind the cells of a row."""
    from flexkg.paper.comparison import compare

    found = {job: result for job in cell.jobs if (result := recorded(job, results)) is not None}
    both = [(found[one], found[other]) for one, other in cell.pairs if one in found and other in found]
    comparison = compare(both)
    if comparison is None:
        return Filled(cell, None, None, (), False)
    used = tuple(result for pair in comparison.results for result in pair)
    exact = all(up_to_date(result, job, registry) for job, result in found.items() if result in used)
    return Filled(cell, None, None, used, exact, comparison)


def fill(cell: Cell, results: Sequence[Result], registry: Registry) -> Filled:
    """What the results say about a cell: the mean over its runs, and the standard deviation of two or more."""
    if cell.take is None:
        return Filled(cell, cell.live, None, (), True)
    found: list[tuple[float, Result, bool]] = []
    for job in cell.jobs:
        result = recorded(job, results)
        value = None if result is None else cell.take(result)
        if result is not None and value is not None:
            found.append((value, result, up_to_date(result, job, registry)))
    if not found:
        return Filled(cell, None, None, (), False)
    values = [value for value, _, _ in found]
    error = stdev(values) if len(values) > 1 else None
    return Filled(cell, fmean(values), error, tuple(result for _, result, _ in found), all(good for *_, good in found))


def recorded(job: Job, results: Sequence[Result]) -> Result | None:
    """The result of a job, if there is one."""
    return find(
        results,
        kind=job.kind,
        dataset=job.dataset,
        recipe=job.recipe_name,
        seed=job.seed,
        label=job.label,
        config=job.config.model_dump(mode="json"),
    )


def up_to_date(result: Result, job: Job, registry: Registry) -> bool:
    """Whether a result has the job's settings and the committed queries, and holds what the job evaluates."""
    return not outdated(result, job, registry)


def outdated(result: Result, job: Job, registry: Registry) -> list[str]:
    """What a result was made with that is not so any more: settings, queries, shapes, mistakes."""
    reasons = changed_settings(result, job.config.model_dump(mode="json"))
    if result.flaw:
        reasons.append(result.flaw)
    entry = registry.get(job.dataset)
    if entry is None or entry.checksum != result.workload["checksum"]:
        reasons.append("other queries")
    if job.kind == "run" and not set(job.shapes) <= set(result.metrics.get("shapes", {})):
        reasons.append("fewer shapes")
    return reasons


def _mrr(table: Table, row: Row, column: str, book: Book, _: Registry) -> dict[str, Any]:
    job = book.job(row.row, row.dataset)
    return {"jobs": () if job is None else (job,), "take": _mean_of("mrr", _shapes(table, column))}


def _error_bars(table: Table, row: Row, column: str, book: Book, _: Registry) -> dict[str, Any]:
    jobs = [book.job(row.row, row.dataset, seed=seed) for seed in book.settings[table.name]["seeds"]]
    return {"jobs": tuple(job for job in jobs if job), "take": _mean_of("mrr", _shapes(table, column))}


def _comparison(table: Table, row: Row, column: str, book: Book, _: Registry) -> dict[str, Any]:
    """The favourite and the row's model, with each seed that runs.toml gives for the two."""
    favourite = book.favourite(table)
    seeds = book.settings.get(table.name, {}).get("seeds", {}).get(row.dataset, {}).get(row.row, [book.seed])
    both = [[book.job(name, row.dataset, seed=seed) for name in (favourite, row.row)] for seed in seeds]
    pairs = tuple((one, other) for one, other in both if one is not None and other is not None)
    shapes = {"EPFO": EPFO, "negation": NEGATION}.get(column, (column,))
    gaps = [_minus(book.printed(row.dataset, name, shape) for name in (favourite, row.row)) for shape in shapes]
    known = [gap for gap in gaps if gap is not None]
    paper = fmean(known) if len(known) == len(shapes) else None
    jobs = tuple(job for pair in pairs for job in pair)
    return {"jobs": jobs, "pairs": pairs, "shapes": shapes, "paper": paper}


def _minus(both: Iterable[float | None]) -> float | None:
    one, other = both
    return None if one is None or other is None else one - other


def _metrics(_table: Table, row: Row, column: str, book: Book, _: Registry) -> dict[str, Any]:
    job = book.job(column, row.dataset)
    return {"jobs": () if job is None else (job,), "take": _mean_of(row.row, ("1p",))}


def _sweep(table: Table, row: Row, column: str, book: Book, _: Registry) -> dict[str, Any]:
    settings = book.settings[table.name]
    model, setting = str(settings["model"]), str(settings["setting"])
    job = book.job(model, row.dataset)
    if job is None:
        raise KeyError(model)
    section, key = setting.partition(".")[::2]
    if str(job.config.model_dump(mode="json").get(section, {}).get(key)) != row.row:
        # With the model's own setting it is the run of the main table.
        changed = f"{setting}={row.row}"
        job = book.job(model, row.dataset, label=swept_label(settings, row.row), overrides=(changed,))
    return {"jobs": (job,), "take": _SWEPT[column]}


def _time(table: Table, row: Row, column: str, book: Book, _: Registry) -> dict[str, Any]:
    settings = book.settings[table.name]
    recipe, *changes = settings["models"][column]
    # Two columns may be one recipe with different settings; the label keeps their files apart.
    label = plain_name("-".join([_plain(change) for change in changes] + [f"d{row.row}"]))
    job = Job(
        "time",
        row.dataset,
        recipe,
        book.seed,
        label,
        (*changes, *settings["set"], f"model.dim={row.row}"),
        seconds=settings["seconds"],
    )
    steps = settings["steps"]
    return {"jobs": (job,), "take": lambda result: result.metrics["seconds_per_step"] * steps / 86_400}


def _parameters(table: Table, row: Row, column: str, book: Book, _: Registry) -> dict[str, Any]:
    from flexkg.paper.live import count_parameters

    recipe, *changes = book.settings[table.name]["models"][column]
    return {"live": count_parameters(recipe, (*changes, f"model.dim={row.row}"), row.dataset) / 1e6}


def _datasets(_table: Table, row: Row, column: str, _book: Book, _: Registry) -> dict[str, Any]:
    from flexkg.paper.live import dataset_sizes

    return {"live": dataset_sizes(row.dataset)[column]}


def _queries(_table: Table, row: Row, column: str, _book: Book, registry: Registry) -> dict[str, Any]:
    entry = registry.get(row.dataset)
    split, _, which = column.partition(" ")
    if entry is None:
        return {}
    counts: Mapping[str, int] = entry.queries[split]
    wanted = {
        "EPFO": ("1p", "2p", "3p", "2i", "3i"),
        "negation": NEGATION,
        "1p": ("1p",),
        "others": tuple(shape for shape in EPFO + NEGATION if shape != "1p"),
    }[which]
    found = {counts.get(shape, 0) for shape in wanted}
    # One number stands for all of them only if they are alike.
    return {"live": float(found.pop()) if len(found) == 1 else None}


def _settings(_table: Table, row: Row, column: str, book: Book, _: Registry) -> dict[str, Any]:
    """The settings of the recorded run, not of the recipe as it is now."""
    job = book.job("FLEX", row.dataset)
    section, key = {
        "dimension": ("model", "dim"),
        "batch size": ("training", "batch_size"),
        "negatives": ("training", "negatives"),
        "margin": ("model", "margin"),
        "learning rate": ("training", "learning_rate"),
    }[column]
    return {"jobs": () if job is None else (job,), "take": lambda result: float(result.config[section][key])}


_MAKERS: dict[str, Callable[[Table, Row, str, Book, Registry], dict[str, Any]]] = {
    "mrr": _mrr,
    "error-bars": _error_bars,
    COMPARISON: _comparison,
    "metrics": _metrics,
    "sweep": _sweep,
    "time": _time,
    "parameters": _parameters,
    "datasets": _datasets,
    "queries": _queries,
    "settings": _settings,
}


def _shapes(table: Table, column: str) -> tuple[str, ...]:
    return tuple(name for name in table.columns if name != AVERAGE) if column == AVERAGE else (column,)


def _mean_of(metric: str, shapes: tuple[str, ...]) -> Callable[[Result], float | None]:
    def take(result: Result) -> float | None:
        found = result.metrics.get("shapes", {})
        if not all(shape in found and metric in found[shape] for shape in shapes):
            return None
        return 100 * fmean(float(found[shape][metric]) for shape in shapes)

    return take


_SWEPT: dict[str, Callable[[Result], float | None]] = {
    "validation MRR": lambda result: None if result.best is None else 100 * float(result.best["mrr"]),
    "test MRR": _mean_of("mrr", EPFO + NEGATION),
    "test EPFO": _mean_of("mrr", EPFO),
    "test negation": _mean_of("mrr", NEGATION),
    "minutes": lambda result: float(result.seconds["train"]) / 60,
}
"""The columns of a sweep."""


def _plain(change: str) -> str:
    key, _, value = change.partition("=")
    return f"{key.rpartition('.')[2]}{value}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
