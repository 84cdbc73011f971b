"""The models under contract: every recipe, made small, in double precision and without dropout."""

from __future__ import annotations

import torch

from flexkg.config import build_model, load_recipe, recipe_names, template_for
from flexkg.errors import UnsupportedOperator
from flexkg.models import MODELS, QueryModel, interpretation
from flexkg.models.base import LINKS
from flexkg.plan.prepare import prepare
from flexkg.query.shapes import SHAPES, ground
from flexkg.query.terms import Term, operands

NUM_ENTITIES, NUM_RELATIONS = 23, 6
CASES = [*MODELS, *(name for name in recipe_names() if name not in MODELS)]
LINK_PREDICTORS = [name for name, kind in MODELS.items() if kind.available == LINKS]
UNIONS = ("native", "dnf", "demorgan")
ALL_SHAPES = [*SHAPES, "epep-", "epep^", "epep>", "epep=", "epepep|3", "eppep-p", "epepep|2&2"]


def make(name: str, *overrides: str) -> QueryModel:
    hidden = [] if name in ("gqe", "query2box", *LINK_PREDICTORS) else ["model.hidden=10"]
    hidden += ["model.relation_dim=4"] if name == "tucker" else []
    torch.manual_seed(sum(map(ord, name)))
    config = load_recipe(name, ["model.dim=6", *hidden, *overrides])
    return build_model(config.model, NUM_ENTITIES, NUM_RELATIONS).double().eval()


def shapes_of(model: QueryModel) -> list[str]:
    """The shapes that a model can answer."""

    def can(shape: str) -> bool:
        try:
            prepare(template_for(shape), interpretation(model))
        except UnsupportedOperator:
            return False
        return True

    return [shape for shape in ALL_SHAPES if can(shape)]


def queries(shape: str, count: int, seed: int = 0) -> list[Term]:
    """Queries of a shape with random ids."""
    generator = torch.Generator().manual_seed(seed)
    template = template_for(shape)
    slots = _slots(template)

    def ids(high: int, number: int) -> list[int]:
        return torch.randint(high, (number,), generator=generator).tolist()

    return [ground(template, ids(NUM_ENTITIES, slots[0]), ids(NUM_RELATIONS, slots[1])) for _ in range(count)]


def _slots(template: Term) -> tuple[int, int]:
    parts = [_slots(part) for part in operands(template)]
    kind = type(template).__name__
    return sum(e for e, _ in parts) + (kind == "Entity"), sum(r for _, r in parts) + (kind == "Project")
