"""Where the server listens."""

from __future__ import annotations

import socket

from flexkg.errors import FlexError


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
