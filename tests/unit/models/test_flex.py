"""FLEX by the numbers, and each switch by its formula."""

from __future__ import annotations

import pytest
import torch

from flexkg.config import build_model, load_recipe
from flexkg.errors import ConfigError, UnsupportedOperator
from flexkg.models import MODELS
from flexkg.models.flex import CONNECTIVES, Flex

DIMENSIONS = (200, 400, 600, 800, 1000)
COUNTS = {
    1: (7_054_601, 11_786_001, 16_757_401, 21_968_801, 27_420_201),
    2: (10_811_001, 19_538_801, 28_746_601, 38_434_401, 48_602_201),
    3: (14_567_401, 27_291_601, 40_735_801, 54_900_001, 69_784_201),
}
PUBLISHED = {
    "betae": (10.30, 18.52, 27.22, 36.39, 46.05),
    "cone": (7.18, 12.27, 17.84, 23.89, 30.42),
}
ENTITIES, RELATIONS = 14_505, 474


def count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("recipe", ["flex", "flex-released"])
@pytest.mark.parametrize(
    ("features", "dim", "parameters"),
    [(k, dim, found) for k, row in COUNTS.items() for dim, found in zip(DIMENSIONS, row, strict=True)],
)
def test_parameter_counts(recipe, features, dim, parameters):
    config = load_recipe(recipe, [f"model.dim={dim}", f"model.features={features}", "model.negation=shift"])
    with torch.device("meta"):
        assert count(build_model(config.model, ENTITIES, RELATIONS)) == parameters


@pytest.mark.parametrize("dim", [200, 800])
def test_one_more_feature_part(dim):
    with torch.device("meta"):
        one, two = (count(Flex(ENTITIES, RELATIONS, dim=dim, features=k)) for k in (3, 4))
    assert two - one == (ENTITIES + RELATIONS) * dim + 2 * 1600 * dim + 3 * dim**2 + 3 * dim


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_counts_of_the_baselines(name):
    with torch.device("meta"):
        found = [count(MODELS[name](ENTITIES, RELATIONS, dim=dim)) for dim in DIMENSIONS]
    assert tuple(round(number / 1e6, 2) for number in found) == PUBLISHED[name]


def test_negation_by_a_network_costs_what_the_table_does_not_show():
    with torch.device("meta"):
        model = build_model(load_recipe("flex-paper", ["model.dim=200"]).model, ENTITIES, RELATIONS)
    assert round((count(model) + 1) / 1e6, 2) == 7.18  # its modulus is fixed and does not count


def test_connectives_are_created_when_asked_for():
    names = {name for name, _ in Flex(5, 2, dim=4, hidden=4).attention.named_children()}
    assert names == {"intersect"}
    full = Flex(5, 2, dim=4, hidden=4, connectives=CONNECTIVES, union="native")
    assert {name for name, _ in full.attention.named_children()} == set(CONNECTIVES)
    assert Flex(5, 2, dim=4, hidden=4, union="native").connectives == ("intersect", "unite")
    assert "flex cannot express unite natively" in str(error_of(Flex(5, 2, dim=4, hidden=4)))


def error_of(model: Flex) -> UnsupportedOperator:
    state = model.entity(torch.arange(3))
    with pytest.raises(UnsupportedOperator) as caught:
        model.unite([state, state])
    return caught.value


def test_widths_are_settings():
    model = Flex(5, 2, dim=4, hidden=7, attention_hidden=3)
    assert model.projection.layers[1].weight.shape == (7, 7)
    assert model.attention["intersect"][0].first.weight.shape == (3, 8)


def small(**settings) -> Flex:
    torch.manual_seed(1)
    return Flex(9, 4, dim=5, hidden=6, **settings).double()


IDS, RELATION_IDS = torch.tensor([1, 4, 8]), torch.tensor([0, 3, 2])


def test_released_signs_and_scales():
    model = small()
    state = model.project(model.entity(IDS), RELATION_IDS)
    start = -torch.tanh(model.entities.weight[IDS] / model.range)
    step = [
        -torch.tanh(table.weight[RELATION_IDS] / model.range)
        for table in (model.relation_features, model.relation_logics)
    ]
    raw = model.projection(torch.cat([start + step[0], step[1]], dim=1))
    expected = torch.cat([-torch.tanh(raw[:, :5]), torch.sigmoid(2 * raw[:, 5:])], dim=1)
    torch.testing.assert_close(state, expected)
    assert model.range == 32 / 5
    assert model.modulus.item() == pytest.approx(model.range / 2)


def test_paper_signs_and_relation_logic():
    model = small(feature_sign=1, logic_scale=1.0, relation_logic="logic", boundary=2.0, negation="mlp")
    state = model.project(model.entity(IDS), RELATION_IDS)
    start = 2 * torch.tanh(model.entities.weight[IDS] / model.range)
    feature = 2 * torch.tanh(model.relation_features.weight[RELATION_IDS] / model.range)
    logic = torch.sigmoid(model.relation_logics.weight[RELATION_IDS] / model.range)
    raw = model.projection(torch.cat([start + feature, logic], dim=1))
    torch.testing.assert_close(state, torch.cat([2 * torch.tanh(raw[:, :5]), torch.sigmoid(raw[:, 5:])], dim=1))
    turned = torch.cat([2 * torch.tanh(model.complement[0](state)), 1 - state[:, 5:]], dim=1)
    torch.testing.assert_close(model.negate(state), turned)


@pytest.mark.parametrize("boundary", [1.0, 2.0, None])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_residual_projection_begins_as_a_translation(boundary, sign):
    model = small(residual=True, boundary=boundary, feature_sign=sign, features=2)
    for part in model.projection.layers[-1].parameters():
        torch.nn.init.zeros_(part)
    start = model.entity(IDS)
    moved = start[:, :10] + model.squash(model.relation_features(RELATION_IDS) / model.range)
    # The way it points stays the same, whichever sign tanh has.
    expected = moved if boundary is None else boundary * torch.tanh(moved / boundary)
    torch.testing.assert_close(model.project(start, RELATION_IDS)[:, :10], expected)


def test_a_residual_adds_no_parameters_and_changes_features_alone():
    plain, residual = small(), small(residual=True)
    assert count(plain) == count(residual)
    before, after = (model.project(model.entity(IDS), RELATION_IDS) for model in (plain, residual))
    assert torch.equal(before[:, 5:], after[:, 5:])
    assert not torch.isclose(before[:, :5], after[:, :5]).any()


def test_without_a_boundary_features_are_as_they_are():
    model = small(boundary=None)
    state = model.entity(IDS)
    torch.testing.assert_close(state[:, :5], model.entities.weight[IDS] / model.range)
    far = torch.tensor([[3.0, -3.0, 0.0, 0.5, -0.5] + [0.25] * 5])
    assert model.negate(far).tolist() == [[2.0, -2.0, -1.0, -0.5, 0.5] + [0.75] * 5]


def test_distances_by_their_formulas():
    for features in (1, 2):
        for distance in ("paper", "boundary"):
            model = small(features=features, distance=distance)
            state = model.project(model.entity(IDS), RELATION_IDS)
            f, logic = model.split(state)
            v = model.candidates(slice(None))
            a = (v[None] - f[:, None]).abs()
            wide = logic.repeat(1, features)[:, None]
            if distance == "paper":
                expected = a.sum(-1) + wide.sum(-1)
            else:
                left, right = (v[None] - (f[:, None] - wide)).abs(), (v[None] - (f[:, None] + wide)).abs()
                outside = torch.where(a >= wide, torch.minimum(left, right), 0)
                expected = outside.sum(-1) + 0.02 * torch.minimum(a, wide).sum(-1)
            torch.testing.assert_close(model.distance(state), expected)
            torch.testing.assert_close(model.score(state), 30 - model.modulus * expected)


def test_the_modulus_may_be_fixed():
    model = small(modulus=1.0, train_modulus=False)
    assert "modulus" not in dict(model.named_parameters())
    assert "modulus" in model.state_dict()
    assert small(modulus="calibrated").calibrated is False
    cone = build_model(load_recipe("cone", ["model.dim=4", "model.modulus=calibrated"]).model, 5, 4)
    assert cone.calibrated is False
    assert build_model(load_recipe("cone", ["model.dim=4"]).model, 5, 4).modulus.item() == pytest.approx(32 / 4 / 2)


def test_variants_without_logic_and_with_logic_over_features():
    plain = small(logic=False, distance="paper", negation="mlp")
    assert plain.entity(IDS).shape == (3, 5)
    assert [layer.weight.shape for layer in plain.projection.layers] == [(6, 5), (6, 6), (5, 6)]
    over = small(connective_features="logic", boundary=2.0)
    assert not list(over.attention.parameters())
    a, b = (over.project(over.entity(IDS), RELATION_IDS.roll(shift)) for shift in (0, 1))
    p, q = ((state[:, :5] / 2 + 1) / 2 for state in (a, b))
    torch.testing.assert_close(over.intersect([a, b])[:, :5], (2 * p * q - 1) * 2)
    assert torch.equal(over.negate(a)[:, :5], -a[:, :5])


def test_settings_that_do_not_go_together():
    with pytest.raises(ConfigError, match="boundary"):
        Flex(5, 2, dim=4, connective_features="logic", boundary=None)
    with pytest.raises(ConfigError, match="disjunction"):
        Flex(5, 2, dim=4, disjunction="sum")
