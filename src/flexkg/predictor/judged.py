"""What the facts and the model say of every entity, for each query and each part of one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from flexkg import wanted
from flexkg.errors import DataError, UnsupportedOperator
from flexkg.evaluation.kinds import kind_of
from flexkg.kg.dataset import SPLITS
from flexkg.kg.loops import loopless
from flexkg.models import embed
from flexkg.predictor.answers import Prediction
from flexkg.predictor.shortlist import NOTHING, Facts
from flexkg.query import certain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from flexkg.api import KnowledgeGraph
    from flexkg.engine.engine import Engine
    from flexkg.evaluation.calibration import Calibration
    from flexkg.kg.dataset import Dataset
    from flexkg.models import QueryModel
    from flexkg.plan.prepare import PreparedPlan
    from flexkg.predictor.shortlist import Finder, Listed, Shortlist, Wanted
    from flexkg.query.terms import Term

_BUDGET = 64 << 20
"""Bytes of scores that are held at a time."""


@dataclass(frozen=True, eq=False)
class Judged:
    """What the facts and the model say of every entity for one query."""

    term: Term
    scores: NDArray[np.float32]
    """(entities,)."""
    known: NDArray[np.bool_]
    """(entities,): whether the facts prove it."""
    excluded: NDArray[np.bool_]
    """(entities,): whether the facts rule it out, whatever is missing."""
    probabilities: NDArray[np.float64] | None
    """(entities,): 1 where known, 0 where excluded; None without a calibration."""
    calibration: str | None
    """What the probabilities rest on: `kind`, `pooled` or nothing."""
    notes: tuple[str, ...]
    """What was rewritten for want of an operator."""

    @cached_property
    def chances(self) -> NDArray[np.float64]:
        """(entities,): the probabilities; without a calibration an order of likelihood that puts facts first."""
        if self.probabilities is not None:
            return self.probabilities
        likely = 0.999 / (1 + np.exp(-self.scores.astype(np.float64).clip(-700, 700)))
        return np.where(self.known, 1.0, np.where(self.excluded, 0.0, likely))

    def best(self, count: int, known: bool = True) -> NDArray[np.int64]:
        """Ids of the first `count` answers: known ones first, unless they are left out, then by descending score.

        What the facts rule out is no answer.
        """
        first = highest(self.scores, np.flatnonzero(self.known), count) if known else np.zeros(0, dtype=np.int64)
        rest = highest(self.scores, np.flatnonzero(~self.known & ~self.excluded), count - len(first))
        return np.concatenate([first, rest])

    def highest(self, count: int) -> NDArray[np.int64]:
        """Ids of the `count` highest scores: what the model computed, whatever the facts say."""
        return highest(self.scores, np.arange(len(self.scores)), count)

    def likeliest(self, count: int) -> NDArray[np.int64]:
        """Ids of the `count` highest scores, known or not, of what the facts do not rule out."""
        return highest(self.scores, np.flatnonzero(~self.excluded), count)

    def listed(self, ids: NDArray[np.int64], dataset: Dataset) -> tuple[Prediction, ...]:
        """Some entities as answers, ranked in the given order."""
        chances = None if self.probabilities is None else self.probabilities[ids]
        return ranked(dataset, ids, self.scores[ids], self.known[ids], chances)


@dataclass(frozen=True, eq=False)
class Judge:
    """The facts, the model and its calibration; nothing changes, so that threads may share it."""

    kg: KnowledgeGraph
    model: QueryModel
    calibration: Calibration | None
    finder: Finder

    @property
    def dataset(self) -> Dataset:
        """Names and facts."""
        return self.kg.dataset

    @property
    def engine(self) -> Engine:
        """The exact engine over all facts."""
        return self.kg.engine()

    def judge(self, terms: Sequence[Term]) -> Iterator[Judged]:
        """Judge each query in turn; they are scored together, as many at a time as memory allows."""
        for some in self._batches(terms):
            states, prepared = self._embed(some)
            yield from self._judge(some, states, prepared, self._facts(some))

    def shortlist(self, terms: Sequence[Term], order: Wanted) -> Iterator[Shortlist | Judged]:
        """What to show for each query in turn, without scoring all entities where that can be done and pays.

        Queries go through the model in the batches of `judge`, so that both give the same scores to the last bit.
        """
        if not self.finder.ready(len(terms)):
            yield from self.judge(terms)
            return
        for some in self._batches(terms):
            states, prepared = self._embed(some)
            facts = self._facts(some)
            found = self.finder.find(some, states, prepared, facts, order)
            judged = self._judge(some, states, prepared, facts) if None in found else []
            for place, short in enumerate(found):
                yield judged[place] if short is None else short

    def _batches(self, terms: Sequence[Term]) -> Iterator[Sequence[Term]]:
        height = max(1, _BUDGET // (16 * self.model.num_entities))
        for start in range(0, len(terms), height):
            wanted.check()
            yield terms[start : start + height]

    def _facts(self, terms: Sequence[Term]) -> list[Facts]:
        """What the facts prove and what they rule out, of each query."""
        excluding = [certain.excluding(term, self._has_no_loops) for term in terms]
        # In one plan: what excludes is mostly a part of the query itself.
        rows = list(self.engine.answer([*terms, *(term for term in excluding if term is not None)]).rows())
        known, ruled_out = rows[: len(terms)], iter(rows[len(terms) :])
        return [
            Facts(proved, NOTHING if term is None else next(ruled_out))
            for proved, term in zip(known, excluding, strict=True)
        ]

    def _has_no_loops(self, relation: int) -> bool:
        return bool(self._loopless[relation >> 1])

    @cached_property
    def _loopless(self) -> NDArray[np.bool_]:
        """(relations,)."""
        known = np.concatenate([self.dataset.triples[split] for split in SPLITS])
        return loopless(known, len(self.dataset.relations))

    def _judge(
        self, terms: Sequence[Term], states: Tensor, prepared: PreparedPlan, facts: Sequence[Facts]
    ) -> list[Judged]:
        scores = self.model.score_all(states, prepared.owner, prepared.count).float().cpu().numpy()
        if not np.isfinite(scores).all():
            raise DataError("The model gives scores that are not numbers.", hint="Train it again.")
        return [
            self._judged(term, own, settled, changed)
            for term, own, settled, changed in zip(terms, scores, facts, prepared.notes, strict=True)
        ]

    @torch.no_grad()
    def _embed(self, terms: Sequence[Term]) -> tuple[Tensor, PreparedPlan]:
        try:
            return embed(self.model, terms)
        except UnsupportedOperator as error:
            error.hint = "The exact engine still knows what the facts prove: flexkg answer."
            raise

    def _judged(self, term: Term, scores: NDArray[np.float32], facts: Facts, notes: tuple[str, ...]) -> Judged:
        known, excluded = (_members(part, self.model.num_entities) for part in (facts.known, facts.excluded))
        if self.calibration is None:
            return Judged(term, scores, known, excluded, None, None, notes)
        values, source = self.calibration.probabilities(kind_of(term), scores)
        chances = np.where(known, 1.0, np.where(excluded, 0.0, values))
        return Judged(term, scores, known, excluded, chances, source, notes)


def _members(listed: Listed, entities: int) -> NDArray[np.bool_]:
    """(entities,): whether each is in the set."""
    ids, complement = listed
    members = np.full(entities, complement)
    members[ids] = not complement
    return members


def ranked(
    dataset: Dataset,
    ids: NDArray[np.int64],
    scores: NDArray[np.float32],
    known: NDArray[np.bool_],
    chances: NDArray[np.float64] | None,
) -> tuple[Prediction, ...]:
    """Entities as answers, ranked in the given order; what the facts prove has probability 1."""
    entities = dataset.entities
    return tuple(
        Prediction(
            place + 1,
            id,
            entities.identifier(id),
            entities.name(id),
            float(scores[place]),
            1.0 if known[place] else None if chances is None else float(chances[place]),
            bool(known[place]),
        )
        for place, id in enumerate(ids.tolist())
    )


def highest(scores: NDArray[np.float32], among: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The `count` ids with the highest scores, best first; of equal ones the lower id first."""
    if count <= 0:
        return among[:0]
    values = scores[among]
    if len(among) > count:
        # Everything at or above the last score that gets in, so that ties are broken by id and not by chance.
        kept = values >= np.partition(values, len(values) - count)[len(values) - count]
        among, values = among[kept], values[kept]
    return among[np.argsort(-values, kind="stable")[:count]]
