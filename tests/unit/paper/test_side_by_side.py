"""Runs side by side: real processes on a small graph, recorded, left for want of time, failed, interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flexkg.cli.main import run
from flexkg.paper.pace import Pace, keep_paces
from flexkg.paper.results import load_all
from side_by_side import Board, Run
from unit.paper.plans import two_models

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "plan.toml").write_text(two_models())
    options = ["--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]
    assert run(["paper", "workload", "world", "--count", "20", *options]) == 0
    return tmp_path


def begin(place: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, ROOT / "scripts" / "side_by_side.py", "--plan", place / "plan.toml", "--device", "cpu"]
    command += ["--results", place / "results", "--work", place / "work", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def test_runs_are_made_side_by_side_and_recorded(place):
    code, out, err = end(begin(place, "--workers", "2"))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[:2] == ["world/flex-small-seed3 begins", "world/gqe-seed3 begins"]
    assert {line.split(",")[0] for line in lines[2:]} == {"world/flex-small-seed3 ended", "world/gqe-seed3 ended"}
    results = load_all(place / "results")
    assert {result.recipe: result.shared_device for result in results} == {"flex-small": True, "gqe": True}
    assert results[0].validations[-1]["step"] == 30
    # Nothing is missing any more, and what is asked for by name must be.
    assert end(begin(place)) == (0, "", "")
    code, _, err = end(begin(place, "world/gqe-seed3"))
    assert code == 2
    assert "world/gqe-seed3 is no run that is missing" in err
    code, _, err = end(begin(place, "--workers", "0"))
    assert code == 2
    assert "--workers must be at least 1" in err


def test_what_would_not_end_in_time_does_not_begin(place):
    keep_paces(place / "results", [Pace("world/flex-small-seed1", 10_000.0, "cpu", "2026-11-17")])
    code, out, _ = end(begin(place, "--workers", "1", "--minutes", "3"))
    assert code == 0
    assert "flex-small-seed3 begins" not in out
    assert "world/gqe-seed3 ended" in out
    assert out.endswith("left: world/flex-small-seed3\n")
    [result] = load_all(place / "results")
    assert (result.recipe, result.shared_device) == ("gqe", False)


def progress(work: Path, run: Run, text: str, key: str = "01234567") -> None:
    folder = work / "runs" / f"{run.name}-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text(text)


def test_how_far_a_run_is_by_what_it_recorded(tmp_path):
    run = Run("world/flex-seed1", 200, 60.0)
    assert run.done(tmp_path) == 0
    progress(tmp_path, run, "")
    assert run.done(tmp_path) == 0
    lines = '{"step": 50, "loss": 1.0}\n{"step": 100, "loss": 1.0}\n'
    progress(tmp_path, run, lines)
    assert run.done(tmp_path) == 0.5
    progress(tmp_path, run, lines + '{"st')  # being written
    assert run.done(tmp_path) == 0.5
    progress(tmp_path, Run("world/flex-seed1-d200", 200, 60.0), '{"step": 200}\n')  # another run
    assert run.done(tmp_path) == 0.5
    progress(tmp_path, run, '{"step": 20}\n', "89abcdef")  # its settings have changed since
    assert run.done(tmp_path) == 0.1


def test_runs_share_what_time_is_left(tmp_path):
    one, other, unknown = (
        Run(f"world/{name}-seed1", 100, seconds) for name, seconds in (("a", 200), ("b", 100), ("c", None))
    )
    board = Board([other], [], tmp_path, active={one: (None, 0.0)})
    # All of the first run's 200 seconds, 100 of its own, and 80 that it takes beside its updates.
    assert board.next(379) is None
    assert board.next(381) is other
    progress(tmp_path, one, '{"step": 75, "loss": 1.0}\n')
    assert board.next(229) is None
    assert board.next(231) is other
    board.together = 1.5
    assert board.next(181) is other
    board.waiting = [other, unknown]
    assert board.next(1) is unknown


def test_how_fast_runs_are_together_is_measured(tmp_path, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    one, other = Run("world/a-seed1", 100, 200.0), Run("world/b-seed1", 100, 100.0)
    # The first goes on where it was interrupted at half.
    board = Board([], [], tmp_path, active={one: (None, 0.0), other: (None, 0.0)}, _before={one: 0.5, other: 0.0})
    progress(tmp_path, one, '{"step": 50, "loss": 1.0}\n')
    board.look()
    now = 2000.0  # until here nothing was computed
    progress(tmp_path, one, '{"step": 51, "loss": 1.0}\n')
    board.look()
    now = 2050.0
    progress(tmp_path, one, '{"step": 71, "loss": 1.0}\n')
    board.look()
    assert board.together == 1.0  # too early to say
    now = 2100.0
    progress(tmp_path, one, '{"step": 90, "loss": 1.0}\n')
    progress(tmp_path, other, '{"step": 45, "loss": 1.0}\n')
    board.look()
    assert board.together == pytest.approx((0.4 * 200 + 0.45 * 100) / 100)


def test_one_that_fails_is_named_with_what_it_said(place):
    (place / "plan.toml").write_text(two_models(one="training.shapes=epppp"))
    code, out, _ = end(begin(place, "--workers", "2"))
    assert code == 1
    assert "world/gqe-seed3 ended" in out
    [failed] = [line for line in out.splitlines() if "failed" in line]
    assert failed.startswith("world/flex-small-seed3 failed, ")
    assert "epppp" in Path(failed.partition(": ")[2]).read_text()


@pytest.mark.parametrize(("number", "ends"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_goes_on(place, number, ends):
    (place / "plan.toml").write_text(two_models(one="training.steps=400"))
    process = begin(place, "world/flex-small-seed3")
    metrics = "runs/world/flex-small-seed3-*/metrics.jsonl"
    for _ in range(600):
        if any(path.stat().st_size for path in (place / "work").glob(metrics)):
            break
        time.sleep(0.1)
    process.send_signal(number)
    code, out, _ = end(process)
    assert code == ends
    assert "world/flex-small-seed3 interrupted" in out
    assert "goes on next time" in (place / "work" / "logs" / "world-flex-small-seed3.log").read_text()
    code, out, _ = end(begin(place, "world/flex-small-seed3"))
    assert code == 0
    assert "world/flex-small-seed3 ended" in out
    [result] = load_all(place / "results")
    assert result.steps == 400


def test_all_is_over_when_the_time_is(place):
    """Nothing is known of how long it takes, so it begins; by itself it would not end today."""
    (place / "plan.toml").write_text(two_models(one="training.steps=1000000"))
    code, out, _ = end(begin(place, "world/flex-small-seed3", "--minutes", "0.5"))
    assert code == 0
    assert out.endswith("left: world/flex-small-seed3\n")
