"""The search half of `flexkg bench scoring`: the ten best of a large graph by the index, beside scoring every entity.

One query at a time, as a question comes. *Clustered* entities lie around two thousand centres, as trained ones do
around what they have in common; *uniform* ones have nothing in common, which is the worst case. Answers and distances
of all ways are compared bit by bit. *Scored* are the entities that the bounds leave to score.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from flexkg.models import distance, index
from flexkg.models.reference import DistanceSpec
from flexkg.models.scoring import pairwise

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

ENTITIES, DIMENSION, QUERIES, TOP = 1_000_000, 128, 24, 10
_CENTRES = 2000


def run(entities: int = ENTITIES, *, report: Callable[[str], None]) -> dict[str, Any]:
    """Milliseconds a query of each way, by distance and kind of table; nothing where there is no index."""
    figures: dict[str, Any] = {}
    for name, make in (("clustered", _clustered), ("uniform", _uniform)):
        table, queries = make(entities)
        for kind in ("l1", "box"):
            row = _compare(DistanceSpec(kind, 0.02 if kind == "box" else 0.0), table, queries)
            if row is None:
                return {}
            figures[f"{kind}_{name}"] = row
            report(f"search, {kind}, {name}: " + ", ".join(f"{what} {figure:,.2f}" for what, figure in row.items()))
    return figures


def _clustered(entities: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(_CENTRES, DIMENSION, generator=generator)
    table = torch.randn(entities, DIMENSION, generator=generator).mul_(0.5)
    table += centres[torch.randint(0, _CENTRES, (entities,), generator=generator)]
    near = centres[torch.randint(0, _CENTRES, (QUERIES,), generator=generator)]
    return torch.tanh_(table), torch.tanh(near + 0.3 * torch.randn(QUERIES, DIMENSION, generator=generator))


def _uniform(entities: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    rows = (2 * torch.rand(size, DIMENSION, generator=generator) - 1 for size in (entities, QUERIES))
    return next(rows), next(rows)


@torch.no_grad()
def _compare(spec: DistanceSpec, table: Tensor, queries: Tensor) -> dict[str, float] | None:
    begin = time.perf_counter()
    made = index.build(spec, lambda rows: table[rows], len(table))
    seconds = time.perf_counter() - begin
    if made is None:
        return None
    asked: list[int] = []
    times: dict[str, list[float]] = {"all": [], "streamed": [], "index": []}
    for number in range(len(queries)):
        row = queries[number : number + 1]
        query = (row,) if spec.kind == "l1" else (row, torch.full_like(row, 0.1))
        found = {
            "all": _timed(times["all"], partial(_everything, spec, query, table)),
            "streamed": _timed(times["streamed"], partial(_streamed, spec, query, table)),
            "index": _timed(times["index"], partial(_indexed, made, query, table, asked)),
        }
        if not found["all"] == found["streamed"] == found["index"]:
            raise AssertionError(f"The index finds others than scoring everything does ({spec.kind}).")
    middle = {name: 1e3 * float(np.median(values)) for name, values in times.items()}
    return {
        **{f"{name}_ms": value for name, value in middle.items()},
        "ratio": middle["all"] / middle["index"],
        # Every search scores a first guess, then what is left.
        "scored": float(np.median(asked[1::2])),
        "index_mb": made.bytes / 1e6,
        "build_seconds": seconds,
    }


Found = tuple[list[int], list[float]]


def _timed(times: list[float], work: Callable[[], Found]) -> Found:
    work()
    begin = time.perf_counter()
    found = work()
    times.append(time.perf_counter() - begin)
    return found


def _everything(spec: DistanceSpec, query: tuple[Tensor, ...], table: Tensor) -> Found:
    """Every distance, then the least; of equal ones the lower id."""
    values = pairwise(spec, query, table)[0].numpy()
    near = np.flatnonzero(values <= np.partition(values, TOP - 1)[TOP - 1])
    order = near[np.argsort(values[near], kind="stable")][:TOP]
    return order.tolist(), values[order].tolist()


def _streamed(spec: DistanceSpec, query: tuple[Tensor, ...], table: Tensor) -> Found:
    found = distance.top_k(spec.kind, query, (table,), TOP, inside_weight=spec.inside_weight)
    return found.ids[0].tolist(), found.distances[0].tolist()


def _indexed(made: index.Index, query: tuple[Tensor, ...], table: Tensor, asked: list[int]) -> Found:
    def exact(ids: Any) -> Any:
        asked.append(len(ids))
        return -pairwise(made.spec, query, table[torch.from_numpy(ids)])[0].numpy()

    bounds = made.bounds(query)
    assert bounds is not None
    ids, scores = index.best(bounds, index.Line(0.0, 1.0), 0.0, exact, TOP, np.zeros(0, np.int64))
    return ids.tolist(), (-scores).tolist()
