"""A captured round does what the same round does step by step; run by hand with `-m gpu`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flexkg.config import build_model, load_recipe
from flexkg.kg.graph import Graph
from flexkg.models import interpretation
from flexkg.query.shapes import SHAPES
from flexkg.sampling.build import Pair, sample_queries
from flexkg.sampling.near import NearMisses
from flexkg.training.batches import Batches
from flexkg.training.loop import Trainer
from flexkg.training.losses import learning_rate

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
SHAPES_TRAINED = ("2p", "2i", "2in", "2u")


@pytest.mark.parametrize("recipe", ["flex-small", "flex-released", "gqe", "cone", "tucker"])
def test_a_captured_round_is_the_round_itself(tmp_path, recipe):
    random = np.random.default_rng(0)
    graph = Graph.from_triples(np.stack([random.integers(0, n, 600) for n in (80, 4, 80)], 1), 80, 4)
    pair = Pair.of(graph, None)
    shapes = {"gqe": ("2p", "2i", "2u"), "tucker": ("1p",)}.get(recipe, SHAPES_TRAINED)
    sets = [sample_queries(pair, s, SHAPES[s], 40, cap=100, seed=0, split="train") for s in shapes]
    overrides = ["model.dim=16", "training.batch_size=64", "training.negatives=8", "training.precision=float32",
                 f"training.shapes={','.join(shapes)}", "training.update=merged"]  # fmt: skip
    overrides += {
        "gqe": [], "cone": ["model.hidden=32", "model.dropout=0"],
        "tucker": ["model.relation_dim=8", *(f"model.{kind}_dropout=0" for kind in ("input", "core", "output"))],
    }.get(recipe, ["model.hidden=32"])  # fmt: skip
    config = load_recipe(recipe, overrides)
    torch.manual_seed(0)
    models = [build_model(config.model, 80, 8) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    cuda = torch.device("cuda")
    captured, stepwise = (Trainer(model, config.training, sets, [], tmp_path, cuda) for model in models)
    for trainer in (captured, stepwise):
        trainer.model.train()
        trainer._calibrate()
    for step in range(3):
        captured._update()
        captured.step += 1
        stepwise.optimiser.set_rate(learning_rate(config.training, step))
        stepwise._apply(stepwise._backward(stepwise._loss(0), step))
        assert captured._losses.item() == pytest.approx(stepwise._losses.item(), rel=1e-4)
    ours, others = (trainer.model.state_dict().values() for trainer in (captured, stepwise))
    for mine, theirs in zip(ours, others, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-2, atol=2e-4)


def test_a_batch_is_the_same_on_every_device():
    random = np.random.default_rng(0)
    graph = Graph.from_triples(np.stack([random.integers(0, n, 600) for n in (80, 4, 80)], 1), 80, 4)
    pair = Pair.of(graph, None)
    sets = [sample_queries(pair, s, SHAPES[s], 40, cap=100, seed=0, split="train") for s in SHAPES_TRAINED]
    found = [[NearMisses(graph, device)(part) for part in sets] for device in ("cpu", "cuda")]
    for one, other in zip(*found, strict=True):
        assert {name: column.members.tolist() for name, column in one.answers.items()} == {
            name: column.members.tolist() for name, column in other.answers.items()
        }
    by = interpretation(build_model(load_recipe("flex-small").model, 80, 8))
    make = lambda device: Batches(found[0], [5, 6, 7, 8], by, 80, 9, 1, device, near=4)  # noqa: E731
    here, there = make("cpu").draw(3), make("cuda").draw(torch.tensor(3, device="cuda"))
    assert torch.equal(here.positives, there.positives.cpu())
    assert torch.equal(here.negatives, there.negatives.cpu())
    assert torch.equal(here.near, there.near.cpu())
    assert torch.allclose(here.weights, there.weights.cpu())
