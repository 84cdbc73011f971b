"""The plain step of `bench training` is the same step, and operations are counted as on paper."""

from __future__ import annotations

import pytest
import torch

import flexkg
from flexkg.bench.training_cpu import SETTINGS, Plain, _inside, _ours
from flexkg.config import build_model, load_recipe
from flexkg.sampling.make import Order, make_workload
from flexkg.sampling.workload import Workload
from flexkg.training.loop import Trainer

SHAPES = ("1p", "2p", "2i", "3i", "2in", "pin")


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench") / "workload"
    order = Order(splits=("train",), shapes=SHAPES, train_shapes=SHAPES, count=40)
    make_workload(flexkg.load("world").dataset, folder, order)
    return Workload.load(folder)


def trainer(folder, workload, shapes, *settings: str) -> Trainer:
    small = ["model.dim=8", "model.hidden=16", "training.batch_size=64", "training.negatives=6"]
    config = load_recipe("flex", [*SETTINGS, *small, f"training.shapes={','.join(shapes)}", *settings])
    torch.manual_seed(0)
    model = build_model(config.model, 4381, 16)
    train = [workload.queries("train", shape) for shape in shapes]
    made = Trainer(model, config.training, train, [], folder, torch.device("cpu"))
    made._calibrate()
    return made


def test_the_plain_step_has_the_same_loss_and_gradients(tmp_path, workload):
    ours = trainer(tmp_path, workload, SHAPES, "training.rows=dense")
    plain = Plain(ours, [workload.queries("train", shape).template for shape in SHAPES])
    gradients = []
    for loss in (ours._loss(0)(3), plain.loss(*plain._draw(3))):
        ours.model.zero_grad()
        loss.backward()
        gradients.append((loss.detach(), {name: p.grad.clone() for name, p in ours.model.named_parameters()}))
    torch.testing.assert_close(gradients[1][0], gradients[0][0], rtol=1e-5, atol=0)
    for name, value in gradients[0][1].items():
        torch.testing.assert_close(gradients[1][1][name], value, rtol=1e-3, atol=1e-6)


def test_operations_are_those_of_three_products_of_each_layer(tmp_path, workload):
    """A projection's layers are 16 x 16 three times; each is used forward, for its weights and for its input."""
    ours = trainer(tmp_path, workload, ("1p",))
    found = _inside(_ours(ours), 1, 64)
    assert found["flop_per_query"] == 3 * 3 * 2 * 16 * 16
    assert found["milliseconds"]["products"] > 0
