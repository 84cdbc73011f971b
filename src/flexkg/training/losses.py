"""The loss of negative sampling, and the learning rate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor

    from flexkg.config import TrainingSettings
    from flexkg.models import QueryModel
    from flexkg.plan.prepare import PreparedPlan
    from flexkg.training.batches import Batch


def negative_sampling(
    scores: Tensor, weights: Tensor, total: Tensor | None = None, allowed: Tensor | None = None
) -> Tensor:
    """-log s(positive) - mean of log s(-negative), a weighted mean over queries, halved.

    scores (n, 1 + k): the positive first; weights (n,). `total` is the sum of the weights of the whole batch where
    this is only a part of it. `allowed` (n, k) leaves negatives out that are answers.
    """
    positive = -functional.logsigmoid(scores[:, 0])
    negative = -functional.logsigmoid(-scores[:, 1:])
    if allowed is None:
        negative = negative.mean(dim=1)
    else:
        negative = (negative * allowed).sum(dim=1) / allowed.sum(dim=1).clamp(min=1)
    return ((positive + negative) * weights).sum() / (weights.sum() if total is None else total) / 2


def sampled_loss(model: QueryModel, states: Tensor, batch: Batch, prepared: PreparedPlan) -> Tensor:
    """The loss of a batch whose queries have the given states."""

    def score(candidates: Tensor) -> Tensor:
        return model.score(states, candidates, prepared.owner, prepared.count)

    if batch.allowed is None:
        scores = score(torch.cat([batch.positives, batch.negatives], dim=1))
    else:
        lists = batch.negatives
        if prepared.owner is not None:
            lists = lists.repeat_interleave(len(batch.positives) // len(lists), dim=0)
        scores = torch.cat([score(batch.positives), score(lists)], dim=1)
    return negative_sampling(scores, batch.weights, batch.total, batch.allowed)


def learning_rate(settings: TrainingSettings, step: int) -> float:
    """The learning rate of a step, counted from 0."""
    rate = settings.learning_rate
    if step < settings.warm_up:
        return rate * (step + 1) / settings.warm_up
    done = (step - settings.warm_up) / max(1, settings.steps - settings.warm_up)
    match settings.schedule:
        case "constant":
            return rate
        case "linear":
            return rate * (1 - done)
        case "cosine":
            return rate * (1 + math.cos(math.pi * done)) / 2
        case "released":
            # Divided by 5 at half the steps, and again each time the step has grown by half.
            cut = settings.steps // 2
            while step >= cut > 0:
                rate /= 5
                cut = max(cut + 1, int(cut * 1.5))
            return rate
