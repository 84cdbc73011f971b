"""Where the scores of answers and of everything else lie: the paper's first case study, for any query or shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from flexkg.evaluation.ranking import score_groups
from flexkg.models import embed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from flexkg.models import QueryModel
    from flexkg.plan.prepare import Interpretation
    from flexkg.query.terms import Term
    from flexkg.sampling.queries import QuerySet

CASE_STUDY: dict[str, list[Any]] = {
    "1p": [
        "/m/0jbk9",
        ["-/location/hud_foreclosure_area/estimated_number_of_mortgages./measurement_unit/dated_integer/source"],
    ],
    "2p": [
        "/m/02x_h0",
        [
            "+/people/person/spouse_s./people/marriage/type_of_union",
            "+/people/marriage_union_type/unions_of_this_type./people/marriage/spouse",
        ],
    ],
    "3p": [
        "/m/02h40lc",
        [
            "-/location/country/official_language",
            "+/dataworld/gardening_hint/split_to",
            "-/people/person/nationality",
        ],
    ],
}
"""The three FB15k queries that the paper's first case study names, in the benchmarks' nested form."""

_SAMPLE = 100


@dataclass(frozen=True, eq=False)
class Histogram:
    """How many entities have a score between two edges, for answers and for the rest."""

    name: str
    edges: NDArray[np.float64]
    """(bins + 1,)."""
    counts: Mapping[str, NDArray[np.int64]]
    """(bins,) for each kind of entity, such as `answers` and `others`."""

    def to_dict(self) -> dict[str, Any]:
        """Plain Python."""
        counts = {kind: column.tolist() for kind, column in self.counts.items()}
        return {"name": self.name, "edges": self.edges.tolist(), "counts": counts}


@torch.no_grad()
def score_histogram(
    model: QueryModel, query: Term, answers: Mapping[str, NDArray[np.int64]], name: str, bins: int = 60
) -> Histogram:
    """Scores of all entities for one query; `answers` are ids by kind, and what is in none is `others`."""
    state, prepared = embed(model, [query])
    scores = model.score_all(state, prepared.owner, prepared.count)[0].double().cpu().numpy()
    return _histogram(name, scores, answers, bins)


@torch.no_grad()
def shape_histogram(
    model: QueryModel,
    queries: QuerySet,
    by: Interpretation,
    device: torch.device | str = "cpu",
    *,
    sample: int = _SAMPLE,
    bins: int = 60,
) -> Histogram:
    """Scores of all entities for some queries of a shape, put together."""
    if len(queries) > sample:
        queries = queries.take(np.sort(np.random.default_rng(0).choice(len(queries), sample, replace=False)))
    width = model.num_entities
    scores = score_groups(model, [(queries, slice(0, len(queries)))], by, device).double().cpu().numpy()
    places = {
        kind: np.repeat(np.arange(len(queries)), queries.answers[kind].lengths) * width + queries.answers[kind].members
        for kind in ("easy", "hard")
    }
    return _histogram(queries.shape, scores.reshape(-1), places, bins)


def _histogram(
    name: str, scores: NDArray[np.float64], answers: Mapping[str, NDArray[np.int64]], bins: int
) -> Histogram:
    finite = scores[np.isfinite(scores)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    edges = np.linspace(low, high if high > low else low + 1, bins + 1)
    others = np.isfinite(scores)
    counts: dict[str, NDArray[np.int64]] = {}
    for kind, places in answers.items():
        mine = np.zeros(len(scores), np.bool_)
        mine[places] = True
        counts[kind] = np.histogram(scores[mine & np.isfinite(scores)], edges)[0]
        others &= ~mine
    return Histogram(name, edges, {**counts, "others": np.histogram(scores[others], edges)[0]})
