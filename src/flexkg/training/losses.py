"""Losses, and the learning rate."""

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
    from flexkg.sampling.negatives import AnswerLists
    from flexkg.training.batches import Batch


def negative_sampling(
    scores: Tensor,
    weights: Tensor,
    total: Tensor | None = None,
    allowed: Tensor | None = None,
    near: Tensor | None = None,
) -> Tensor:
    """-log s(positive) - mean of log s(-negative), a weighted mean over queries, halved.

    scores (n, 1 + k): the positive first; weights (n,). `total` is the sum of the weights of the whole batch where
    this is only a part of it. `allowed` (n, k) leaves negatives out that are answers. `near` (n, k) says which are
    near misses: these count -log s(positive - negative).
    """
    positive = -functional.logsigmoid(scores[:, 0])
    negative = -functional.logsigmoid(-rivals(scores, near))
    if allowed is None:
        negative = negative.mean(dim=1)
    else:
        negative = (negative * allowed).sum(dim=1) / allowed.sum(dim=1).clamp(min=1)
    return ((positive + negative) * weights).sum() / (weights.sum() if total is None else total) / 2


def rivals(scores: Tensor, near: Tensor | None) -> Tensor:
    """Scores of the negatives; of near misses how far they are above the positive.

    A near miss answers all of the query but its negation. It has to come after the answers, and that is all: pushed as
    far from the query as any other negative, it takes with it what the rest of the query means.
    """
    return scores[:, 1:] if near is None else torch.where(near, scores[:, 1:] - scores[:, :1], scores[:, 1:])


def sampled_loss(model: QueryModel, states: Tensor, batch: Batch, prepared: PreparedPlan) -> Tensor:
    """The loss of a batch whose queries have the given states."""
    scores = sampled_scores(model, states, batch, prepared)
    return negative_sampling(scores, batch.weights, batch.total, batch.allowed, batch.near)


def sampled_scores(model: QueryModel, states: Tensor, batch: Batch, prepared: PreparedPlan) -> Tensor:
    """Scores of each query's positive, first, and of its negatives, (n, 1 + k)."""

    def score(candidates: Tensor) -> Tensor:
        return model.score(states, candidates, prepared.owner, prepared.count)

    if batch.allowed is None:
        return score(torch.cat([batch.positives, batch.negatives], dim=1))
    lists = batch.negatives
    if prepared.owner is not None:
        lists = lists.repeat_interleave(len(batch.positives) // len(lists), dim=0)
    return torch.cat([score(batch.positives), score(lists)], dim=1)


def self_adversarial(
    scores: Tensor,
    weights: Tensor,
    total: Tensor | None = None,
    allowed: Tensor | None = None,
    near: Tensor | None = None,
    temperature: float | Tensor = 1.0,
) -> Tensor:
    """As `negative_sampling`, with each negative weighed by a softmax of the negatives' scores (Sun et al., 2019).

    `temperature` may be one for each row, (n, 1).
    """
    positive = -functional.logsigmoid(scores[:, 0])
    sharp = temperature * scores[:, 1:].detach()
    if allowed is not None:
        sharp = sharp.masked_fill(~allowed, -torch.inf)
    # A row without any negative left has no softmax.
    shares = sharp.softmax(dim=1).nan_to_num(0.0)
    negative = -(shares * functional.logsigmoid(-rivals(scores, near))).sum(dim=1)
    return ((positive + negative) * weights).sum() / (weights.sum() if total is None else total) / 2


def sampled_softmax(
    scores: Tensor, weights: Tensor, total: Tensor | None = None, allowed: Tensor | None = None
) -> Tensor:
    """-log of the positive's share in a softmax over itself and its negatives, a weighted mean over queries."""
    if allowed is not None:
        scores = torch.cat([scores[:, :1], scores[:, 1:].masked_fill(~allowed, -torch.inf)], dim=1)
    losses = scores.logsumexp(dim=1) - scores[:, 0]
    return (losses * weights).sum() / (weights.sum() if total is None else total)


def cross_entropy(
    scores: Tensor, positives: Tensor, weights: Tensor, total: Tensor | None = None, smoothing: float = 0.0
) -> Tensor:
    """-log of the positive's share in a softmax over all entities, a weighted mean over queries.

    scores (n, entities), positives (n,), weights (n,).
    """
    losses = functional.cross_entropy(scores, positives, reduction="none", label_smoothing=smoothing)
    return (losses * weights).sum() / (weights.sum() if total is None else total)


def binary(
    scores: Tensor, answers: AnswerLists, weights: Tensor, total: Tensor | None = None, smoothing: float = 0.0
) -> Tensor:
    """Of each entity by itself, whether it is an answer: a mean over all entities, and a weighted one over queries.

    scores (n, entities), weights (n,). An entity's cross-entropy is softplus(score) - target * score, whose second part
    only answers have, but for the share of their target that is spread over all entities.
    """
    entities = scores.shape[1]
    spread = smoothing / entities * scores.sum(dim=1) if smoothing else 0.0
    losses = functional.softplus(scores).sum(dim=1) - (1 - smoothing) * answers.total(scores) - spread
    return (losses / entities * weights).sum() / (weights.sum() if total is None else total)


def training_loss(
    model: QueryModel,
    states: Tensor,
    batch: Batch,
    prepared: PreparedPlan,
    settings: TrainingSettings,
    temperatures: Tensor | None = None,
) -> Tensor:
    """The loss that the settings ask for, and what the model adds for the embeddings that the batch touches.

    `temperatures` (n, 1) are those of the rows where shapes differ in theirs.
    """
    match settings.loss:
        case "negative-sampling":
            loss = sampled_loss(model, states, batch, prepared)
        case "self-adversarial":
            scores = sampled_scores(model, states, batch, prepared)
            sharp = settings.temperature if temperatures is None else temperatures
            loss = self_adversarial(scores, batch.weights, batch.total, batch.allowed, batch.near, sharp)
        case "sampled-softmax":
            scores = sampled_scores(model, states, batch, prepared)
            loss = sampled_softmax(scores, batch.weights, batch.total, batch.allowed)
        case "cross-entropy":
            scores = model.score(states, None, prepared.owner, prepared.count)
            loss = cross_entropy(scores, batch.positives[:, 0], batch.weights, batch.total, settings.label_smoothing)
        case "binary":
            assert batch.answers is not None
            scores = model.score(states, None, prepared.owner, prepared.count)
            loss = binary(scores, batch.answers, batch.weights, batch.total, settings.label_smoothing)
    added = model.penalty(*touched(prepared, batch))
    # It is a mean over the queries here: a process's share of the batch counts as much as it has of them.
    return loss if added is None else loss + added * batch.part


def touched(prepared: PreparedPlan, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Ids of the anchors and of the relations in a batch's queries, and of the answers drawn for them."""
    kinds: dict[str, list[Tensor]] = {"entity": [], "project": []}
    for step, ids in zip(prepared.plan.steps, batch.grounding.ids, strict=True):
        if ids is not None:
            kinds[step.operator].append(ids)
    return torch.cat(kinds["entity"]), torch.cat(kinds["project"]), batch.positives[:, 0]


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
