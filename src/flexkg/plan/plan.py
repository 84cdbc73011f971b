"""A plan says which operator reads which rows; a grounding says which entities and relations. They live apart.

The topology of a batch with a fixed mix of shapes is compiled once; from batch to batch only the ids change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from flexkg.plan.algebra import Operator


@dataclass(frozen=True, eq=False)
class Segment:
    """Some rows of what one earlier step put out."""

    source: int
    rows: slice | Tensor

    def to(self, device: torch.device | str) -> Segment:
        """The same with its index on another device."""
        return self if isinstance(self.rows, slice) else Segment(self.source, self.rows.to(device))


Operand = tuple[Segment, ...]


@dataclass(frozen=True, eq=False)
class Step:
    """One operator call over all queries that are ready for it."""

    operator: Operator
    count: int
    operands: tuple[Operand, ...]
    slots: tuple[tuple[int, int], ...]
    """For entity and project: (group, slot) of each run of ids, in row order."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Operator calls in order, and where the answers to the queries end up."""

    steps: tuple[Step, ...]
    output: Operand
    last_use: tuple[int, ...]
    """For each step, the last step that reads it (the number of steps for what the output reads)."""

    def to(self, device: torch.device | str) -> Plan:
        """The same with its index tensors on another device, where a captured step can read them."""

        def moved(operand: Operand) -> Operand:
            return tuple(segment.to(device) for segment in operand)

        steps = tuple(replace(step, operands=tuple(map(moved, step.operands))) for step in self.steps)
        return replace(self, steps=steps, output=moved(self.output))

    def ground(self, groups: Sequence[tuple[Tensor, Tensor]], device: torch.device | str = "cpu") -> Grounding:
        """Arrange the ids of each group, entities (n, slots) and relations (n, slots), in the order of the steps."""
        ids: list[Tensor | None] = []
        for step in self.steps:
            if not step.slots:
                ids.append(None)
                continue
            kind = 0 if step.operator == "entity" else 1
            ids.append(torch.cat([groups[group][kind][:, slot] for group, slot in step.slots]).to(device))
        return Grounding(tuple(ids))


@dataclass(frozen=True, eq=False)
class Grounding:
    """For each step the ids that it needs: entities for `entity`, relations for `project`, otherwise None."""

    ids: tuple[Tensor | None, ...]

    def to(self, device: torch.device | str) -> Grounding:
        """The same ids on another device."""
        return Grounding(tuple(None if ids is None else ids.to(device) for ids in self.ids))

    def copy_(self, other: Grounding) -> Grounding:
        """Overwrite the ids in place: a captured step reads the next batch from where it read the last."""
        for mine, new in zip(self.ids, other.ids, strict=True):
            if mine is not None and new is not None:
                mine.copy_(new)
        return self
