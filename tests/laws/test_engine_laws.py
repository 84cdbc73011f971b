"""The exact engine means what plain Python sets mean: every connective, both paths, any mix of queries."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flexkg.engine import sets as sets_module
from flexkg.engine.engine import Engine
from flexkg.engine.sets import SetAlgebra
from flexkg.engine.witness import Prover
from flexkg.kg.graph import Graph
from flexkg.plan.compiler import compile_groups, compile_terms
from flexkg.plan.executor import execute
from flexkg.query.rewrite import de_morgan, dnf, push_negation
from flexkg.query.shapes import SHAPES, ground, split
from flexkg.query.terms import Or
from laws.strategies import Graph as PlainGraph
from laws.strategies import graphs, naive_answers, terms

PATHS = pytest.mark.parametrize("compiled", [False, True], ids=["tensor", "compiled"])


def indexed(graph: PlainGraph) -> Graph:
    triples = np.array(sorted(graph.edges), dtype=np.int64).reshape(-1, 3)
    return Graph.from_triples(triples, graph.num_entities, graph.num_relations)


def as_sets(sets, num_entities: int) -> list[frozenset[int]]:
    everything = frozenset(range(num_entities))
    return [everything - frozenset(ids) if complement else frozenset(ids) for ids, complement in sets.rows()]


def graph_and_terms(max_terms: int = 4):
    return graphs().flatmap(
        lambda graph: st.tuples(
            st.just(graph),
            st.lists(terms(graph.num_entities, graph.num_relations, printable=False), min_size=1, max_size=max_terms),
        )
    )


@PATHS
@given(graph_and_terms())
def test_answers_are_those_of_plain_sets(compiled, case):
    graph, queries = case
    engine = Engine(indexed(graph), compiled=compiled)
    assert as_sets(engine.answer(queries), graph.num_entities) == [naive_answers(query, graph) for query in queries]


@PATHS
@given(graph_and_terms(), st.integers(1, 4))
def test_a_grouped_plan_gives_the_rows_in_order(compiled, case, repeats):
    """The same through templates and groundings: row i out is query i in, group by group."""
    graph, queries = case
    parts = [split(query) for query in queries]
    plan = compile_groups([(template, repeats) for template, _, _ in parts])
    grounding = plan.ground(
        [
            (torch.tensor([ids] * repeats, dtype=torch.int64), torch.tensor([steps] * repeats, dtype=torch.int64))
            for _, ids, steps in parts
        ]
    )
    found = execute(plan, grounding, SetAlgebra(indexed(graph), compiled=compiled))
    expected = [naive_answers(query, graph) for query in queries for _ in range(repeats)]
    assert as_sets(found, graph.num_entities) == expected


@given(graph_and_terms(max_terms=1))
def test_rewrites_keep_the_exact_answers(case):
    graph, [query] = case
    engine = Engine(indexed(graph), compiled=False)
    disjuncts = dnf(query)
    whole = Or(*disjuncts) if len(disjuncts) > 1 else disjuncts[0]
    forms = [query, push_negation(query), de_morgan(query), whole]
    assert len(set(as_sets(engine.answer(forms), graph.num_entities))) == 1


@given(graph_and_terms(max_terms=3))
def test_memory_limits_change_nothing(case):
    graph, queries = case
    engine = Engine(indexed(graph), compiled=False, memory=32)
    assert as_sets(engine.answer(queries), graph.num_entities) == [naive_answers(query, graph) for query in queries]


@PATHS
@given(graphs(max_entities=6), st.sampled_from(sorted(SHAPES)), st.integers(1, 40), st.integers(0, 10))
def test_a_stream_is_the_same_however_it_is_cut(compiled, graph, shape, count, seed):
    random = np.random.default_rng(seed)
    template = SHAPES[shape]
    _, entity_slots, relation_slots = split(template)
    entities = torch.from_numpy(random.integers(0, graph.num_entities, (count, len(entity_slots))))
    relations = torch.from_numpy(random.integers(0, 2 * graph.num_relations, (count, len(relation_slots))))
    queries = [ground(template, e, r) for e, r in zip(entities.tolist(), relations.tolist(), strict=True)]
    expected = [naive_answers(query, graph) for query in queries]
    for memory in (1 << 20, 32 * 6):
        engine = Engine(indexed(graph), compiled=compiled, memory=memory)
        found, next_row = [], 0
        for rows, sets in engine.stream(template, entities, relations):
            assert rows.start == next_row
            next_row = rows.stop
            found += as_sets(sets, graph.num_entities)
        assert found == expected


@given(graph_and_terms(max_terms=2))
def test_expanding_few_edges_at_a_time_changes_nothing(case):
    graph, queries = case
    usual = sets_module._EDGES_AT_ONCE
    try:
        sets_module._EDGES_AT_ONCE = 2
        found = Engine(indexed(graph), compiled=False).answer(queries)
    finally:
        sets_module._EDGES_AT_ONCE = usual
    assert as_sets(found, graph.num_entities) == [naive_answers(query, graph) for query in queries]


@given(graph_and_terms(max_terms=1))
def test_witnesses_prove_their_answers(case):
    """The facts are in the graph, and together with nothing else they make the answer true."""
    graph, [query] = case
    prover = Prover(Engine(indexed(graph), compiled=False), query)
    answers = naive_answers(query, graph)
    for entity in range(graph.num_entities):
        witness = prover.prove(entity)
        assert (witness is not None) == (entity in answers)
        if witness is None:
            continue
        facts = {(fact.head, fact.relation, fact.tail) for fact in witness.facts}
        assert facts <= graph.edges
        for absence in witness.absent:
            assert absence.entity not in naive_answers(absence.term, graph)
        if not witness.absent:
            alone = PlainGraph(graph.num_entities, graph.num_relations, frozenset(facts))
            assert entity in naive_answers(query, alone)


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_both_paths_agree_on_larger_graphs(seed):
    """Sizes at which bitmaps have several words and levels, galloping starts and dense tables give way to sorting."""
    random = np.random.default_rng(seed)
    num_entities = int(random.choice([70, 5_000, 300_000]))
    skewed = lambda size: (random.random(size) ** 4 * num_entities).astype(np.int64)  # noqa: E731
    graph = Graph.from_triples(np.stack([skewed(8000), random.integers(0, 3, 8000), skewed(8000)], 1), num_entities, 3)
    names = ["3p", "2i", "pi", "inp", "up", "pni"]
    groups = []
    for name in names:
        _, entity_slots, relation_slots = split(SHAPES[name])
        picks = np.stack([skewed(70) for _ in entity_slots], 1)
        groups.append((torch.from_numpy(picks), torch.from_numpy(random.integers(0, 6, (70, len(relation_slots))))))
    plan = compile_groups([(SHAPES[name], 70) for name in names])
    found = [
        list(execute(plan, plan.ground(groups), SetAlgebra(graph, compiled=compiled)).rows())
        for compiled in (False, True)
    ]
    assert found[0] == found[1]


@given(graph_and_terms())
def test_equal_sub_queries_are_computed_once(case):
    _, queries = case
    once, _ = compile_terms(queries)
    twice, _ = compile_terms(queries + queries)
    assert sum(step.count for step in once.steps) == sum(step.count for step in twice.steps)
