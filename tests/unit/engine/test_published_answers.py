"""Every published answer set that is here is reproduced exactly."""

from __future__ import annotations

import gzip
import json
import os
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch

from flexkg.engine.engine import Engine
from flexkg.kg.graph import Graph
from flexkg.query.betae import read_grounding
from flexkg.query.shapes import template_of

DATA = Path(os.environ.get("FLEXKG_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))
SPLITS = ("train", "valid", "test")
FILES = [
    *[("nell995", "test", path) for path in (
        "1p", "2p", "3p", "2i", "3i", "ip", "pi", "2in", "3in", "inp", "pin", "pni", "2u", "up", "2u-DM", "up-DM")],
    ("nell995", "valid", "1p"),
    *[(name, split, "1p") for name in ("fb15k", "fb15k-237") for split in ("valid", "test")],
]  # fmt: skip
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"benchmark data not found in {DATA}: set FLEXKG_TEST_DATA")
_graphs: dict[tuple[str, str], Graph] = {}


def table(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        return [line.rstrip("\n").split("\t") for line in lines]


def graph_of(name: str, upto: str) -> Graph:
    """Straight from the files, so that this test leans on nothing but the graph and the engine."""
    if (name, upto) not in _graphs:
        entities = {row[1]: int(row[0]) for row in table(DATA / name / "entities.tsv.gz")[1:]}
        relations = {row[1]: int(row[0]) for row in table(DATA / name / "relations.tsv.gz")[1:]}
        triples = [
            (entities[h], relations["+" + r] // 2, entities[t])
            for split in SPLITS[: SPLITS.index(upto) + 1]
            for h, r, t in table(DATA / name / f"{split}.tsv.gz")
        ]
        _graphs[name, upto] = Graph.from_triples(np.array(triples), len(entities), len(relations) // 2)
    return _graphs[name, upto]


def answers_of(graph: Graph, queries: list) -> list[set[int]]:
    groups = defaultdict(list)
    for position, query in enumerate(queries):
        key, entities, relations = read_grounding(query)
        groups[key].append((position, entities, relations))
    found: list[set[int]] = [set()] * len(queries)
    for key, rows in groups.items():
        positions, entities, relations = zip(*rows, strict=True)
        for part, sets in Engine(graph).stream(template_of(key), torch.tensor(entities), torch.tensor(relations)):
            for position, (ids, complement) in zip(positions[part], sets.rows(), strict=True):
                assert not complement
                found[position] = set(ids)
    return found


@pytest.mark.parametrize(("name", "split", "shape"), FILES, ids=lambda value: value)
def test_published_answers_are_reproduced(name, split, shape):
    with gzip.open(DATA / name / "queries" / split / f"{shape}.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    queries = [record["q"] for record in records]
    smaller = answers_of(graph_of(name, SPLITS[SPLITS.index(split) - 1]), queries)
    larger = answers_of(graph_of(name, split), queries)
    for record, easy, all_answers in zip(records, smaller, larger, strict=True):
        assert set(record["easy"]) == easy
        assert set(record["hard"]) == all_answers - easy


@pytest.mark.parametrize("name", ["fb15k", "fb15k-237", "nell995"])
def test_published_training_pairs_are_those_of_the_graph(name):
    with gzip.open(DATA / name / "queries" / "train" / "1p.jsonl.gz", "rt", encoding="utf-8") as lines:
        published = {(record[0], record[1][0]) for record in (json.loads(line)["q"] for line in lines)}
    graph = graph_of(name, "train")
    assert published == set(zip(graph.pair_entities.tolist(), graph.pair_relations.tolist(), strict=True))
