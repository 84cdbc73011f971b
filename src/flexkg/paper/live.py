"""Cells that need no run: they follow from the models and the catalog."""

from __future__ import annotations

from functools import cache

from flexkg.config import build_model, load_recipe
from flexkg.kg.benchmarks import BENCHMARKS


@cache
def count_parameters(recipe: str, overrides: tuple[str, ...], dataset: str) -> int:
    """How many parameters a recipe's model has on a graph of the catalog."""
    import torch

    graph = BENCHMARKS[dataset]
    # On the meta device a model has shapes but no memory.
    with torch.device("meta"):
        model = build_model(load_recipe(recipe, overrides).model, graph.entities, 2 * graph.relations)
    return sum(parameter.numel() for parameter in model.parameters())


def dataset_sizes(dataset: str) -> dict[str, float]:
    """The sizes of a graph of the catalog; whatever is fetched under its name must have them."""
    graph = BENCHMARKS[dataset]
    edges = {f"{split} edges": count for split, count in zip(("train", "valid", "test"), graph.edges, strict=True)}
    return {"entities": graph.entities, "relations": graph.relations, **edges, "edges": sum(graph.edges)}
