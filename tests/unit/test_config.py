"""Settings and recipes."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import torch

from flexkg.config import (
    DataSettings,
    RunConfig,
    TrainingSettings,
    build_model,
    load_recipe,
    recipe_names,
    template_for,
)
from flexkg.errors import ConfigError
from flexkg.model_settings import MODEL_SECTIONS
from flexkg.models import MODELS

RECIPES = [
    "flex",
    "flex-released",
    "flex-paper",
    "flex-full",
    "flex-small",
    "flex-residual",
    "flex-infinity",
    "flex-2f",
    "flex-3f",
    "flex-min",
    "flex-union",
    "flex-1p",
    "flex-1p2p3p",
    "flex-1p2p3p2i3i",
    "flex-no-logic",
    "flex-logic-over-feature",
    "flex-lukasiewicz",
    "gqe",
    "query2box",
    "betae",
    "cone",
    "transe",
    "distmult",
    "complex",
    "rotate",
    "tucker",
]


def test_all_recipes_are_there():
    assert recipe_names() == sorted(RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_builds_its_model(name):
    config = load_recipe(name)
    assert config.description
    with torch.device("meta"):
        assert build_model(config.model, 10, 4).name == config.model.name
    for shape in config.training.shapes:
        template_for(shape)


@pytest.mark.parametrize("name", MODELS)
def test_settings_are_the_arguments_of_the_model(name):
    parameters = inspect.signature(MODELS[name]).parameters.values()
    keywords = {
        parameter.name: parameter.default for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY
    }
    fields = {key: field.default for key, field in MODEL_SECTIONS[name].model_fields.items() if key != "name"}
    assert fields == keywords


def test_published_settings():
    cone = load_recipe("cone")
    assert (cone.model.dim, cone.model.margin, cone.training.learning_rate) == (800, 30.0, 5e-5)
    released = load_recipe("flex-released")
    assert (released.model.feature_sign, released.model.logic_scale, released.model.distance) == (-1, 2.0, "boundary")
    paper = load_recipe("flex-paper")
    assert (paper.model.feature_sign, paper.model.logic_scale, paper.model.distance) == (1, 1.0, "paper")
    assert (paper.model.negation, paper.model.modulus, paper.model.train_modulus) == ("mlp", 1.0, False)


def test_overrides():
    changes = ["model.dim=16", "training.shapes=1p,2p", "model.boundary=none", 'model.connectives=["unite"]']
    config = load_recipe("flex", changes)
    assert config.model.dim == 16
    assert config.model.boundary is None
    assert config.model.connectives == ("unite",)
    assert config.training.shapes == ("1p", "2p", "2u", "up")
    assert load_recipe("flex").model.dim == 800


def test_a_native_connective_is_trained():
    config = load_recipe("flex", ["model.union=native", "model.connectives=intersect,xor"])
    assert config.model.connectives == ("intersect", "xor", "unite")
    assert config.training.shapes[-3:] == ("epep^", "2u", "up")
    assert load_recipe("flex-full").training.shapes.count("2u") == 1
    assert load_recipe("flex", ["training.shapes=1p,up", "model.union=native"]).training.shapes == ("1p", "up")


def test_a_recipe_of_ones_own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('extends = "flex-small"\n[model]\nfeatures = 2\n[training]\nseed = 7\n')
    config = load_recipe(path)
    assert (config.model.features, config.model.dim, config.training.seed) == (2, 128, 7)
    other = tmp_path / "other.toml"
    other.write_text('extends = "mine.toml"\n')
    assert load_recipe(other).model.features == 2
    path.write_text('extends = "other.toml"\n')
    with pytest.raises(ConfigError, match="circle"):
        load_recipe(path)


def test_a_configuration_survives_json():
    config = load_recipe("flex-full")
    assert RunConfig.model_validate_json(config.model_dump_json()) == config


@pytest.mark.parametrize(
    ("recipe", "override", "says"),
    [
        ("flxe", "", "There is no recipe 'flxe'. Did you mean flex?"),
        ("flex", "model.dmi=3", r"flex has no setting model.dmi \(recipe flex\). Did you mean model.dim\?"),
        ("gqe", "model.hidden=3", "gqe has no setting model.hidden"),
        ("flex", "trainin.steps=3", "Unknown setting trainin .* Did you mean training"),
        ("flex", "training.step=3", "Unknown setting training.step .* Did you mean training.steps"),
        ("flex", "dim=3", "Did you mean model.dim?"),
        ("flex", "nonsense", "Write it as section.key=value"),
        ("flex", "model.dim=0", "model.dim: input should be greater than 0"),
        ("flex", "model.dim=many", "model.dim: input should be a valid integer"),
        ("flex", "model.negation=flip", "model.negation: input should be 'shift' or 'mlp'"),
        ("flex", "model.modulus=free", "model.modulus: .*'range/2' or 'calibrated'"),
        ("flex-infinity", "model.connective_features=logic", "needs a boundary"),
        ("flex", "model.name=flax", "There is no model 'flax'"),
        ("flex", "training.shapes=1p,2q", "unknown shape '2q'"),
        ("flex", "training.shares={2q=0.5}", "training.shares: .*unknown shape '2q'"),
        ("flex", "training.temperatures={2q=0.5}", "training.temperatures: .*unknown shape '2q'"),
        ("flex", "training.weight_exponent=nan", "training.weight_exponent: input should be a finite number"),
        ("flex", "training.near_misses=2", "training.near_misses: .*less than or equal to 1"),
        ("flex", "training.shared_by=4", "near_misses are a query's own"),
        ("flex", "training.loss=binary", "takes all entities and draws no negatives: set near_misses=0"),
        ("flex", "training.label_smoothing=0.1", "has no target to smooth: set label_smoothing=0"),
        ("flex", "training.shared_by=3", "2048 is not a multiple of shared_by 3"),
        ("flex", "description.a.b=1", "is no section"),
        ("missing.toml", "", "Cannot read the recipe missing.toml"),
    ],
)
def test_mistakes_name_the_setting(recipe, override, says):
    with pytest.raises(ConfigError, match=says):
        load_recipe(recipe, [override] if override else [])


def test_a_recipe_that_is_not_toml(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("model = [")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_recipe(path)


def test_every_training_setting_is_described():
    page = Path(__file__).parents[2] / "docs" / "how-to" / "train.md"
    described = set(re.findall(r"`(training\.\w+|data\.\w+)`", page.read_text(encoding="utf-8")))
    settings = {f"training.{name}" for name in TrainingSettings.model_fields}
    assert described - {"training.svg"} == settings | {f"data.{name}" for name in DataSettings.model_fields}
