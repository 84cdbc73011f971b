"""Identifiers, names, descriptions and aliases of the entities or relations of a graph."""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING

from flexkg.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


@dataclass(frozen=True)
class Words:
    """The columns of a vocabulary: position i describes id i; an empty name means the identifier serves as one."""

    identifiers: Sequence[str]
    names: Sequence[str] | None = None
    descriptions: Sequence[str] | None = None
    aliases: Mapping[int, Sequence[str]] = field(default_factory=dict)


class Vocabulary:
    """Looks up what a text may mean and how an id is written; ids are the positions 0 .. n-1.

    Nothing is indexed until the first look-up that needs it, so that opening a large graph stays quick.
    """

    def __init__(
        self,
        identifiers: Iterable[str],
        names: Iterable[str | None] | None = None,
        descriptions: Iterable[str | None] | None = None,
        aliases: Mapping[int, Sequence[str]] | None = None,
        *,
        prefixes: Mapping[str, str] | None = None,
    ) -> None:
        words = Words(
            list(identifiers),
            None if names is None else [name or "" for name in names],
            None if descriptions is None else [text or "" for text in descriptions],
            {id: kept for id, texts in sorted((aliases or {}).items()) if (kept := [text for text in texts if text])},
        )
        count = len(words.identifiers)
        for column in (words.names, words.descriptions):
            if column is not None and len(column) != count:
                raise ValueError(f"{len(column)} texts for {count} identifiers")
        if any(not 0 <= id < count for id in words.aliases):
            raise ValueError("an alias belongs to no identifier")
        self._count = count
        self._read: Callable[[], Words] = lambda: words
        self.prefixes: dict[str, str] = dict(prefixes or {})

    @classmethod
    def lazy(cls, count: int, read: Callable[[], Words], *, prefixes: Mapping[str, str] | None = None) -> Vocabulary:
        """A vocabulary of `count` entries whose words are read when first asked for."""
        vocabulary = cls((), prefixes=prefixes)
        vocabulary._count = count
        vocabulary._read = read
        return vocabulary

    def with_prefixes(self, prefixes: Mapping[str, str]) -> Vocabulary:
        """The same entries under other prefixes."""
        if dict(prefixes) == self.prefixes:
            return self
        other = copy.copy(self)
        other.prefixes = dict(prefixes)
        other.__dict__.pop("_prefixes_longest_first", None)
        return other

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<Vocabulary of {self._count:,}>"

    @cached_property
    def _words(self) -> Words:
        words = self._read()
        if len(words.identifiers) != self._count:
            raise DataError(
                f"The vocabulary holds {len(words.identifiers):,} entries instead of {self._count:,}.",
                hint="The files are damaged: import the data again.",
            )
        # The reader may hold the bytes of a whole file; they are not needed again.
        self._read = lambda: words
        return words

    @property
    def identifiers(self) -> Sequence[str]:
        """The unique identifier of each id."""
        return self._words.identifiers

    @cached_property
    def names(self) -> Sequence[str]:
        """The name of each id; the identifier where there is none."""
        words = self._words
        if words.names is None:
            return words.identifiers
        return [name or identifier for name, identifier in zip(words.names, words.identifiers, strict=True)]

    @property
    def descriptions(self) -> Sequence[str] | None:
        """The description of each id, empty where there is none; None when no id has any."""
        return self._words.descriptions

    @property
    def aliases(self) -> Mapping[int, Sequence[str]]:
        """Further names, by id."""
        return self._words.aliases

    def identifier(self, id: int) -> str:
        """The unique identifier of `id`."""
        return self._words.identifiers[id]

    def name(self, id: int) -> str:
        """The name of `id`, which others may share; the identifier when it has none."""
        words = self._words
        return (words.names[id] if words.names is not None else "") or words.identifiers[id]

    def description(self, id: int) -> str | None:
        """A few words on `id`, if there are any."""
        texts = self._words.descriptions
        return (texts[id] or None) if texts is not None else None

    def aliases_of(self, id: int) -> Sequence[str]:
        """Further names of `id`."""
        return self._words.aliases.get(id, ())

    def get(self, identifier: str) -> int | None:
        """The id of exactly this identifier."""
        return self._by_identifier.get(identifier)

    def find(self, text: str) -> list[int]:
        """The ids that `text` may mean: by identifier or `prefix:name`, else by name, else by alias."""
        id = self._by_identifier.get(text)
        if id is None and ":" in text:
            id = self._by_identifier.get(self._expand(text) or "")
        if id is not None:
            return [id]
        return _ids(self._by_name, text) or _ids(self._by_alias, text)

    def text(self, id: int) -> str:
        """A spelling that `find` maps to this id alone: the name if it can be, as readable as possible otherwise."""
        for spelling in (self.name(id), self._shorten(id)):
            if spelling and self.find(spelling) == [id]:
                return spelling
        return self.identifier(id)

    def describe(self, id: int) -> str:
        """Words that tell `id` from others of the same name, such as `Georgia [country:GE], country in Asia`."""
        name, identifier, description = self.name(id), self._shorten(id) or self.identifier(id), self.description(id)
        shown = name if name in (identifier, self.identifier(id)) else f"{name} [{identifier}]"
        return f"{shown}, {description}" if description else shown

    def suggest(self, text: str, limit: int = 5) -> list[str]:
        """Known spellings close to `text`, best first: the same but for case, then beginnings, then near misses."""
        from rapidfuzz import process
        from rapidfuzz.distance import OSA, Indel

        # Nobody means a name of this length; the comparison grows with it.
        wanted = text.strip().casefold()[:200]
        if not wanted or limit < 1:
            return []
        spellings, folded = self._spellings
        starts = (place for place, key in enumerate(folded) if key.startswith(wanted))
        begin = nsmallest(limit, starts, key=lambda place: len(folded[place]))
        same = [place for place in begin if folded[place] == wanted]
        begin = begin[len(same) :]
        near = process.extract(
            wanted, folded, scorer=Indel.normalized_similarity, processor=None, limit=8 * limit, score_cutoff=0.6
        )
        # Indel is fast over everything; among the few, a wrong or swapped letter is one slip, not two.
        near.sort(key=lambda match: OSA.distance(wanted, match[0]))
        # Two long names that begin alike must not push out a slip of the finger.
        order = [*same, *begin[: (limit + 1) // 2], *(place for _, _, place in near), *begin]
        found = [spellings[place] for place in dict.fromkeys(order)]
        if len(found) < limit and ":" in text:
            found += [spelling for spelling in self._suggest_prefixed(text, limit) if spelling not in found]
        return found[:limit]

    def complete(self, prefix: str, limit: int = 10) -> list[int]:
        """Ids with a name, else an alias or an identifier, that begins with `prefix`, whatever the case."""
        return list(islice(dict.fromkeys(self._completions.ids(prefix.casefold(), limit)), max(0, limit)))

    @cached_property
    def ambiguous_count(self) -> int:
        """How many ids share their name with another."""
        return sum(count for count in Counter(self.names).values() if count > 1)

    @cached_property
    def _by_identifier(self) -> dict[str, int]:
        identifiers = self._words.identifiers
        index = dict(zip(identifiers, range(len(identifiers)), strict=True))
        if len(index) < len(identifiers):
            twice = next(text for text, count in Counter(identifiers).items() if count > 1)
            raise DataError(f"The identifier {twice!r} stands for two entries.", hint="Identifiers must be unique.")
        return index

    @cached_property
    def _by_name(self) -> dict[str, int | list[int]]:
        words = self._words
        if words.names is None:
            return {}
        return _index((name, id) for id, name in enumerate(words.names) if name)

    @cached_property
    def _by_alias(self) -> dict[str, int | list[int]]:
        return _index((alias, id) for id, texts in self._words.aliases.items() for alias in texts)

    @cached_property
    def _spellings(self) -> tuple[list[str], list[str]]:
        """Distinct names and aliases, and the same without regard to case."""
        distinct = dict.fromkeys(self.names)
        for texts in self._words.aliases.values():
            distinct.update(dict.fromkeys(texts))
        return list(distinct), [spelling.casefold() for spelling in distinct]

    @cached_property
    def _completions(self) -> _Completions:
        return _Completions(self)

    @cached_property
    def _prefixes_longest_first(self) -> list[tuple[str, str]]:
        return sorted(self.prefixes.items(), key=lambda item: (-len(item[1]), item[0]))

    def _expand(self, text: str) -> str | None:
        prefix, _, local = text.partition(":")
        start = self.prefixes.get(prefix)
        return None if start is None else start + local

    def _shorten(self, id: int) -> str | None:
        """`prefix:name` for an identifier that begins as some prefix says, when it leads back to `id`."""
        identifier = self.identifier(id)
        for prefix, start in self._prefixes_longest_first:
            if start and identifier.startswith(start) and len(identifier) > len(start):
                short = f"{prefix}:{identifier[len(start) :]}"
                if self.find(short) == [id]:
                    return short
        return None

    def _suggest_prefixed(self, text: str, limit: int) -> Iterator[str]:
        """`prefix:name` spellings close to one that is not there."""
        from rapidfuzz import process

        prefix, _, local = text.partition(":")
        start = self.prefixes.get(prefix)
        if start is None:
            return
        locals_ = [text[len(start) :] for text in self._words.identifiers if text.startswith(start)]
        for near, _, _ in process.extract(local[:200], locals_, limit=limit, score_cutoff=60):
            yield f"{prefix}:{near}"


class Leaves:
    """Turns a leaf of a nested-list query, an id or an identifier, into an id of this graph."""

    def __init__(self, entities: Vocabulary, relations: Vocabulary) -> None:
        self._entities, self._relations = entities, relations

    def entity(self, leaf: int | str) -> int:
        """An entity's id, or its identifier."""
        if isinstance(leaf, int):
            return _in_range(leaf, len(self._entities), "entity")
        id = self._entities.get(leaf)
        if id is None:
            raise DataError(f"There is no entity with the identifier {leaf!r}.")
        return id

    def relation(self, leaf: int | str) -> int:
        """A directed relation: its id, or `+identifier` forwards and `-identifier` backwards."""
        if isinstance(leaf, int):
            return _in_range(leaf, 2 * len(self._relations), "relation")
        id = self._relations.get(leaf[1:])
        if id is None:
            raise DataError(f"There is no relation with the identifier {leaf[1:]!r}.")
        return 2 * id + int(leaf[0] == "-")


def _in_range(id: int, limit: int, kind: str) -> int:
    if not 0 <= id < limit:
        raise DataError(f"There is no {kind} {id}.", hint=f"The ids of this graph are 0 to {limit - 1:,}.")
    return id


class DatasetNames:
    """The two vocabularies of a dataset as the parser and the printer want them (`flexkg.query.names.Names`)."""

    def __init__(self, entities: Vocabulary, relations: Vocabulary) -> None:
        self._entities, self._relations = entities, relations

    def find_entities(self, text: str) -> Sequence[int]:
        """Ids of the entities that `text` may mean."""
        return self._entities.find(text)

    def find_relations(self, text: str) -> Sequence[int]:
        """Ids of the relations that `text` may mean."""
        return self._relations.find(text)

    def suggest_entities(self, text: str) -> Sequence[str]:
        """Known spellings close to `text`, best first."""
        return self._entities.suggest(text)

    def suggest_relations(self, text: str) -> Sequence[str]:
        """Known spellings close to `text`, best first."""
        return self._relations.suggest(text)

    def entity_text(self, id: int) -> str:
        """A spelling that means this entity alone."""
        return self._entities.text(id)

    def relation_text(self, id: int) -> str:
        """A spelling that means this relation alone."""
        return self._relations.text(id)

    def describe_entity(self, id: int) -> str:
        """Words that tell this entity from others of the same name."""
        return self._entities.describe(id)

    def describe_relation(self, id: int) -> str:
        """Words that tell this relation from others of the same name."""
        return self._relations.describe(id)


class _Completions:
    """Names, aliases and identifiers in alphabetical order, for finding what begins with a text."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        identifiers, names, aliases = vocabulary.identifiers, vocabulary.names, vocabulary.aliases
        self._names = _Sorted(names, range(len(names)))
        self._aliases = _Sorted(
            [text for texts in aliases.values() for text in texts], [id for id, texts in aliases.items() for _ in texts]
        )
        # Where every name is an identifier a second index of the same words would be waste.
        other = [] if names is identifiers else identifiers
        self._identifiers = _Sorted(other, range(len(other)))

    def ids(self, wanted: str, limit: int) -> Iterator[int]:
        """Ids whose name, alias or identifier begins with `wanted`, in this order."""
        for index in (self._names, self._aliases, self._identifiers):
            for place in index.places(wanted, 10 * limit):
                yield index.ids[place]


class _Sorted:
    """Texts in alphabetical order without regard to case."""

    def __init__(self, texts: Sequence[str], ids: Sequence[int]) -> None:
        self.texts, self.ids = texts, ids
        self._keys = [text.casefold() for text in texts]
        self._order = sorted(range(len(texts)), key=self._keys.__getitem__)

    def places(self, wanted: str, limit: int) -> Iterator[int]:
        """Positions of at most `limit` texts that begin with `wanted`."""
        first = bisect_left(self._order, wanted, key=self._keys.__getitem__)
        for place in self._order[first : first + limit]:
            if not self._keys[place].startswith(wanted):
                return
            yield place


def _index(pairs: Iterable[tuple[str, int]]) -> dict[str, int | list[int]]:
    """Ids by text; a list only where several share one, since most do not."""
    index: dict[str, int | list[int]] = {}
    for text, id in pairs:
        known = index.setdefault(text, id)
        if isinstance(known, list):
            if known[-1] != id:
                known.append(id)
        elif known != id:
            index[text] = [known, id]
    return index


def _ids(index: Mapping[str, int | list[int]], text: str) -> list[int]:
    found = index.get(text, [])
    return [found] if isinstance(found, int) else list(found)
