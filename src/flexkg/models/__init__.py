"""Models: interpretations of the query algebra that learn. `MODELS` lists them; adding a row adds its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from flexkg.models.base import QueryModel
from flexkg.models.betae import BetaE
from flexkg.models.complex import ComplEx
from flexkg.models.cone import ConE
from flexkg.models.distmult import DistMult
from flexkg.models.flex import Flex
from flexkg.models.gqe import GQE
from flexkg.models.query2box import Query2box
from flexkg.models.rotate import RotatE
from flexkg.models.transe import TransE
from flexkg.models.tucker import TuckER
from flexkg.plan.algebra import Operator
from flexkg.plan.executor import execute
from flexkg.plan.prepare import Interpretation, prepare_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

    from flexkg.plan.plan import Grounding
    from flexkg.plan.prepare import PreparedPlan
    from flexkg.query.terms import Term

__all__ = ["MODELS", "QueryModel", "build_model", "calibrate_modulus", "embed", "interpretation", "run_plan"]

MODELS: dict[str, type[QueryModel]] = {
    "gqe": GQE,
    "query2box": Query2box,
    "betae": BetaE,
    "cone": ConE,
    "flex": Flex,
    "transe": TransE,
    "distmult": DistMult,
    "complex": ComplEx,
    "rotate": RotatE,
    "tucker": TuckER,
}
"""Every model by name; the last five predict links, and can only follow relations."""


def build_model(settings: Mapping[str, Any], num_entities: int, num_relations: int) -> QueryModel:
    """The model that plain settings describe, `name` and its arguments, as a run keeps them beside its weights."""
    arguments = {key: value for key, value in settings.items() if key != "name"}
    return MODELS[settings["name"]](num_entities, num_relations, **arguments)


_BY_NEGATION = {Operator.MINUS, Operator.XOR, Operator.IMPLIES, Operator.IFF}


def interpretation(model: QueryModel) -> Interpretation:
    """What the rewriting of queries has to know of a model, and who else could answer."""
    instead = {
        operator: tuple(
            name
            for name, kind in MODELS.items()
            if operator in kind.available or (operator in _BY_NEGATION and Operator.NEGATE in kind.available)
        )
        for operator in Operator
    }
    return Interpretation(model.operators, model.union, model.name, instead)


def run_plan(model: QueryModel, prepared: PreparedPlan, grounding: Grounding) -> Tensor:
    """The states of a prepared plan's rows; score them with the plan's owner and count."""
    return execute(prepared.plan, grounding, model)


def embed(model: QueryModel, queries: Sequence[Term]) -> tuple[Tensor, PreparedPlan]:
    """States of any mix of queries, and the plan that says which query each row belongs to and what was rewritten."""
    prepared, grounding = prepare_terms(queries, interpretation(model))
    device = next(model.parameters()).device
    if device.type != "cpu":
        prepared, grounding = prepared.to(device), grounding.to(device)
    return run_plan(model, prepared, grounding), prepared


@torch.no_grad()
def calibrate_modulus(
    model: QueryModel, state: Tensor, candidates: Tensor, add_up: Callable[[Tensor], None] = lambda _: None
) -> float:
    """Set the modulus so that the mean distance of a batch scores 0: margin / mean distance.

    From range / 2, the released start, every score is near the margin and training drives features into saturation.
    `add_up` sums a tensor in place over the processes that each have a part of the batch.
    """
    modulus, model.calibrated = model.modulus, True
    if not isinstance(modulus, torch.Tensor):
        return modulus
    distances = model.distance(state, candidates)
    total = torch.stack([distances.sum(), distances.new_tensor(float(distances.numel()))])
    add_up(total)
    modulus.fill_(model.margin * total[1] / total[0])
    return float(modulus)
