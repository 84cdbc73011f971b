"""How hard an answer is: the least number of missing links that a proof of it needs.

One interpretation more of the query algebra. Where the engine keeps one set, this keeps a ladder of them: rung k
holds what can be reached with at most k edges that only the larger graph has. A hard answer on rung 1 collapses to
predicting a single link. Only positive atoms count; what is negated is taken from the larger graph as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import torch

from flexkg.engine import ragged
from flexkg.plan.algebra import Operator
from flexkg.plan.compiler import compile_groups
from flexkg.plan.executor import execute
from flexkg.threads import leave_cores_to_kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from flexkg.engine.engine import Engine
    from flexkg.engine.sets import SetAlgebra, Sets
    from flexkg.sampling.build import Pair
    from flexkg.sampling.queries import QuerySet

_ROWS_AT_ONCE = 1 << 11


@dataclass(frozen=True, eq=False)
class Ladder:
    """Rung k: what needs at most k missing links. The last rung is the truth in the larger graph."""

    rungs: tuple[Sets, ...]

    def rung(self, k: int) -> Sets:
        """Rungs beyond the last are like the last."""
        return self.rungs[min(k, len(self.rungs) - 1)]


class LadderAlgebra:
    """Ladders over two graphs, from the set algebra of each."""

    operators = frozenset(Operator)

    def __init__(self, larger: SetAlgebra, smaller: SetAlgebra) -> None:
        self._larger, self._smaller = larger, smaller

    def take(self, state: Ladder, rows: slice | Tensor) -> Ladder:
        """Some rows of every rung."""
        return Ladder(tuple(self._larger.take(rung, rows) for rung in state.rungs))

    def concat(self, states: Sequence[Ladder]) -> Ladder:
        """All rows; a shorter ladder is extended by its last rung."""
        height = max(len(state.rungs) for state in states)
        return Ladder(tuple(self._larger.concat([state.rung(k) for state in states]) for k in range(height)))

    def entity(self, ids: Tensor) -> Ladder:
        """Nothing is missing."""
        return Ladder((self._larger.entity(ids),))

    def any(self, count: int) -> Ladder:
        """Nothing is missing."""
        return Ladder((self._larger.any(count),))

    def project(self, state: Ladder, relations: Tensor) -> Ladder:
        """By a known edge, or by any edge for one missing link more."""
        known = [self._smaller.project(rung, relations) for rung in state.rungs]
        bought = [self._larger.project(rung, relations) for rung in state.rungs]
        middle = [self._larger.unite([known[k], bought[k - 1]]) for k in range(1, len(known))]
        return Ladder((known[0], *middle, bought[-1]))

    def negate(self, state: Ladder) -> Ladder:
        """The larger graph decides, at no cost."""
        return Ladder((self._larger.negate(state.rungs[-1]),))

    def intersect(self, states: Sequence[Ladder]) -> Ladder:
        """Costs add up."""
        return reduce(self._and, states)

    def unite(self, states: Sequence[Ladder]) -> Ladder:
        """The cheapest counts."""
        height = max(len(state.rungs) for state in states)
        return Ladder(tuple(self._larger.unite([state.rung(k) for state in states]) for k in range(height)))

    def minus(self, left: Ladder, right: Ladder) -> Ladder:
        """Left and not right."""
        return self._and(left, self.negate(right))

    def xor(self, left: Ladder, right: Ladder) -> Ladder:
        """One without the other, either way round."""
        return self.unite([self.minus(left, right), self.minus(right, left)])

    def implies(self, left: Ladder, right: Ladder) -> Ladder:
        """Not left, or right."""
        return self.unite([self.negate(left), right])

    def iff(self, left: Ladder, right: Ladder) -> Ladder:
        """Both, or neither."""
        return self.unite([self._and(left, right), self._and(self.negate(left), self.negate(right))])

    def _and(self, left: Ladder, right: Ladder) -> Ladder:
        top = len(left.rungs) + len(right.rungs) - 2
        rungs = []
        for k in range(top + 1):
            shares = [(i, k - i) for i in range(len(left.rungs)) if 0 <= k - i < len(right.rungs)]
            parts = [self._larger.intersect([left.rungs[i], right.rungs[j]]) for i, j in shares]
            rungs.append(parts[0] if len(parts) == 1 else self._larger.unite(parts))
        return Ladder(tuple(rungs))


def missing_links(pair: Pair, queries: QuerySet) -> NDArray[np.uint8]:
    """For each member of `hard`, the least number of missing links, (members of hard,)."""
    assert pair.smaller is not None, "training queries have no hard answers"
    with leave_cores_to_kernels(pair.larger.algebra.uses_kernels):
        return _missing_links(pair, pair.smaller, queries)


def _missing_links(pair: Pair, smaller: Engine, queries: QuerySet) -> NDArray[np.uint8]:
    algebra = LadderAlgebra(pair.larger.algebra, smaller.algebra)
    device = pair.larger.algebra.device
    hard = queries.answers["hard"]
    links = np.zeros(len(hard.members), np.uint8)
    for first in range(0, len(queries), _ROWS_AT_ONCE):
        rows = slice(first, min(first + _ROWS_AT_ONCE, len(queries)))
        plan = compile_groups([(queries.template, rows.stop - rows.start)])
        ids = [
            torch.from_numpy(kind[rows].astype(np.int64)).to(device) for kind in (queries.entities, queries.relations)
        ]
        ladder = execute(plan, plan.ground([(ids[0], ids[1])], device), algebra)
        span = slice(int(hard.offsets[rows.start]), int(hard.offsets[rows.stop]))
        members = torch.from_numpy(hard.members[span]).to(device)
        lengths = torch.from_numpy(hard.lengths[rows]).to(device)
        row_of = torch.repeat_interleave(torch.arange(len(lengths), device=device), lengths)
        cost = torch.zeros(len(members), dtype=torch.uint8, device=device)
        for rung in ladder.rungs[:-1]:
            cost += ragged.contains(rung.listed, row_of, members) == rung.complement[row_of]
        links[span] = cost.cpu().numpy()
    return links
