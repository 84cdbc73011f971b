"""What the readers of all formats share: batches of triples, bad lines, counts, names found on the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from flexkg.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Progress = Callable[[str, int, int], None]
    """Called with what is being done, how much of it is done and how much there is (bytes; 0 when unknown)."""

_SHOWN = 10
_EXCERPT = 80


class Batch(NamedTuple):
    """Some triples of a file, in its order."""

    entities: list[str]
    """head, tail, head, tail, ..."""
    relations: list[str]


@dataclass
class Lexicon:
    """Names, descriptions and aliases by identifier, and prefixes, as met in the files."""

    names: dict[str, str] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, list[str]] = field(default_factory=dict)
    prefixes: dict[str, str] = field(default_factory=dict)


class BadLines:
    """Counts lines that cannot be read, keeps the first few, and stops the import past a limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        self.shown: list[dict[str, Any]] = []

    def add(self, path: Path, line: int, reason: str, text: str | bytes = "") -> None:
        """Note one bad line; `line` counts from 1."""
        self.count += 1
        if len(self.shown) < _SHOWN:
            if isinstance(text, bytes):
                text = text[: 4 * _EXCERPT].decode("utf-8", errors="replace")
            self.shown.append({"file": str(path), "line": line, "reason": reason, "text": text[:_EXCERPT]})
        if self.count > self.limit:
            raise DataError(self._stop(), hint="Correct the file, or allow more bad lines with --max-errors.")

    def _stop(self) -> str:
        first = "; ".join(f"{bad['file']} line {bad['line']}: {bad['reason']}" for bad in self.shown[:3])
        allowed = "no bad line is allowed" if self.limit == 0 else f"there are more than {self.limit:,} bad lines"
        return f"Nothing was imported, since {allowed} ({first})."


class Reading:
    """The state of one import while files are read."""

    def __init__(self, max_errors: int, progress: Progress | None) -> None:
        self.bad = BadLines(max_errors)
        self.counts: Counter[str] = Counter()
        self.lexicon = Lexicon()
        self.headers: dict[str, list[str]] = {}
        self._progress = progress

    def tick(self, what: str, done: int, total: int) -> None:
        """Tell the user how far we are."""
        if self._progress is not None:
            self._progress(what, done, total)
