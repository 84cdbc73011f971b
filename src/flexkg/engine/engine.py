"""Exact answers from one graph: a single query, a list of them, or a stream of one shape in bounded memory."""

from __future__ import annotations

import sys
from copy import copy
from typing import TYPE_CHECKING

from flexkg.engine.sets import SetAlgebra, Sets, TooMuch
from flexkg.plan.compiler import compile_groups, compile_terms
from flexkg.plan.executor import execute

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch
    from torch import Tensor

    from flexkg.kg.graph import Graph
    from flexkg.plan.plan import Grounding, Plan
    from flexkg.query.terms import Term

_ROWS_AT_ONCE = 1 << 14
_BYTES_PER_MEMBER = 32
"""Of a set, its copies and the keys that the tensor path sorts."""


class Engine:
    """Answers queries exactly, within about `memory` bytes beside the graph."""

    def __init__(
        self,
        graph: Graph,
        device: torch.device | str = "cpu",
        *,
        compiled: bool | None = None,
        memory: int = 1 << 30,
    ) -> None:
        self.graph = graph
        self.algebra = SetAlgebra(graph, device, compiled=compiled, max_members=memory // _BYTES_PER_MEMBER)

    def answer(self, queries: Sequence[Term]) -> Sets:
        """The answers to a few grounded terms, row i to query i; equal sub-queries are computed once."""
        plan, grounding = compile_terms(queries)
        try:
            return self._run(plan, grounding, alone=len(queries) == 1)
        except TooMuch:
            return self.algebra.concat([self.answer([query]) for query in queries])

    def stream(self, template: Term, entities: Tensor, relations: Tensor) -> Iterator[tuple[slice, Sets]]:
        """The answers to many queries of one template, some rows at a time and in order.

        entities (n, slots) and relations (n, slots) fill the template's slots; each run of rows is as long as
        memory allows: one that turns out too big is cut in half and tried again.
        """
        total, first, height = len(entities), 0, _ROWS_AT_ONCE
        while first < total:
            rows = slice(first, min(first + height, total))
            plan = compile_groups([(template, rows.stop - rows.start)])
            try:
                grounding = plan.ground([(entities[rows], relations[rows])])
                sets = self._run(plan, grounding, alone=rows.stop - rows.start == 1)
            except TooMuch:
                height = (rows.stop - rows.start) // 2
                continue
            yield rows, sets
            first = rows.stop

    def _run(self, plan: Plan, grounding: Grounding, *, alone: bool) -> Sets:
        """Run a plan; a query alone may take what it needs, which is at most every entity for each of its parts."""
        algebra = self.algebra
        if alone:
            algebra = copy(algebra)
            algebra.max_members = sys.maxsize
        return execute(plan, grounding, algebra)
