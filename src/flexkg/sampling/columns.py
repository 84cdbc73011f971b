"""The file of one query set: blocks of rows, each a zlib stream of columns that can be read without the others.

Columns are stored as byte planes, all low bytes first: ids are small numbers, so that the planes of high bytes are
nearly constant. Members are stored as differences to the one before, modulo the width of an id, which makes the low
bytes small as well and lets one running sum restore a whole block, across the ends of rows. On FB15k-237's training
answers this takes 0.75 bytes a member and reads 55 million members a second; plain ids under zlib take 1.2 and 35.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from flexkg.errors import DataError
from flexkg.kg.storage import os_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from flexkg.sampling.queries import QuerySet

MAGIC: Final = b"flexkg queries 1\n"
BUILD_AGAIN: Final = "Build or import the workload again."

_HEAD: Final = struct.Struct("<III")
"""Rows, bytes after unpacking, bytes in the file."""
_MEMBERS: Final = 1 << 18
"""Members of a block over all its columns; a single row may have more. A reader holds about 2 MB for one."""
_ROWS: Final = 1 << 15
_LENGTH_WIDTH: Final = 4
_LEVEL: Final = 1


@dataclass(frozen=True)
class Layout:
    """What the rows of a file look like; everything that is needed to read it."""

    entities: int
    """How many entities there are: ids of entities and members are below."""
    relations: int
    """How many directed relations there are."""
    slots: tuple[int, int]
    """Entities and relations in a query."""
    columns: tuple[str, ...]
    """The names of the answer columns."""
    hardness: bool

    @property
    def widths(self) -> tuple[int, int]:
        """Bytes of an entity's id, and of a relation's."""
        return _width(self.entities), _width(self.relations)

    def longest(self, rows: int) -> int:
        """The most bytes that a block of that many rows can unpack to: more is a bomb."""
        wide, narrow = self.widths
        fixed = self.slots[0] * wide + self.slots[1] * narrow + len(self.columns) * _LENGTH_WIDTH
        return rows * fixed + max(_MEMBERS, len(self.columns) * self.entities) * (wide + 1)


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of a query set."""

    entities: NDArray[np.int32]
    relations: NDArray[np.int32]
    answers: dict[str, tuple[NDArray[np.int64], NDArray[np.int32]]]
    """Of each column the lengths of the rows, and their members."""
    hardness: NDArray[np.uint8] | None

    def __len__(self) -> int:
        return len(self.entities)


def layout_of(queries: QuerySet, entities: int, relations: int) -> Layout:
    """The layout of a query set over a graph with so many entities and directed relations."""
    slots = queries.entities.shape[1], queries.relations.shape[1]
    return Layout(entities, relations, slots, tuple(sorted(queries.answers)), queries.hardness is not None)


def write_blocks(file: IO[bytes], queries: QuerySet, layout: Layout) -> str:
    """Write all rows, and return the SHA-256 of what was written before compression, which varies between zlibs."""
    digest = hashlib.sha256()
    file.write(MAGIC)
    for rows in _cut(queries):
        block = _rows_of(queries, rows)
        if why := _fault(block, layout):
            raise ValueError(f"{queries.shape}: {why}")
        raw = _encode(block, layout)
        packed = zlib.compress(raw, _LEVEL)
        digest.update(raw)
        file.write(_HEAD.pack(len(block), len(raw), len(packed)))
        file.write(packed)
    return digest.hexdigest()


def read_blocks(path: Path, layout: Layout, sha256: str | None = None) -> Iterator[Block]:
    """The blocks of a file, one after the other, every one checked; with `sha256`, in the end the whole file too."""
    digest = hashlib.sha256()
    with os_errors(path, "read"), path.open("rb") as file:
        magic = file.read(len(MAGIC))
        if magic != MAGIC:
            damaged(path, "it does not begin like one")
        digest.update(magic)
        while head := file.read(_HEAD.size):
            if len(head) < _HEAD.size:
                damaged(path, "it ends too early")
            rows, size, packed_size = _HEAD.unpack(head)
            if not 0 < rows <= _ROWS or size > layout.longest(rows) or packed_size > size + (size >> 8) + 64:
                damaged(path, "a block has an impossible size")
            packed = file.read(packed_size)
            digest.update(head)
            digest.update(packed)
            if len(packed) < packed_size:
                damaged(path, "it ends too early")
            block = _decode(_unzip(packed, size, path), rows, layout, path)
            if why := _fault(block, layout):
                damaged(path, why)
            yield block
    if sha256 is not None and digest.hexdigest() != sha256:
        damaged(path, "it does not match its checksum")


def damaged(path: Path, why: str) -> NoReturn:
    """Raise the error for a file that is not what was written."""
    raise DataError(f"{path} is not a whole file of queries: {why}.", hint=BUILD_AGAIN)


def _width(count: int) -> int:
    return max(1, ((count - 1).bit_length() + 7) // 8)


def _cut(queries: QuerySet) -> Iterator[slice]:
    """Runs of rows with a bounded number of members."""
    running = np.zeros(len(queries) + 1, dtype=np.int64)
    for column in queries.answers.values():
        running += column.offsets
    first = 0
    while first < len(queries):
        last = int(np.searchsorted(running, running[first] + _MEMBERS, side="right")) - 1
        stop = min(max(last, first + 1), first + _ROWS, len(queries))
        yield slice(first, stop)
        first = stop


def _rows_of(queries: QuerySet, rows: slice) -> Block:
    answers = {}
    for name, column in queries.answers.items():
        start, stop = column.offsets[rows.start], column.offsets[rows.stop]
        answers[name] = np.diff(column.offsets[rows.start : rows.stop + 1]), column.members[start:stop]
    hardness = queries.hardness
    if hardness is not None:
        hard = queries.answers["hard"].offsets
        hardness = hardness[hard[rows.start] : hard[rows.stop]]
    return Block(queries.entities[rows], queries.relations[rows], answers, hardness)


def _fault(block: Block, layout: Layout) -> str | None:
    """What is wrong with a block, or None."""
    for ids, limit, kind in (
        (block.entities, layout.entities, "entity"),
        (block.relations, layout.relations, "relation"),
    ):
        if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < limit:
            return f"a query holds the {kind} {int(ids.max())}, but there are {limit:,}"
    for name, (lengths, members) in block.answers.items():
        if len(members) == 0:
            continue
        if not 0 <= int(members.min()) <= int(members.max()) < layout.entities:
            return f"{name} holds the entity {int(members.max())}, but there are {layout.entities:,}"
        rising = members[1:] > members[:-1]
        starts = np.cumsum(lengths)[:-1]
        rising[starts[(starts > 0) & (starts < len(members))] - 1] = True
        if not rising.all():
            return f"a row of {name} is not ascending"
    return None


def _encode(block: Block, layout: Layout) -> bytes:
    wide, narrow = layout.widths
    parts = [_pack(block.entities.T, wide), _pack(block.relations.T, narrow)]
    for name in layout.columns:
        lengths, members = block.answers[name]
        ids = members.astype("<u4")
        ids[1:] -= ids[:-1].copy()
        parts += [_pack(lengths, _LENGTH_WIDTH), _pack(ids, wide)]
    if block.hardness is not None:
        parts.append(block.hardness.astype(np.uint8, copy=False).tobytes())
    return b"".join(parts)


def _decode(raw: bytes, rows: int, layout: Layout, path: Path) -> Block:
    place = 0

    def take(count: int, width: int) -> NDArray[Any]:
        nonlocal place
        if place + count * width > len(raw):
            damaged(path, "a block is too short for its rows")
        values = _unpack(raw, place, count, width)
        place += count * width
        return values

    wide, narrow = layout.widths
    entities, relations = (
        np.ascontiguousarray(take(rows * slots, width).reshape(slots, rows).T.astype(np.int32))
        for slots, width in zip(layout.slots, (wide, narrow), strict=True)
    )
    answers = {}
    for name in layout.columns:
        lengths = take(rows, _LENGTH_WIDTH).astype(np.int64)
        steps = take(int(lengths.sum()), wide)
        ids = np.cumsum(steps, dtype=steps.dtype)
        if wide == 3:
            ids &= 0xFFFFFF
        # An id past 31 bits turns negative here, and is caught with the others that are out of range.
        answers[name] = lengths, ids.astype(np.int32)
    hardness = take(len(answers["hard"][1]), 1) if layout.hardness else None
    if place != len(raw):
        damaged(path, "a block is too long for its rows")
    return Block(entities, relations, answers, hardness)


def _pack(values: NDArray[Any], width: int) -> bytes:
    """Integers as byte planes, the lowest first."""
    wide = np.ascontiguousarray(values, dtype="<u4").reshape(-1, 1).view(np.uint8)
    return wide[:, :width].T.tobytes()


def _unpack(raw: bytes, place: int, count: int, width: int) -> NDArray[Any]:
    """Integers out of their byte planes, in the narrowest type that holds them."""
    planes: NDArray[np.uint8] = np.frombuffer(raw, np.uint8, count * width, place).reshape(width, count)
    if width == 1:
        return planes.reshape(-1)
    wide = np.zeros((count, 4), np.uint8) if width == 3 else np.empty((count, width), np.uint8)
    for plane in range(width):
        wide[:, plane] = planes[plane]
    values: NDArray[Any] = wide.view("<u2" if width == 2 else "<u4").reshape(-1)
    return values


def _unzip(packed: bytes, size: int, path: Path) -> bytes:
    """Unpack exactly `size` bytes, never more."""
    stream = zlib.decompressobj()
    try:
        # One byte more than promised shows a stream that is too long without unpacking the rest of it.
        raw = stream.decompress(packed, size + 1)
    except zlib.error as error:
        damaged(path, f"a block cannot be unpacked ({error})")
    if len(raw) != size or not stream.eof or stream.unused_data:
        damaged(path, "a block does not unpack to the size it states")
    return raw


def total_lengths(blocks: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Offsets out of the lengths of the rows, block by block."""
    offsets = np.zeros(sum(map(len, blocks)) + 1, dtype=np.int64)
    if blocks:
        np.cumsum(np.concatenate(blocks), out=offsets[1:])
    return offsets
