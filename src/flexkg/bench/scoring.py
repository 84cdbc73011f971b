"""`flexkg bench scoring`: distances to all entities, and to drawn candidates, beside what one line of torch does.

*Plain* materialises the difference tensor, (queries, entities, dimension), as many queries at a time as suits it best.
*Routine* is torch's own `cdist`; a box takes three of it. Each rate is the best of three rounds, the sides taking
turns. Peak memory is that of a process of its own which scores a thousand queries and nothing else, libraries and
compiled kernels included. On a GPU the figures are shares of what its memory, or its arithmetic, can do at most.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch

from flexkg.bench import search
from flexkg.bench.engine import peak_mb
from flexkg.models import distance
from flexkg.models.pairs import BUDGET, find_kernels, pairs
from flexkg.models.plain import formula

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

ENTITIES, DIMENSION = 14_505, 400
QUERIES = 128
BATCH, CANDIDATES = 512, 129
"""A training batch of the published runs: one positive and 128 negatives a query."""
_ROUNDS = 3
_PLAIN_STEPS = (1, 4, 16)
_GPU_BYTES = 4.8e12
"""Bytes a second that the vendor gives for an H200's memory."""


def run(*, report: Callable[[str], None]) -> dict[str, Any]:
    """All figures of the benchmark."""
    # First of all: a process inherits the peak of the one that starts it, and the plain path's would be it.
    peak = {kind: _in_own_process(kind) for kind in ("l1", "box")}
    report("peak memory: " + ", ".join(f"{kind} {megabytes:,.0f} MB" for kind, megabytes in peak.items()))
    queries, offset, table = _operands(QUERIES, ENTITIES, DIMENSION, "cpu")
    kernels = find_kernels(queries, table)
    figures: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "entities": ENTITIES,
        "dimension": DIMENSION,
        "path": "plain" if kernels is None else "compiled",
        "peak_mb": peak,
        "all": {
            "l1": _compare("l1", [queries], table),
            "box": _compare("box", [queries, offset], table),
        },
    }
    for kind, row in figures["all"].items():
        report(f"{kind}: " + ", ".join(f"{what} {figure:,.1f}" for what, figure in row.items()))
    figures["listed"] = {kind: _train(kind) for kind in ("l1", "box")}
    for kind, row in figures["listed"].items():
        report(f"{kind}, listed: " + ", ".join(f"{what} {figure:,.1f}" for what, figure in row.items()))
    figures["search"] = search.run(report=report)
    if torch.cuda.is_available():
        figures["gpu"] = gpu(report)
    return figures


def _operands(rows: int, entities: int, width: int, device: str) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator(device).manual_seed(0)
    uniform = partial(torch.rand, generator=generator, device=device)
    return 2 * uniform(rows, width) - 1, 0.5 * uniform(rows, width), 2 * uniform(entities, width) - 1


def _ours(kind: str, parts: list[Tensor], table: Tensor) -> Tensor:
    return distance.l1(parts[0], table) if kind == "l1" else distance.box(parts[0], parts[1], table)


def _plain(kind: str, parts: list[Tensor], table: Tensor, step: int) -> Tensor:
    """The difference tensor of a few queries at a time."""
    blocks = zip(*(torch.split(part, step) for part in parts), strict=True)
    if kind == "l1":
        return torch.cat([(query[:, None, :] - table[None]).abs().sum(-1) for (query,) in blocks])
    rows = []
    for centre, offset in blocks:
        apart, edge = (centre[:, None, :] - table[None]).abs(), offset[:, None, :]
        rows.append((torch.relu(apart - edge) + 0.02 * torch.minimum(apart, edge)).sum(-1))
    return torch.cat(rows)


def _compare(kind: str, parts: list[Tensor], table: Tensor) -> dict[str, float]:
    """Queries a second of each way to score all entities, with compared results."""
    few = [part[:16] for part in parts]
    exact = _plain(kind, [part.double() for part in few], table.double(), 1)
    error = float((_ours(kind, few, table) - exact).abs().max())
    if error > 1e-5 * float(exact.max()):
        raise AssertionError(f"{kind} is wrong by {error}")
    rates: dict[str, float] = {}
    for _ in range(_ROUNDS):
        for step in _PLAIN_STEPS:
            _best(rates, "plain", 16, partial(_plain, kind, few, table, step))
        _best(rates, "routine", len(parts[0]), partial(formula, kind, parts, table, 1.0, 0.02))
        _best(rates, "ours", len(parts[0]), partial(_ours, kind, parts, table))
        with_best = partial(distance.top_k, "l1" if kind == "l1" else "box", parts, [table], 10)
        _best(rates, "top_10", len(parts[0]), with_best)
    row = {f"{name}_queries_per_second": rate for name, rate in rates.items()}
    return row | {
        "ratio": rates["ours"] / rates["plain"],
        "routine_ratio": rates["routine"] / rates["plain"],
        "giga_elements_per_second": rates["ours"] * table.numel() / 1e9,
        "largest_error": error,
    }


def _train(kind: str) -> dict[str, float]:
    """Queries a second, forward and backward, of a batch with its own candidates."""
    queries, offset, table = _operands(BATCH, ENTITIES, DIMENSION, "cpu")
    parts = [part.requires_grad_() for part in ([queries] if kind == "l1" else [queries, offset])]
    table.requires_grad_()
    ids = torch.randint(0, ENTITIES, (BATCH, CANDIDATES), generator=torch.Generator().manual_seed(1))

    def ours() -> None:
        torch.autograd.grad(_gathered(kind, parts, table, ids).sum(), [*parts, table])

    def plain() -> None:
        torch.autograd.grad(formula(kind, parts, table[ids], 1.0, 0.02).sum(), [*parts, table])

    ours()
    rates: dict[str, float] = {}
    for _ in range(_ROUNDS):
        _best(rates, "plain", BATCH, plain)
        _best(rates, "ours", BATCH, ours)
    row = {f"{name}_queries_per_second": rate for name, rate in rates.items()}
    return row | {"ratio": rates["ours"] / rates["plain"]}


def _gathered(kind: str, parts: list[Tensor], table: Tensor, ids: Tensor, reduction: Any = "sorted") -> Tensor:
    if kind == "l1":
        return distance.l1_gathered(parts[0], table, ids, reduction=reduction)
    return distance.box_gathered(parts[0], parts[1], table, ids, reduction=reduction)


def _best(rates: dict[str, float], name: str, size: int, work: Callable[[], Any]) -> None:
    begin = time.perf_counter()
    work()
    rates[name] = max(rates.get(name, 0.0), size / (time.perf_counter() - begin))


def _in_own_process(kind: str) -> float:
    command = [sys.executable, "-m", "flexkg.bench.scoring", kind]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout))


def peak_of(kind: str) -> float:
    """Peak memory of a process that scores 1,024 queries, 512 at a time."""
    queries, offset, table = _operands(2 * BATCH, ENTITIES, DIMENSION, "cpu")
    parts = [queries] if kind == "l1" else [queries, offset]
    with torch.no_grad():
        for rows in range(0, 2 * BATCH, BATCH):
            _ours(kind, [part[rows : rows + BATCH] for part in parts], table)
    return peak_mb()


# ---------------------------------------------------------------- GPU


def gpu(report: Callable[[str], None]) -> dict[str, Any]:
    """Times on the GPU, and the share of its memory's speed: at the size of the published runs, and past its caches."""
    source = torch.rand(1 << 29, device="cuda")
    copied = 2 * source.numel() * 4 / _seconds(partial(torch.empty_like(source).copy_, source))
    figures: dict[str, Any] = {"device": torch.cuda.get_device_name(), "copy_bytes_per_second": copied}
    report(f"gpu: copies {copied / 1e12:.2f} TB/s")
    for name, entities in (("published", ENTITIES), ("large", 1_000_000)):
        for kind in ("l1", "box", "cone"):
            row = _gpu_listed(kind, entities)
            figures[f"{kind}_{name}"] = row
            report(
                f"gpu {kind}, {entities:,} entities: " + ", ".join(f"{key} {value:,.4g}" for key, value in row.items())
            )
    figures["all"] = {"l1": _gpu_all("l1"), "box": _gpu_all("box"), "cone": _gpu_all("cone")}
    for kind, row in figures["all"].items():
        report(f"gpu {kind}, all pairs: " + ", ".join(f"{key} {value:,.4g}" for key, value in row.items()))
    return figures


def _gpu_listed(kind: str, entities: int, rows: int = 1533, width: int = 800) -> dict[str, float]:
    """Milliseconds of each pass over (rows, candidates, width) elements, and bytes read a second over 4.8 TB/s.

    The share counts the rows of the table that must be read, 4 bytes an element. A table that the second cache holds
    can do better than 1.
    """
    from flexkg.models import kernels_gpu
    from flexkg.models.pairs import pack

    queries, offset, table = _operands(rows, entities, width, "cuda")
    parts = [queries] if kind == "l1" else [queries, offset]
    grad = torch.randn(rows, CANDIDATES, device="cuda")
    ids = torch.randint(0, entities, (rows, CANDIDATES), device="cuda")
    packed = pack(kernels_gpu, kind, parts, table)
    settings = kind, *packed, ids, 1.0, 0.02
    size = rows * CANDIDATES * width * 4
    seconds = {
        "forward": _seconds(lambda: kernels_gpu.forward(*settings)),
        "to_queries": _seconds(lambda: kernels_gpu.backward_queries(*settings, grad)),
        "to_table_sorted": _seconds(lambda: kernels_gpu.backward_table(*settings, grad)),
        "to_table_atomic": _seconds(lambda: kernels_gpu.backward_table(*settings, grad, True)),
    }
    row = {f"{name}_ms": 1e3 * value for name, value in seconds.items()}
    row |= {f"{name}_share": size / seconds[name] / _GPU_BYTES for name in ("forward", "to_queries")}
    if kind != "cone" and entities == ENTITIES:
        leaves = [part.requires_grad_() for part in (*parts, table)]
        step = lambda: torch.autograd.grad(formula(kind, parts, table[ids], 1.0, 0.02).sum(), leaves)  # noqa: E731
        row["plain_forward_backward_ms"] = 1e3 * _seconds(step)
    return row


def _gpu_all(kind: Literal["l1", "box", "cone"], rows: int = 4096, width: int = 800) -> dict[str, float]:
    """Queries a second against all entities, beside torch's own routine."""
    queries, offset, table = _operands(rows, ENTITIES, width, "cuda")
    parts = [queries] if kind == "l1" else [queries, offset]
    ours = _seconds(lambda: pairs(kind, parts, table, None, 1.0, 0.02, "sorted", BUDGET))
    row = {
        "queries_per_second": rows / ours,
        "tera_elements_per_second": rows * table.numel() / ours / 1e12,
        "top_10_queries_per_second": rows / _seconds(lambda: distance.top_k(kind, parts, [table], 10)),
    }
    if kind != "cone":
        row["routine_queries_per_second"] = rows / _seconds(lambda: formula(kind, parts, table, 1.0, 0.02))
    return row


def _seconds(work: Callable[[], Any], rounds: int = 20) -> float:
    """Median time of the work by the device's own clock, compiled and warm."""
    for _ in range(3):
        work()
    times: list[tuple[Any, Any]] = []
    event: Callable[..., Any] = partial(torch.cuda.Event, enable_timing=True)
    for _ in range(rounds):
        begin, end = event(), event()
        begin.record()
        work()
        end.record()
        times.append((begin, end))
    torch.cuda.synchronize()
    return float(sorted(begin.elapsed_time(end) for begin, end in times)[rounds // 2]) / 1e3


if __name__ == "__main__":
    print(json.dumps(peak_of(sys.argv[1])))
