"""Searches the settings of several models with the same effort for each.

    python scripts/equal_effort.py results/searches/one-core.toml --device cpu --workers 2 --source FOLDER

Every model has the same trials, each for the same seconds of updates: nine short ones over four factors of three values
(see flexkg/paper/search.py), then two longer ones of what these say. Which of them won, and how many updates fit the
seconds of the run that is compared, is printed as lines for runs.toml. A plan:

    round = "20"
    graphs = ["fb15k-237"]
    seconds = [40, 120, 360]  # of a first trial, of a second one, and of the run
    set = ["training.batch_size=512"]

    [factors]  # of all models; a value may be a list of settings that go together
    rate = ["training.learning_rate=1e-3", "training.learning_rate=2e-3", "training.learning_rate=4e-3"]
    tables = ["training.table_rate=1", "training.table_rate=3", "training.table_rate=10"]

    [models.GQE]
    recipe = "gqe"
    set = []
    factors.size = ["model.dim=128", "model.dim=256", "model.dim=400"]
    factors.margin = ["model.margin=6", "model.margin=12", "model.margin=24"]

Trials are kept in results/tuning.jsonl, and those that are there are not made again. How long an update takes is
measured before in seconds of the processor, so that what else the machine does is not counted; on a GPU by the clock.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tune
from flexkg.config import load_recipe
from flexkg.errors import ConfigError, FlexError
from flexkg.kg.catalog import home, locate
from flexkg.paper.runner import Place, open_bench
from flexkg.paper.search import DESIGN, FACTORS, LEVELS, Factor, finalists, name_of, settings_of
from flexkg.paper.tuning import read_trials
from flexkg.paper.workloads import read_registry

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[1]

_WARM_UP = 20
"""Updates before an update is measured: the first ones compile."""
_NEVER = 1_000_000
_SAMPLE = 0.15
"""Part of a first trial's time for which updates are measured."""


@dataclass(frozen=True)
class Model:
    """What is searched of one model."""

    name: str
    recipe: str
    base: tuple[str, ...]
    factors: tuple[Factor, ...]


@dataclass(frozen=True)
class Search:
    """A plan."""

    round: str
    graphs: tuple[str, ...]
    seconds: tuple[float, float, float]
    models: tuple[Model, ...]


def read_search(path: Path) -> Search:
    """A plan whose every combination of settings has been checked."""
    try:
        plan = tomllib.loads(path.read_text(encoding="utf-8"))
        first, second, last = (float(value) for value in plan["seconds"])
        models = tuple(_model(name, entry, plan) for name, entry in plan["models"].items())
        search = Search(str(plan["round"]), tuple(plan["graphs"]), (first, second, last), models)
    except OSError as error:
        raise ConfigError(f"Cannot read the plan {path}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"The plan {path} cannot be read: {error}.", hint="See the head of scripts/equal_effort.py."
        ) from None
    for model in search.models:
        for chosen in DESIGN:
            load_recipe(model.recipe, [*model.base, *settings_of(model.factors, chosen)])
    return search


def _model(name: str, entry: dict[str, Any], plan: dict[str, Any]) -> Model:
    factors = tuple(
        Factor(factor, tuple((value,) if isinstance(value, str) else tuple(value) for value in values))
        for factor, values in (plan.get("factors", {}) | entry.get("factors", {})).items()
    )
    if len(factors) != FACTORS or any(len(factor.values) != LEVELS for factor in factors):
        raise ValueError(f"{name} does not have {FACTORS} factors of {LEVELS} values each")
    return Model(name, entry["recipe"], (*plan.get("set", ()), *entry.get("set", ())), factors)


def pace(recipe: str, settings: Sequence[str], place: tune.Place, seconds: float) -> float:
    """Seconds that an update takes."""
    import torch

    from flexkg.kg.dataset import Dataset
    from flexkg.training.memory import keep_freed_memory
    from flexkg.training.run import train

    device = torch.device(place.device)
    keep_freed_memory(device)
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    marks: list[float] = []

    def tick() -> bool:
        if device.type == "cuda":
            torch.cuda.synchronize()
        marks.append(clock())
        return len(marks) > _WARM_UP + 1 and marks[-1] - marks[_WARM_UP] > seconds

    config = load_recipe(recipe, [*settings, *_steps(_NEVER), f"training.checkpoint_every={_NEVER}"])
    with tempfile.TemporaryDirectory(dir=place.folder) as temporary:
        outcome = train(
            Dataset.load(place.data), config, Path(temporary) / "run", recipe=recipe, workload=place.workload,
            device=device, stop=tick,
        )  # fmt: skip
    if outcome.signal is not None:
        raise KeyboardInterrupt
    return (marks[-1] - marks[_WARM_UP]) / (len(marks) - 1 - _WARM_UP)


def _steps(steps: int) -> tuple[str, str]:
    return f"training.steps={steps}", f"training.validate_every={steps}"


@dataclass
class Bench:
    """Where the trials of one graph are made, and what is known of their pace."""

    graph: str
    place: tune.Place
    workers: int
    results: Path
    sample: float
    """Seconds for which updates are measured."""
    paces: dict[tuple[str, ...], float]
    """By model and size: two models may share a recipe."""

    def steps(self, model: Model, trials: Sequence[tuple[int, ...]], seconds: float) -> list[int]:
        """How many updates of each fit so many seconds; trials of one size take equally long."""
        sizes = [tuple(text for text in settings_of(model.factors, chosen) if _sized(text)) for chosen in trials]
        lacking = [size for size in dict.fromkeys(sizes) if (model.name, *size) not in self.paces]
        spawning = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(self.workers, spawning, initializer=tune.end_with_parent) as pool:
            futures = [
                pool.submit(pace, model.recipe, [*model.base, *size], self.place, self.sample) for size in lacking
            ]
            for size, future in zip(lacking, futures, strict=True):
                self.paces[(model.name, *size)] = future.result()
                print(f"{self.graph} {model.name} {', '.join(size)}: {1000 * future.result():.1f} ms", flush=True)
        return [max(1, math.floor(seconds / self.paces[(model.name, *size)])) for size in sizes]

    def scores(
        self, search: Search, model: Model, trials: Sequence[tuple[int, ...]], seconds: float
    ) -> dict[tuple[int, ...], float]:
        """Validation MRR of trials, all of which last so long; those that are not kept yet are made."""
        label = f"{search.round}, {model.name}, {seconds:g} seconds each"
        lacking = [chosen for chosen in trials if name_of(chosen) not in self._kept(label)]
        if lacking:
            steps = self.steps(model, lacking, seconds)
            settings = {
                name_of(chosen): (*settings_of(model.factors, chosen), *_steps(number))
                for chosen, number in zip(lacking, steps, strict=True)
            }
            plan = tune.Plan(label, self.graph, model.recipe, model.base, settings)
            tune.try_all(plan, list(settings), self.place, self.workers, self.results)
        kept = self._kept(label)
        # One that failed, by divergence for instance, is as bad as can be.
        return {chosen: kept.get(name_of(chosen), 0.0) for chosen in trials}

    def _kept(self, label: str) -> dict[str, float]:
        trials = read_trials(self.results)
        return {trial.name: trial.mrr for trial in trials if (trial.graph, trial.round) == (self.graph, label)}


def _sized(text: str) -> bool:
    """Whether a setting decides how long an update takes: sizes do, rates and margins do not."""
    return text.startswith(("model.dim=", "model.hidden=", "model.features=", "training.batch", "training.negatives"))


def search_one(search: Search, model: Model, bench: Bench) -> None:
    """Search the settings of a model on a graph, and print what won."""
    first, second, last = search.seconds
    found = finalists(bench.scores(search, model, DESIGN, first))
    scores = bench.scores(search, model, found, second)
    best = max(found, key=lambda chosen: scores[chosen])
    steps = bench.steps(model, [best], last)[0]
    settings = [*settings_of(model.factors, best), *_steps(steps)]
    print(f'{bench.graph} {model.name}: {name_of(best)}\n  "' + '", "'.join(settings) + '",', flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Search what a plan names."""
    parser = argparse.ArgumentParser(description="Search the settings of models with the same effort for each.")
    parser.add_argument("plan", type=Path)
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--source", type=Path, help="holds DATASET/queries and DATASET/train.tsv.gz")
    parser.add_argument("--work", type=Path, default=home() / "paper", help="holds workloads/")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--workers", type=int, default=1, help="trials at a time; on a CPU each has its part of the cores"
    )
    given = parser.parse_args(arguments)
    if given.workers < 1:
        parser.error("--workers must be at least 1")
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    # Before any process of its own has loaded torch.
    os.environ["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // given.workers))
    try:
        import torch

        from flexkg.training.listener import Listener

        search = read_search(given.plan)
        shared = Place(given.results, given.work, given.source)
        for graph in search.graphs:
            listener = Listener(say=print)
            open_bench(graph, shared, read_registry(given.results), torch.device(given.device), listener)
            with tempfile.TemporaryDirectory() as folder:
                place = tune.Place(Path(folder), locate(graph), shared.workload(graph), given.device, math.inf)
                bench = Bench(graph, place, given.workers, given.results, _SAMPLE * search.seconds[0], {})
                for model in search.models:
                    search_one(search, model, bench)
    except FlexError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
