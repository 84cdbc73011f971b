"""`flexkg bench training` on a CPU: our training step beside a plain one, both in processes of their own.

*Plain* does what the field's code does with the same model, batch and loss: a forward pass for each shape and each
branch of it, all candidates gathered and squashed into tensors of (queries, candidates, dimension), torch's autograd
and dense Adam. It gets its batches ready-made; ours draws its own. *Plain, tuned* is the same with an allocator that
keeps freed memory. The sides take turns, and the best round counts. The limit is what the matrix products alone
would take at the speed of a large one; they are counted by torch from the step itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from flexkg.bench.engine import peak_mb
from flexkg.config import build_model, load_recipe
from flexkg.query.terms import And, Entity, Not, Project, Term
from flexkg.sampling.draws import Draws
from flexkg.sampling.make import Order, make_workload
from flexkg.sampling.workload import Workload
from flexkg.training.batches import Batches, counts_for
from flexkg.training.loop import Trainer
from flexkg.training.losses import negative_sampling
from flexkg.training.memory import keep_freed_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from flexkg.config import RunConfig
    from flexkg.kg.dataset import Dataset
    from flexkg.models.flex import Flex
    from flexkg.training.batches import Batch

SETTINGS = (
    # What the plain step knows, whatever the recipe does.
    "model.distance=paper",
    "training.loss=negative-sampling",
    "training.near_misses=0",
    "model.dim=400",
    "model.hidden=1600",
    "training.batch_size=512",
    "training.negatives=128",
    "training.shared_by=1",
    "training.online=false",
)
SIDES = ("ours", "plain", "plain_tuned")
_ROUNDS, _STEPS = 4, {"ours": 12, "plain": 3, "plain_tuned": 3}
_COUNT = 5_000
"""Sampled queries of each shape: a step is as long whichever it draws."""
_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm")
_DISTANCES = ("_Compiled", "_CompiledBackward", "_Plain", "_PlainBackward")


def run(dataset: Dataset, *, report: Callable[[str], None]) -> dict[str, Any]:
    """All figures of the CPU."""
    config = load_recipe("flex", SETTINGS)
    with tempfile.TemporaryDirectory() as folder:
        workload = Path(folder) / "workload"
        order = Order(splits=("train",), train_shapes=config.training.shapes, shapes=None, count=_COUNT)
        make_workload(dataset, workload, order)
        size = [str(len(dataset.entities)), str(2 * len(dataset.relations))]
        sides = {side: _Side([side, str(workload), *size]) for side in SIDES}
        best, gflops = dict.fromkeys(SIDES, 0.0), 0.0
        for round_number in range(_ROUNDS):
            for side, process in sides.items():
                best[side] = max(best[side], process.ask("go")["queries_per_second"])
            gflops = max(gflops, _sgemm())
            rates = ", ".join(f"{side} {rate:,.0f}" for side, rate in best.items())
            report(f"round {round_number + 1}: queries/s {rates}")
        ends = {side: process.ask("end") for side, process in sides.items()}
    ours = ends["ours"]
    limit = 1e9 * gflops / ours["flop_per_query"]
    model = config.model.model_dump()
    return {
        "threads": torch.get_num_threads(),
        "dimension": model["dim"],
        "hidden": model["hidden"],
        "batch": config.training.batch_size,
        "negatives": config.training.negatives,
        "queries_by_shape": _counts(config),
        **{f"{side}_queries_per_second": rate for side, rate in best.items()},
        "ratio": best["ours"] / best["plain"],
        "ratio_to_tuned": best["ours"] / best["plain_tuned"],
        "peak_mb": {side: end["peak_mb"] for side, end in ends.items()},
        "mflop_per_query": ours["flop_per_query"] / 1e6,
        "sgemm_gflops": gflops,
        "limit_queries_per_second": limit,
        "share_of_limit": best["ours"] / limit,
        "milliseconds": ours["milliseconds"],
    }


def _counts(config: RunConfig) -> dict[str, int]:
    training = config.training
    counts = counts_for(training.shapes, training.shares, training.batch_size)
    return dict(zip(training.shapes, counts, strict=True))


class _Side:
    """A process that waits for its turn."""

    def __init__(self, arguments: Sequence[str]) -> None:
        command = [sys.executable, "-m", "flexkg.bench.training_cpu", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._read()  # it is ready

    def ask(self, what: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        print(what, file=self._process.stdin, flush=True)
        answer = self._read()
        if what == "end":
            self._process.communicate()
        return answer

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):  # torch's profiler writes lines of its own
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise RuntimeError(f"a process of the benchmark ended with status {self._process.wait()}")


def serve(side: str, workload: Path, num_entities: int, num_relations: int) -> None:
    """What a side's process does: a round of steps for each line `go`, what else there is to say at the end."""
    if side != "plain":
        keep_freed_memory(torch.device("cpu"))
    config = load_recipe("flex", SETTINGS)
    torch.manual_seed(0)
    model = build_model(config.model, num_entities, num_relations)
    opened = Workload.load(workload)
    train = [opened.queries("train", shape) for shape in config.training.shapes]
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(model, config.training, train, [], Path(folder), torch.device("cpu"))
        trainer._calibrate()
        update = _ours(trainer) if side == "ours" else Plain(trainer, [queries.template for queries in train]).update
        update(0)
        _answer({"ready": True})
        step = 1
        for line in sys.stdin:
            if line.strip() != "go":
                break
            begin = time.perf_counter()
            for _ in range(_STEPS[side]):
                update(step)
                step += 1
            rate = _STEPS[side] * config.training.batch_size / (time.perf_counter() - begin)
            _answer({"queries_per_second": rate})
        last: dict[str, Any] = {"peak_mb": peak_mb()}
        if side == "ours":
            last |= _inside(update, step, config.training.batch_size)
        _answer(last)


def _answer(values: dict[str, Any]) -> None:
    print(json.dumps(values), flush=True)


def _ours(trainer: Trainer) -> Callable[[int], None]:
    def update(step: int) -> None:
        trainer.step = step
        trainer._update()

    return update


class Plain:
    """The same update, written as it is usually written."""

    def __init__(self, trainer: Trainer, templates: Sequence[Term]) -> None:
        self._model: Flex = trainer.model  # type: ignore[assignment]
        self._templates = templates
        self._batches = trainer.rounds[0]
        self._optimizer = torch.optim.Adam(self._model.parameters(), lr=trainer.settings.learning_rate)
        self._seed = trainer.settings.seed
        with torch.no_grad():
            ours, theirs = float(trainer._loss(0)(0)), float(self.loss(*self._draw(0)))
        if abs(ours - theirs) > 1e-4 * abs(ours):
            raise AssertionError(f"the plain step has another loss: {theirs}, not {ours}")
        self._ready = [self._draw(step) for step in range(sum(_STEPS.values()))]

    def update(self, step: int) -> None:
        """One update."""
        self._optimizer.zero_grad()
        self.loss(*self._ready[step % len(self._ready)]).backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()

    def _draw(self, step: int) -> tuple[Batch, list[tuple[Tensor, Tensor]]]:
        """A batch of ours and the ids of each shape's queries in it."""
        batches: Batches = self._batches
        rows = Draws(self._seed, step).below(batches._limits, 1)[:, 0]
        parts = [rows[span] for span in batches._spans]
        groups = [(ids[0][part], ids[1][part]) for ids, part in zip(batches._ids, parts, strict=True)]
        return batches.draw(step), groups

    def loss(self, batch: Batch, groups: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """Shape by shape, branch by branch."""
        states = torch.cat([self._embed(term, *ids) for term, ids in zip(self._templates, groups, strict=True)])
        candidates = torch.cat([batch.positives, batch.negatives], dim=1)
        model = self._model
        rows = torch.index_select(model.entities.weight, 0, candidates.flatten()).view(*candidates.shape, -1)
        features = model.squash(rows / model.range)
        feature, logic = model.split(states)
        distance = (features - feature[:, None, :]).abs().sum(dim=-1) + logic.sum(dim=-1)[:, None]
        return negative_sampling(model.margin - model.modulus * distance, batch.weights, batch.total)

    def _embed(self, term: Term, entities: Tensor, relations: Tensor) -> Tensor:
        match term:
            case Entity(id=slot):
                rows = torch.index_select(self._model.entities.weight, 0, entities[:, slot])
                feature = self._model.squash(rows / self._model.range)
                return torch.cat([feature, torch.zeros_like(feature)], dim=-1)
            case Project(relation=slot, operand=operand):
                return self._model.project(self._embed(operand, entities, relations), relations[:, slot])
            case Not(operand=operand):
                return self._model.negate(self._embed(operand, entities, relations))
            case And(operands=parts):
                return self._model.intersect([self._embed(part, entities, relations) for part in parts])
        raise AssertionError(f"the plain step does not know {term}")


def _inside(update: Callable[[int], None], step: int, batch: int) -> dict[str, Any]:
    """Operations of the matrix products, the speed of a large one, and where a step's time goes."""
    from torch.profiler import profile
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        update(step)
    rounds = 4
    begin = time.perf_counter()
    with profile() as profiler:
        for more in range(1, rounds + 1):
            update(step + more)
    whole = 1e3 * (time.perf_counter() - begin) / rounds
    spent: dict[str, float] = {"products": 0.0, "distances": 0.0, "optimiser": 0.0}
    for event in profiler.key_averages():
        kind = _kind(event.key)
        if kind:
            spent[kind] += event.self_cpu_time_total / 1e3 / rounds
    spent["rest"] = whole - sum(spent.values())
    return {
        "flop_per_query": counter.get_total_flops() / batch,
        "milliseconds": spent,
    }


def _kind(name: str) -> str:
    if name in _PRODUCTS:
        return "products"
    if name in _DISTANCES:
        return "distances"
    return "optimiser" if "adam" in name.lower() and name.startswith("aten::") else ""


def _sgemm(size: int = 2048, rounds: int = 10) -> float:
    """Giga-operations a second of a large product in float32."""
    left, right = torch.rand(size, size), torch.rand(size, size)
    best = 0.0
    for _ in range(rounds):
        begin = time.perf_counter()
        left @ right
        best = max(best, 2 * size**3 / (time.perf_counter() - begin) / 1e9)
    return best


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
