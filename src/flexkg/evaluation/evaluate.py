"""Evaluate a model: ranks of every query, and what can be said of them by shape, hardness and number of answers."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from flexkg.errors import UnsupportedOperator
from flexkg.evaluation.ranking import HITS, batch_height, rank_together
from flexkg.evaluation.statistics import RESAMPLES, average, interval, resampled_means
from flexkg.plan.prepare import prepare
from flexkg.query.shapes import SHAPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import torch
    from numpy.typing import NDArray

    from flexkg.evaluation.ranking import Ranks
    from flexkg.models import QueryModel
    from flexkg.plan.prepare import Interpretation
    from flexkg.query.terms import Term
    from flexkg.sampling.queries import QuerySet

    Numbers = NDArray[np.float64]

EPFO = ("1p", "2p", "3p", "2i", "3i", "ip", "pi", "2u", "up")
NEGATION = ("2in", "3in", "inp", "pin", "pni")
AVERAGES: dict[str, tuple[str, ...]] = {"mrr": tuple(SHAPES), "mrr_epfo": EPFO, "mrr_negation": NEGATION}
METRICS = ("mrr", *(f"hits@{k}" for k in HITS), "mrr_optimistic", "mrr_pessimistic")
ANSWERS = (1, 2, 3, 5, 10, 20, 50, 100)
"""The least number of answers in each bucket; the last has no end."""


@dataclass(frozen=True, eq=False)
class ShapeValues:
    """What was found of every query of one shape; each is a mean over the query's hard answers."""

    shape: str
    fingerprint: str
    """Of the queries with their answers, so that nobody compares what was measured on different ones."""
    values: Mapping[str, Numbers]
    """(queries,) for each of `METRICS`."""
    hard: NDArray[np.int64]
    """(queries,): hard answers."""
    answers: NDArray[np.int64]
    """(queries,): easy and hard answers."""
    not_numbers: NDArray[np.int64]
    """(queries,): scores that are not numbers."""
    constant: NDArray[np.bool_]
    """(queries,): whether all entities have the same score."""
    links: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """For each number of missing links: how many hard answers need it, in how many queries, and their MRR and hits."""

    def __len__(self) -> int:
        return len(self.hard)

    def means(self) -> dict[str, float]:
        """Means over queries."""
        return {name: float(self.values[name].mean()) for name in METRICS}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How a model did on some queries."""

    shapes: Mapping[str, ShapeValues]
    bootstrap: Mapping[str, Numbers]
    """For each shape the MRR of resampled queries, (resamples,)."""
    seconds: float
    """From the first query read to the last resample."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Shapes that were not evaluated, and why."""

    def average_of(self, name: str) -> tuple[str, ...]:
        """The shapes here that an average (see `AVERAGES`) is taken over; all where none is a benchmark's."""
        here = tuple(shape for shape in AVERAGES[name] if shape in self.shapes)
        return here or (tuple(self.shapes) if name == "mrr" else ())

    def mean(self, name: str, metric: str = "mrr") -> float | None:
        """An average over shapes of one of `METRICS`; None where no shape of it was evaluated."""
        shapes = self.average_of(name)
        return float(np.mean([self.shapes[shape].values[metric].mean() for shape in shapes])) if shapes else None

    def ci95(self, name: str) -> tuple[float, float] | None:
        """The interval of a shape's MRR, or of an average's."""
        if name in self.shapes:
            return interval(self.bootstrap[name])
        shapes = self.average_of(name)
        return interval(average(self.bootstrap, shapes)) if shapes else None

    def to_dict(self) -> dict[str, Any]:
        """Plain Python: what `flexkg evaluate --json` prints of it."""
        result: dict[str, Any] = {
            "shapes": {shape: self._of_shape(shape) for shape in self.shapes},
            **{name: self.mean(name) for name in AVERAGES},
            "seconds": self.seconds,
            "queries": sum(map(len, self.shapes.values())),
            "averages": {name: self._of_average(name) for name in AVERAGES},
            "by_missing_links": by_missing_links(self.shapes.values()),
            "by_answers": by_answers(self.shapes.values()),
            "not_numbers": sum(int(values.not_numbers.sum()) for values in self.shapes.values()),
            "constant_scores": sum(int(values.constant.sum()) for values in self.shapes.values()),
            "left_out": dict(self.left_out),
        }
        return result

    def _of_shape(self, shape: str) -> dict[str, Any]:
        values = self.shapes[shape]
        return {
            "queries": len(values),
            **values.means(),
            "ci95": list(self.ci95(shape) or ()),
            "hard_answers": int(values.hard.sum()),
            "by_missing_links": {str(links): dict(row) for links, row in values.links.items()},
            "not_numbers": int(values.not_numbers.sum()),
            "constant_scores": int(values.constant.sum()),
        }

    def _of_average(self, name: str) -> dict[str, Any] | None:
        shapes = self.average_of(name)
        if not shapes:
            return None
        means = {metric: self.mean(name, metric) for metric in METRICS}
        return {"shapes": list(shapes), **means, "ci95": list(self.ci95(name) or ())}


def evaluate(
    model: QueryModel,
    queries: Mapping[str, QuerySet],
    by: Interpretation | None = None,
    device: torch.device | str = "cpu",
    *,
    report: Callable[[int], None] = lambda _: None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Evaluation:
    """Rank the hard answers of all queries that the model can express; `report` takes how many are done.

    `by` says how queries are rewritten for the model; None asks the model itself.
    """
    begin = time.perf_counter()
    if by is None:
        from flexkg.models import interpretation

        by = interpretation(model)
    found: dict[str, ShapeValues] = {}
    left_out: dict[str, str] = {}
    done = 0
    with model.keeping_candidates():
        for pack in _packs(queries, by, batch_height(model, device), left_out):
            ranks = rank_together(model, list(pack.values()), by, device, _after(done, report))
            for (shape, query_set), result in zip(pack.items(), ranks, strict=True):
                found[shape] = summarise(shape, query_set, result)
                done += len(query_set)
    bootstrap = {
        shape: resampled_means(values.values["mrr"], shape, seed, resamples) for shape, values in found.items()
    }
    return Evaluation(found, bootstrap, time.perf_counter() - begin, left_out)


def _after(done: int, report: Callable[[int], None]) -> Callable[[int], None]:
    return lambda now: report(done + now)


def answerable(template: Term, by: Interpretation) -> str | None:
    """Why queries of a template cannot be answered, or None if they can be."""
    try:
        prepare(template, by)
    except UnsupportedOperator as error:
        return f"{error.model} cannot express {error.what}"
    return None


def _packs(
    queries: Mapping[str, QuerySet], by: Interpretation, height: int, left_out: dict[str, str]
) -> Iterator[dict[str, QuerySet]]:
    """Shapes to rank together: small ones share a batch, and no more are in memory than make one."""
    pack: dict[str, QuerySet] = {}
    for shape in queries:
        query_set = _with_hard_answers(queries[shape])
        reason = answerable(query_set.template, by)
        if reason is None and query_set.complement:
            reason = "nearly all entities are answers, so there is next to nothing to rank against"
        if reason is None and len(query_set) == 0:
            reason = "there are no queries"
        if reason is not None:
            left_out[shape] = reason
            continue
        pack[shape] = query_set
        if sum(map(len, pack.values())) >= height:
            yield pack
            pack = {}
    if pack:
        yield pack


def _with_hard_answers(queries: QuerySet) -> QuerySet:
    """The queries that have something to predict; a workload from elsewhere may hold others."""
    has = queries.answers["hard"].lengths > 0
    return queries if has.all() else queries.take(np.flatnonzero(has))


def summarise(shape: str, queries: QuerySet, ranks: Ranks) -> ShapeValues:
    """What the ranks of one shape's queries come to."""
    easy = queries.answers["easy"].lengths
    values = ranks.per_query() | {
        "mrr_optimistic": ranks.mean(1 / ranks.optimistic),
        "mrr_pessimistic": ranks.mean(1 / ranks.pessimistic),
    }
    return ShapeValues(
        shape,
        fingerprint(queries),
        values,
        ranks.lengths,
        easy + ranks.lengths,
        ranks.not_numbers,
        ranks.constant,
        {} if queries.hardness is None else _links(queries.hardness, ranks),
    )


def fingerprint(queries: QuerySet) -> str:
    """SHA-256 of the queries with their answers."""
    digest = hashlib.sha256(queries.key.encode())
    columns = [queries.answers[name] for name in ("easy", "hard")]
    answers = [part for column in columns for part in (column.lengths, column.members)]
    for part in (queries.entities, queries.relations, *answers):
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def by_missing_links(shapes: Iterable[ShapeValues]) -> dict[str, dict[str, Any]]:
    """For each number of missing links, over the queries of all shapes that have such answers."""
    rows: dict[int, list[Mapping[str, Any]]] = {}
    for values in shapes:
        for links, row in values.links.items():
            rows.setdefault(links, []).append(row)
    return {str(links): _pooled(rows[links]) for links in sorted(rows)}


def by_answers(shapes: Iterable[ShapeValues]) -> dict[str, dict[str, Any]]:
    """For each bucket of numbers of answers, easy and hard together, over the queries of all shapes."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for values in shapes:
        bucket = np.searchsorted(ANSWERS, values.answers, side="right") - 1
        for place in np.unique(bucket).tolist():
            here = bucket == place
            means = {metric: float(values.values[metric][here].mean()) for metric in METRICS[:4]}
            row = {"answers": int(values.hard[here].sum()), "queries": int(here.sum()), **means}
            rows.setdefault(_bucket_name(place), []).append(row)
    return {name: _pooled(rows[name]) for name in map(_bucket_name, range(len(ANSWERS))) if name in rows}


def _bucket_name(place: int) -> str:
    least = ANSWERS[place]
    if place == len(ANSWERS) - 1:
        return f"{least}+"
    most = ANSWERS[place + 1] - 1
    return str(least) if least == most else f"{least}-{most}"


def _pooled(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows of several shapes as one, each query counting once."""
    rows = list(rows)
    weights = [row["queries"] for row in rows]
    means = {metric: float(np.average([row[metric] for row in rows], weights=weights)) for metric in METRICS[:4]}
    return {"answers": sum(row["answers"] for row in rows), "queries": sum(weights), **means}


def _links(hardness: NDArray[np.uint8], ranks: Ranks) -> dict[int, dict[str, Any]]:
    """Hard answers apart by the missing links that they need; a query counts where it has such answers."""
    query = np.repeat(np.arange(len(ranks.lengths)), ranks.lengths)
    values = {"mrr": 1 / ranks.realistic} | {f"hits@{k}": (ranks.realistic <= k).astype(float) for k in HITS}
    found = {}
    for links in np.unique(hardness).tolist():
        here = hardness == links
        counts = np.bincount(query[here], minlength=len(ranks.lengths))
        has = counts > 0
        means = {
            metric: float((np.bincount(query[here], value[here], len(counts))[has] / counts[has]).mean())
            for metric, value in values.items()
        }
        found[links] = {"answers": int(here.sum()), "queries": int(has.sum()), **means}
    return found
