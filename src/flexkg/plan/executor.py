"""Runs a plan under any interpretation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flexkg.plan.algebra import Algebra, Operator, State

if TYPE_CHECKING:
    from torch import Tensor

    from flexkg.plan.plan import Grounding, Operand, Plan, Step


def execute(plan: Plan, grounding: Grounding, algebra: Algebra[State]) -> State:
    """The states of the plan's queries, row i for query i.

    States are only appended, never written into, so autograd may look back at any of them; what no later step
    reads is let go at once.
    """
    states: list[State | None] = []
    for index, step in enumerate(plan.steps):
        inputs = [_gather(operand, plan, states, algebra) for operand in step.operands]
        states.append(_run(step, inputs, grounding.ids[index], algebra))
        del inputs
        for source, last in enumerate(plan.last_use[: index + 1]):
            if last == index:
                states[source] = None
    return _gather(plan.output, plan, states, algebra)


def _gather(operand: Operand, plan: Plan, states: list[State | None], algebra: Algebra[State]) -> State:
    parts = []
    for segment in operand:
        state = states[segment.source]
        assert state is not None, "a plan reads a state after its last use"
        whole = isinstance(segment.rows, slice) and segment.rows == slice(0, plan.steps[segment.source].count)
        parts.append(state if whole else algebra.take(state, segment.rows))
    return parts[0] if len(parts) == 1 else algebra.concat(parts)


def _run(step: Step, inputs: list[State], ids: Tensor | None, algebra: Algebra[State]) -> State:
    match step.operator:
        case Operator.ENTITY:
            assert ids is not None
            return algebra.entity(ids)
        case Operator.ANY:
            return algebra.any(step.count)
        case Operator.PROJECT:
            assert ids is not None
            return algebra.project(inputs[0], ids)
        case Operator.NEGATE:
            return algebra.negate(inputs[0])
        case Operator.INTERSECT:
            return algebra.intersect(inputs)
        case Operator.UNITE:
            return algebra.unite(inputs)
        case Operator.MINUS:
            return algebra.minus(*inputs)
        case Operator.XOR:
            return algebra.xor(*inputs)
        case Operator.IMPLIES:
            return algebra.implies(*inputs)
        case Operator.IFF:
            return algebra.iff(*inputs)
