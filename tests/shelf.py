"""A web server with files on a shelf, and somebody who watches a download."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from flexkg.kg import download

if TYPE_CHECKING:
    from pathlib import Path

BODY = bytes(range(256)) * 4000


class Shelf:
    """A server's files, how it behaves, and what it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.files: dict[str, bytes] = {"/file.bin": BODY}
        self.tags: dict[str, str] = {}
        self.ranges = True
        self.validators = True
        # What to do with the next requests: an HTTP status, or how many bytes to send before hanging up.
        self.script: list[tuple[str, int]] = []
        self.asked: list[dict[str, str]] = []
        self.redirects: dict[str, str] = {}

    def tag(self, path: str) -> str:
        return self.tags.get(path) or f'"{hashlib.sha256(self.files[path]).hexdigest()[:8]}"'


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    shelf: Shelf

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        shelf = self.shelf
        self.close_connection = True
        shelf.asked.append(dict(self.headers))
        kind, number = shelf.script.pop(0) if shelf.script else ("", 0)
        if kind == "status":
            self.reply(number, {"Retry-After": "7"}, b"")
        elif self.path in shelf.redirects:
            self.reply(302, {"Location": shelf.redirects[self.path]}, b"")
        elif self.path not in shelf.files:
            self.reply(404, {}, b"")
        else:
            self.serve(shelf.files[self.path], number if kind == "cut" else None)

    def serve(self, body: bytes, cut: int | None) -> None:
        headers = {"ETag": self.shelf.tag(self.path)} if self.shelf.validators else {}
        wanted, start, status = self.headers.get("Range"), 0, 200
        fresh = self.headers.get("If-Range") == self.shelf.tag(self.path)
        if wanted and self.shelf.ranges and fresh:
            start, status = int(wanted.removeprefix("bytes=").removesuffix("-")), 206
            if start >= len(body):
                self.reply(416, {"Content-Range": f"bytes */{len(body)}"}, b"")
                return
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        self.reply(status, headers, body[start:], cut)

    def reply(self, status: int, headers: dict[str, str], body: bytes, cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:cut])


class Watch:
    """Records pauses and progress; can interrupt like a person would."""

    def __init__(self, interrupt_after: int | None = None) -> None:
        self.pauses: list[float] = []
        self.starts: list[tuple[str, int, int | None]] = []
        self.notes: list[str] = []
        self.done = 0
        self.interrupt_after = interrupt_after

    def patience(self, **changes: Any) -> download.Patience:
        return replace(download.Patience(timeout=5, sleep=self.pauses.append), **changes)

    def start(self, what: str, done: int, total: int | None) -> None:
        self.starts.append((what, done, total))

    def advance(self, count: int) -> None:
        self.done += count
        if self.interrupt_after is not None and self.done >= self.interrupt_after:
            raise KeyboardInterrupt

    def note(self, text: str) -> None:
        self.notes.append(text)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
