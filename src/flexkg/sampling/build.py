"""Make queries with answers: draw, answer on one graph or two, keep what the protocol asks for."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from flexkg.engine import ragged
from flexkg.engine.engine import Engine
from flexkg.kg.dataset import SPLITS
from flexkg.query.shapes import SHAPES, key_of
from flexkg.sampling.protocol import loses_answers
from flexkg.sampling.queries import Column, QuerySet
from flexkg.sampling.sampler import Sampler, WalkIndex, fingerprint
from flexkg.threads import leave_cores_to_kernels

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from flexkg.engine.ragged import Ragged
    from flexkg.engine.sets import Sets
    from flexkg.kg.dataset import Dataset
    from flexkg.kg.graph import Graph
    from flexkg.query.terms import Term

_ROUND = 1 << 16
"""Most groundings drawn at a time; what comes out depends on it, so it is the same on every device."""
_PATIENCE = 200_000
"""Groundings after which the yield is looked at again; a shape that gives next to nothing is given up."""
_LEAST = 4
"""New queries that so many groundings must give."""
_MOST = 2_000_000, 1000
"""Most groundings in all: so many, and so many more for each query that is asked for."""


@dataclass(frozen=True)
class Pair:
    """The two graphs of a split: a query is interesting if the larger one changes its answers. Train has only one."""

    larger: Engine
    smaller: Engine | None

    @cached_property
    def walks(self) -> WalkIndex:
        """The larger graph for walking back from answers."""
        return WalkIndex(self.larger.graph, self.larger.algebra.device)

    @classmethod
    def of(cls, larger: Graph, smaller: Graph | None, device: torch.device | str = "cpu") -> Pair:
        """Engines over the graphs."""
        return cls(Engine(larger, device), None if smaller is None else Engine(smaller, device))

    @classmethod
    def of_split(cls, dataset: Dataset, split: str, device: torch.device | str = "cpu") -> Pair:
        """Engines over the graph of a split and the one before it."""
        smaller = None if split == "train" else dataset.graph(SPLITS[SPLITS.index(split) - 1])
        return cls.of(dataset.graph(split), smaller, device)


@dataclass
class _Found:
    """Accepted queries of one round."""

    entities: Tensor
    relations: Tensor
    answers: dict[str, Ragged]
    complement: bool


def sample_queries(
    pair: Pair,
    shape: str,
    template: Term,
    count: int,
    *,
    cap: int,
    seed: int,
    split: str,
    avoid: Tensor | None = None,
    as_written: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> QuerySet:
    """Sample up to `count` different queries of a template that the protocol accepts.

    `avoid` holds fingerprints of queries that must not come out, in any order of their operands; among each other
    queries also differ by that order if they are compared `as_written`. A shape that the graph cannot give in that
    number ends with as many as were found and the reasons in `extra`.
    """
    begin = time.perf_counter()
    device = pair.larger.algebra.device
    sampler = Sampler(pair.walks, _seed(seed, split, shape))
    nothing = torch.zeros(0, dtype=torch.int64, device=device)
    avoided = nothing if avoid is None else avoid.to(device).sort().values
    known = nothing
    parts: list[_Found] = []
    reasons: Counter[str] = Counter()
    made = attempts = 0
    watched = (0, 0)
    most = _MOST[0] + _MOST[1] * count
    with leave_cores_to_kernels(pair.larger.algebra.uses_kernels):
        while made < count and attempts < most:
            # As many as the acceptance so far suggests, and a few more.
            rate = max(made / attempts, 1e-3) if attempts else 0.5
            size = int(min(_ROUND, max(256, 1.1 * (count - made) / rate)))
            entities, relations = sampler.draw(template, size)
            reasons["broken rule"] += size - len(entities)
            marks, _ = fingerprint(template, entities, relations, as_written=as_written)
            fresh = _fresh(marks, known)
            if len(avoided):
                unordered, _ = fingerprint(template, entities[fresh], relations[fresh])
                fresh = fresh[~_among(unordered, avoided)]
            reasons["drawn before"] += len(marks) - len(fresh)
            found, kept = _accept(pair, template, entities[fresh], relations[fresh], cap, reasons, count - made)
            known = torch.cat([known, marks[fresh[kept]]]).sort().values
            attempts += size
            made += len(kept)
            parts += found
            progress(made)
            if attempts - watched[0] >= _PATIENCE:
                if made - watched[1] < _LEAST:
                    break
                watched = (attempts, made)
    queries = _gather(shape, template, parts, evaluated=pair.smaller is not None)
    queries.extra.update(seconds=time.perf_counter() - begin, attempts=attempts)
    if made < count:
        queries.extra.update(asked=count, rejected={reason: number for reason, number in reasons.items() if number})
    return queries


def enumerate_pairs(pair: Pair, *, cap: int) -> QuerySet:
    """All 1p queries: every (entity, relation) with an edge; for valid and test those with 1 to `cap` new answers."""
    begin = time.perf_counter()
    graph = pair.larger.graph
    order = graph.entity_pairs
    entities = torch.from_numpy(graph.pair_entities[order].astype(np.int64))[:, None]
    relations = torch.from_numpy(graph.pair_relations[order].astype(np.int64))[:, None]
    with leave_cores_to_kernels(pair.larger.algebra.uses_kernels):
        found, _ = _accept(pair, SHAPES["1p"], entities, relations, cap, Counter(), len(order))
    queries = _gather("1p", SHAPES["1p"], found, evaluated=pair.smaller is not None)
    queries.extra.update(seconds=time.perf_counter() - begin, attempts=len(order))
    return queries


def answer_queries(pair: Pair, shape: str, template: Term, entities: Tensor, relations: Tensor) -> QuerySet:
    """Given queries with their answers, whatever these are."""
    begin = time.perf_counter()
    with leave_cores_to_kernels(pair.larger.algebra.uses_kernels):
        found, _ = _accept(pair, template, entities, relations, None, Counter(), len(entities))
    queries = _gather(shape, template, found, evaluated=pair.smaller is not None)
    queries.extra.update(seconds=time.perf_counter() - begin)
    return queries


def _accept(
    pair: Pair,
    template: Term,
    entities: Tensor,
    relations: Tensor,
    cap: int | None,
    reasons: Counter[str],
    wanted: int,
) -> tuple[list[_Found], Tensor]:
    """Answer the queries and keep the first `wanted` of those that the protocol accepts (all without a cap)."""
    found: list[_Found] = []
    kept: list[Tensor] = []
    number = 0
    for rows, large in pair.larger.stream(template, entities, relations):
        answers = {"train": large}
        sizes = _count(large, pair)
        good = (sizes > 0) & (sizes < pair.larger.graph.num_entities)
        if pair.smaller is not None:
            algebra = pair.larger.algebra
            small = algebra.concat([sets for _, sets in pair.smaller.stream(template, entities[rows], relations[rows])])
            gained = algebra.minus(large, small)
            answers = {"easy": small, "hard": gained}
            good = gained.listed.lengths > 0
            reasons["nothing to predict"] += int((~good).sum())
            if cap is not None:
                few = gained.listed.lengths <= cap
                if loses_answers(template):
                    lost = algebra.minus(small, large).listed.lengths
                    reasons["nothing taken away"] += int((good & (lost == 0)).sum())
                    few &= (lost > 0) & (lost <= cap)
                reasons["too many answers"] += int((good & (gained.listed.lengths > cap)).sum())
                good &= few
        else:
            reasons["answered by nothing or everything"] += int((~good).sum())
        if cap is None:
            good = torch.ones_like(good)
        picked = torch.nonzero(good).view(-1)[: wanted - number]
        number += len(picked)
        kept.append(picked + rows.start)
        found.append(
            _Found(
                entities[rows][picked.to(entities.device)],
                relations[rows][picked.to(relations.device)],
                {name: pair.larger.algebra.packed(ragged.take(sets.listed, picked)) for name, sets in answers.items()},
                bool(next(iter(answers.values())).complement.any()),
            )
        )
        if number >= wanted:
            break
    nothing = torch.zeros(0, dtype=torch.int64, device=pair.larger.algebra.device)
    return found, torch.cat(kept) if kept else nothing


def _count(sets: Sets, pair: Pair) -> Tensor:
    return torch.where(sets.complement, pair.larger.graph.num_entities - sets.listed.lengths, sets.listed.lengths)


def _fresh(marks: Tensor, known: Tensor) -> Tensor:
    """Positions of the marks that are neither known nor a repeat of an earlier one, ascending."""
    order = torch.argsort(marks, stable=True)
    ordered = marks[order]
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    first &= ~_among(ordered, known)
    return order[first].sort().values


def _among(marks: Tensor, known: Tensor) -> Tensor:
    """Whether each mark is one of those that are known, which are ascending."""
    if len(known) == 0:
        return torch.zeros_like(marks, dtype=torch.bool)
    return known[torch.searchsorted(known, marks).clamp_(max=len(known) - 1)] == marks


def _gather(shape: str, template: Term, parts: list[_Found], *, evaluated: bool) -> QuerySet:
    names = ("easy", "hard") if evaluated else ("train",)
    key = key_of(template)
    slots = (key.count("e"), key.count("p"))
    columns = {}
    for name in names:
        lengths = [part.answers[name].lengths.cpu() for part in parts]
        members = [part.answers[name].members.cpu() for part in parts]
        offsets = ragged.offsets_of(torch.cat(lengths) if lengths else torch.zeros(0, dtype=torch.int64))
        empty = torch.zeros(0, dtype=torch.int32)
        columns[name] = Column(offsets.numpy(), (torch.cat(members) if members else empty).numpy())
    ids = [
        torch.cat([kind.cpu() for kind in column]).to(torch.int32).numpy() if column else np.zeros((0, width), np.int32)
        for column, width in zip(
            ([part.entities for part in parts], [part.relations for part in parts]), slots, strict=True
        )
    ]
    complement = any(part.complement for part in parts)
    return QuerySet(shape, key, ids[0], ids[1], columns, complement)


def _seed(seed: int, split: str, shape: str) -> int:
    """A seed of its own for each split and shape, so that none depends on what else is sampled."""
    digest = hashlib.sha256(f"{seed} {split} {shape}".encode()).digest()
    return int.from_bytes(digest[:7], "big")
