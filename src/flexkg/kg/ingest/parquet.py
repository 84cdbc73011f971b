"""Rows of Parquet files, through DuckDB."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flexkg.errors import DataError
from flexkg.kg.ingest.layout import find_layout
from flexkg.kg.ingest.records import Batch
from flexkg.kg.ingest.sources import open_bytes
from flexkg.kg.storage import os_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flexkg.kg.ingest.records import Reading

_ROWS = 100_000


def read_parquet(path: Path, columns: str | None, reading: Reading) -> Iterator[Batch]:
    """Batches of triples; a row with an empty or missing field is noted by its number and left out."""
    with parquet_columns(path) as (connection, source, names):
        layout = find_layout(path, names, columns, named=True)
        picked = [names[place] for place in layout.roles]
        row = 1
        for rows in _fetch(connection, source, picked, path):
            fields = list(chain.from_iterable(rows))
            if None in fields or "" in fields or "\0" in "".join(fields):
                rows = list(_good_rows(path, rows, row, reading))
                fields = list(chain.from_iterable(rows))
            row += _ROWS
            relations = fields[1::3]
            del fields[1::3]
            yield Batch(fields, relations)
            reading.tick(f"Reading {path.name}", row, 0)


def _good_rows(path: Path, rows: list[tuple[Any, ...]], first: int, reading: Reading) -> Iterator[tuple[Any, ...]]:
    for number, row in enumerate(rows, first):
        empty = [role for role, field in zip(("head", "relation", "tail"), row, strict=True) if not field]
        if empty:
            reading.bad.add(path, number, f"the {empty[0]} is empty", " ".join(str(field or "") for field in row))
        elif any("\0" in field for field in row):
            reading.bad.add(path, number, "holds a NUL byte")
        else:
            yield row


def read_parquet_rows(path: Path) -> tuple[list[str], Iterator[tuple[str | None, ...]]]:
    """The column names, and all rows as text."""
    with parquet_columns(path) as (_, _, names):
        pass

    def rows() -> Iterator[tuple[str | None, ...]]:
        with parquet_columns(path) as (connection, source, names):
            for batch in _fetch(connection, source, names, path):
                yield from batch

    return names, rows()


@contextmanager
def parquet_columns(path: Path) -> Iterator[tuple[Any, str, list[str]]]:
    """A DuckDB connection, the file it can read (unpacked if it was gzip), and the names of the columns."""
    import duckdb

    with _unpacked(path) as source:
        # One thread keeps the order of rows without buffering them all.
        connection = duckdb.connect(config={"threads": 1, "memory_limit": "1GB"})
        try:
            described = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [source]).fetchall()
            yield connection, source, [str(row[0]) for row in described]
        except duckdb.Error as error:
            what = str(error).splitlines()[0]
            raise DataError(f"{path} cannot be read as Parquet: {what}", hint="Check that the file is whole.") from None
        except RuntimeError as error:
            raise_if_interrupted(error)
            raise
        finally:
            connection.close()


def _fetch(connection: Any, source: str, names: list[str], path: Path) -> Iterator[list[tuple[Any, ...]]]:
    quoted = ", ".join('CAST("' + name.replace('"', '""') + '" AS VARCHAR)' for name in names)
    try:
        result = connection.execute(f"SELECT {quoted} FROM read_parquet(?)", [source])
        while rows := result.fetchmany(_ROWS):
            yield rows
    except UnicodeDecodeError:
        raise DataError(f"{path} holds text that is not UTF-8.", hint="Write its columns as strings.") from None


@contextmanager
def _unpacked(path: Path) -> Iterator[str]:
    with open_bytes(path) as (file, raw):
        if file is raw:
            yield literal_path(path)
            return
        with os_errors(tempfile.gettempdir()), tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "unpacked.parquet"
            with target.open("wb") as out:
                try:
                    shutil.copyfileobj(file, out, 1 << 20)
                except (gzip.BadGzipFile, EOFError) as error:
                    raise DataError(f"{path} is damaged: {error}.", hint="Get the file again.") from None
            yield str(target)


def raise_if_interrupted(error: RuntimeError) -> None:
    """DuckDB turns Ctrl-C into an error of its own; make it an interrupt again."""
    if "interrupted" in str(error).lower():
        raise KeyboardInterrupt from error


def literal_path(path: Path) -> str:
    """The path as DuckDB takes it: letters that would make it a pattern stand for themselves."""
    return "".join(f"[{mark}]" if mark in "*?[" else mark for mark in str(path))
