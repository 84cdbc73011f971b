"""A run that answers: exact answers from known facts and predicted ones from the model, in one ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flexkg.api import KnowledgeGraph, choose_device
from flexkg.errors import FlexError, QueryError
from flexkg.evaluation.calibration import Calibration
from flexkg.evaluation.kinds import kind_of
from flexkg.predictor.judged import Judge, ranked
from flexkg.predictor.predictions import Predictions
from flexkg.predictor.shortlist import Finder, Shortlist, Wanted
from flexkg.query.terms import Entity, Project
from flexkg.query.walk import check_size, postorder
from flexkg.training.folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from flexkg.models import QueryModel
    from flexkg.predictor.judged import Judged
    from flexkg.query.terms import Term

    Query = str | Sequence[Any] | Term

_KEPT_BELOW = 1 << 30
"""Bytes up to which the entities are kept as the distance sees them, instead of being made for every question."""
MOST = 10_000
"""Answers that may be asked for: beyond that a file of scores is what is wanted."""


def open(path: str | Path, device: str = "auto") -> Predictor:
    """Open a run folder that `train` made, wherever it was made."""
    return Predictor.open(path, device)


class Predictor:
    """A trained run, ready to answer; any number of threads may ask at once."""

    def __init__(self, run: RunFolder, model: QueryModel, calibration: Calibration | None) -> None:
        self.run = run
        self.kg = KnowledgeGraph(run.dataset)
        self.model = model
        self.calibration = calibration
        self.device = next(model.parameters()).device
        self.judge = Judge(self.kg, model, calibration, Finder(model))
        # Made now, so that threads only read it.
        self.kg.engine()

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
        self,
        query: Query,
        top: int = 10,
        *,
        known: bool = True,
        min_probability: float | None = None,
        estimate: bool = True,
    ) -> Predictions:
        """The best `top` answers to one query: known ones first, then predicted ones by descending score.

        `known=False` leaves the known ones out; `min_probability` leaves out what is less likely. Without `estimate`
        nothing needs the scores of all entities, which on a large graph is several times as fast.
        """
        return self.ask_many([query], top, known=known, min_probability=min_probability, estimate=estimate)[0]

    def ask_many(
        self,
        queries: Sequence[Query],
        top: int = 10,
        *,
        known: bool = True,
        min_probability: float | None = None,
        estimate: bool = True,
    ) -> list[Predictions]:
        """The same for several queries at once, which are answered in one plan."""
        self._check(top, min_probability)
        terms = [self.parse(query) for query in queries]
        if estimate and self.calibration is not None:
            found = self.judge.judge(terms)
            return [self._predictions(judged, top, known, min_probability, counted=True) for judged in found]
        return [
            self._listed(one, min_probability)
            if isinstance(one, Shortlist)
            else self._predictions(one, top, known, min_probability, counted=False)
            for one in self.judge.shortlist(terms, Wanted(top, known))
        ]

    def _listed(self, short: Shortlist, least: float | None) -> Predictions:
        kind = kind_of(short.term)
        chances, source = None, None
        if self.calibration is not None:
            chances, source = self.calibration.probabilities(kind, short.scores)
        answers = ranked(self.run.dataset, short.ids, short.scores, short.known, chances)
        if least is not None:
            answers = tuple(answer for answer in answers if (answer.probability or 0.0) >= least)
        return Predictions(short.term, answers, short.known_count, None, kind, source, short.notes, self.judge)

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

    def _predictions(self, judged: Judged, top: int, known: bool, least: float | None, counted: bool) -> Predictions:
        ids = judged.best(top, known)
        if least is not None and judged.probabilities is not None:
            ids = ids[judged.probabilities[ids] >= least]
        return Predictions(
            judged.term,
            judged.listed(ids, self.run.dataset),
            int(judged.known.sum()),
            float(judged.probabilities.sum()) if counted and judged.probabilities is not None else None,
            kind_of(judged.term),
            judged.calibration,
            judged.notes,
            self.judge,
        )
