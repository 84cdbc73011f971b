"""Training on a GPU: the recipe's own step beside the plain one, the limits of the card, and where the time goes."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from flexkg.config import build_model, load_recipe
from flexkg.sampling.make import Order, make_workload
from flexkg.sampling.near import NearMisses
from flexkg.sampling.workload import Workload
from flexkg.training.loop import Trainer
from flexkg.training.losses import learning_rate

if TYPE_CHECKING:
    from collections.abc import Callable

    from flexkg.kg.dataset import Dataset

_STEPS, _PLAIN_STEPS, _PROFILED = 300, 20, 20
_PARTS = {
    "draws": ("rshift", "bitwise"),
    "matrix products": ("gemm", "nvjet", "cutlass", "splitK", "addmm"),
    "distances": ("_gathered", "_to_queries", "_to_table", "_tile"),
    "sorting": ("radix", "RadixSort", "searchsorted", "scan", "histogram"),
    "optimiser": ("multi_tensor", "adam", "Adam"),
}
"""Words in the names of kernels, by what the kernels are for; whatever is left works element by element."""


def run(dataset: Dataset, recipe: str = "flex", report: Callable[[str], object] = lambda _: None) -> dict[str, Any]:
    """Queries a second of a recipe's training step, as it is trained, and of a plain eager one."""
    config = load_recipe(recipe)
    with tempfile.TemporaryDirectory() as folder:
        report("building training queries")
        order = Order(splits=("train",), train_shapes=config.training.shapes, seed=config.training.seed)
        make_workload(dataset, Path(folder) / "workload", order, device="cuda")
        workload = Workload.load(Path(folder) / "workload")
        train = [workload.queries("train", shape) for shape in config.training.shapes]
        if config.training.near_misses:
            train = list(map(NearMisses(dataset.graph("train"), "cuda"), train))

    def trainer(*settings: str) -> Trainer:
        torch.manual_seed(0)
        chosen = load_recipe(recipe, settings)
        model = build_model(chosen.model, len(dataset.entities), 2 * len(dataset.relations))
        made = Trainer(model, chosen.training, train, [], Path(folder), torch.device("cuda"))
        made.model.train()
        made._calibrate()
        return made

    report("the step as it is trained")
    torch.cuda.reset_peak_memory_stats()
    ours = trainer()
    begin = time.perf_counter()
    ours._update()
    torch.cuda.synchronize()
    first = time.perf_counter() - begin
    seconds = _timed(ours, _STEPS, captured=True)
    peak = torch.cuda.max_memory_allocated()
    parts = _where(ours)
    parameters = sum(parameter.numel() for parameter in ours.model.parameters())
    del ours
    report("the plain step")
    # Formulas as the papers write them, one launch for each, products in float32 as torch does them by itself.
    os.environ["FLEXKG_PLAIN"] = "1"
    try:
        plain = trainer("training.precision=float32", "training.compile=false")
        plain_seconds = _timed(plain, _PLAIN_STEPS, captured=False)
        operations = _operations(plain)
    finally:
        del os.environ["FLEXKG_PLAIN"]
    size = plain.queries_per_step
    del plain
    width = config.model.dim * getattr(config.model, "features", 1)
    listed = 3 * 4 * (1 + config.training.negatives) * width
    update = 7 * 4 * parameters
    rates = _ceilings(config.training.precision)
    floor = max(
        size * operations / rates["operations_per_second"], (size * listed + update) / rates["bytes_per_second"]
    )
    both = size * operations / rates["operations_per_second"] + (size * listed + update) / rates["bytes_per_second"]
    return {
        "device": torch.cuda.get_device_name(),
        "data": dataset.name,
        "recipe": recipe,
        "batch_size": size,
        "negatives": config.training.negatives,
        "dimension": config.model.dim,
        "precision": config.training.precision,
        "parameters": parameters,
        "queries_per_second": size / seconds,
        "milliseconds_per_update": 1e3 * seconds,
        "first_update_seconds": first,
        "peak_gpu_mb": peak / 1e6,
        "plain_queries_per_second": size / plain_seconds,
        "ratio": plain_seconds / seconds,
        "operations_per_query": operations,
        "bytes_per_query": {"candidates": listed, "update": update / size},
        "ceilings": rates,
        "share_of_the_limit": floor / seconds,
        "share_of_both_limits_one_after_the_other": both / seconds,
        "milliseconds": parts,
    }


def _timed(trainer: Trainer, steps: int, *, captured: bool) -> float:
    """Seconds an update."""

    def once() -> None:
        if captured:
            trainer._update()
        else:
            trainer.optimiser.set_rate(learning_rate(trainer.settings, trainer.step))
            trainer._apply(trainer._backward(trainer._loss(0), trainer.step))
        trainer.step += 1

    for _ in range(5):
        once()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(steps):
        once()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / steps


def _operations(trainer: Trainer) -> float:
    """Floating-point operations of the matrix products of a step, forward and backward, for each query."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        trainer._backward(trainer._loss(0), trainer.step)
    return float(counter.get_total_flops()) / trainer.queries_per_step


def _where(trainer: Trainer) -> dict[str, float]:
    """Milliseconds an update, by what the kernels are for."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(_PROFILED):
            trainer._update()
        torch.cuda.synchronize()
    parts = dict.fromkeys([*_PARTS, "element by element"], 0.0)
    for event in profiler.key_averages():
        name = next((part for part, words in _PARTS.items() if any(word in event.key for word in words)), None)
        parts[name or "element by element"] += event.self_device_time_total / 1e3 / _PROFILED
    return parts


def _ceilings(precision: str) -> dict[str, float]:
    """What the card does at best: a large matrix product, and a large copy (bytes read and written)."""
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    torch.backends.cuda.matmul.allow_tf32 = precision != "float32"
    left, right = (torch.randn(8192, 8192, device="cuda", dtype=kind) for _ in range(2))
    product = _seconds(lambda: left @ right)
    source = torch.randn(1 << 28, device="cuda")
    target = torch.empty_like(source)
    copy = _seconds(lambda: target.copy_(source))
    return {"operations_per_second": 2 * 8192**3 / product, "bytes_per_second": 2 * source.nbytes / copy}


def _seconds(work: Callable[[], object], times: int = 20) -> float:
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(times):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / times
