"""Which relations have no loops, by facts enough to say so."""

from __future__ import annotations

import numpy as np

from flexkg.api import load
from flexkg.kg.dataset import SPLITS
from flexkg.kg.loops import FEWEST, loopless


def facts(relation: int, count: int, loops: int = 0) -> np.ndarray:
    heads = np.arange(count)
    tails = np.where(heads < loops, heads, heads + 1)
    return np.stack([heads, np.full(count, relation), tails], axis=1)


def test_many_facts_and_no_loop():
    found = np.concatenate([facts(0, FEWEST), facts(1, FEWEST - 1), facts(2, 100, loops=1), facts(3, 1000)])
    assert loopless(found, 5).tolist() == [True, False, False, True, False]
    assert loopless(found[:0], 2).tolist() == [False, False]


def test_no_country_borders_itself():
    world = load("world").dataset
    found = loopless(np.concatenate([world.triples[split] for split in SPLITS]), len(world.relations))
    [borders] = world.names.find_relations("borders")
    assert found[borders]
