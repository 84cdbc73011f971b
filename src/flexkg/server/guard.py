"""What every request passes: who may ask, how much and how fast, and what is said, logged and counted of it."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from typing import TYPE_CHECKING, Any

from flexkg.server.logs import log, log_fault
from flexkg.server.replies import Fault, RequestError, fault_of, internal
from flexkg.server.settings import LOOPBACK

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from flexkg.server.metrics import Metrics
    from flexkg.server.settings import Settings

_HEADERS = [
    (b"content-security-policy", b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
]
_BODILESS = ("GET", "HEAD", "OPTIONS")
_DRAINED_BYTES, _DRAINED_SECONDS = 4 << 20, 1.0


class _Gone(Exception):  # noqa: N818  (the client has left; nothing is wrong)
    pass


class Guard:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._under_way = 0
        self._token = None if settings.token is None else settings.token.encode()
        # A page elsewhere can have its name point to the loopback; it then still names itself in Host.
        guarded = settings.loopback and settings.token is None
        self._hosts = {*LOOPBACK, settings.host, *settings.hosts} if guarded else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        reply = _Reply(send, secrets.token_hex(8))
        scope["flexkg"] = {}
        begin = time.perf_counter()
        self._under_way += 1
        self._metrics.under_way.set(self._under_way)
        try:
            await self._serve(scope, receive, reply)
        except _Gone:
            reply.status = 499
        except Exception as error:
            await self._failed(error, receive, reply)
        finally:
            self._under_way -= 1
            self._metrics.under_way.set(self._under_way)
            self._note(scope, reply, time.perf_counter() - begin)

    async def _serve(self, scope: Scope, receive: Receive, reply: _Reply) -> None:
        headers = dict(scope["headers"])
        self._admit(scope["path"], headers)
        if scope["method"] not in _BODILESS:
            receive = _replay(await self._body(headers, receive))
        await self._app(scope, receive, reply.send)

    def _admit(self, path: str, headers: dict[bytes, bytes]) -> None:
        limits = self._settings.limits
        if self._under_way > limits.requests:
            raise RequestError(
                429,
                "Too many requests at once.",
                kind="busy",
                hint="Try again in a second.",
                headers={"Retry-After": "1"},
            )
        if self._hosts is not None and _host_name(headers.get(b"host", b"")) not in self._hosts:
            raise RequestError(
                403,
                "This server does not go by that name.",
                kind="host",
                hint="Call it localhost, or start it with --allow-host NAME.",
            )
        if self._token is not None and (path.startswith("/v1/") or path == "/metrics"):
            scheme, _, shown = headers.get(b"authorization", b"").partition(b" ")
            # The comparison takes as long for a good guess as for a bad one.
            if not hmac.compare_digest(shown.strip(), self._token) or scheme.lower() != b"bearer":
                raise RequestError(
                    401,
                    "This server answers only to who shows its token.",
                    kind="token",
                    hint="Send the header Authorization: Bearer TOKEN.",
                    headers={"WWW-Authenticate": "Bearer"},
                )

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """The whole body, within the limits on size and time."""
        most = self._settings.limits.body_bytes
        announced = headers.get(b"content-length", b"")
        if announced.isdigit() and int(announced[:19]) > most:
            raise _too_large(most)
        body = bytearray()
        try:
            async with asyncio.timeout(self._settings.limits.patience):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Gone
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise _too_large(most)
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise RequestError(
                408, "The body did not arrive in time.", kind="time", headers={"Connection": "close"}
            ) from None

    async def _failed(self, error: Exception, receive: Receive, reply: _Reply) -> None:
        fault = fault_of(error)
        if fault is None:
            log_fault(reply.id, error, with_message=self._settings.log_queries)
            fault = internal(reply.id)
        if not reply.begun:
            await reply.fault(fault, receive)

    def _note(self, scope: Scope, reply: _Reply, seconds: float) -> None:
        # Our routes have no parameters, so what was found is called as it was asked for.
        route = scope["path"] if "endpoint" in scope else "unmatched"
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.requests.labels(route, method, str(reply.status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        kind = reply.kind or scope["flexkg"].get("kind")
        if kind is not None:
            self._metrics.errors.labels(kind).inc()
        fields: dict[str, Any] = {
            "id": reply.id,
            "method": method,
            "route": route,
            "status": reply.status,
            "milliseconds": round(1000 * seconds, 2),
            "bytes": reply.bytes,
        }
        if kind is not None:
            fields["kind"] = kind
        if self._settings.log_queries and "query" in scope["flexkg"]:
            fields["query"] = scope["flexkg"]["query"]
        log("request", **fields)


_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}


class _Reply:
    """The way back to the client; notes what is sent."""

    def __init__(self, send: Send, id: str) -> None:
        self._send = send
        self.id = id
        self.begun = False
        self.status = 500
        self.bytes = 0
        self.kind: str | None = None

    async def send(self, message: Message) -> None:
        """Send on, with our headers."""
        if message["type"] == "http.response.start":
            self.begun = True
            self.status = message["status"]
            headers = [*message.get("headers", []), *_HEADERS, (b"x-request-id", self.id.encode())]
            message = {**message, "headers": headers}
        elif message["type"] == "http.response.body":
            self.bytes += len(message.get("body", b""))
        await self._send(message)

    async def fault(self, fault: Fault, receive: Receive) -> None:
        """Send an error."""
        self.kind = fault.kind
        body = fault.body()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        headers += [(name.lower().encode(), value.encode()) for name, value in fault.headers]
        await self.send({"type": "http.response.start", "status": fault.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": True})
        if ("Connection", "close") in fault.headers:
            await _drain(receive)
        await self.send({"type": "http.response.body", "body": b""})


async def _drain(receive: Receive) -> None:
    """Read on for a moment: closing a connection on a client that still sends would lose it our reply."""
    left = _DRAINED_BYTES
    try:
        async with asyncio.timeout(_DRAINED_SECONDS):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return


def _replay(body: bytes) -> Receive:
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if sent:
            return {"type": "http.disconnect"}
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _too_large(most: int) -> RequestError:
    return RequestError(413, f"The body is larger than {most:,} bytes.", kind="limit", headers={"Connection": "close"})


def _host_name(value: bytes) -> str:
    """The name in a Host header, without the port."""
    text = value.decode("latin-1").strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]
