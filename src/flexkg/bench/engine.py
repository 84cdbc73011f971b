"""`flexkg bench engine`: exact answers a second, beside plain Python sets, and how they grow with the graph.

Queries are grounded by walking back from a random answer, so all of them have answers. The plain evaluator gets
nested lists; ours gets the same queries as integer arrays, which is how workloads hold them. What it takes to read
JSON lines and write the answers out is a figure of its own. Each rate is the best of three rounds, each side's
rounds taking turns.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from flexkg.bench.reference import find_reference, plain_graph
from flexkg.engine.engine import Engine
from flexkg.kg.dataset import Dataset
from flexkg.kg.vocabulary import Vocabulary
from flexkg.query.betae import to_nested
from flexkg.query.shapes import SHAPES, ground
from flexkg.query.terms import And, Entity, Project, Term
from flexkg.threads import leave_cores_to_kernels

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from numpy.typing import NDArray

    from flexkg.kg.graph import Graph

NAMES = ("2p", "3p", "2i", "pi")
GROWTH = (10**5, 10**6, 10**7)
_ROUNDS = 3


def run(
    dataset: Dataset, *, queries: int = 100_000, growth: bool = True, report: Callable[[str], None]
) -> dict[str, Any]:
    """All figures of the benchmark."""
    reference = find_reference()
    if reference is None:
        report("no reference evaluator (naive.py) found: rates without ratios; set FLEXKG_REFERENCE to its path")
    figures: dict[str, Any] = {
        "data": dataset.name,
        "threads": torch.get_num_threads(),
        "shapes": compare(dataset, reference, queries, report),
        "file": _file_rate(dataset, min(queries, 50_000), report),
    }
    figures |= _means(figures["shapes"])
    if growth:
        figures["growth"] = [run_alone("flexkg.bench.engine", edges, report) for edges in GROWTH]
    return figures


def compare(
    dataset: Dataset, reference: ModuleType | None, queries: int, report: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    """Rates of the plain evaluator, the tensor path and the compiled kernels on one graph, with checked answers."""
    graph = dataset.graph("train")
    plain = plain_graph(reference, dataset, "train") if reference is not None else None
    engines = {"tensor": Engine(graph, compiled=False)}
    if _has_numba():
        engines["compiled"] = Engine(graph, compiled=True)
    shapes = {}
    for name in NAMES:
        shapes[name] = _compare_shape(graph, SHAPES[name], engines, reference, plain, queries)
        report(f"{name}: " + ", ".join(f"{what} {figure:,.1f}" for what, figure in shapes[name].items()))
    return shapes


def _compare_shape(
    graph: Graph,
    template: Term,
    engines: dict[str, Engine],
    reference: ModuleType | None,
    plain: Any,
    queries: int,
) -> dict[str, float]:
    entities, relations = sample(graph, template, queries, seed=0)
    nested = _nested(template, entities, relations, 20_000)
    for engine in engines.values():
        _answer_all(engine, template, entities[:2000], relations[:2000])
    rates: dict[str, float] = {}
    for _ in range(_ROUNDS):
        if reference is not None:
            _best(rates, "plain", *_plain_answerer(reference, plain, nested))
        for kind, engine in engines.items():
            size = queries if kind == "compiled" else min(queries, 10_000)
            _best(rates, kind, size, _answerer(engine, template, entities, relations))
    if reference is not None:
        for engine in engines.values():
            _check(engine, template, entities, relations, [reference.answers(query, plain) for query in nested[:500]])
    row = {f"{kind}_queries_per_second": rate for kind, rate in rates.items()}
    if "plain" in rates:
        row |= {f"{kind}_ratio": rates[kind] / rates["plain"] for kind in engines}
    return row


def sample(graph: Graph, template: Term, count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ground a conjunctive template by walking back from random answers: entities and relations, (count, slots).

    As in the benchmarks no step undoes the one before it, which would only lead back through a hub.
    """
    random = np.random.default_rng(seed)
    entities: dict[int, NDArray[np.int64]] = {}
    relations: dict[int, NDArray[np.int64]] = {}

    def step_back(here: NDArray[np.int64], undoing: NDArray[np.int64]) -> NDArray[np.int64]:
        first, last = graph.entity_offsets[here], graph.entity_offsets[here + 1]
        pairs: NDArray[np.int64] = graph.entity_pairs[first + _below(random, last - first)]
        for _ in range(20):
            again = np.flatnonzero(graph.pair_relations[pairs] == undoing)
            pairs[again] = graph.entity_pairs[first[again] + _below(random, last[again] - first[again])]
        return pairs

    def walk(term: Term, here: NDArray[np.int64], undoing: NDArray[np.int64]) -> None:
        match term:
            case Entity(id=slot):
                entities[slot] = here
            case And():
                for part in term.operands:
                    walk(part, here, undoing)
            case Project(relation=slot, operand=operand):
                pairs = step_back(here, undoing)
                away = graph.pair_relations[pairs].astype(np.int64)
                relations[slot] = away ^ 1
                first, last = graph.pair_offsets[pairs], graph.pair_offsets[pairs + 1]
                walk(operand, graph.tails[first + _below(random, last - first)].astype(np.int64), away ^ 1)

    connected = np.flatnonzero(np.diff(graph.entity_offsets))
    walk(template, connected[_below(random, np.full(count, len(connected)))], np.full(count, -1))
    columns = [np.stack([ids[slot] for slot in range(len(ids))], axis=1) for ids in (entities, relations)]
    return torch.from_numpy(columns[0]), torch.from_numpy(columns[1])


def synthetic(edges: int, seed: int = 0) -> Dataset:
    """A skewed random graph: an entity for every ten edges, 200 relations, both drawn by a power law."""
    random = np.random.default_rng(seed)
    entities = edges // 10
    triples = (random.random((edges, 3)) ** 2 * (entities, 200, entities)).astype(np.int32)
    names = Vocabulary([str(id) for id in range(entities)]), Vocabulary([f"r{id}" for id in range(200)])
    return Dataset(f"synthetic-{edges}", *names, {"train": triples})


def grow(edges: int) -> dict[str, Any]:
    """Time and peak memory of one synthetic graph; run in a process of its own, so that the peak is its own."""
    dataset = synthetic(edges)
    before = peak_mb()
    begin = time.perf_counter()
    graph = dataset.graph("train")
    built = time.perf_counter() - begin
    engine = Engine(graph)
    begin = time.perf_counter()
    _answer_all(engine, SHAPES["2p"], *sample(graph, SHAPES["2p"], 2000, seed=1))
    warm = time.perf_counter() - begin
    rates: dict[str, float] = {}
    answers: dict[str, float] = {}
    for name in NAMES:
        queries = sample(graph, SHAPES[name], 20_000, seed=0)
        for _ in range(_ROUNDS):
            total = _best(rates, name, 20_000, _answerer(engine, SHAPES[name], *queries))
        answers[name] = total / 20_000
    return {
        "edges": graph.num_edges,
        "entities": graph.num_entities,
        "index_seconds": built,
        "first_batch_seconds": warm,
        "index_mb": graph.nbytes() / 2**20,
        "peak_mb": peak_mb(),
        "peak_before_index_mb": before,
        "queries_per_second": rates,
        "answers_per_query": answers,
        "plain": _plain_growth(dataset) if edges <= 10**6 else None,
    }


def _plain_growth(dataset: Dataset) -> dict[str, float] | None:
    reference = find_reference()
    if reference is None:
        return None
    plain = plain_graph(reference, dataset, "train")
    rates: dict[str, float] = {}
    for name in NAMES:
        nested = _nested(SHAPES[name], *sample(dataset.graph("train"), SHAPES[name], 20_000, seed=0), 5_000)
        _best(rates, name, *_plain_answerer(reference, plain, nested))
    return rates


def run_alone(module: str, edges: int, report: Callable[[str], None]) -> dict[str, Any]:
    """Measure one synthetic graph in a process of its own, so that its peak memory is its own."""
    done = subprocess.run([sys.executable, "-m", module, str(edges)], check=True, capture_output=True, text=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    rates = ", ".join(f"{name} {rate:,.0f}/s" for name, rate in figures["queries_per_second"].items())
    report(f"{edges:,} edges: peak {figures['peak_mb']:,.0f} MB, {rates}")
    return figures


def print_alone(measure: Callable[[int], dict[str, Any]]) -> None:
    """The other side of `run_alone`."""
    print(json.dumps(measure(int(sys.argv[1]))))


def _file_rate(dataset: Dataset, count: int, report: Callable[[str], None]) -> dict[str, Any]:
    from flexkg.engine.files import answer_file

    graph = dataset.graph("train")
    lines = [
        json.dumps({"q": query})
        for name in NAMES
        for query in _nested(SHAPES[name], *sample(graph, SHAPES[name], count // 4, seed=2), count // 4)
    ]
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "queries.jsonl"), Path(folder, "answers.jsonl")
        source.write_text("\n".join(lines))
        begin = time.perf_counter()
        answer_file(dataset, Engine(graph), source, target)
        seconds = time.perf_counter() - begin
    report(f"file of {len(lines):,} queries, JSON in and out: {len(lines) / seconds:,.0f}/s")
    return {"queries": len(lines), "seconds": seconds, "queries_per_second": len(lines) / seconds}


def _answer_all(engine: Engine, template: Term, entities: torch.Tensor, relations: torch.Tensor) -> int:
    with leave_cores_to_kernels(engine.algebra.uses_kernels):
        return sum(int(sets.listed.lengths.sum()) for _, sets in engine.stream(template, entities, relations))


def _check(
    engine: Engine, template: Term, entities: torch.Tensor, relations: torch.Tensor, expected: list[set[int]]
) -> None:
    size = len(expected)
    found = [
        set(listed)
        for _, sets in engine.stream(template, entities[:size], relations[:size])
        for listed, _ in sets.rows()
    ]
    if found != expected:
        raise AssertionError("the engine and the plain evaluator disagree")


def _nested(template: Term, entities: torch.Tensor, relations: torch.Tensor, count: int) -> list[Any]:
    rows = zip(entities[:count].tolist(), relations[:count].tolist(), strict=True)
    return [to_nested(ground(template, ids, steps)) for ids, steps in rows]


def _best(rates: dict[str, float], kind: str, size: int, work: Callable[[int], Any]) -> Any:
    begin = time.perf_counter()
    result = work(size)
    rates[kind] = max(rates.get(kind, 0.0), size / (time.perf_counter() - begin))
    return result


def _answerer(engine: Engine, template: Term, entities: torch.Tensor, relations: torch.Tensor) -> Callable[[int], int]:
    return lambda size: _answer_all(engine, template, entities[:size], relations[:size])


def _plain_answerer(reference: ModuleType, plain: Any, queries: list[Any]) -> tuple[int, Callable[[int], Any]]:
    """How many queries take the plain evaluator about half a second, and a function that answers so many."""
    begin, done = time.perf_counter(), 0
    while done < len(queries) and time.perf_counter() - begin < 0.1:
        reference.answers(queries[done], plain)
        done += 1
    return min(len(queries), done * 5), lambda size: [reference.answers(query, plain) for query in queries[:size]]


def _means(shapes: dict[str, dict[str, Any]]) -> dict[str, float]:
    means = {}
    for kind in ("tensor_ratio", "compiled_ratio"):
        ratios = [row[kind] for row in shapes.values() if kind in row]
        if ratios:
            means[f"{kind}_geometric_mean"] = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return means


def _below(random: np.random.Generator, limits: NDArray[np.integer]) -> NDArray[np.int64]:
    return (random.random(len(limits)) * limits).astype(np.int64)


def peak_mb() -> float:
    """The most memory that this process has held, in MB."""
    status = Path("/proc/self/status")
    if status.is_file():
        # A child inherits its parent's ru_maxrss; the high-water mark of its own memory starts anew.
        [line] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _has_numba() -> bool:
    from importlib.util import find_spec

    return find_spec("numba") is not None


if __name__ == "__main__":
    print_alone(grow)
