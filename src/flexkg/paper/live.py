"""Cells that need no run: they follow from the models and the catalog."""

from __future__ import annotations

from functools import cache

from flexkg.config import build_model, load_recipe
from flexkg.kg.benchmarks import BENCHMARKS
from flexkg.kg.catalog import resolve
from flexkg.kg.dataset import SPLITS


@cache
def count_parameters(recipe: str, overrides: tuple[str, ...], dataset: str) -> int:
    """How many parameters a recipe's model has on a graph."""
    import torch

    sizes = dataset_sizes(dataset)
    # On the meta device a model has shapes but no memory.
    with torch.device("meta"):
        model = build_model(load_recipe(recipe, overrides).model, sizes["entities"], 2 * sizes["relations"])
    return sum(parameter.numel() for parameter in model.parameters())


@cache
def dataset_sizes(dataset: str) -> dict[str, int]:
    """The sizes of a graph; whatever is fetched under a name of the catalog must have those of the catalog."""
    if dataset in BENCHMARKS:
        known = BENCHMARKS[dataset]
        entities, relations, edges = known.entities, known.relations, tuple(known.edges)
    else:
        graph = resolve(dataset)
        entities, relations = len(graph.entities), len(graph.relations)
        edges = tuple(len(graph.triples[split]) for split in SPLITS)
    counts = {f"{split} edges": count for split, count in zip(SPLITS, edges, strict=True)}
    return {"entities": entities, "relations": relations, **counts, "edges": sum(edges)}
