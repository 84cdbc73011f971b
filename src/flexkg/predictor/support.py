"""What an answer rests on: the facts that are there, and the links that would have to hold.

The walk goes from the answer down the query. At a step along a relation it takes the likeliest entity to come from,
judged by what the query asks of that entity and by the link from it. Known links are facts; others are missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from flexkg.engine.witness import Absence
from flexkg.kg.dataset import SPLITS
from flexkg.query import statement
from flexkg.query.terms import And, Entity, Iff, Implies, Minus, Not, Or, Project, Term, Xor
from flexkg.query.terms import Any as Everything

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from flexkg.predictor.answers import Prediction
    from flexkg.predictor.judged import Judge, Judged


@dataclass(frozen=True, slots=True)
class Link:
    """One step along a directed relation, as the query takes it."""

    source: int
    relation: int
    target: int

    @property
    def triple(self) -> tuple[int, int, int]:
        """Head, relation of the graph, tail."""
        ends = (self.target, self.source) if self.relation & 1 else (self.source, self.target)
        return ends[0], self.relation >> 1, ends[1]


@dataclass(frozen=True)
class Reason:
    """Why an entity is among the answers."""

    answer: Prediction
    facts: tuple[dict[str, Any], ...]
    """Known facts: head, relation, tail, text, and the split that holds it."""
    missing: tuple[dict[str, Any], ...] = ()
    """Links that would have to hold: head, relation, tail, text, and the model's score and probability."""
    absent: tuple[str, ...] = ()
    """What is not known, and must not hold."""
    against: tuple[str, ...] = ()
    """What is known, and speaks against the answer."""

    def to_dict(self) -> dict[str, Any]:
        """Plain Python."""
        return {
            "entity": self.answer.entity,
            "name": self.answer.name,
            "known": self.answer.known,
            "facts": list(self.facts),
            "missing": list(self.missing),
            "absent": list(self.absent),
            "against": list(self.against),
        }

    def lines(self) -> list[str]:
        """A line for each reason."""
        return [
            *(fact["text"] + ("" if fact["split"] == "train" else f"  [{fact['split']}]") for fact in self.facts),
            *(f"missing: {link['text']}  {chance_text(link)}" for link in self.missing),
            *(f"not known: {text}" for text in self.absent),
            *(f"known, and against it: {text}" for text in self.against),
        ]


def chance_text(link: Mapping[str, Any]) -> str:
    """The probability of a link in per cent, or its score where there is none."""
    chance = link["probability"]
    return f"{100 * chance:.1f} %" if chance is not None else f"score {link['score']:.2f}"


@dataclass
class _Found:
    links: dict[Link, None] = field(default_factory=dict)
    absent: dict[Absence, None] = field(default_factory=dict)
    against: dict[Absence, None] = field(default_factory=dict)


class Supporter:
    """Finds for predicted answers of one query what they rest on, from what is judged of all its parts."""

    def __init__(self, judge: Judge, parts: Mapping[Term, Judged]) -> None:
        self._judge = judge
        self._parts = dict(parts)

    def reasons(self, term: Term, answers: list[Prediction]) -> list[Reason]:
        """What each answer rests on."""
        found = []
        for answer in answers:
            one = _Found()
            self._collect(term, answer.id, True, one)
            found.append(one)
        links = list(dict.fromkeys(link for one in found for link in one.links))
        described = dict(zip(links, self._described(links), strict=True))
        names = self._judge.dataset.names
        return [
            Reason(
                answer,
                tuple(described[link] for link in one.links if "split" in described[link]),
                tuple(described[link] for link in one.links if "split" not in described[link]),
                tuple(statement(absence.term, names, absence.entity) for absence in one.absent),
                tuple(statement(absence.term, names, absence.entity) for absence in one.against),
            )
            for answer, one in zip(answers, found, strict=True)
        ]

    def _described(self, links: list[Link]) -> list[dict[str, Any]]:
        """The links with their names; known ones with their split, others with score and probability."""
        if not links:
            return []
        dataset = self._judge.dataset
        splits = dataset.split_of([link.triple for link in links]).tolist()
        unknown = [
            Project(link.relation, Entity(link.source)) for link, split in zip(links, splits, strict=True) if split < 0
        ]
        self._learn(unknown)
        rows = []
        for link, split in zip(links, splits, strict=True):
            head, relation, tail = link.triple
            row: dict[str, Any] = {
                "head": dataset.entities.identifier(head),
                "relation": dataset.relations.identifier(relation),
                "tail": dataset.entities.identifier(tail),
                "text": statement(Project(2 * relation, Entity(head)), dataset.names, tail),
            }
            if split >= 0:
                row["split"] = SPLITS[split]
            else:
                judged = self._parts[Project(link.relation, Entity(link.source))]
                row["score"] = float(judged.scores[link.target])
                chances = judged.probabilities
                row["probability"] = None if chances is None else float(chances[link.target])
            rows.append(row)
        return rows

    def _learn(self, terms: Iterable[Term]) -> None:
        new = [term for term in dict.fromkeys(terms) if term not in self._parts]
        self._parts.update(zip(new, self._judge.judge(new), strict=True))

    def _chances(self, term: Term) -> NDArray[np.float64]:
        return self._parts[term].chances

    def _likely(self, term: Term, entity: int) -> float:
        return float(self._chances(term)[entity])

    def _source(self, relation: int, operand: Term, entity: int) -> int:
        """The likeliest entity that the step to `entity` comes from."""
        if isinstance(operand, Entity):
            return operand.id
        back = Project(relation ^ 1, Entity(entity))
        self._learn([back])
        return int(np.argmax(self._chances(operand) * self._chances(back)))

    def _collect(self, term: Term, entity: int, holds: bool, found: _Found) -> None:
        """Collect what makes `term` true (or, without `holds`, false) of the entity."""
        match term:
            case Entity() | Everything():
                return
            case Project(relation=relation, operand=operand) if holds:
                source = self._source(relation, operand, entity)
                self._collect(operand, source, True, found)
                found.links[Link(source, relation, entity)] = None
                return
            case Project():
                place = found.against if self._parts[term].known[entity] else found.absent
                place[Absence(term, entity)] = None
                return
        for part, truth in self._needed(term, entity, holds):
            self._collect(part, entity, truth, found)

    def _needed(self, term: Term, entity: int, holds: bool) -> list[tuple[Term, bool]]:
        """The parts of a connective that decide, each with what it has to be."""
        match term:
            case Not(operand=operand):
                return [(operand, not holds)]
            case And() if holds:
                return [(part, True) for part in term.operands]
            case And():
                return [(min(term.operands, key=lambda part: self._likely(part, entity)), False)]
            case Or() if holds:
                return [(max(term.operands, key=lambda part: self._likely(part, entity)), True)]
            case Or():
                return [(part, False) for part in term.operands]
            case Minus(left=left, right=right):
                return self._pair(entity, [[(left, True), (right, False)]], [[(left, False)], [(right, True)]], holds)
            case Implies(left=left, right=right):
                return self._pair(entity, [[(left, False)], [(right, True)]], [[(left, True), (right, False)]], holds)
            case Xor(left=left, right=right) | Iff(left=left, right=right):
                differ = [[(left, True), (right, False)], [(left, False), (right, True)]]
                agree = [[(left, True), (right, True)], [(left, False), (right, False)]]
                return self._pair(entity, differ, agree, holds == isinstance(term, Xor))
        return []

    def _pair(
        self, entity: int, true: list[list[tuple[Term, bool]]], false: list[list[tuple[Term, bool]]], holds: bool
    ) -> list[tuple[Term, bool]]:
        """The likeliest of several ways in which a connective is true, or false."""

        def chance(way: list[tuple[Term, bool]]) -> float:
            values = [self._likely(part, entity) for part, _ in way]
            return float(
                np.prod([value if truth else 1 - value for value, (_, truth) in zip(values, way, strict=True)])
            )

        return max(true if holds else false, key=chance)
