"""Starts the server: a socket, the application on it, and an orderly end."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING

import uvicorn

from flexkg.errors import FlexError
from flexkg.server.app import create_app
from flexkg.server.logs import configure, log
from flexkg.server.protocol import protocol

if TYPE_CHECKING:
    from flexkg.predictor.predictor import Predictor
    from flexkg.server.settings import Settings

_GRACE = 5
"""Seconds beyond the limit of a question that requests under way get when the server is told to end."""


def bind(host: str, port: int) -> socket.socket:
    """A listening address; port 0 takes a free one."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError:
        raise FlexError(f"There is no address {host!r} here.", hint="Try --host 127.0.0.1.") from None
    listening = socket.socket(family, kind, number)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise FlexError(
            f"Cannot listen on {host} port {port}: {error.strerror}.",
            hint="Choose another --port; 0 takes a free one.",
        ) from None
    listening.set_inheritable(True)
    return listening


def url(listening: socket.socket) -> str:
    """Where a browser finds it."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def serve(predictor: Predictor, settings: Settings, listening: socket.socket) -> None:
    """Serve until SIGTERM or Ctrl-C; requests under way are finished."""
    configure()
    limits = settings.limits
    config = uvicorn.Config(
        create_app(predictor, settings),
        http=protocol(limits),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=limits.keep_alive,
        timeout_graceful_shutdown=int(limits.seconds) + _GRACE,
    )
    # uvicorn raises the signal again once it has ended in order; that end is what was asked for.
    signal.signal(signal.SIGTERM, lambda *_: None)
    log("listening", url=url(listening), model=predictor.model.name, data=predictor.run.dataset.name)
    uvicorn.Server(config).run(sockets=[listening])
    log("ended")
