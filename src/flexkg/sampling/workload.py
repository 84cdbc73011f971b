"""A workload on disk: queries and answers of every split and shape, with the graph that they belong to."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import numpy as np

from flexkg.errors import DataError, LimitError
from flexkg.kg.dataset import SPLITS
from flexkg.kg.storage import atomic_folder, check_replaceable, os_errors, sha256_file, write_json
from flexkg.query.shapes import SHAPES
from flexkg.sampling.columns import (
    BUILD_AGAIN,
    Block,
    Layout,
    damaged,
    layout_of,
    read_blocks,
    total_lengths,
    write_blocks,
)
from flexkg.sampling.manifest import FORMAT, MANIFEST, PLAIN, VERSION, is_workload, read_manifest
from flexkg.sampling.queries import Column, QuerySet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from flexkg.kg.dataset import Dataset

MAX_MEMBERS: Final = 1 << 31
"""Members of one column that are read into memory at once: 8 GB."""

_SUFFIX: Final = ".columns"


class Workload:
    """Queries with their answers in a folder; a set of them is read when it is asked for, and kept while in use.

    data: name, checksum, entities and relations (one direction) of the graph. settings: how the queries were made.
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any], *, verify: bool) -> None:
        self.folder = folder
        self.data: dict[str, Any] = dict(manifest["data"])
        self.settings: dict[str, Any] = dict(manifest["settings"])
        self._verify = verify
        self._entries: dict[tuple[str, str], dict[str, Any]] = {
            (entry["split"], entry["shape"]): entry for entry in manifest["sets"]
        }
        self._kept: WeakValueDictionary[tuple[str, str], QuerySet] = WeakValueDictionary()

    def __repr__(self) -> str:
        sizes = (f"{split} {self.count(split):,}" for split in self.splits)
        return f"<Workload {self.data['name']}: {', '.join(sizes) or 'empty'}>"

    @classmethod
    def load(cls, folder: Path | str, *, verify: bool = True) -> Workload:
        """Open a folder. With `verify`, a file's SHA-256 is compared while it is read; all else is always checked."""
        folder = Path(folder)
        manifest = read_manifest(folder)
        for entry in manifest["sets"]:
            path = folder / entry["file"]
            if not path.is_file():
                raise DataError(f"{path} is missing.", hint=BUILD_AGAIN)
            with os_errors(path, "read"):
                size = path.stat().st_size
            if size != entry["bytes"]:
                raise DataError(f"{path} has {size:,} bytes instead of {entry['bytes']:,}.", hint=BUILD_AGAIN)
        return cls(folder, manifest, verify=verify)

    @property
    def splits(self) -> Mapping[str, Mapping[str, QuerySet]]:
        """The query sets by split and shape; looking one up reads it."""
        return {split: _Split(self, split) for split in SPLITS if any(key[0] == split for key in self._entries)}

    def shapes(self, split: str) -> list[str]:
        """The shapes of a split, the familiar ones first."""
        found = [shape for of, shape in self._entries if of == split]
        return [shape for shape in SHAPES if shape in found] + [shape for shape in found if shape not in SHAPES]

    def count(self, split: str, shape: str | None = None) -> int:
        """How many queries a split has, of one shape or of all; nothing is read."""
        return sum(
            entry["queries"] for (of, name), entry in self._entries.items() if of == split and shape in (None, name)
        )

    def queries(self, split: str, shape: str) -> QuerySet:
        """All queries of a split and shape."""
        found = self._kept.get((split, shape))
        if found is None:
            found = self._kept[split, shape] = self._read(split, shape)
        return found

    def blocks(self, split: str, shape: str) -> Iterator[QuerySet]:
        """The same queries some thousand at a time, so that they need not fit into memory."""
        entry = self._entry(split, shape)
        number = 0
        for block in self._blocks(entry):
            number += len(block)
            answers = {name: Column(total_lengths([rows]), ids) for name, (rows, ids) in block.answers.items()}
            yield self._query_set(entry, block.entities, block.relations, answers, block.hardness)
        if number != entry["queries"]:
            damaged(self.folder / entry["file"], f"it holds {number:,} queries instead of {entry['queries']:,}")

    def check_data(self, dataset: Dataset) -> None:
        """Raise unless the queries belong to this dataset."""
        sizes = {"entities": len(dataset.entities), "relations": len(dataset.relations)}
        for kind, size in sizes.items():
            if self.data[kind] != size:
                raise DataError(
                    f"The workload {self.folder} belongs to a graph with {self.data[kind]:,} {kind}; "
                    f"{dataset.name} has {size:,}.",
                    hint=f"It was made for {self.data['name']}: use that graph, or build a workload for this one.",
                )
        if self.data["checksum"] not in (None, dataset.checksum):
            raise DataError(
                f"The workload {self.folder} was made for another version of {self.data['name']} than this "
                f"{dataset.name}: the sizes agree, but not the content.",
                hint="Build or import a workload for this graph.",
            )

    @property
    def checksum(self) -> str:
        """SHA-256 over the graph and the queries with their answers, not over how they were made or packed."""
        rows = sorted(
            [entry[field] for field in ("split", "shape", "key", "complement", "content")] for entry in self._sets()
        )
        return hashlib.sha256(json.dumps([self.data, rows], sort_keys=True).encode()).hexdigest()

    def key(self, shape: str) -> str:
        """The key of a shape's template."""
        return next(str(entry["key"]) for (_, name), entry in self._entries.items() if name == shape)

    def info(self) -> dict[str, Any]:
        """Statistics of every shape and split, without reading the queries."""
        shapes: dict[str, dict[str, Any]] = {}
        for split in SPLITS:
            for shape in self.shapes(split):
                entry = self._entry(split, shape)
                shapes.setdefault(shape, {})[split] = {
                    "queries": entry["queries"],
                    "answers": {
                        name: {**sizes, "mean": round(sizes["total"] / max(1, entry["queries"]), 2)}
                        for name, sizes in entry["answers"].items()
                    },
                    "complement": entry["complement"],
                    "hardness": entry["hardness"],
                    "template": entry["key"],
                    "bytes": entry["bytes"],
                    **({"extra": entry["extra"]} if entry["extra"] else {}),
                }
        order = [*SHAPES, *shapes]
        return {
            "data": self.data,
            "settings": self.settings,
            "checksum": self.checksum,
            "queries": {split: self.count(split) for split in SPLITS},
            "bytes": sum(entry["bytes"] for entry in self._sets()),
            "shapes": {shape: shapes[shape] for shape in sorted(shapes, key=order.index)},
        }

    def _sets(self) -> Iterator[dict[str, Any]]:
        return iter(self._entries.values())

    def _entry(self, split: str, shape: str) -> dict[str, Any]:
        entry = self._entries.get((split, shape))
        if entry is None:
            here = ", ".join(self.shapes(split)) or f"none; its splits are {', '.join(self.splits) or 'none'}"
            raise DataError(
                f"The workload {self.folder} has no {split} queries of the shape {shape}.",
                hint=f"Its {split} shapes: {here}.",
            )
        return entry

    def _blocks(self, entry: Mapping[str, Any]) -> Iterator[Block]:
        key = entry["key"]
        layout = Layout(
            self.data["entities"],
            2 * self.data["relations"],
            (key.count("e"), key.count("p")),
            tuple(sorted(entry["answers"])),
            entry["hardness"] is not None,
        )
        return read_blocks(self.folder / entry["file"], layout, entry["sha256"] if self._verify else None)

    def _read(self, split: str, shape: str) -> QuerySet:
        entry = self._entry(split, shape)
        path = self.folder / entry["file"]
        totals = {name: sizes["total"] for name, sizes in entry["answers"].items()}
        if max(totals.values()) > MAX_MEMBERS:
            raise LimitError(
                f"{path} holds {max(totals.values()):,} answers, too many to be read at once.",
                hint="Read them in blocks (Workload.blocks).",
            )
        # Filled as the blocks come: joining them at the end would hold everything twice.
        entities = np.empty((entry["queries"], entry["key"].count("e")), dtype=np.int32)
        relations = np.empty((entry["queries"], entry["key"].count("p")), dtype=np.int32)
        members = {name: np.empty(total, dtype=np.int32) for name, total in totals.items()}
        hardness = np.empty(totals["hard"], dtype=np.uint8) if entry["hardness"] is not None else None
        lengths: dict[str, list[NDArray[np.int64]]] = {name: [] for name in totals}
        filled = dict.fromkeys(totals, 0)
        row = 0
        for block in self._blocks(entry):
            rows = slice(row, row + len(block))
            places = {name: slice(filled[name], filled[name] + len(ids)) for name, (_, ids) in block.answers.items()}
            if rows.stop > entry["queries"] or any(place.stop > totals[name] for name, place in places.items()):
                damaged(path, f"it holds more than {MANIFEST} says")
            entities[rows], relations[rows] = block.entities, block.relations
            for name, (counts, ids) in block.answers.items():
                members[name][places[name]] = ids
                lengths[name].append(counts)
                filled[name] = places[name].stop
            if hardness is not None:
                hardness[places["hard"]] = block.hardness
            row = rows.stop
        if row != entry["queries"] or filled != totals:
            damaged(path, f"it holds less than {MANIFEST} says")
        answers = {name: Column(total_lengths(lengths[name]), members[name]) for name in totals}
        return self._query_set(entry, entities, relations, answers, hardness)

    def _query_set(
        self,
        entry: Mapping[str, Any],
        entities: NDArray[np.int32],
        relations: NDArray[np.int32],
        answers: dict[str, Column],
        hardness: NDArray[np.uint8] | None,
    ) -> QuerySet:
        return QuerySet(
            entry["shape"], entry["key"], entities, relations, answers, entry["complement"], hardness, entry["extra"]
        )


class _Split(Mapping[str, QuerySet]):
    """The query sets of one split by shape."""

    def __init__(self, workload: Workload, split: str) -> None:
        self._workload, self._split = workload, split

    def __getitem__(self, shape: str) -> QuerySet:
        if shape not in self._workload.shapes(self._split):
            raise KeyError(shape)
        return self._workload.queries(self._split, shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._workload.shapes(self._split))

    def __len__(self) -> int:
        return len(self._workload.shapes(self._split))


class WorkloadWriter:
    """Takes query sets as they come and writes each at once; `settings` may be added to until the end."""

    def __init__(self, folder: Path, data: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        self.settings = dict(settings)
        self._folder, self._data = folder, dict(data)
        self._entries: dict[tuple[str, str], dict[str, Any]] = {}

    def add(self, split: str, queries: QuerySet) -> None:
        """Write one set of queries; a split has each shape once."""
        if split not in SPLITS or (split, queries.shape) in self._entries:
            raise ValueError(f"cannot write {split} {queries.shape}: no such split, or written already")
        file = f"{split}/{self._file_name(split, queries.shape)}"
        path = self._folder / file
        path.parent.mkdir(exist_ok=True)
        layout = layout_of(queries, self._data["entities"], 2 * self._data["relations"])
        with path.open("wb") as target:
            content = write_blocks(target, queries, layout)
        self._entries[split, queries.shape] = {
            "split": split,
            "shape": queries.shape,
            "key": queries.key,
            "file": file,
            "bytes": path.stat().st_size,
            "sha256": sha256_file(path),
            "content": content,
            "complement": queries.complement,
            "queries": len(queries),
            "answers": {
                name: {"total": len(column.members), "most": int(column.lengths.max(initial=0))}
                for name, column in queries.answers.items()
            },
            "hardness": None if queries.hardness is None else histogram(queries.hardness),
            "extra": queries.extra,
        }

    def finish(self) -> None:
        """Write the manifest."""
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "data": self._data,
            "settings": self.settings,
            "sets": list(self._entries.values()),
        }
        write_json(self._folder / MANIFEST, manifest)

    def _file_name(self, split: str, shape: str) -> str:
        # A shape may have any name, and some disks do not tell capitals apart.
        taken = {name.lower() for of, name in self._entries if of == split}
        plain = PLAIN.fullmatch(shape) and shape.lower() not in taken
        return f"{shape}{_SUFFIX}" if plain else f"shape.{len(self._entries)}{_SUFFIX}"


@contextmanager
def writing(
    folder: Path | str, *, data: Mapping[str, Any], settings: Mapping[str, Any], overwrite: bool = False
) -> Iterator[WorkloadWriter]:
    """Give a writer for a new workload folder, which is there when the block ends well and not before.

    `overwrite` replaces an older workload, never anything else.
    """
    with atomic_folder(folder, overwrite=overwrite, replaceable=is_workload) as temporary:
        writer = WorkloadWriter(temporary, data, settings)
        yield writer
        writer.finish()


def check_target(folder: Path | str, *, overwrite: bool = False) -> None:
    """Raise unless a workload may be written there; call it before long work."""
    check_replaceable(folder, overwrite=overwrite, replaceable=is_workload)


def data_of(dataset: Dataset) -> dict[str, Any]:
    """What a workload remembers of its graph."""
    return {
        "name": dataset.name,
        "checksum": dataset.checksum,
        "entities": len(dataset.entities),
        "relations": len(dataset.relations),
    }


def histogram(hardness: NDArray[np.uint8]) -> dict[str, int]:
    """How many hard answers need one missing link, two, and so on."""
    counts = Counter(dict(enumerate(np.bincount(hardness).tolist())))
    return {str(links): count for links, count in sorted(counts.items()) if count}
