"""`flexkg models` and `flexkg recipes`: what can be trained, and what it would be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from flexkg.cli.output import AsJson, emit, in_markup
from flexkg.errors import ConfigError

if TYPE_CHECKING:
    from flexkg.config import RunConfig


def models_command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A model, a recipe, or a recipe's TOML file.")
    ] = None,
    data: Annotated[str, typer.Option(metavar="DATA", help="The graph that it would be trained on.")] = "world",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, such as model.dim=200.")
    ] = None,
    json: AsJson = False,
) -> None:
    """List the models, or show what one of them would be: its operators, settings and parameters."""
    from flexkg.config import load_recipe
    from flexkg.kg.catalog import resolve
    from flexkg.models import MODELS

    dataset = resolve(data)
    sizes = dataset.info()
    counts = int(sizes["entities"]), 2 * int(sizes["relations"])
    if name is None:
        if settings:
            raise ConfigError("--set changes the settings of one model.", hint="Name it: flexkg models NAME --set ...")
        models = [_describe(kind, load_recipe(kind), counts) for kind in MODELS]
        result = {"data": data, "models": [{key: model[key] for key in _LISTED} for model in models]}
        emit(result, json, lambda: _show_list(result))
    else:
        model = _describe(name, load_recipe(name, settings or []), counts)
        result = {"data": data, "models": [model]}
        emit(result, json, lambda: _show_one(model, data))


def recipes_command(json: AsJson = False) -> None:
    """List the recipes: settings under a name, to train with."""
    from flexkg.config import load_recipe, recipe_names

    configs = {name: load_recipe(name) for name in recipe_names()}
    recipes = [
        {"name": name, "model": config.model.name, "description": config.description}
        for name, config in configs.items()
    ]
    emit({"recipes": recipes}, json, lambda: _show_recipes(recipes))


_LISTED = ("name", "operators", "parameters")


def _describe(name: str, config: RunConfig, counts: tuple[int, int]) -> dict[str, Any]:
    import torch

    from flexkg.config import build_model
    from flexkg.plan.algebra import Operator

    # On the meta device a model has shapes but no memory.
    with torch.device("meta"):
        model = build_model(config.model, *counts)
    tensors = [
        {"name": key, "shape": list(tensor.shape), "parameters": tensor.numel()}
        for key, tensor in model.named_parameters()
    ]
    return {
        "name": name,
        "operators": [str(operator) for operator in Operator if operator in model.operators],
        "parameters": sum(tensor["parameters"] for tensor in tensors),
        "tensors": tensors,
        "settings": config.model_dump(mode="json"),
    }


def _show_list(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("model", "operators", title=f"models, as they would be on {in_markup(result['data'])}")
    table.add_column("parameters", justify="right")
    for model in result["models"]:
        table.add_row(model["name"], " ".join(model["operators"]), f"{model['parameters']:,}")
    Console(emoji=False).print(table)


def _show_one(model: dict[str, Any], data: str) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(emoji=False)
    table = Table("parameter", "shape", title=f"{model['name']} on {in_markup(data)}")
    table.add_column("size", justify="right")
    for tensor in model["tensors"]:
        table.add_row(tensor["name"], " × ".join(map(str, tensor["shape"])), f"{tensor['parameters']:,}")
    console.print(table)
    console.print(f"{model['parameters']:,} parameters; operators: {', '.join(model['operators'])}", soft_wrap=True)
    for section in ("model", "training", "data"):
        for key, value in sorted(model["settings"][section].items(), key=lambda pair: pair[0] != "name"):
            console.print(f"{section}.{key} = {_shown(value)}", soft_wrap=True, highlight=False, markup=False)


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {share}" for key, share in value.items())
    return str(value)


def _show_recipes(recipes: list[dict[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("recipe", "model", "what it is")
    for recipe in recipes:
        table.add_row(recipe["name"], recipe["model"], recipe["description"])
    Console(emoji=False).print(table)
