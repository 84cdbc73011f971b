"""Trials on validation queries: a real plan is tried, kept line by line, and shown on the page."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flexkg.config import load_recipe
from flexkg.errors import DataError
from flexkg.kg.catalog import locate, resolve
from flexkg.paper.tuning import FILE, Trial, add_trial, list_trials, read_trials
from flexkg.query.shapes import SHAPES
from flexkg.sampling.make import Order, make_workload
from flexkg.sampling.workload import Workload
from tune import prepare, read_plan

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
SHARED = Trial(
    "world", "1", "base", "flex-small", ("model.dim=8",), (), 4, "cpu", "2026-11-16", 0.125, 0.25, None, {"1p": 0.25}
)

PLAN = """
round = "1"
graph = "world"
recipe = "flex-small"
set = [
    "model.dim=8", "model.hidden=8", "training.steps=4", "training.batch_size=16", "training.warm_up=0",
    "training.shapes=1p", "training.shares={}",
]

[trials]
plain = []
wider = ["model.hidden=16"]
"""


def command(tmp_path: Path, plan: str) -> list[str | Path]:
    (tmp_path / "plan.toml").write_text(plan)
    options = ["--results", tmp_path / "results", "--workload", tmp_path / "queries"]
    return [sys.executable, ROOT / "scripts" / "tune.py", tmp_path / "plan.toml", *options]


def tune(tmp_path: Path, plan: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(tmp_path, plan), capture_output=True, text=True, check=False)


def test_a_plan_is_tried_and_kept(tmp_path):
    (tmp_path / "results").mkdir()
    order = Order(splits=("train", "valid"), shapes=("1p", "2in"), train_shapes=("1p",), count=20)
    make_workload(resolve("world"), tmp_path / "queries", order)
    add_trial(tmp_path / "results", SHARED)
    found = tune(tmp_path, PLAN)
    assert found.returncode == 0, found.stderr
    first, *trials = read_trials(tmp_path / "results")
    assert first == SHARED
    assert {trial.name: trial.changed for trial in trials} == {"plain": (), "wider": ("model.hidden=16",)}
    for trial in trials:
        assert f"world {trial.name}: {100 * trial.mrr:.2f}" in found.stdout
        assert (trial.steps, trial.device, trial.graph) == (4, "cpu", "world")
        assert 0 < trial.shapes["1p"] < 1
        assert trial.shapes.keys() == {"1p", "2in"}
    # What is kept is not tried again, and other settings under its name are refused.
    assert tune(tmp_path, PLAN).stdout == "every trial of this plan is kept already\n"
    other = tune(tmp_path, PLAN.replace("model.hidden=16", "model.hidden=12"))
    assert (other.returncode, other.stdout) == (2, "")
    assert "Round 1 on world has a trial 'wider' with other settings." in other.stderr
    assert len(read_trials(tmp_path / "results")) == 3


def test_a_trial_that_fails_takes_no_other_with_it(tmp_path):
    make_workload(resolve("world"), tmp_path / "queries", Order(splits=("train", "valid"), shapes=("1p",), count=20))
    found = tune(tmp_path, PLAN.replace("model.hidden=16", "training.shapes=2p"))
    assert found.returncode == 2
    assert "wider failed: The workload" in found.stderr
    assert [trial.name for trial in read_trials(tmp_path / "results")] == ["plain"]


@contextmanager
def long_trials(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Trials of which the first has ended and the second goes on for long, in a session of their own."""
    make_workload(resolve("world"), tmp_path / "queries", Order(splits=("train", "valid"), shapes=("1p",), count=20))
    plan = PLAN.replace("wider = [", 'wider = ["training.steps=1_000_000", ') + 'last = ["training.steps=1_000_000"]\n'
    (tmp_path / "temporary").mkdir()
    with subprocess.Popen(
        command(tmp_path, plan), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env=os.environ | {"TMPDIR": str(tmp_path / "temporary")},
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("world plain: ")
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_ctrl_c_ends_all_at_once_and_keeps_what_ended(tmp_path):
    with long_trials(tmp_path) as process:
        # As a terminal sends it, and twice, as people press it.
        for _ in range(2):
            os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted; the trials that had ended are kept" in said
    assert "Traceback" not in said
    assert [trial.name for trial in read_trials(tmp_path / "results")] == ["plain"]
    assert not list((tmp_path / "temporary").glob("tmp*"))


def test_trials_end_with_who_asked_for_them(tmp_path):
    with long_trials(tmp_path) as process:
        process.kill()
        # They hold the same pipe, which ends when the last of them has.
        process.communicate(timeout=30)
    assert [trial.name for trial in read_trials(tmp_path / "results")] == ["plain"]


def test_a_wrong_setting_is_found_before_anything_is_trained(tmp_path):
    found = tune(tmp_path, PLAN.replace("model.hidden=16", "model.hiden=16"))
    assert found.returncode == 2
    assert "model.hidden" in found.stderr
    assert found.stdout == ""
    found = tune(tmp_path, "round = 1")
    assert found.returncode == 2
    assert "plan.toml cannot be read" in found.stderr


def test_a_damaged_line_is_named(tmp_path):
    add_trial(tmp_path, SHARED)
    with (tmp_path / FILE).open("a") as file:
        file.write("{}\n")
    with pytest.raises(DataError, match="line 2, is no trial"):
        read_trials(tmp_path)


def test_the_page_shows_the_best_first():
    better = Trial(**{**vars(SHARED), "name": "better", "changed": ("model.margin=9",), "mrr": 0.5, "negation": 0.0625})
    lines = list_trials([SHARED, better]).splitlines()
    rows = [line for line in lines if line.startswith("| b")]
    assert rows == ["| better | `model.margin=9` | 4 | 50.00 | 25.00 | 6.25 |", "| base |  | 4 | 12.50 | 25.00 |  |"]
    assert list_trials([]) == ""


def test_settings_of_the_kept_trials_can_still_be_used():
    trials = read_trials(ROOT / "results")
    assert trials
    for trial in trials:
        config = load_recipe(trial.recipe, [*trial.base, *trial.changed])
        assert config.training.steps == trial.steps


def test_the_page_counts_what_was_tried_of_each_recipe():
    rate = replace(SHARED, recipe="gqe", steps=1000, device="a GPU", changed=("training.learning_rate=0.001",))
    loss = replace(rate, name="loss", changed=("training.loss=binary",))
    both = replace(loss, name="both", device="cpu", changed=(*loss.changed, "model.margin=9"))
    lines = list_trials([SHARED, rate, loss, both]).splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("| recipe | graph |"))
    assert lines[head].endswith("| on a CPU | own settings: on a GPU | updates there | on a CPU |")
    table = lines[head + 2 :][:3]
    first = "| `gqe` | world | 3 | 2 | 2,000 | 1 | 1 | 1,000 | 1 |"
    assert table == [first, "| `flex-small` | world | 1 | 0 | 0 | 1 | 0 | 0 | 0 |", ""]


def test_trials_that_end_at_once_are_all_kept(tmp_path):
    trials = [replace(SHARED, name=f"trial {number}") for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda trial: add_trial(tmp_path, trial), trials))
    assert {trial.name for trial in read_trials(tmp_path)} == {trial.name for trial in trials}


def test_a_line_that_is_not_utf8_is_named(tmp_path):
    add_trial(tmp_path, SHARED)
    with (tmp_path / "tuning.jsonl").open("ab") as file:
        file.write(b"\xff\n")
    with pytest.raises(DataError, match="line 2, is no trial"):
        read_trials(tmp_path)


def test_trials_may_have_connectives_of_their_own(tmp_path):
    """What they are trained on besides is sampled; all are ranked on the fourteen shapes."""
    own = 'wider = ["model.connectives=intersect,minus", "training.shapes=1p,epep-"]'
    (tmp_path / "plan.toml").write_text(PLAN.replace('wider = ["model.hidden=16"]', own))
    folder = prepare(read_plan(tmp_path / "plan.toml"), locate("world"), None, tmp_path / "queries", "cpu")
    workload = Workload.load(folder)
    assert set(workload.shapes("train")) == {"1p", "epep-"}
    assert set(workload.shapes("valid")) == set(SHAPES)
