"""How long updates take: measured for real on a small graph, kept, and shown on the page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flexkg.cli.main import run
from flexkg.errors import DataError
from flexkg.paper.pace import FILE, Pace, keep_paces, list_paces, read_paces
from flexkg.paper.plan import the_paper
from flexkg.paper.runner import missing
from flexkg.paper.workloads import read_registry
from unit.paper.plans import two_models

ROOT = Path(__file__).resolve().parents[3]
KEPT = Pace("world/gqe-seed3", 4.0, "cpu", "2026-11-16")


def pace(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "scripts" / "pace.py", "--plan", folder / "plan.toml", "--seconds", "0.05"]
    command += ["--results", folder / "results", "--work", folder / "work", *more]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_runs_are_measured_and_kept(tmp_path):
    (tmp_path / "plan.toml").write_text(two_models())
    places = ["--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]
    assert run(["paper", "workload", "world", "--count", "20", *places]) == 0
    keep_paces(tmp_path / "results", [KEPT, Pace("other/flex-seed1", 2.5, "cpu", "2026-11-16")])
    found = pace(tmp_path)
    assert found.returncode == 0, found.stderr
    paces = read_paces(tmp_path / "results")
    assert paces.keys() == {"world/flex-small-seed3", "world/gqe-seed3", "other/flex-seed1"}
    assert paces["other/flex-seed1"].milliseconds == 2.5
    assert paces["world/gqe-seed3"].milliseconds != KEPT.milliseconds
    for name in ("world/flex-small-seed3", "world/gqe-seed3"):
        assert f"{name}: {paces[name].milliseconds:.2f} ms an update" in found.stdout
        assert 0 < paces[name].milliseconds < 10_000
    # One that fails does not leave the others waiting, and is the one that is told of.
    (tmp_path / "plan.toml").write_text(two_models(one="training.shapes=epppp"))
    failed = pace(tmp_path)
    assert failed.returncode == 2
    assert "epppp" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert read_paces(tmp_path / "results") == paces


def test_the_page_says_what_makes_trainings_equally_long():
    (job, *_) = missing(the_paper().select("main-epfo"), the_paper(), [], read_registry(ROOT / "results"))
    assert list_paces({}, [job]) == ""
    text = list_paces({job.name: Pace(job.name, 60.0, "a device", "2026-11-16")}, [job])
    steps = job.config.training.steps
    assert "(a device; " in text
    assert f"| `{job.name}` | 60.00 | 2026-11-16 | {steps:,} | {steps / 1000:.1f} |" in text


def test_a_damaged_file_is_named(tmp_path):
    whole = '{"paces": [{"run": "x", "milliseconds": "fast", "device": "cpu", "date": ""}]}'
    for text in ('{"paces": [{"run": "x"}]}', whole):
        (tmp_path / FILE).write_text(text)
        with pytest.raises(DataError, match=FILE):
            read_paces(tmp_path)


def test_the_runs_of_a_graph_take_equally_long():
    book, paces = the_paper(), read_paces(ROOT / "results")
    jobs = {job.name: job for job in missing(book.select("all"), book, [], read_registry(ROOT / "results"))}
    compared = [name for name in paces if not name.startswith("fb15k/")]
    assert len(compared) >= 20
    for name in compared:
        favourite = f"{name.split('/')[0]}/flex-seed1"
        own, flex = (paces[run].minutes(jobs[run].config.training.steps) for run in (name, favourite))
        # Rather more than less: paces of different days differ.
        assert 0.95 * flex < own < 1.1 * flex, name
