"""From scores to probabilities: logistic curves fitted on validation queries, one for each kind of query.

The event is that an entity which the smaller graph does not make an answer, and does not rule out, is one in the larger
graph. Every curve
has two numbers and rises with the score. Kinds of query that validation does not have use a curve fitted on all.
How far probabilities can be trusted is measured on validation queries that took no part in the fit: the expected
calibration error over each query's ten best predictions.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from flexkg.engine import ragged
from flexkg.errors import DataError, UnsupportedOperator
from flexkg.evaluation.counting import places
from flexkg.evaluation.kinds import kind_of
from flexkg.evaluation.ranking import score_groups
from flexkg.kg.storage import read_json
from flexkg.query.certain import excluding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    from flexkg.engine.engine import Engine
    from flexkg.models import QueryModel
    from flexkg.plan.prepare import Interpretation
    from flexkg.query.terms import Term
    from flexkg.sampling.queries import Column, QuerySet

    Numbers = NDArray[np.float64]

FILE = "calibration.json"
FORMAT, VERSION = "flexkg-calibration", 1
TOP = 10
"""Predictions of each query over which calibration is measured."""

_QUERIES = 1000
"""Queries of a kind that are used at most."""
_HARDEST, _RANDOM = 64, 64
"""Non-answers of a query that take part: those with the highest scores, and some of the others, weighted."""
_FEWEST = 20
"""Answers that a curve of its own needs."""
_BINS = 10
_BUDGET = 256 << 20


@dataclass(frozen=True)
class Curve:
    """Probability of a score: 1 / (1 + exp(-(slope * score + intercept)))."""

    slope: float
    intercept: float

    def __call__(self, scores: NDArray[np.floating[Any]]) -> Numbers:
        """The probabilities of scores."""
        return np.asarray(_logistic(self.slope * scores.astype(np.float64) + self.intercept))


@dataclass(frozen=True)
class Bin:
    """Predictions of similar probability: `low` to `high`."""

    low: float
    high: float
    count: int
    probability: float
    """Their mean probability."""
    share: float
    """The share of them that are answers."""


@dataclass(frozen=True)
class Measured:
    """How probabilities fare on queries that took no part in the fit."""

    queries: int
    """How many these are."""
    ece: float
    """Expected calibration error: by how much probabilities and shares differ, averaged over predictions."""
    bins: tuple[Bin, ...]


@dataclass(frozen=True)
class Calibration:
    """A curve for each kind of query that validation has, one for all others, and what was measured."""

    kinds: Mapping[str, Curve]
    pooled: Curve
    measured: Measured
    """Over all kinds, each by its own curve."""
    by_kind: Mapping[str, Measured]
    pooled_ece: float
    """The same error where every kind is judged by a curve of the other kinds only."""

    def probabilities(self, kind: str, scores: NDArray[np.floating[Any]]) -> tuple[Numbers, str]:
        """The probabilities of scores, and what they rest on: queries of the same `kind`, or `pooled`."""
        curve = self.kinds.get(kind)
        return (self.pooled(scores), "pooled") if curve is None else (curve(scores), "kind")

    def to_dict(self) -> dict[str, Any]:
        """As it is stored."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "top": TOP,
            "kinds": {
                kind: {**asdict(curve), "queries": self.by_kind[kind].queries, "ece": self.by_kind[kind].ece}
                for kind, curve in self.kinds.items()
            },
            "pooled": {**asdict(self.pooled), "ece": self.pooled_ece},
            "queries": self.measured.queries,
            "ece": self.measured.ece,
            "bins": [asdict(part) for part in self.measured.bins],
        }

    @classmethod
    def load(cls, run: Path) -> Calibration | None:
        """The calibration in a run folder, or None if there is none."""
        path = run / FILE
        if not path.exists():
            return None
        content = read_json(path)
        if content.get("format") != FORMAT or content.get("version") != VERSION:
            raise DataError(f"{path} is no calibration that this flexkg reads.", hint=_AGAIN)
        try:
            kinds = {str(kind): _curve(entry) for kind, entry in content["kinds"].items()}
            by_kind = {
                str(kind): Measured(int(entry["queries"]), float(entry["ece"]), ())
                for kind, entry in content["kinds"].items()
            }
            bins = tuple(Bin(**entry) for entry in content["bins"])
            measured = Measured(int(content["queries"]), float(content["ece"]), bins)
            pooled = content["pooled"]
            return cls(kinds, _curve(pooled), measured, by_kind, float(pooled["ece"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"{path} is damaged: {error}.", hint=_AGAIN) from None


_AGAIN = "Remove the file to go without probabilities, or train again."


def _curve(entry: Mapping[str, Any]) -> Curve:
    curve = Curve(float(entry["slope"]), float(entry["intercept"]))
    if not (math.isfinite(curve.slope) and math.isfinite(curve.intercept) and curve.slope >= 0):
        raise ValueError("a curve does not rise with the score")
    return curve


@dataclass(frozen=True, eq=False)
class Sample:
    """Scored candidates of the queries of one kind: none of them an answer in the smaller graph."""

    query: NDArray[np.int64]
    """(candidates,): the number of the query."""
    scores: Numbers
    answer: NDArray[np.bool_]
    """(candidates,): whether the larger graph makes it an answer."""
    weights: Numbers
    """(candidates,): how many candidates each stands for."""
    top: NDArray[np.bool_]
    """(candidates,): whether it is among its query's best predictions."""

    def half(self, odd: bool) -> Sample:
        """The candidates of every second query."""
        return self.take(self.query % 2 == odd)

    def take(self, chosen: NDArray[np.bool_]) -> Sample:
        """Some candidates."""
        columns = (self.query, self.scores, self.answer, self.weights, self.top)
        return Sample(*(column[chosen] for column in columns))  # type: ignore[arg-type]


def calibrate(
    model: QueryModel,
    sets: Iterable[QuerySet],
    interpretation: Interpretation,
    facts: Engine,
    device: torch.device | str = "cpu",
    loopless: NDArray[np.bool_] | None = None,
) -> Calibration | None:
    """Fit on validation queries, over the smaller graph's facts; None if there are too few answers to predict.

    `loopless` says of each relation whether it has no loops, as those facts have it.
    """
    samples: dict[str, Sample] = {}
    with model.keeping_candidates():
        for queries in sets:
            try:
                if len(queries):
                    samples[kind_of(queries.template)] = collect(
                        model, queries, interpretation, facts, device, loopless
                    )
            except UnsupportedOperator:  # the model cannot be asked such queries anyway
                continue
    return calibrate_samples(samples)


def calibrate_samples(samples: Mapping[str, Sample]) -> Calibration | None:
    """Fit a curve for each kind and one for all; measure on the odd queries what the even ones teach."""
    kept = {kind: sample for kind, sample in samples.items() if sample.answer.sum() >= _FEWEST}
    if not kept:
        return None
    even = {kind: sample.half(False) for kind, sample in kept.items()}
    top: dict[str, tuple[Numbers, NDArray[np.bool_]]] = {}
    others: list[float] = []
    by_kind: dict[str, Measured] = {}
    for kind, sample in kept.items():
        odd = sample.half(True)
        odd = odd.take(odd.top)
        top[kind] = (fit([even[kind]])(odd.scores), odd.answer)
        rest = [part for name, part in even.items() if name != kind]
        if rest:
            others.append(measure(fit(rest)(odd.scores), odd.answer, 0).ece)
        by_kind[kind] = measure(*top[kind], queries=len(np.unique(odd.query)))
    probabilities, answer = (np.concatenate(column) for column in zip(*top.values(), strict=True))
    measured = measure(probabilities, answer, sum(part.queries for part in by_kind.values()))
    curves = {kind: fit([sample]) for kind, sample in kept.items()}
    pooled = fit(list(kept.values()))
    return Calibration(curves, pooled, measured, by_kind, float(np.mean(others)) if others else measured.ece)


@torch.no_grad()
def collect(
    model: QueryModel,
    queries: QuerySet,
    interpretation: Interpretation,
    facts: Engine,
    device: torch.device | str = "cpu",
    loopless: NDArray[np.bool_] | None = None,
) -> Sample:
    """Score the candidates of one kind's queries: all answers, the hardest non-answers, and some of the others."""
    random = np.random.default_rng(0)
    if len(queries) > _QUERIES:
        queries = queries.take(np.sort(random.choice(len(queries), _QUERIES, replace=False)))
    height = max(1, _BUDGET // (8 * model.num_entities))
    parts: list[Sample] = []
    for first in range(0, len(queries), height):
        batch = queries.take(np.arange(first, min(first + height, len(queries))))
        scores = score_groups(model, [(batch, slice(0, len(batch)))], interpretation, device)
        drawn = torch.from_numpy(random.integers(model.num_entities, size=(len(scores), _RANDOM)))
        open_ones = torch.full_like(scores, not queries.complement, dtype=torch.bool)
        open_ones[places(batch.answers["easy"], scores.device)] = queries.complement
        for rows, excluded in ruled_out(batch, loopless):
            open_ones[rows.to(scores.device)] &= ~_answers(facts, excluded, batch.take(rows.numpy())).to(scores.device)
        parts.append(_candidates(scores, open_ones, batch.answers["hard"], first, drawn.to(scores.device)))
    columns = ("query", "scores", "answer", "weights", "top")
    return Sample(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))


def ruled_out(queries: QuerySet, loopless: NDArray[np.bool_] | None) -> Iterator[tuple[Tensor, Term]]:
    """Rows, and the template of what facts rule out for them: which differs with the relations that have no loops."""
    patterns = np.zeros(queries.relations.shape, bool) if loopless is None else loopless[queries.relations >> 1]
    kinds, kind_of_row = np.unique(patterns, axis=0, return_inverse=True)
    for number, pattern in enumerate(kinds):
        excluded = excluding(queries.template, pattern.__getitem__)
        if excluded is not None:
            yield torch.from_numpy(np.flatnonzero(kind_of_row.ravel() == number)), excluded


def _answers(facts: Engine, template: Term, queries: QuerySet) -> Tensor:
    """Whether each entity answers another template that is filled as the queries are, (queries, entities)."""
    device = facts.algebra.device
    ids = [torch.from_numpy(part.astype(np.int64)).to(device) for part in (queries.entities, queries.relations)]
    parts = []
    for _, sets in facts.stream(template, ids[0], ids[1]):
        members = sets.complement[:, None].repeat(1, facts.graph.num_entities)
        row = ragged.row_of_member(sets.listed)
        members[row, ragged.shown(sets.listed).long()] = ~sets.complement[row]
        parts.append(members)
    return torch.cat(parts)


def _candidates(scores: Tensor, open_ones: Tensor, hard: Column, first: int, drawn: Tensor) -> Sample:
    """`open_ones` are neither answers already nor ruled out, (queries, entities); queries count from `first`."""
    answers = torch.zeros_like(open_ones)
    answers[places(hard, scores.device)] = True
    answers &= open_ones
    ranked = scores.masked_fill(~open_ones | scores.isnan(), -torch.inf)
    best = ranked.topk(min(TOP, scores.shape[1]), dim=1)
    top = torch.zeros_like(open_ones).scatter_(1, best.indices, best.values > -torch.inf)
    wrong = ranked.masked_fill(answers, -torch.inf)
    hardest = wrong.topk(min(_HARDEST, scores.shape[1]), dim=1)
    # What is drawn by chance stands for all that is neither an answer nor among the hardest.
    times = torch.zeros_like(scores).scatter_add_(1, drawn, torch.ones_like(drawn, dtype=scores.dtype))
    weights = torch.where(wrong > -torch.inf, times * (scores.shape[1] / drawn.shape[1]), 0.0)
    weights.scatter_(1, hardest.indices, (hardest.values > -torch.inf).to(weights.dtype))
    weights[answers] = 1.0
    row, column = torch.nonzero(weights, as_tuple=True)
    found = (values[row, column].cpu().numpy() for values in (scores, answers, weights, top))
    chosen, answer, weight, among = found
    return Sample(row.cpu().numpy() + first, chosen.astype(np.float64), answer, weight.astype(np.float64), among)


def fit(samples: Sequence[Sample]) -> Curve:
    """The rising logistic curve of greatest likelihood, by Newton's method in float64."""
    scores, weights = (np.concatenate([getattr(s, name) for s in samples]) for name in ("scores", "weights"))
    answer = np.concatenate([sample.answer for sample in samples]).astype(np.float64)
    total = weights.sum()
    centre = float((weights * scores).sum() / total)
    spread = math.sqrt(float((weights * (scores - centre) ** 2).sum() / total)) or 1.0
    scaled = (scores - centre) / spread
    rate = min(max(float((weights * answer).sum() / total), 1e-12), 1 - 1e-12)
    start = np.array([0.0, math.log(rate / (1 - rate))])
    found = _newton(scaled, answer, weights, start)
    # Where scores say less than nothing, the share of answers is all there is to say.
    slope, intercept = found if found[0] > 0 else start
    return Curve(float(slope / spread), float(intercept - slope * centre / spread))


def _newton(scores: Numbers, answer: Numbers, weights: Numbers, at: Numbers) -> Numbers:
    # A touch of pull towards 0 keeps the slope finite where answers and non-answers are cleanly apart.
    pull = np.array([1e-2, 0.0])

    def loss(place: Numbers) -> float:
        logits = place[0] * scores + place[1]
        return float((weights * (np.logaddexp(0, logits) - answer * logits)).sum() + (pull * place**2).sum() / 2)

    value = loss(at)
    for _ in range(100):
        chance = _logistic(at[0] * scores + at[1])
        error, curvature = weights * (chance - answer), weights * chance * (1 - chance)
        slope = np.array([(error * scores).sum(), error.sum()]) + pull * at
        cross = (curvature * scores).sum()
        bend = np.array([[(curvature * scores**2).sum(), cross], [cross, curvature.sum()]]) + np.diag(pull + 1e-9)
        step = np.linalg.solve(bend, slope)
        size = 1.0
        while (new := loss(at - size * step)) > value and size > 1e-6:
            size /= 2
        if not new < value - 1e-10 * abs(value):
            break
        at, value = at - size * step, new
    return at


def measure(probabilities: Numbers, answer: NDArray[np.bool_], queries: int) -> Measured:
    """Expected calibration error over ten bins that hold equally many predictions.

    Bins of equal width would put nearly all of them into one: most predictions are unlikely.
    """
    order = np.argsort(probabilities, kind="stable")
    bins = []
    for part in np.array_split(order, _BINS):
        if len(part):
            chances = probabilities[part]
            means = float(chances.mean()), float(answer[part].mean())
            bins.append(Bin(float(chances[0]), float(chances[-1]), len(part), *means))
    total = max(1, len(order))
    error = sum(one.count / total * abs(one.probability - one.share) for one in bins)
    return Measured(queries, error, tuple(bins))


def _logistic(values: Numbers) -> Numbers:
    return np.asarray(1 / (1 + np.exp(-np.clip(values, -700, 700))))
