"""`flexkg answer` as a person and a script meet it."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from flexkg.cli.main import run

SWISS = "?x : borders(France, ?x) & speaks(?x, German) & !uses(?x, Euro)"


@pytest.fixture
def flexkg(capsys):
    def call(*arguments: str):
        status = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def answer(flexkg, *arguments: str) -> dict:
    status, out, err = flexkg("answer", *arguments, "--json")
    assert status == 0, err
    [line] = out.splitlines()
    return json.loads(line)


def test_the_first_question(flexkg):
    found = answer(flexkg, "world", SWISS)
    assert found["query"] == SWISS
    assert (found["count"], found["complement"], found["truncated"]) == (1, False, False)
    assert found["answers"] == [{"entity": "country:CH", "name": "Switzerland"}]


def test_people_get_a_table(flexkg):
    status, out, _ = flexkg("answer", "world", "?x : capital(?x, Paris)")
    assert status == 0
    assert "France" in out
    assert "country:FR" in out
    assert "1 answer" in out


def test_no_answers_is_an_answer(flexkg):
    status, out, _ = flexkg("answer", "world", "?x : capital(Paris, ?x)")
    assert status == 0
    assert "No answers" in out
    assert answer(flexkg, "world", "?x : capital(Paris, ?x)")["answers"] == []


def test_names_that_look_like_markup_are_printed_as_they_are(flexkg):
    _, out, _ = flexkg("answer", "world", "?x : borders(?x, France)", "--explain", "--limit", "1")
    assert "borders(Andorra, France)" in out


def test_an_open_question_is_a_complement_and_lists_only_what_is_asked(flexkg):
    found = answer(flexkg, "world", "?x : !borders(France, ?x)", "--limit", "5")
    assert found["complement"] is True
    assert len(found["answers"]) == 5
    assert found["truncated"] is True
    neighbours = answer(flexkg, "world", "?x : borders(France, ?x)")
    everything = json.loads(flexkg("data", "info", "world", "--json")[1])["entities"]
    assert found["count"] == everything - neighbours["count"]


def test_limit_zero_counts_only(flexkg):
    found = answer(flexkg, "world", "?x : borders(France, ?x)", "--limit", "0")
    assert found["answers"] == []
    assert found["count"] > 5


def test_the_graph_can_be_smaller(flexkg):
    query = "?x : located_in(?x, ?y)"
    counts = [answer(flexkg, "world", query, "--graph", graph)["count"] for graph in ("train", "valid", "test")]
    assert counts[0] < counts[1] < counts[2]


def test_explain_gives_the_facts_behind_each_answer(flexkg):
    found = answer(flexkg, "world", SWISS, "--explain")
    [witness] = found["witnesses"]
    assert witness["entity"] == "country:CH"
    assert {(fact["head"], fact["relation"], fact["tail"]) for fact in witness["facts"]} == {
        ("country:FR", "borders", "country:CH"),
        ("country:CH", "speaks", "language:de"),
    }
    assert {fact["split"] for fact in witness["facts"]} <= {"train", "valid", "test"}
    assert witness["absent"] == ["uses(Switzerland, Euro)"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("?x : borders(Frence, ?x)", "There is no entity 'Frence' (line 1, column 14). Did you mean"),
        ("?x : bordres(France, ?x)", "Did you mean borders"),
        ("?x : borders(borders, ?x)", "relation"),
        ("?x : borders(?x, ?y) & borders(?y, ?z) & borders(?z, ?x)", "cycle"),
        ("?x : borders(France, ?x) & borders(Spain, ?y)", "?y"),
        ("?x : " + "!" * 5000 + "borders(France, ?x)", "limit"),
        ("?x : " + "(" * 90_000, "limit"),
        ("?x : capital(?x, Korea)", "Korea"),
        ("", "empty"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_and_where(flexkg, query, message):
    status, out, err = flexkg("answer", "world", query, "--json")
    assert status == 2
    assert out == ""
    first, *caret = err.splitlines()
    assert first.startswith("error: ")
    assert message in first
    assert sum(line.startswith("error:") for line in err.splitlines()) == 1
    assert not any("Traceback" in line for line in caret)


def test_the_caret_points_at_the_word(flexkg):
    _, _, err = flexkg("answer", "world", "?x : borders(France, ?x) &\n speaks(?x, Germn)")
    message, line, mark = err.splitlines()
    assert "line 2, column 13" in message
    assert line[mark.index("^") : mark.rindex("^") + 1] == "Germn"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["answer", "wrold", SWISS], "world"),
        (["answer", "world"], "--queries"),
        (["answer", "world", SWISS, "--queries", "q.jsonl"], "either"),
        (["answer", "world", "--queries", "q.jsonl"], "--out"),
        (["answer", "world", SWISS, "--out", "a.jsonl"], "--queries"),
        (["answer", "world", SWISS, "--graph", "all"], "graph"),
        (["answer", "world", SWISS, "--limit", "-1"], "limit"),
        (["answer", "world", "--queries", "/nowhere/q.jsonl", "--out", "a.jsonl"], "/nowhere/q.jsonl"),
        (["answer", "world", "--queries", "/nowhere/q.jsonl", "--out", "a.jsonl"], "Cannot read /nowhere/q.jsonl"),
        (["answer", "world", "--queries", "q.jsonl", "--out", "a.jsonl", "--explain"], "--explain"),
        (["anwser"], "anwser"),
        (["answer", "world", SWISS, "--jsn"], "--jsn"),
    ],
)
def test_wrong_usage_exits_2_with_one_error_line(flexkg, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, err = flexkg(*arguments)
    assert status == 2
    assert out == ""
    [line] = err.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert list(tmp_path.iterdir()) == []


class TestFiles:
    QUERIES = (
        {"q": ["country:FR", ["+borders"]]},
        {"q": [["country:FR", ["+borders"]], ["language:de", ["-speaks"]], ["currency:EUR", ["-uses", -2]]]},
        {"q": "?x : capital(France, ?x)"},
        {"q": [[["country:FR", ["+borders"]], ["country:ES", ["+borders"]], [-1]], ["+capital"]]},
    )

    def test_answers_come_in_the_order_and_kind_of_the_queries(self, flexkg, tmp_path):
        source, target = tmp_path / "q.jsonl", tmp_path / "a.jsonl"
        ids = [{"q": [0, [0]]}, {"q": [[0, [1]], [1, [1, -2]]]}]
        source.write_text("\n".join(json.dumps(query) for query in (*self.QUERIES, *ids)) + "\n\n")
        found = json.loads(
            flexkg("answer", "world", "--queries", source, "--graph", "test", "--out", target, "--json")[1]
        )
        assert found["queries"] == 6
        assert found["seconds"] > 0
        assert found["queries_per_second"] == pytest.approx(6 / found["seconds"])
        lines = [json.loads(line)["answers"] for line in target.read_text().splitlines()]
        assert "country:CH" in lines[0]
        assert lines[1] == ["country:CH"]
        assert lines[2] == ["city:2988507"]
        assert all(identifier.startswith("city:") for identifier in lines[3])
        assert all(isinstance(id, int) for id in lines[4] + lines[5])
        for query, answers in zip(self.QUERIES[:1], lines, strict=False):
            assert query["q"][0] not in answers

    def test_gz_in_and_out_and_a_limit(self, flexkg, tmp_path):
        source, target = tmp_path / "q.jsonl.gz", tmp_path / "a.jsonl.gz"
        with gzip.open(source, "wt") as file:
            file.write('{"q": ["country:FR", ["+borders", -2]]}\n{"q": ["country:FR", ["+borders"]]}\n')
        assert flexkg("answer", "world", "--queries", source, "--out", target, "--limit", "3")[0] == 0
        with gzip.open(target, "rt") as file:
            first, second = (json.loads(line) for line in file)
        assert first["complement"] is True
        assert len(first["answers"]) == len(second["answers"]) == 3
        assert first["count"] > second["count"] > 3

    def test_a_complement_is_written_out_in_full_without_a_limit(self, flexkg, tmp_path):
        source, target = tmp_path / "q.jsonl", tmp_path / "a.jsonl"
        source.write_text('{"q": ["country:FR", ["+borders", -2]]}\n{"q": ["country:FR", ["+borders"]]}\n')
        assert flexkg("answer", "world", "--queries", source, "--out", target)[0] == 0
        outside, inside = (set(json.loads(line)["answers"]) for line in target.read_text().splitlines())
        everything = json.loads(flexkg("data", "info", "world", "--json")[1])["entities"]
        assert not outside & inside
        assert len(outside) + len(inside) == everything

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("{", "not valid JSON"),
            ('{"x": 1}', 'no "q"'),
            ('{"q": [0, [999999]]}', "no relation 999999"),
            ('{"q": [99999999, [0]]}', "no entity 99999999"),
            ('{"q": ["country:XX", ["+borders"]]}', "'country:XX'"),
            ('{"q": ["country:FR", ["+bords"]]}', "'bords'"),
            ('{"q": [0, ["+borders"]]}', "mixes"),
            ('{"q": [true, [0]]}', "truth value"),
            ('{"q": ' + "[" * 50_000 + "]" * 50_000 + "}", "nest"),
            ('{"q": "?x : nothing(France, ?x)"}', "nothing"),
        ],
    )
    def test_a_bad_line_is_named_and_nothing_is_written(self, flexkg, tmp_path, line, message):
        source, target = tmp_path / "q.jsonl", tmp_path / "a.jsonl"
        source.write_text('{"q": ["country:FR", ["+borders"]]}\n' + line + "\n")
        target.write_text("precious")
        status, _, err = flexkg("answer", "world", "--queries", source, "--out", target)
        assert status == 2
        assert "q.jsonl line 2" in err
        assert message in err
        assert target.read_text() == "precious"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "q.jsonl"]

    def test_the_queries_are_not_overwritten(self, flexkg, tmp_path):
        source = tmp_path / "q.jsonl"
        source.write_text('{"q": ["country:FR", ["+borders"]]}\n')
        status, _, err = flexkg("answer", "world", "--queries", source, "--out", source)
        assert status == 2
        assert "overwrite" in err
        assert source.read_text().startswith('{"q"')

    @pytest.mark.parametrize(("content", "message"), [(b"", "no queries"), (b'{"q": "\xff"}\n', "line 1")])
    def test_empty_and_badly_encoded_files(self, flexkg, tmp_path, content, message):
        source = tmp_path / "q.jsonl"
        source.write_bytes(content)
        status, _, err = flexkg("answer", "world", "--queries", source, "--out", tmp_path / "a.jsonl")
        assert status == 2
        assert message in err
        assert not (tmp_path / "a.jsonl").exists()


@pytest.mark.parametrize(("how", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupting_leaves_nothing(tmp_path, how, status):
    source, target = tmp_path / "q.jsonl", tmp_path / "a.jsonl"
    source.write_text('{"q": ["country:FR", ["+borders", -2]]}\n' * 200_000)
    command = [sys.executable, "-m", "flexkg", "answer", "world", "--queries", str(source), "--out", str(target)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"})
    while process.poll() is None and len(list(tmp_path.iterdir())) < 2:
        time.sleep(0.05)
    process.send_signal(how)
    _, err = process.communicate(timeout=60)
    assert process.returncode == status
    assert b"Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["q.jsonl"]


def test_a_fault_of_ours_exits_1_without_a_traceback(flexkg, monkeypatch):
    def broken(*_args, **_kwargs):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("flexkg.api.load", broken)
    status, out, err = flexkg("answer", "world", SWISS)
    assert (status, out) == (1, "")
    assert err.startswith("error: internal fault: ZeroDivisionError: a bug")
    assert len(err.splitlines()) == 1


def test_version_and_help(flexkg):
    assert flexkg("--version")[1].startswith("flexkg ")
    status, out, _ = flexkg("answer", "--help")
    assert status == 0
    assert "--explain" in out


def test_a_line_of_a_file_that_cannot_be_read_is_named(flexkg, tmp_path):
    queries, out = tmp_path / "q.jsonl", tmp_path / "out.jsonl"
    line = b'{"q": "?x : borders(France, ?x)"}\n'
    queries.write_bytes(line * 299 + b'{"q": "\xff"}\n' + line)
    status, _, err = flexkg("answer", "world", "--queries", queries, "--out", out)
    assert status == 2
    assert "q.jsonl line 300 cannot be read: 'utf-8' codec can't decode byte 0xff" in err
    queries.write_bytes(b"\xef\xbb\xbf" + line)
    assert flexkg("answer", "world", "--queries", queries, "--out", out)[0] == 0
    packed = bytearray(gzip.compress(line * 3000))
    packed[40:60] = bytes(20)
    zipped = tmp_path / "q.jsonl.gz"
    zipped.write_bytes(packed)
    status, _, err = flexkg("answer", "world", "--queries", zipped, "--out", tmp_path / "none")
    assert status == 2
    assert re.search(r"q\.jsonl\.gz line \d+ cannot be read: ", err)
    assert not (tmp_path / "none").exists()


def test_answers_go_into_a_pipe_or_a_device_as_they_are(tmp_path):
    queries, pipe = tmp_path / "q.jsonl", tmp_path / "pipe"
    queries.write_text('{"q": "?x : borders(Portugal, ?x)"}\n')
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)
    assert run(["answer", "world", "--queries", str(queries), "--out", str(pipe)]) == 0
    assert reader.communicate(timeout=60)[0] == '{"answers":["country:ES"]}\n'
    assert pipe.is_fifo()
    command = [
        sys.executable,
        "-m",
        "flexkg",
        "answer",
        "world",
        "--queries",
        queries,
        "--out",
        "/dev/stdout",
        "--json",
    ]
    answers, told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.splitlines()
    assert json.loads(answers) == {"answers": ["country:ES"]}
    assert json.loads(told)["queries"] == 1
