"""Queries to plans: one operator call takes every query that is ready for it.

The unit of compilation is a *block*: the rows that one node of a template stands for. A training batch has one
block for each node of each of its templates, as many rows high as there are queries of that shape; an ad-hoc
list of terms has one block of one row for each distinct sub-term, so that equal sub-queries are computed once.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

import torch

from flexkg.plan.algebra import OPERATOR_OF, Operator
from flexkg.plan.plan import Grounding, Operand, Plan, Segment, Step
from flexkg.query.terms import Entity, Project, Term, operands

if TYPE_CHECKING:
    from collections.abc import Sequence

_PRIORITY = {operator: rank for rank, operator in enumerate(Operator)}


@dataclass(eq=False)
class _Block:
    operator: Operator
    count: int
    inputs: tuple[_Block, ...]
    slot: tuple[int, int] | None = None
    step: int = -1
    start: int = -1
    readers: list[_Block] = field(default_factory=list)
    waiting: int = 0


def compile_groups(groups: Sequence[tuple[Term, int]]) -> Plan:
    """Plan for `count` queries of each template; rows come out group by group.

    A template is a term whose ids are slot numbers (see `flexkg.query.shapes.split`).
    """
    return compile_parts([(group, template, count) for group, (template, count) in enumerate(groups)])


def compile_parts(parts: Sequence[tuple[int, Term, int]]) -> Plan:
    """Plan for (group, template, count) triples, of which several may read the ids of one group."""
    blocks: list[_Block] = []
    roots = [_template_blocks(template, group, count, blocks) for group, template, count in parts]
    return _schedule(blocks, roots)


def compile_terms(queries: Sequence[Term]) -> tuple[Plan, Grounding]:
    """Plan for a list of grounded terms in which equal sub-terms are computed once; row i is query i."""
    blocks: dict[Term, _Block] = {}
    entities: list[int] = []
    relations: list[int] = []

    def visit(term: Term) -> _Block:
        known = blocks.get(term)
        if known is not None:
            return known
        inputs = tuple(visit(part) for part in operands(term))
        slot = None
        if isinstance(term, Entity):
            slot = (0, len(entities))
            entities.append(term.id)
        elif isinstance(term, Project):
            slot = (0, len(relations))
            relations.append(term.relation)
        blocks[term] = block = _Block(OPERATOR_OF[type(term)], 1, inputs, slot)
        return block

    roots = [visit(query) for query in queries]
    plan = _schedule(list(blocks.values()), roots)
    return plan, plan.ground([(torch.tensor([entities]), torch.tensor([relations]))])


def _template_blocks(template: Term, group: int, count: int, blocks: list[_Block]) -> _Block:
    inputs = tuple(_template_blocks(part, group, count, blocks) for part in operands(template))
    slot = None
    if isinstance(template, Entity):
        slot = (group, template.id)
    elif isinstance(template, Project):
        slot = (group, template.relation)
    block = _Block(OPERATOR_OF[type(template)], count, inputs, slot)
    blocks.append(block)
    return block


def _schedule(blocks: list[_Block], roots: list[_Block]) -> Plan:
    """Run the first ready operator over everything that is ready for it, until nothing is left."""
    ready: defaultdict[tuple[int, int], list[_Block]] = defaultdict(list)
    for block in blocks:
        block.waiting = len(block.inputs)
        for part in block.inputs:
            part.readers.append(block)
        if not block.inputs:
            ready[_PRIORITY[block.operator], 0].append(block)
    steps: list[Step] = []
    while ready:
        batch = ready.pop(min(ready))
        # Rows that are read from one place stay side by side: whole slices instead of gathers.
        batch.sort(key=lambda block: [(part.step, part.start) for part in block.inputs])
        count = 0
        for block in batch:
            block.step, block.start = len(steps), count
            count += block.count
        arity = len(batch[0].inputs)
        steps.append(
            Step(
                operator=batch[0].operator,
                count=count,
                operands=tuple(_operand([block.inputs[place] for block in batch]) for place in range(arity)),
                slots=tuple(block.slot for block in batch if block.slot is not None),
            )
        )
        for block in batch:
            for reader in block.readers:
                reader.waiting -= 1
                if reader.waiting == 0:
                    ready[_PRIORITY[reader.operator], len(reader.inputs)].append(reader)
    output = _operand(roots)
    return Plan(tuple(steps), output, _last_use(steps, output))


def _operand(parts: Sequence[_Block]) -> Operand:
    """Where the rows of these blocks lie, neighbours joined."""
    segments = []
    for source, run in groupby(parts, key=lambda block: block.step):
        ranges: list[tuple[int, int]] = []
        for block in run:
            if ranges and ranges[-1][1] == block.start:
                ranges[-1] = (ranges[-1][0], block.start + block.count)
            else:
                ranges.append((block.start, block.start + block.count))
        if len(ranges) == 1:
            segments.append(Segment(source, slice(*ranges[0])))
        else:
            segments.append(Segment(source, torch.cat([torch.arange(start, stop) for start, stop in ranges])))
    return tuple(segments)


def _last_use(steps: Sequence[Step], output: Operand) -> tuple[int, ...]:
    last = list(range(len(steps)))
    for index, step in enumerate(steps):
        for operand in step.operands:
            for segment in operand:
                last[segment.source] = index
    for segment in output:
        last[segment.source] = len(steps)
    return tuple(last)
