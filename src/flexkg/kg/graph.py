"""An immutable graph, indexed for walking: from an entity to its relations, from (entity, relation) to the tails.

Every edge is held in both directions: relation k of a dataset is 2k forwards and 2k + 1 backwards. A *pair* is an
(entity, relation) with at least one edge; pairs are sorted by entity, then relation, and the tails of a pair are
sorted and distinct. Memory: 4 bytes an edge and direction, 12 bytes a pair, 8 bytes an entity.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int32Array = NDArray[np.int32]
    Int64Array = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Graph:
    """Edges by entity and relation, in both directions."""

    num_entities: int
    num_relations: int
    """Both directions counted, so always even."""
    entity_offsets: Int64Array
    """(entities + 1,): where the pairs of each entity start."""
    pair_relations: Int32Array
    """(pairs,): the relation of each pair."""
    pair_offsets: Int64Array
    """(pairs + 1,): where the tails of each pair start."""
    tails: Int32Array
    """(edges,): the tails, sorted within a pair."""

    @classmethod
    def from_triples(cls, triples: NDArray[np.integer], num_entities: int, num_relations: int) -> Graph:
        """Index forward triples (n, 3) of head, relation k, tail; `num_relations` counts one direction.

        Duplicates collapse; a self loop becomes one edge in each direction.
        """
        heads, relations, tails = (np.ascontiguousarray(column, dtype=np.int64) for column in triples.T)
        _check_range("head", heads, num_entities)
        _check_range("relation", relations, num_relations)
        _check_range("tail", tails, num_entities)
        directed = 2 * num_relations
        pairs = np.concatenate([heads * directed + 2 * relations, tails * directed + 2 * relations + 1])
        others = np.concatenate([tails, heads])
        pairs, others = _sorted_distinct(pairs, others, num_entities)
        starts = np.flatnonzero(np.diff(pairs, prepend=-1))
        keys = pairs[starts]
        return cls(
            num_entities=num_entities,
            num_relations=directed,
            entity_offsets=np.searchsorted(keys // directed, np.arange(num_entities + 1))
            if directed
            else np.zeros(num_entities + 1, np.int64),
            pair_relations=(keys % max(directed, 1)).astype(np.int32),
            pair_offsets=np.append(starts, len(pairs)).astype(np.int64),
            tails=others.astype(np.int32),
        )

    @property
    def num_edges(self) -> int:
        """Distinct edges, one direction counted."""
        return len(self.tails) // 2

    @cached_property
    def pair_entities(self) -> Int32Array:
        """(pairs,): the entity of each pair."""
        return np.repeat(np.arange(self.num_entities, dtype=np.int32), np.diff(self.entity_offsets))

    @cached_property
    def pair_keys(self) -> Int64Array:
        """(pairs,): entity * num_relations + relation, ascending."""
        return self.pair_entities.astype(np.int64) * self.num_relations + self.pair_relations

    @cached_property
    def domain_offsets(self) -> Int64Array:
        """(relations + 1,): where the entities of each relation start in `domains`."""
        counts = np.bincount(self.pair_relations, minlength=self.num_relations)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    @cached_property
    def domains(self) -> Int32Array:
        """(pairs,): by relation, the entities that it leaves from, sorted; `domain(r ^ 1)` is where r arrives."""
        order = np.argsort(self.pair_relations.astype(np.int64) * self.num_entities + self.pair_entities)
        return self.pair_entities[order]

    def domain(self, relation: int) -> Int32Array:
        """The entities that have an edge of this relation, sorted."""
        return self.domains[self.domain_offsets[relation] : self.domain_offsets[relation + 1]]

    def neighbours(self, entity: int, relation: int) -> Int32Array:
        """The tails of (entity, relation), sorted; empty when there is no such edge."""
        start, stop = self.entity_offsets[entity], self.entity_offsets[entity + 1]
        pair = start + np.searchsorted(self.pair_relations[start:stop], relation)
        if pair == stop or self.pair_relations[pair] != relation:
            return self.tails[:0]
        return self.tails[self.pair_offsets[pair] : self.pair_offsets[pair + 1]]

    def nbytes(self) -> int:
        """Bytes held by the index, without what is derived on first use."""
        return self.entity_offsets.nbytes + self.pair_relations.nbytes + self.pair_offsets.nbytes + self.tails.nbytes


def _check_range(what: str, ids: Int64Array, limit: int) -> None:
    if len(ids) and (int(ids.min()) < 0 or int(ids.max()) >= limit):
        raise ValueError(f"a {what} id is outside 0..{limit - 1}")


def _sorted_distinct(pairs: Int64Array, others: Int64Array, num_entities: int) -> tuple[Int64Array, Int64Array]:
    """Sort edges by pair, then tail, and drop repeats."""
    if len(pairs) == 0:
        return pairs, others
    if int(pairs.max()) < 2**63 // num_entities - 1:
        # One 64-bit key an edge sorts several times faster than two columns.
        keys = pairs * num_entities + others
        keys.sort()
        keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
        return keys // num_entities, keys % num_entities
    order = np.lexsort((others, pairs))
    pairs, others = pairs[order], others[order]
    distinct = np.concatenate([[True], (pairs[1:] != pairs[:-1]) | (others[1:] != others[:-1])])
    return pairs[distinct], others[distinct]
