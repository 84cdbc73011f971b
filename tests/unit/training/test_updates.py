"""What one update does: the loss, the learning rate, which rows and tables move, and how far."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from flexkg.config import TrainingSettings
from flexkg.training.losses import learning_rate, negative_sampling, self_adversarial
from small_training import ENTITIES, trainer


@pytest.mark.parametrize(
    "extra", [[], ["training.clip=0.001"], ["training.weight_decay=0.1"], ["training.table_rate=3"]]
)
def test_updates_by_rows_are_updates_of_all_rows_while_all_are_touched(tmp_path, queries, extra):
    # 32 x 65 candidates of 60 entities: a batch touches every row, and the two ways must agree.
    settings = ["training.steps=5", "training.negatives=64", *extra]
    runs = [trainer(tmp_path / rows, queries, *settings, f"training.rows={rows}") for rows in ("dense", "sparse")]
    for run in runs:
        run.run()
    assert runs[1].model.entities.weight.grad.is_sparse
    for name, value in runs[0].model.state_dict().items():
        torch.testing.assert_close(value, runs[1].model.state_dict()[name], rtol=1e-4, atol=1e-6)


def test_updates_by_rows_leave_other_rows_alone(tmp_path, queries):
    settings = ["training.steps=1", "training.negatives=1", "training.batch_size=4", "training.rows=sparse"]
    run = trainer(tmp_path, queries, *settings)
    before = run.model.entities.weight.detach().clone()
    run.run()
    touched = run.model.entities.weight.grad.coalesce().indices()[0]
    changed = (run.model.entities.weight != before).any(dim=1).nonzero()[:, 0]
    assert 0 < len(touched) < ENTITIES
    assert set(changed.tolist()) <= set(touched.tolist())


def test_tables_may_learn_faster_than_networks(tmp_path, queries):
    moved = []
    for times in (1, 5):
        run = trainer(
            tmp_path / str(times), queries, "training.steps=1", "training.warm_up=0", f"training.table_rate={times}"
        )
        before = {name: value.clone() for name, value in run.model.state_dict().items()}
        run.run()
        moved.append({name: value - before[name] for name, value in run.model.state_dict().items()})
    for name, change in moved[0].items():
        times = 5 if name.startswith(("entities.", "relation")) else 1
        torch.testing.assert_close(moved[1][name], times * change, rtol=1e-3, atol=1e-6)
    assert any(change.abs().max() > 0 for name, change in moved[0].items() if name.startswith("relation"))


def test_weight_decay_shrinks_tables(tmp_path, queries):
    sizes = []
    for name, decay in (("without", 0), ("with", 10)):
        run = trainer(
            tmp_path / name, queries, "training.steps=20", "training.warm_up=0", f"training.weight_decay={decay}"
        )
        run.run()
        sizes.append(run.model.entities.weight.norm().item())
    assert sizes[1] < 0.9 * sizes[0]


def test_the_loss_is_the_formula():
    scores = torch.tensor([[2.0, -1.0, 0.5], [0.0, 3.0, -2.0]])
    weights = torch.tensor([0.5, 0.25])
    sigmoid = lambda x: 1 / (1 + math.exp(-x))  # noqa: E731
    expected = 0.0
    for row, weight in zip(scores.tolist(), weights.tolist(), strict=True):
        expected += weight * (-math.log(sigmoid(row[0])) - sum(math.log(sigmoid(-s)) for s in row[1:]) / 2)
    assert negative_sampling(scores, weights).item() == pytest.approx(expected / 0.75 / 2, rel=1e-6)
    allowed = torch.tensor([[True, False], [True, True]])
    first = -math.log(sigmoid(2.0)) - math.log(sigmoid(1.0))  # a mean over those that are allowed
    second = -math.log(sigmoid(0.0)) - (math.log(sigmoid(-3.0)) + math.log(sigmoid(2.0))) / 2
    expected = (0.5 * first + 0.25 * second) / 0.75 / 2
    assert negative_sampling(scores, weights, allowed=allowed).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("loss", [negative_sampling, partial(self_adversarial, temperature=0.0)])
def test_a_near_miss_has_to_come_after_the_answer_and_no_more(loss):
    scores = torch.tensor([[2.0, -1.0, 0.5], [0.0, 3.0, -2.0]], dtype=torch.float64)
    weights = torch.tensor([0.5, 0.25], dtype=torch.float64)
    near = torch.tensor([[True, False], [False, False]])
    log = lambda x: math.log(1 / (1 + math.exp(-x)))  # noqa: E731
    first = -log(2.0) - (log(2.0 - -1.0) + log(-0.5)) / 2
    second = -log(0.0) - (log(-3.0) + log(2.0)) / 2
    expected = (0.5 * first + 0.25 * second) / 0.75 / 2
    assert loss(scores, weights, near=near).item() == pytest.approx(expected, rel=1e-12)
    none = torch.zeros_like(near)
    assert loss(scores, weights, near=none) == loss(scores, weights)
    # Where the answer is far above it, nothing pushes it on, however high its own score is.
    high = torch.tensor([[40.0, 9.0]], dtype=torch.float64, requires_grad=True)
    loss(high, weights[:1], near=torch.tensor([[True]])).backward()
    assert high.grad.abs().max() < 1e-12


def test_learning_rates():
    rate = lambda step, **more: learning_rate(TrainingSettings(steps=1000, learning_rate=1.0, **more), step)  # noqa: E731
    assert [rate(step, schedule="released") for step in (0, 499, 500, 749, 750)] == pytest.approx(
        [1, 1, 0.2, 0.2, 0.04]
    )
    assert rate(0, warm_up=100, schedule="constant") == pytest.approx(0.01)
    assert rate(550, warm_up=100, schedule="linear") == pytest.approx(0.5)
    assert rate(500, schedule="cosine") == pytest.approx(0.5)


def test_an_average_of_weights_begins_with_the_calibrated_ones(tmp_path, queries):
    """Otherwise a short run is evaluated with a modulus that it was never trained with."""
    one = trainer(tmp_path / "one", queries, "training.steps=1", "model.modulus=calibrated", "training.ema=0.75")
    before = {}
    update = one._update

    def look() -> None:
        before.update({name: value.clone() for name, value in one.model.state_dict().items()})
        update()

    one._update = look
    one.run()
    after = one.model.state_dict()
    assert before["modulus"] != trainer(tmp_path / "two", queries, "training.steps=1").model.modulus
    for name, value in one.average.weights.items():
        torch.testing.assert_close(value, 0.75 * before[name] + 0.25 * after[name])


def test_values_by_shape_are_laid_out_as_the_rows_are(tmp_path, queries):
    settings = ["training.shares={1p=3.0, 2p=1.0}", "training.batch_size=8"]
    for share, expected in (((0, 1), [0.5] * 6 + [2.0] * 2), ((1, 2), [0.5] * 3 + [2.0])):
        [batches] = trainer(tmp_path, queries, *settings, shapes=("1p", "2p"), share=share).rounds
        assert batches.by_row([0.5, 2.0]).tolist() == expected
