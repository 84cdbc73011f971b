"""Link predictors: their formulas, what they cannot say, and that they learn links."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from flexkg.config import build_model, load_recipe
from flexkg.errors import ConfigError, UnsupportedOperator
from flexkg.evaluation.ranking import rank
from flexkg.models import MODELS, embed, interpretation, run_plan
from flexkg.query.shapes import SHAPES, ground
from flexkg.sampling.negatives import AnswerLists
from flexkg.sampling.queries import Column, QuerySet
from flexkg.training.batches import Batches
from flexkg.training.losses import (
    binary,
    cross_entropy,
    negative_sampling,
    sampled_softmax,
    self_adversarial,
    touched,
    training_loss,
)

NAMES = ("transe", "distmult", "complex", "rotate", "tucker")
ENTITIES, RELATIONS = 9, 4


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def make(name, *overrides):
    torch.manual_seed(1)
    small = ["model.dim=3", *(["model.relation_dim=2"] if name == "tucker" else []), *overrides]
    return build_model(load_recipe(name, small).model, ENTITIES, RELATIONS).double().eval()


def tables(model):
    return model.entities.weight.detach().numpy(), model.relations.weight.detach().numpy()


def as_complex(values):
    real, imaginary = np.split(values, 2, axis=-1)
    return real + 1j * imaginary


def score(name, model, head, relation, tail):
    """The score of one link, as the papers write it."""
    entities, relations = tables(model)
    h, r, t = entities[head], relations[relation], entities[tail]
    match name:
        case "transe":
            return model.margin - np.abs(h + r - t).sum()
        case "distmult":
            return (h * r * t).sum()
        case "complex":
            return (as_complex(h) * as_complex(r) * as_complex(t).conj()).real.sum()
        case "rotate":
            turn = np.exp(1j * r / model.range * math.pi)
            return model.margin - np.abs(as_complex(h) * turn - as_complex(t)).sum()
        case "tucker":
            core = model.core.detach().numpy()
            scale = 1 / math.sqrt(1 + 1e-5)  # an untrained normalisation only guards against dividing by nothing
            return np.einsum("i,k,kij,j->", h * scale, r, core, t) * scale


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_the_papers(name):
    model = make(name)
    pairs = [(head, relation) for head in range(3) for relation in range(RELATIONS)]
    state, _ = embed(model, [ground(SHAPES["1p"], [head], [relation]) for head, relation in pairs])
    expected = [[score(name, model, head, relation, tail) for tail in range(ENTITIES)] for head, relation in pairs]
    np.testing.assert_allclose(model.score_all(state).numpy(), expected, rtol=1e-9, atol=1e-12)


def test_transe_measures_straight_lines_too():
    model = make("transe", "model.norm=2")
    entities, relations = tables(model)
    state = model.project(model.entity(torch.tensor([4])), torch.tensor([2]))
    expected = model.margin - np.linalg.norm(entities[4] + relations[2] - entities, axis=1)
    np.testing.assert_allclose(model.score_all(state)[0].numpy(), expected)
    with pytest.raises(ConfigError, match="norm"):
        make("transe", "model.norm=3")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", ["2i", "pi", "2in"])
def test_what_takes_more_than_links_is_refused(name, shape):
    with pytest.raises(UnsupportedOperator, match=f"{name} cannot express .*{shape} query.*flex"):
        embed(make(name), [ground(SHAPES[shape], [0] * 3, [0] * 4)])


def test_derivatives_at_distance_nothing_are_numbers():
    for name, settings in (("rotate", ()), ("transe", ("model.norm=2",))):
        model = make(name, *settings)
        distance = model.distance(model.entity(torch.arange(4)))
        distance.sum().backward()
        assert model.entities.weight.grad.isfinite().all()


def test_the_penalty_is_the_cubes_of_what_a_batch_touches():
    anchors, relations, answers = torch.tensor([0, 1]), torch.tensor([3, 3]), torch.tensor([5, 2])
    for name in ("distmult", "complex"):
        model = make(name, "model.regularisation=0.5")
        whole = [as_complex(part) if name == "complex" else part for part in tables(model)]
        parts = (whole[0][anchors], whole[1][relations], whole[0][answers])
        expected = 0.5 * sum((np.abs(part) ** 3).sum() for part in parts) / 2
        assert model.penalty(anchors, relations, answers).item() == pytest.approx(expected, rel=1e-5)
        assert make(name, "model.regularisation=0").penalty(anchors, relations, answers) is None
    assert make("transe").penalty(anchors, relations, answers) is None


def test_cross_entropy_is_a_softmax_over_everything():
    scores, positives = torch.randn(3, 5, dtype=torch.float64), torch.tensor([4, 0, 2])
    weights = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    logs = torch.log_softmax(scores, dim=1)
    expected = -(logs[torch.arange(3), positives] * weights).sum() / 3.5
    torch.testing.assert_close(cross_entropy(scores, positives, weights), expected)
    smooth = -((0.9 * logs[torch.arange(3), positives] + 0.1 * logs.mean(dim=1)) * weights).sum() / 3.5
    torch.testing.assert_close(cross_entropy(scores, positives, weights, smoothing=0.1), smooth)


def test_binary_asks_of_every_entity():
    scores = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([1.0, 3.0], dtype=torch.float64)
    answers = torch.tensor([[1.0, 0, 0, 0, 1], [0, 0, 1, 0, 0]], dtype=torch.float64)
    lists = AnswerLists(torch.tensor([[0, 4], [2, 1]]), torch.tensor([[True, True], [True, False]]), None)
    for smoothing in (0.0, 0.1):
        targets = (1 - smoothing) * answers + smoothing / 5
        parts = torch.nn.functional.binary_cross_entropy_with_logits(scores, targets, reduction="none").mean(dim=1)
        expected, found = (parts * weights).sum() / 4, binary(scores, lists, weights, smoothing=smoothing)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(*(torch.autograd.grad(loss, scores)[0] for loss in (found, expected)))
        torch.testing.assert_close(binary(scores, lists, weights, weights.sum() * 2, smoothing), expected / 2)


def test_self_adversarial_weighs_the_strongest_rivals_most():
    scores = torch.tensor([[1.0, 3.0, -1.0, 0.0], [0.0, 1.0, 1.0, 1.0]], dtype=torch.float64)
    weights = torch.ones(2, dtype=torch.float64)
    shares = (2 * scores[:, 1:]).softmax(dim=1)
    losses = -scores[:, 0].sigmoid().log() - (shares * (-scores[:, 1:]).sigmoid().log()).sum(dim=1)
    torch.testing.assert_close(self_adversarial(scores, weights, temperature=2.0), losses.mean() / 2)
    # Where all rivals are alike it is the plain loss; those that are answers do not count.
    torch.testing.assert_close(self_adversarial(scores[1:], weights[1:]), negative_sampling(scores[1:], weights[1:]))
    allowed = torch.tensor([[False, True, True], [False, False, False]])
    found = self_adversarial(scores, weights, allowed=allowed)
    kept = self_adversarial(scores[:1, [0, 2, 3]], weights[:1])
    alone = -scores[1, 0].sigmoid().log() / 2
    torch.testing.assert_close(found, (kept + alone) / 2)
    # Each row may have a temperature of its own; at 0 all rivals count alike.
    mixed = self_adversarial(scores, weights, temperature=torch.tensor([[2.0], [0.0]], dtype=torch.float64))
    rows = self_adversarial(scores[:1], weights[:1], temperature=2.0), negative_sampling(scores[1:], weights[1:])
    torch.testing.assert_close(mixed, sum(rows) / 2)


def test_sampled_softmax_is_the_cross_entropy_of_the_drawn():
    scores = torch.tensor([[1.0, 3.0, -1.0, 0.0], [0.0, 1.0, 1.0, 1.0]], dtype=torch.float64)
    weights = torch.tensor([2.0, 1.0], dtype=torch.float64)
    first = torch.zeros(2, dtype=torch.int64)
    torch.testing.assert_close(sampled_softmax(scores, weights), cross_entropy(scores, first, weights))
    # Rivals that are answers do not count; who has none left has nothing to learn.
    allowed = torch.tensor([[False, True, True], [False, False, False]])
    kept = cross_entropy(scores[:1, [0, 2, 3]], first[:1], weights[:1])
    torch.testing.assert_close(sampled_softmax(scores, weights, allowed=allowed), 2 / 3 * kept)


def ring(count=12):
    """Relation 0 leads from each entity to the next, relation 2 to the one after; 1 and 3 lead back."""
    steps = {0: 1, 1: -1, 2: 2, 3: -2}
    pairs = [(entity, relation) for entity in range(count) for relation in steps]
    heads, relations = (np.array(column, np.int32)[:, None] for column in zip(*pairs, strict=True))
    tails = np.array([(entity + steps[relation]) % count for entity, relation in pairs], np.int32)
    offsets, none = np.arange(len(pairs) + 1), np.zeros(len(pairs) + 1, np.int64)
    answers = {"train": Column(offsets, tails), "hard": Column(offsets, tails), "easy": Column(none, tails[:0])}
    return QuerySet("1p", "ep", heads, relations, answers)


@pytest.mark.parametrize(("name", "loss"), [*((name, None) for name in NAMES), ("tucker", "cross-entropy")])
def test_links_are_learnt(name, loss):
    """Each with the loss of its recipe, or another one, on a ring that none knows at first."""
    torch.manual_seed(0)
    dim = ["model.dim=16", *(["model.relation_dim=8"] if name == "tucker" else [])]
    off = ["model.input_dropout=0", "model.core_dropout=0", "model.output_dropout=0"] if name == "tucker" else []
    config = load_recipe(name, [*dim, *off, "training.negatives=8", *([f"training.loss={loss}"] if loss else [])])
    model = build_model(config.model, 12, 4)
    queries = ring()
    by = interpretation(model)
    batches = Batches([queries], [48], by, 12, 8, 0, all_answers=config.training.loss == "binary")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    before = rank(model.eval(), queries, by).metrics()["mrr"]
    model.train()
    for step in range(150):
        batch = batches.draw(step)
        loss = training_loss(
            model, run_plan(model, batches.prepared, batch.grounding), batch, batches.prepared, config.training
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    after = rank(model.eval(), queries, by).metrics()["mrr"]
    assert before < 0.6
    # A product that knows no direction cannot tell next from last, nor do translations lead round in a circle.
    assert after > (0.65 if name in ("transe", "distmult") else 0.9)


def test_what_a_batch_touches_is_named():
    batches = Batches([ring()], [5], interpretation(make("complex")), 12, 3, 0)
    batch = batches.draw(0)
    anchors, relations, answers = touched(batches.prepared, batch)
    steps = {0: 1, 1: -1, 2: 2, 3: -2}
    assert [(e + steps[r]) % 12 for e, r in zip(anchors.tolist(), relations.tolist(), strict=True)] == answers.tolist()


def test_all_entities_as_candidates_are_all_updated():
    for loss in ("cross-entropy", "binary"):
        with pytest.raises(ConfigError, match=loss):
            load_recipe("complex", ["training.rows=sparse", f"training.loss={loss}"])
        assert load_recipe("complex", [f"training.loss={loss}"]).training.rows == "dense"


def test_parts_of_a_batch_hold_their_own_answers():
    by = interpretation(make("complex"))
    shares = (0, 1), (0, 2), (1, 2)
    whole, *parts = (Batches([ring()], [5], by, 12, 3, 0, share=s, all_answers=True).draw(7) for s in shares)
    assert torch.equal(torch.cat([part.answers.ids for part in parts]), whole.answers.ids)
    assert torch.equal(whole.answers.ids, whole.positives)


def test_their_recipes_train_single_links():
    assert {name for name in MODELS if load_recipe(name).training.shapes == ("1p",)} == set(NAMES)
