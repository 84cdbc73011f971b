"""Train and evaluate one run, or time it; what comes back is a result."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from flexkg.evaluation.compare import save_values
from flexkg.evaluation.evaluate import evaluate
from flexkg.kg.storage import atomic_file, read_json, write_json
from flexkg.paper.results import Result
from flexkg.sampling.make import counting
from flexkg.sampling.workload import Workload
from flexkg.training.folder import RunFolder
from flexkg.training.listener import NOBODY, Listener
from flexkg.training.record import METRICS
from flexkg.training.run import train
from flexkg.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flexkg.config import RunConfig
    from flexkg.evaluation.evaluate import Evaluation
    from flexkg.kg.dataset import Dataset
    from flexkg.paper.plan import Job
    from flexkg.paper.workloads import Entry
    from flexkg.sampling.queries import QuerySet
    from flexkg.training.run import Outcome

VALUES = "test.npz"
"""In a run's folder: what every test query came to."""
_PACES = 5
"""Measurements of pace from which the usual one can be told."""
WARM_UP = 10
"""Steps before a measurement of speed begins: the first ones compile and capture."""


@dataclass(frozen=True)
class Bench:
    """What a run is made with."""

    dataset: Dataset
    workload: Path
    entry: Entry
    runs: Path
    """The folder of run folders."""
    device: torch.device
    shared_device: bool = False
    """Whether something else computes there meanwhile."""
    listener: Listener = NOBODY


@dataclass(frozen=True)
class Stopped:
    """A run that was stopped before its end; it goes on next time."""

    signal: int | None
    steps: int


def measure_run(job: Job, bench: Bench, stop: Callable[[], bool]) -> Result | Stopped:
    """Train to the end, going on where an earlier attempt stopped, and evaluate on the test queries."""
    config = job.config
    folder = run_folder(job, bench)
    sessions = folder.with_name(f"{folder.name}.seconds.json")
    earlier = read_json(sessions) if sessions.is_file() else {}
    before = float(earlier.get("seconds", 0.0))
    shared = bench.shared_device or bool(earlier.get("shared_device"))
    begin = time.perf_counter()
    _reset_peak(bench.device)
    if not _finished(folder):
        outcome = _train(config, job.recipe, folder, bench, stop)
        passed = before + time.perf_counter() - begin
        with atomic_file(sessions) as partial:
            write_json(partial, {"seconds": passed, "shared_device": shared})
        if not outcome.finished:
            return Stopped(outcome.signal, int(outcome.summary["steps"]))
        before, begin = passed, time.perf_counter()
    start = time.perf_counter()
    evaluation = evaluate_run(folder, bench.workload, job.shapes, bench.device, bench.listener)
    # What every query came to, so that two runs can be compared query by query.
    save_values(folder / VALUES, evaluation.shapes, {"run": job.name})
    metrics = evaluation.to_dict()
    seconds = {"evaluate": time.perf_counter() - start, "whole": before + time.perf_counter() - begin}
    manifest = RunFolder.open(folder).manifest
    if (begun := start_seconds(folder / METRICS, manifest["result"])) is not None:
        seconds["start"] = begun
    result = _result(job, replace(bench, shared_device=shared), config, manifest, manifest["result"], seconds, metrics)
    return replace(result, validations=validations_of(folder / METRICS))


def measure_time(job: Job, bench: Bench, stop: Callable[[], bool]) -> Result | Stopped:
    """Train for the job's seconds, after some steps to warm up, and say how long a step takes."""
    never = 1_000_000
    changes = {"steps": never, "validate_every": never, "checkpoint_every": never}
    config = job.config.model_copy(update={"training": job.config.training.model_copy(update=changes)})
    clock = _Clock(job.seconds, bench.device)
    begin = time.perf_counter()
    _reset_peak(bench.device)
    bench.runs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=bench.runs) as temporary:
        folder = Path(temporary) / "run"
        timed = replace(bench, listener=replace(bench.listener, trained=lambda _: None))
        outcome = _train(config, job.recipe, folder, timed, lambda: clock.tick() or stop())
        manifest = RunFolder.open(folder).manifest
    if clock.seconds_per_step is None:
        return Stopped(outcome.signal, int(outcome.summary["steps"]))
    summary = {**outcome.summary, "steps": clock.measured, "best": None, "seconds": clock.passed}
    summary["queries_per_second"] = (
        outcome.summary["queries_per_second"] * outcome.summary["seconds"] / outcome.summary["steps"]
    ) / clock.seconds_per_step
    seconds = {"evaluate": 0.0, "whole": time.perf_counter() - begin}
    metrics = {"seconds_per_step": clock.seconds_per_step}
    # The settings of the job itself: that the measurement never ends is no part of them.
    return _result(job, bench, job.config, manifest, summary, seconds, metrics)


def validations_of(metrics: Path) -> tuple[dict[str, Any], ...]:
    """What a training's validations gave, in their order."""
    return tuple(
        {
            "step": row["step"],
            "mrr": row["valid_mrr"],
            "shapes": {shape: values["mrr"] for shape, values in row["valid"].items()},
        }
        for row in _rows(metrics)
        if "valid_mrr" in row
    )


def _rows(metrics: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]


def start_seconds(metrics: Path, summary: Mapping[str, Any]) -> float | None:
    """How much longer the first steps took than later ones: mostly compilation; None if too few were measured."""
    paces = [row for row in _rows(metrics) if "queries_per_second" in row]
    if len(paces) < _PACES:
        return None
    queries_per_step = summary["queries_per_second"] * summary["seconds"] / summary["steps"]
    later = median(row["queries_per_second"] for row in paces[1:])
    first = paces[0]
    return max(0.0, float(first["seconds"] - first["step"] * queries_per_step / later))


def evaluate_run(
    folder: Path, workload: Path, shapes: tuple[str, ...], device: torch.device, listener: Listener
) -> Evaluation:
    """Filtered ranks of a run's test queries, of the shapes that its model can express."""
    queries = Workload.load(workload)
    asked = _Chosen(queries, [shape for shape in queries.shapes("test") if not shapes or shape in shapes])
    total = sum(queries.count("test", shape) for shape in asked)
    counted = counting(listener.queries, "evaluating", 0, total)
    return evaluate(RunFolder.open(folder).model(device), asked, device=device, report=counted)


class _Chosen(Mapping[str, "QuerySet"]):
    """Some shapes of the test queries; looking one up reads it."""

    def __init__(self, workload: Workload, shapes: list[str]) -> None:
        self._workload, self._shapes = workload, shapes

    def __getitem__(self, shape: str) -> QuerySet:
        return self._workload.queries("test", shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)


def run_folder(job: Job, bench: Bench) -> Path:
    """Where a job is trained; other settings, queries or facts go elsewhere, so that what changed starts anew."""
    config = job.config.model_dump(mode="json", exclude={"description"})
    decides = json.dumps([config, bench.entry.checksum, bench.dataset.checksum], sort_keys=True)
    return bench.runs / f"{job.name}-{hashlib.sha256(decides.encode()).hexdigest()[:8]}"


def _train(
    config: RunConfig,
    recipe: str,
    folder: Path,
    bench: Bench,
    stop: Callable[[], bool],
) -> Outcome:
    return train(
        bench.dataset,
        config,
        folder,
        recipe=recipe,
        workload=bench.workload,
        device=bench.device,
        resume=True,
        listener=bench.listener,
        stop=stop,
    )


def _finished(folder: Path) -> bool:
    manifest = folder / "run.json"
    return manifest.is_file() and bool(read_json(manifest).get("result", {}).get("finished"))


def _result(
    job: Job,
    bench: Bench,
    config: RunConfig,
    manifest: Mapping[str, Any],
    summary: Mapping[str, Any],
    seconds: Mapping[str, float],
    metrics: Mapping[str, Any],
) -> Result:
    best = summary["best"]
    return Result(
        kind=job.kind,
        dataset=job.dataset,
        data_checksum=bench.dataset.checksum,
        workload={
            "seed": bench.entry.seed,
            "checksum": bench.entry.checksum,
            "published": {split: list(shapes) for split, shapes in bench.entry.published.items()},
        },
        recipe=job.recipe_name,
        label=job.label,
        overrides=job.overrides,
        config=config.model_dump(mode="json"),
        seed=job.seed,
        flexkg=__version__,
        torch=torch.__version__,
        device=manifest["device"],
        seconds={"train": float(summary["seconds"]), **seconds},
        queries_per_second=float(summary["queries_per_second"]),
        steps=int(summary["steps"]),
        peak_memory=_peak(bench.device),
        parameters=int(summary["parameters"]),
        best=None if best is None else {"step": best["step"], "mrr": best["mrr"]},
        metrics=metrics,
        date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        shared_device=bench.shared_device,
    )


@dataclass
class _Clock:
    """Asked after every step: says when enough were measured."""

    wanted: float
    device: torch.device
    seconds_per_step: float | None = field(default=None, init=False)
    measured: int = field(default=0, init=False)
    passed: float = field(default=0.0, init=False)
    _steps: int = field(default=0, init=False)
    _begin: float = field(default=0.0, init=False)

    def tick(self) -> bool:
        """Whether the time is over."""
        self._steps += 1
        if self._steps == WARM_UP:
            self._wait()
            self._begin = time.perf_counter()
        if self._steps <= WARM_UP or time.perf_counter() - self._begin < self.wanted:
            return False
        # Work that was handed to the GPU but is not done yet is part of what was measured.
        self._wait()
        self.passed = time.perf_counter() - self._begin
        self.measured = self._steps - WARM_UP
        self.seconds_per_step = self.passed / self.measured
        return True

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def _reset_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def _peak(device: torch.device) -> int | None:
    return int(torch.cuda.max_memory_allocated(device)) if device.type == "cuda" else None
