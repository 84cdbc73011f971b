"""The command: its JSON, its table, its warnings, and what it leaves behind."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import typer
from typer.testing import CliRunner

from flexkg.cli.data_import import import_command
from flexkg.errors import DataError
from flexkg.kg.dataset import Dataset

app = typer.Typer()
app.command()(import_command)
runner = CliRunner()


@pytest.fixture
def graph(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("a\tr\tb\nbad\nb\tr\tb\na\tr\tb\n")
    return path


def test_json(graph, tmp_path):
    valid = tmp_path / "valid.tsv"
    valid.write_text("a\tnew\tc\n")
    out = tmp_path / "out"
    result = runner.invoke(
        app, ["--train", str(graph), "--valid", str(valid), "--out", str(out), "--name", "mine", "--json"]
    )
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["path"] == str(out)
    assert (found["entities"], found["relations"]) == (3, 2)
    assert found["edges"] == {"train": 2, "valid": 1, "test": 0}
    assert (found["skipped"], found["duplicates"], found["self_loops"], found["literals"]) == (1, 1, 1, 0)
    assert found["unseen"] == {"entities": 1, "relations": 1}
    assert found["bad_lines"] == [{"file": str(graph), "line": 2, "reason": "1 field instead of 3", "text": "bad"}]
    assert "line 2: 1 field instead of 3: 'bad'" in result.stderr
    assert "1 entities and 1 relations stand in valid or test only" in result.stderr
    assert Dataset.load(out).name == "mine"


@pytest.mark.parametrize(("name", "mark"), [("friends.tsv", "\t"), ("friends.csv", ",")])
def test_a_first_line_that_is_taken_for_a_header_is_named(tmp_path, monkeypatch, name, mark):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text("s,p,o\na,r,b\n".replace(",", mark))
    for columns in ([], ["--columns", "1,2,3"]):
        result = runner.invoke(app, ["--train", name, "--out", "out", "--force", "--json", *columns])
        found = json.loads(result.stdout)
        assert found["edges"]["train"] == 1
        assert found["headers"] == [{"file": name, "columns": ["s", "p", "o"]}]
        assert result.stderr == f"{name}: the first line is taken for a header: s, p, o\n"
    # Who names the columns has announced the header.
    result = runner.invoke(app, ["--train", name, "--out", "out", "--force", "--json", "--columns", "s,p,o"])
    assert (json.loads(result.stdout)["headers"], result.stderr) == ([], "")
    (tmp_path / name).write_text("a,r,b\n".replace(",", mark))
    result = runner.invoke(app, ["--train", name, "--out", "out", "--force", "--json"])
    assert (json.loads(result.stdout)["headers"], result.stderr) == ([], "")


def test_table(graph, tmp_path):
    result = runner.invoke(app, ["--train", str(graph), "--out", str(tmp_path / "out"), "--split", "0.5,0.25,0.25"])
    assert result.exit_code == 0
    assert f"Imported out into {tmp_path / 'out'}" in result.stdout
    for words in ("entities", "train edges", "bad lines skipped", "duplicates dropped", "self loops"):
        assert words in result.stdout


def test_a_mistake_is_one_of_our_errors_and_force_replaces(graph, tmp_path):
    arguments = ["--train", str(graph), "--out", str(tmp_path / "out")]
    result = runner.invoke(app, [*arguments, "--max-errors", "0"])
    assert isinstance(result.exception, DataError)
    assert "no bad line is allowed" in str(result.exception)
    assert not (tmp_path / "out").exists()
    assert runner.invoke(app, arguments).exit_code == 0
    assert isinstance(runner.invoke(app, arguments).exception, DataError)
    assert runner.invoke(app, [*arguments, "--force"]).exit_code == 0


def test_nothing_heavy_is_imported_until_it_is_needed():
    script = (
        "import sys; import flexkg.kg.dataset, flexkg.kg.ingest, flexkg.cli.data_import;"
        "print(sorted({'duckdb', 'pyoxigraph', 'torch', 'rapidfuzz'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_ctrl_c_leaves_nothing(tmp_path):
    graph = tmp_path / "train.tsv"
    graph.write_text("".join(f"e{i % 9999}\tr{i % 7}\te{i}\n" for i in range(400_000)))
    script = (
        "import sys, flexkg.kg.ingest as ingest\n"
        "print('ready', flush=True)\n"
        "ingest.import_files(sys.argv[1], out=sys.argv[2], progress=lambda what, *_: print(what, flush=True))"
    )
    command = [sys.executable, "-c", script, graph, tmp_path / "out"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("Writing"):
            break
    time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    # It may have been done already; what must not be is something half-written.
    names = {path.name for path in tmp_path.iterdir()}
    assert names in ({"train.tsv"}, {"train.tsv", "out"})
    if "out" in names:
        Dataset.load(tmp_path / "out", verify=True)
