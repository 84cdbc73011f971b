"""The seam between queries and whatever answers them: sets, points, boxes, cones, feature-logic vectors."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeVar

from flexkg.query import terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


class Operator(StrEnum):
    """What an interpretation may be asked to do; the order is the order in which ready operators run.

    Projection comes last, so that everything that can be done before a hop is done and the next hop takes as
    many queries as possible along.
    """

    ENTITY = "entity"
    ANY = "any"
    NEGATE = "negate"
    INTERSECT = "intersect"
    UNITE = "unite"
    MINUS = "minus"
    XOR = "xor"
    IMPLIES = "implies"
    IFF = "iff"
    PROJECT = "project"


OPERATOR_OF: dict[type[terms.Term], Operator] = {
    terms.Entity: Operator.ENTITY,
    terms.Any: Operator.ANY,
    terms.Not: Operator.NEGATE,
    terms.And: Operator.INTERSECT,
    terms.Or: Operator.UNITE,
    terms.Minus: Operator.MINUS,
    terms.Xor: Operator.XOR,
    terms.Implies: Operator.IMPLIES,
    terms.Iff: Operator.IFF,
    terms.Project: Operator.PROJECT,
}

State = TypeVar("State")


class Algebra(Protocol[State]):
    """An interpretation of the query algebra over batches; row i of a state describes one set of entities.

    A state is opaque to the executor: it only takes rows of states, joins states and calls operators.
    """

    @property
    def operators(self) -> frozenset[Operator]:
        """The operators that this interpretation has."""

    def take(self, state: State, rows: slice | Tensor) -> State:
        """The given rows of a state, in the given order."""

    def concat(self, states: Sequence[State]) -> State:
        """The rows of all states, one after the other."""

    def entity(self, ids: Tensor) -> State:
        """One row for each id."""

    def any(self, count: int) -> State:
        """`count` rows that hold every entity."""

    def project(self, state: State, relations: Tensor) -> State:
        """One step along each row's own relation."""

    def negate(self, state: State) -> State:
        """Everything outside."""

    def intersect(self, states: Sequence[State]) -> State:
        """Row by row, inside every state."""

    def unite(self, states: Sequence[State]) -> State:
        """Row by row, inside at least one state."""

    def minus(self, left: State, right: State) -> State:
        """Row by row, inside left and outside right."""

    def xor(self, left: State, right: State) -> State:
        """Row by row, inside exactly one."""

    def implies(self, left: State, right: State) -> State:
        """Row by row, outside left or inside right."""

    def iff(self, left: State, right: State) -> State:
        """Row by row, inside both or neither."""
