"""What a server is told at its start: where to listen, whom to let in, and how much one request may ask for."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one client may ask for; past a limit the reply says which."""

    body_bytes: int = 65_536
    query_characters: int = 10_000
    query_parts: int = 2_000
    """Operators and names in a question, as the model runs it: unions may multiply what was written."""
    explained_parts: int = 200
    """The same for a question that is to be explained: every part of it is then answered by itself."""
    explained_answers: int = 20
    """Answers that get reasons; the rest of the list comes without."""
    top: int = 1_000
    listed: int = 10_000
    """Exact answers in a reply."""
    prefix_characters: int = 200
    completions: int = 100
    seconds: float = 10.0
    """For a question, from its arrival to its answer."""
    patience: float = 10.0
    """Seconds for a client to send what it has begun to send, or to take what it is sent."""
    keep_alive: int = 30
    """Seconds that an idle connection is kept."""
    requests: int = 256
    """Requests under way at once."""
    connections: int = 512
    batch: int = 32
    """Questions that are answered together."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A server's settings."""

    host: str = "127.0.0.1"
    token: str | None = None
    """What a client must show to be answered; None lets everybody in."""
    hosts: tuple[str, ...] = ()
    """Further names that clients may call a server on the loopback by, as when a proxy stands in front of it."""
    log_queries: bool = False
    limits: Limits = field(default_factory=Limits)

    @property
    def loopback(self) -> bool:
        """Whether only programs on this machine reach the server."""
        return self.host in LOOPBACK or self.host.startswith("127.")


LOOPBACK = ("localhost", "127.0.0.1", "::1")
