"""Whatever is sent: a reply in one form, nothing of the inside, and a server that goes on."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import socket
import time

import pytest
import torch
from safetensors.torch import load_file, save_file

import flexkg
from flexkg.server.app import create_app
from flexkg.server.settings import Limits, Settings
from serving import JSON, call, read_all

GOOD = "?x : borders(France, ?x)"


def body(**fields):
    return json.dumps(fields)


LANDS = ("France", "Spain", "Italy", "Germany", "Portugal", "Belgium", "Poland", "Austria")
MONEY = ("EUR", "CHF", "AUD", "BRL", "CAD", "CLP", "CNY", "COP")

WRONG = {
    "no such entity": ("POST", "/v1/ask", body(query="?x : borders(Frnace, ?x)"), 400, "query", "Frnace"),
    "no query at all": ("POST", "/v1/ask", body(query=""), 400, "query", ""),
    "no operator": ("POST", "/v1/ask", body(query="?x : borders(?y, ?x)"), 400, "unsupported", "nothing anchors"),
    "exact, wrong": ("POST", "/v1/answer", body(query="?x : borders(France"), 400, "query", "never closed"),
    "missing field": ("POST", "/v1/ask", body(top=3), 422, "request", "query: this field is missing"),
    "unknown field": ("POST", "/v1/ask", body(query=GOOD, tpo=3), 422, "request", "tpo: there is no such field"),
    "text for a number": ("POST", "/v1/ask", body(query=GOOD, top="3"), 422, "request", "top: input"),
    "fraction": ("POST", "/v1/ask", body(query=GOOD, top=1.5), 422, "request", "top: input"),
    "truth for a number": ("POST", "/v1/ask", body(query=GOOD, top=True), 422, "request", "top: input"),
    "number for a text": ("POST", "/v1/answer", body(query=3), 422, "request", "query: input"),
    "negative": ("POST", "/v1/ask", body(query=GOOD, top=-1), 422, "request", "top: input"),
    "too many": ("POST", "/v1/ask", body(query=GOOD, top=1001), 413, "limit", "top is larger than 1,000"),
    "too many exact": ("POST", "/v1/answer", body(query=GOOD, limit=10**6), 413, "limit", "larger than 10,000"),
    "list": ("POST", "/v1/ask", "[1]", 422, "request", "not a JSON object"),
    "null": ("POST", "/v1/ask", "null", 422, "request", "not a JSON object"),
    "nothing": ("POST", "/v1/ask", "", 422, "request", "not a JSON object"),
    "broken JSON": ("POST", "/v1/ask", '{"query": ', 422, "request", "not a JSON object"),
    "nested JSON": ("POST", "/v1/ask", "[" * 30_000, 422, "request", ""),
    "huge number": ("POST", "/v1/ask", '{"query": "a", "top": ' + "9" * 6000 + "}", 422, "request", ""),
    "infinite": ("POST", "/v1/ask", '{"query": "a", "top": Infinity}', 422, "request", "top"),
    "half a character": ("POST", "/v1/ask", '{"query": "?x : borders(\\"\\ud800\\", ?x)"}', 400, "query", ""),
    "null character": ("POST", "/v1/ask", body(query="?x : borders(\x00, ?x)"), 400, "query", ""),
    "long query": ("POST", "/v1/ask", body(query="?x : " + "a" * 10_000), 413, "limit", "10,000 are allowed"),
    "unions that multiply somewhat": (
        "POST",
        "/v1/ask",
        body(
            query="?x : "
            + " & ".join(f'(borders({a}, ?x) | uses(?x, "currency:{b}"))' for a, b in zip(LANDS, MONEY, strict=True))
        ),
        413,
        "limit",
        "2,000 are allowed",
    ),
    "unions that multiply": (
        "POST",
        "/v1/ask",
        body(
            query="?x : " + " & ".join("(borders(France, ?x) | borders(Spain, ?x) | uses(?x, Euro))" for _ in range(12))
        ),
        413,
        "limit",
        "",
    ),
    "long prefix": ("GET", "/v1/entities?prefix=" + "a" * 300, None, 413, "limit", "200 characters"),
    "many completions": ("GET", "/v1/relations?limit=101", None, 413, "limit", "larger than 100"),
    "no completions": ("GET", "/v1/entities?limit=0", None, 422, "request", "limit"),
    "no such page": ("GET", "/v2/ask", None, 404, "request", "nothing here"),
    "outside": ("GET", "/page/../app.py", None, 404, "request", "nothing here"),
    "outside, hidden": ("GET", "/page/%2e%2e/app.py", None, 404, "request", "nothing here"),
    "wrong method": ("DELETE", "/v1/ask", None, 405, "request", "method"),
    "get for post": ("GET", "/v1/ask", None, 405, "request", "method"),
    "no method at all": ("BREW", "/v1/ask", None, 405, "request", "method"),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes(server, small_run, name):
    method, path, content, status, kind, message = WRONG[name]
    reply = server.request(method, path, content, JSON)
    assert (reply.status, reply.error["kind"]) == (status, kind)
    assert message in reply.error["message"]
    assert reply.headers["content-type"] == "application/json"
    text = reply.body.decode()
    for inside in ("Traceback", ".py", str(small_run.parent), "site-packages", "pydantic"):
        assert inside not in text
    if kind == "query" and "Frnace" in (content or ""):
        assert (reply.error["line"], reply.error["column"]) == (1, 14)


def test_a_thousand_parentheses(server):
    for query in (
        "?x : " + "(" * 1000 + "borders(France, ?x)" + ")" * 1000,
        "?x : " + "!" * 1000 + "borders(France, ?x)",
    ):
        for path in ("/v1/ask", "/v1/answer", "/v1/check"):
            reply = server.post(path, query=query)
            fault = reply.json()["error"]
            assert reply.status == (200 if path == "/v1/check" else 400 if fault["kind"] == "query" else 413)
            assert "deep" in fault["message"] or "levels" in fault["message"] or "nested" in fault["message"]


def test_a_long_explanation_is_refused(server):
    countries = server.get("/v1/entities?prefix=country:&limit=80").json()["entities"]
    query = "?x : " + " & ".join(f"!borders(?x, {country['text']})" for country in countries)
    reply = server.post("/v1/ask", query=query, explain=True)
    assert (reply.status, reply.error["kind"]) == (413, "limit")
    assert "to be explained" in reply.error["message"]
    assert server.post("/v1/ask", query=query).status == 200


def test_bodies_of_noise(server):
    noise = random.Random(7)
    connection = server.connect()
    for _ in range(60):
        content = bytes(noise.randrange(256) for _ in range(noise.randrange(400)))
        for kind in (JSON, {"Content-Type": "text/plain"}, {}):
            connection.request("POST", noise.choice(["/v1/ask", "/v1/answer", "/v1/check"]), content, kind)
            reply = connection.getresponse()
            assert reply.status == 422
            assert json.loads(reply.read())["error"]["kind"] == "request"
    connection.close()


def test_a_large_body_is_refused_by_its_size_and_by_its_word(server):
    reply = server.request("POST", "/v1/ask", b" " * 100_000, JSON)
    assert (reply.status, reply.error["kind"]) == (413, "limit")
    head = b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    announced = server.raw(head + b"Content-Length: 99999999999999999999\r\n\r\n")
    assert announced.startswith(b"HTTP/1.1 413 ")
    chunk = b"4000\r\n" + b" " * 0x4000 + b"\r\n"
    chunked = server.raw(head + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 8)
    assert chunked.startswith(b"HTTP/1.1 413 ")
    assert b'{"error":{"kind":"limit","message":"The body is larger than 65,536 bytes."' in chunked


@pytest.mark.parametrize(
    "bytes_",
    [
        b"garbage\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000,
        b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: nine\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        bytes(range(256)) * 4,
        b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["words", "long header", "length", "address", "bytes", "chunk"],
)
def test_what_is_no_http(server, bytes_):
    reply = server.raw(bytes_)
    assert reply.startswith(b"HTTP/1.1 400 ")
    assert json.loads(reply.partition(b"\r\n\r\n")[2])["error"]["kind"] == "request"
    assert server.get("/health").status == 200


def test_pages_elsewhere_cannot_ask_for_us(server):
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", ""):
        reply = server.request("GET", "/v1/info", headers={"Host": host})
        assert (reply.status, reply.error["kind"]) == (403, "host")
    for host in ("localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]:8080"):
        assert server.request("GET", "/health", headers={"Host": host}).status == 200
    assert "access-control-allow-origin" not in server.get("/v1/info", Origin="http://evil.example").headers


def test_slow_clients_are_let_go(strict):
    head = b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a-secret-token\r\n"
    silent, begun, half, unread = (strict.socket() for _ in range(4))
    begun.sendall(b"GET /health HTTP/1.1\r\nHost: loc")
    half.sendall(head + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
    # A reply comes although its body has not, and the rest is not waited for.
    unread.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
    assert read_all(silent) == b""
    assert read_all(begun) == b""
    late = read_all(half)
    assert late.startswith(b"HTTP/1.1 408 ")
    assert b'"kind":"time"' in late
    unread.sendall(b"{")
    assert read_all(unread).startswith(b"HTTP/1.1 200 ")
    for client in (silent, begun, half, unread):
        client.close()
    assert strict.get("/health").status == 200


def test_who_does_not_read_is_let_go(strict):
    def open_files():
        figures = strict.request("GET", "/metrics", headers={"Authorization": "Bearer a-secret-token"}).body.decode()
        return float(figures.partition("\nprocess_open_fds ")[2].split()[0])

    def wait(until):
        deadline = time.monotonic() + 60
        while not until():
            assert time.monotonic() < deadline
            time.sleep(0.1)

    seen = [0.0]
    wait(lambda: seen.append(open_files()) or (len(seen) > 5 and len(set(seen[-4:])) == 1))
    count = 2000
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(30)
        client.connect(strict.address)
        client.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * count)
        # What fits into the buffers on the way is sent; then the server waits, but not for ever.
        wait(lambda: open_files() > seen[-1])
        wait(lambda: open_files() <= seen[-1])
        assert 0 < read_all(client).count(b"HTTP/1.1 200 ") < count
    assert strict.get("/health").status == 200


def test_one_connection_too_many_is_told_so(strict):
    with contextlib.ExitStack() as stack:
        for _ in range(12):
            client = stack.enter_context(strict.socket())
            client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
        reply = read_all(stack.enter_context(strict.socket()))
    assert reply.startswith(b"HTTP/1.1 429 ")
    assert json.loads(reply.partition(b"\r\n\r\n")[2])["error"]["kind"] == "busy"


def test_a_client_that_leaves_is_forgotten(server):
    for _ in range(20):
        with server.socket() as client:
            client.sendall(b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
        with server.socket() as client:
            client.sendall(b'POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 13\r\n\r\n{"query":"a"}')
            client.shutdown(socket.SHUT_WR)
    assert server.get("/health").status == 200
    assert "internal fault" not in server.log()


@pytest.fixture(scope="module")
def damaged(small_run, tmp_path_factory):
    """A run whose weights are no numbers: a fault of ours, not of who asks."""
    folder = tmp_path_factory.mktemp("damaged") / "run"
    shutil.copytree(small_run, folder)
    weights = load_file(folder / "model.safetensors")
    nothing = {name: torch.full_like(value, torch.nan) for name, value in weights.items()}
    save_file(nothing, folder / "model.safetensors")
    return flexkg.open(folder, "cpu")


def test_our_own_faults_say_a_number_that_the_log_has(damaged, caplog):
    with caplog.at_level("ERROR", "flexkg.server"):
        reply = call(create_app(damaged), "POST", "/v1/ask", query=GOOD)
    id = reply.headers["x-request-id"]
    assert reply.status == 500
    assert reply.error == {
        "kind": "internal",
        "message": f"Internal fault {id}.",
        "line": None,
        "column": None,
        "hint": "The server's log says more under this number.",
    }
    [record] = [record for record in caplog.records if record.message == "internal fault"]
    assert record.fields["id"] == id
    assert record.fields["error"] == "DataError"
    assert "France" not in str(record.fields)


def test_a_question_may_not_take_for_ever(small_run):
    limits = Limits(seconds=0)
    reply = call(create_app(flexkg.open(small_run, "cpu"), Settings(limits=limits)), "POST", "/v1/ask", query=GOOD)
    assert (reply.status, reply.error["kind"]) == (422, "time")


def test_more_requests_than_allowed_are_told_to_wait(small_run):
    app = create_app(flexkg.open(small_run, "cpu"), Settings(limits=Limits(requests=0)))
    reply = call(app, "GET", "/health")
    assert (reply.status, reply.error["kind"], reply.headers["retry-after"]) == (429, "busy", "1")
