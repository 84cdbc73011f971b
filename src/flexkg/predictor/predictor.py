"""A run that answers: exact answers from known facts and predicted ones from the model, in one ranking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from flexkg.api import KnowledgeGraph, choose_device
from flexkg.errors import DataError, FlexError, QueryError, UnsupportedOperator
from flexkg.evaluation.calibration import Calibration
from flexkg.evaluation.kinds import kind_of
from flexkg.models import embed
from flexkg.predictor.answers import Prediction, Predictions
from flexkg.query.terms import Entity, Project
from flexkg.query.walk import check_size, postorder
from flexkg.training.folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from flexkg.models import QueryModel
    from flexkg.query.terms import Term

    Query = str | Sequence[Any] | Term

_BUDGET = 64 << 20
"""Bytes of scores that are held at a time."""
_KEPT_BELOW = 1 << 30
"""Bytes up to which the entities are kept as the distance sees them, instead of being made for every question."""
MOST = 10_000
"""Answers that may be asked for: beyond that a file of scores is what is wanted."""


def open(path: str | Path, device: str = "auto") -> Predictor:
    """Open a run folder that `train` made, wherever it was made."""
    return Predictor.open(path, device)


@dataclass(frozen=True, eq=False)
class Judged:
    """What the facts and the model say of every entity for one query."""

    term: Term
    scores: NDArray[np.float32]
    """(entities,)."""
    known: NDArray[np.bool_]
    """(entities,): whether the facts prove it."""
    probabilities: NDArray[np.float64] | None
    """(entities,): 1 where known; None without a calibration."""
    calibration: str | None
    notes: tuple[str, ...]

    def best(self, count: int, known: bool = True) -> NDArray[np.int64]:
        """Ids of the first `count` answers: known ones first, unless they are left out, then by descending score."""
        first = highest(self.scores, np.flatnonzero(self.known), count) if known else np.zeros(0, dtype=np.int64)
        rest = highest(self.scores, np.flatnonzero(~self.known), count - len(first))
        return np.concatenate([first, rest])


class Predictor:
    """A trained run, ready to answer; any number of threads may ask at once."""

    def __init__(self, run: RunFolder, model: QueryModel, calibration: Calibration | None) -> None:
        self.run = run
        self.kg = KnowledgeGraph(run.dataset)
        self.model = model
        self.calibration = calibration
        self.device = next(model.parameters()).device
        # Made now, so that threads only read them.
        self.engine = self.kg.engine()

    @classmethod
    def open(cls, path: str | Path, device: str = "auto") -> Predictor:
        """Open a run folder; nothing outside of it is needed."""
        run = RunFolder.open(path)
        model = run.model(choose_device(device))
        model.keep_candidates(_KEPT_BELOW)
        return cls(run, model, Calibration.load(run.path))

    def __repr__(self) -> str:
        data = self.run.dataset
        return f"<Predictor {self.model.name} on {data.name}: {len(data.entities):,} entities, {self.run.path}>"

    def parse(self, query: Query) -> Term:
        """The term that a query text, a nested list or a term stands for, checked against this run's data."""
        term = self.kg.parse(query)
        check_size(term)
        entities, relations = self.model.num_entities, self.model.num_relations
        for node in postorder(term):
            if isinstance(node, Entity) and not 0 <= node.id < entities:
                raise QueryError(f"There is no entity {node.id}.", hint=f"The ids go from 0 to {entities - 1}.")
            if isinstance(node, Project) and not 0 <= node.relation < relations:
                raise QueryError(f"There is no relation {node.relation}.", hint=f"Ids go from 0 to {relations - 1}.")
        return term

    def ask(
        self, query: Query, top: int = 10, *, known: bool = True, min_probability: float | None = None
    ) -> Predictions:
        """The best `top` answers to one query: known ones first, then predicted ones by descending score.

        `known=False` leaves the known ones out; `min_probability` leaves out what is less likely.
        """
        return self.ask_many([query], top, known=known, min_probability=min_probability)[0]

    def ask_many(
        self, queries: Sequence[Query], top: int = 10, *, known: bool = True, min_probability: float | None = None
    ) -> list[Predictions]:
        """The same for several queries at once, which are answered in one plan."""
        self._check(top, min_probability)
        terms = [self.parse(query) for query in queries]
        return [self._predictions(judged, top, known, min_probability) for judged in self.judge(terms)]

    def judge(self, terms: Sequence[Term]) -> Iterator[Judged]:
        """Scores, known answers and probabilities of all entities for each query, some queries at a time."""
        height = max(1, _BUDGET // (16 * self.model.num_entities))
        for start in range(0, len(terms), height):
            yield from self._judge(terms[start : start + height])

    @torch.no_grad()
    def _judge(self, terms: Sequence[Term]) -> Iterator[Judged]:
        try:
            states, prepared = embed(self.model, terms)
        except UnsupportedOperator as error:
            error.hint = "The known answers alone: flexkg answer."
            raise
        scores = self.model.score_all(states, prepared.owner, prepared.count).float().cpu().numpy()
        if not np.isfinite(scores).all():
            raise DataError(f"The model in {self.run.path} gives scores that are not numbers.", hint="Train it again.")
        for row, (term, (listed, complement)) in enumerate(zip(terms, self.engine.answer(terms).rows(), strict=True)):
            known = np.full(self.model.num_entities, complement)
            known[listed] = not complement
            probabilities, source = None, None
            if self.calibration is not None:
                values, source = self.calibration.probabilities(kind_of(term), scores[row])
                probabilities = np.where(known, 1.0, values)
            yield Judged(term, scores[row], known, probabilities, source, prepared.notes[row])

    def _check(self, top: int, min_probability: float | None) -> None:
        if not 0 <= top <= MOST:
            raise FlexError(f"top is {top:,}; it can be 0 to {MOST:,}.")
        if min_probability is None:
            return
        if not 0 <= min_probability <= 1:
            raise FlexError(f"The least probability is {min_probability}; it can be 0 to 1.")
        if self.calibration is None:
            raise FlexError(
                "This run has no probabilities: it was trained without a validation split.",
                hint="Leave the least probability away, or train on data with a validation split.",
            )

    def _predictions(self, judged: Judged, top: int, known: bool, least: float | None) -> Predictions:
        ids = judged.best(top, known)
        if least is not None and judged.probabilities is not None:
            ids = ids[judged.probabilities[ids] >= least]
        return Predictions(
            self,
            judged.term,
            self.listed(judged, ids),
            int(judged.known.sum()),
            None if judged.probabilities is None else float(judged.probabilities.sum()),
            kind_of(judged.term),
            judged.calibration,
            judged.notes,
        )

    def listed(self, judged: Judged, ids: NDArray[np.int64]) -> tuple[Prediction, ...]:
        """Some entities of a query as answers, ranked in the given order."""
        entities, chances = self.run.dataset.entities, judged.probabilities
        return tuple(
            Prediction(
                rank,
                id,
                entities.identifier(id),
                entities.name(id),
                float(judged.scores[id]),
                1.0 if judged.known[id] else None if chances is None else float(chances[id]),
                bool(judged.known[id]),
            )
            for rank, id in enumerate(ids.tolist(), start=1)
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
