"""What can happen to a run: killed, a full disk, damaged files, divergence. Each is provoked, in real processes."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file

from flexkg.cli.main import run
from flexkg.training import checkpoint
from flexkg.training.folder import RunFolder

if TYPE_CHECKING:
    from pathlib import Path

SMALL = [
    "--set", "model.dim=8", "--set", "model.hidden=16", "--set", "training.batch_size=16",
    "--set", "training.negatives=4", "--set", "training.shapes=1p,2i", "--set", "training.validate_every=60",
    "--device", "cpu",
]  # fmt: skip


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    folder = tmp_path_factory.mktemp("failures") / "workload"
    build = ["workload", "build", "world", "--out", str(folder), "--shapes", "1p,2i", "--count", "60"]
    assert run([*build, "--split", "train,valid"]) == 0
    return folder


def arguments(out, workload, *settings: str) -> list[str]:
    given = [part for setting in settings for part in ("--set", setting)]
    return ["train", "flex-small", "--data", "world", "--workload", str(workload), "--out", str(out), *SMALL, *given]


def command(*line: str) -> list[str]:
    return [sys.executable, "-m", "flexkg", *line]


def finish(*line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*line), capture_output=True, text=True, timeout=120, check=False)


def assert_same_weights(left: Path, right: Path) -> None:
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (left, right))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def error_line(err: str) -> str:
    """The one line that says what is wrong; no traceback is beside it."""
    assert "Traceback" not in err
    [line] = [line for line in err.splitlines() if line.startswith("error:")]
    return line


def steps_recorded(out: Path) -> list[int]:
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [row["step"] for row in rows if "loss" in row]


def copy_of(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


def test_a_killed_run_goes_on_as_if_nothing_had_been(tmp_path, workload):
    """SIGKILL in the middle loses less than `checkpoint_every` steps and changes no bit of the result."""
    every, settings = 20, ["training.steps=240", "training.checkpoint_every=20", "training.validate_every=30"]
    out = tmp_path / "killed"
    process = subprocess.Popen(command(*arguments(out, workload, *settings)), stderr=subprocess.DEVNULL)
    while process.poll() is None and not checkpoint.steps(out / "checkpoints"):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait(timeout=60) == -signal.SIGKILL
    [*_, saved] = checkpoint.steps(out / "checkpoints")
    reached = max(steps_recorded_as_far_as_whole(out), default=0)
    assert saved < 240
    assert reached - saved < every
    # What a kill can leave: a half-written state and half a line.
    (out / "checkpoints" / ".step-000000240.0123.partial").mkdir()
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"step": 239, "lo')
    again = finish(*arguments(out, workload, *settings), "--resume")
    assert again.returncode == 0, again.stderr
    assert f"going on from step {saved:,}" in again.stderr
    assert run(arguments(tmp_path / "whole", workload, *settings)) == 0
    assert_same_weights(tmp_path / "whole", out)
    assert steps_recorded(out) == steps_recorded(tmp_path / "whole")
    assert not list((out / "checkpoints").glob(".*"))


def steps_recorded_as_far_as_whole(out: Path) -> list[int]:
    return [
        json.loads(line)["step"] for line in (out / "metrics.jsonl").read_text().splitlines(True) if line[-1:] == "\n"
    ]


@pytest.fixture
def small_disk(tmp_path):
    """A file system that has room for the data and one checkpoint, not for two."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1100k", "tmpfs", disk], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("mounting a small tmpfs needs root")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_is_explained_and_loses_nothing(tmp_path, workload, small_disk, capsys):
    settings = ["training.steps=120", "training.checkpoint_every=30"]
    out = small_disk / "run"
    full = finish(*arguments(out, workload, *settings))
    assert full.returncode == 2, full.stderr
    assert "The disk is full" in error_line(full.stderr)
    kept = checkpoint.steps(out / "checkpoints")
    assert kept == [30]
    assert not list((out / "checkpoints").glob(".*"))
    subprocess.run(["mount", "-o", "remount,size=50m", small_disk], check=True)
    capsys.readouterr()
    assert run([*arguments(out, workload, *settings), "--resume"]) == 0
    assert "going on from step 30" in capsys.readouterr().err
    assert run(arguments(tmp_path / "whole", workload, *settings)) == 0
    assert_same_weights(tmp_path / "whole", out)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, workload):
    out = tmp_path_factory.mktemp("finished") / "run"
    assert run(arguments(out, workload, *FINISHED)) == 0
    return out


FINISHED = ["training.steps=90", "training.checkpoint_every=30", "training.learning_rate=0.05"]


def truncate(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def flip(folder: Path) -> None:
    file = folder / "optimiser.safetensors"
    content = bytearray(file.read_bytes())
    content[-50] ^= 1
    file.write_bytes(content)


def delete_state(folder: Path) -> None:
    (folder / "state.json").unlink()


def empty_state(folder: Path) -> None:
    (folder / "state.json").write_text("{}")


def delete_tensors(folder: Path) -> None:
    (folder / "optimiser.safetensors").unlink()


def forget_tensors(folder: Path) -> None:
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**state, "sha256": {}}))


@pytest.mark.parametrize("damage", [truncate, flip, delete_state, empty_state, delete_tensors, forget_tensors])
def test_a_damaged_state_is_skipped_for_the_last_good_one(tmp_path, workload, finished, capsys, damage):
    out = copy_of(finished, tmp_path / "run")
    (out / "model.safetensors").unlink()
    newest, before = sorted(checkpoint.steps(out / "checkpoints"), reverse=True)[:2]
    damage(out / "checkpoints" / f"step-{newest:09d}")
    capsys.readouterr()
    assert run([*arguments(out, workload, *FINISHED), "--resume"]) == 0
    err = capsys.readouterr().err
    assert f"checkpoint {newest} is skipped" in err
    assert f"going on from step {before}" in err
    assert_same_weights(finished, out)
    # It was written anew.
    assert checkpoint.load(out / "checkpoints", newest).step == newest


def test_when_every_state_is_damaged_it_says_so(tmp_path, workload, finished, capsys):
    out = copy_of(finished, tmp_path / "run")
    steps = checkpoint.steps(out / "checkpoints")
    for step in steps:
        truncate(out / "checkpoints" / f"step-{step:09d}")
    capsys.readouterr()
    assert run([*arguments(out, workload, *FINISHED), "--resume"]) == 2
    assert "No checkpoint" in error_line(capsys.readouterr().err)
    assert checkpoint.steps(out / "checkpoints") == steps


def test_a_lost_best_state_is_replaced_by_the_last(tmp_path, workload, finished, capsys):
    out = copy_of(finished, tmp_path / "run")
    last = out / "checkpoints" / "step-000000090"
    state = json.loads((last / "state.json").read_text())
    state["best"] = {"step": 60, "mrr": 0.5, "last": 0.1, "without": 1}
    (last / "state.json").write_text(json.dumps(state))
    shutil.rmtree(out / "checkpoints" / "step-000000060")
    capsys.readouterr()
    assert run([*arguments(out, workload, *FINISHED), "--resume"]) == 0
    assert "best state is lost" in capsys.readouterr().err
    assert_same_weights(last, out)


def test_divergence_is_diagnosed_and_the_last_good_state_kept(tmp_path, workload):
    out = tmp_path / "run"
    settings = [
        "training.steps=400",
        "training.checkpoint_every=2",
        "training.learning_rate=1e37",
        "training.warm_up=0",
    ]
    done = finish(*arguments(out, workload, *settings))
    assert done.returncode == 2, done.stderr
    line = error_line(done.stderr)
    assert "Training diverged at step" in line
    assert "training.learning_rate" in line
    for step in checkpoint.steps(out / "checkpoints"):
        tensors = checkpoint.load(out / "checkpoints", step).tensors["model"]
        assert all(bool(value.isfinite().all()) for value in tensors.values())
        assert f"The state of step {step:,} is kept" in line or step != checkpoint.steps(out / "checkpoints")[-1]


def test_every_fact_can_be_learnt(tmp_path, capsys):
    out = tmp_path / "run"
    line = ["train", "flex-small", "--data", "world", "--out", str(out), *SMALL, "--set", "data.train_on=all"]
    assert run([*line, "--set", "training.steps=5"]) == 0
    opened = RunFolder.open(out)
    assert {split: len(facts) for split, facts in opened.dataset.triples.items()} == {
        "train": 9117, "valid": 0, "test": 0,
    }  # fmt: skip
    assert opened.model().num_entities == 4381
    assert opened.manifest["result"]["best"] is None


def test_a_board_shows_what_was_measured(tmp_path, workload):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs the extra tensorboard"
    )
    out = tmp_path / "run"
    settings = ["training.steps=60", "training.validate_every=30"]
    assert run([*arguments(out, workload, *settings), "--tensorboard"]) == 0
    board = accumulator.EventAccumulator(str(out / "tensorboard"))
    board.Reload()
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    losses = [(row["step"], row["loss"]) for row in rows if "loss" in row]
    assert [event.step for event in board.Scalars("training/loss")] == [step for step, _ in losses]
    assert [event.value for event in board.Scalars("training/loss")] == pytest.approx([loss for _, loss in losses])
    assert [event.step for event in board.Scalars("valid/mrr")] == [30, 60]
    assert [event.value for event in board.Scalars("valid/2i/hits@10")] == pytest.approx(
        [row["valid"]["2i"]["hits@10"] for row in rows if "valid" in row]
    )


def test_without_the_extra_a_board_is_refused_before_anything_is_written(tmp_path, workload, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    assert run([*arguments(tmp_path / "run", workload), "--tensorboard"]) == 2
    assert 'Install it with: pip install "tensorboard>=' in error_line(capsys.readouterr().err)
    assert not (tmp_path / "run").exists()
