"""The last step of a run: probabilities for its scores, from its validation queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flexkg.engine.engine import Engine
from flexkg.evaluation.calibration import FILE, calibrate
from flexkg.evaluation.reliability import draw_reliability
from flexkg.kg.loops import loopless
from flexkg.kg.storage import atomic_file, write_json
from flexkg.models import interpretation
from flexkg.training.folder import RunFolder

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from flexkg.evaluation.calibration import Calibration
    from flexkg.sampling.workload import Workload

PLOT = "calibration.svg"


def forget_calibration(run: Path) -> None:
    """Remove what was fitted to other weights."""
    for name in (FILE, PLOT):
        (run / name).unlink(missing_ok=True)


def calibrate_run(run: Path, workload: Workload, device: torch.device | str = "cpu") -> Calibration | None:
    """Fit the stored weights' scores to the validation queries and keep the result in the run's folder.

    Without validation queries there is nothing to keep, and the run answers without probabilities.
    """
    forget_calibration(run)
    folder = RunFolder.open(run)
    model, facts = folder.model(device), Engine(folder.dataset.graph("train"), device)
    sets = (workload.queries("valid", shape) for shape in workload.shapes("valid"))
    learnt = loopless(folder.dataset.triples["train"], len(folder.dataset.relations))
    found = calibrate(model, sets, interpretation(model), facts, device, learnt)
    if found is None:
        return None
    with atomic_file(run / FILE) as partial:
        write_json(partial, found.to_dict())
    with atomic_file(run / PLOT) as partial:
        partial.write_text(draw_reliability(found), encoding="utf-8")
    return found
