"""`flexkg shell`: question after question, at a terminal and through a pipe; no mistake ends it."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

import flexkg
from flexkg.cli.main import run
from flexkg.cli.shell import Session, prompt

if TYPE_CHECKING:
    from collections.abc import Iterator

QUERY = "?x : borders(Portugal, ?x)"


@pytest.fixture(scope="module")
def predictor(small_run):
    return flexkg.open(small_run, "cpu")


def test_lines_are_answered_one_after_the_other(predictor, capsys):
    session = Session(predictor, 3)
    assert session.handle(QUERY)
    assert "Spain" in capsys.readouterr().out
    assert session.handle(":explain")
    assert "borders(Portugal, Spain)" in capsys.readouterr().out
    assert session.handle(":top 5")
    assert session.handle("  " + QUERY)
    assert re.search(r"^5 ", capsys.readouterr().out, re.MULTILINE)
    assert session.handle(":known")
    assert session.handle(QUERY)
    printed = capsys.readouterr().out
    assert "Spain" not in printed
    assert "predicted answers only" in printed
    assert session.handle("")
    assert session.handle(":help")
    assert ":explain" in capsys.readouterr().out
    assert not session.handle(":quit")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("?x : borders(Frnace, ?x)", "no entity 'Frnace'"),
        (":explain", "nothing to explain"),
        (":top many", "'many' is no number"),
        (":top 10001", "'10001' is no number of answers from 0 to 10,000"),
        (":top " + "9" * 5000, "is no number of answers from 0 to 10,000"),
        (":nonsense", "no command :nonsense"),
        ("?x : borders(?y, ?x)", "nothing anchors"),
    ],
)
def test_mistakes_are_shown_and_end_nothing(predictor, capsys, line, message):
    session = Session(predictor)
    assert session.handle(line)
    assert session.top == 10
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert ("^" in error) == line.endswith("Frnace, ?x)")


def test_json_is_refused_with_the_command_that_has_it(small_run, capsys):
    assert run(["shell", str(small_run), "--json"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert 'Ask with `flexkg ask RUN "QUERY" --json`' in printed.err


def test_a_pipe_is_answered_without_prompts(small_run):
    lines = f"{QUERY}\n?x : borders(\n:top 1\n{QUERY}\n"
    command = [sys.executable, "-m", "flexkg", "shell", str(small_run), "--top", "2", "--device", "cpu"]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    assert done.stdout.count(QUERY) == 2
    assert done.stdout.count("Spain") == 2
    assert "flexkg>" not in done.stdout
    assert done.stderr.count("error: ") == 1
    assert "^" in done.stderr


@pytest.fixture(params=["completing", "plain"])
def terminal(request, small_run, tmp_path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A shell on a pseudo-terminal, with and without the optional package."""
    if request.param == "completing":
        pytest.importorskip("prompt_toolkit")
    hide = "import sys; sys.modules['prompt_toolkit'] = None\n" if request.param == "plain" else ""
    # An import that is blocked in sys.modules has no spec either: what the shell looks for.
    block = "import importlib.util as u; f = u.find_spec; u.find_spec = lambda n: None if n in sys.modules else f(n)\n"
    arguments = ["flexkg", "shell", str(small_run), "--device", "cpu"]
    program = (
        f"{hide}{block if hide else ''}import sys; sys.argv = {arguments!r}\nfrom flexkg.cli.main import main\nmain()"
    )
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "FLEXKG_HOME": str(tmp_path / "home"), "COLUMNS": "120"}
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=slave, stdout=slave, stderr=slave, env=environment, close_fds=True
    )
    os.close(slave)
    yield master, process
    if process.poll() is None:
        process.kill()
        process.wait()
    os.close(master)


def read_until(master: int, wanted: bytes, limit: float = 30) -> bytes:
    """What a terminal prints up to and with `wanted`; questions about the cursor are answered as a terminal does."""
    found, end = b"", time.monotonic() + limit
    while wanted not in found:
        ready, _, _ = select.select([master], [], [], max(0.0, end - time.monotonic()))
        assert ready, found
        found += os.read(master, 65536)
        if b"\x1b[6n" in found:
            os.write(master, b"\x1b[1;1R")
            found = found.replace(b"\x1b[6n", b"")
    return found


def test_a_terminal_has_a_prompt(terminal):
    master, process = terminal
    read_until(master, b"flexkg>")
    os.write(master, QUERY.encode() + b"\r")
    # In one go: what comes with the first word is not there any more to be looked for.
    assert b"Spain" in read_until(master, b"known answer")
    os.write(master, b"?x : nonsense(\r")
    read_until(master, b"error: ")
    os.write(master, b"\x03")
    os.write(master, b":quit\r")
    assert process.wait(timeout=60) == 0


def test_names_are_completed_and_history_is_kept(tmp_path, predictor, monkeypatch):
    pytest.importorskip("prompt_toolkit")
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    monkeypatch.setenv("FLEXKG_HOME", str(tmp_path / "home"))
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        session = prompt(predictor)
        keys.send_text(f"{QUERY}\r")
        assert session.prompt() == QUERY
    assert QUERY in (tmp_path / "home" / "shell-history").read_text()
    typed = '?x : borders("United Sta'
    found = list(session.completer.get_completions(Document(typed), CompleteEvent()))
    assert ('"United States"', -len('"United Sta')) in [(one.text, one.start_position) for one in found]
    assert next(iter(prompt(predictor).history.load_history_strings())) == QUERY


def test_a_home_that_cannot_be_written_costs_the_history_alone(tmp_path, predictor, monkeypatch):
    pytest.importorskip("prompt_toolkit")
    from prompt_toolkit.history import InMemoryHistory

    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FLEXKG_HOME", str(tmp_path / "file"))
    assert isinstance(prompt(predictor).history, InMemoryHistory)
