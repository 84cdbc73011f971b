"""Near misses: what would answer a query if its negations were left out.

Of uniform negatives hardly one is excluded by a query's negation: a model that ignores `not` loses next to nothing by
it, and learns to. In "borders France, but does not use the euro" the euro countries that border France are what has to
come down; unlike other hard negatives, they are no answers for sure as long as the facts are true. (Where another step
follows the negation, as in `inp`, a missing fact may still lead there.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from flexkg.engine.engine import Engine
from flexkg.query.terms import And, Minus, Not, Term, rebuild
from flexkg.query.walk import fold
from flexkg.sampling.lists import Lists
from flexkg.sampling.queries import Column

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

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

    def __call__(self, queries: QuerySet, progress: Callable[[int], None] = lambda _: None) -> QuerySet:
        """The same queries with their near misses, at most 256 of each, evenly taken; without negation, as they are."""
        wider = relaxed(queries.template)
        if wider == queries.template:
            return queries
        ids = (torch.from_numpy(kind.astype(np.int64)) for kind in (queries.entities, queries.relations))
        lengths, members = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
        for rows, sets in self._engine.stream(Minus(wider, queries.template), *(kind.to(self._device) for kind in ids)):
            listed = sets.listed
            starts, found = listed.starts.cpu().numpy(), listed.lengths.cpu().numpy()
            # What is everything but a few is no near miss of anything.
            found = np.where(sets.complement.cpu().numpy(), 0, found)
            taken = np.minimum(found, _MOST)
            row = np.repeat(np.arange(len(taken)), taken)
            place = np.arange(len(row)) - np.repeat(np.cumsum(taken) - taken, taken)
            places = starts[row] + place * found[row] // taken[row]
            members.append(listed.members.cpu().numpy()[places].astype(np.int32))
            lengths.append(taken)
            progress(rows.stop)
        column = Column.of(np.concatenate(lengths), np.concatenate(members))
        return replace(queries, answers={**queries.answers, COLUMN: column})


class NearLists:
    """The near misses of many queries of any mix of shapes, on one device; queries are numbered through."""

    def __init__(self, query_sets: Sequence[QuerySet], device: torch.device | str = "cpu", spare: float = 0.0) -> None:
        """`spare` is the share of room beyond these that is kept for `refill`."""
        self._lists = Lists(_columns(query_sets), device, spare)

    def fits(self, query_sets: Sequence[QuerySet]) -> bool:
        """Whether there is room for the near misses of other queries, as many of the same shapes."""
        return self._lists.fits(_columns(query_sets))

    def refill(self, query_sets: Sequence[QuerySet]) -> None:
        """Put those of other queries, as many of the same shapes, in the place of these; they must fit."""
        self._lists.replace(_columns(query_sets))

    def put(self, negatives: Tensor, queries: Tensor, count: int, random: Draws) -> tuple[Tensor, Tensor]:
        """Negatives (n, k) whose first `count` are uniform near misses, where the query has any; and which are."""
        places = torch.arange(negatives.shape[1], device=negatives.device)
        near = (self._lists.lengths[queries] > 0)[:, None] & (places < count)
        drawn = torch.cat([self._lists.draw(queries, count, random), negatives[:, count:]], dim=1)
        return torch.where(near, drawn, negatives), near


def _columns(query_sets: Sequence[QuerySet]) -> list[Column]:
    """Without negation there are none."""
    empty = [Column(np.zeros(len(queries) + 1, np.int64), np.zeros(0, np.int32)) for queries in query_sets]
    return [queries.answers.get(COLUMN, none) for queries, none in zip(query_sets, empty, strict=True)]
