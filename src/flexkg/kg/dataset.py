"""A graph in three splits with its vocabularies, and the prepared folder that holds it on disk."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flexkg.errors import DataError
from flexkg.kg.storage import (
    atomic_folder,
    os_errors,
    parse_table,
    read_array,
    read_json,
    sha256_bytes,
    sha256_file,
    table_bytes,
    write_array,
    write_json,
)
from flexkg.kg.vocabulary import DatasetNames, Leaves, Vocabulary, Words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from flexkg.kg.graph import Graph

SPLITS = ("train", "valid", "test")
FORMAT = "flexkg-dataset"
VERSION = 1

_MANIFEST = "dataset.json"
_ARRAYS = tuple(f"{split}.npy" for split in SPLITS)
_ENTITY_COLUMNS = ("entity", "name", "description")
_RELATION_COLUMNS = ("relation", "name", "description")
_ALIAS_COLUMNS = ("kind", "id", "alias")
_FILES = (*_ARRAYS, "entities.tsv", "relations.tsv", "aliases.tsv")
# Hashing runs at about a gigabyte a second: below this it is not noticed.
_VERIFY_BELOW = 64 * 1024 * 1024
_AGAIN = "The folder is damaged: import or fetch the data again."


class Dataset:
    """Forward triples (head, relation, tail) in disjoint splits, and what their ids are called.

    triples: one int32 array (n, 3) a split; relation k counts one direction only.
    """

    def __init__(
        self,
        name: str,
        entities: Vocabulary,
        relations: Vocabulary,
        triples: Mapping[str, ArrayLike],
        *,
        prefixes: Mapping[str, str] | None = None,
        report: Mapping[str, Any] | None = None,
        source: str | None = None,
    ) -> None:
        self.name = name
        self.prefixes: dict[str, str] = dict(entities.prefixes if prefixes is None else prefixes)
        self.entities = entities.with_prefixes(self.prefixes)
        self.relations = relations.with_prefixes(self.prefixes)
        self.report: dict[str, Any] = dict(report or {})
        self.source = source
        if unknown := set(triples) - set(SPLITS):
            raise ValueError(f"unknown splits {sorted(unknown)}: there are {', '.join(SPLITS)}")
        self.triples: dict[str, NDArray[np.int32]] = {
            split: _checked(triples.get(split, ()), len(self.entities), len(self.relations), split) for split in SPLITS
        }
        self._graphs: dict[str, Graph] = {}
        self._hashes: dict[str, str] | None = None

    def __repr__(self) -> str:
        edges = ", ".join(f"{split} {len(self.triples[split]):,}" for split in SPLITS)
        return f"<Dataset {self.name}: {len(self.entities):,} entities, {len(self.relations):,} relations, {edges}>"

    def graph(self, upto: str = "test") -> Graph:
        """The edges of the splits up to and with `upto`, indexed; made once."""
        from flexkg.kg.graph import Graph

        if upto not in SPLITS:
            raise DataError(f"There is no split {upto!r}.", hint=f"Choose one of {', '.join(SPLITS)}.")
        if upto not in self._graphs:
            parts = [self.triples[split] for split in SPLITS[: SPLITS.index(upto) + 1]]
            self._graphs[upto] = Graph.from_triples(np.concatenate(parts), len(self.entities), len(self.relations))
        return self._graphs[upto]

    @cached_property
    def names(self) -> DatasetNames:
        """Name look-up for the parser and the printer."""
        return DatasetNames(self.entities, self.relations)

    @property
    def leaves(self) -> Leaves:
        """Reads the ids and identifiers of nested-list queries."""
        return Leaves(self.entities, self.relations)

    def split_of(self, triples: ArrayLike) -> NDArray[np.int8]:
        """The split of each forward triple (m, 3), as a position in `SPLITS`; -1 for one that is in none."""
        wanted = np.asarray(triples, dtype=np.int64).reshape(-1, 3)
        pairs, keys, splits = self._edge_index
        if not len(keys):
            return np.full(len(wanted), -1, dtype=np.int8)
        pair = wanted[:, 0] * len(self.entities) + wanted[:, 2]
        rank = np.minimum(np.searchsorted(pairs, pair), len(pairs) - 1)
        key = rank * len(self.relations) + wanted[:, 1]
        place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        limits = (len(self.entities), len(self.relations), len(self.entities))
        known = (pairs[rank] == pair) & (keys[place] == key) & ((wanted >= 0) & (wanted < limits)).all(axis=1)
        return np.where(known, splits[place], -1).astype(np.int8)

    @cached_property
    def _edge_index(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int8]]:
        """Sorted (head, tail) pairs, sorted keys of edges, and the split of each key.

        A key is (rank of the pair, relation): with the pair itself it could pass 64 bits on a very large graph.
        """
        all_triples = np.concatenate([self.triples[split] for split in SPLITS]).astype(np.int64)
        splits = np.repeat(np.arange(len(SPLITS), dtype=np.int8), [len(self.triples[split]) for split in SPLITS])
        pairs, rank = np.unique(all_triples[:, 0] * len(self.entities) + all_triples[:, 2], return_inverse=True)
        keys = rank * len(self.relations) + all_triples[:, 1]
        order = np.argsort(keys, kind="stable")
        return pairs, keys[order], splits[order]

    def info(self) -> dict[str, Any]:
        """Statistics: sizes, self loops, names that several entities share, and what a later split leaks."""
        return {
            "name": self.name,
            "entities": len(self.entities),
            "relations": len(self.relations),
            "edges": {split: len(self.triples[split]) for split in SPLITS},
            "self_loops": sum(int((t[:, 0] == t[:, 2]).sum()) for t in self.triples.values()),
            "ambiguous_names": self.entities.ambiguous_count,
            "ambiguous_relation_names": self.relations.ambiguous_count,
            "unseen": self._unseen(),
            "leak": self._leak(),
            "prefixes": len(self.prefixes),
            "checksum": self.checksum,
            "source": self.source,
        }

    def _unseen(self) -> dict[str, int]:
        """How many entities and relations occur in no training edge."""
        train = self.triples["train"]
        return {
            "entities": int((np.bincount(train[:, [0, 2]].reshape(-1), minlength=len(self.entities)) == 0).sum()),
            "relations": int((np.bincount(train[:, 1], minlength=len(self.relations)) == 0).sum()),
        }

    def _leak(self) -> dict[str, float]:
        """Share of test edges whose entities a training edge links the other way round, or the same way."""
        test = self.triples["test"].astype(np.int64)
        train = self.triples["train"].astype(np.int64)
        if not len(test):
            return {"inverse": 0.0, "same_direction": 0.0}
        known = np.unique(train[:, 0] * len(self.entities) + train[:, 2])
        inverse = np.isin(test[:, 2] * len(self.entities) + test[:, 0], known)
        same = np.isin(test[:, 0] * len(self.entities) + test[:, 2], known)
        return {"inverse": round(float(inverse.mean()), 4), "same_direction": round(float(same.mean()), 4)}

    @property
    def checksum(self) -> str:
        """SHA-256 over the content: triples and vocabularies, not the dataset's name, report or source."""
        hashes = self._content_hashes()
        return sha256_bytes("".join(f"{name} {hashes[name]}\n" for name in _FILES).encode())

    def _content_hashes(self) -> dict[str, str]:
        if self._hashes is None:
            arrays = {f"{split}.npy": np.ascontiguousarray(self.triples[split], dtype="<i4") for split in SPLITS}
            hashes = {name: _array_sha256(array) for name, array in arrays.items()}
            self._hashes = hashes | {name: sha256_bytes(data) for name, data in self._tables()}
        return self._hashes

    def _tables(self) -> Iterable[tuple[str, bytes]]:
        yield "entities.tsv", _vocabulary_bytes(_ENTITY_COLUMNS, self.entities)
        yield "relations.tsv", _vocabulary_bytes(_RELATION_COLUMNS, self.relations)
        rows = [
            (kind, str(id), alias)
            for kind, vocabulary in (("entity", self.entities), ("relation", self.relations))
            for id, aliases in sorted(vocabulary.aliases.items())
            for alias in aliases
        ]
        yield "aliases.tsv", table_bytes(_ALIAS_COLUMNS, list(zip(*rows, strict=True)) or [(), (), ()])

    def save(self, folder: Path | str, *, overwrite: bool = False) -> None:
        """Write the prepared folder, whole or not at all; `overwrite` replaces an older dataset there."""
        with atomic_folder(folder, overwrite=overwrite, replaceable=is_dataset) as temporary:
            for split in SPLITS:
                write_array(temporary / f"{split}.npy", self.triples[split].astype("<i4", copy=False))
            for file, data in self._tables():
                (temporary / file).write_bytes(data)
            files = {
                file: {"bytes": (temporary / file).stat().st_size, "sha256": sha256_file(temporary / file)}
                for file in _FILES
            }
            manifest = {
                "format": FORMAT,
                "version": VERSION,
                "name": self.name,
                "entities": len(self.entities),
                "relations": len(self.relations),
                "edges": {split: len(self.triples[split]) for split in SPLITS},
                "prefixes": self.prefixes,
                "report": self.report,
                "source": self.source,
                "files": files,
            }
            write_json(temporary / _MANIFEST, manifest)

    @classmethod
    def load(cls, folder: Path | str, *, verify: bool | None = None) -> Dataset:
        """Open a prepared folder.

        verify: compare the SHA-256 of every file; by default for a dataset under 64 MB, where it costs nothing to
        notice. Sizes, types and the range of ids are always checked.
        """
        folder = Path(folder)
        manifest = _read_manifest(folder)
        sizes = {file: _checked_size(folder, file, manifest) for file in _FILES}
        if verify is None:
            verify = sum(sizes.values()) < _VERIFY_BELOW
        hashes = {file: str(manifest["files"][file]["sha256"]) for file in _FILES}
        if verify:
            for file in _FILES:
                if sha256_file(folder / file) != hashes[file]:
                    raise DataError(f"{folder / file} does not match its checksum.", hint=_AGAIN)
        prefixes = {str(key): str(value) for key, value in manifest["prefixes"].items()}
        triples = {split: read_array(folder / f"{split}.npy") for split in SPLITS}
        for split in SPLITS:
            if len(triples[split]) != manifest["edges"][split]:
                raise DataError(
                    f"{folder / split}.npy holds {len(triples[split]):,} edges, "
                    f"dataset.json says {manifest['edges'][split]:,}.",
                    hint=_AGAIN,
                )
        entities, relations = _lazy_vocabularies(folder, manifest)
        try:
            dataset = cls(
                str(manifest["name"]),
                entities,
                relations,
                triples,
                prefixes=prefixes,
                report=manifest["report"],
                source=manifest.get("source"),
            )
        except ValueError as error:
            raise DataError(f"The triples in {folder} are not valid: {error}.", hint=_AGAIN) from None
        dataset._hashes = hashes
        return dataset


def is_dataset(folder: Path) -> bool:
    """Whether `folder` is a prepared dataset, of any version."""
    try:
        return read_json(folder / _MANIFEST).get("format") == FORMAT
    except DataError:
        return False


def _checked(triples: ArrayLike, entities: int, relations: int, split: str) -> NDArray[np.int32]:
    """The triples of one split as int32 (n, 3), with every id in range."""
    array = np.asarray(triples)
    if array.size == 0:
        array = array.reshape(0, 3).astype(np.int32)
    if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in "iu":
        raise ValueError(f"the {split} triples are {array.dtype} of shape {array.shape}, not integers of shape (n, 3)")
    if len(array):
        low, high = array.min(axis=0), array.max(axis=0)
        if (low < 0).any() or (high >= (entities, relations, entities)).any():
            raise ValueError(
                f"the {split} triples hold ids from {low.tolist()} to {high.tolist()}, "
                f"but there are {entities:,} entities and {relations:,} relations"
            )
    return array.astype(np.int32, copy=False)


def _array_sha256(array: NDArray[np.int32]) -> str:
    import hashlib
    from io import BytesIO

    head = BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(array))
    digest = hashlib.sha256(head.getvalue())
    digest.update(array.tobytes())
    return digest.hexdigest()


def _vocabulary_bytes(header: Sequence[str], vocabulary: Vocabulary) -> bytes:
    identifiers = vocabulary.identifiers
    names = ["" if name == identifier else name for name, identifier in zip(vocabulary.names, identifiers, strict=True)]
    return table_bytes(header, [identifiers, names, vocabulary.descriptions or [""] * len(identifiers)])


def _read_manifest(folder: Path) -> dict[str, Any]:
    """The content of dataset.json, with its fields checked as far as the rest relies on them."""
    path = folder / _MANIFEST
    if not folder.exists():
        raise DataError(f"There is no folder {folder}.", hint="Make one with: flexkg data import")
    if not folder.is_dir():
        raise DataError(f"{folder} is a file, not a prepared dataset.", hint="Import it with: flexkg data import")
    if not path.exists():
        raise DataError(
            f"{folder} is not a prepared dataset: it has no {_MANIFEST}.", hint="Make one with: flexkg data import"
        )
    manifest = read_json(path)
    if manifest.get("format") != FORMAT:
        raise DataError(f"{path} does not describe a flexkg dataset.", hint="Make one with: flexkg data import")
    version = manifest.get("version")
    if not isinstance(version, int) or version < 1:
        raise DataError(f"{path} has no valid version.", hint=_AGAIN)
    if version > VERSION:
        raise DataError(
            f"{folder} was written in format version {version}; this flexkg reads up to version {VERSION}.",
            hint="Upgrade flexkg, or import the data again with this one.",
        )
    files, edges = manifest.get("files"), manifest.get("edges")
    well_formed = (
        isinstance(files, dict)
        and isinstance(edges, dict)
        and all(isinstance(edges.get(split), int) for split in SPLITS)
        and all(isinstance(manifest.get(key), int) and manifest[key] >= 0 for key in ("entities", "relations"))
        and all(isinstance(manifest.get(key), dict) for key in ("prefixes", "report"))
        and isinstance(manifest.get("name"), str)
        and all(
            isinstance(files.get(file), dict)
            and isinstance(files[file].get("sha256"), str)
            and isinstance(files[file].get("bytes"), int)
            for file in _FILES
        )
    )
    if not well_formed:
        raise DataError(f"{path} is incomplete.", hint=_AGAIN)
    return manifest


def _checked_size(folder: Path, file: str, manifest: Mapping[str, Any]) -> int:
    path = folder / file
    if not path.is_file():
        raise DataError(f"{path} is missing.", hint=_AGAIN)
    with os_errors(path, "read"):
        size = path.stat().st_size
    expected = int(manifest["files"][file]["bytes"])
    if size != expected:
        raise DataError(f"{path} has {size:,} bytes instead of {expected:,}.", hint=_AGAIN)
    return size


def _lazy_vocabularies(folder: Path, manifest: Mapping[str, Any]) -> tuple[Vocabulary, Vocabulary]:
    """Vocabularies that are parsed when first asked for.

    The bytes are read now: the folder may be replaced while the dataset is open.
    """
    with os_errors(folder, "read"):
        data = {file: (folder / file).read_bytes() for file in ("entities.tsv", "relations.tsv", "aliases.tsv")}

    def words(kind: str, file: str, header: Sequence[str], count: int) -> Words:
        identifiers, names, descriptions = parse_table(data[file], header, folder / file)
        if len(identifiers) != count:
            raise DataError(f"{folder / file} holds {len(identifiers):,} rows instead of {count:,}.", hint=_AGAIN)
        aliases: dict[int, list[str]] = {}
        path = folder / "aliases.tsv"
        kinds, ids, texts = parse_table(data["aliases.tsv"], _ALIAS_COLUMNS, path)
        for place, id in enumerate(ids):
            if kinds[place] != kind:
                continue
            if not id.isascii() or not id.isdigit() or int(id) >= count:
                raise DataError(f"{path} line {place + 2}: there is no {kind} {id!r}.", hint=_AGAIN)
            aliases.setdefault(int(id), []).append(texts[place])
        return Words(identifiers, names if any(names) else None, descriptions if any(descriptions) else None, aliases)

    counts = int(manifest["entities"]), int(manifest["relations"])
    return (
        Vocabulary.lazy(counts[0], lambda: words("entity", "entities.tsv", _ENTITY_COLUMNS, counts[0])),
        Vocabulary.lazy(counts[1], lambda: words("relation", "relations.tsv", _RELATION_COLUMNS, counts[1])),
    )
