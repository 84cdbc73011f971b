"""Near misses: what would answer a query if its negations were left out.

Of uniform negatives hardly one is excluded by a query's negation: a model that ignores `not` loses next to nothing by
it, and learns to. In "borders France, but does not use the euro" the euro countries that border France are what has to
come down; unlike other hard negatives, they are no answers for sure as long as the facts are true.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from flexkg.engine.engine import Engine
from flexkg.query.terms import And, Minus, Not, Term, rebuild
from flexkg.query.walk import fold
from flexkg.sampling.queries import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flexkg.kg.graph import Graph
    from flexkg.sampling.draws import Draws
    from flexkg.sampling.queries import QuerySet

COLUMN = "near"
"""Where a set of queries keeps them, beside its answers."""
_MOST = 256
"""Of a query: with a million queries that have negation at most 1 GB, and they have fewer by far."""


def relaxed(term: Term) -> Term:
    """A query without what its conjunctions and differences exclude; itself if they exclude nothing."""

    def combine(node: Term, parts: tuple[Term, ...]) -> Term:
        if isinstance(node, Minus):
            return parts[0]
        if isinstance(node, And):
            wanted = tuple(part for part in parts if not isinstance(part, Not))
            if wanted:
                return wanted[0] if len(wanted) == 1 else And(*wanted)
        return rebuild(node, parts)

    return fold(term, combine)


class NearMisses:
    """Finds the near misses of training queries in their graph."""

    def __init__(self, graph: Graph, device: torch.device | str = "cpu") -> None:
        self._engine = Engine(graph, device)
        self._device = device

    def __call__(self, queries: QuerySet) -> QuerySet:
        """The same queries with their near misses, at most 256 of each, evenly taken; without negation, as they are."""
        wider = relaxed(queries.template)
        if wider == queries.template:
            return queries
        ids = (torch.from_numpy(kind.astype(np.int64)) for kind in (queries.entities, queries.relations))
        lengths, members = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
        for _, sets in self._engine.stream(Minus(wider, queries.template), *(kind.to(self._device) for kind in ids)):
            listed = sets.listed
            starts, found = listed.starts.cpu().numpy(), listed.lengths.cpu().numpy()
            # What is everything but a few is no near miss of anything.
            found = np.where(sets.complement.cpu().numpy(), 0, found)
            taken = np.minimum(found, _MOST)
            row = np.repeat(np.arange(len(taken)), taken)
            place = np.arange(len(row)) - np.repeat(np.cumsum(taken) - taken, taken)
            members.append(listed.members.cpu().numpy()[starts[row] + place * found[row] // taken[row]].astype(np.int32))
            lengths.append(taken)
        column = Column(np.concatenate([[0], np.cumsum(np.concatenate(lengths))]), np.concatenate(members))
        return replace(queries, answers={**queries.answers, COLUMN: column})


class NearLists:
    """The near misses of many queries of any mix of shapes, on one device; queries are numbered through."""

    def __init__(self, query_sets: Sequence[QuerySet], device: torch.device | str = "cpu", spare: float = 0.0) -> None:
        """`spare` is the share of room beyond these that is kept for `refill`."""
        lengths, members = _joined(query_sets)
        self._lengths = torch.from_numpy(lengths).to(device)
        self._starts = torch.from_numpy(np.cumsum(lengths) - lengths).to(device)
        self._members = torch.zeros(int(len(members) * (1 + spare)) or 1, dtype=torch.int32, device=device)
        self._members[: len(members)] = torch.from_numpy(members).to(device)

    def fits(self, query_sets: Sequence[QuerySet]) -> bool:
        """Whether there is room for the near misses of other queries, as many of the same shapes."""
        return sum(len(_column(queries).members) for queries in query_sets) <= len(self._members)

    def refill(self, query_sets: Sequence[QuerySet]) -> None:
        """Put those of other queries, as many of the same shapes, in the place of these."""
        lengths, members = _joined(query_sets)
        self._lengths.copy_(torch.from_numpy(lengths))
        self._starts.copy_(torch.from_numpy(np.cumsum(lengths) - lengths))
        self._members[: len(members)] = torch.from_numpy(members).to(self._members.device)

    def put(self, negatives: torch.Tensor, queries: torch.Tensor, count: int, random: Draws) -> torch.Tensor:
        """Negatives (n, k) whose first `count` are uniform near misses, where the query has any."""
        lengths = self._lengths[queries]
        places = self._starts[queries][:, None] + random.below(lengths, count)
        near = self._members[places.clamp_(max=len(self._members) - 1)].to(torch.int64)
        first = torch.where((lengths > 0)[:, None], near, negatives[:, :count])
        return torch.cat([first, negatives[:, count:]], dim=1)


def _column(queries: QuerySet) -> Column:
    return queries.answers.get(COLUMN) or Column(np.zeros(len(queries) + 1, np.int64), np.zeros(0, np.int32))


def _joined(query_sets: Sequence[QuerySet]) -> tuple[np.ndarray, np.ndarray]:
    columns = [_column(queries) for queries in query_sets]
    lengths = np.concatenate([np.zeros(0, np.int64), *(column.lengths for column in columns)])
    return lengths, np.concatenate([np.zeros(0, np.int32), *(column.members for column in columns)])
