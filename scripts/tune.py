"""Tries settings on validation queries, and adds a line for each to results/tuning.jsonl.

    python scripts/tune.py PLAN.toml --device cuda --workers 3

A plan names a graph, a recipe, settings that all trials share, and the trials:

    round = "first"
    graph = "nell995"
    recipe = "flex"
    set = ["model.dim=400", "training.steps=15000"]

    [trials]
    base = []
    online = ["training.online=true"]

Several trials share a device: that wastes less of a GPU while some of them compile, and it is not seconds that are
compared.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import tomllib
import traceback
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from flexkg.config import load_recipe, unnamed_templates
from flexkg.errors import ConfigError, FlexError
from flexkg.kg.catalog import locate
from flexkg.paper.tuning import Trial, add_trial, read_trials
from flexkg.query.shapes import SHAPES

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Plan:
    """What to try."""

    round: str
    graph: str
    recipe: str
    base: tuple[str, ...]
    trials: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Place:
    """Where and how long."""

    folder: Path
    """For what a trial needs while it runs."""
    data: Path
    workload: Path
    device: str
    until: float
    """Seconds since the epoch at which trials are given up."""


def read_plan(path: Path) -> Plan:
    """A plan whose every setting has been checked."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        trials = {name: tuple(settings) for name, settings in values["trials"].items()}
        plan = Plan(values["round"], values["graph"], values["recipe"], tuple(values.get("set", ())), trials)
    except OSError as error:
        raise ConfigError(f"Cannot read the plan {path}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"The plan {path} cannot be read: {error}.", hint="See the head of scripts/tune.py."
        ) from None
    for settings in plan.trials.values():
        load_recipe(plan.recipe, [*plan.base, *settings])
    return plan


def try_out(plan: Plan, name: str, place: Place) -> Trial | None:
    """Train one trial and rank all validation queries; None if there was no time to finish."""
    import torch

    from flexkg.evaluation.evaluate import evaluate
    from flexkg.kg.dataset import Dataset
    from flexkg.models import interpretation
    from flexkg.sampling.workload import Workload
    from flexkg.training.folder import RunFolder
    from flexkg.training.memory import keep_freed_memory
    from flexkg.training.run import train

    keep_freed_memory(torch.device(place.device))
    config = load_recipe(plan.recipe, [*plan.base, *plan.trials[name]])
    with tempfile.TemporaryDirectory(dir=place.folder) as temporary:
        out = Path(temporary) / "run"
        outcome = train(
            Dataset.load(place.data), config, out, recipe=plan.recipe, workload=place.workload, device=place.device,
            stop=lambda: time.time() > place.until, calibrate=False,
        )  # fmt: skip
        if not outcome.finished:
            return None
        model = RunFolder.open(out).model(place.device)
    workload = Workload.load(place.workload)
    valid = {shape: workload.queries("valid", shape) for shape in workload.shapes("valid")}
    found = evaluate(model, valid, interpretation(model), place.device).to_dict()
    device = torch.cuda.get_device_name() if place.device == "cuda" else "cpu"
    return Trial(
        plan.graph, plan.round, name, plan.recipe, plan.base, plan.trials[name], config.training.steps, device,
        datetime.now(UTC).strftime("%Y-%m-%d"), found["mrr"], found["mrr_epfo"], found["mrr_negation"],
        {shape: values["mrr"] for shape, values in found["shapes"].items()},
    )  # fmt: skip


def prepare(plan: Plan, data: Path, queries: Path | None, folder: Path, device: str) -> Path:
    """The workload that the trials share: published queries where they are given."""
    import torch

    from flexkg.kg.dataset import Dataset
    from flexkg.sampling.make import Order, make_workload

    shapes: dict[str, None] = {}
    for settings in plan.trials.values():
        shapes |= dict.fromkeys(load_recipe(plan.recipe, [*plan.base, *settings]).training.shapes)
    # All trials are ranked on the same shapes, whatever some of them are trained on besides.
    order = Order(
        splits=("train", "valid"),
        shapes=tuple(SHAPES),
        train_shapes=tuple(shapes),
        templates=unnamed_templates(shapes),
        queries=queries,
    )
    make_workload(Dataset.load(data), folder, order, device=torch.device(device))
    return folder


def main(arguments: list[str] | None = None) -> int:
    """Run the trials of a plan."""
    parser = argparse.ArgumentParser(description="Try settings on validation queries.")
    parser.add_argument("plan", type=Path)
    parser.add_argument("--data", help="the graph, unless the plan's name finds it")
    parser.add_argument("--workload", type=Path, help="a folder with train and valid queries; made otherwise")
    parser.add_argument("--queries", type=Path, help="published queries, FOLDER/SPLIT/SHAPE.jsonl.gz")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e6, help="give up what is not done by then")
    given = parser.parse_args(arguments)
    until = time.time() + 60 * given.minutes
    # Whatever ends this process has to end the others.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    try:
        plan = read_plan(given.plan)
        names = missing(plan, given.results)
        if not names:
            print("every trial of this plan is kept already")
            return 0
        data = locate(given.data or plan.graph)
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            workload = given.workload or prepare(plan, data, given.queries, folder / "workload", given.device)
            place = Place(folder, data, workload, given.device, until)
            failed = try_all(plan, names, place, given.workers, given.results)
    except FlexError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the trials that had ended are kept", file=sys.stderr)
        return 130
    return 2 if failed else 0


def try_all(plan: Plan, names: list[str], place: Place, workers: int, results: Path) -> bool:
    """Try these and keep what comes of them; True if one failed, which takes none of the others with it."""
    # A process that has used a GPU cannot be forked.
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=end_with_parent) as pool:
        waiting = {pool.submit(try_out, plan, name, place): name for name in names}
        try:
            kept = [_told(waiting[done], done, results) for done in as_completed(waiting)]
        except BaseException:
            # A pool would first do all that is waiting. A trial that is cut has nothing to keep.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.kill()
            raise
    return not all(kept)


def end_with_parent() -> None:
    """End this process where the one that it works for is gone, however that ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def missing(plan: Plan, results: Path) -> list[str]:
    """The trials that are not kept yet."""
    kept = {
        trial.name: (trial.recipe, trial.base, trial.changed)
        for trial in read_trials(results)
        if (trial.graph, trial.round) == (plan.graph, plan.round)
    }
    for name in kept.keys() & plan.trials.keys():
        if kept[name] != (plan.recipe, plan.base, plan.trials[name]):
            raise ConfigError(
                f"Round {plan.round} on {plan.graph} has a trial {name!r} with other settings.",
                hint="Give the round or the trial another name.",
            )
    return [name for name in plan.trials if name not in kept]


def _told(name: str, done: Future[Trial | None], results: Path) -> bool:
    """Say what came of a trial and keep it; False if it failed."""
    try:
        trial = done.result()
    except FlexError as error:
        print(f"{name} failed: {error}", file=sys.stderr)
        return False
    except Exception as error:  # from another process, where it may have been anything
        traceback.print_exception(error)
        print(f"{name} failed", file=sys.stderr)
        return False
    if trial is None:
        print(f"{name}: no time left", flush=True)
        return True
    add_trial(results, trial)
    averages = [f"{100 * value:.2f}" for value in (trial.mrr, trial.epfo, trial.negation) if value is not None]
    shapes = " ".join(f"{shape} {100 * value:.1f}" for shape, value in trial.shapes.items())
    print(f"{trial.graph} {name}: {' / '.join(averages)}  {shapes}", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
