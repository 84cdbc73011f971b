"""The engine on a GPU answers as on the CPU; run by hand with `-m gpu`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flexkg.engine.engine import Engine
from flexkg.engine.sets import SetAlgebra
from flexkg.kg.graph import Graph
from flexkg.plan.compiler import compile_groups
from flexkg.plan.executor import execute
from flexkg.query.shapes import DE_MORGAN_SHAPES, SHAPES, split
from flexkg.query.terms import Any, Entity, Iff, Implies, Minus, Not, Project, Xor

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
ONE, OTHER = Project(0, Entity(0)), Project(1, Entity(1))
MORE = [kind(ONE, OTHER) for kind in (Minus, Xor, Implies, Iff)] + [Project(1, Not(ONE)), Project(0, Any())]


@pytest.mark.parametrize("seed", range(5))
def test_every_operator_gives_the_same_sets(seed):
    random = np.random.default_rng(seed)
    num_entities = (50, 2000, 100_000)[seed % 3]
    skewed = lambda size: (random.random(size) ** 3 * num_entities).astype(np.int64)  # noqa: E731
    triples = np.stack([skewed(20_000), random.integers(0, 5, 20_000), skewed(20_000)], 1)
    graph = Graph.from_triples(triples, num_entities, 5)
    templates = [*SHAPES.values(), *DE_MORGAN_SHAPES.values(), *(split(term)[0] for term in MORE)]
    groups = []
    for template in templates:
        _, entities, relations = split(template)
        ids = np.stack([skewed(50) for _ in entities], 1) if entities else np.zeros((50, 0), np.int64)
        groups.append((torch.from_numpy(ids), torch.from_numpy(random.integers(0, 10, (50, len(relations))))))
    plan = compile_groups([(template, 50) for template in templates])
    found = [
        list(execute(plan, plan.ground(groups, device), SetAlgebra(graph, device)).rows()) for device in ("cpu", "cuda")
    ]
    assert found[0] == found[1]


def test_a_stream_on_the_gpu():
    graph = Graph.from_triples(np.array([[0, 0, 1], [1, 0, 2]]), 3, 1)
    engine = Engine(graph, "cuda")
    [(_, sets)] = engine.stream(SHAPES["2p"], torch.tensor([[0], [1]]), torch.tensor([[0, 0], [0, 1]]))
    assert list(sets.rows()) == [([2], False), ([1], False)]
