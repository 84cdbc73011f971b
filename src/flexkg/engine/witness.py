"""Why an answer is true: the facts that prove it, and what must be absent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from flexkg.query.terms import And, Any, Entity, Iff, Implies, Minus, Not, Or, Project, Term, Xor, operands

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from flexkg.engine.engine import Engine


@dataclass(frozen=True, slots=True)
class Fact:
    """A triple of the graph, forwards: relation k, not 2k."""

    head: int
    relation: int
    tail: int


@dataclass(frozen=True, slots=True)
class Absence:
    """An entity that a sub-query does not hold for: a step of the proof that rests on no fact being known."""

    term: Term
    entity: int


@dataclass(frozen=True, slots=True)
class Witness:
    """One proof that an entity answers a query."""

    entity: int
    facts: tuple[Fact, ...]
    absent: tuple[Absence, ...]


class Prover:
    """Finds proofs for the answers of one query, from the exact answers of all its sub-queries."""

    def __init__(self, engine: Engine, query: Term) -> None:
        self._graph = engine.graph
        self._query = query
        parts = list(dict.fromkeys(_parts(query)))
        sets = engine.answer(parts)
        self._known: dict[Term, tuple[NDArray[np.int64], bool]] = {}
        for part, (members, complement) in zip(parts, sets.rows(), strict=True):
            self._known[part] = (np.asarray(members, dtype=np.int64), complement)

    def prove(self, entity: int) -> Witness | None:
        """A proof that the entity is an answer, or None if it is not."""
        if not self._holds(self._query, entity):
            return None
        facts: dict[Fact, None] = {}
        absent: dict[Absence, None] = {}
        self._explain(self._query, entity, True, facts, absent)
        return Witness(entity, tuple(facts), tuple(absent))

    def _holds(self, term: Term, entity: int) -> bool:
        return bool(self._contains(term, np.array([entity]))[0])

    def _contains(self, term: Term, entities: NDArray[np.integer]) -> NDArray[np.bool_]:
        members, complement = self._known[term]
        if len(members) == 0:
            return np.full(len(entities), complement)
        places = np.minimum(np.searchsorted(members, entities), len(members) - 1)
        found: NDArray[np.bool_] = members[places] == entities
        return found ^ complement

    def _explain(
        self, term: Term, entity: int, holds: bool, facts: dict[Fact, None], absent: dict[Absence, None]
    ) -> None:
        """Collect what makes `term` true (or, without `holds`, false) of the entity."""
        match term:
            case Entity() | Any():
                return
            case Project(relation=relation, operand=operand):
                if not holds:
                    absent[Absence(term, entity)] = None
                    return
                heads = self._graph.neighbours(entity, relation ^ 1)
                head = int(heads[np.argmax(self._contains(operand, heads))])
                first, last = (entity, head) if relation & 1 else (head, entity)
                self._explain(operand, head, True, facts, absent)
                facts[Fact(first, relation >> 1, last)] = None
                return
            case Not(operand=operand):
                reasons: Iterable[tuple[Term, bool]] = [(operand, not holds)]
            case And() if holds:
                reasons = [(part, True) for part in term.operands]
            case And():
                reasons = [next((part, False) for part in term.operands if not self._holds(part, entity))]
            case Or() if holds:
                reasons = [next((part, True) for part in term.operands if self._holds(part, entity))]
            case Or():
                reasons = [(part, False) for part in term.operands]
            case Minus(left=left, right=right) if not holds:
                reasons = [(right, True)] if self._holds(right, entity) else [(left, False)]
            case Implies(left=left, right=right) if holds:
                reasons = [(right, True)] if self._holds(right, entity) else [(left, False)]
            case Minus() | Implies() | Xor() | Iff():
                # Both sides matter, each as it is.
                reasons = [(part, self._holds(part, entity)) for part in (term.left, term.right)]
        for part, truth in reasons:
            self._explain(part, entity, truth, facts, absent)


def _parts(term: Term) -> Iterable[Term]:
    yield term
    for part in operands(term):
        yield from _parts(part)
