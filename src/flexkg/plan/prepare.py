"""What to do with a query that uses operators which an interpretation lacks: rewrite it, or say so.

Union is a choice. `native` runs it as an operator. `dnf` pulls unions to the top and answers the parts one by one;
the owner array says which query each part belongs to. `demorgan` writes a union with negation and intersection.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import torch

from flexkg.errors import UnsupportedOperator
from flexkg.plan.algebra import OPERATOR_OF, Operator
from flexkg.plan.compiler import compile_parts, compile_terms
from flexkg.query.limits import MAX_DISJUNCTS
from flexkg.query.rewrite import derive, dnf
from flexkg.query.shapes import key_of, shape_name
from flexkg.query.terms import Entity, Iff, Implies, Or, Term, Xor, rebuild
from flexkg.query.walk import fold, postorder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from flexkg.plan.plan import Grounding, Plan


class Union(StrEnum):
    """How a union is answered."""

    NATIVE = "native"
    DNF = "dnf"
    DEMORGAN = "demorgan"


_WORDS = {
    Operator.ANY: "a variable that nothing anchors",
    Operator.NEGATE: "negation",
    Operator.INTERSECT: "intersection",
    Operator.UNITE: "union",
    Operator.MINUS: "difference",
    Operator.XOR: "exclusive or",
    Operator.IMPLIES: "implication",
    Operator.IFF: "equivalence",
    Operator.PROJECT: "projection",
    Operator.ENTITY: "an entity",
}
_DNF_NOTE = "a | b is answered part by part, and the parts are put together for each candidate"


@dataclass(frozen=True)
class Interpretation:
    """What the rewriting has to know of whoever answers: its operators, how it takes unions, and how to name it."""

    operators: frozenset[Operator]
    union: Union = Union.DNF
    name: str = "this model"
    instead: Mapping[Operator, tuple[str, ...]] | None = None
    """For each operator the names of models that have it, for the error message."""


@dataclass(frozen=True)
class Parts:
    """Terms whose union is the query, and what was rewritten to get them."""

    terms: tuple[Term, ...]
    notes: tuple[str, ...]


def prepare(query: Term, by: Interpretation, limit: int = MAX_DISJUNCTS) -> Parts:
    """Write a query, or a template, with the operators that the interpretation has; slots keep their numbers."""
    union = Union(by.union)
    native = frozenset(kind for kind, operator in OPERATOR_OF.items() if operator in by.operators)
    if union is Union.NATIVE and Operator.UNITE not in by.operators:
        _check((query,), query, by)
    kept = native | {Or} if union is Union.DNF else native - {Or} if union is Union.DEMORGAN else native
    derived = derive(query, frozenset(kept))
    notes = derived.notes
    terms: tuple[Term, ...] = (derived.term,)
    if union is Union.DNF and any(isinstance(node, Or) for node in postorder(derived.term)):
        terms = _disjuncts(derived.term, limit)
        notes = (*notes, _DNF_NOTE)
    _check(terms, query, by)
    return Parts(terms, notes)


def _disjuncts(term: Term, limit: int) -> tuple[Term, ...]:
    """The disjunctive normal form in which connectives that hold no union stay whole, as native operators."""
    whole: list[Term] = []

    def hide(node: Term, parts: tuple[tuple[Term, bool], ...]) -> tuple[Term, bool]:
        """The node, and whether it holds a union; what is to stay whole becomes an entity with a negative id."""
        new = rebuild(node, tuple(part for part, _ in parts))
        united = isinstance(node, Or) or any(union for _, union in parts)
        if united or not isinstance(node, Xor | Implies | Iff):
            return new, united
        whole.append(new)
        return Entity(-len(whole)), False

    def show(node: Term, parts: tuple[Term, ...]) -> Term:
        if isinstance(node, Entity) and node.id < 0:
            return fold(whole[-node.id - 1], show)
        return rebuild(node, parts)

    hidden, _ = fold(term, hide)
    return tuple(fold(disjunct, show) for disjunct in dnf(hidden, limit))


def _check(terms: Sequence[Term], query: Term, by: Interpretation) -> None:
    allowed = by.operators - {Operator.UNITE} if Union(by.union) is not Union.NATIVE else by.operators
    used = {OPERATOR_OF[type(node)] for term in terms for node in postorder(term)}
    missing = [operator for operator in Operator if operator in used - allowed]
    if not missing:
        return
    # What negation could express is missing for want of negation; the first in the order of `Operator` is the root.
    operator = missing[0]
    shape = shape_name(query)
    where = f"in a {shape} query" if shape else f"in a query of shape {key_of(query)[:60]}"
    instead = (by.instead or {}).get(operator, ())
    raise UnsupportedOperator(by.name, _WORDS[operator], where=where, instead=tuple(instead))


@dataclass(frozen=True, eq=False)
class PreparedPlan:
    """A plan over the parts of queries; `owner` maps each row of its output to the query it belongs to."""

    plan: Plan
    owner: Tensor | None
    """(rows,) int64, or None where row i is query i."""
    count: int
    """How many queries there are."""
    notes: tuple[tuple[str, ...], ...]
    """For each query, or each group of queries, what was rewritten."""

    def to(self, device: torch.device | str) -> PreparedPlan:
        """The same with its index tensors on another device, made once for many batches."""
        owner = None if self.owner is None else self.owner.to(device)
        return PreparedPlan(self.plan.to(device), owner, self.count, self.notes)


def prepare_terms(queries: Sequence[Term], by: Interpretation) -> tuple[PreparedPlan, Grounding]:
    """Plan for a list of grounded queries in which equal parts are computed once."""
    parts = [prepare(query, by) for query in queries]
    plan, grounding = compile_terms([term for part in parts for term in part.terms])
    sizes = torch.tensor([len(part.terms) for part in parts], dtype=torch.int64)
    owner = torch.repeat_interleave(sizes) if bool((sizes > 1).any()) else None
    return PreparedPlan(plan, owner, len(parts), tuple(part.notes for part in parts)), grounding


def prepare_groups(groups: Sequence[tuple[Term, int]], by: Interpretation) -> PreparedPlan:
    """Plan for `count` queries of each template, with static shapes; ground it as a plan of `compile_groups`."""
    parts = [prepare(template, by) for template, _ in groups]
    pieces = [(group, term, groups[group][1]) for group, part in enumerate(parts) for term in part.terms]
    plan = compile_parts(pieces)
    starts = [0]
    for _, count in groups:
        starts.append(starts[-1] + count)
    owner = None
    if len(pieces) > len(groups):
        owner = torch.cat([torch.arange(starts[group], starts[group] + count) for group, _, count in pieces])
    return PreparedPlan(plan, owner, starts[-1], tuple(part.notes for part in parts))
