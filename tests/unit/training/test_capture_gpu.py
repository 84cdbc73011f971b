"""A captured round gives the loss and the gradients of the same round run step by step; run by hand with `-m gpu`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flexkg.config import build_model, load_recipe
from flexkg.kg.graph import Graph
from flexkg.query.shapes import SHAPES
from flexkg.sampling.build import Pair, sample_queries
from flexkg.training.loop import Trainer

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
SHAPES_TRAINED = ("2p", "2i", "2in", "2u")


@pytest.mark.parametrize("recipe", ["flex-small", "flex-released", "gqe", "cone"])
def test_a_captured_round_is_the_round_itself(tmp_path, recipe):
    random = np.random.default_rng(0)
    graph = Graph.from_triples(np.stack([random.integers(0, n, 600) for n in (80, 4, 80)], 1), 80, 4)
    pair = Pair.of(graph, None)
    shapes = SHAPES_TRAINED if recipe != "gqe" else ("2p", "2i", "2u")
    sets = [sample_queries(pair, s, SHAPES[s], 40, cap=100, seed=0, split="train") for s in shapes]
    overrides = ["model.dim=16", "training.batch_size=64", "training.negatives=8", "training.precision=float32",
                 f"training.shapes={','.join(shapes)}", "training.update=merged"]  # fmt: skip
    overrides += [] if recipe == "gqe" else ["model.hidden=32"]
    overrides += ["model.dropout=0"] if recipe == "cone" else []
    config = load_recipe(recipe, overrides)
    torch.manual_seed(0)
    trainer = Trainer(build_model(config.model, 80, 8), config.training, sets, [], tmp_path, torch.device("cuda"))
    trainer.model.train()
    trainer._calibrate()
    for step in (1, 2, 3):
        batch = trainer.rounds[0].draw(step)
        captured = trainer._backward(0, batch).item()
        gradients = [parameter.grad.clone() for parameter in trainer.model.parameters()]
        trainer.model.zero_grad(set_to_none=True)
        loss = trainer._loss(0)(batch)
        loss.backward()
        assert captured == pytest.approx(loss.item(), rel=1e-5)
        for parameter, gradient in zip(trainer.model.parameters(), gradients, strict=True):
            torch.testing.assert_close(gradient, parameter.grad, rtol=1e-3, atol=1e-6)
