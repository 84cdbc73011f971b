"""The best answers of a query without scoring all entities, where a graph is large and enough is asked of it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch

from flexkg.errors import DataError
from flexkg.models import index

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from flexkg.models import QueryModel
    from flexkg.plan.prepare import PreparedPlan
    from flexkg.query.terms import Term

_ELEMENTS = 1 << 23
"""Entities times width from which bounds take less time than scores do; below, what surrounds them costs more."""
_PAID_AFTER = 16
"""Questions whose savings are about what making the index costs."""
_MANY = 1 << 16
"""Entities that the facts settle, beyond which scoring everything is as well."""


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The answers to show for one query: known ones first, then the others, each by descending score."""

    term: Term
    ids: NDArray[np.int64]
    scores: NDArray[np.float32]
    known: NDArray[np.bool_]
    known_count: int
    notes: tuple[str, ...]


Listed: TypeAlias = tuple[list[int], bool]
"""A set of entities: ids, or all but these."""
NOTHING: Listed = ([], False)


@dataclass(frozen=True)
class Facts:
    """What the facts say about a query."""

    known: Listed
    """They prove it."""
    excluded: Listed
    """They rule it out, whatever is missing."""


@dataclass(frozen=True)
class Wanted:
    """How many answers, and whether known ones are among them."""

    top: int
    known: bool


class Finder:
    """Makes an index over a model's entities once it pays, and searches it; threads may share it."""

    def __init__(self, model: QueryModel, elements: int = _ELEMENTS, paid_after: int = _PAID_AFTER) -> None:
        self._model = model
        self._elements = elements
        self._left = paid_after
        self._lock = threading.Lock()
        self._index: index.Index | None = None

    def ready(self, queries: int) -> bool:
        """Whether there is an index for so many questions more; makes it when enough were asked."""
        with self._lock:
            if self._index is not None:
                return True
            if not self._fits():
                return False
            self._left -= queries
            if self._left > 0:
                return False
            self._index = index.build(self._model.distance_spec, self._model.candidates, self._model.num_entities)
            if self._index is None:
                # Nothing here can be indexed, now or later.
                self._elements = -1
            return self._index is not None

    def _fits(self) -> bool:
        model = self._model
        if self._elements < 0 or model.distance_spec.kind not in index.KINDS or self._modulus() <= 0:
            return False
        return model.num_entities * model.candidates(slice(0, 1)).shape[1] >= self._elements

    def _modulus(self) -> float:
        modulus = self._model.modulus
        return float(modulus.detach() if isinstance(modulus, torch.Tensor) else modulus)

    @torch.no_grad()
    def find(
        self,
        terms: Sequence[Term],
        states: Tensor,
        prepared: PreparedPlan,
        facts: Sequence[Facts],
        wanted: Wanted,
    ) -> list[Shortlist | None]:
        """What to show for each query; None where everything has to be scored."""
        parts = list(torch.arange(len(states))[:, None])
        if prepared.owner is not None:
            parts = [torch.nonzero(prepared.owner == query)[:, 0] for query in range(len(terms))]
        return [
            self._found(term, states[own], settled, notes, wanted)
            for term, own, settled, notes in zip(terms, parts, facts, prepared.notes, strict=True)
        ]

    def _found(
        self, term: Term, states: Tensor, facts: Facts, notes: tuple[str, ...], wanted: Wanted
    ) -> Shortlist | None:
        """What to show for one query, which has a state for each of its parts."""
        assert self._index is not None
        sets = facts.known, facts.excluded
        # Of several parts the best must count, or bounds of parts say nothing of the whole.
        if len(states) > 1 and self._model.disjunction != "max":
            return None
        if any(complement or len(listed) > _MANY for listed, complement in sets):
            return None
        target = self._model.target(states)
        bounds = self._index.bounds(target.query, target.constant)
        if bounds is None:
            return None
        proved, excluded = (np.unique(np.array(listed, np.int64)) for listed, _ in sets)
        exact = self._scorer(states)
        ids, scores = proved[:0], np.zeros(0, np.float32)
        if wanted.known and len(proved):
            everyone = exact(proved)
            order = np.argsort(-everyone, kind="stable")[: wanted.top]
            ids, scores = proved[order], everyone[order]
        line = index.Line(self._model.margin, self._modulus())
        largest = 0.0 if target.constant is None else float(target.constant.abs().max())
        rest, more = index.best(bounds, line, largest, exact, wanted.top - len(ids), np.union1d(proved, excluded))
        return Shortlist(
            term,
            np.concatenate([ids, rest]),
            np.concatenate([scores, more]),
            np.arange(len(ids) + len(rest)) < len(ids),
            len(proved),
            notes,
        )

    def _scorer(self, states: Tensor) -> Callable[[NDArray[np.int64]], NDArray[np.float32]]:
        """Scores listed entities as the model does."""
        owner = torch.zeros(len(states), dtype=torch.int64)

        def exact(ids: NDArray[np.int64]) -> NDArray[np.float32]:
            scores: NDArray[np.float32] = self._model.score(states, torch.from_numpy(ids), owner, 1)[0].numpy()
            if not np.isfinite(scores).all():
                raise DataError("The model gives scores that are not numbers.", hint="Train it again.")
            return scores

        return exact
