"""How long an update of each run takes where nothing else computes: results/pace.json, and a section of the page."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from flexkg.errors import DataError
from flexkg.kg.storage import atomic_file, read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from flexkg.paper.plan import Book, Job
    from flexkg.paper.results import Result

FILE = "pace.json"


@dataclass(frozen=True)
class Pace:
    """What was measured of one run."""

    run: str
    milliseconds: float
    """Of one update."""
    device: str
    date: str

    def minutes(self, steps: int) -> float:
        """How long so many updates take."""
        return self.milliseconds * steps / 60_000


def read_paces(results: Path) -> dict[str, Pace]:
    """What was measured, by run; nothing if there is no such file."""
    path = results / FILE
    if not path.is_file():
        return {}
    try:
        rows = [row | {"milliseconds": float(row["milliseconds"])} for row in read_json(path)["paces"]]
        return {row["run"]: Pace(**row) for row in rows}
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} has no paces: {error}.", hint="Restore it from version control.") from None


def find_pace(paces: Mapping[str, Pace], dataset: str, recipe: str, label: str) -> Pace | None:
    """What was measured of a run with whichever seed; None if nothing was."""
    for run, pace in paces.items():
        graph, _, stem = run.partition("/")
        trained, _, rest = stem.rpartition("-seed")
        if (graph, trained, rest.partition("-")[2]) == (dataset, recipe, label):
            return pace
    return None


def pace_of(result: Result, paces: Mapping[str, Pace], book: Book) -> Pace | None:
    """What was measured of a run, however long, on the device that it was made on; None if nothing was."""
    pace = find_pace(paces, result.dataset, result.recipe, book.without_length(result.label))
    return pace if pace is not None and pace.device == result.device else None


def minutes_of(result: Result, paces: Mapping[str, Pace], book: Book) -> tuple[float, bool]:
    """The minutes of a training, and whether they compare with others.

    Those that its updates take alone, if that was measured; otherwise as it was trained, which says little where
    something else used the device.
    """
    pace = pace_of(result, paces, book)
    if pace is not None:
        return pace.minutes(result.steps), True
    return float(result.seconds["train"]) / 60, not result.shared_device


def keep_paces(results: Path, measured: Iterable[Pace]) -> None:
    """Put measurements into the file, in place of earlier ones of the same runs."""
    paces = read_paces(results) | {pace.run: pace for pace in measured}
    with atomic_file(results / FILE) as partial:
        write_json(partial, {"paces": [asdict(paces[run]) for run in sorted(paces)]})


def list_paces(paces: Mapping[str, Pace], jobs: Sequence[Job]) -> str:
    """The section of the page: what makes trainings equally long; empty if nothing was measured."""
    rows = [(job, paces[job.name]) for job in jobs if job.name in paces]
    if not rows:
        return ""
    devices = ", ".join(dict.fromkeys(pace.device for _, pace in rows))
    lines = [
        "## Equal time",
        "",
        "Models are compared after trainings of equal length: each is given as many updates as take the time that",
        "FLEX takes on that graph. Milliseconds of an update were measured with nothing else on the device, once all",
        f"was compiled ({devices}; `python scripts/pace.py`). Validation and compilation come on top. One day's",
        "measurements differ from another's by up to a tenth; a model that was measured on another day than FLEX is",
        "given rather more time than less.",
        "",
        "| run | ms an update | measured | updates | minutes |",
        "|---|---|---|---|---|",
    ]
    for job, pace in rows:
        steps = job.config.training.steps
        cells = [f"`{job.name}`", f"{pace.milliseconds:.2f}", pace.date, f"{steps:,}", f"{pace.minutes(steps):.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])
