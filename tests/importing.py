"""Files to import, and what came of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flexkg.kg.dataset import Dataset

GRAPH = [("a", "r", "b"), ("b", "s", "c"), ("c", "r", "a")]
TSV = "a\tr\tb\nb\ts\tc\nc\tr\ta\n"


def triples(dataset: Dataset, split: str = "train") -> list[tuple[str, str, str]]:
    name, relation = dataset.entities.identifier, dataset.relations.identifier
    return [(name(h), relation(r), name(t)) for h, r, t in dataset.triples[split].tolist()]


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path
