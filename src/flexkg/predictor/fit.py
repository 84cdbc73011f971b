"""Train from Python: a graph in, a run that answers out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flexkg.api import KnowledgeGraph, choose_device, load
from flexkg.predictor.predictor import Predictor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flexkg.training.listener import Progress


def train(
    data: KnowledgeGraph | str | Path,
    model: str = "flex",
    out: str | Path = "run",
    *,
    settings: Mapping[str, Any] | None = None,
    workload: str | Path | None = None,
    device: str = "auto",
    resume: bool = False,
    report: Callable[[Progress], None] = lambda _: None,
) -> Predictor:
    """Train a recipe on a graph, keep the run in the folder `out`, and open it.

    settings: what the recipe leaves open or gets wrong, such as {"model.dim": 200, "training.steps": 5000}.
    report: called now and then with the step, the loss and the last validation.
    """
    from flexkg.config import load_recipe
    from flexkg.training.listener import Listener
    from flexkg.training.run import train as train_run

    kg = data if isinstance(data, KnowledgeGraph) else load(data)
    # JSON and TOML write numbers, texts, truth values and lists alike.
    overrides = [f"{key}={json.dumps(value)}" for key, value in (settings or {}).items()]
    outcome = train_run(
        kg.dataset,
        load_recipe(model, overrides),
        Path(out),
        recipe=model,
        workload=None if workload is None else Path(workload),
        device=choose_device(device),
        resume=resume,
        listener=Listener(trained=report),
    )
    if not outcome.finished and outcome.signal is not None:
        # What was trained is kept; whoever pressed Ctrl-C wants to be back at the prompt.
        raise KeyboardInterrupt
    return Predictor.open(out, device)
