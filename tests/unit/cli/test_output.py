"""The bar of long commands."""

from __future__ import annotations

import re

import pytest

from flexkg.cli import output
from flexkg.cli.train import listen
from flexkg.training.listener import Progress

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setattr(output, "_SHOW_AFTER", 0.0)


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that appeared, each once."""
    text = _CONTROL.sub("", capsys.readouterr().err).replace("\r", "\n")
    return list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))


@pytest.mark.usefixtures("terminal")
def test_one_bar_for_all_that_a_run_does(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress("training", "queries") as report:
        listener = listen(report)
        listener.queries("sampling 2in", 400, 1000)
        listener.queries("sampling 3in", 1000, 1000)
        listener.say("[a line] of its own")
        listener.trained(Progress(20, 300, 0.25, 5000.0, None))
        listener.trained(Progress(300, 300, 0.125, 5000.0, 0.2))
    lines = shown(capsys)
    assert "[a line] of its own" in lines
    sampled, *_, trained = (line for line in lines if "━" in line and "2in" not in line)
    assert re.fullmatch(r"sampling 3in ━+ 1,000 queries, [\d,]+/s [-:0-9]+", sampled)
    assert re.fullmatch(
        r"training ━+ 300 of 300 steps, loss 0.1250, 5,000 queries/s, validation MRR 20.0 [-:0-9]+", trained
    )


@pytest.mark.usefixtures("terminal")
def test_each_piece_of_work_has_its_own_pace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(output.time, "monotonic", lambda: now)
    with output.progress("what", "rows", 100) as report:
        now = 50.0
        report(100)
        now = 60.0
        report(4000, "more", 5000)
    assert "more ━ 4,000 rows, 400/s" in re.sub("[━╺╸]+", "━", shown(capsys)[-1])


def test_without_a_terminal_there_is_no_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "_SHOW_AFTER", 0.0)
    with output.progress("what", "rows", 100) as report:
        report(50)
        output.say("a line")
    assert capsys.readouterr().err == "a line\n"
