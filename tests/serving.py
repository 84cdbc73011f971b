"""A real server in a process of its own, and an application called without one."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        content = self.json()
        assert list(content) == ["error"]
        assert list(content["error"]) == ["kind", "message", "line", "column", "hint"]
        return content["error"]


class Server:
    """`flexkg serve` on a free port, until the block ends."""

    def __init__(self, run: Path, *options: str, **environment: str) -> None:
        self._log = tempfile.NamedTemporaryFile()  # noqa: SIM115  (closed with the server)
        command = [sys.executable, "-m", "flexkg", "serve", str(run), "--port", "0", "--device", "cpu", *options]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=os.environ | {"FLEXKG_TOKEN": ""} | environment,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert "http://" in line, f"no address: {line!r} {self.log()}"
        self.url = "http://" + line.partition("http://")[2].split()[0]
        address = urlsplit(self.url)
        self.address = (str(address.hostname), int(address.port or 0))

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()

    def log(self) -> str:
        """The whole lines that the server has written to standard error."""
        # Opened anew: the server writes where its file stands, and seeking in ours would move that too.
        written = Path(self._log.name).read_bytes()
        return written[: written.rfind(b"\n") + 1].decode()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self.address, timeout=30)

    def socket(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=30)

    def request(
        self, method: str, path: str, body: bytes | str | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        connection = self.connect()
        try:
            return send(connection, method, path, body, headers)
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        return self.request("GET", path, headers=headers)

    def post(self, path: str, **fields: Any) -> Reply:
        return self.request("POST", path, json.dumps(fields), JSON)

    def raw(self, *parts: bytes) -> bytes:
        """Send bytes as they are, and read until the server closes."""
        with self.socket() as client:
            for part in parts:
                client.sendall(part)
            return read_all(client)


JSON = {"Content-Type": "application/json"}


def send(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    content = body.encode() if isinstance(body, str) else body
    connection.request(method, path, content, dict(headers or {}))
    reply = connection.getresponse()
    return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())


def read_all(client: socket.socket) -> bytes:
    """Everything until the other side closes."""
    parts = []
    try:
        while part := client.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def call(app: Any, method: str, path: str, **fields: Any) -> Reply:
    """One request to an application in this process, for what a server in another cannot be brought to do."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": json.dumps(fields).encode(), "more_body": False}

    async def take(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    asyncio.run(app(scope, receive, take))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Reply(sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:]))
