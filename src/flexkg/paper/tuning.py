"""What was tried on validation queries: a line for each trial in results/tuning.jsonl, and a section of the page."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from flexkg.errors import DataError
from flexkg.kg.storage import atomic_file, locked, os_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FILE = "tuning.jsonl"

_OWN = ("model.", "training.learning_rate=", "training.weight_decay=", "training.table_rate=")
"""What each model of the tables has for itself; loss, mix and schedule are the same for all."""


@dataclass(frozen=True)
class Trial:
    """One setting, trained to its end and ranked on all validation queries; figures are MRR between 0 and 1."""

    graph: str
    round: str
    """Trials of a round differ only in what is named."""
    name: str
    recipe: str
    base: tuple[str, ...]
    """Settings that all trials of the round share, as `--set` takes them."""
    changed: tuple[str, ...]
    """Settings of this one."""
    steps: int
    device: str
    date: str
    mrr: float
    epfo: float | None
    negation: float | None
    shapes: Mapping[str, float]


def read_trials(results: Path) -> list[Trial]:
    """All trials of a folder of results, in the order in which they ended."""
    path = results / FILE
    if not path.is_file():
        return []
    with os_errors(path, "read"):
        # A byte that is no UTF-8 makes its own line no trial.
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    trials = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            trials.append(Trial(**row | {"base": tuple(row["base"]), "changed": tuple(row["changed"])}))
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(
                f"{path}, line {number}, is no trial: {error}.", hint="Restore it from version control."
            ) from None
    return trials


def add_trial(results: Path, trial: Trial) -> None:
    """Add a line; what was there is never lost, also where several add at once."""
    with os_errors(results):
        results.mkdir(parents=True, exist_ok=True)
    with locked(results / FILE):
        trials = [*read_trials(results), trial]
        with atomic_file(results / FILE) as partial:
            text = "".join(json.dumps(asdict(each), ensure_ascii=False) + "\n" for each in trials)
            partial.write_text(text, encoding="utf-8")


def list_trials(trials: Sequence[Trial]) -> str:
    """The section of the page: a table for each round and graph, the best first; empty if nothing was tried."""
    if not trials:
        return ""
    lines = [
        "## What was tried",
        "",
        "Trials of settings on all validation queries, shorter than the trainings above and in part with smaller",
        "models. A table is one round: its trials differ in what is named. MRR × 100. The lines are in",
        "`results/tuning.jsonl`; `python scripts/tune.py PLAN.toml` makes more of them. One seed each; trials that",
        "did not end are not listed. A recipe is put together from such trials, and may differ from each of them; how",
        "many near misses there are on a graph was chosen among full runs, by their validation.",
        "",
        *_efforts(trials),
        "",
    ]
    for place in dict.fromkeys((trial.round, trial.graph) for trial in trials):
        own = [trial for trial in trials if (trial.round, trial.graph) == place]
        first = own[0]
        lines += [
            f"**{place[1]}, round {place[0]}.** Recipe `{first.recipe}` with "
            + (", ".join(f"`{text}`" for text in first.base) or "its own settings")
            + ".",
            "",
            "| trial | settings | steps | MRR | EPFO | negation |",
            "|---|---|---|---|---|---|",
        ]
        for trial in sorted(own, key=lambda each: -each.mrr):
            settings = ", ".join(f"`{text}`" for text in trial.changed)
            cells = [_number(value) for value in (trial.mrr, trial.epfo, trial.negation)]
            lines.append(f"| {trial.name} | {settings} | {trial.steps:,} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def _efforts(trials: Sequence[Trial]) -> list[str]:
    """A table of how much was tried of each recipe, the most first: whether models had the same chances."""
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.recipe, trial.graph), []).append(trial)
    lines = [
        "Loss, mix of shapes and schedule are the same for all models of the tables, and were tried with FLEX for the",
        "most. A model's own settings are what `model` has, learning rate, decay and the rate of tables; the last",
        "three columns are of the trials in which one of these differs. This division was made after the trials. As",
        "many trials are not as much effort where they are shorter, or of small models on a CPU.",
        "",
        "| recipe | graph | trials | on a GPU | updates there | on a CPU | own settings: on a GPU | updates there "
        "| on a CPU |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (recipe, graph), tried in sorted(groups.items(), key=lambda item: -len(item[1])):
        lent = [trial for trial in tried if trial.device != "cpu"]
        own = [trial for trial in tried if any(text.startswith(_OWN) for text in trial.changed)]
        own_lent = [trial for trial in lent if trial in own]
        lines.append(
            f"| `{recipe}` | {graph} | {len(tried)} | {len(lent)} | {sum(trial.steps for trial in lent):,} "
            f"| {len(tried) - len(lent)} | {len(own_lent)} | {sum(trial.steps for trial in own_lent):,} "
            f"| {len(own) - len(own_lent)} |"
        )
    return lines


def _number(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}"
