"""What the routes do, in terms of a predictor: questions in, JSON out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import numpy as np

from flexkg.errors import LimitError
from flexkg.evaluation.kinds import kind_of
from flexkg.models import interpretation
from flexkg.plan.prepare import prepare
from flexkg.query.terms import operands
from flexkg.query.tokens import written
from flexkg.query.walk import postorder
from flexkg.server.examples import examples
from flexkg.server.replies import Fault, RequestError, fault_of, to_json
from flexkg.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flexkg.predictor.judged import Judged
    from flexkg.predictor.predictions import Predictions
    from flexkg.predictor.predictor import Predictor
    from flexkg.query.terms import Term
    from flexkg.server.settings import Limits

_BINS = 40


class Wish(Enum):
    """What is wanted of a question."""

    RANKED = auto()
    EXPLAINED = auto()
    EXACT = auto()
    INFO = auto()


@dataclass(frozen=True, slots=True)
class Question:
    """One job for the thread that answers."""

    wish: Wish
    term: Term | None = None
    count: int = 0
    """Answers to give."""

    @property
    def alone(self) -> bool:
        """Whether it cannot share a plan with others."""
        return self.wish is not Wish.RANKED


class Service:
    """A predictor behind limits; only `work` computes, and only one thread may be in it."""

    def __init__(self, predictor: Predictor, limits: Limits) -> None:
        self.predictor = predictor
        self.limits = limits
        self._info: bytes | None = None

    def read(self, text: str, *, explained: bool = False, exact: bool = False) -> Term:
        """The term of a query text, within the limits."""
        limits = self.limits
        if len(text) > limits.query_characters:
            raise LimitError(
                f"The query has {len(text):,} characters; {limits.query_characters:,} are allowed.",
                hint="Ask a shorter one.",
            )
        term = self.predictor.parse(text)
        parts = _parts([term])
        if not exact:
            parts = max(parts, _parts(prepare(term, interpretation(self.predictor.model)).terms))
        most = limits.explained_parts if explained else limits.query_parts
        if parts > most:
            raise LimitError(
                f"The query has {parts:,} parts as it would be run; {most:,} are allowed"
                f"{' where it is to be explained' if explained else ''}.",
                hint="Ask a part of it.",
            )
        return term

    def check(self, text: str) -> dict[str, Any]:
        """Whether a query can be asked; if not, what is wrong and where."""
        try:
            term = self.read(text)
        except Exception as error:
            fault = fault_of(error)
            if fault is None:
                raise
            return _checked(fault)
        return {"ok": True, "query": self.predictor.kg.text(term), "kind": kind_of(term), "error": None, "width": None}

    def entities(self, prefix: str, count: int) -> list[dict[str, Any]]:
        """Entities whose name, alias or identifier begins with the prefix."""
        dataset = self.predictor.run.dataset
        return [
            {
                "entity": dataset.entities.identifier(id),
                "name": dataset.entities.name(id),
                "text": written(dataset.names.entity_text(id)),
                "description": dataset.entities.description(id) or "",
            }
            for id in dataset.entities.complete(prefix, count)
        ]

    def relations(self, prefix: str, count: int) -> list[dict[str, Any]]:
        """Relations whose name or identifier begins with the prefix."""
        dataset = self.predictor.run.dataset
        return [
            {
                "relation": dataset.relations.identifier(id),
                "name": dataset.relations.name(id),
                "text": written(dataset.names.relation_text(id)),
                "description": dataset.relations.description(id) or "",
            }
            for id in dataset.relations.complete(prefix, count)
        ]

    def work(self, questions: Sequence[Question]) -> list[bytes | BaseException]:
        """Answer a batch; a question that fails spoils no other."""
        if len(questions) == 1:
            return [self._one(questions[0])]
        terms = [question.term for question in questions if question.term is not None]
        try:
            found = self.predictor.ask_many(terms, max(question.count for question in questions))
        except Exception:
            return [self._one(question) for question in questions]
        return [to_json(_first(one, question.count)) for question, one in zip(questions, found, strict=True)]

    def _one(self, question: Question) -> bytes | BaseException:
        try:
            return self._answered(question)
        except Exception as error:
            return error

    def _answered(self, question: Question) -> bytes:
        if question.wish is Wish.INFO:
            self._info = self._info or to_json(self._about())
            return self._info
        assert question.term is not None, "every question but that for information has a term"
        match question.wish:
            case Wish.RANKED:
                return to_json(self.predictor.ask(question.term, question.count).to_dict())
            case Wish.EXPLAINED:
                return to_json(self._explained(question.term, question.count))
        answers = self.predictor.kg.answer(question.term)
        return to_json(
            {
                "query": answers.query,
                "count": answers.count,
                "complement": answers.complement,
                "answers": answers.to_dicts(question.count),
            }
        )

    def _explained(self, term: Term, top: int) -> dict[str, Any]:
        found = self.predictor.ask(term, top)
        reasoning = replace(found, answers=found.answers[: self.limits.explained_answers]).explain()
        judged = next(iter(self.predictor.judge.judge([term])))
        return found.to_dict() | reasoning.to_dict() | {"histogram": _histogram(judged)}

    def _about(self) -> dict[str, Any]:
        predictor, limits = self.predictor, self.limits
        dataset = predictor.run.dataset
        about = dataset.info()
        return {
            "version": __version__,
            "model": predictor.model.name,
            "operators": sorted(str(operator) for operator in predictor.model.operators),
            "calibrated": predictor.calibration is not None,
            "data": {
                "name": dataset.name,
                "entities": about["entities"],
                "relations": about["relations"],
                "edges": about["edges"],
            },
            "limits": {
                "body_bytes": limits.body_bytes,
                "query_characters": limits.query_characters,
                "top": limits.top,
                "listed": limits.listed,
                "explained_answers": limits.explained_answers,
                "seconds": limits.seconds,
            },
            "examples": examples(predictor),
        }


def too_slow(limits: Limits) -> RequestError:
    """What is said of a question that took too long."""
    return RequestError(
        422,
        f"The answer took longer than {limits.seconds:g} seconds.",
        kind="time",
        hint="Ask a smaller question, or again when fewer ask.",
    )


def _parts(terms: Sequence[Term]) -> int:
    """Operators and names of some terms, where equal ones are shared but every use of one counts."""
    return len(terms) + sum(len(operands(node)) for node in {node for term in terms for node in postorder(term)})


def _first(found: Predictions, count: int) -> dict[str, Any]:
    """The first answers only: a batch is ranked to the depth of its deepest question."""
    return (found if len(found) <= count else replace(found, answers=found.answers[:count])).to_dict()


def _checked(fault: Fault) -> dict[str, Any]:
    return {"ok": False, "query": None, "kind": None, "error": fault.error(), "width": fault.width}


def _histogram(judged: Judged) -> dict[str, Any]:
    """How many entities have which score, known answers apart."""
    low, high = float(judged.scores.min()), float(judged.scores.max())
    edges = np.linspace(low, high if high > low else low + 1, _BINS + 1)
    return {
        "low": low,
        "high": float(edges[-1]),
        "known": np.histogram(judged.scores[judged.known], edges)[0].tolist(),
        "others": np.histogram(judged.scores[~judged.known], edges)[0].tolist(),
    }
