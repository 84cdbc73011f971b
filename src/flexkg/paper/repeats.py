"""Published queries that come again in another order of their operands: results/repeats.json, and what they change."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from flexkg.errors import DataError
from flexkg.kg.storage import atomic_file, read_json, write_json
from flexkg.paper.queries import load_queries
from flexkg.sampling.sampler import fingerprints

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from flexkg.paper.results import Result
    from flexkg.sampling.workload import Workload

FILE = "repeats.json"


@dataclass(frozen=True)
class Repeats:
    """Of a graph's test queries those that an earlier one is equal to but for the order of its operands."""

    checksum: str
    """Of the workload."""
    rows: Mapping[str, Sequence[int]]
    """By shape; shapes without any are left out."""


def find_repeats(workload: Workload, shapes: Sequence[str]) -> Repeats:
    """Compare the test queries of these shapes with each other."""
    rows = {}
    for shape in shapes:
        marks = fingerprints(workload.queries("test", shape))
        _, first = np.unique(marks.numpy(), return_index=True)
        if len(first) < len(marks):
            rows[shape] = np.setdiff1d(np.arange(len(marks)), first).tolist()
    return Repeats(workload.checksum, rows)


def read_repeats(results: Path) -> dict[str, Repeats]:
    """What was found, by graph; nothing if there is no such file."""
    path = results / FILE
    if not path.is_file():
        return {}
    try:
        return {name: Repeats(**entry) for name, entry in read_json(path).items()}
    except (TypeError, AttributeError) as error:
        raise DataError(f"{path} has no repeated queries: {error}.", hint="Restore it from version control.") from None


def write_repeats(results: Path, repeats: Mapping[str, Repeats]) -> None:
    """Write the file, graphs in the order of their names."""
    with atomic_file(results / FILE) as partial:
        write_json(partial, {name: asdict(repeats[name]) for name in sorted(repeats)})


def list_repeats(repeats: Mapping[str, Repeats], runs: Mapping[str, Result]) -> str:
    """A part of the page: what the repeated queries do to one run on each graph; empty if that cannot be said."""
    lines = []
    for name, found in repeats.items():
        loaded = load_queries(runs[name]) if name in runs else None
        if loaded is None or runs[name].workload["checksum"] != found.checksum:
            continue
        values, _ = loaded
        for shape in (shape for shape in values if shape in found.rows):
            once = np.delete(values[shape], found.rows[shape])
            means = f"{100 * values[shape].mean():.1f} | {100 * once.mean():.1f}"
            lines.append(f"| {name} | {shape} | {len(values[shape]):,} | {len(once):,} | {means} |")
    if not lines:
        return ""
    return "\n".join(
        [
            "Of the published ones `a & b` and `b & a` count as two, and one with many answers, which the walk from",
            "any of them can lead to, often comes again. Such queries are harder, as FLEX shows (`python",
            "scripts/repeats.py` finds them):",
            "",
            "| graph | shape | published queries | of them different | MRR on all | each once |",
            "|---|---|---|---|---|---|",
            *lines,
            "",
            "So where queries were sampled, our figures for these shapes are a little higher than they would be on",
            "the published ones; [how much, by estimate](why/sampling.md#as-published-and-not-quite). Comparisons",
            "between models trained here are on the same queries, and not concerned.",
            "",
        ]
    )
