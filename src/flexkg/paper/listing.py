"""The recorded runs as tables of the page of results: what each took and gave, and the spread over seeds."""

from __future__ import annotations

import json
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from flexkg.paper.cells import EPFO, NEGATION
from flexkg.paper.render import LEGENDS
from flexkg.paper.results import deciding_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


def interval_of(result: Result, name: str) -> tuple[float, float] | None:
    """The 95% interval of an average, × 100; None where it was not measured."""
    average: Mapping[str, Any] = (result.metrics.get("averages") or {}).get(AVERAGES[name][0]) or {}
    ends = average.get("ci95") or []
    return (100 * ends[0], 100 * ends[1]) if len(ends) == 2 else None


def with_interval(result: Result, name: str) -> str:
    """An average with its 95% interval, as text."""
    value, ends = average_of(result, name), interval_of(result, name)
    if value is None:
        return ""
    around = "" if ends is None else f" ({ends[0]:.1f} to {ends[1]:.1f})"
    return f"{value:.1f}{around}"


def list_runs(found: Sequence[Result], old: Mapping[str, Sequence[str]]) -> str:
    """What was trained, on what, how long it took and what it gave; `old` says of runs what has changed since."""
    runs = sorted((result for result in found if result.kind == "run"), key=by_name)
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
            f"`{name_of(result)}`{'~' if name_of(result) in old else ''}",
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
    if any(name_of(result) in old for result in runs):
        lines += ["", f"{CHANGED} Then they were:", ""]
        lines += [f"- `{name_of(run)}`: {'; '.join(old[name_of(run)])}" for run in runs if name_of(run) in old]
    return "\n".join([*lines, ""])


def list_seeds(found: Sequence[Result]) -> str:
    """Mean and standard deviation of the runs that differ by their seed alone; empty where there are none."""
    groups: dict[tuple[str, str, str, str], list[Result]] = {}
    for result in sorted((result for result in found if result.kind == "run"), key=by_name):
        settings = deciding_settings(result)
        if settings is None:
            continue
        alike = json.dumps([result.workload["checksum"], {**settings, "training.seed": None}], sort_keys=True)
        groups.setdefault((result.dataset, result.recipe, result.label, alike), []).append(result)
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


def _spread(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return "" if len(known) < 2 else f"{fmean(known):.2f} ±{stdev(known):.2f}"


def name_of(result: Result) -> str:
    """A run's graph and file, as plans call it."""
    return f"{result.dataset}/{result.name.removesuffix('.json')}"


def by_name(result: Result) -> tuple[str, str, str, int]:
    """Sorts runs."""
    return result.dataset, result.recipe, result.label, result.seed
