"""`flexkg models` and `flexkg recipes`."""

from __future__ import annotations

import json

import pytest

from flexkg.cli.main import run


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_models_are_listed_with_operators_and_parameters(capsys):
    models = {model["name"]: model for model in printed(capsys, "models")["models"]}
    links = {"transe", "distmult", "complex", "rotate", "tucker"}
    assert set(models) == {"gqe", "query2box", "betae", "cone", "flex"} | links
    assert all("intersect" not in models[name]["operators"] for name in links)
    assert "negate" not in models["gqe"]["operators"]
    assert "negate" in models["betae"]["operators"]
    assert all(set(model) == {"name", "operators", "parameters"} for model in models.values())


def test_one_model_is_shown_by_tensor(capsys):
    (model,) = printed(capsys, "models", "flex", "--set", "model.dim=8", "--set", "model.hidden=16")["models"]
    assert sum(tensor["parameters"] for tensor in model["tensors"]) == model["parameters"]
    assert {tensor["name"]: tensor["shape"] for tensor in model["tensors"]}["projection.layers.1.weight"] == [16, 16]
    assert model["settings"]["model"]["dim"] == 8


def test_recipes_are_listed(capsys):
    names = {recipe["name"] for recipe in printed(capsys, "recipes")["recipes"]}
    assert {
        "flex",
        "flex-released",
        "flex-paper",
        "flex-full",
        "flex-small",
        "gqe",
        "query2box",
        "betae",
        "cone",
    } <= names


def test_pages_for_people(capsys):
    assert run(["models"]) == run(["recipes"]) == run(["models", "flex-small"]) == 0
    assert "model.connectives = intersect" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["models", "flexx"], "error: There is no recipe 'flexx'. Did you mean flex?"),
        (
            ["models", "flex", "--set", "model.dmi=8"],
            "error: flex has no setting model.dmi (recipe flex). Did you mean",
        ),
        (["models", "--set", "model.dim=8"], "error: --set changes the settings of one model."),
        (["models", "flex", "--data", "wrld"], "error:"),
    ],
)
def test_mistakes_are_one_line(capsys, arguments, says):
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(says)
    assert error.count("\n") == 1
