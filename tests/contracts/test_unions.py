"""Unions three ways, and how the parts of a union are put together."""

from __future__ import annotations

import pytest
import torch

from contracts.cases import NUM_ENTITIES, UNIONS, make, queries
from flexkg.errors import ConfigError
from flexkg.models import MODELS, embed
from flexkg.models.scoring import combine
from flexkg.query.terms import Or


def ways(name: str) -> list[str]:
    """How a model can take unions."""
    operators = MODELS[name].available
    return [way for way in UNIONS if way == "dnf" or {"native": "unite", "demorgan": "negate"}[way] in operators]


@pytest.mark.parametrize(("name", "union"), [(name, way) for name in MODELS for way in ways(name)])
def test_a_union_takes_the_way_that_was_chosen(name, union):
    extra = ["model.connectives=intersect,unite"] if union == "native" else []
    model = make(name, *extra, f"model.union={union}")
    batch = queries("2u", 3) + queries("up", 3) + queries("1p", 2)
    state, plan = embed(model, batch)
    assert len(state) == (14 if union == "dnf" else 8)
    assert {str(step.operator) for step in plan.plan.steps} - {"entity", "project"} == {
        "dnf": set(),
        "native": {"unite"},
        "demorgan": {"negate", "intersect"},
    }[union]
    assert model.score(state, None, plan.owner, plan.count).shape == (8, NUM_ENTITIES)
    assert all(plan.notes[:6]) == (union != "native")


@pytest.mark.parametrize("way", ["max", "probability-or"])
@pytest.mark.parametrize("name", MODELS)
def test_the_parts_of_a_union_count_as_was_chosen(name, way):
    model = make(name)
    model.disjunction = way
    left, right = queries("1p", 2)
    state, plan = embed(model, [Or(left, right), left, right])
    scores = model.score(state, None, plan.owner, plan.count)
    torch.testing.assert_close(scores[0], combine(scores[1:], torch.tensor([0, 0]), 1, way)[0])
    assert (scores[0] >= torch.maximum(scores[1], scores[2]) - 1e-9).all()
    candidates = torch.arange(9).view(3, 3)
    own = model.score(state, candidates, plan.owner, plan.count)
    torch.testing.assert_close(own, scores.gather(1, candidates))
    values, entities = model.top_k(state, 4, plan.owner, plan.count, budget=1)
    torch.testing.assert_close(values, scores.topk(4, dim=1).values)
    torch.testing.assert_close(scores.gather(1, entities), values)


@pytest.mark.parametrize(
    ("name", "union", "says"),
    [("gqe", "demorgan", "use dnf"), ("cone", "native", "dnf or demorgan"), ("query2box", "native", "use dnf")],
)
def test_a_way_that_a_model_does_not_have(name, union, says):
    with pytest.raises(ConfigError, match=says):
        make(name, f"model.union={union}")


def test_probability_or_is_one_minus_the_product_of_complements():
    scores = torch.randn(5, 7, dtype=torch.float64) * 4
    owner = torch.tensor([0, 2, 0, 1, 0])
    found = combine(scores, owner, 3, "probability-or").sigmoid()
    for query in range(3):
        expected = 1 - (1 - scores[owner == query].sigmoid()).prod(dim=0)
        torch.testing.assert_close(found[query], expected)
    assert torch.equal(combine(scores, owner, 3, "probability-or")[1], scores[3]), "one part keeps its score"
    assert torch.equal(combine(scores, owner, 3, "max")[0], scores[[0, 2, 4]].amax(dim=0))


def test_probability_or_is_finite_and_ordered_far_from_zero():
    scores = torch.tensor([[-900.0, -200.0, -60.0, 0.0, 60.0, 800.0], [-901.0, -250.0, -60.0, 0.5, 61.0, 700.0]])
    scores.requires_grad_()
    (either,) = combine(scores, torch.tensor([0, 0]), 1, "probability-or")
    assert either.isfinite().all()
    assert (either >= scores.amax(dim=0)).all()
    assert (either.diff() > 0).all()
    either.sum().backward()
    assert scores.grad.isfinite().all()
    assert (scores.grad >= 0).all()


def test_gradients_of_both_readings():
    scores = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    owner = torch.tensor([0, 1, 0, 0])
    for reading in ("max", "probability-or"):
        assert torch.autograd.gradcheck(lambda values, how=reading: combine(values, owner, 2, how), scores)
