"""Downloads that can be cut at any moment and go on where they stopped."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import re
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from flexkg.errors import DataError, LimitError
from flexkg.kg.storage import explain_os_error, locked, os_errors, read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from email.message import Message
    from pathlib import Path

_CHUNK = 1 << 18
_PASSING = {408, 425, 429, 500, 502, 503, 504}
# A line that drops again and again but brings this much each time is worth going on with.
_WORTH_GOING_ON = 1 << 20


class Progress(Protocol):
    """Is told how far a download is."""

    def start(self, what: str, done: int, total: int | None) -> None:
        """A transfer begins, or begins anew, with `done` bytes of it there already."""

    def advance(self, count: int) -> None:
        """`count` more bytes came."""

    def note(self, text: str) -> None:
        """Something that a person watching would like to know."""


class Silent:
    """Shows nothing."""

    def start(self, what: str, done: int, total: int | None) -> None:
        """Show nothing."""

    def advance(self, count: int) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Show nothing."""


@dataclass(frozen=True)
class Patience:
    """How long to wait and how often to try: `tries` in a row without progress, pauses doubling from `pause`."""

    tries: int = 5
    pause: float = 1.0
    longest_pause: float = 60.0
    timeout: float = 30.0
    sleep: Callable[[float], None] = time.sleep


class _CutError(Exception):
    """The transfer failed in a way that may pass; what came so far is kept."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


def download(
    url: str,
    target: Path,
    *,
    checksum: str | None = None,
    max_bytes: int = 4 << 30,
    patience: Patience | None = None,
    progress: Progress | None = None,
) -> Path:
    """Fetch `url` into the file `target`, going on with what an earlier attempt left in `target.part`.

    checksum: `sha256:HEX` or `md5:HEX` of the whole file; a file that differs is deleted.
    """
    _check_scheme(url)
    patience, progress = patience or Patience(), progress or Silent()
    with os_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    part = _Part(url, target)
    busy = DataError(f"Another process is downloading {part.path.stem}.", hint="Wait for it to end.")
    with locked(part.path, busy):
        _transfer(part, max_bytes, patience, progress)
        if checksum:
            try:
                check_file(part.path, checksum, url)
            except DataError:
                part.discard()
                raise
        with os_errors(target):
            part.path.replace(target)
            part.notes.unlink(missing_ok=True)
    return target


def check_file(path: Path, checksum: str, what: str) -> None:
    """Raise unless the file has this `sha256:HEX` or `md5:HEX`."""
    kind, _, expected = checksum.partition(":")
    with os_errors(path, "read"), path.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()
    if found != expected:
        raise DataError(
            f"What came from {what} is not the published file: its {kind} is {found}, not {expected}; it was deleted.",
            hint="Try again; if it happens again the publisher has changed the file: use --from FOLDER.",
        )


class _Part:
    """A file under way, `NAME.part`, and beside it what the server said about it."""

    def __init__(self, url: str, target: Path) -> None:
        self.url = url
        self.path = target.with_name(target.name + ".part")
        self.notes = target.with_name(target.name + ".part.json")

    def resumable(self) -> tuple[int, str | None]:
        """How many bytes are there, and the mark by which the server can tell whether they are still good."""
        try:
            notes = read_json(self.notes)
        except DataError:
            return 0, None
        mark = notes.get("validator")
        if notes.get("url") != self.url or not isinstance(mark, str) or not self.path.is_file():
            return 0, None
        return self.path.stat().st_size, mark

    def describe(self, headers: Message) -> None:
        """Keep the mark of the version that is coming in; without one it cannot be resumed safely."""
        entity_tag = headers.get("ETag", "")
        strong = entity_tag if entity_tag and not entity_tag.startswith("W/") else None
        write_json(self.notes, {"url": self.url, "validator": strong or headers.get("Last-Modified")})

    def discard(self) -> None:
        """Forget what came."""
        self.path.unlink(missing_ok=True)
        self.notes.unlink(missing_ok=True)


def _transfer(part: _Part, max_bytes: int, patience: Patience, progress: Progress) -> None:
    """Bring the whole file into `part`, with as many attempts as it takes."""
    failures = 0
    while True:
        before = part.path.stat().st_size if part.path.exists() else 0
        try:
            _attempt(part, max_bytes, patience.timeout, progress)
            return
        except _CutError as cut:
            gained = (part.path.stat().st_size if part.path.exists() else 0) - before
            failures = 1 if gained >= _WORTH_GOING_ON else failures + 1
            if failures >= patience.tries:
                raise DataError(
                    f"Cannot download {part.url}: {cut} (tried {failures} times).",
                    hint="Check the connection and run the same command again, it goes on where it stopped; "
                    "or give a folder of local files with --from FOLDER.",
                ) from None
            pause = min(patience.longest_pause, cut.wait or patience.pause * 2 ** (failures - 1))
            progress.note(f"{cut}; trying again in {pause:.0f} s")
            patience.sleep(pause)


def _attempt(part: _Part, max_bytes: int, timeout: float, progress: Progress) -> None:
    """One request; raises `_CutError` when it is worth another."""
    offset, mark = part.resumable()
    # Bytes are counted and hashed as published: a proxy must not compress them on the way.
    headers = {"User-Agent": "flexkg", "Accept-Encoding": "identity"}
    if offset and mark:
        headers |= {"Range": f"bytes={offset}-", "If-Range": mark}
    with _opened(urllib.request.Request(part.url, headers=headers), timeout) as response:
        if response.status == 416:
            if _whole_length(response.headers) == offset:
                return
            part.discard()
            raise _CutError("the part that was there does not fit the file any more")
        if response.status == 206:
            start, whole = _range(response.headers)
            if start != offset:
                part.discard()
                raise _CutError("the server sent another part than was asked for")
        else:
            # The server does not do parts, or the file has changed: from the beginning.
            offset, whole = 0, _length(response.headers)
        _check_room(part, offset, whole, max_bytes)
        with os_errors(part.path), part.path.open("ab" if offset else "wb") as file:
            if not offset:
                part.describe(response.headers)
            progress.start(_name(part.url), offset, whole)
            _copy(response, file, part, offset, whole, max_bytes, progress)


def _copy(
    response: Any, file: BinaryIO, part: _Part, done: int, whole: int | None, max_bytes: int, progress: Progress
) -> None:
    while True:
        try:
            chunk = response.read(_CHUNK)
        except http.client.IncompleteRead as error:
            chunk = error.partial
        except (OSError, http.client.HTTPException) as error:
            raise _CutError(_reason(error)) from None
        if not chunk:
            break
        done += len(chunk)
        if done > max_bytes:
            raise LimitError(f"{part.url} is larger than the limit of {max_bytes:,} bytes.", hint=_NOT_THE_FILE)
        try:
            file.write(chunk)
        except OSError as error:
            raise explain_os_error(error, part.path) from error
        progress.advance(len(chunk))
    file.flush()
    if whole is not None and done < whole:
        raise _CutError(f"the connection was cut after {done:,} of {whole:,} bytes")


_NOT_THE_FILE = "This cannot be the published file: use --from FOLDER with a copy of it."


def _check_room(part: _Part, offset: int, whole: int | None, max_bytes: int) -> None:
    if whole is None:
        return
    if whole > max_bytes:
        raise LimitError(f"{part.url} has {whole:,} bytes; the limit is {max_bytes:,}.", hint=_NOT_THE_FILE)
    free = shutil.disk_usage(part.path.parent).free
    if whole - offset > free:
        raise DataError(
            f"{part.url} needs {whole - offset:,} more bytes in {part.path.parent}, where {free:,} are free.",
            hint="Free some space, or set FLEXKG_HOME to a folder on a larger disk.",
        )


@contextlib.contextmanager
def _opened(request: urllib.request.Request, timeout: float) -> Iterator[Any]:
    """The server's answer; 416 counts as one, other failures raise."""
    try:
        response = urllib.request.build_opener(_Redirects).open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416:
                yield error
                return
            if error.code in _PASSING:
                raise _CutError(
                    f"the server answered {error.code} {error.reason}", _retry_after(error.headers)
                ) from None
            raise DataError(
                f"Cannot download {request.full_url}: the server answered {error.code} {error.reason}.",
                hint="The publisher may have moved the file: get a copy elsewhere and use --from FOLDER.",
            ) from None
    except (OSError, http.client.HTTPException) as error:
        raise _CutError(_reason(error)) from None
    with response:
        yield response


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirections, but never from https to something weaker."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        fp.close()
        _check_scheme(newurl)
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise DataError(
                f"{req.full_url} leads to {newurl}, which is not encrypted.", hint="Use --from FOLDER with a copy."
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_scheme(url: str) -> None:
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise DataError(f"Cannot download {url}: only http and https addresses are read.", hint="Use --from FOLDER.")


def _reason(error: BaseException) -> str:
    reason = getattr(error, "reason", None)
    inner = reason if isinstance(reason, BaseException) else error
    if isinstance(inner, TimeoutError):
        return "the server did not answer in time"
    text = (inner.strerror if isinstance(inner, OSError) else None) or str(inner) or type(inner).__name__
    return text[0].lower() + text[1:]


def _name(url: str) -> str:
    return urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2]) or url


def _length(headers: Message) -> int | None:
    text = headers.get("Content-Length", "")
    return int(text) if text.isdigit() else None


def _range(headers: Message) -> tuple[int | None, int | None]:
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range", ""))
    if not found:
        return None, None
    return int(found[1]), None if found[2] == "*" else int(found[2])


def _whole_length(headers: Message) -> int | None:
    found = re.fullmatch(r"bytes \*/(\d+)", headers.get("Content-Range", ""))
    return int(found[1]) if found else None


def _retry_after(headers: Message) -> float | None:
    text = headers.get("Retry-After", "")
    return float(text) if text.isdigit() else None
