"""Queries of a small random graph."""

from __future__ import annotations

import numpy as np
import pytest

from flexkg.kg.graph import Graph
from flexkg.query.shapes import SHAPES
from flexkg.sampling.build import Pair, enumerate_pairs, sample_queries
from small_training import ENTITIES, RELATIONS


@pytest.fixture(scope="module")
def edges():
    random = np.random.default_rng(0)
    found = np.stack([random.integers(0, limit, 400) for limit in (ENTITIES, RELATIONS, ENTITIES)], 1)
    return random.permutation(np.unique(found, axis=0))


@pytest.fixture(scope="module")
def graphs(edges):
    return (
        Graph.from_triples(edges[:-60], ENTITIES, RELATIONS),
        Graph.from_triples(edges, ENTITIES, RELATIONS),
    )


@pytest.fixture(scope="module")
def queries(graphs):
    train, larger = graphs
    pair = Pair.of(train, None)
    sets = {"1p": enumerate_pairs(pair, cap=100)}
    for shape in ("2p", "2i", "2in", "2u"):
        sets[shape] = sample_queries(pair, shape, SHAPES[shape], 60, cap=100, seed=0, split="train")
    valid = sample_queries(Pair.of(larger, train), "2p", SHAPES["2p"], 20, cap=100, seed=0, split="valid")
    return sets, valid
