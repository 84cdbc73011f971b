"""A small model to train, FLEX unless told, on a small random graph."""

from __future__ import annotations

import torch

from flexkg.config import build_model, load_recipe
from flexkg.training.loop import Trainer

ENTITIES, RELATIONS = 60, 4
SMALL = ["model.dim=8", "model.hidden=16", "training.batch_size=32", "training.negatives=4", "training.seed=7"]


def trainer(folder, queries, *settings, shapes=("1p", "2p", "2i", "2in"), recipe="flex-small", **options) -> Trainer:
    config = load_recipe(recipe, [*SMALL, *settings])
    torch.manual_seed(config.training.seed)
    model = build_model(config.model, ENTITIES, 2 * RELATIONS)
    sets, valid = queries
    return Trainer(model, config.training, [sets[s] for s in shapes], [valid], folder, torch.device("cpu"), **options)
