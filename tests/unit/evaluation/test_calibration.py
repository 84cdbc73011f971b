"""Probabilities: curves that recover the truth, errors equal to hand-made ones, the right events."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

import flexkg
from flexkg.config import load_recipe
from flexkg.engine.engine import Engine
from flexkg.evaluation.calibration import (
    FILE,
    TOP,
    Calibration,
    Curve,
    Sample,
    calibrate,
    calibrate_samples,
    collect,
    fit,
    measure,
    ruled_out,
)
from flexkg.evaluation.kinds import kind_of
from flexkg.evaluation.reliability import draw_reliability
from flexkg.kg.graph import Graph
from flexkg.kg.loops import loopless as loopless_relations
from flexkg.kg.storage import write_json
from flexkg.models import embed, interpretation
from flexkg.query.shapes import SHAPES, ground, template_of
from flexkg.query.terms import Entity, Or, Project
from flexkg.sampling.make import Order, make_workload
from flexkg.sampling.queries import Column, QuerySet
from flexkg.sampling.workload import Workload
from flexkg.training.folder import RunFolder
from flexkg.training.run import train


def sample(curve: Curve, queries: int, *, seed: int = 0, centre: float = 0.0) -> Sample:
    """Candidates whose answers are drawn with the probabilities of a curve; all are among the best predictions."""
    random = np.random.default_rng(seed)
    scores = random.normal(centre, 3.0, size=queries * TOP)
    answer = random.random(len(scores)) < curve(scores)
    numbers = np.repeat(np.arange(queries), TOP)
    ones = np.ones(len(scores))
    return Sample(numbers, scores, answer, ones, ones.astype(bool))


@pytest.fixture(scope="module")
def facts() -> Engine:
    """The smaller graph of validation."""
    return Engine(flexkg.load("world").dataset.graph("train"))


@pytest.fixture(scope="module")
def opened(small_run):
    run = RunFolder.open(small_run)
    return run.model(), Workload.load(small_run.parent / "workload")


@pytest.mark.parametrize("truth", [Curve(0.7, -2.0), Curve(0.1, 0.5), Curve(3.0, 4.0)], ids=["usual", "flat", "steep"])
def test_the_fit_finds_the_curve_that_made_the_answers(truth):
    found = fit([sample(truth, 20_000)])
    assert found.slope == pytest.approx(truth.slope, rel=0.05)
    assert found.intercept == pytest.approx(truth.intercept, abs=0.1)
    assert fit([sample(truth, 20_000)]) == found


def test_a_weight_counts_as_often_as_it_says():
    drawn = sample(Curve(1.0, -1.0), 300)
    times = 1 + np.arange(len(drawn.scores)) % 3
    weighted = Sample(drawn.query, drawn.scores, drawn.answer, times.astype(float), drawn.top)
    repeated = Sample(*(np.repeat(column, times) for column in vars(drawn).values()))
    found, expected = fit([weighted]), fit([repeated])
    assert (found.slope, found.intercept) == pytest.approx((expected.slope, expected.intercept), rel=1e-6)


def test_scores_that_mislead_give_the_share_of_answers():
    drawn = sample(Curve(1.0, -1.0), 500)
    misled = Sample(drawn.query, -drawn.scores, drawn.answer, drawn.weights, drawn.top)
    found = fit([misled])
    assert found.slope == 0.0
    assert found(np.array([-5.0, 5.0])) == pytest.approx([drawn.answer.mean()] * 2)


def test_answers_cleanly_apart_give_a_finite_curve():
    scores = np.concatenate([np.full(30, -1.0), np.full(30, 1.0)])
    apart = Sample(np.arange(60), scores, scores > 0, np.ones(60), np.ones(60, dtype=bool))
    found = fit([apart])
    assert 0 < found.slope < 1e3
    assert found(np.array([-1.0]))[0] < 0.01 < 0.99 < found(np.array([1.0]))[0]


def test_the_error_is_the_mean_gap_between_probability_and_share():
    chances = np.repeat(np.linspace(0.05, 0.95, 10), 20)
    perfect = np.concatenate([np.arange(20) < round(20 * chance) for chance in np.linspace(0.05, 0.95, 10)])
    assert measure(chances, perfect, 10).ece == pytest.approx(0.0)
    assert measure(chances, np.zeros(200, dtype=bool), 10).ece == pytest.approx(0.5)
    half = measure(chances, perfect[::-1], 10)
    assert half.ece == pytest.approx(np.abs(2 * np.linspace(0.05, 0.95, 10) - 1).mean())
    assert [part.count for part in half.bins] == [20] * 10
    assert measure(np.zeros(0), np.zeros(0, dtype=bool), 0).ece == 0.0


def test_the_true_probabilities_have_next_to_no_error():
    truth = Curve(0.8, -1.5)
    drawn = sample(truth, 20_000)
    assert measure(truth(drawn.scores), drawn.answer, 20_000).ece < 0.005
    assert measure(Curve(0.8, 0.0)(drawn.scores), drawn.answer, 20_000).ece > 0.1


def test_kinds_have_their_own_curves_and_unseen_ones_the_pooled_one():
    truths = {"1p": Curve(1.0, -1.0), "2p": Curve(0.3, -2.0)}
    found = calibrate_samples({kind: sample(truth, 5000, seed=3) for kind, truth in truths.items()})
    assert found is not None
    assert found.kinds["1p"].slope == pytest.approx(1.0, rel=0.1)
    assert found.kinds["2p"].slope == pytest.approx(0.3, rel=0.1)
    scores = np.linspace(-9, 9, 50)
    assert found.probabilities("1p", scores)[1] == "kind"
    chances, source = found.probabilities("3p", scores)
    assert source == "pooled"
    assert (np.diff(chances) > 0).all()
    assert found.pooled(scores).tolist() == chances.tolist()
    assert found.measured.ece < 0.02 < found.pooled_ece
    # Every second query teaches, the others are measured.
    assert found.by_kind["1p"].queries == found.by_kind["2p"].queries == 2500
    assert found.measured.queries == 5000
    assert "5,000 validation queries" in draw_reliability(found)


def test_too_few_answers_give_no_curve():
    rare = sample(Curve(1.0, -12.0), 40)
    assert rare.answer.sum() < 20
    assert calibrate_samples({"1p": rare}) is None
    found = calibrate_samples({"1p": rare, "2p": sample(Curve(1.0, 0.0), 200)})
    assert found is not None
    assert list(found.kinds) == ["2p"]
    assert calibrate_samples({}) is None


def test_what_is_stored_comes_back(tmp_path):
    found = calibrate_samples({"1p": sample(Curve(1.0, -1.0), 200), "2i": sample(Curve(0.5, 0.0), 200)})
    assert found is not None
    assert Calibration.load(tmp_path) is None
    write_json(tmp_path / FILE, found.to_dict())
    again = Calibration.load(tmp_path)
    assert again is not None
    assert again.to_dict() == found.to_dict()


@pytest.mark.parametrize("shape", ["1p", "2i", "2in", "2u"])
def test_candidates_are_those_that_the_smaller_graph_leaves_open(opened, facts, shape):
    model, workload = opened
    queries = workload.queries("valid", shape)
    found = collect(model, queries, interpretation(model), facts)
    ruled_out = 0
    for row in (0, 7, len(queries) - 1):
        easy, hard = queries.answers["easy"].row(row), queries.answers["hard"].row(row)
        term = ground(queries.template, queries.entities[row].tolist(), queries.relations[row].tolist())
        with torch.no_grad():
            states, prepared = embed(model, [term])
            scores = model.score_all(states, prepared.owner, prepared.count)[0].double().numpy()
        here = found.query == row
        assert np.sort(found.scores[here & found.answer]) == pytest.approx(np.sort(scores[hard]), abs=1e-4)
        never = []
        if shape == "2in":
            # What the negated part holds by the facts of the smaller graph.
            [(never, _)] = facts.answer([term.operands[1].operand]).rows()
            ruled_out += len(never)
        open_ones = np.setdiff1d(np.arange(len(scores)), [*easy, *never])
        best = np.sort(scores[open_ones])[::-1][:TOP]
        assert np.sort(found.scores[here & found.top])[::-1] == pytest.approx(best, abs=1e-4)
        assert found.weights[here & found.answer].tolist() == [1.0] * len(hard)
    assert (ruled_out > 0) == (shape == "2in")


def test_weights_stand_for_all_candidates(opened, facts):
    model, workload = opened
    queries = workload.queries("valid", "1p")
    found = collect(model, queries, interpretation(model), facts)
    expected = len(queries) * model.num_entities - len(queries.answers["easy"].members)
    assert found.weights.sum() == pytest.approx(expected, rel=0.02)


def test_complements_take_part(opened):
    model, _ = opened
    # Outside of the easy answers, which are everything but 5, 6 and 7, there are just these three.
    queries = QuerySet(
        "not",
        "epn",
        np.array([[1]], dtype=np.int32),
        np.array([[0]], dtype=np.int32),
        {
            "easy": Column(np.array([0, 3]), np.array([5, 6, 7], dtype=np.int32)),
            "hard": Column(np.array([0, 1]), np.array([6], dtype=np.int32)),
        },
        complement=True,
    )
    unknown = Graph.from_triples(np.zeros((0, 3), int), model.num_entities, model.num_relations // 2)
    found = collect(model, queries, interpretation(model), Engine(unknown))
    assert len(found.scores) == 3
    assert found.answer.sum() == 1
    assert found.top.all()
    assert found.weights.tolist() == [1.0, 1.0, 1.0]


def test_shapes_that_a_model_cannot_express_are_left_out(opened, facts):
    from flexkg.models import GQE

    _, workload = opened
    torch.manual_seed(0)
    gqe = GQE(workload.data["entities"], 2 * workload.data["relations"], dim=4, margin=24.0)
    sets = [workload.queries("valid", shape) for shape in workload.shapes("valid")]
    found = calibrate(gqe, sets, interpretation(gqe), facts)
    assert found is not None
    assert "2in" not in found.kinds
    assert "1p" in found.kinds


def test_where_a_step_began_is_no_candidate_of_relations_without_loops(opened):
    _, workload = opened
    loopless = np.arange(workload.data["relations"]) % 2 == 0
    templates = {(True, True): Or(Entity(0), Entity(1)), (True, False): Entity(0), (False, True): Entity(1)}
    queries = workload.queries("valid", "2i")
    seen = 0
    for rows, template in ruled_out(queries, loopless):
        seen += len(rows)
        for pattern in loopless[queries.relations[rows.numpy()] >> 1].tolist():
            assert template == templates[tuple(pattern)]
    assert seen == loopless[queries.relations >> 1].any(axis=1).sum() > 0
    assert not list(ruled_out(queries, None))
    [(rows, template)] = ruled_out(workload.queries("valid", "2in"), None)
    assert (len(rows), template) == (workload.count("valid", "2in"), Project(1, Entity(1)))


def test_a_trained_run_has_its_calibration_and_a_picture(small_run, opened, facts):
    content = json.loads((small_run / FILE).read_text())
    assert content["format"] == "flexkg-calibration"
    assert set(content["kinds"]) == {"1p", "2p", "2i", "2in", "2u"}
    assert content["queries"] == sum(entry["queries"] for entry in content["kinds"].values())
    assert 0 <= content["ece"] < 0.05
    model, workload = opened
    sets = [workload.queries("valid", shape) for shape in workload.shapes("valid")]
    dataset = RunFolder.open(small_run).dataset
    learnt = loopless_relations(dataset.triples["train"], len(dataset.relations))
    again = calibrate(model, sets, interpretation(model), facts, loopless=learnt)
    assert again is not None
    assert again.to_dict()["kinds"]["1p"]["slope"] == pytest.approx(content["kinds"]["1p"]["slope"], rel=1e-3)
    picture = (small_run / "calibration.svg").read_text()
    assert picture == draw_reliability(Calibration.load(small_run))
    assert picture.count("<circle") == len(content["bins"])
    assert f"{content['ece']:.4f}" in picture


@pytest.mark.parametrize("calibrate", [True, False])
def test_a_trial_may_go_without(tmp_path, calibrate):
    dataset = flexkg.load("world").dataset
    make_workload(dataset, tmp_path / "queries", Order(splits=("train", "valid"), shapes=("1p",), count=200))
    config = load_recipe("gqe", ["model.dim=4", "training.steps=2", "training.batch_size=16", "training.shapes=1p"])
    outcome = train(dataset, config, tmp_path / "run", workload=tmp_path / "queries", calibrate=calibrate)
    assert outcome.finished
    assert (tmp_path / "run" / FILE).is_file() == calibrate
    assert (flexkg.open(tmp_path / "run", "cpu").calibration is not None) == calibrate


def test_a_run_that_goes_on_forgets_what_other_weights_taught(small_run, tmp_path):
    from flexkg.training.calibrated import forget_calibration

    shutil.copytree(small_run, tmp_path / "run")
    forget_calibration(tmp_path / "run")
    assert flexkg.open(tmp_path / "run", "cpu").calibration is None
    forget_calibration(tmp_path / "run")


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("epepp&2", "pi"),
        ("eppep&2", "pi"),
        ("epnep&2", "2in"),
        ("epepnep&3", "3in"),
        ("epnepn&2n", "2u-DM"),
        ("epep-", "epep-"),
        ("epepp-", "epepp-"),
        ("eppep-", "eppep-"),
        ("eppep^", "epepp^"),
        ("epepp^", "epepp^"),
    ],
)
def test_kinds_do_not_mind_the_order_of_operands(key, kind):
    assert kind_of(template_of(key)) == kind


def test_every_shape_is_its_own_kind():
    assert {kind_of(template): name for name, template in SHAPES.items()} == {name: name for name in SHAPES}
