"""The recorded runs as tables and plots of the page of results: what each took and gave, and the spread over seeds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from flexkg.paper.cells import EPFO, NEGATION
from flexkg.paper.pace import pace_of
from flexkg.paper.plan import Job
from flexkg.paper.plots import Point, draw_curves, draw_minutes
from flexkg.paper.render import LEGENDS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from flexkg.paper.pace import Pace
    from flexkg.paper.plan import Book
    from flexkg.paper.results import Result

AVERAGES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "EPFO": ("mrr_epfo", EPFO),
    "negation": ("mrr_negation", NEGATION),
}
"""Names of the averages, what `flexkg evaluate` calls them, and the shapes that they are over."""

CHANGED, SHARED = (f"`{mark}`: {LEGENDS[mark]}." for mark in "~†")


def average_of(result: Result, name: str) -> float | None:
    """MRR × 100 over all shapes of an average; None where one of them was not evaluated."""
    shapes = result.metrics.get("shapes", {})
    members = AVERAGES[name][1]
    return 100 * fmean(shapes[shape]["mrr"] for shape in members) if set(members) <= set(shapes) else None


def with_interval(result: Result, name: str) -> str:
    """An average with its 95% interval, as text."""
    value = average_of(result, name)
    if value is None:
        return ""
    average: Mapping[str, Any] = (result.metrics.get("averages") or {}).get(AVERAGES[name][0]) or {}
    interval = average.get("ci95") or []
    around = f" ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})" if len(interval) == 2 else ""
    return f"{value:.1f}{around}"


def list_runs(found: Sequence[Result], old: Mapping[str, Sequence[str]]) -> str:
    """What was trained, on what, how long it took and what it gave; `old` says of runs what has changed since."""
    runs = sorted((result for result in found if result.kind == "run"), key=_order)
    lines = ["## Runs", ""]
    if not runs:
        return "\n".join([*lines, "No run is recorded yet.", ""])
    lines += [
        "Every run that was trained to its end. Minutes of training, validations and checkpoints included; of these",
        "what the first steps took longer than later ones, which is compilation for the most; and as a whole, with",
        "preparation, calibration and the evaluation of all test queries. MRR × 100 with 95% intervals by bootstrap",
        "over the queries. The weights are those of the best validation.",
        "",
        "| run | device | steps | training | of it start | whole | queries/s | 1p | EPFO | negation |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for result in runs:
        start = result.seconds.get("start")
        mark = " †" if result.shared_device else ""
        shapes = result.metrics.get("shapes", {})
        cells = [
            f"`{_run(result)}`{'~' if _run(result) in old else ''}",
            result.device,
            f"{result.steps:,}",
            f"{result.seconds['train'] / 60:.1f}{mark}",
            "" if start is None else f"{start / 60:.1f}",
            f"{result.seconds['whole'] / 60:.1f}{mark}",
            f"{result.queries_per_second:,.0f}{mark}",
            f"{100 * shapes['1p']['mrr']:.1f}" if "1p" in shapes else "",
            with_interval(result, "EPFO"),
            with_interval(result, "negation"),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    if any(result.shared_device for result in runs):
        lines += ["", SHARED]
    if any(_run(result) in old for result in runs):
        lines += ["", f"{CHANGED} Then they were:", ""]
        lines += [f"- `{_run(run)}`: {'; '.join(old[_run(run)])}" for run in runs if _run(run) in old]
    return "\n".join([*lines, ""])


def list_seeds(found: Sequence[Result]) -> str:
    """Mean and standard deviation of the runs that differ by their seed alone; empty where there are none."""
    groups: dict[tuple[str, str, str, str], list[Result]] = {}
    for result in sorted((result for result in found if result.kind == "run"), key=_order):
        training = {key: value for key, value in result.config["training"].items() if key != "seed"}
        settings = json.dumps([result.workload["checksum"], result.config["model"], training], sort_keys=True)
        groups.setdefault((result.dataset, result.recipe, result.label, settings), []).append(result)
    several = {key: runs for key, runs in groups.items() if len(runs) > 1}
    if not several:
        return ""
    lines = [
        "### Over seeds",
        "",
        "MRR × 100: mean and standard deviation over the seeds of a run. Of the paper's tables below only the error",
        "bars are over several seeds; the others show seed 1.",
        "",
        "| graph | run | seeds | 1p | EPFO | negation |",
        "|---|---|---|---|---|---|",
    ]
    for (dataset, recipe, label, _), runs in several.items():
        ones = [100 * run.metrics["shapes"]["1p"]["mrr"] for run in runs if "1p" in run.metrics.get("shapes", {})]
        averages = [[average_of(run, name) for run in runs] for name in AVERAGES]
        cells = [
            dataset,
            f"{recipe} {label}".strip(),
            ", ".join(str(run.seed) for run in runs),
            *map(_spread, [ones, *averages]),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def draw_runs(
    found: Sequence[Result], dataset: str, book: Book, paces: Mapping[str, Pace], old: Collection[str]
) -> str | None:
    """MRR against minutes of training, of a graph's runs for those that answer all shapes without negation.

    Where something else used the device, minutes are those that the updates take alone, if that was measured of a run
    with the same settings; `old` names runs whose settings have changed since.
    """
    runs = [run for run in sorted(found, key=_order) if run.kind == "run"]
    titles = _titles(dataset, book)
    runs.sort(key=lambda run: (run.label != "", titles.place(run)))
    panels: dict[str, list[Point]] = {}
    for name in AVERAGES:
        for run in runs:
            value = average_of(run, name)
            if value is not None:
                pace = pace_of(run, paces, book) if run.shared_device and _run(run) not in old else None
                minutes = run.seconds["train"] / 60 if pace is None else pace.minutes(run.steps)
                title = titles.title(run)
                note = f"{title}, seed {run.seed}: {value:.1f} after {minutes:.1f} minutes on {run.device}"
                hollow = run.shared_device and pace is None
                panels.setdefault(name, []).append(Point(title, note, minutes, value, hollow))
    if not panels:
        return None
    levels = {}
    for name in panels:
        printed = [book.printed(dataset, "FLEX", shape) for shape in AVERAGES[name][1]]
        values = [value for value in printed if value is not None]
        if len(values) == len(printed):
            levels[name] = (fmean(values), "FLEX in the paper")
    return draw_minutes(f"{dataset}: test MRR × 100 against minutes of training", panels, levels, "minutes of training")


def draw_validations(found: Sequence[Result], dataset: str, book: Book) -> str | None:
    """Validation MRR over the trainings of a graph's runs; None where none is recorded.

    Along the bottom is the part of a training that is done: those that are compared are equally long.
    """
    titles = _titles(dataset, book)
    runs = [run for run in found if run.kind == "run" and titles.is_model(run) and run.validations]
    runs.sort(key=lambda run: (titles.place(run), run.seed))
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for run in runs:
        several = sum(titles.title(other) == titles.title(run) for other in runs) > 1
        title = f"{titles.title(run)}, seed {run.seed}" if several else titles.title(run)
        for name, (_, shapes) in AVERAGES.items():
            curve = [
                (100 * each["step"] / run.steps, 100 * fmean(each["shapes"][shape] for shape in shapes))
                for each in run.validations
                if set(shapes) <= set(each["shapes"])
            ]
            if curve:
                panels.setdefault(name, {})[title] = curve
    if not panels:
        return None
    return draw_curves(f"{dataset}: validation MRR × 100 while training", panels, "% of the training")


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

    def place(self, run: Result) -> int:
        model = self._model(run)
        return len(self.models) if model is None else list(self.models).index(model)


def _titles(dataset: str, book: Book) -> _Titles:
    """FLEX first, then in the order of the plan: a model has one colour."""
    names = sorted(book.models, key=lambda name: name != "FLEX")
    jobs = {name: Job("run", dataset, str(book.models[name]["recipe"]), 0) for name in names}
    return _Titles({(job.recipe_name, str(book.models[name].get("label", ""))): name for name, job in jobs.items()})


def _spread(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return "" if len(known) < 2 else f"{fmean(known):.2f} ±{stdev(known):.2f}"


def _run(result: Result) -> str:
    return f"{result.dataset}/{result.name.removesuffix('.json')}"


def _order(result: Result) -> tuple[str, str, str, int]:
    return result.dataset, result.recipe, result.label, result.seed
