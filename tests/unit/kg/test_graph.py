"""The index of a graph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from flexkg.kg import graph as graph_module
from flexkg.kg.graph import Graph
from laws.strategies import graphs


@given(graphs())
def test_neighbours_and_domains_are_those_of_the_edges(plain):
    triples = np.array(sorted(plain.edges), dtype=np.int64).reshape(-1, 3)
    graph = Graph.from_triples(triples, plain.num_entities, plain.num_relations)
    assert graph.num_edges == len(plain.edges)
    for relation in range(graph.num_relations):
        for entity in range(graph.num_entities):
            assert set(graph.neighbours(entity, relation).tolist()) == plain.step(frozenset({entity}), relation)
        everything = frozenset(range(plain.num_entities))
        assert set(graph.domain(relation ^ 1).tolist()) == plain.step(everything, relation)
    for entity in range(graph.num_entities):
        pairs = graph.entity_pairs[graph.entity_offsets[entity] : graph.entity_offsets[entity + 1]]
        assert (graph.pair_entities[pairs] == entity).all()
        assert (np.diff(graph.pair_relations[pairs]) > 0).all()


def test_duplicates_collapse_and_a_self_loop_runs_both_ways():
    graph = Graph.from_triples(np.array([[0, 0, 0], [0, 0, 1], [0, 0, 1]]), 2, 1)
    assert graph.num_edges == 2
    assert graph.neighbours(0, 0).tolist() == [0, 1]
    assert graph.neighbours(0, 1).tolist() == [0]


def test_ids_outside_the_vocabulary_are_refused():
    with pytest.raises(ValueError, match=r"tail id is outside 0\.\.1"):
        Graph.from_triples(np.array([[0, 0, 2]]), 2, 1)


def test_edges_sort_the_same_when_their_key_does_not_fit_in_64_bits():
    random = np.random.default_rng(0)
    pairs, others = random.integers(0, 50, 300), random.integers(0, 20, 300)
    narrow = graph_module._sorted_distinct(pairs, others, 20)
    # The same edges far out, where pair * entities + tail would overflow.
    far = 2**62
    wide = graph_module._sorted_distinct(pairs + far, others, 20)
    assert (wide[0] - far).tolist() == narrow[0].tolist()
    assert wide[1].tolist() == narrow[1].tolist()
