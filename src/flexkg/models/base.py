"""What every model is: an interpretation of the query algebra whose states are rows of one tensor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn

from flexkg.errors import ConfigError, UnsupportedOperator
from flexkg.models.pairs import BUDGET as MEMORY_BUDGET
from flexkg.models.scoring import combine, gathered, nearest, pairwise, prepare, top_k
from flexkg.plan.algebra import Operator
from flexkg.plan.prepare import Union

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Float, Int
    from torch import Tensor

    from flexkg.models.reference import DistanceSpec

    State = Float[Tensor, "rows state"]
    States = Sequence[State] | Float[Tensor, "rows arity state"]

DISJUNCTIONS = ("max", "probability-or")
KEPT_BELOW = 1 << 29
"""Bytes that evaluation may take to keep candidates."""
LINKS = frozenset({Operator.ENTITY, Operator.PROJECT})
"""The operators of a link predictor: it follows relations, and puts nothing together."""


class TensorStates:
    """Rows of one tensor as states: what the executor needs beside the operators."""

    def take(self, state: State, rows: slice | Int[Tensor, " taken"]) -> Float[Tensor, "taken state"]:
        """Some rows."""
        return state[rows] if isinstance(rows, slice) else state.index_select(0, rows)

    def concat(self, states: Sequence[Float[Tensor, "_ state"]]) -> Float[Tensor, "total state"]:
        """All rows."""
        return torch.cat(list(states))

    @staticmethod
    def stacked(states: States) -> Float[Tensor, "rows arity state"]:
        """Operands side by side, whether they came as a sequence or stacked already."""
        return states if isinstance(states, torch.Tensor) else torch.stack(list(states), dim=1)


@dataclass(frozen=True, eq=False)
class Target:
    """What states ask of candidates, in the terms of the model's kind of distance."""

    query: tuple[Float[Tensor, "rows width"], ...]
    constant: Float[Tensor, " rows"] | None = None
    """Added to the distance of every candidate."""


class QueryModel(TensorStates, nn.Module, ABC):
    """Interprets the query algebra: row i of a state describes one answer set.

    A model supplies `entity`, `project`, whichever other operators it has, and its distance: the kind
    (`distance_spec`), what a state asks for (`target`) and candidates' rows (`candidates`).
    """

    name: ClassVar[str]
    available: ClassVar[frozenset[Operator]] = frozenset({Operator.ENTITY, Operator.PROJECT, Operator.INTERSECT})
    """The operators that models of this class can have."""
    least_batch: ClassVar[int] = 1
    """Queries that a batch has to have, for every process."""
    modulus: Tensor | float
    """What a unit of distance costs: 1, or trained."""
    sparse_rows: bool
    """Whether the gradient of an entity table is to hold only the rows that were listed."""
    calibrated: bool
    """False where the modulus waits for a first batch; see `calibrate_modulus`."""

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        dim: int,
        margin: float,
        union: str = "dnf",
        disjunction: str = "max",
    ) -> None:
        """`num_relations` counts both directions; `margin` is the score of a candidate at distance 0."""
        super().__init__()
        self.num_entities = num_entities
        self.num_relations = num_relations
        self.dim = dim
        self.margin = margin
        self.range = (margin + 2) / dim
        self.modulus = 1.0
        self.calibrated = True
        self.sparse_rows = False
        self._kept: tuple[DistanceSpec, Tensor] | None = None
        self.union = Union(union)
        self.disjunction = disjunction
        if disjunction not in DISJUNCTIONS:
            raise ConfigError(f"Unknown disjunction {disjunction!r}.", hint=f"Use one of {', '.join(DISJUNCTIONS)}.")
        needed = {Union.NATIVE: Operator.UNITE, Union.DEMORGAN: Operator.NEGATE}.get(self.union)
        if needed is not None and needed not in self.available:
            kinds = "dnf" if Operator.NEGATE not in self.available else "dnf or demorgan"
            raise ConfigError(f"{self.name} has no {needed} operator, which union {self.union} needs; use {kinds}.")

    def first_modulus(self, start: float | str) -> Tensor:
        """The modulus before training: a number, `range/2`, or until the first batch is seen that of `calibrated`."""
        self.calibrated = start != "calibrated"
        return torch.full((1,), self.range / 2 if isinstance(start, str) else float(start))

    @property
    def operators(self) -> frozenset[Operator]:
        """The operators that this model has."""
        return self.available

    # The algebra.

    @abstractmethod
    def entity(self, ids: Int[Tensor, " rows"]) -> State:
        """One row for each id."""

    def any(self, count: int) -> State:  # noqa: ARG002
        """Every entity."""
        raise self._lacks("a variable that nothing anchors")

    @abstractmethod
    def project(self, state: State, relations: Int[Tensor, " rows"]) -> State:
        """One step along each row's own relation."""

    def intersect(self, states: States) -> State:  # noqa: ARG002
        """Row by row, inside every state."""
        raise self._lacks("intersection")

    def negate(self, state: State) -> State:  # noqa: ARG002
        """Everything outside."""
        raise self._lacks("negation")

    def unite(self, states: States) -> State:  # noqa: ARG002
        """Row by row, inside at least one state."""
        raise self._lacks("union")

    def minus(self, left: State, right: State) -> State:  # noqa: ARG002
        """Row by row, inside left and outside right."""
        raise self._lacks("difference")

    def xor(self, left: State, right: State) -> State:  # noqa: ARG002
        """Row by row, inside exactly one."""
        raise self._lacks("exclusive or")

    def implies(self, left: State, right: State) -> State:  # noqa: ARG002
        """Row by row, outside left or inside right."""
        raise self._lacks("implication")

    def iff(self, left: State, right: State) -> State:  # noqa: ARG002
        """Row by row, inside both or neither."""
        raise self._lacks("equivalence")

    def penalty(
        self,
        entities: Int[Tensor, " anchors"],  # noqa: ARG002
        relations: Int[Tensor, " links"],  # noqa: ARG002
        answers: Int[Tensor, " queries"],  # noqa: ARG002
    ) -> Float[Tensor, ""] | None:
        """What training adds to the loss for the embeddings that a batch touches, or None."""
        return None

    def _lacks(self, what: str) -> UnsupportedOperator:
        return UnsupportedOperator(self.name, what)

    # Scores.

    @property
    @abstractmethod
    def distance_spec(self) -> DistanceSpec:
        """The kind of the model's distance."""

    @abstractmethod
    def target(self, state: State) -> Target:
        """What states ask of candidates."""

    @abstractmethod
    def candidates(self, rows: Int[Tensor, "..."] | slice) -> Float[Tensor, "... width"]:
        """Entities as the distance sees them: by id, or a run of ids."""

    @torch.no_grad()
    def keep_candidates(self, budget: int = MEMORY_BUDGET) -> None:
        """Prepare all candidates once, if that fits the budget; the weights must not change afterwards."""
        _, row = prepare(self.distance_spec, self.candidates(slice(0, 1)))
        fits = self.num_entities * row.nelement() * row.element_size() <= budget
        self._kept = prepare(self.distance_spec, self.candidates(slice(None))) if fits else None

    @contextmanager
    def keeping_candidates(self, budget: int = KEPT_BELOW) -> Iterator[None]:
        """Keep candidates for a while, in which the weights must not change, unless they are kept already."""
        before = self._kept
        if before is None:
            self.keep_candidates(budget)
        try:
            yield
        finally:
            self._kept = before

    def _rows(self, rows: Int[Tensor, " c"] | slice) -> tuple[DistanceSpec, Float[Tensor, "c width"]]:
        """Entities, and the distance that takes them so: as they were kept, or made now."""
        kept = self._kept
        return (self.distance_spec, self.candidates(rows)) if kept is None else (kept[0], kept[1][rows])

    def distance(
        self,
        state: State,
        candidates: Int[Tensor, "lists c"] | Int[Tensor, " c"] | slice | None = None,
        budget: int = MEMORY_BUDGET,
    ) -> Float[Tensor, "rows c"]:
        """Distance of each row to its own candidates, to shared ones, to a run of entities, or to all of them.

        Of lists there may be one for each row, or one for each run of rows / lists rows.
        """
        target = self.target(state)
        if isinstance(candidates, torch.Tensor) and candidates.ndim == 2:
            rows, ids = self._listed(candidates)
            spec, table = self._rows(rows)
            distance = gathered(spec, target.query, table, ids, budget)
        else:
            spec, table = self._rows(slice(None) if candidates is None else candidates)
            distance = pairwise(spec, target.query, table, budget)
        return distance if target.constant is None else distance + target.constant[:, None]

    def _listed(self, ids: Int[Tensor, "lists c"]) -> tuple[slice | Int[Tensor, " c"], Int[Tensor, "lists c"]]:
        """Rows that hold the listed entities, and where among them they are."""
        # Where more candidates are listed than there are entities, making the whole table is less work.
        if ids.numel() >= self.num_entities and not self.sparse_rows:
            return slice(None), ids
        return ids.flatten(), torch.arange(ids.numel(), device=ids.device).view_as(ids)

    def score(
        self,
        state: State,
        candidates: Int[Tensor, "lists c"] | Int[Tensor, " c"] | slice | None = None,
        owner: Int[Tensor, " rows"] | None = None,
        count: int | None = None,
        budget: int = MEMORY_BUDGET,
    ) -> Float[Tensor, "queries c"]:
        """Score = margin - modulus * distance; the higher the likelier.

        `owner` says which query each row is a part of, `count` queries in all; there is then one list a query.
        """
        if owner is not None and isinstance(candidates, torch.Tensor) and candidates.ndim == 2:
            candidates = candidates[owner]
        scores = self.margin - self.modulus * self.distance(state, candidates, budget)
        if owner is None:
            return scores
        return combine(scores, owner, int(owner.max()) + 1 if count is None else count, self.disjunction)

    @torch.no_grad()
    def score_all(
        self,
        state: State,
        owner: Int[Tensor, " rows"] | None = None,
        count: int | None = None,
        budget: int = MEMORY_BUDGET,
    ) -> Float[Tensor, "queries entities"]:
        """Scores of all entities; beside the result at most about `budget` bytes are taken at a time."""
        # A run of the table, which is squashed on the way, and scores of every row.
        step = max(1, budget // (2 * state.element_size() * max(1, 6 * len(state) + 4 * state.shape[1])))
        runs = [slice(start, min(start + step, self.num_entities)) for start in range(0, self.num_entities, step)]
        return torch.cat([self.score(state, run, owner, count, budget // 2) for run in runs], dim=1)

    @torch.no_grad()
    def top_k(
        self,
        state: State,
        k: int,
        owner: Int[Tensor, " rows"] | None = None,
        count: int | None = None,
        budget: int = MEMORY_BUDGET,
    ) -> tuple[Float[Tensor, "queries k"], Int[Tensor, "queries k"]]:
        """The best k scores, highest first, and their entities, without holding the scores of all entities.

        Of equal scores the lower id comes first; a score that is no number counts as the least there can be.
        """
        target = self.target(state)
        width = sum(part.shape[1] for part in target.query) if self._kept is None else 0
        table_bytes = self.num_entities * width * state.element_size()
        if owner is not None or table_bytes > budget // 2 or not float(self.modulus) > 0:

            def score(run: slice) -> Tensor:
                return self.score(state, run, owner, count, budget // 2)

            return top_k(score, len(state), self.num_entities, k, budget, state.element_size() * state.shape[1])
        spec, table = self._rows(slice(None))
        distances, ids = nearest(spec, target.query, table, k, budget // 2)
        constant = 0.0 if target.constant is None else target.constant[:, None]
        return self.margin - self.modulus * (distances + constant), ids
