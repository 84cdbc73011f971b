"""Reads files of queries: a JSON object a line, all of one template, into arrays."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, cast

import numpy as np

from flexkg.errors import DataError, FlexError, LimitError
from flexkg.kg.dataset import SPLITS
from flexkg.kg.storage import os_errors
from flexkg.query.betae import read_grounding
from flexkg.query.shapes import DE_MORGAN_SHAPES, SHAPES, template_of
from flexkg.sampling.queries import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from flexkg.query.terms import Term

    Ids: TypeAlias = NDArray[np.int32]

_SUFFIXES: Final = (".jsonl.gz", ".jsonl")
_LISTS: Final = ("answers", "easy", "hard")
_LARGEST: Final = 4 << 30
_DIGITS: Final = b"0123456789"
_ONLY_DIGITS: Final = bytes(code if code in _DIGITS else ord(" ") for code in range(256))


@dataclass
class QueryFile:
    """The queries of one file as arrays; `lines` are their line numbers."""

    path: Path
    key: str
    entities: Ids
    relations: Ids
    lines: NDArray[np.int64]
    answers: dict[str, Column] = field(default_factory=dict)
    complement: NDArray[np.bool_] | None = None

    def fail(self, row: int, why: str, hint: str | None = None) -> NoReturn:
        """Raise an error that names the line of a query."""
        raise DataError(f"{self.path} line {self.lines[row]}: {why}", hint=hint)

    def check_ids(self, entities: int, relations: int) -> None:
        """Raise unless all ids are below these numbers, of directed relations."""
        for ids, limit, kind in ((self.entities, entities, "entity"), (self.relations, relations, "relation")):
            if ids.size and int(ids.max()) >= limit:
                row, place = np.argwhere(ids >= limit)[0]
                self.fail(int(row), f"there is no {kind} {ids[row, place]}.", _ids_hint(limit))
        for name, column in self.answers.items():
            if len(column.members) and int(column.members.max()) >= entities:
                place = int(np.argmax(column.members >= entities))
                row = int(np.searchsorted(column.offsets, place, side="right")) - 1
                self.fail(row, f"{name} holds {column.members[place]}, which is no entity.", _ids_hint(entities))

    def check_distinct(self) -> None:
        """Raise if a query occurs twice."""
        rows = np.concatenate([self.entities, self.relations], axis=1)
        order = np.lexsort(rows.T[::-1])
        repeated = (rows[order[1:]] == rows[order[:-1]]).all(axis=1)
        if repeated.any():
            first, second = order[np.argmax(repeated) :][:2]
            self.fail(int(second), f"the query of line {self.lines[first]} again.", "Keep one of the two.")


def query_files(folder: Path | str) -> list[tuple[str, str, Path]]:
    """Split, shape and path of every file of queries in a folder, the familiar shapes first."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}.", hint="Give the folder that holds train/, valid/ and test/.")
    order = {name: rank for rank, name in enumerate((*SHAPES, *DE_MORGAN_SHAPES))}
    found: dict[tuple[str, str], Path] = {}
    with os_errors(folder, "read"):
        for split in SPLITS:
            for path in sorted((folder / split).glob("*.jsonl*")):
                suffix = next((suffix for suffix in _SUFFIXES if path.name.endswith(suffix)), None)
                if suffix is None or not path.is_file():
                    continue
                shape = path.name.removesuffix(suffix)
                if (split, shape) in found:
                    raise DataError(f"{found[split, shape]} and {path} are both there.", hint="Remove one of them.")
                found[split, shape] = path
    ranked = sorted(found, key=lambda key: (SPLITS.index(key[0]), order.get(key[1], len(order)), key[1]))
    return [(*key, found[key]) for key in ranked]


def read_file(path: Path, template: Term | None = None) -> QueryFile:
    """Read one file, every line of which must be of one template (and of the one given)."""
    data = _read(path)
    found = _read_alike(path, data) or _read_lines(path, data)
    if template is not None and template_of(found.key) != template:
        found.fail(0, "the query does not have the shape that the file is named after.", "Rename the file.")
    return found


def _read(path: Path) -> bytes:
    with os_errors(path, "read"):
        try:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                data = file.read(_LARGEST + 1)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(f"{path} cannot be unpacked: {error}.", hint="Get the file again.") from None
    if len(data) > _LARGEST:
        raise LimitError(f"{path} holds more than {_LARGEST:,} bytes.", hint="Split the workload.")
    return data


def _read_alike(path: Path, data: bytes) -> QueryFile | None:
    """Read lines that differ in their ids alone, as those of training files do: all at once, a hundred times faster.

    Without their digits the lines are equal, so that between two other characters there is at most one number, and
    if there are as many numbers as lines times ids, every line has them all.
    """
    first, _, _ = data.partition(b"\n")
    if not data.endswith(b"\n"):
        data += b"\n"
    count = data.count(b"\n")
    if data.translate(None, _DIGITS) != (first + b"\n").translate(None, _DIGITS) * count:
        return None
    numbers = re.findall(rb"-?\d+", first)
    ids = [place for place, text in enumerate(numbers) if not text.startswith(b"-")]
    try:
        record = json.loads(first)
        # With its own place for every id, the reader of nested lists says which of them are entities.
        places = iter(range(len(numbers)))
        placed = re.sub(rb"-?\d+", lambda found: _place(found[0], next(places)), first)
        key, entities, relations = read_grounding(json.loads(placed)["q"])
    except (ValueError, KeyError, TypeError, RecursionError, FlexError):
        return None
    if set(record) != {"q"} or len(ids) != len(entities) + len(relations):
        return None
    table = np.fromstring(data.translate(_ONLY_DIGITS), dtype=np.int64, sep=" ")
    if len(table) != count * len(numbers) or table.max(initial=0) >= 1 << 31:
        return None
    table = table.reshape(count, len(numbers))
    constant = [place for place in range(len(numbers)) if place not in ids]
    if (table[:, constant] != table[0, constant]).any():
        return None
    columns = [
        np.ascontiguousarray(table[:, cast("list[int]", leaves)], dtype=np.int32) for leaves in (entities, relations)
    ]
    return QueryFile(path, key, columns[0], columns[1], np.arange(1, count + 1))


def _place(text: bytes, place: int) -> bytes:
    return text if text.startswith(b"-") else str(place).encode()


def _read_lines(path: Path, data: bytes) -> QueryFile:
    """Read line by line."""
    key: str | None = None
    ids = array("q"), array("q")
    lines: list[int] = []
    lists = {name: (array("q"), array("q")) for name in _LISTS}
    complement: list[bool] = []
    present: set[str] | None = None
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            if not isinstance(record, dict) or "q" not in record:
                raise DataError('There is no "q".', hint='Write {"q": nested list}.')
            if unknown := set(record) - {"q", "complement", *_LISTS}:
                raise DataError(f"There is a field {sorted(unknown)[0]!r}.", hint=f"Known are q, {', '.join(_LISTS)}.")
            own, entities, relations = read_grounding(record["q"])
            if key is None:
                key, present = own, set(record) & set(_LISTS)
            if own != key:
                raise DataError("The query has another shape than the first.", hint="Put each shape in its own file.")
            if set(record) & set(_LISTS) != present:
                raise DataError("The line does not have the same lists as the first.")
            for column, leaves in zip(ids, (entities, relations), strict=True):
                column.extend(_whole(leaves, "the query"))
            for name in present:
                row = _whole(record[name], name)
                lists[name][0].append(len(row))
                lists[name][1].extend(row)
            complement.append(record.get("complement", False) is True)
        except FlexError as error:
            raise DataError(f"{path} line {number}: {error}") from None
        except RecursionError:
            raise DataError(f"{path} line {number} is nested too deeply.") from None
        except ValueError as error:
            raise DataError(f"{path} line {number} is not valid JSON: {error}.") from None
        lines.append(number)
    if key is None or present is None:
        raise DataError(f"{path} holds no queries.", hint='Give one JSON object a line, such as {"q": [0, [3]]}.')
    shape = [np.frombuffer(column, dtype=np.int64).astype(np.int32).reshape(len(lines), -1) for column in ids]
    found = QueryFile(path, key, shape[0], shape[1], np.array(lines), complement=np.array(complement))
    found.answers = {name: _column(found, name, *lists[name]) for name in _LISTS if name in present}
    return found


def _whole(values: Any, what: str) -> Sequence[int]:
    if not isinstance(values, list) or (values and set(map(type, values)) != {int}):
        raise DataError(f"The ids of {what} are not whole numbers.", hint="Use ids, not names.")
    if values and not 0 <= min(values) <= max(values) < 1 << 31:
        raise DataError(f"The ids of {what} go from {min(values)} to {max(values)}.", hint="Ids count from 0.")
    return values


def _column(file: QueryFile, name: str, lengths: array[int], members: array[int]) -> Column:
    """The rows in ascending order."""
    counts = np.frombuffer(lengths, dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    ids = np.frombuffer(members, dtype=np.int64).astype(np.int32)
    rows = np.repeat(np.arange(len(counts)), counts)
    if not ((ids[1:] > ids[:-1]) | (rows[1:] > rows[:-1])).all():
        ids = ids[np.lexsort((ids, rows))]
        twice = (ids[1:] == ids[:-1]) & (rows[1:] == rows[:-1])
        if twice.any():
            place = int(np.argmax(twice))
            file.fail(int(rows[place]), f"{name} holds {ids[place]} twice.")
    return Column(offsets, ids)


def _ids_hint(limit: int) -> str:
    return f"The ids of this graph are 0 to {limit - 1:,}."
