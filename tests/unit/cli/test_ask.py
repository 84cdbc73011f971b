"""`flexkg ask`: what it prints for people and for scripts, for one question and for a file of them."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys

import pytest

import flexkg
from flexkg.cli.main import run

QUERY = "?x : borders(France, ?x) & speaks(?x, German)"


@pytest.fixture(scope="module")
def predictor(small_run):
    return flexkg.open(small_run, "cpu")


def ask(small_run, *arguments: str) -> int:
    return run(["ask", str(small_run), *arguments, "--device", "cpu"])


def test_json_is_one_object(small_run, predictor, capsys):
    assert ask(small_run, QUERY, "--top", "7", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["query"] == QUERY
    assert list(result["answers"][0]) == ["rank", "entity", "name", "score", "probability", "known"]
    assert result["answers"] == predictor.ask(QUERY, 7).to_dicts()
    assert result["known_count"] == 5
    assert (result["kind"], result["calibration"]) == ("2i", "kind")
    assert "steps" not in result


def test_explained_json_has_the_steps(small_run, capsys):
    assert ask(small_run, QUERY, "--top", "6", "--explain", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert [step["operator"] for step in result["steps"]] == ["entity", "project", "entity", "project", "intersect"]
    assert result["steps"][-1]["term"] == QUERY
    assert all(step["answers"] for step in result["steps"])
    assert [reason["known"] for reason in result["reasons"]] == [True] * 5 + [False]
    assert result["reasons"][-1]["missing"]


def test_people_get_a_table_and_a_tree(small_run, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    assert ask(small_run, QUERY, "--top", "6") == 0
    table = capsys.readouterr().out
    assert table.splitlines()[0] == QUERY
    assert table.count("known") == 5 + 1
    assert "5 known answers, about " in table
    assert ask(small_run, QUERY, "--top", "6", "--explain") == 0
    tree = capsys.readouterr().out
    assert tree.startswith(table.rstrip("\n"))
    assert "├── borders(..., ?): " in tree
    assert "│   └── France" in tree
    assert "missing: " in tree
    assert "├── borders(France, Switzerland)" in tree


def test_rewritten_connectives_are_named(small_run, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert ask(small_run, "?x : borders(France, ?x) -> uses(?x, Euro)", "--top", "1") == 0
    assert "rewritten: a -> b is computed as !a | b" in capsys.readouterr().out


def test_options_choose_among_answers(small_run, predictor, capsys):
    assert ask(small_run, QUERY, "--predicted-only", "--top", "3", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [row["known"] for row in shown["answers"]] == [False] * 3
    assert shown["known_count"] == 5
    least = shown["answers"][1]["probability"]
    assert ask(small_run, QUERY, "--predicted-only", "--min-probability", repr(least), "--json") == 0
    expected = predictor.ask(QUERY, known=False, min_probability=least)
    assert json.loads(capsys.readouterr().out)["answers"] == expected.to_dicts()
    assert len(expected) >= 2
    assert ask(small_run, QUERY, "--predicted-only", "--min-probability", "1") == 0
    assert "No answers to show." in capsys.readouterr().out


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
def test_a_file_of_queries(small_run, predictor, tmp_path, capsys, suffix):
    dataset = predictor.run.dataset
    france, borders = dataset.entities.get("country:FR"), dataset.relations.get("borders")
    lines = [
        {"q": [france, [2 * borders]]},
        {"q": ["country:FR", ["+borders"]]},
        {"q": QUERY},
        {"q": [france, [2 * borders, 2 * borders]], "a": "ignored"},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines * 100)
    source, out = tmp_path / f"queries.{suffix}", tmp_path / f"answers.{suffix}"
    source.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())
    assert ask(small_run, "--queries", str(source), "--out", str(out), "--top", "3", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["queries"] == 400
    assert result["queries_per_second"] > 0
    content = gzip.decompress(out.read_bytes()) if suffix.endswith("gz") else out.read_bytes()
    found = [json.loads(line) for line in content.decode().splitlines()]
    assert len(found) == 400
    by_id, by_name, by_text, _ = found[-4:]
    expected = predictor.ask("?x : borders(France, ?x)", 3)
    assert [row["entity"] for row in by_id["answers"]] == [answer.id for answer in expected]
    assert [row["entity"] for row in by_name["answers"]] == [answer.entity for answer in expected]
    assert [row["name"] for row in by_text["answers"]] == predictor.ask(QUERY, 3).names()
    assert by_id["known_count"] == 8
    assert by_id["estimate"] > 8


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"q": "?x : borders(Frnace, ?x)"}', "line 2"),
        ('{"q": "?x : borders(?y, ?x)"}', "nothing anchors"),
        ("{", "line 2"),
        ('{"a": 1}', 'no "q"'),
    ],
    ids=["name", "operator", "json", "field"],
)
def test_a_bad_line_writes_nothing(small_run, tmp_path, capsys, line, message):
    source, out = tmp_path / "queries.jsonl", tmp_path / "answers.jsonl"
    source.write_text('{"q": "?x : borders(France, ?x)"}\n' + line + "\n")
    assert ask(small_run, "--queries", str(source), "--out", str(out)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert str(source) in error
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "either a QUERY or --queries"),
        ([QUERY, "--queries", "f"], "either a QUERY or --queries"),
        (["--queries", "f"], "needs --out"),
        (["--queries", "f", "--out", "g", "--explain"], "--explain goes with one QUERY"),
        ([QUERY, "--out", "g"], "--out goes with --queries"),
        (["--queries", "nowhere.jsonl", "--out", "g"], "Cannot read nowhere.jsonl"),
        (["?x : borders(Frnace, ?x)"], "no entity 'Frnace'"),
        (["?x : borders(?y, ?x)"], "nothing anchors"),
        ([QUERY, "--min-probability", "2"], "0 to 1"),
        ([QUERY, "--top", "1000000"], "10,000"),
    ],
    ids=["none", "both", "no-out", "explain", "out", "no-file", "name", "operator", "probability", "top"],
)
def test_mistakes(small_run, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert ask(small_run, *arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert message in captured.err
    assert list(tmp_path.iterdir()) == []


def test_answers_never_overwrite_queries(small_run, tmp_path, capsys):
    source = tmp_path / "queries.jsonl"
    source.write_text('{"q": "?x : borders(France, ?x)"}\n')
    assert ask(small_run, "--queries", str(source), "--out", str(source)) == 2
    assert "overwrite" in capsys.readouterr().err
    source.write_text("\n")
    assert ask(small_run, "--queries", str(source), "--out", str(tmp_path / "out")) == 2
    assert "holds no queries" in capsys.readouterr().err


def test_the_command_itself(small_run):
    command = [sys.executable, "-m", "flexkg", "ask", str(small_run), QUERY, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["known_count"] == 5
    assert done.stderr == ""


def test_a_query_of_a_file_that_cannot_be_asked_is_named_by_its_line(small_run, tmp_path, capsys):
    queries = tmp_path / "q.jsonl"
    queries.write_text(f'{{"q": "{QUERY}"}}\n\n{{"q": "?x : capital(?y, ?x)"}}\n{{"q": "{QUERY}"}}\n')
    assert ask(small_run, "--queries", str(queries), "--out", str(tmp_path / "out.jsonl")) == 2
    assert "q.jsonl line 3: " in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()
