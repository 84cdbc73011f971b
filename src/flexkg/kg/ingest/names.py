"""Names, descriptions and aliases from a table."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from flexkg.errors import DataError
from flexkg.kg.ingest.parquet import read_parquet_rows
from flexkg.kg.ingest.sources import CSV, PARQUET, TSV, blocks, check_file, file_format

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from flexkg.kg.ingest.records import Lexicon, Reading

# In each group the first that the header holds is taken: `id` is often a mere number beside the identifier.
_COLUMNS = {
    "entity": ("entity", "identifier", "iri", "uri", "relation", "node", "key", "id"),
    "name": ("name", "label", "title"),
    "description": ("description", "comment"),
    "aliases": ("aliases", "alias", "altlabels", "altlabel"),
}
_BY_POSITION = ("entity", "name", "description", "aliases")


def read_names(path: Path, reading: Reading) -> Lexicon:
    """The texts of a names file, by identifier."""
    from flexkg.kg.ingest.records import Lexicon

    check_file(path)
    format = file_format(path)
    if format not in (TSV, CSV, PARQUET):
        raise DataError(f"The names file {path} is {format}.", hint="Give a table as TSV, CSV or Parquet.")
    rows = _parquet_rows(path) if format == PARQUET else _text_rows(path, format, reading)
    places: dict[str, int] | None = None
    lexicon = Lexicon()
    width = 0
    for number, row in rows:
        if places is None:
            places, header = _find_columns(path, row)
            width = len(row)
            if header:
                continue
        if len(row) != width:
            reading.bad.add(path, number, f"{len(row)} fields instead of {width}", "\t".join(row))
            continue
        texts = {column: row[place] for column, place in places.items()}
        if not texts["entity"]:
            reading.bad.add(path, number, "the entity is empty", "\t".join(row))
            continue
        _note(lexicon, texts)
    if places is None:
        raise DataError(f"The names file {path} is empty.", hint="Give a table with the columns entity and name.")
    return lexicon


def _note(lexicon: Lexicon, texts: dict[str, str]) -> None:
    identifier = texts["entity"]
    if texts.get("name"):
        lexicon.names[identifier] = texts["name"]
    if texts.get("description"):
        lexicon.descriptions[identifier] = texts["description"]
    if texts.get("aliases"):
        aliases = [alias.strip() for alias in texts["aliases"].split("|")]
        lexicon.aliases.setdefault(identifier, []).extend(alias for alias in dict.fromkeys(aliases) if alias)


def _find_columns(path: Path, first: Sequence[str]) -> tuple[dict[str, int], bool]:
    """The place of each column that is there, and whether the first row is a header."""
    folded = [text.strip().lower() for text in first]
    found = {
        column: folded.index(name)
        for column, names in _COLUMNS.items()
        if (name := next((name for name in names if name in folded), None)) is not None
    }
    if "entity" in found and len(found) > 1:
        return found, True
    if len(first) in (2, 3, 4):
        if "entity" in found:
            raise DataError(
                f"The names file {path} has no column of names ({', '.join(first)}).",
                hint="Give a table with the columns entity and name.",
            )
        return {column: place for place, column in enumerate(_BY_POSITION[: len(first)])}, False
    raise DataError(
        f"The names file {path} has {len(first)} columns and no header that names them.",
        hint="Give a header with entity and name, and description and aliases if you have them.",
    )


def _parquet_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    names, rows = read_parquet_rows(path)
    yield 0, names
    for number, row in enumerate(rows, 1):
        yield number, [field or "" for field in row]


def _text_rows(path: Path, format: str, reading: Reading) -> Iterator[tuple[int, list[str]]]:
    """Numbered rows that are not blank; a line that is not UTF-8 is noted."""
    lines = _good_lines(path, reading)
    if format == TSV:
        for number, line in lines:
            if line != "\n":
                yield number, line.removesuffix("\n").split("\t")
        return
    last = [0]

    def texts() -> Iterator[str]:
        for number, line in lines:
            last[0] = number
            yield line

    reader = csv.reader(texts(), strict=True)
    while True:
        first = last[0] + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "end of data" in str(error):
                raise DataError(f"{path} line {first}: a quoted field is not closed.") from None
            reading.bad.add(path, first, f"not valid CSV ({error})")
        else:
            if row:
                yield first, row


def _good_lines(path: Path, reading: Reading) -> Iterator[tuple[int, str]]:
    for block, number in blocks(path, reading):
        for line, data in enumerate(block.split(b"\n")[:-1], number):
            try:
                text = data.decode("utf-8")
            except UnicodeDecodeError:
                reading.bad.add(path, line, "not valid UTF-8", data)
                continue
            yield line, text + "\n"
