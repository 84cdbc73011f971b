"""Opening an input file: plain or gzip, which format, block by block with line numbers."""

from __future__ import annotations

import gzip
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from flexkg.errors import DataError
from flexkg.kg.storage import os_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flexkg.kg.ingest.records import Reading

TSV, CSV, PARQUET, NTRIPLES, TURTLE = "TSV", "CSV", "Parquet", "N-Triples", "Turtle"
_BY_SUFFIX = {
    ".tsv": TSV,
    ".tab": TSV,
    ".csv": CSV,
    ".parquet": PARQUET,
    ".pq": PARQUET,
    ".nt": NTRIPLES,
    ".ntriples": NTRIPLES,
    ".ttl": TURTLE,
    ".turtle": TURTLE,
}
_KNOWN = ".tsv, .csv, .parquet, .nt or .ttl, each also with .gz"
_BLOCK = 8 * 1024 * 1024
LONGEST_LINE = 64 * 1024 * 1024
_GZIP = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def check_file(path: Path) -> None:
    """Raise unless `path` is a file that can be opened, and more than once."""
    if not path.exists():
        raise DataError(f"There is no file {path}.", hint="Check the path.")
    if path.is_dir():
        raise DataError(
            f"{path} is a folder.",
            hint="Give a file, or a folder written by PyKEEN's TriplesFactory.to_path_binary.",
        )
    if not path.is_file():
        raise DataError(
            f"{path} is a pipe or a device, and an input file is read several times.", hint="Save it to a file first."
        )
    with os_errors(path, "read"), path.open("rb"):
        pass


def file_format(path: Path) -> str:
    """The format by the file's name, or by its first bytes when the name does not tell."""
    name = path.name.lower().removesuffix(".gz")
    known = _BY_SUFFIX.get(Path(name).suffix)
    head = _first_bytes(path)
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(
            f"{path} is UTF-16, not UTF-8.", hint="Convert it first, for example with: iconv -f UTF-16 -t UTF-8"
        )
    return known or _sniff(path, head)


def _first_bytes(path: Path) -> bytes:
    with open_bytes(path) as (file, _):
        return file.read(4096)


def _sniff(path: Path, head: bytes) -> str:
    if head.startswith(b"PAR1"):
        return PARQUET
    if not head.strip():
        raise DataError(f"{path} is empty.", hint="Give a file with one triple a line.")
    if b"\0" in head:
        raise DataError(f"{path} looks like a binary file.", hint=f"Give a file that ends in {_KNOWN}.")
    lines = [line.strip() for line in head.splitlines() if line.strip() and not line.startswith(b"#")]
    first = lines[0] if lines else b""
    if first.lower().startswith((b"@prefix", b"@base", b"prefix ", b"base ")):
        return TURTLE
    if first.startswith((b"<", b"_:")) and (first.endswith(b".") or len(lines) == 1) and b"\t" not in first:
        return NTRIPLES
    if b"\t" in first:
        return TSV
    if b"," in first:
        return CSV
    raise DataError(f"Cannot tell the format of {path}.", hint=f"Name it with one of the endings {_KNOWN}.")


@contextmanager
def open_bytes(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open for reading, unpacked if gzip; also the file beneath, whose position tells the progress."""
    with os_errors(path, "read"), path.open("rb") as raw:
        packed = raw.read(2) == _GZIP
        raw.seek(0)
        if not packed and path.suffix.lower() == ".gz" and path.stat().st_size:
            raise DataError(f"{path} is not gzip-compressed.", hint="Remove .gz from its name, or compress it.")
        try:
            if packed:
                with gzip.open(raw, "rb") as unpacked:
                    yield unpacked, raw  # type: ignore[misc]
            else:
                yield raw, raw
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(
                f"{path} is damaged: {error}.", hint="The gzip file is cut or broken: get it again."
            ) from None


def blocks(path: Path, reading: Reading) -> Iterator[tuple[bytes, int]]:
    r"""Whole lines, some megabytes at a time, with the number of the first; each line ends in a plain \n."""
    total = path.stat().st_size
    line = 1
    rest = b""
    with open_bytes(path) as (file, raw):
        first = True
        while data := file.read(_BLOCK):
            if first:
                data = data.removeprefix(BYTE_ORDER_MARK)
                first = False
            data = rest + data
            cut = data.rfind(b"\n") + 1
            data, rest = data[:cut], data[cut:]
            if len(rest) > LONGEST_LINE:
                number = line + data.count(b"\n")
                raise DataError(
                    f"{path} line {number} is longer than {LONGEST_LINE >> 20} MB.",
                    hint="Is it a text file with one triple a line?",
                )
            if data:
                yield data.replace(b"\r\n", b"\n"), line
                line += data.count(b"\n")
            reading.tick(f"Reading {path.name}", raw.tell(), total)
    if rest:
        yield rest.removesuffix(b"\r") + b"\n", line
