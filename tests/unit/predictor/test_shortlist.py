"""Asking without an estimate: an index gives the answers that scoring every entity gives."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import pytest

import flexkg
from flexkg.api import KnowledgeGraph
from flexkg.kg.dataset import Dataset
from flexkg.kg.vocabulary import Vocabulary
from flexkg.predictor.shortlist import Finder

QUERIES = [
    "?x : borders(France, ?x)",
    "?x : borders(Portugal, ?y) & borders(?y, ?x)",
    "?x : borders(France, ?x) & !uses(?x, Euro)",
    "?x : capital(France, ?x) | capital(Spain, ?x)",
    "?x : speaks(?x, German) ^ borders(France, ?x)",
    "?x : !borders(France, ?x)",
    "?x : borders(Iceland, ?x)",
    "?x : speaks(?x, English) | speaks(?x, French) | speaks(?x, Spanish)",
]
pytest.importorskip("numba", reason="the index is made of compiled kernels (extra fast)")


def indexed(predictor, elements: int = 0, paid_after: int = 1):
    """The same run, whose index is made from the first question on."""
    predictor.judge = dataclasses.replace(predictor.judge, finder=Finder(predictor.model, elements, paid_after))
    return predictor


def plain(found) -> list[dict]:
    return [one.to_dict() for one in found]


@pytest.fixture
def run(small_run):
    return flexkg.open(small_run, "cpu")


@pytest.mark.parametrize("top", [0, 1, 10, 5000])
@pytest.mark.parametrize("known", [True, False], ids=["known", "predicted"])
def test_answers_scores_and_order_are_the_same(run, top, known):
    slow = plain(run.ask_many(QUERIES, top, known=known, estimate=False))
    assert run.judge.finder._index is None
    fast = plain(indexed(run).ask_many(QUERIES, top, known=known, estimate=False))
    assert run.judge.finder._index is not None
    assert fast == slow
    assert all(one["estimate"] is None for one in fast)


def test_only_the_estimate_is_missing(run):
    whole = run.ask_many(QUERIES, 8)
    short = indexed(run).ask_many(QUERIES, 8, estimate=False)
    assert [{**one, "estimate": None} for one in plain(whole)] == plain(short)
    assert all(one.estimate is not None for one in whole)
    assert [repr(one.explain()) for one in whole[:2]] == [repr(one.explain()) for one in short[:2]]


def test_the_least_probability_holds(run):
    least = sorted(answer.probability for answer in run.ask(QUERIES[0], 20))[5]
    slow = run.ask(QUERIES[0], 20, min_probability=least, estimate=False).to_dict()
    assert 0 < len(slow["answers"]) < 20
    assert indexed(run).ask(QUERIES[0], 20, min_probability=least, estimate=False).to_dict() == slow


def test_parts_that_add_up_are_scored(run):
    run.model.disjunction = "probability-or"
    slow = plain(run.ask_many(QUERIES, 9, estimate=False))
    assert plain(indexed(run).ask_many(QUERIES, 9, estimate=False)) == slow


@pytest.mark.parametrize("model", ["gqe", "query2box", "flex", "cone"])
def test_models_of_every_kind_of_distance(tmp_path, model):
    words = Vocabulary([f"e{number}" for number in range(150)]), Vocabulary(["r", "s"])
    triples = [(head, relation, (head * step + 1) % 150) for head in range(150) for relation, step in ((0, 1), (1, 7))]
    graph = KnowledgeGraph(Dataset("tiny", *words, {"train": triples}))
    settings = {
        "model.dim": 8, "training.steps": 20, "training.batch_size": 16, "training.negatives": 4,
        "training.shapes": ["1p", "2i"],
    }  # fmt: skip
    # Without a validation split there are no probabilities, hence no estimate.
    run = flexkg.train(graph, model, tmp_path / "run", settings=settings, device="cpu")
    queries = [[[number, [0]], [number + 1, [2]]] for number in range(20)] + [[[3, [0]], [9, [2]], [-1]]]
    slow = plain(run.ask_many(queries, 12))
    assert plain(indexed(run).ask_many(queries, 12)) == slow
    # Cones have no index.
    assert (run.judge.finder._index is None) == (model == "cone")


def test_it_is_made_once_it_pays(run):
    indexed(run, 0, 3)
    run.ask(QUERIES[0])
    for _ in range(2):
        run.ask(QUERIES[0], estimate=False)
        assert run.judge.finder._index is None
    run.ask(QUERIES[0], estimate=False)
    assert run.judge.finder._index is not None
    small = indexed(flexkg.open(run.run.path, "cpu"), 1 << 40)
    small.ask(QUERIES[0], estimate=False)
    assert small.judge.finder._index is None


def test_threads_share_it(run):
    slow = plain(run.ask(query, 10, estimate=False) for query in QUERIES)
    indexed(run, 0, 5)
    with ThreadPoolExecutor(4) as pool:
        rounds = list(pool.map(lambda _: plain(run.ask(query, 10, estimate=False) for query in QUERIES), range(8)))
    assert rounds == [slow] * 8
