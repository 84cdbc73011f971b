"""`flexkg bench sampling`: queries with answers a second, beside the plain Python sampler.

Both sides keep the same rules on the same graphs and give the answers along: for training in the train graph, for
evaluation in two graphs, with something to predict and the caps. The plain sampler runs for about two seconds a
shape. The whole workload is what `flexkg workload build` does, hardness and files included.
"""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from flexkg.bench.engine import peak_mb, run_alone, synthetic
from flexkg.bench.reference import find_reference, plain_graph
from flexkg.query.shapes import SHAPES
from flexkg.sampling.build import Pair, sample_queries
from flexkg.sampling.make import Order, make_workload
from flexkg.sampling.protocol import DEFAULT, PUBLISHED, TRAIN_SHAPES

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from flexkg.kg.dataset import Dataset

GROWTH = (10**5, 10**6, 10**7)
_SECONDS = 2.0
_NAMES = [name for name in SHAPES if name != "1p"]


def run(dataset: Dataset, *, growth: bool = True, device: str = "cpu", report: Callable[[str], None]) -> dict[str, Any]:
    """All figures of the benchmark."""
    reference = find_reference()
    if reference is None:
        report("no reference sampler (naive.py) found: rates without ratios; set FLEXKG_REFERENCE to its path")
    figures: dict[str, Any] = {"data": dataset.name, "device": device, "threads": torch.get_num_threads()}
    figures["train"] = _compare(dataset, "train", reference, device, report)
    figures["test"] = _compare(dataset, "test", reference, device, report)
    ratios = [row["ratio"] for split in ("train", "test") for row in figures[split].values() if "ratio" in row]
    if ratios:
        figures["ratio_geometric_mean"] = math.exp(sum(map(math.log, ratios)) / len(ratios))
    figures["workload"] = _whole(dataset, device)
    report(f"whole workload: {figures['workload']['queries']:,} queries in {figures['workload']['seconds']:.1f} s")
    if growth:
        figures["growth"] = [run_alone("flexkg.bench.sampling", edges, report) for edges in GROWTH]
    return figures


def _compare(
    dataset: Dataset, split: str, reference: ModuleType | None, device: str, report: Callable[[str], None]
) -> dict[str, dict[str, float]]:
    cap = PUBLISHED.get(dataset.name, DEFAULT).cap
    evaluated = split != "train"
    pair = Pair.of(dataset.graph(split), dataset.graph("valid") if evaluated else None, device)
    plain = None
    if reference is not None:
        smaller = plain_graph(reference, dataset, "valid") if evaluated else None
        plain = reference.Sampler(plain_graph(reference, dataset, split), smaller, cap=cap)
    rows = {}
    for name in _NAMES if evaluated else [name for name in TRAIN_SHAPES if name != "1p"]:
        count = 5_000 if evaluated else 50_000
        sample_queries(pair, name, SHAPES[name], 500, cap=cap, seed=1, split=split)
        queries = sample_queries(pair, name, SHAPES[name], count, cap=cap, seed=0, split=split)
        row = {"queries_per_second": len(queries) / queries.extra["seconds"], "queries": len(queries)}
        if plain is not None:
            row["plain_queries_per_second"] = _plain_rate(plain, name)
            row["ratio"] = row["queries_per_second"] / row["plain_queries_per_second"]
        rows[name] = row
        report(f"{split} {name}: " + ", ".join(f"{what} {figure:,.1f}" for what, figure in row.items()))
    return rows


def _plain_rate(sampler: Any, name: str) -> float:
    """Queries a second of the plain sampler, over about two seconds and at least one query."""
    made, begin, size = 0, time.perf_counter(), 1
    while time.perf_counter() - begin < _SECONDS:
        made += len(sampler.sample(name, size))
        size = min(2 * size, 1000)
    return made / (time.perf_counter() - begin)


def _whole(dataset: Dataset, device: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        result = make_workload(dataset, Path(folder, "workload"), Order(), device=device)
        seconds = time.perf_counter() - begin
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    counts = [row["queries"] for shape in result["shapes"].values() for row in shape.values()]
    sampling = sum(row["seconds"] for shape in result["shapes"].values() for row in shape.values())
    hardness = sum(row.get("hardness_seconds", 0) for shape in result["shapes"].values() for row in shape.values())
    return {
        "queries": sum(counts),
        "seconds": seconds,
        "sampling_seconds": sampling,
        "hardness_seconds": hardness,
        "megabytes": size / 2**20,
    }


def grow(edges: int) -> dict[str, Any]:
    """Training rates on one synthetic graph, in a process of its own."""
    dataset = synthetic(edges)
    pair = Pair.of(dataset.graph("train"), None)
    sample_queries(pair, "2p", SHAPES["2p"], 500, cap=100, seed=1, split="train")
    rates = {}
    for name in ("2p", "3p", "2i", "pi", "2in"):
        queries = sample_queries(pair, name, SHAPES[name], 20_000, cap=100, seed=0, split="train")
        rates[name] = len(queries) / queries.extra["seconds"]
    return {"edges": dataset.graph("train").num_edges, "peak_mb": peak_mb(), "queries_per_second": rates}


if __name__ == "__main__":
    from flexkg.bench.engine import print_alone

    print_alone(grow)
