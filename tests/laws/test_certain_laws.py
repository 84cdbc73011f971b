"""What facts settle stays settled, whichever facts are added."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flexkg.query.certain import excluding, settled
from flexkg.query.limits import MAX_DEPTH, MAX_NODES
from flexkg.query.terms import And, Entity, Minus, Not, Or, Project, Term, Xor, size_and_depth
from laws.strategies import Graph, graphs, naive_answers, terms

A, B = Project(0, Entity(0)), Project(2, Entity(1))


def growing():
    """A graph, facts that it lacks, and a query."""
    return graphs().flatmap(
        lambda graph: st.tuples(
            st.just(graph),
            st.frozensets(
                st.tuples(
                    st.integers(0, graph.num_entities - 1),
                    st.integers(0, graph.num_relations - 1),
                    st.integers(0, graph.num_entities - 1),
                ),
                max_size=12,
            ),
            terms(graph.num_entities, graph.num_relations, printable=False),
        )
    )


def answers(term: Term | None, graph: Graph) -> frozenset[int]:
    return frozenset() if term is None else naive_answers(term, graph)


@given(growing())
def test_more_facts_change_nothing_of_it(case):
    graph, more, term = case
    found = settled(term)
    sure, never = answers(found.sure, graph), answers(found.never, graph)
    for facts in (graph.edges, graph.edges | more):
        later = naive_answers(term, Graph(graph.num_entities, graph.num_relations, facts))
        assert sure <= later
        assert not never & later


@given(growing())
def test_nor_with_relations_that_get_no_loops(case):
    graph, more, term = case
    found = settled(term, lambda relation: relation >> 1 == 0)

    def without_loops(facts):
        return frozenset((head, relation, tail) for head, relation, tail in facts if relation or head != tail)

    first = Graph(graph.num_entities, graph.num_relations, without_loops(graph.edges))
    sure, never = answers(found.sure, first), answers(found.never, first)
    for facts in (first.edges, first.edges | without_loops(more)):
        later = naive_answers(term, Graph(graph.num_entities, graph.num_relations, facts))
        assert sure <= later
        assert not never & later


@given(growing())
def test_a_negation_turns_it_round(case):
    _, _, term = case
    found, turned = settled(term), settled(Not(term))
    assert (turned.sure, turned.never) == (found.never, found.sure)


def test_by_example():
    assert excluding(And(A, Not(B))) == B
    assert excluding(Minus(A, B)) == B
    assert excluding(Or(Not(A), Not(B))) == And(A, B)
    assert excluding(Xor(A, B)) == And(B, A)
    assert excluding(And(A, Not(Entity(3)))) == Entity(3)
    # What a step leads to may be reached from elsewhere, and a negation in it may fall.
    assert excluding(Project(1, And(A, Not(B)))) is None
    assert excluding(And(A, Not(Project(1, Not(B))))) is None
    assert excluding(A) is None


def test_one_step_along_a_relation_without_loops_does_not_lead_back():
    def loopless(relation: int) -> bool:
        return relation >> 1 == 0

    assert excluding(A, loopless) == Entity(0)
    assert excluding(Project(1, Entity(4)), loopless) == Entity(4)
    assert excluding(B, loopless) is None
    assert excluding(And(A, Not(B)), loopless) == Or(Entity(0), B)
    assert excluding(Or(A, B), loopless) is None
    assert excluding(Not(A), loopless) == A
    # Two steps may lead back, and so may one from several.
    assert excluding(Project(1, A), loopless) is None
    assert excluding(Project(0, Or(Entity(0), Entity(1))), loopless) is None


def test_terms_keep_within_the_limits():
    # Of an entity both is settled, so that each step of `xor` doubles it.
    term: Term = Entity(0)
    for id in range(1, 60):
        term = Xor(term, Entity(id))
    found = settled(term)
    for part in (found.sure, found.never):
        if part is not None:
            size, depth = size_and_depth(part)
            assert size <= MAX_NODES
            assert depth <= MAX_DEPTH
    assert excluding(And(A, *(Not(Project(0, Entity(id))) for id in range(3000)))) is not None
