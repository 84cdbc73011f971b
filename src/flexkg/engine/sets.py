"""The set interpretation of the query algebra: batches of finite or co-finite sets, exact.

A co-finite set is kept as its complement and never written out: negation flips a flag. Conjunction and symmetric
difference are the only two connectives that do work; the others are these with flags flipped. A projection of a
co-finite set counts edges instead of materialising it: a tail drops out only if all its heads are excluded.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property, reduce
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch

from flexkg import wanted
from flexkg.engine import ragged
from flexkg.engine.ragged import Ragged
from flexkg.plan.algebra import Operator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from flexkg.engine.kernels import PairIndex
    from flexkg.kg.graph import Graph

_COMPILED_FROM = 256
"""Rows from which the compiled kernels pay for the time it takes to load them."""
_EDGES_AT_ONCE = 1 << 24
"""Edges that the tensor path expands at a time: about 0.5 GB of temporaries."""


class TooMuch(Exception):  # noqa: N818  (a signal, not a fault: whoever asked tries again with fewer rows)
    """A batch outgrew the memory that it was given."""


@dataclass(frozen=True, eq=False)
class Sets:
    """Row i is the listed members, or everything but them where `complement` is set."""

    listed: Ragged
    complement: Tensor
    """(rows,) bool."""

    def __len__(self) -> int:
        return len(self.complement)

    def rows(self) -> Iterator[tuple[list[int], bool]]:
        """For each row the listed ids, ascending, and whether they are the complement."""
        members = self.listed.members.cpu().numpy()
        bounds = zip(self.listed.starts.tolist(), self.listed.lengths.tolist(), self.complement.tolist(), strict=True)
        for start, length, complement in bounds:
            yield members[start : start + length].tolist(), complement


class SetAlgebra:
    """Answers queries from the edges of one graph; `compiled` chooses the kernels (None: when they pay)."""

    operators = frozenset(Operator)

    def __init__(
        self,
        graph: Graph,
        device: torch.device | str = "cpu",
        compiled: bool | None = None,
        max_members: int = sys.maxsize,
    ) -> None:
        self.graph = graph
        self.device = torch.device(device)
        self.max_members = max_members
        self._compiled = compiled if compiled is not None or find_spec("numba") is not None else False
        if self.device.type != "cpu":
            self._compiled = False
        self._tails = torch.from_numpy(graph.tails).to(self.device)
        self._pair_offsets = torch.from_numpy(graph.pair_offsets).to(self.device)
        self._keys: Tensor | None = None

    @property
    def uses_kernels(self) -> bool:
        """Whether large batches go through the compiled kernels."""
        return self._compiled is not False

    def take(self, state: Sets, rows: slice | Tensor) -> Sets:
        """Some rows."""
        index = rows if isinstance(rows, slice) else rows.to(self.device)
        return Sets(ragged.take(state.listed, index), state.complement[index])

    def concat(self, states: Sequence[Sets]) -> Sets:
        """All rows."""
        return Sets(
            ragged.concat([state.listed for state in states]), torch.cat([state.complement for state in states])
        )

    def packed(self, listed: Ragged) -> Ragged:
        """The same rows, holding nothing but their own members."""
        if self._use_kernels(listed.num_rows):
            from flexkg.engine import kernels

            return kernels.pack(listed)
        return ragged.packed(listed)

    def entity(self, ids: Tensor) -> Sets:
        """Singletons."""
        places = torch.arange(len(ids), device=self.device)
        return self._finite(Ragged(places, torch.ones_like(places), ids.to(self.device, torch.int32)))

    def any(self, count: int) -> Sets:
        """Nothing excluded."""
        zeros = torch.zeros(count, dtype=torch.int64, device=self.device)
        empty = Ragged(zeros, zeros, torch.zeros(0, dtype=torch.int32, device=self.device))
        return Sets(empty, torch.ones(count, dtype=torch.bool, device=self.device))

    def negate(self, state: Sets) -> Sets:
        """Flip the flag."""
        return Sets(state.listed, ~state.complement)

    def intersect(self, states: Sequence[Sets]) -> Sets:
        """Exact for sets pair by pair."""
        return reduce(self._and, states)

    def unite(self, states: Sequence[Sets]) -> Sets:
        """De Morgan."""
        return self.negate(self.intersect([self.negate(state) for state in states]))

    def minus(self, left: Sets, right: Sets) -> Sets:
        """Left and not right."""
        return self._and(left, self.negate(right))

    def implies(self, left: Sets, right: Sets) -> Sets:
        """Not (left and not right)."""
        return self.negate(self.minus(left, right))

    def xor(self, left: Sets, right: Sets) -> Sets:
        """Members listed once; complements cancel out."""
        operations = torch.full((len(left),), ragged.DIFFERENCE, device=self.device)
        return self._combine(operations, left, right, left.complement ^ right.complement)

    def iff(self, left: Sets, right: Sets) -> Sets:
        """Not xor."""
        return self.negate(self.xor(left, right))

    def project(self, state: Sets, relations: Tensor) -> Sets:
        """One step along each row's relation, at a cost of the edges that leave what is listed."""
        wanted.check()
        relations = relations.to(self.device)
        if not bool(state.complement.any()):
            return self._checked(self._finite(self._project_finite(state.listed, relations)))
        finite = torch.nonzero(~state.complement).view(-1)
        others = torch.nonzero(state.complement).view(-1)
        parts = [
            self._project_finite(ragged.take(state.listed, finite), relations[finite]),
            self._project_cofinite(ragged.take(state.listed, others), relations[others]),
        ]
        back = torch.argsort(torch.cat([finite, others]))
        return self._checked(self._finite(ragged.take(ragged.concat(parts), back)))

    def _use_kernels(self, num_rows: int) -> bool:
        if self._compiled is None:
            return num_rows >= _COMPILED_FROM
        return self._compiled and num_rows > 0

    @cached_property
    def _pair_index(self) -> PairIndex:
        from flexkg.engine import kernels

        return kernels.index_pairs(self.graph)

    def _and(self, left: Sets, right: Sets) -> Sets:
        operations = torch.full((len(left),), ragged.BOTH, device=self.device)
        operations[right.complement] = ragged.LEFT_ONLY
        operations[left.complement] = ragged.RIGHT_ONLY
        neither = left.complement & right.complement
        operations[neither] = ragged.UNION
        return self._combine(operations, left, right, neither)

    def _combine(self, operations: Tensor, left: Sets, right: Sets, complement: Tensor) -> Sets:
        if self._use_kernels(len(left)):
            from flexkg.engine import kernels

            listed = kernels.combine(operations, left.listed, right.listed)
        else:
            listed = ragged.combine(operations, left.listed, right.listed, self.graph.num_entities)
        return self._checked(Sets(listed, complement))

    def _finite(self, listed: Ragged) -> Sets:
        return Sets(listed, torch.zeros(listed.num_rows, dtype=torch.bool, device=self.device))

    def _checked(self, state: Sets) -> Sets:
        if state.listed.members is not self._tails and len(state.listed.members) > self.max_members:
            raise TooMuch
        return state

    def _pairs(self, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """Where the tails of each (entity, relation) start, and how many there are."""
        if self._use_kernels(len(entities)):
            from flexkg.engine import kernels

            return kernels.find_pairs(self._pair_index, entities, relations)
        if self._keys is None:
            self._keys = torch.from_numpy(self.graph.pair_keys).to(self.device)
        if len(self._keys) == 0:
            nothing = torch.zeros(len(entities), dtype=torch.int64, device=self.device)
            return nothing, nothing
        wanted = relations * self.graph.num_entities + entities
        pair = torch.searchsorted(self._keys, wanted).clamp_(max=len(self._keys) - 1)
        starts = self._pair_offsets[pair]
        return starts, torch.where(self._keys[pair] == wanted, self._pair_offsets[pair + 1] - starts, 0)

    def _project_finite(self, listed: Ragged, relations: Tensor) -> Ragged:
        if bool((listed.lengths == 1).all()):
            # One hop from one entity is a window on the graph's own tails.
            return Ragged(*self._pairs(listed.members[listed.starts], relations), self._tails)
        if self._use_kernels(len(relations)):
            from flexkg.engine import kernels

            return kernels.project(self.graph, self._pair_index, listed, relations)
        rows = ragged.row_of_member(listed)
        starts, counts = self._pairs(ragged.shown(listed), relations[rows])
        universe, parts = self.graph.num_entities, []
        for run, members in _runs(listed.lengths, counts):
            height = run.stop - run.start
            keys = self._edge_keys(rows[members] - run.start, starts[members], counts[members])
            parts.append(ragged.from_keys(ragged.distinct(keys, height, universe), height, universe))
        return parts[0] if len(parts) == 1 else ragged.concat(parts)

    def _project_cofinite(self, excluded: Ragged, relations: Tensor) -> Ragged:
        """All that the relation reaches, less what it reaches from excluded heads only."""
        num_rows, universe = len(relations), self.graph.num_entities
        rows = ragged.row_of_member(excluded)
        keys = self._edge_keys(rows, *self._pairs(ragged.shown(excluded), relations[rows]))
        keys, lost = ragged.tally(keys, torch.ones_like(keys), num_rows, universe)
        _, heads = self._pairs(keys % universe, relations[keys // universe] ^ 1)
        gone = ragged.from_keys(keys[lost == heads], num_rows, universe)
        bounds = torch.from_numpy(self.graph.relation_offsets).to(self.device)
        first, last = bounds[relations ^ 1], bounds[(relations ^ 1) + 1]
        reached = Ragged(first, last - first, torch.from_numpy(self.graph.pair_entities).to(self.device))
        return ragged.combine(torch.full_like(relations, ragged.LEFT_ONLY), reached, gone, universe)

    def _edge_keys(self, rows: Tensor, starts: Tensor, counts: Tensor) -> Tensor:
        edges = ragged.ranges(starts, counts)
        sources = torch.repeat_interleave(rows, counts, output_size=len(edges))
        return sources * self.graph.num_entities + self._tails[edges]


def _runs(lengths: Tensor, counts: Tensor) -> list[tuple[slice, slice]]:
    """Cut the rows so that each run expands a bounded number of edges: (rows, members) of each run."""
    offsets = ragged.offsets_of(lengths)
    running = ragged.offsets_of(counts)[offsets]
    num_rows = len(lengths)
    if int(running[-1]) <= _EDGES_AT_ONCE:
        return [(slice(0, num_rows), slice(0, len(counts)))]
    totals, bounds = running.tolist(), offsets.tolist()
    runs, first = [], 0
    for row in range(1, num_rows + 1):
        if row == num_rows or totals[row + 1] - totals[first] > _EDGES_AT_ONCE:
            runs.append((slice(first, row), slice(bounds[first], bounds[row])))
            first = row
    return runs
