"""Files and folders that are written whole or not at all, and the plain formats they hold."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import operator
import os
import secrets
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flexkg.errors import DataError, FlexError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_ADVICE = {
    errno.ENOSPC: "The disk is full: free some space or choose another folder.",
    errno.EDQUOT: "Your disk quota is used up: free some space or choose another folder.",
    errno.EFBIG: "The file is larger than this system or account allows: raise the limit or choose another folder.",
    errno.EACCES: "Check the permissions of the file and its folder.",
    errno.EPERM: "Check the permissions of the file and its folder.",
    errno.EROFS: "That file system is read-only: choose another folder.",
    errno.ENOENT: "Check the path.",
    errno.EEXIST: "A file of that name is in the way: choose another path.",
    errno.ENOTDIR: "A part of that path is a file: check the path.",
    errno.EISDIR: "That is a folder: give a file.",
    errno.EXDEV: "That folder is a mount point: choose a folder inside it.",
    errno.EBUSY: "That folder is in use or a mount point: choose a folder inside it.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
}

_own_partial: set[Path] = set()
"""Temporary files and folders that this process is writing."""


def explain_os_error(error: OSError, path: Path | str, doing: str = "write") -> DataError:
    """The operating system's complaint as an error that says which file and what to do."""
    what = (error.strerror or str(error) or type(error).__name__).rstrip(".")
    where = error.filename if isinstance(error.filename, (str, os.PathLike)) else path
    advice = _ADVICE.get(error.errno, "Check the path and the disk.") if error.errno else "Check the path and the disk."
    return DataError(f"Cannot {doing} {os.fspath(where)}: {what}.", hint=advice)


@contextmanager
def os_errors(path: Path | str, doing: str = "write") -> Iterator[None]:
    """Turn an `OSError` of the block into a `DataError` about `path`."""
    try:
        yield
    except OSError as error:
        raise explain_os_error(error, path, doing) from error


@contextmanager
def locked(path: Path, busy: FlexError | None = None) -> Iterator[None]:
    """Keep other processes out of the block, where the system has locks; beside `path` a file says so meanwhile.

    Who comes second waits, or gets the error `busy` if there is one.
    """
    try:
        import fcntl
    except ImportError:  # pragma: no cover - only where there is no such lock
        yield
        return
    lock = path.with_name(f"{path.name}.lock")
    while True:
        with os_errors(lock):
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
            except OSError as error:
                if busy is None:
                    raise explain_os_error(error, lock, "lock") from error
                raise busy from None
            # Who held it before has removed the file: then somebody else may have made and locked a new one.
            if not _is_open_file(lock, descriptor):
                continue
            try:
                yield
            finally:
                with suppress(OSError):
                    lock.unlink()
            return
        finally:
            os.close(descriptor)


def _is_open_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextmanager
def atomic_file(path: Path | str) -> Iterator[Path]:
    """Give a temporary path to write; it becomes `path` when the block ends well and is removed otherwise.

    A pipe or a device, such as /dev/stdout, is written to as it is: nothing can take its place.
    """
    target = Path(os.path.realpath(path))
    with os_errors(path):
        if (given := Path(path)).exists() and not (given.is_file() or given.is_dir()):
            yield given
            return
        if target.is_dir():
            raise DataError(f"{path} is a folder.", hint="Give the name of a file to write.")
        with _made_parents(target):
            temporary = _sibling(target, "partial")
            _own_partial.add(temporary)
            try:
                yield temporary
                _sync(temporary)
                temporary.replace(target)
                _sync(target.parent)
            finally:
                temporary.unlink(missing_ok=True)
                _own_partial.discard(temporary)


@contextmanager
def atomic_folder(
    path: Path | str,
    *,
    overwrite: bool = False,
    replaceable: Callable[[Path], bool] = lambda _: False,
) -> Iterator[Path]:
    """Give a temporary folder to fill; it becomes `path` when the block ends well and is removed otherwise.

    An existing folder with something in it is replaced only with `overwrite` and when `replaceable` recognises it as
    one of ours, so that a slip of the hand never deletes a user's files. It stays as it was until the new one is whole.
    """
    target = Path(os.path.realpath(path))
    with os_errors(path):
        check_replaceable(path, overwrite=overwrite, replaceable=replaceable)
        with _made_parents(target):
            temporary = _sibling(target, "partial")
            _own_partial.add(temporary)
            try:
                temporary.mkdir()
                yield temporary
                for file in sorted(temporary.rglob("*")):
                    _sync(file)
                _sync(temporary)
                # Somebody may have written there while the block ran.
                check_replaceable(path, overwrite=overwrite, replaceable=replaceable)
                _swap(temporary, target)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
                _own_partial.discard(temporary)


def clear_partial(folder: Path) -> None:
    """Remove what a killed process left half-written in a folder that nobody else writes to."""
    for path in folder.glob(".*.partial"):
        _remove(path)


def clear_own_partial() -> None:
    """Remove what this process has written by half, before it ends without unwinding."""
    for path in tuple(_own_partial):
        with suppress(OSError):
            _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def check_replaceable(path: Path | str, *, overwrite: bool, replaceable: Callable[[Path], bool]) -> None:
    """Raise unless a folder may be written at `path`; call it before long work as well as at its end."""
    target = Path(os.path.realpath(path))
    if not target.exists():
        return
    if not target.is_dir():
        raise DataError(f"{path} is a file.", hint="Give the name of a folder to make.")
    if not any(target.iterdir()):
        return
    if not replaceable(target):
        raise DataError(
            f"The folder {path} holds something else, and is not overwritten.",
            hint="Choose a new folder, or empty that one yourself.",
        )
    if not overwrite:
        raise DataError(
            f"The folder {path} exists already.",
            hint="Choose a new folder, or replace it with --force.",
        )


def sha256_bytes(data: bytes | memoryview) -> str:
    """The SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path | str) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with os_errors(path, "read"), Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def finite(value: Any) -> Any:
    """The same with null for what is no number, which JSON has no word for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return value


def write_json(path: Path, value: Any) -> None:
    """Write JSON with a stable order of keys."""
    text = json.dumps(finite(value), ensure_ascii=False, indent=2, sort_keys=True, allow_nan=False) + "\n"
    # What is left of a file name that is not UTF-8 becomes an escape of JSON's own.
    path.write_bytes(text.encode("utf-8", "backslashreplace"))


def read_json(path: Path) -> dict[str, Any]:
    """Read one JSON object."""
    with os_errors(path, "read"):
        data = path.read_bytes()
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path} is not valid JSON: {error}.", hint="The file is damaged: make the folder anew."
        ) from None
    if not isinstance(value, dict):
        raise DataError(f"{path} does not hold a JSON object.", hint="The file is damaged: make the folder anew.")
    return value


def write_array(path: Path, array: np.ndarray[Any, Any]) -> None:
    """Write one `.npy` file; unlike `np.save` a full disk gives the system's own error."""
    array = np.ascontiguousarray(array)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        if array.size:
            file.write(array.view(np.uint8).reshape(-1).data)


def read_array(path: Path, *, map_above: int = 1 << 24) -> np.ndarray[Any, Any]:
    """Read one `.npy` file without pickle, mapped into memory when it is larger than `map_above` bytes."""
    with os_errors(path, "read"):
        mapped = path.stat().st_size > map_above
        try:
            # A plain view: np.memmap would make every slice carry its machinery.
            return np.asarray(np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False))
        except (ValueError, EOFError, SyntaxError) as error:
            raise DataError(
                f"{path} is not a whole NumPy array: {error}.", hint="The file is damaged: make the folder anew."
            ) from None


# The fields of our tables may hold anything; these four would break the lines.
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_ESCAPE = str.maketrans(_ESCAPES)
_UNESCAPE = {"\\": "\\", "t": "\t", "n": "\n", "r": "\r"}


def escape_field(text: str) -> str:
    r"""Write tab, line breaks and the backslash as `\t`, `\n`, `\r` and `\\`."""
    return text.translate(_ESCAPE)


def unescape_field(text: str) -> str:
    """Undo `escape_field`; a backslash before anything else stands for itself."""
    if "\\" not in text:
        return text
    parts = iter(text.split("\\"))
    out = [next(parts)]
    for part in parts:
        if part == "":
            # Two backslashes in a row, or one at the very end: the next part is plain text.
            out.append("\\" + next(parts, ""))
        else:
            out.append(_UNESCAPE.get(part[0], "\\" + part[0]) + part[1:])
    return "".join(out)


def _escaped(column: Sequence[str]) -> Sequence[str]:
    joined = "\n".join(column)
    plain = joined.count("\n") == len(column) - 1 and not any(mark in joined for mark in "\\\t\r")
    return column if plain or not column else [escape_field(field) for field in column]


def table_bytes(header: Sequence[str], columns: Sequence[Sequence[str]]) -> bytes:
    """A tab-separated table with a header, as UTF-8."""
    rows: Iterable[str] = map("\t".join, zip(*map(_escaped, columns), strict=True))
    try:
        return "\n".join(["\t".join(header), *rows, ""]).encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"A name cannot be written as UTF-8: {error.object[max(0, error.start - 20) : error.end]!r}.",
            hint="It holds half a surrogate pair: correct it in the source.",
        ) from None


def parse_table(data: bytes, header: Sequence[str], path: Path | str) -> list[list[str]]:
    """The columns of a table made by `table_bytes`."""
    damaged = "The file is damaged: make the folder anew."
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 (byte {error.start + 1}).", hint=damaged) from None
    lines = text.split("\n")
    if lines.pop() != "" or not lines or lines[0] != "\t".join(header):
        raise DataError(f"{path} is not a whole table with the columns {', '.join(header)}.", hint=damaged)
    # One flat split: a list for each of a million lines would keep the garbage collector busy for seconds.
    fields = text[len(lines[0]) + 1 :].replace("\n", "\t").split("\t")
    fields.pop()
    if set(map(_count_tabs, lines)) != {len(header) - 1}:
        number = next(n for n, line in enumerate(lines, 1) if _count_tabs(line) != len(header) - 1)
        raise DataError(f"{path} line {number} does not have {len(header)} columns.", hint=damaged)
    columns = [fields[place :: len(header)] for place in range(len(header))]
    if "\\" in text:
        return [[unescape_field(field) for field in column] for column in columns]
    return columns


_count_tabs = operator.methodcaller("count", "\t")


def _sibling(target: Path, kind: str) -> Path:
    return target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.{kind}")


@contextmanager
def _made_parents(target: Path) -> Iterator[None]:
    """Make the folders above `target`, and remove those that were made when the block fails."""
    missing = [folder for folder in target.parents if not folder.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()
        raise


def _swap(new: Path, target: Path) -> None:
    """Put `new` in the place of `target`; if that fails the old one is back where it was."""
    old = _sibling(target, "old")
    moved = target.exists()
    if moved:
        target.rename(old)
    try:
        new.rename(target)
    except BaseException:
        if moved:
            old.rename(target)
        raise
    with suppress(OSError):
        _sync(target.parent)
    if moved:
        shutil.rmtree(old, ignore_errors=True)


def _sync(path: Path) -> None:
    """Ask for the file or folder to be on the disk before we go on, where the system can."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network and special file systems cannot sync a folder; a real write error is another matter.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EROFS):
            raise
    finally:
        os.close(descriptor)
