"""Connections with an end: HTTP/1.1 as uvicorn speaks it, to clients that may be slow, many or hostile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from flexkg.server.replies import Fault

if TYPE_CHECKING:
    import asyncio

    from flexkg.server.settings import Limits

_BUSY = Fault(429, "busy", "Too many connections.", "Try again in a second.")
_GARBLED = Fault(400, "request", "This is not a valid HTTP/1.1 request.")
_REASONS = {400: b"Bad Request", 429: b"Too Many Requests"}


def protocol(limits: Limits) -> type[H11Protocol]:
    """uvicorn's protocol with limits on connections and on what a client may take its time with."""

    class Patient(H11Protocol):
        """Closes connections that send a request, or take a reply, too slowly."""

        _begun: asyncio.TimerHandle | None = None
        _stuck: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            """Begin; one connection too many is told so."""
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                self._close_with(_BUSY)
                return
            self._begun = self.loop.call_later(limits.patience, self._give_up)

        def connection_lost(self, exc: Exception | None) -> None:
            """End."""
            self._forget()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            """Take what came; a request that has begun must be there soon, however it trickles in."""
            if self._begun is None:
                self._begun = self.loop.call_later(limits.patience, self._give_up)
            super().data_received(data)

        def on_response_complete(self) -> None:
            """Wait for the next request, as long as an idle connection is kept."""
            if self._begun is not None:
                self._begun.cancel()
                self._begun = None
            super().on_response_complete()

        def pause_writing(self) -> None:
            """The client does not read; wait, but not for ever."""
            super().pause_writing()
            self._stuck = self._stuck or self.loop.call_later(limits.patience, self.transport.abort)

        def resume_writing(self) -> None:
            """The client reads again."""
            if self._stuck is not None:
                self._stuck.cancel()
                self._stuck = None
            super().resume_writing()

        def send_400_response(self, msg: str) -> None:  # noqa: ARG002  (its text is for people, ours is JSON)
            """Answer what is no HTTP; in the midst of a reply there is nothing to say."""
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                self._close_with(_GARBLED)
            else:
                self.transport.close()

        def _give_up(self) -> None:
            self._begun = None
            # While a request is being served the application minds the time.
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()

        def _forget(self) -> None:
            for timer in (self._begun, self._stuck):
                if timer is not None:
                    timer.cancel()
            self._begun = self._stuck = None

        def _close_with(self, fault: Fault) -> None:
            body = fault.body()
            head = (
                b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
                b"x-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head % (fault.status, _REASONS[fault.status], len(body)) + body)
            self.transport.close()

    return Patient
