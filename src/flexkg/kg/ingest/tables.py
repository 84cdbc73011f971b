"""Triples from TSV and CSV: many lines at a time, with the exact place of every bad one."""

from __future__ import annotations

import csv
import re
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from flexkg.errors import DataError
from flexkg.kg.ingest.layout import Layout, find_layout
from flexkg.kg.ingest.records import Batch
from flexkg.kg.ingest.sources import CSV, LONGEST_LINE, blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from flexkg.kg.ingest.records import Reading

# The csv module's own limit, 131,072 characters, is less than a line may have.
csv.field_size_limit(LONGEST_LINE)

_NOT_UTF8 = "not valid UTF-8"
_NUL = "holds a NUL byte"
_TWICE = 'Close every quote, and write one inside a field twice: "".'
_SURROGATES = re.compile("[\udc80-\udcff]")
_ROWS = 100_000


def read_table(path: Path, format: str, columns: str | None, reading: Reading) -> Iterator[Batch]:
    """Batches of triples; lines that are not triples are noted in `reading` and left out."""
    separator = "," if format == CSV else "\t"
    layout: Layout | None = None
    pending = blocks(path, reading)
    for block, line in pending:
        if layout is None:
            block, line = _skip_blank(block, line, reading)
            if not block:
                continue
            layout, skip = first_row(path, block, separator, columns, reading)
            line += block.count(b"\n", 0, skip)
            block = block[skip:]
        if format == CSV and b'"' in block:
            # A quoted field may run over lines and blocks: from here on the csv module reads.
            yield from _quoted(path, chain([(block, line)], pending), line, layout, reading)
            return
        if block:
            yield from _plain(path, block, line, separator.encode(), layout, reading)


def _skip_blank(block: bytes, line: int, reading: Reading) -> tuple[bytes, int]:
    stripped = block.lstrip(b"\n")
    blank = len(block) - len(stripped)
    reading.counts["blank"] += blank
    return stripped, line + blank


def first_row(path: Path, block: bytes, separator: str, columns: str | None, reading: Reading) -> tuple[Layout, int]:
    """The layout, and how many bytes the header takes; a header that nobody announced is noted."""
    end = block.index(b"\n") + 1
    text = block[: end - 1].decode("utf-8", errors="replace")
    if "\0" in text:
        raise DataError(f"{path} looks like a binary file.", hint="Give a text file with one triple a line.")
    if separator == "," and '"' in text:
        # A quoted field may hold line breaks.
        reader = csv.reader(_lines(block), strict=True)
        try:
            row = next(reader)
        except csv.Error as error:
            raise DataError(f"The first row of {path} is not valid CSV ({error}).", hint=_TWICE) from None
        end = sum(len(line) + 1 for line in block.split(b"\n", reader.line_num)[: reader.line_num])
    else:
        row = text.split(separator)
    layout = find_layout(path, row, columns)
    if layout.guessed:
        reading.headers[str(path)] = row
    return layout, end if layout.header else 0


def _batch(fields: list[str], layout: Layout) -> Batch:
    """Pick head, relation and tail from the fields of all rows in one flat list."""
    head, relation, tail = (fields[place :: layout.width] for place in layout.roles)
    entities = [""] * (2 * len(head))
    entities[0::2], entities[1::2] = head, tail
    return Batch(entities, relation)


def _plain(path: Path, block: bytes, line: int, separator: bytes, layout: Layout, reading: Reading) -> Iterator[Batch]:
    """Lines without quotes: checked as arrays of bytes, then split at once."""
    text = _clean_text(path, block, line, separator, layout, reading)
    if text:
        mark = separator.decode()
        fields = text.replace("\n", mark).split(mark)
        fields.pop()
        yield _batch(fields, layout)


def _clean_text(path: Path, block: bytes, line: int, separator: bytes, layout: Layout, reading: Reading) -> str:
    """The block's good lines; bad ones are noted and taken out."""
    data = np.frombuffer(block, dtype=np.uint8)
    marks = np.flatnonzero((data == separator[0]) | (data == 10))
    ends = np.flatnonzero(data[marks] == 10)
    widths = np.diff(ends, prepend=-1)
    line_ends = marks[ends]
    starts = np.concatenate([[0], line_ends[:-1] + 1])
    blank = line_ends == starts
    wrong = (widths != layout.width) & ~blank
    reasons = {place: _wrong_width(int(widths[place]), layout) for place in np.flatnonzero(wrong).tolist()}
    good = np.flatnonzero(~(wrong | blank))
    for place, what in _empty_fields(marks, ends[good], starts[good], layout):
        reasons.setdefault(int(good[place]), what)
    if b"\0" in block:
        for place in np.searchsorted(line_ends, np.flatnonzero(data == 0)).tolist():
            reasons[place] = _NUL
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError:
        for place in _invalid_lines(block, data, starts, line_ends):
            reasons[place] = _NOT_UTF8
        text = None
    reading.counts["blank"] += int(blank.sum())
    if not reasons and not blank.any() and text is not None:
        return text
    for place in sorted(reasons):
        reading.bad.add(path, line + place, reasons[place], block[starts[place] : line_ends[place]])
    keep = ~blank
    keep[list(reasons)] = False
    return str(data[np.repeat(keep, line_ends + 1 - starts)].data, "utf-8")


def is_clean(block: bytes, separator: bytes, layout: Layout) -> bool:
    """Whether every line is a triple in the plainest form: no quote, no carriage return, nothing to report."""
    data = np.frombuffer(block, dtype=np.uint8)
    marks = np.flatnonzero((data == separator[0]) | (data == 10))
    ends = np.arange(layout.width - 1, len(marks), layout.width)
    if len(marks) % layout.width or (data[marks[ends]] != 10).any() or np.count_nonzero(data == 10) != len(ends):
        return False
    if b"\r" in block or b"\0" in block or (separator == b"," and b'"' in block):
        return False
    starts = np.concatenate([[0], marks[ends][:-1] + 1])
    if any(True for _ in _empty_fields(marks, ends, starts, layout)):
        return False
    try:
        block.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _empty_fields(
    marks: NDArray[np.intp], ends: NDArray[np.intp], starts: NDArray[np.intp], layout: Layout
) -> Iterator[tuple[int, str]]:
    """Rows, among those of the right width, whose head, relation or tail is empty.

    marks: where separators and line ends are; ends: which mark ends each row; starts: where each row begins.
    """
    for column, role in zip(layout.roles, ("head", "relation", "tail"), strict=True):
        mark = ends - (layout.width - 1 - column)
        before = starts if column == 0 else marks[mark - 1] + 1
        for place in np.flatnonzero(marks[mark] == before).tolist():
            yield place, f"the {role} is empty"


def _invalid_lines(
    block: bytes, data: NDArray[np.uint8], starts: NDArray[np.intp], ends: NDArray[np.intp]
) -> Iterator[int]:
    """Lines that are not UTF-8, among those with bytes beyond ASCII."""
    for place in np.unique(np.searchsorted(ends, np.flatnonzero(data >= 0x80))).tolist():
        try:
            block[starts[place] : ends[place]].decode("utf-8")
        except UnicodeDecodeError:
            yield place


def _quoted(
    path: Path, parts: Iterable[tuple[bytes, int]], line: int, layout: Layout, reading: Reading
) -> Iterator[Batch]:
    """Rows with quotes (RFC 4180), `line` being the number of the first."""
    # Bytes that are not UTF-8 become surrogates, so that only their own rows are bad.
    lines = chain.from_iterable(_lines(block) for block, _ in parts)
    reader = csv.reader(lines, strict=True)
    rows: list[Sequence[str]] = []
    done = False
    while not done:
        rows.clear()
        begin = line + reader.line_num
        broken = ""
        try:
            # On an error the rows before it are already in the list.
            rows.extend(islice(reader, _ROWS))
            done = len(rows) < _ROWS
        except csv.Error as error:
            broken = str(error)
        yield from _good_rows(path, rows, begin, layout, reading)
        if broken:
            _note_broken(path, line + reader.line_num - 1, begin, rows, broken, reading)


def _lines(block: bytes) -> list[str]:
    return [text + "\n" for text in block.decode("utf-8", "surrogateescape").split("\n")[:-1]]


def _good_rows(path: Path, rows: list[Sequence[str]], begin: int, layout: Layout, reading: Reading) -> Iterator[Batch]:
    """The rows that are triples, as one batch."""
    fields = list(chain.from_iterable(rows))
    head, relation, tail = layout.roles
    needed = [fields[place :: layout.width] for place in (head, relation, tail)]
    joined = "".join(fields)
    suspicious = "\0" in joined or (not joined.isascii() and _SURROGATES.search(joined) is not None)
    if set(map(len, rows)) <= {layout.width} and not suspicious and not any("" in column for column in needed):
        if rows:
            yield _batch(fields, layout)
        return
    kept: list[Sequence[str]] = []
    line = begin
    for row in rows:
        reason = _row_problem(row, layout)
        if reason is None:
            kept.append(row)
        elif not row:
            reading.counts["blank"] += 1
        else:
            text = ",".join(row).encode("utf-8", "surrogateescape")
            reading.bad.add(path, line, reason, text)
        line += 1 + sum(field.count("\n") for field in row)
    if kept:
        yield _batch(list(chain.from_iterable(kept)), layout)


def _wrong_width(found: int, layout: Layout) -> str:
    return f"{found} field{'s' * (found != 1)} instead of {layout.width}"


def _row_problem(row: Sequence[str], layout: Layout) -> str | None:
    if len(row) != layout.width:
        return _wrong_width(len(row), layout)
    for column, role in zip(layout.roles, ("head", "relation", "tail"), strict=True):
        if not row[column]:
            return f"the {role} is empty"
    text = "".join(row)
    if "\0" in text:
        return _NUL
    return _NOT_UTF8 if _SURROGATES.search(text) else None


def _note_broken(
    path: Path, line: int, begin: int, rows: Sequence[Sequence[str]], error: str, reading: Reading
) -> None:
    """A row that the csv module refuses; one that swallows the lines after it ends the import."""
    first = begin + sum(1 + sum(field.count("\n") for field in row) for row in rows)
    if line - first > 100 or "end of data" in error or "field larger" in error:
        raise DataError(f"{path} line {first}: a quoted field is not closed.", hint=_TWICE)
    reading.bad.add(path, first, f"not valid CSV ({error})")
