"""What the plots of the page of results show: a graph's runs by shape, by model and by minutes, and sweeps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from flexkg.paper import plots
from flexkg.paper.cells import EPFO, NEGATION
from flexkg.paper.listing import AVERAGES, average_of, by_name, interval_of, name_of, with_interval
from flexkg.paper.pace import minutes_of
from flexkg.paper.plan import Job
from flexkg.paper.tables import AVERAGE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from flexkg.paper.pace import Pace
    from flexkg.paper.plan import Book
    from flexkg.paper.render import Page
    from flexkg.paper.results import Result


@dataclass(frozen=True)
class Picture:
    """A plot with what the page says of it."""

    file: str
    title: str
    drawing: str
    remark: str = ""


def pictures_of(
    dataset: str,
    found: Sequence[Result],
    book: Book,
    pages: Mapping[str, Page],
    paces: Mapping[str, Pace],
    old: Collection[str],
) -> list[Picture]:
    """The plots of a graph for which there is something to show; `old` names runs whose settings have changed since."""
    runs = [run for run in sorted(found, key=by_name) if run.kind == "run" and run.dataset == dataset]
    named = (
        ("", "MRR by shape, the paper's and ours", draw_shapes(dataset, pages), ""),
        ("-models", "MRR by model, the paper's and ours", draw_models(runs, dataset, book, old), ""),
        ("-minutes", "MRR against minutes of training", draw_runs(runs, dataset, book, paces, old), _MINUTES),
        ("-validations", "validation MRR while training", draw_validations(runs, dataset, book), _VALIDATIONS),
    )
    return [
        Picture(f"results-{dataset}{suffix}.svg", f"{dataset}: {title}", drawing, remark)
        for suffix, title, drawing, remark in named
        if drawing is not None
    ]


_MINUTES = """\
Minutes are those that the updates take alone, if that was measured. Hollow points: it was not, and something else
used the device meanwhile; alone they would stand further to the left."""
_VALIDATIONS = """\
A validation ranks a sample of the queries; the weights of the best one are kept. Trainings are equally long. Older
results have no such curve."""


def draw_shapes(dataset: str, pages: Mapping[str, Page]) -> str | None:
    """FLEX in the paper and here, and the other models here, by shape; None where nothing was measured."""
    main = [pages["main-epfo"], pages["main-negation"]]
    rows = ["FLEX", *dict.fromkeys(row.row for page in main for row in page.table.rows if row.row != "FLEX")]
    series: dict[str, dict[str, float]] = {"FLEX, paper": {}, **{f"{row}, ours": {} for row in rows}}
    old: set[str] = set()
    for filled in (filled for page in main for filled in page.cells):
        cell = filled.cell
        if cell.dataset != dataset or cell.column == AVERAGE:
            continue
        if cell.row == "FLEX" and cell.paper is not None:
            series["FLEX, paper"][cell.column] = cell.paper
        if filled.ours is not None:
            series[f"{cell.row}, ours"][cell.column] = filled.ours
            if not filled.exact:
                old.add(f"{cell.row}, ours")
    if not any(values for name, values in series.items() if name != "FLEX, paper"):
        return None
    shown = {
        f"{name}~" if name in old else name: values for name, values in series.items() if values or name == "FLEX, ours"
    }
    return plots.draw_shapes(
        f"{dataset}: test MRR × 100 by shape", {"without negation": EPFO, "with negation": NEGATION}, shown
    )


def draw_models(runs: Sequence[Result], dataset: str, book: Book, old: Collection[str]) -> str | None:
    """The averages of a graph's models, the best here first, with the paper's; None before there are two."""
    titles = _titles(dataset, book)
    groups: dict[str, list[Result]] = {}
    for run in runs:
        if titles.is_model(run) and average_of(run, "EPFO") is not None:
            groups.setdefault(titles.title(run), []).append(run)
    if len(groups) < 2:
        return None
    panels: dict[str, list[plots.Row]] = {name: [] for name in AVERAGES}
    for title in sorted(groups, key=lambda title: -fmean(average_of(run, "EPFO") or 0.0 for run in groups[title])):
        shown = title + "~" * any(name_of(run) in old for run in groups[title])
        for name, rows in panels.items():
            values = tuple(
                plots.Value(f"{shown}, seed {run.seed}: {with_interval(run, name)}", value, interval_of(run, name))
                for run in groups[title]
                if (value := average_of(run, name)) is not None
            )
            rows.append(plots.Row(shown, _printed(book, dataset, title, name), values))
    return plots.draw_models(f"{dataset}: test MRR × 100 by model", panels)


def draw_runs(
    runs: Sequence[Result], dataset: str, book: Book, paces: Mapping[str, Pace], old: Collection[str]
) -> str | None:
    """MRR against minutes of training, of a graph's runs for those that answer all shapes without negation."""
    titles = _titles(dataset, book)
    panels: dict[str, list[plots.Point]] = {}
    # Minutes of another device compare with none of these.
    devices = Counter(run.device for run in runs).most_common(1)
    runs = [run for run in runs if run.device == devices[0][0]]
    for name in AVERAGES:
        for run in runs:
            value = average_of(run, name)
            if value is not None:
                minutes, alone = minutes_of(run, {} if name_of(run) in old else paces, book)
                title = titles.title(run)
                note = f"{title}, seed {run.seed}: {value:.1f} after {minutes:.1f} minutes on {run.device}"
                panels.setdefault(name, []).append(plots.Point(title, note, minutes, value, not alone))
    if not panels:
        return None
    levels = {
        name: (value, "FLEX in the paper")
        for name in panels
        if (value := _printed(book, dataset, "FLEX", name)) is not None
    }
    title = f"{dataset}: test MRR × 100 against minutes of training"
    return plots.draw_minutes(title, panels, levels, "minutes of training", titles.order(runs))


def draw_validations(runs: Sequence[Result], dataset: str, book: Book) -> str | None:
    """Validation MRR over the trainings of a graph's runs; None where none is recorded.

    Along the bottom is the part of a training that is done: those that are compared are equally long.
    """
    titles = _titles(dataset, book)
    panels: dict[str, list[plots.Curve]] = {}
    for run in sorted(runs, key=titles.place):
        for name, (_, shapes) in AVERAGES.items() if titles.is_model(run) else ():
            points = [
                (100 * each["step"] / run.steps, 100 * fmean(each["shapes"][shape] for shape in shapes))
                for each in run.validations
                if set(shapes) <= set(each["shapes"])
            ]
            if points:
                title = titles.title(run)
                panels.setdefault(name, []).append(plots.Curve(title, f"{title}, seed {run.seed}", points))
    if not panels:
        return None
    title = f"{dataset}: validation MRR × 100 while training"
    return plots.draw_curves(title, panels, "% of the training", titles.order(runs))


def picture_of(page: Page, book: Book, paces: Mapping[str, Pace]) -> Picture | None:
    """MRR over the setting of a sweep, and the minutes that compare; None before it was measured twice."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for filled in page.cells:
        if filled.ours is None:
            continue
        value, drawn = filled.ours, True
        if filled.cell.column == _TIME:
            value, drawn = minutes_of(filled.results[0], paces if filled.exact else {}, book)
        if drawn:
            curves.setdefault(filled.cell.column, []).append((float(filled.cell.row), value))
    if max((len(points) for column, points in curves.items() if column != _TIME), default=0) < 2:
        return None
    panels = {"MRR × 100": [plots.Curve(name, name, points) for name, points in curves.items() if name != _TIME]}
    timed = len(curves.get(_TIME, [])) > 1
    if timed:
        panels["minutes of training"] = [plots.Curve(_TIME, _TIME, curves[_TIME])]
    title, setting = page.table.title, book.settings[page.table.name]["setting"]
    drawing = plots.draw_curves(f"{title} on {page.table.datasets[0]}", panels, setting, page.table.columns)
    what, remark = ("MRR and minutes", _TIMED) if timed else ("MRR", _UNTIMED)
    return Picture(f"results-{page.table.name}.svg", f"{title}: {what}", drawing, remark)


_TIME = "minutes"
_TIMED = """\
Minutes are drawn as the updates take alone where that was measured, otherwise if nothing else used the device."""
_UNTIMED = """\
Minutes are not drawn: too few of them compare. [Running time by dimension](#running-time-by-dimension) has times of
updates alone."""


def _printed(book: Book, dataset: str, model: str, name: str) -> float | None:
    """An average as the mean of what the paper prints of its shapes; None where it lacks one."""
    printed = [book.printed(dataset, model, shape) for shape in AVERAGES[name][1]]
    values = [value for value in printed if value is not None]
    return fmean(values) if len(values) == len(printed) else None


@dataclass(frozen=True)
class _Titles:
    """What runs are called: by the plan's model of the same recipe whose label theirs begins with, and what is left."""

    models: Mapping[tuple[str, str], str]
    """Names by recipe and label, in the order in which they are drawn."""

    def _model(self, run: Result) -> tuple[str, str] | None:
        fitting = [
            (recipe, label)
            for recipe, label in self.models
            if recipe == run.recipe and (not label or f"{run.label}-".startswith(f"{label}-"))
        ]
        return max(fitting, key=lambda key: len(key[1]), default=None)

    def title(self, run: Result) -> str:
        model = self._model(run)
        if model is None:
            return f"{run.recipe} {run.label}".strip()
        return f"{self.models[model]} {run.label.removeprefix(model[1]).removeprefix('-')}".strip()

    def is_model(self, run: Result) -> bool:
        """Whether it is a model of the plan as it is, and no row of a sweep."""
        return (run.recipe, run.label) in self.models

    def order(self, runs: Iterable[Result]) -> list[str]:
        """The titles of a graph's runs that have averages: rows of sweeps come last."""
        drawn = [run for run in runs if average_of(run, "EPFO") is not None]
        drawn.sort(key=lambda run: (not self.is_model(run), self.place(run)))
        return list(dict.fromkeys(map(self.title, drawn)))

    def place(self, run: Result) -> int:
        model = self._model(run)
        return len(self.models) if model is None else list(self.models).index(model)


def _titles(dataset: str, book: Book) -> _Titles:
    """FLEX first, then in the order of the plan: a model has one colour."""
    names = sorted(book.models, key=lambda name: name != "FLEX")
    jobs = {name: Job("run", dataset, str(book.models[name]["recipe"]), 0) for name in names}
    return _Titles({(job.recipe_name, str(book.models[name].get("label", ""))): name for name, job in jobs.items()})
