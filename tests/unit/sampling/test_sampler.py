"""Sampled queries keep the benchmark's rules, and their answers are those of plain Python sets."""

from __future__ import annotations

import functools
import gzip
import itertools
import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flexkg.kg.graph import Graph
from flexkg.query.betae import read_grounding
from flexkg.query.shapes import SHAPES, ground, key_of
from flexkg.query.terms import And, Entity, Not, Or, Project, Term, operands
from flexkg.sampling.build import Pair, answer_queries, enumerate_pairs, sample_queries
from flexkg.sampling.protocol import loses_answers, read_template
from flexkg.sampling.sampler import fingerprints
from laws.strategies import Graph as PlainGraph
from laws.strategies import graphs, naive_answers

MORE = {
    "4i": "?x : r(a, ?x) & r(a, ?x) & r(a, ?x) & r(a, ?x)",
    "xor": "?x : r(a, ?x) ^ r(a, ?x)",
    "implication": "?x : r(a, ?x) -> r(a, ?x)",
    "difference": "?x : r(a, ?x) \\ r(a, ?x)",
    "iff": "?x : r(a, ?x) <-> r(a, ?x)",
    "any": "?x : r(?y, ?x) & r(a, ?x)",
    "hop-not": "?x : !r(a, ?y) & r(?y, ?x)",
}
TEMPLATES = SHAPES | {name: read_template(text) for name, text in MORE.items()}
DATA = Path(os.environ.get("FLEXKG_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))


def index(plain: PlainGraph, edges=None) -> Graph:
    triples = np.array(sorted(plain.edges if edges is None else edges), dtype=np.int64).reshape(-1, 3)
    return Graph.from_triples(triples, plain.num_entities, plain.num_relations)


def random_plain(seed: int = 0, entities: int = 40, relations: int = 4, edges: int = 150) -> PlainGraph:
    random = np.random.default_rng(seed)
    triples = zip(
        (random.random(edges) ** 2 * entities).astype(int).tolist(),
        random.integers(0, relations, edges).tolist(),
        random.integers(0, entities, edges).tolist(),
        strict=True,
    )
    return PlainGraph(entities, relations, frozenset(triples))


def smaller_than(plain: PlainGraph, seed: int = 0, share: float = 0.7) -> PlainGraph:
    random = np.random.default_rng(seed)
    edges = sorted(plain.edges)
    kept = random.random(len(edges)) < share
    return PlainGraph(
        plain.num_entities, plain.num_relations, frozenset(e for e, k in zip(edges, kept, strict=True) if k)
    )


def terms_of(queries) -> list[Term]:
    return [
        ground(queries.template, entities, relations)
        for entities, relations in zip(queries.entities.tolist(), queries.relations.tolist(), strict=True)
    ]


def listed(queries, column: str, row: int, num_entities: int) -> set[int]:
    members = set(queries.answers[column].row(row).tolist())
    complement = queries.complement and column != "hard"
    return set(range(num_entities)) - members if complement else members


@pytest.mark.parametrize("shape", TEMPLATES)
def test_training_answers_are_those_of_plain_sets(shape):
    plain = random_plain()
    queries = sample_queries(Pair.of(index(plain), None), shape, TEMPLATES[shape], 60, cap=100, seed=0, split="train")
    assert len(queries) > 20
    for row, term in enumerate(terms_of(queries)):
        answers = listed(queries, "train", row, plain.num_entities)
        assert answers == naive_answers(term, plain)
        assert 0 < len(answers) < plain.num_entities


@pytest.mark.parametrize("shape", TEMPLATES)
def test_evaluation_queries_have_something_to_predict(shape):
    large = random_plain()
    small = smaller_than(large)
    template, cap = TEMPLATES[shape], 12
    pair = Pair.of(index(large), index(small))
    queries = sample_queries(pair, shape, template, 40, cap=cap, seed=0, split="test")
    assert len(queries) > 5
    for row, term in enumerate(terms_of(queries)):
        easy, all_answers = naive_answers(term, small), naive_answers(term, large)
        assert listed(queries, "easy", row, large.num_entities) == easy
        assert listed(queries, "hard", row, large.num_entities) == all_answers - easy
        assert 1 <= len(all_answers - easy) <= cap
        if loses_answers(template):
            assert 1 <= len(easy - all_answers) <= cap


def chains(term: Term) -> list[list[int]]:
    """The relations of every straight chain of steps, outermost first."""
    found, current = [], []
    while isinstance(term, Project | Not):
        if isinstance(term, Project):
            current.append(term.relation)
        term = term.operand
    found.append(current)
    for part in operands(term):
        found += chains(part)
    return found


def has_twins(term: Term) -> bool:
    parts = operands(term)
    return len(set(parts)) < len(parts) or any(map(has_twins, parts))


@pytest.mark.parametrize("shape", TEMPLATES)
def test_no_step_is_undone_no_branch_is_doubled_no_query_comes_twice(shape):
    queries = sample_queries(
        Pair.of(index(random_plain()), None), shape, TEMPLATES[shape], 80, cap=100, seed=1, split="train"
    )
    terms = terms_of(queries)
    for term in terms:
        assert not any(a == b ^ 1 for chain in chains(term) for a, b in itertools.pairwise(chain))
        assert not has_twins(term)
    unordered = {normal(term) for term in terms}
    assert len(unordered) == len(terms)


@pytest.mark.parametrize("shape", ["2i", "3i", "2u", "up"])
def test_as_written_operands_in_another_order_make_another_query(shape):
    pair = Pair.of(index(random_plain(edges=60)), None)
    draw = functools.partial(sample_queries, pair, shape, SHAPES[shape], 150, cap=100, seed=1, split="train")
    terms = terms_of(draw(as_written=True))
    assert len(set(terms)) == len(terms) == 150
    assert len(set(map(normal, terms))) < 150
    assert not any(map(has_twins, terms))
    # What is to be avoided is so in any order.
    first = draw()
    later = terms_of(draw(as_written=True, avoid=fingerprints(first)))
    assert later
    assert not set(map(normal, terms_of(first))) & set(map(normal, later))


def normal(term: Term):
    parts = [normal(part) for part in operands(term)]
    if isinstance(term, And | Or) or type(term).__name__ in ("Xor", "Iff"):
        parts = sorted(parts, key=repr)
    label = term.id if isinstance(term, Entity) else term.relation if isinstance(term, Project) else None
    return (type(term).__name__, label, tuple(parts))


def test_the_same_seed_gives_the_same_queries_whatever_else_is_sampled():
    plain = random_plain()
    draw = lambda shape, seed: sample_queries(  # noqa: E731
        Pair.of(index(plain), None), shape, SHAPES[shape], 50, cap=100, seed=seed, split="train"
    )
    first = draw("2p", 3)
    draw("3i", 3)
    again = draw("2p", 3)
    assert (first.entities == again.entities).all()
    assert (first.relations == again.relations).all()
    assert (first.answers["train"].members == again.answers["train"].members).all()
    other = draw("2p", 4)
    assert len(other) != len(first) or (first.relations != other.relations).any()


def test_what_is_to_be_avoided_does_not_come_out():
    pair = Pair.of(index(random_plain()), None)
    first = sample_queries(pair, "2u", SHAPES["2u"], 100, cap=100, seed=0, split="test")
    second = sample_queries(pair, "2u", SHAPES["2u"], 100, cap=100, seed=0, split="test", avoid=fingerprints(first))
    assert len(second) == 100
    assert not set(map(normal, terms_of(first))) & set(map(normal, terms_of(second)))


def test_a_shape_that_the_graph_cannot_give_ends_with_the_reasons():
    plain = PlainGraph(3, 1, frozenset({(0, 0, 1)}))
    queries = sample_queries(Pair.of(index(plain), None), "2p", SHAPES["2p"], 10, cap=100, seed=0, split="train")
    assert len(queries) == 0
    assert queries.extra["asked"] == 10
    assert queries.extra["rejected"]["broken rule"] > 0
    empty = Graph.from_triples(np.zeros((0, 3), np.int64), 3, 1)
    assert len(sample_queries(Pair.of(empty, None), "2p", SHAPES["2p"], 10, cap=1, seed=0, split="train")) == 0
    few = sample_queries(
        Pair.of(index(random_plain(edges=12)), None), "2i", SHAPES["2i"], 10**6, cap=1, seed=0, split="train"
    )
    assert 0 < len(few) < 1000
    assert few.extra["rejected"]["drawn before"] > 0


@settings(max_examples=25)
@given(graphs(max_entities=6, max_edges=20), st.integers(0, 5), st.integers(1, 3))
def test_one_hop_queries_are_all_of_them(large, seed, cap):
    small = smaller_than(large, seed, 0.5)
    queries = enumerate_pairs(Pair.of(index(large), index(small)), cap=cap)
    found = {
        (e, r): set(queries.answers["hard"].row(i).tolist())
        for i, (e, r) in enumerate(zip(queries.entities[:, 0].tolist(), queries.relations[:, 0].tolist(), strict=True))
    }
    expected = {}
    for entity in range(large.num_entities):
        for relation in range(2 * large.num_relations):
            term = Project(relation, Entity(entity))
            hard = naive_answers(term, large) - naive_answers(term, small)
            if 1 <= len(hard) <= cap:
                expected[entity, relation] = hard
    assert found == expected


def test_given_queries_are_answered_as_they_are():
    large = random_plain()
    small = smaller_than(large)
    entities, relations = torch.tensor([[0], [1]]), torch.tensor([[0], [7]])
    queries = answer_queries(Pair.of(index(large), index(small)), "1p", SHAPES["1p"], entities, relations)
    assert len(queries) == 2
    for row, term in enumerate(terms_of(queries)):
        assert listed(queries, "easy", row, 40) == naive_answers(term, small)


@pytest.mark.skipif(not DATA.is_dir(), reason=f"benchmark data not found in {DATA}: set FLEXKG_TEST_DATA")
class TestAgainstPublished:
    """Our NELL995 test queries are drawn like the published ones."""

    @staticmethod
    @functools.cache
    def pair() -> Pair:
        def table(path):
            with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
                return [line.rstrip("\n").split("\t") for line in lines]

        folder = DATA / "nell995"
        entities = {row[1]: int(row[0]) for row in table(folder / "entities.tsv.gz")[1:]}
        relations = {row[1]: int(row[0]) for row in table(folder / "relations.tsv.gz")[1:]}
        parts = [
            np.array([(entities[h], relations["+" + r] // 2, entities[t]) for h, r, t in table(folder / f"{s}.tsv.gz")])
            for s in ("train", "valid", "test")
        ]
        size = (len(entities), len(relations) // 2)
        return Pair.of(
            Graph.from_triples(np.concatenate(parts), *size), Graph.from_triples(np.concatenate(parts[:2]), *size)
        )

    @pytest.mark.parametrize("shape", ["2p", "2i", "pi", "2in", "pni", "up"])
    def test_relations_and_answer_counts_are_distributed_alike(self, shape):
        with gzip.open(DATA / "nell995" / "queries" / "test" / f"{shape}.jsonl.gz", "rt") as lines:
            records = [json.loads(line) for line in lines]
        published = [read_grounding(record["q"]) for record in records]
        assert {key for key, _, _ in published} == {key_of(SHAPES[shape])}
        ours = sample_queries(self.pair(), shape, SHAPES[shape], 4000, cap=80, seed=0, split="test")
        assert len(ours) == 4000
        for slot in range(ours.relations.shape[1]):
            theirs = Counter(relations[slot] for _, _, relations in published)
            mine = Counter(ours.relations[:, slot].tolist())
            # Half the total variation distance; two samples of 4,000 of one distribution over 400 differ by about 0.1.
            distance = sum(abs(theirs[r] - mine[r]) for r in theirs | mine) / 8000
            assert distance < 0.2
        hard = np.array([len(record["hard"]) for record in records])
        quantiles = [0.25, 0.5, 0.75, 0.9]
        assert np.quantile(ours.answers["hard"].lengths, quantiles) == pytest.approx(
            np.quantile(hard, quantiles), rel=0.35, abs=1.5
        )

    @pytest.mark.parametrize("shape", ["2i", "3i", "3in", "2u"])
    def test_as_written_as_many_come_again_in_another_order(self, shape):
        with gzip.open(DATA / "nell995" / "queries" / "test" / f"{shape}.jsonl.gz", "rt") as lines:
            records = [json.loads(line) for line in lines]
        groundings = [read_grounding(record["q"]) for record in records]
        entities, relations = (torch.tensor([ids[place] for ids in groundings]) for place in (1, 2))
        published = answer_queries(self.pair(), shape, SHAPES[shape], entities, relations)
        draw = functools.partial(sample_queries, self.pair(), shape, SHAPES[shape], 4000, cap=80, seed=0, split="test")
        ours, distinct = draw(as_written=True), draw()
        different = [len(fingerprints(queries).unique()) for queries in (published, ours, distinct)]
        assert different[2] == 4000
        assert 3400 < different[0] < 3700
        assert different[1] == pytest.approx(different[0], rel=0.03)
        hard = [queries.answers["hard"].lengths.mean() for queries in (published, ours, distinct)]
        assert abs(hard[1] - hard[0]) < abs(hard[2] - hard[0])
