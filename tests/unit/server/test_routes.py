"""Every route gives what the predictor gives, in the promised form."""

from __future__ import annotations

import pytest

import flexkg

QUERY = "?x : borders(France, ?x) & !uses(?x, Euro)"


@pytest.fixture(scope="module")
def predictor(small_run):
    return flexkg.open(small_run, "cpu")


def test_health(server):
    reply = server.get("/health")
    assert (reply.status, reply.json()) == (200, {"status": "ok"})


def test_info_says_what_is_served_and_nothing_of_where(server, small_run):
    reply = server.get("/v1/info")
    about = reply.json()
    assert about["model"] == "flex"
    assert about["calibrated"] is True
    assert about["data"] == {
        "name": "world",
        "entities": 4381,
        "relations": 8,
        "edges": {"train": 8213, "valid": 452, "test": 452},
    }
    assert about["limits"]["top"] == 1000
    assert small_run.parent.name not in reply.body.decode()


def test_the_examples_can_be_asked(server):
    examples = server.get("/v1/info").json()["examples"]
    assert len(examples) >= 5
    for example in examples:
        reply = server.post("/v1/ask", query=example["query"], top=3)
        assert (reply.status, len(reply.json()["answers"])) == (200, 3), example


def test_entities_by_prefix(server):
    found = server.get("/v1/entities?prefix=switz&limit=5").json()["entities"]
    assert found == [
        {
            "entity": "country:CH",
            "name": "Switzerland",
            "text": "Switzerland",
            "description": "country in Europe",
        }
    ]
    assert [row["text"] for row in server.get("/v1/entities?prefix=south%20am").json()["entities"]] == [
        '"South America"'
    ]
    assert len(server.get("/v1/entities").json()["entities"]) == 10
    assert server.get("/v1/entities?prefix=nothing-such").json() == {"entities": []}


def test_relations_by_prefix(server):
    found = server.get("/v1/relations?prefix=B").json()["relations"]
    assert [(row["relation"], row["text"]) for row in found] == [("borders", "borders")]


def test_ask_is_what_the_predictor_says(server, predictor):
    reply = server.post("/v1/ask", query=QUERY, top=7)
    assert reply.status == 200
    found, expected = reply.json(), predictor.ask(QUERY, 7).to_dict()
    assert list(found) == list(expected) == ["query", "kind", *list(expected)[2:]]
    assert found["estimate"] == pytest.approx(expected["estimate"], rel=1e-4)
    for answer, wanted in zip(found["answers"], expected["answers"], strict=True):
        for key in ("rank", "entity", "name", "known"):
            assert answer[key] == wanted[key]
        assert answer["score"] == pytest.approx(wanted["score"], rel=1e-4)
        assert answer["probability"] == pytest.approx(wanted["probability"], rel=1e-4)
    others = found.keys() - {"answers", "estimate"}
    assert {key: found[key] for key in others} == {key: expected[key] for key in others}
    assert len(server.post("/v1/ask", query=QUERY).json()["answers"]) == 10
    assert server.post("/v1/ask", query=QUERY, top=0).json()["answers"] == []


def test_ask_with_reasons(server):
    found = server.post("/v1/ask", query=QUERY, top=30, explain=True).json()
    assert len(found["answers"]) == 30
    assert found["steps"][found["asked"]]["term"] == QUERY
    assert {step["operator"] for step in found["steps"]} == {"entity", "project", "negate", "intersect"}
    assert [reason["name"] for reason in found["reasons"]] == [answer["name"] for answer in found["answers"][:20]]
    switzerland = found["reasons"][0]
    assert switzerland["name"] == "Switzerland"
    assert [fact["text"] for fact in switzerland["facts"]] == ["borders(France, Switzerland)"]
    assert switzerland["absent"] == ["uses(Switzerland, Euro)"]
    assert found["reasons"][1]["missing"]
    histogram = found["histogram"]
    assert sum(histogram["known"]) == found["known_count"] == 1
    assert sum(histogram["known"]) + sum(histogram["others"]) == 4381
    assert histogram["low"] < found["answers"][0]["score"] <= histogram["high"]


def test_exact_answers(server):
    reply = server.post("/v1/answer", query=QUERY).json()
    assert reply == {
        "query": QUERY,
        "count": 1,
        "complement": False,
        "answers": [{"entity": "country:CH", "name": "Switzerland"}],
    }
    many = server.post("/v1/answer", query="?x : !borders(France, ?x)", limit=3).json()
    assert (many["count"], many["complement"], len(many["answers"])) == (4381 - 8, True, 3)
    # What no model can say the facts still can.
    assert server.post("/v1/answer", query="?x : capital(?y, ?x)", limit=0).json()["count"] > 100


def test_check_marks_the_place(server):
    good = server.post("/v1/check", query="?x:borders(France,?x)").json()
    assert good == {"ok": True, "query": "?x : borders(France, ?x)", "kind": "1p", "error": None, "width": None}
    bad = server.post("/v1/check", query="?x :\n  borders(Frnace, ?x)")
    assert bad.status == 200
    found = bad.json()
    assert (found["ok"], found["width"]) == (False, 6)
    assert (found["error"]["kind"], found["error"]["line"], found["error"]["column"]) == ("query", 2, 11)
    assert "France" in found["error"]["hint"]


@pytest.mark.parametrize(
    ("path", "kind", "begins"),
    [
        ("/", "text/html", b"<!doctype html>"),
        ("/docs", "text/html", b"<!doctype html>"),
        ("/page/app.js", "text/javascript", b"//"),
        ("/page/style.css", "text/css", b":root"),
        ("/page/icon.svg", "image/svg+xml", b"<svg"),
        ("/openapi.json", "application/json", b"{"),
    ],
)
def test_files_come_from_the_package_alone(server, path, kind, begins):
    reply = server.get(path)
    assert reply.status == 200
    assert reply.headers["content-type"].startswith(kind)
    assert reply.body.startswith(begins)
    if kind != "image/svg+xml":
        assert b"http://" not in reply.body.replace(b"http://www.w3.org/2000/svg", b"")
    assert b"https://" not in reply.body


def test_every_reply_has_the_headers_that_keep_a_browser_safe(server):
    for reply in (server.get("/"), server.get("/v1/info"), server.get("/nothing"), server.post("/v1/ask")):
        assert reply.headers["content-security-policy"].startswith("default-src 'self'")
        assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert "server" not in reply.headers


def test_openapi_names_the_routes(server):
    paths = server.get("/openapi.json").json()["paths"]
    assert {path: list(methods) for path, methods in paths.items()} == {
        "/health": ["get"],
        "/metrics": ["get"],
        "/v1/info": ["get"],
        "/v1/entities": ["get"],
        "/v1/relations": ["get"],
        "/v1/ask": ["post"],
        "/v1/answer": ["post"],
        "/v1/check": ["post"],
    }


def test_metrics_count(server):
    def count(name):
        lines = server.get("/metrics").body.decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    asked = 'flexkg_requests_total{method="POST",route="/v1/ask",status="200"}'
    wrong = 'flexkg_errors_total{kind="query"}'
    before, wrong_before, batches = count(asked), count(wrong), count("flexkg_batch_size_count")
    server.post("/v1/ask", query=QUERY)
    server.post("/v1/ask", query="?x : nonsense")
    assert count(asked) == before + 1
    assert count(wrong) == wrong_before + 1
    assert count("flexkg_batch_size_count") == batches + 1
    assert count("process_resident_memory_bytes") > 1e7


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json", "/v1/info", "/nope", "/docs/"])
def test_metrics_know_what_is_served_by_its_path(server, path):
    def count(route):
        lines = server.get("/metrics").body.decode().splitlines()
        return sum(
            float(line.rpartition(" ")[2]) for line in lines if f'_requests_total{{method="GET",route="{route}"' in line
        )

    route = path if path not in ("/nope", "/docs/") else "unmatched"
    before = count(route)
    server.get(path)
    assert count(route) == before + 1
    if route == "unmatched":
        assert f'route="{path}"' not in server.get("/metrics").body.decode()
