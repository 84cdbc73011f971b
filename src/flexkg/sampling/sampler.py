"""Ground any query template by walking back from an answer, many queries at a time, on any device.

By the rules of BetaE's benchmarks: a random entity is the answer; each projection goes back by a random incoming
relation and then a random head; a chain of steps never undoes the step before by its inverse; no connective has two
equal operands. Below a negation the walk goes on from the same answer, so that what is negated overlaps with the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from flexkg.query.terms import And, Any, Entity, Iff, Implies, Minus, Not, Or, Project, Term, Xor, operands
from flexkg.sampling.draws import Draws

if TYPE_CHECKING:
    from torch import Tensor

    from flexkg.kg.graph import Graph
    from flexkg.sampling.queries import QuerySet

_TRIES = 40
"""Draws for a relation that does not undo the last step, as in the benchmarks' own sampler."""
_PRIMES = (-7046029254386353131, -4658895280553007687)
_SALTS: dict[type[Term], int] = {
    kind: salt for salt, kind in enumerate((Entity, Any, Project, Not, And, Or, Minus, Xor, Implies, Iff), start=1)
}
_ORDERED = (Minus, Implies)


class WalkIndex:
    """What it takes to walk back from an entity: the graph by entity, on a device."""

    def __init__(self, graph: Graph, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self.entity_offsets = torch.from_numpy(graph.entity_offsets).to(self.device)
        self.entity_pairs = torch.from_numpy(graph.entity_pairs).to(self.device)
        self.pair_relations = torch.from_numpy(graph.pair_relations).to(self.device)
        self.pair_offsets = torch.from_numpy(graph.pair_offsets).to(self.device)
        self.tails = torch.from_numpy(graph.tails).to(self.device)
        self.connected = torch.nonzero(self.entity_offsets.diff()).view(-1)


class Sampler:
    """Draws groundings of templates from one graph; the same seed draws the same ones on every device."""

    def __init__(self, index: WalkIndex, seed: int) -> None:
        self.device = index.device
        self._index = index
        self._seed = seed
        self._draws = 0

    def draw(self, template: Term, count: int) -> tuple[Tensor, Tensor]:
        """At most `count` groundings: entities (n, slots) and relations (n, slots); what breaks a rule is left out."""
        if len(self._index.connected) == 0:
            count = 0
        entities: dict[int, Tensor] = {}
        relations: dict[int, Tensor] = {}
        fits = torch.ones(count, dtype=torch.bool, device=self.device)

        def walk(term: Term, here: Tensor, last: Tensor | None) -> None:
            match term:
                case Entity(id=slot):
                    entities[slot] = here
                case Project(relation=slot, operand=operand):
                    away, head = self._step_back(here, last, fits)
                    relations[slot] = away ^ 1
                    walk(operand, head, away ^ 1)
                case Not(operand=operand):
                    walk(operand, here, last)
                case _:
                    for part in operands(term):
                        walk(part, here, None)

        connected = self._index.connected
        start = connected[self._below(torch.full((count,), len(connected), device=self.device))]
        walk(template, start, None)
        nothing = torch.zeros((count, 0), dtype=torch.int64, device=self.device)
        ids = torch.stack([entities[slot] for slot in range(len(entities))], 1) if entities else nothing
        steps = torch.stack([relations[slot] for slot in range(len(relations))], 1) if relations else nothing
        _, twins = fingerprint(template, ids, steps)
        fits &= ~twins
        return ids[fits], steps[fits]

    def _step_back(self, here: Tensor, last: Tensor | None, fits: Tensor) -> tuple[Tensor, Tensor]:
        """A random pair that leads away from `here`, and where it leads; its inverse is the step of the query."""
        index = self._index
        first = index.entity_offsets[here]
        size = index.entity_offsets[here + 1] - first
        pairs = index.entity_pairs[first + self._below(size)]
        if last is not None:
            # The step before ran by `last` out of here: to come in by its inverse is to leave by `last` itself.
            for _ in range(_TRIES):
                again = torch.nonzero(index.pair_relations[pairs] == last).view(-1)
                if len(again) == 0:
                    break
                pairs[again] = index.entity_pairs[first[again] + self._below(size[again])]
            fits &= index.pair_relations[pairs] != last
        first = index.pair_offsets[pairs]
        heads = index.tails[first + self._below(index.pair_offsets[pairs + 1] - first)]
        return index.pair_relations[pairs].to(torch.int64), heads.to(torch.int64)

    def _below(self, limits: Tensor) -> Tensor:
        """A uniform integer below each limit."""
        self._draws += 1
        return Draws(self._seed, self._draws, self.device).below(limits, 1)[:, 0]


def fingerprints(queries: QuerySet) -> Tensor:
    """Those of the queries of a set, on the CPU."""
    ids = (torch.from_numpy(kind.astype(np.int64)) for kind in (queries.entities, queries.relations))
    return fingerprint(queries.template, *ids)[0]


def fingerprint(
    template: Term, entities: Tensor, relations: Tensor, *, as_written: bool = False
) -> tuple[Tensor, Tensor]:
    """A 64-bit hash for each grounding, and whether some connective has two equal operands.

    Equal queries have equal hashes, also, unless `as_written`, when the operands of a symmetric connective stand in
    another order.
    Among a million queries two different ones share a hash with a probability of 3 in 10^8.
    """
    rows, device = len(entities), entities.device
    twins = torch.zeros(rows, dtype=torch.bool, device=device)

    def visit(term: Term) -> Tensor:
        salt = _SALTS[type(term)]
        match term:
            case Entity(id=slot):
                return _mix(entities[:, slot], salt)
            case Any():
                return _mix(torch.zeros(rows, dtype=torch.int64, device=device), salt)
            case Project(relation=slot, operand=operand):
                return _mix(_mix(visit(operand), salt) + relations[:, slot], salt)
            case Not(operand=operand):
                return _mix(visit(operand), salt)
        parts = [visit(part) for part in operands(term)]
        for place, part in enumerate(parts):
            for other in parts[:place]:
                twins.logical_or_(part == other)
        if as_written or isinstance(term, _ORDERED):
            parts = [_mix(part, place) for place, part in enumerate(parts)]
        return _mix(torch.stack(parts).sum(0), salt)

    return visit(template), twins


def _mix(values: Tensor, salt: int) -> Tensor:
    mixed = (values + salt) * _PRIMES[0]
    mixed = (mixed ^ (mixed >> 32)) * _PRIMES[1]
    return mixed ^ (mixed >> 29)
