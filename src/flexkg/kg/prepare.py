"""Turns the published forms of the benchmark graphs into datasets with the published ids."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from flexkg.errors import DataError
from flexkg.kg import safe_pickle
from flexkg.kg.archives import read_members
from flexkg.kg.dataset import SPLITS, Dataset
from flexkg.kg.storage import os_errors
from flexkg.kg.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from flexkg.kg.benchmarks import Benchmark, Source

    Triples = NDArray[np.int32]

_MAX_TABLE = 1 << 30


def content_checksum(dataset: Dataset) -> str:
    """SHA-256 over what makes a graph this graph: identifiers in the order of their ids, and the triples of each split.

    Names, descriptions and the order of the triples do not count.
    """
    digest = hashlib.sha256(b"flexkg content 1\n")
    for vocabulary in (dataset.entities, dataset.relations):
        digest.update(f"{len(vocabulary)}\n".encode())
        digest.update("".join(f"{identifier}\n" for identifier in vocabulary.identifiers).encode())
    for split in SPLITS:
        triples = dataset.triples[split]
        digest.update(f"{split} {len(triples)}\n".encode())
        digest.update(triples[np.lexsort(triples.T[::-1])].astype("<i4").tobytes())
    return digest.hexdigest()


def from_folder(folder: Path, benchmark: Benchmark) -> Dataset:
    """Read `{train,valid,test,entities,relations}.tsv.gz`; ids are those that the tables give."""
    columns = _table(folder, "entities")
    entities = Vocabulary(columns["entity"], columns.get("name"), columns.get("description"))
    # Tables of both directions hold `+name` and `-name`; relation k here is the pair 2k and 2k + 1.
    listed = _table(folder, "relations")["relation"]
    relations = Vocabulary(_forward(listed, folder / "relations.tsv.gz") if not benchmark.temporal else listed)
    width = 4 if benchmark.temporal else 3
    raw: dict[str, Triples] = {}
    for split in SPLITS:
        path = _find(folder, split)
        raw[split] = _lookup(_rows(_text(_read(path), path), width, path), entities, relations, path)
    return _dataset(benchmark, entities, relations, raw)


def from_source(files: Sequence[Path], source: Source, benchmark: Benchmark) -> Dataset:
    """Read what was downloaded from one of the published places."""
    match source.layout:
        case "betae":
            return _from_betae(files[0], source.folder, benchmark)
        case "triples":
            return _from_triples(files[0], source.folder, benchmark)
        case "quads":
            return _from_quads(files, benchmark)


def with_names(dataset: Dataset, data: bytes, path: Path) -> Dataset:
    """The same dataset with the names of a file of identifier, tab, name."""
    rows = _rows(_text(data, path), 2, path)
    known = dict(zip(rows[::2], rows[1::2], strict=True))
    names = [known.get(identifier, "") for identifier in dataset.entities.identifiers]
    entities = Vocabulary(dataset.entities.identifiers, names, dataset.entities.descriptions)
    return Dataset(
        dataset.name, entities, dataset.relations, dataset.triples, report=dataset.report, source=dataset.source
    )


def _from_betae(archive: Path, folder: str, benchmark: Benchmark) -> Dataset:
    """Integer ids in both directions, with pickled dictionaries of their names."""
    wanted = [f"{folder}/{name}" for name in ("id2ent.pkl", "id2rel.pkl", *(f"{split}.txt" for split in SPLITS))]
    members = read_members(archive, wanted)
    identifiers = _pickled_names(members[wanted[0]], wanted[0])
    relations = _forward(_pickled_names(members[wanted[1]], wanted[1]), wanted[1])
    raw = {split: _one_direction(members[f"{folder}/{split}.txt"], f"{folder}/{split}.txt") for split in SPLITS}
    return _dataset(benchmark, _entities(identifiers, benchmark), Vocabulary(relations), raw)


def _from_triples(archive: Path, folder: str, benchmark: Benchmark) -> Dataset:
    """Names in three text files; ids by first appearance in train, and what train does not know left out."""
    prefix = f"{folder}/" if folder else ""
    members = read_members(archive, [f"{prefix}{split}.txt" for split in SPLITS])
    rows = {
        split: _rows(_text(members[f"{prefix}{split}.txt"], archive), 3, f"{split}.txt of {archive}")
        for split in SPLITS
    }
    train = rows["train"]
    entities = list(dict.fromkeys(chain.from_iterable(zip(train[::3], train[2::3], strict=True))))
    relations = list(dict.fromkeys(train[1::3]))
    known, known_relations = set(entities), set(relations)
    for split in SPLITS[1:]:
        kept = [
            row
            for row in zip(*(rows[split][column::3] for column in range(3)), strict=True)
            if row[0] in known and row[1] in known_relations and row[2] in known
        ]
        rows[split] = list(chain.from_iterable(kept))
    vocabularies = _entities(entities, benchmark), Vocabulary(relations)
    raw = {split: _lookup(rows[split], *vocabularies, archive) for split in SPLITS}
    return _dataset(benchmark, *vocabularies, raw)


def _from_quads(files: Sequence[Path], benchmark: Benchmark) -> Dataset:
    """Names and a date in three text files; ids in alphabetical order over all of them."""
    rows = {split: _rows(_text(_read(path), path), 4, path) for split, path in zip(SPLITS, files, strict=True)}
    entities = sorted({name for flat in rows.values() for name in chain(flat[::3], flat[2::3])})
    relations = sorted({name for flat in rows.values() for name in flat[1::3]})
    vocabularies = _entities(entities, benchmark), Vocabulary(relations)
    raw = {split: _lookup(rows[split], *vocabularies, path) for split, path in zip(SPLITS, files, strict=True)}
    return _dataset(benchmark, *vocabularies, raw)


def _dataset(benchmark: Benchmark, entities: Vocabulary, relations: Vocabulary, raw: Mapping[str, Triples]) -> Dataset:
    """Drop triples that an earlier line or split has already, and check the result against the catalog."""
    report: dict[str, object] = {"attribution": benchmark.attribution, "licence": benchmark.licence}
    triples = dict(raw)
    if benchmark.temporal:
        triples = _distinct(raw)
        report["dated_facts"] = {split: len(raw[split]) for split in SPLITS}
        report["same_fact_on_another_date"] = {split: len(raw[split]) - len(triples[split]) for split in SPLITS}
    dataset = Dataset(benchmark.name, entities, relations, triples, report=report, source=benchmark.attribution)
    found = (len(entities), len(relations), *(len(triples[split]) for split in SPLITS))
    expected = (benchmark.entities, benchmark.relations, *benchmark.edges)
    kinds = ("entities", "relations", *(f"{split} edges" for split in SPLITS))
    for kind, count, wanted in zip(kinds, found, expected, strict=True):
        if count != wanted:
            raise DataError(
                f"This is not {benchmark.name}: it has {count:,} {kind} instead of {wanted:,}.", hint=_IMPORT
            )
    if content_checksum(dataset) != benchmark.content:
        raise DataError(
            f"This is not {benchmark.name} as published: the counts agree, but not the ids or the triples.",
            hint=_IMPORT,
        )
    return dataset


_IMPORT = "Get the published files, or read your own version with: flexkg data import"


def _distinct(raw: Mapping[str, Triples]) -> dict[str, Triples]:
    """Each triple once, in the first split that has it and in the order of the files."""
    joined = np.concatenate([raw[split] for split in SPLITS])
    _, first = np.unique(joined, axis=0, return_index=True)
    ends = np.cumsum([len(raw[split]) for split in SPLITS])
    first.sort()
    parts = np.split(first, np.searchsorted(first, ends[:-1]))
    return {split: joined[part] for split, part in zip(SPLITS, parts, strict=True)}


def _entities(identifiers: Sequence[str], benchmark: Benchmark) -> Vocabulary:
    """Entities with the names that their identifiers spell out, where they do."""
    if not benchmark.spelled_out:
        return Vocabulary(identifiers)
    # NELL: concept_<category>_<name with underscores>; anything else, such as coordinates, is its own name.
    split = [text.split("_", 2) if text.startswith("concept_") else [] for text in identifiers]
    names = [" ".join(parts[2].replace("_", " ").split()) if len(parts) == 3 else "" for parts in split]
    return Vocabulary(identifiers, names, [parts[1] if len(parts) == 3 else "" for parts in split])


def _find(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.tsv.gz", folder / f"{name}.tsv"):
        if path.is_file():
            return path
    raise DataError(
        f"There is no {name}.tsv.gz in {folder}.",
        hint="The folder must hold train, valid, test, entities and relations, each as .tsv.gz or .tsv.",
    )


def _read(path: Path) -> bytes:
    with os_errors(path, "read"):
        if path.suffix != ".gz":
            return path.read_bytes()
        try:
            with gzip.open(path, "rb") as file:
                data = file.read(_MAX_TABLE + 1)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(f"{path} is damaged: {error}.", hint="Get it again.") from None
    if len(data) > _MAX_TABLE:
        raise DataError(f"{path} holds more than {_MAX_TABLE:,} bytes.", hint=_IMPORT)
    return data


def _text(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 (byte {error.start + 1}).", hint="Get it again.") from None


def _rows(text: str, width: int, path: Path | str) -> list[str]:
    """The fields of a table without header, row after row in one list; of four columns the last, a date, is dropped."""
    text = text.replace("\r\n", "\n").rstrip("\n")
    if not text:
        return []
    if text.count("\t") != (width - 1) * (text.count("\n") + 1):
        for number, line in enumerate(text.split("\n"), 1):
            if (found := line.count("\t") + 1) != width:
                raise DataError(f"{path} line {number} has {found} columns instead of {width}.", hint=_IMPORT)
    fields = text.replace("\n", "\t").split("\t")
    if width == 4:
        del fields[3::4]
    return fields


def _table(folder: Path, name: str) -> dict[str, list[str]]:
    """The columns of a table with a header, in the order of the column `id`."""
    path = _find(folder, name)
    lines = _text(_read(path), path).replace("\r\n", "\n").rstrip("\n").split("\n")
    header = lines[0].split("\t")
    kind = {"entities": "entity", "relations": "relation"}[name]
    if header[:2] != ["id", kind]:
        raise DataError(f"{path} does not begin with the columns id and {kind}.", hint=_IMPORT)
    rows = [line.split("\t") for line in lines[1:]]
    for number, row in enumerate(rows):
        if len(row) != len(header) or row[0] != str(number):
            raise DataError(f"{path} line {number + 2} is not row {number} with {len(header)} columns.", hint=_IMPORT)
    return {column: [row[place] for row in rows] for place, column in enumerate(header)}


def _forward(listed: Sequence[str], path: Path | str) -> list[str]:
    """The bare names out of `+name`, `-name`, `+name`, ..."""
    names = [text[1:] for text in listed[::2]]
    if listed != [sign + name for name in names for sign in "+-"]:
        raise DataError(f"{path} does not list each relation as +name and -name in turn.", hint=_IMPORT)
    return names


def _lookup(fields: Sequence[str], entities: Vocabulary, relations: Vocabulary, path: Path) -> Triples:
    """Ids of the names in `fields`, three a row."""
    tables = [
        dict(zip(vocabulary.identifiers, range(len(vocabulary)), strict=True))
        for vocabulary in (entities, relations, entities)
    ]
    triples = np.empty((len(fields) // 3, 3), dtype=np.int32)
    for column, table in enumerate(tables):
        try:
            triples[:, column] = np.fromiter(map(table.__getitem__, fields[column::3]), np.int32, len(triples))
        except KeyError as error:
            raise DataError(f"{path} holds {error.args[0]!r}, which has no id.", hint=_IMPORT) from None
    return triples


def _pickled_names(data: bytes, what: str) -> list[str]:
    """The names 0 .. n-1 of a pickled dictionary."""
    names = safe_pickle.loads(data, what, allow=safe_pickle.SETS_AND_DEFAULTDICTS)
    if not isinstance(names, dict) or any(type(names.get(id)) is not str for id in range(len(names))):
        raise DataError(f"{what} does not map the ids 0, 1, ... to names.", hint=_IMPORT)
    return [names[id] for id in range(len(names))]


def _one_direction(data: bytes, what: str) -> Triples:
    """The forward edges of a list that holds each edge in both directions."""
    try:
        both = np.array(data.split(), dtype=np.int64).reshape(-1, 3)
    except (ValueError, OverflowError):
        raise DataError(f"{what} does not hold three whole numbers a line.", hint=_IMPORT) from None
    if len(both) and (both.min() < 0 or both.max() >= 1 << 31):
        raise DataError(f"{what} holds numbers that are no ids.", hint=_IMPORT)
    forward, inverse = both[both[:, 1] % 2 == 0], both[both[:, 1] % 2 == 1]
    turned = np.stack([inverse[:, 2], inverse[:, 1] - 1, inverse[:, 0]], axis=1)
    if not np.array_equal(forward[np.lexsort(forward.T)], turned[np.lexsort(turned.T)]):
        raise DataError(f"{what} does not hold each edge in both directions.", hint=_IMPORT)
    return np.stack([forward[:, 0], forward[:, 1] // 2, forward[:, 2]], axis=1).astype(np.int32)
