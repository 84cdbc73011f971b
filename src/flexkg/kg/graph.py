"""An immutable graph, indexed for walking: from (relation, entity) to the tails, from an entity to its relations.

Every edge is held in both directions: relation k of a dataset is 2k forwards and 2k + 1 backwards. A *pair* is a
(relation, entity) with at least one edge; pairs are sorted by relation, then entity, and the tails of a pair are
sorted and distinct. Edges of one relation lie together, so that many steps along it stay in the cache.
Memory: 4 bytes an edge and direction, 12 bytes a pair, 8 bytes a relation.
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
    relation_offsets: Int64Array
    """(relations + 1,): where the pairs of each relation start."""
    pair_entities: Int32Array
    """(pairs,): the entity that each pair leaves from, sorted within a relation."""
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
        pairs = np.concatenate([2 * relations * num_entities + heads, (2 * relations + 1) * num_entities + tails])
        pairs, others = _sorted_distinct(pairs, np.concatenate([tails, heads]), num_entities)
        starts = np.flatnonzero(np.diff(pairs, prepend=-1))
        keys = pairs[starts]
        return cls(
            num_entities=num_entities,
            num_relations=directed,
            relation_offsets=np.searchsorted(keys, np.arange(directed + 1) * num_entities).astype(np.int64),
            pair_entities=(keys % max(num_entities, 1)).astype(np.int32),
            pair_offsets=np.append(starts, len(pairs)).astype(np.int64),
            tails=others.astype(np.int32),
        )

    @property
    def num_edges(self) -> int:
        """Distinct edges, one direction counted."""
        return len(self.tails) // 2

    @cached_property
    def pair_relations(self) -> Int32Array:
        """(pairs,): the relation of each pair."""
        return np.repeat(np.arange(self.num_relations, dtype=np.int32), np.diff(self.relation_offsets))

    @cached_property
    def pair_keys(self) -> Int64Array:
        """(pairs,): relation * num_entities + entity, ascending."""
        return self.pair_relations.astype(np.int64) * self.num_entities + self.pair_entities

    @cached_property
    def entity_offsets(self) -> Int64Array:
        """(entities + 1,): where each entity starts in `entity_pairs`."""
        counts = np.bincount(self.pair_entities, minlength=self.num_entities)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    @cached_property
    def entity_pairs(self) -> Int64Array:
        """(pairs,): the positions of the pairs, by entity, then relation."""
        return np.argsort(self.pair_entities, kind="stable")

    def domain(self, relation: int) -> Int32Array:
        """The entities that have an edge of this relation, sorted; `domain(r ^ 1)` is where r arrives."""
        return self.pair_entities[self.relation_offsets[relation] : self.relation_offsets[relation + 1]]

    def neighbours(self, entity: int, relation: int) -> Int32Array:
        """The tails of (entity, relation), sorted; empty when there is no such edge."""
        domain = self.domain(relation)
        place = int(np.searchsorted(domain, entity))
        if place == len(domain) or domain[place] != entity:
            return self.tails[:0]
        pair = self.relation_offsets[relation] + place
        return self.tails[self.pair_offsets[pair] : self.pair_offsets[pair + 1]]

    def nbytes(self) -> int:
        """Bytes held by the index, without what is derived on first use."""
        return self.relation_offsets.nbytes + self.pair_entities.nbytes + self.pair_offsets.nbytes + self.tails.nbytes


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
