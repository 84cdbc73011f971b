"""From texts to ids, and from raw triples to disjoint splits."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from flexkg.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from flexkg.kg.ingest.records import Batch

    Triples = NDArray[np.int32]


class Encoder:
    """Gives ids by first appearance, head before tail, line by line."""

    def __init__(self, entities: Iterable[str] = (), relations: Iterable[str] = ()) -> None:
        self._entities = _numbering(entities)
        self._relations = _numbering(relations)

    @property
    def entities(self) -> list[str]:
        """Identifiers of the entities met so far, by id."""
        return list(self._entities)

    @property
    def relations(self) -> list[str]:
        """Identifiers of the relations met so far, by id."""
        return list(self._relations)

    @property
    def is_empty(self) -> bool:
        """Whether no id was given yet."""
        return not self._entities and not self._relations

    def adopt(self, entities: Iterable[str], relations: Iterable[str]) -> None:
        """Take over ids that were given elsewhere; only before any others."""
        if not self.is_empty:
            raise ValueError("there are ids already")
        self._entities, self._relations = _numbering(entities), _numbering(relations)

    def encode(self, batches: Iterable[Batch]) -> Triples:
        """All triples of a file (n, 3)."""
        parts = [np.empty((0, 3), dtype=np.int32)]
        for batch in batches:
            count = len(batch.relations)
            part = np.empty((count, 3), dtype=np.int32)
            # map over a bound method keeps the loop in C; a missing key gets the next id.
            ends = np.fromiter(map(self._entities.__getitem__, batch.entities), np.int32, 2 * count)
            part[:, 0], part[:, 2] = ends[0::2], ends[1::2]
            part[:, 1] = np.fromiter(map(self._relations.__getitem__, batch.relations), np.int32, count)
            parts.append(part)
        return np.concatenate(parts)


def _numbering(known: Iterable[str]) -> defaultdict[str, int]:
    numbers: defaultdict[str, int] = defaultdict()
    numbers.update((text, id) for id, text in enumerate(dict.fromkeys(known)))
    numbers.default_factory = numbers.__len__
    return numbers


def distinct(splits: Mapping[str, Triples], entities: int, relations: int) -> tuple[dict[str, Triples], int, int]:
    """The splits without repeated edges; an edge stays in the earliest split that has it.

    Also how many were dropped as duplicates within a split, and as edges of an earlier split.
    """
    every = np.concatenate(list(splits.values()))
    bounds = np.cumsum([0, *(len(triples) for triples in splits.values())])
    keys = _edge_keys(every, entities, relations)
    rows = _repeated_rows(keys)
    keep = np.ones(len(every), dtype=bool)
    keep[rows] = False
    keep[rows[np.unique(keys[rows], return_index=True)[1]]] = True
    kept = {name: every[low:high][keep[low:high]] for name, (low, high) in zip(splits, pairwise(bounds), strict=True)}
    # A repeated edge counts once for each later split that has it; whatever else was dropped is a plain duplicate.
    split = np.searchsorted(bounds, rows, side="right")
    found = np.unique(np.stack([keys[rows], split]), axis=1)
    repeated = found.shape[1] - len(np.unique(found[0]))
    return kept, int((~keep).sum()) - repeated, repeated


def _edge_keys(triples: Triples, entities: int, relations: int) -> NDArray[np.int64]:
    """A number for each triple, equal for equal triples."""
    keys = triples[:, 0].astype(np.int64) * entities + triples[:, 2]
    if entities * entities * relations >= 2**63:
        # The key of a very large graph would not fit: number the pairs first.
        keys = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    keys *= relations
    keys += triples[:, 1]
    return keys


def _repeated_rows(keys: NDArray[np.int64]) -> NDArray[np.intp]:
    """Positions of all keys that occur more than once; they are few, and sorting values beats sorting positions."""
    ordered = np.sort(keys)
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(twice):
        return np.empty(0, dtype=np.intp)
    place = np.minimum(np.searchsorted(twice, keys), len(twice) - 1)
    return np.flatnonzero(twice[place] == keys)


def parse_fractions(text: str) -> tuple[float, float, float]:
    """The three fractions of `--split`."""
    hint = "Give the shares of train, valid and test, such as 0.9,0.05,0.05."
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise DataError(f"--split {text} is not a list of numbers.", hint=hint) from None
    if len(values) != 3:
        raise DataError(f"--split {text} has {len(values)} numbers instead of three.", hint=hint)
    if not all(0 <= value <= 1 for value in values) or values[0] == 0 or abs(sum(values) - 1) > 1e-6:
        raise DataError(f"--split {text} does not add up to 1 with something for train.", hint=hint)
    return values[0], values[1], values[2]


def random_split(triples: Triples, fractions: Sequence[float], seed: int) -> tuple[dict[str, Triples], dict[str, int]]:
    """Split at random so that every entity and relation stays in train; also how many edges each part lacks."""
    count = len(triples)
    order = np.random.default_rng(seed).permutation(count)
    shuffled = triples[order]
    # The first edge of each entity and relation in the shuffled order has to be in train.
    forced = np.zeros(count, dtype=bool)
    forced[np.unique(shuffled[:, [0, 2]].reshape(-1), return_index=True)[1] // 2] = True
    forced[np.unique(shuffled[:, 1], return_index=True)[1]] = True
    free = order[~forced]
    valid, test = (round(fraction * count) for fraction in fractions[1:])
    wanted = {"valid": valid, "test": test}
    if valid + test > len(free):
        valid = len(free) * valid // (valid + test)
        test = len(free) - valid
    part = np.zeros(count, dtype=np.int8)
    part[free[:valid]] = 1
    part[free[valid : valid + test]] = 2
    splits = {name: triples[part == number] for number, name in enumerate(("train", "valid", "test"))}
    lacking = {name: wanted[name] - len(splits[name]) for name in wanted if wanted[name] > len(splits[name])}
    return splits, lacking
