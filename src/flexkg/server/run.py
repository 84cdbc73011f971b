"""Runs the server: the application on a socket, and an orderly end."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import uvicorn

from flexkg.server.app import create_app
from flexkg.server.logs import configure, log
from flexkg.server.protocol import protocol
from flexkg.server.sockets import url

if TYPE_CHECKING:
    import socket

    from flexkg.predictor.predictor import Predictor
    from flexkg.server.settings import Settings

_GRACE = 5
"""Seconds beyond the limit of a question that requests under way get when the server is told to end."""


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
