"""`flexkg bench evaluation`: filtered ranks of FLEX's answers among all entities, beside the released way to get them.

*Plain* takes one query at a time: its state, the difference tensor (1, entities, dimension) with a temporary for each
term of the distance, an argsort of all scores, and ranks less the answers before them. *Ours* is `flexkg.evaluation`
on a thousand queries of each shape. Both run the same weights, and their MRR is compared. Ours runs in a process of
its own, whose peak memory includes libraries, graph-sized tables, queries and compiled kernels.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from flexkg.bench.engine import peak_mb
from flexkg.evaluation.ranking import rank, rank_together
from flexkg.models import build_model, embed, interpretation
from flexkg.query.shapes import ground
from flexkg.sampling.make import Order, make_workload
from flexkg.sampling.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from flexkg.kg.dataset import Dataset
    from flexkg.models import QueryModel
    from flexkg.sampling.queries import QuerySet

DIMENSION = 400
QUERIES = 1000
"""Queries of each shape that ours ranks."""
_PLAIN_QUERIES = 8
_WARM = 8
_SETTINGS = {"boundary": {"name": "flex", "distance": "boundary"}, "paper": {"name": "flex", "distance": "paper"}}


def run(
    dataset: Dataset, *, report: Callable[[str], None], device: str = "cpu", queries: int = QUERIES
) -> dict[str, Any]:
    """All figures of the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        workload = Path(folder, "workload")
        make_workload(dataset, workload, Order(splits=("test",), count=queries))
        report(f"sampled {queries:,} test queries of each shape")
        figures: dict[str, Any] = {
            "data": dataset.name,
            "entities": len(dataset.entities),
            "dimension": DIMENSION,
            "threads": torch.get_num_threads(),
            "device": device,
        }
        for distance in _SETTINGS:
            figures[distance] = _in_own_process(workload, distance, device)
            row = figures[distance]
            report(f"{distance}: {row['queries_per_second']:,.0f} queries/s, peak {row['peak_mb']:,.0f} MB")
        plain = _plain_figures(workload, report)
    for shape, row in figures["boundary"]["shapes"].items():
        row |= plain[shape] | {"ratio": row["queries_per_second"] / plain[shape]["plain_queries_per_second"]}
        if abs(row["plain_mrr"] - row.pop("first_mrr")) > 1e-3:
            raise AssertionError(f"the two ways to rank {shape} disagree")
    for row in figures["paper"]["shapes"].values():
        del row["first_mrr"]
    rows = figures["boundary"]["shapes"].values()
    figures["plain_queries_per_second"] = len(rows) / sum(1 / row["plain_queries_per_second"] for row in rows)
    figures["ratio"] = figures["boundary"]["queries_per_second"] / figures["plain_queries_per_second"]
    figures["ratio_geometric_mean"] = math.exp(sum(math.log(row["ratio"]) for row in rows) / len(rows))
    return figures


def _model(workload: Workload, distance: str) -> QueryModel:
    torch.manual_seed(0)
    settings = {**_SETTINGS[distance], "dim": DIMENSION}
    return build_model(settings, workload.data["entities"], 2 * workload.data["relations"]).eval()


def _in_own_process(workload: Path, distance: str, device: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "flexkg.bench.evaluation", str(workload), distance, device]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def measure(folder: Path, distance: str, device: str) -> dict[str, Any]:
    """Queries a second of ours, shape by shape and all shapes in shared batches."""
    workload = Workload.load(folder)
    model = _model(workload, distance).to(device)
    by = interpretation(model)
    sets = {shape: workload.queries("test", shape) for shape in workload.shapes("test")}
    shapes = {}
    for shape, queries in sets.items():
        first = rank(model, queries.take(np.arange(min(_PLAIN_QUERIES, len(queries)))), by, device)
        begin = time.perf_counter()
        rank(model, queries, by, device)
        rate = len(queries) / (time.perf_counter() - begin)
        shapes[shape] = {"queries_per_second": rate, "first_mrr": first.metrics()["mrr"]}
    begin = time.perf_counter()
    rank_together(model, list(sets.values()), by, device)
    seconds = time.perf_counter() - begin
    return {
        "shapes": shapes,
        "queries": sum(map(len, sets.values())),
        "seconds": seconds,
        "queries_per_second": sum(map(len, sets.values())) / seconds,
        "peak_mb": peak_mb(),
    }


def _plain_figures(folder: Path, report: Callable[[str], None]) -> dict[str, dict[str, float]]:
    workload = Workload.load(folder)
    model = _model(workload, "boundary")
    figures = {}
    for shape in workload.shapes("test"):
        queries = workload.queries("test", shape)
        count = min(_PLAIN_QUERIES, len(queries))
        _plain_mrr(model, queries, 0)
        begin = time.perf_counter()
        mrr = sum(_plain_mrr(model, queries, row) for row in range(count)) / count
        figures[shape] = {"plain_queries_per_second": count / (time.perf_counter() - begin), "plain_mrr": mrr}
        report(f"plain, {shape}: {figures[shape]['plain_queries_per_second']:.1f} queries/s")
    return figures


@torch.no_grad()
def _plain_mrr(model: QueryModel, queries: QuerySet, row: int) -> float:
    """One query as the released code ranks it."""
    term = ground(queries.template, queries.entities[row].tolist(), queries.relations[row].tolist())
    states, _ = embed(model, [term])
    scores = torch.stack([_plain_scores(model, state) for state in states]).amax(dim=0)
    order = torch.argsort(scores, descending=True)
    ranking = torch.empty_like(order).scatter_(0, order, torch.arange(len(order)))
    easy, hard = (queries.answers[name].row(row) for name in ("easy", "hard"))
    places, which = torch.sort(ranking[torch.from_numpy(np.concatenate([easy, hard]).astype(np.int64))])
    ranks = (places - torch.arange(len(places)) + 1)[which >= len(easy)]
    return float((1 / ranks).mean())


def _plain_scores(model: QueryModel, state: Tensor) -> Tensor:
    """The boundary distance, term by term over (1, entities, dimension)."""
    feature, logic = (part[None, None] for part in state.chunk(2))
    entities = model.candidates(slice(None))[None]
    below, above = entities - (feature - logic), entities - (feature + logic)
    to_centre, width = (entities - feature).abs(), logic.abs()
    outside = torch.minimum(below.abs(), above.abs())
    outside[to_centre < width] = 0.0
    inside = torch.minimum(to_centre, width)
    distance = outside.sum(dim=-1) + 0.02 * inside.sum(dim=-1)
    return (model.margin - model.modulus * distance)[0]


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), sys.argv[2], sys.argv[3])))
