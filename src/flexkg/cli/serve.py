"""`flexkg serve`: a trained run over HTTP, with a web page."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path  # noqa: TC003  typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated

import typer

from flexkg.cli.output import AsJson, Device, emit
from flexkg.errors import FlexError, MissingExtra

if TYPE_CHECKING:
    import socket

    from flexkg.server.settings import Settings

_PACKAGES = ("fastapi", "uvicorn", "prometheus_client")
_LEAST_TOKEN = 8
_BACKLOG = 1024


def serve_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A folder that `train` made.")],
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 is every one.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")] = 8080,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the token that clients must show; or set FLEXKG_TOKEN.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A further name that clients may call a loopback server by.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, max=10_000, help="The most answers that a client may ask for.")] = 1_000,
    seconds: Annotated[float, typer.Option(min=0.1, help="The most time that a question may take.")] = 10.0,
    body_bytes: Annotated[int, typer.Option(min=1_000, help="The most bytes in a request.")] = 65_536,
    patience: Annotated[
        float, typer.Option(min=0.1, help="The most time for a client to send a request or to take its reply.")
    ] = 10.0,
    requests: Annotated[int, typer.Option(min=1, help="The most requests under way at once.")] = 256,
    connections: Annotated[int, typer.Option(min=1, help="The most connections at once.")] = 512,
    batch: Annotated[int, typer.Option(min=1, help="The most questions answered together.")] = 32,
    threads: Annotated[int, typer.Option(min=1, help="Cores that answering may use.")] = 1,
    log_queries: Annotated[bool, typer.Option("--log-queries", help="Write the queries into the log.")] = False,
    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.AUTO,
    json: AsJson = False,
) -> None:
    """Serve a trained run: an HTTP API and a web page."""
    if any(find_spec(name) is None for name in _PACKAGES):
        raise MissingExtra("The server", "serve")
    from flexkg.server.settings import Limits, Settings
    from flexkg.server.sockets import bind

    limits = Limits(
        body_bytes=body_bytes,
        top=top,
        seconds=seconds,
        patience=patience,
        requests=requests,
        connections=connections,
        batch=batch,
    )
    token = _token(token_file)
    settings = Settings(host, token, tuple(name.lower() for name in allow_host or ()), log_queries, limits)
    # Before the seconds that it takes to load torch: a port that is taken is known at once.
    with bind(host, port) as listening:
        _serve(run, device, settings, listening, threads, json)


def _serve(
    run: Path, device: Device, settings: Settings, listening: socket.socket, threads: int, as_json: bool
) -> None:
    import torch

    from flexkg.predictor.predictor import Predictor
    from flexkg.server.run import serve
    from flexkg.server.sockets import url

    # Small operations on several threads mostly wait for each other, and for the thread that speaks HTTP.
    torch.set_num_threads(threads)
    predictor = Predictor.open(run, device)
    listening.listen(_BACKLOG)
    if settings.token is None and not settings.loopback:
        typer.echo(
            f"warning: anybody who reaches {settings.host} can ask this server; --token-file would ask for a token.",
            err=True,
        )
    model, data = predictor.model.name, predictor.run.dataset.name
    result = {"url": url(listening), "run": str(run), "model": model, "data": data}
    emit(result, as_json, lambda: typer.echo(f"{model} on {data}: {result['url']}  (Ctrl-C ends it)"))
    serve(predictor, settings, listening)


def _token(file: Path | None) -> str | None:
    """The token from a file or the environment."""
    if file is None:
        token = os.environ.get("FLEXKG_TOKEN", "").strip() or None
    else:
        try:
            token = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise FlexError(f"Cannot read the token in {file}: {reason}.") from None
    if token is not None and (len(token) < _LEAST_TOKEN or not token.isascii() or not token.isprintable()):
        raise FlexError(
            f"The token must be at least {_LEAST_TOKEN} printable ASCII characters.",
            hint="Make one with: openssl rand -hex 32",
        )
    return token
