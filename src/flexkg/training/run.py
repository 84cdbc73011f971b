"""A run: a folder that says what it is, holds all it needs, and can be gone on with.

run.json        recipe, data, workload, version, seed, device, timings, result
data/           the dataset, so that the run opens where the data is not
workload/       the queries, unless a workload was given
checkpoints/    the newest states and the best one
metrics.jsonl   a line for every measurement
tensorboard/    the same as event files, where it was asked for
model.safetensors   the weights to use: the best by validation, or the last
training.svg    loss and validation MRR
calibration.json, calibration.svg   what turns scores into probabilities, where there are validation queries
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from flexkg.config import build_model, template_for, unnamed_templates
from flexkg.errors import DataError
from flexkg.kg.dataset import SPLITS, Dataset
from flexkg.kg.storage import atomic_file, read_json, write_json
from flexkg.model_settings import LinkPredictorSettings
from flexkg.models import interpretation
from flexkg.plan.prepare import prepare
from flexkg.query.shapes import SHAPES, key_of
from flexkg.sampling.make import Order, counting, make_workload
from flexkg.sampling.near import NearMisses
from flexkg.sampling.protocol import usually_trained
from flexkg.sampling.workload import Workload
from flexkg.training import checkpoint
from flexkg.training.batches import counts_by_update
from flexkg.training.begin import alone, begin_run, taken_back
from flexkg.training.calibrated import calibrate_run, forget_calibration
from flexkg.training.folder import describe_workload
from flexkg.training.listener import NOBODY, Listener
from flexkg.training.loop import Trainer
from flexkg.training.online import FreshQueries
from flexkg.training.plot import draw
from flexkg.training.processes import joined, wait
from flexkg.training.record import METRICS, Recorder, check_tensorboard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from flexkg.config import RunConfig, TrainingSettings
    from flexkg.sampling.queries import QuerySet

_VALIDATED = 200
"""Queries of each shape that a validation ranks: enough to choose by, few enough not to slow the run."""
_DRAWN = 4
"""Times that a run draws a query of those that fill up, at least: large graphs would be sampled for hours otherwise."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    finished: bool
    signal: int | None
    summary: Mapping[str, Any]


def train(
    dataset: Dataset,
    config: RunConfig,
    out: Path,
    *,
    recipe: str = "",
    workload: Path | None = None,
    device: torch.device | str = "cpu",
    resume: bool = False,
    listener: Listener = NOBODY,
    stop: Callable[[], bool] = lambda: False,
    tensorboard: bool = False,
    calibrate: bool = True,
) -> Outcome:
    """Train what the configuration describes, or go on with it; `stop` is asked after every step, as signals are.

    Without `calibrate` the run answers without probabilities: a trial of settings needs none, and they take as long as
    a short training.
    """
    begin = time.time()
    place = torch.device(device)
    with joined(place) as share, ExitStack() as held:
        if share[0] != 0:
            # One process speaks for all.
            listener = NOBODY
        if config.data.train_on == "all":
            dataset = _all_facts(dataset)
        # Whatever can be wrong is found before anything is written.
        if tensorboard:
            check_tensorboard()
        queries = None if workload is None else _given(workload, dataset, config)
        torch.manual_seed(config.training.seed)
        model = build_model(config.model, len(dataset.entities), 2 * len(dataset.relations))
        for shape in config.training.shapes:
            prepare(template_for(shape), interpretation(model))
        if share[0] == 0:
            held.enter_context(alone(out))
            # What cannot be trained at all leaves nothing that would be in the way of other settings.
            began = held.enter_context(taken_back(out))
            begin_run(out, dataset, config, recipe, place, resume, queries)
        wait(share)
        if queries is None:
            queries = _built(dataset, config, out, place, share, listener)
            if share[0] == 0:
                _note(out, workload=describe_workload(queries, given=False))
        near = NearMisses(dataset.graph("train"), place) if config.training.near_misses else None
        # Settings know shapes by their own names, whatever a workload calls them.
        learnt = [
            replace(queries.queries("train", _called(queries, shape)), shape=shape) for shape in config.training.shapes
        ]
        fresh = None
        if config.training.online or config.training.fill_up:
            fresh = FreshQueries(dataset, _kept_clear_of(queries, config), config.training.seed, place, near)
            learnt = _filled_up(learnt, fresh, config.training, len(dataset.graph("train").pair_entities), listener)
        if near is not None:
            learnt = _with_near_misses(learnt, near, listener)
        with _stopping() as stopped:
            trainer = Trainer(
                model,
                config.training,
                learnt,
                _validated(queries, config),
                out,
                place,
                share,
                report=listener.trained,
                warn=listener.say,
                stop=lambda: stopped["signal"] is not None or stop(),
                fresh=fresh if config.training.online else None,
            )
            if share[0] == 0:
                began()
            if resume and trainer.resume():
                listener.say(f"going on from step {trainer.step:,}")
            finished = _recorded(trainer, resume, tensorboard)
        if place.type == "cuda":
            torch.cuda.synchronize()
        summary = {
            "process": share[0],
            "run": str(out),
            "model": model.name,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "steps": trainer.step,
            "seconds": trainer.seconds,
            "queries_per_second": trainer.step * trainer.queries_per_step / max(trainer.seconds, 1e-9),
            "best": trainer.best,
            "finished": finished,
        }
        if share[0] == 0:
            forget_calibration(out)
            _close(out, trainer, summary, time.time() - begin, listener.say)
            if finished and calibrate:
                calibrate_run(out, queries, place)
        wait(share)
        return Outcome(finished, stopped["signal"], summary)


def _close(
    out: Path, trainer: Trainer, summary: Mapping[str, Any], seconds: float, warn: Callable[[str], None]
) -> None:
    """The weights to use, the plot and the result; the best state by validation where there is one."""
    weights = trainer.weights()
    if trainer.best is not None and trainer.best["step"] != trainer.step:
        try:
            tensors = checkpoint.load(trainer.checkpoints, trainer.best["step"]).tensors
            weights = tensors.get("ema", tensors["model"])
        except DataError as error:
            warn(f"the best state is lost, the last one takes its place: {error}")
    with atomic_file(out / "model.safetensors") as partial:
        checkpoint.write_tensors(partial, weights)
    with atomic_file(out / "training.svg") as partial:
        partial.write_text(draw(out / METRICS), encoding="utf-8")
    _note(out, result={**summary, "whole_seconds": seconds})


def _note(out: Path, **more: Any) -> None:
    """Add to what the run says of itself."""
    manifest = read_json(out / "run.json")
    with atomic_file(out / "run.json") as partial:
        write_json(partial, {**manifest, **more})


def _given(folder: Path, dataset: Dataset, config: RunConfig) -> Workload:
    """A workload of the user's, which must fit the graph and hold the shapes."""
    workload = Workload.load(folder)
    workload.check_data(dataset)
    known = workload.shapes("train")
    for shape in config.training.shapes:
        if _called(workload, shape) not in known:
            names = [name if name in SHAPES else f"{workload.key(name)} ({name})" for name in known]
            raise DataError(
                f"The workload {folder} has no training queries of the shape {shape}.",
                hint=f"It has {', '.join(names)}: choose among them with --set training.shapes.",
            )
    return workload


def _kept_clear_of(workload: Workload, config: RunConfig) -> list[QuerySet]:
    """Queries that are evaluated, of the trained shapes that the benchmarks do not train."""
    templates = map(template_for, config.training.shapes)
    keys = {key_of(template) for template in templates if not usually_trained(template)}
    splits = [split for split in workload.splits if split != "train"]
    places = [(split, shape) for split in splits for shape in workload.shapes(split)]
    return [workload.queries(split, shape) for split, shape in places if workload.key(shape) in keys]


def _called(workload: Workload, shape: str) -> str:
    """What a workload calls a shape, which may have another name there."""
    names = workload.shapes("train")
    if shape in names:
        return shape
    key = key_of(template_for(shape))
    return next((name for name in names if workload.key(name) == key), shape)


def _built(
    dataset: Dataset,
    config: RunConfig,
    out: Path,
    device: torch.device,
    share: tuple[int, int],
    listener: Listener,
) -> Workload:
    """A workload of the run's own, in its folder."""
    folder = out / "workload"
    if share[0] == 0 and not folder.exists():
        listener.say("building a workload")
        extra = unnamed_templates(config.training.shapes)
        # Evaluation makes its own test queries, unless training has to keep clear of them.
        beyond = not all(usually_trained(template_for(shape)) for shape in config.training.shapes)
        splits = tuple(split for split in SPLITS if len(dataset.triples[split]) and (beyond or split != "test"))
        order = Order(
            splits=splits,
            shapes=(*SHAPES, *extra),
            train_shapes=tuple(config.training.shapes),
            templates=extra,
            seed=config.training.seed,
        )
        made = make_workload(dataset, folder, order, device=device, progress=listener.queries)
        listener.say(f"workload built in {made['seconds']:.1f} s")
    wait(share)
    return Workload.load(folder)


def _filled_up(
    learnt: Sequence[QuerySet],
    fresh: FreshQueries,
    settings: TrainingSettings,
    pairs: int,
    listener: Listener,
) -> list[QuerySet]:
    """The training queries with as many more as were asked for, but a run has to draw each of them some times."""
    drawn = sum(map(Counter, counts_by_update(settings.shapes, settings)), Counter[str]())
    lacking: dict[str, int] = {}
    for queries in learnt:
        if queries.shape != "1p":
            least = min(round(settings.fill_up * pairs), drawn[queries.shape] * settings.steps // _DRAWN)
            lacking[queries.shape] = max(0, least - len(queries))
    total = sum(lacking.values())
    if total:
        listener.say(f"sampling {total:,} more training queries")
    filled, done = [], 0
    for queries in learnt:
        if more := lacking.get(queries.shape, 0):
            counted = counting(listener.queries, f"sampling {queries.shape}", done, total)
            queries = fresh.fill(queries, len(queries) + more, counted)
            done += more
        filled.append(queries)
    return filled


def _with_near_misses(learnt: Sequence[QuerySet], near: NearMisses, listener: Listener) -> list[QuerySet]:
    """The training queries with their near misses."""
    total = sum(map(len, learnt))
    found: list[QuerySet] = []
    for queries in learnt:
        done = sum(map(len, found))
        found.append(near(queries, counting(listener.queries, f"near misses of {queries.shape}", done, total)))
    return found


def _validated(workload: Workload, config: RunConfig) -> list[QuerySet]:
    """What a validation ranks: shapes whose operators are trained; unions need no training, parts will do."""
    trained = set("".join(key_of(template_for(shape)) for shape in config.training.shapes)) | set("|0123456789")
    sets = [workload.queries("valid", shape) for shape in workload.shapes("valid")]
    if isinstance(config.model, LinkPredictorSettings):
        # It can follow several links, but is chosen by how well it predicts one.
        sets = [queries for queries in sets if queries.shape in config.training.shapes]
    return [_few(queries) for queries in sets if len(queries) and set(queries.key) <= trained]


def _few(queries: QuerySet) -> QuerySet:
    """A fixed sample of the queries, for validation."""
    if len(queries) <= _VALIDATED:
        return queries
    rows = np.sort(np.random.default_rng(0).choice(len(queries), _VALIDATED, replace=False))
    return queries.take(rows)


def _all_facts(dataset: Dataset) -> Dataset:
    """Every fact is there to be learnt, and none is left to be predicted."""
    facts = np.concatenate([dataset.triples[split] for split in SPLITS])
    return Dataset(
        dataset.name,
        dataset.entities,
        dataset.relations,
        {"train": facts},
        prefixes=dataset.prefixes,
        source=dataset.source,
    )


def _recorded(trainer: Trainer, resumed: bool, tensorboard: bool) -> bool:
    """Train to the end, or to where the run is stopped; one process records for all."""
    if trainer.share[0] != 0:
        return trainer.run()
    with Recorder(trainer.folder, tensorboard=tensorboard, resumed_at=trainer.step if resumed else None) as record:
        trainer.record = record
        return trainer.run()


@contextmanager
def _stopping() -> Iterator[dict[str, int | None]]:
    """Turn SIGINT and SIGTERM into a request that the loop sees after its step; a second one ends at once."""
    state: dict[str, int | None] = {"signal": None}

    def handle(number: int, _frame: object) -> None:
        if state["signal"] is not None:
            raise KeyboardInterrupt
        state["signal"] = number

    try:
        old = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: whoever called handles signals
        yield state
        return
    try:
        yield state
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
