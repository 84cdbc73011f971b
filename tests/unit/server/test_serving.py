"""The command: questions at once, an orderly end, a token, logs, and mistakes in its options."""

from __future__ import annotations

import json
import random
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from flexkg.cli.main import run
from serving import JSON, Server, read_all, send

QUERIES = (
    "?x : borders(France, ?x)",
    "?x : borders(Portugal, ?y) & borders(?y, ?x)",
    "?x : borders(France, ?x) & speaks(?x, German)",
    "?x : borders(France, ?x) & !uses(?x, Euro)",
    "?x : capital(France, ?x) | capital(Spain, ?x)",
    "?x : speaks(?x, German) ^ borders(France, ?x)",
    "?x : borders(?y, ?x)",
    "?x : borders(Frnace, ?x)",
)
TOKEN = {"Authorization": "Bearer a-secret-token"}


def shape(reply):
    """What must not depend on who else asks: everything but the last digits of scores."""
    content = reply.json()
    if reply.status == 200:
        content["estimate"] = round(content["estimate"], 2)
        for answer in content["answers"]:
            answer["score"], answer["probability"] = round(answer["score"], 3), round(answer["probability"], 4)
    return reply.status, content


def close(first, second):
    assert first[0] == second[0]
    if first[0] != 200:
        assert first == second
        return
    one, other = first[1], second[1]
    assert [answer["entity"] for answer in one["answers"]] == [answer["entity"] for answer in other["answers"]]
    for key in ("score", "probability"):
        values = [[answer[key] for answer in found["answers"]] for found in (one, other)]
        assert values[0] == pytest.approx(values[1], abs=1e-3)
    assert one["known_count"] == other["known_count"]


def test_many_at_once_get_what_each_gets_alone(server):
    alone = {
        (query, top): shape(server.post("/v1/ask", query=query, top=top)) for query in QUERIES for top in (1, 5, 30)
    }
    wanted = list(alone) * 10
    random.Random(3).shuffle(wanted)
    with ThreadPoolExecutor(32) as pool:
        together = list(pool.map(lambda job: shape(server.post("/v1/ask", query=job[0], top=job[1])), wanted))
    for job, found in zip(wanted, together, strict=True):
        close(found, alone[job])
    lines = server.get("/metrics").body.decode().splitlines()
    figure = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[0] != "#"}
    assert figure["flexkg_batch_size_sum"] > figure["flexkg_batch_size_count"], "some were answered together"


def test_one_connection_serves_many_requests(server):
    connection = server.connect()
    for _ in range(5):
        assert send(connection, "POST", "/v1/ask", json.dumps({"query": QUERIES[0]}), JSON).status == 200
        assert send(connection, "POST", "/v1/ask", json.dumps({"query": "?"}), JSON).status == 400
    connection.close()


def test_sigterm_finishes_what_was_begun(small_run):
    content = json.dumps({"query": QUERIES[0], "top": 2}).encode()
    head = (
        f"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
    )
    with Server(small_run) as server:
        with server.socket() as begun, server.socket() as idle:
            begun.sendall(head.encode() + b"\r\n\r\n" + content[:10])
            # The request is under way once another that came later is answered.
            assert server.get("/health").status == 200
            server.process.send_signal(signal.SIGTERM)
            assert read_all(idle) == b""
            begun.sendall(content[10:])
            reply = read_all(begun)
        assert reply.startswith(b"HTTP/1.1 200 ")
        assert len(json.loads(reply.partition(b"\r\n\r\n")[2])["answers"]) == 2
        assert server.process.wait(30) == 0
        assert '"event": "ended"' in server.log()
        with pytest.raises(ConnectionRefusedError):
            server.socket()


def test_a_token_opens_the_api(strict):
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic a-secret-token"},
        {"Authorization": ""},
    ):
        for path in ("/v1/info", "/v1/entities?prefix=a", "/metrics", "/v1/nothing"):
            reply = strict.request("GET", path, headers=headers)
            assert (reply.status, reply.error["kind"]) == (401, "token")
            assert reply.headers["www-authenticate"] == "Bearer"
    assert strict.request("GET", "/v1/info", headers=TOKEN).status == 200
    assert strict.request("GET", "/metrics", headers=TOKEN).status == 200
    assert strict.get("/health").status == 200
    assert strict.get("/").status == 200


def test_options_set_the_limits(strict):
    def ask(**fields):
        return strict.request("POST", "/v1/ask", json.dumps(fields), JSON | TOKEN)

    assert ask(query=QUERIES[0], top=5).status == 200
    assert ask(query=QUERIES[0], top=6).error["message"] == "top is larger than 5, the most that is allowed."
    assert ask(query=" " * 2000).error["message"] == "The body is larger than 2,000 bytes."


def lines(server):
    # A line is written right after its reply; once a later request is answered it is there.
    server.get("/health")
    return [json.loads(line) for line in server.log().splitlines()]


def test_the_log_is_json_and_keeps_questions_to_itself(server):
    server.post("/v1/ask", query="?x : borders(Liechtenstein, ?x)")
    server.post("/v1/check", query="?x : borders(Liechtenstone, ?x)")
    server.get("/v1/entities?prefix=Liechtenst")
    server.get("/Liechtenstein")
    entries = lines(server)
    assert entries[0]["event"] == "listening"
    request = next(entry for entry in reversed(entries) if entry.get("route") == "/v1/ask")
    assert set(request) >= {"time", "level", "event", "id", "method", "route", "status", "milliseconds", "bytes"}
    assert "Liechtenst" not in server.log()
    assert "borders" not in server.log()


def test_the_log_tells_questions_if_told_to(strict):
    strict.request("POST", "/v1/ask", json.dumps({"query": "?x : borders(Liechtenstein, ?x)"}), JSON | TOKEN)
    assert "?x : borders(Liechtenstein, ?x)" in [entry.get("query") for entry in lines(strict)]
    assert "a-secret-token" not in strict.log()


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_mistakes_in_the_options(small_run, tmp_path, capsys, threads, monkeypatch):
    (tmp_path / "token").write_text("short")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments, message in (
            (
                [str(small_run), "--port", port],
                f"Cannot listen on 127.0.0.1 port {port}: Address already in use. Choose",
            ),
            ([str(tmp_path), "--port", "0"], "is not a run"),
            ([str(small_run), "--token-file", str(tmp_path / "token")], "at least 8"),
            ([str(small_run), "--token-file", str(tmp_path / "none")], "Cannot read the token"),
            ([str(small_run), "--host", "not a host"], "no address"),
            ([str(small_run), "--port", "70000"], "65535"),
        ):
            assert run(["serve", *arguments]) == 2
            printed = capsys.readouterr()
            assert printed.out == ""
            assert printed.err.startswith("error: ")
            assert message in printed.err
            assert printed.err.count("\n") == 1
    monkeypatch.setenv("FLEXKG_TOKEN", "tökentoken")
    assert run(["serve", str(small_run)]) == 2
    assert "ASCII" in capsys.readouterr().err


def test_json_is_one_object_once_it_listens(small_run):
    command = [sys.executable, "-m", "flexkg", "serve", str(small_run), "--port", "0", "--device", "cpu", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        found = json.loads(process.stdout.readline())
        assert list(found) == ["url", "run", "model", "data"]
        assert (found["run"], found["data"]) == (str(small_run), "world")
        with urllib.request.urlopen(found["url"] + "health") as reply:
            assert reply.status == 200
        process.terminate()
        assert process.stdout.read() == ""
    assert process.returncode == 0


def test_without_the_extra_it_says_what_to_install(small_run):
    blocker = "import sys; sys.modules['fastapi'] = None; from flexkg.cli.main import run; sys.exit(run(sys.argv[1:]))"
    program = [sys.executable, "-c", blocker, "serve", str(small_run)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert re.search(r'them with: pip install "fastapi[^ ]*" "uvicorn[^ ]*" "prometheus-client[^ ]*"', done.stderr)


def test_open_to_all_comes_with_a_warning(small_run):
    with Server(small_run, "--host", "0.0.0.0") as server:
        assert "warning: anybody who reaches 0.0.0.0" in server.log()
        assert server.request("GET", "/health", headers={"Host": "any.example"}).status == 200
    with Server(small_run, "--allow-host", "graph.example", FLEXKG_TOKEN="") as server:
        assert "warning" not in server.log()
        assert server.request("GET", "/health", headers={"Host": "graph.example"}).status == 200
