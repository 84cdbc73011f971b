"""`flexkg bench serving`: how fast a real server answers one client, and thirty-two at once.

The server runs in a process of its own; clients keep their connections and ask, one question after the other, a mix of
all the benchmarks' shapes drawn from the graph. Times are from sending a question to having read its answer, over HTTP
on the loopback; clients use the same cores as the server.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from flexkg.api import KnowledgeGraph
from flexkg.errors import FlexError
from flexkg.predictor.fit import train
from flexkg.predictor.predictor import Predictor
from flexkg.query.shapes import SHAPES, ground
from flexkg.sampling.make import Order, make_workload
from flexkg.sampling.sampler import Sampler, WalkIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flexkg.kg.dataset import Dataset

CLIENTS = (1, 32)
_DIMENSION = 400
_WARM_UP = 2.0
_QUESTIONS = 40
"""Of each shape."""


def run(
    dataset: Dataset | None, *, run: Path | None = None, seconds: float = 10.0, report: Callable[[str], None]
) -> dict[str, Any]:
    """All figures; without a run, one with next to no training is made: it answers as fast as a good one."""
    with tempfile.TemporaryDirectory() as folder:
        if run is None:
            assert dataset is not None, "either a run or a graph to make one for"
            report(f"making a run of dimension {_DIMENSION} on {dataset.name}")
            run = _make_run(dataset, Path(folder))
        return _measure(run, seconds, report)


def _make_run(dataset: Dataset, folder: Path) -> Path:
    order = Order(splits=("train", "valid"), shapes=("1p", "2p", "2i", "2in"), count=100)
    make_workload(dataset, folder / "workload", order)
    settings: dict[str, Any] = {
        "model.dim": _DIMENSION,
        "training.steps": 1,
        "training.batch_size": 16,
        "training.negatives": 8,
        "training.shapes": ["1p"],
    }
    kg = KnowledgeGraph(dataset)
    train(kg, "flex", folder / "run", settings=settings, workload=folder / "workload", device="cpu")
    return folder / "run"


def _measure(run: Path, seconds: float, report: Callable[[str], None]) -> dict[str, Any]:
    predictor = Predictor.open(run, "cpu")
    bodies = [json.dumps({"query": text}).encode() for text in _questions(predictor)]
    figures: dict[str, Any] = {
        "data": predictor.run.dataset.name,
        "model": predictor.model.name,
        "dimension": predictor.run.manifest["config"]["model"].get("dim"),
        "entities": predictor.model.num_entities,
        "questions": len(bodies),
        "cores": os.cpu_count(),
        "clients": {},
    }
    del predictor
    with _server(run) as (process, host, port, started):
        figures["start_seconds"] = started
        asyncio.run(_load(host, port, bodies, 1, _WARM_UP))
        for clients in CLIENTS:
            row = asyncio.run(_load(host, port, bodies, clients, seconds))
            figures["clients"][str(clients)] = row
            report(
                f"{clients} clients: p50 {row['p50_ms']:.1f} ms, p99 {row['p99_ms']:.1f} ms, "
                f"{row['requests_per_second']:,.0f} requests/s, {row['errors']} errors"
            )
        figures["memory_mb"] = _peak_mb(process.pid)
    return figures


def _questions(predictor: Predictor) -> list[str]:
    """Questions of every shape in turn, so that any stretch of them is a fair mix."""
    sampler = Sampler(WalkIndex(predictor.run.dataset.graph("train")), seed=0)
    columns = []
    for template in SHAPES.values():
        entities, relations = sampler.draw(template, 2 * _QUESTIONS)
        rows = zip(entities.tolist(), relations.tolist(), strict=True)
        columns.append([predictor.kg.text(ground(template, *row)) for row in rows][:_QUESTIONS])
    return [text for row in zip(*columns, strict=False) for text in row]


@contextmanager
def _server(run: Path) -> Iterator[tuple[subprocess.Popen[str], str, int, float]]:
    """A server in a process of its own, and the seconds until it listened."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "flexkg", "serve", str(run), "--port", "0", "--device", "cpu"]
    # A token that is set for other servers would lock our clients out of this one.
    environment = os.environ | {"FLEXKG_TOKEN": ""}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if "http://" not in line:
                raise FlexError("The server did not start.", hint=f"Try: flexkg serve {run}")
            address = urlsplit("http://" + line.partition("http://")[2].split()[0])
            yield process, str(address.hostname), int(address.port or 0), time.perf_counter() - begin
        finally:
            process.terminate()


async def _load(host: str, port: int, bodies: list[bytes], clients: int, seconds: float) -> dict[str, Any]:
    """Let some clients ask for a while."""
    times: list[float] = []
    begin = time.perf_counter()
    offsets = [len(bodies) * number // clients for number in range(clients)]
    errors = await asyncio.gather(
        *(_client(host, port, bodies[offset:] + bodies[:offset], begin + seconds, times) for offset in offsets)
    )
    passed = time.perf_counter() - begin
    milliseconds = 1000 * np.asarray(times or [float("nan")])
    return {
        "p50_ms": float(np.percentile(milliseconds, 50)),
        "p99_ms": float(np.percentile(milliseconds, 99)),
        "requests": len(times),
        "requests_per_second": len(times) / passed,
        "seconds": passed,
        "errors": sum(errors),
    }


async def _client(host: str, port: int, bodies: list[bytes], until: float, times: list[float]) -> int:
    """Ask question after question over one connection, and count what went wrong."""
    errors = place = 0
    while time.perf_counter() < until:
        try:
            reader, writer = await asyncio.open_connection(host, port)
            while (begin := time.perf_counter()) < until:
                writer.write(_request(bodies[place % len(bodies)]))
                place += 1
                errors += await _status(reader) != 200
                times.append(time.perf_counter() - begin)
            writer.close()
        except (OSError, asyncio.IncompleteReadError):
            errors += 1
            await asyncio.sleep(0.1)
    return errors


def _request(body: bytes) -> bytes:
    head = b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


async def _status(reader: asyncio.StreamReader) -> int:
    """The status of a reply that has been read to its end."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head.split(b" ", 2)[1])


def _peak_mb(process: int) -> float | None:
    """The most memory that a process has held, where the system tells."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except OSError:
        return None
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024
