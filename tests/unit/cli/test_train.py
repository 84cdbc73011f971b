"""`flexkg train`: a run folder that says what it is, survives interruption, and refuses to be mixed up."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

from flexkg.cli.main import run
from flexkg.kg.dataset import Dataset
from flexkg.kg.vocabulary import Vocabulary
from flexkg.sampling.workload import Workload
from flexkg.training import checkpoint

SMALL = [
    "--set", "model.dim=8", "--set", "model.hidden=16", "--set", "training.batch_size=16",
    "--set", "training.negatives=4", "--set", "training.shapes=1p,2i", "--device", "cpu",
]  # fmt: skip


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    folder = tmp_path_factory.mktemp("train") / "workload"
    assert (
        run(
            [
                "workload",
                "build",
                "world",
                "--out",
                str(folder),
                "--shapes",
                "1p,2i",
                "--count",
                "60",
                "--split",
                "train,valid",
            ]
        )
        == 0
    )
    return folder


def arguments(out, workload, *more: str) -> list[str]:
    return ["train", "flex-small", "--data", "world", "--workload", str(workload), "--out", str(out), *SMALL, *more]


def test_a_run_folder_says_what_it_is(tmp_path, workload, capsys):
    out = tmp_path / "run"
    assert run([*arguments(out, workload, "--set", "training.steps=6"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["model"] == "flex"
    assert found["steps"] == 6
    assert found["parameters"] > 10_000
    assert found["queries_per_second"] > 0
    assert found["best"]["mrr"] > 0
    manifest = json.loads((out / "run.json").read_text())
    assert manifest["recipe"] == "flex-small"
    assert manifest["config"]["model"]["dim"] == 8
    assert manifest["result"]["steps"] == 6
    assert manifest["workload"] == {"name": "workload", "checksum": Workload.load(workload).checksum, "given": True}
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert rows[0]["loss"] > 0
    assert (out / "training.svg").read_text().startswith("<svg")
    assert (out / "model.safetensors").stat().st_size > 1000
    assert run(["data", "info", str(out / "data"), "--json"]) == 0


def test_a_run_goes_on_with_the_workload_that_it_was_begun_with(tmp_path, capsys):
    data, given, own, folder = (tmp_path / name for name in ("data", "given", "own", "queries"))
    facts = {"train": [(head, 0, (head + step) % 30) for head in range(30) for step in (1, 2)]}
    Dataset("ring", Vocabulary([f"e{number}" for number in range(30)]), Vocabulary(["r"]), facts).save(data)
    shapes = ["--shapes", "1p,2i", "--split", "train", "--seed", "5", "--count", "20"]
    assert run(["workload", "build", str(data), "--out", str(folder), *shapes]) == 0

    def train(out, *more: str) -> tuple[int, str]:
        capsys.readouterr()
        steps = ["--set", "training.steps=2"]
        code = run(["train", "flex-small", "--data", str(data), "--out", str(out), *SMALL, *steps, *more])
        return code, capsys.readouterr().err

    assert train(given, "--workload", str(folder))[0] == 0
    assert train(own)[0] == 0
    record = json.loads((own / "run.json").read_text())["workload"]
    assert record == {"name": "workload", "checksum": Workload.load(own / "workload").checksum, "given": False}
    code, err = train(given, "--resume")
    assert code == 2
    assert "was begun with another workload. Give the same --workload (queries)" in err
    code, err = train(own, "--workload", str(folder), "--resume")
    assert code == 2
    assert "Give the same command without --workload" in err
    # The same queries are welcome from anywhere.
    assert train(own, "--workload", str(own / "workload"), "--resume")[0] == 0
    assert train(own, "--resume")[0] == 0
    assert train(given, "--workload", str(folder), "--resume")[0] == 0


def test_an_interrupted_run_goes_on(tmp_path, workload, capsys):
    out = tmp_path / "run"
    more = ["--set", "training.steps=100000", "--set", "training.validate_every=100000"]
    command = [sys.executable, "-m", "flexkg", *arguments(out, workload, *more)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    while process.poll() is None and not (out / "metrics.jsonl").exists():
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert b"go on with --resume" in err
    [step] = checkpoint.steps(out / "checkpoints")
    capsys.readouterr()
    assert run(arguments(out, workload, *more)) == 2
    assert "--resume" in capsys.readouterr().err
    assert run([*arguments(out, workload, "--set", "training.steps=50"), "--resume"]) == 2
    assert "other settings" in capsys.readouterr().err
    again = subprocess.Popen([*command, "--resume"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert again.stderr is not None
    assert any(f"going on from step {step:,}" in line for line in again.stderr)
    again.send_signal(signal.SIGTERM)
    again.communicate(timeout=60)
    assert again.returncode == 0
    assert checkpoint.steps(out / "checkpoints")[-1] > step


def test_a_run_knows_itself_how_it_goes_on(tmp_path, capsys):
    out = tmp_path / "run"
    steps = ["--set", "training.steps=4", "--set", "training.checkpoint_every=2", "--set", "data.train_on=all"]
    begun = ["train", "flex-small", "--data", "world", "--out", str(out), *SMALL, *steps, "--set", "training.shapes=1p"]
    assert run(begun) == 0
    weights = (out / "model.safetensors").read_bytes()
    shutil.rmtree(out / "checkpoints" / "step-000000004")
    (out / "model.safetensors").unlink()
    capsys.readouterr()
    assert run(["train", "--out", str(out), "--resume"]) == 0
    assert "going on from step 2" in capsys.readouterr().err
    assert (out / "model.safetensors").read_bytes() == weights
    # Its recipe is not the one that stands for none, which settings alone change.
    assert run(["train", "--out", str(out), "--resume", "--set", "training.steps=5"]) == 2
    assert f"other settings. `flexkg train --out {out} --resume` goes on with its own" in capsys.readouterr().err
    assert run(["train", "--data", "world", "--out", str(out), "--resume"]) == 0
    other = tmp_path / "other"
    Dataset("pair", Vocabulary(["a", "b"]), Vocabulary(["r"]), {"train": [(0, 0, 1)]}).save(other)
    assert run(["train", "--data", str(other), "--out", str(out), "--resume"]) == 2
    assert "begun on other data. `flexkg train --out" in capsys.readouterr().err
    assert run(["train", "--out", str(tmp_path / "none"), "--resume"]) == 2
    assert "is not a run" in capsys.readouterr().err
    assert run(["train", "flex-small", "--out", str(tmp_path / "none")]) == 2
    assert "Missing option '--data'" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def press_ctrl_c(*_args, **_options):
    raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["_given", "calibrate_run"])
def test_an_interrupt_outside_of_the_steps_says_how_to_go_on(tmp_path, workload, monkeypatch, capsys, where):
    command = arguments(tmp_path / "run", workload, "--set", "training.steps=2")
    with monkeypatch.context() as patch:
        patch.setattr(f"flexkg.training.run.{where}", press_ctrl_c)
        assert run(command) == 130
    assert capsys.readouterr().err.endswith("interrupted; go on with --resume\n")
    assert run([*command, "--resume"]) == 0


def test_an_interrupt_is_not_passed_over_in_silence(monkeypatch, capsys):
    monkeypatch.setattr("flexkg.kg.catalog.locate", press_ctrl_c)
    assert run(["data", "info", "world"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--set", "training.shapes=3i"], "no training queries of the shape 3i"),
        (["--set", "training.stepz=3"], "training.steps"),
        (["--set", "model.dim=-3"], "model.dim"),
    ],
)
def test_mistakes_are_found_before_training(tmp_path, workload, capsys, more, message):
    assert run(arguments(tmp_path / "run", workload, *more)) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_model_that_cannot_say_it_is_named_before_anything_is_written(tmp_path, capsys):
    out = tmp_path / "run"
    assert run(["train", "query2box", "--data", "world", "--out", str(out), "--set", "training.shapes=2in"]) == 2
    assert "query2box cannot express negation" in capsys.readouterr().err
    assert not out.exists()


def test_the_folder_may_not_be_a_file_or_somebody_elses(tmp_path, workload, capsys):
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    assert run(arguments(file, workload)) == 2
    assert "is a file" in capsys.readouterr().err
    assert run(arguments(tmp_path, workload)) == 2
    assert "something else" in capsys.readouterr().err
    assert file.read_text() == "mine"


def test_a_model_that_does_not_fit_into_memory_is_no_fault_of_ours(tmp_path, workload, capsys):
    assert run(arguments(tmp_path / "run", workload, "--set", "model.dim=1000000000000")) == 2
    assert capsys.readouterr().err.startswith("error: out of memory: use a smaller")


@pytest.mark.parametrize(("processes", "ends"), [("1", "taken down\n"), ("2", "")])
def test_one_of_several_processes_ends_without_taking_the_interpreter_down(processes, ends):
    """Threads of a process group may still want Python then, and abort it."""
    program = (
        "import atexit, sys; atexit.register(print, 'taken down'); from flexkg.cli.main import main; "
        "sys.argv[1:] = ['recipes', '--json']; main()"
    )
    environment = {**os.environ, "WORLD_SIZE": processes}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    said, _, rest = done.stdout.rpartition("}\n")
    assert json.loads(f"{said}}}")
    assert rest == ends
    program = program.replace("['recipes', '--json']", "['recipes', '--nonsense']")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2
    assert "--nonsense" in done.stderr


@pytest.mark.parametrize("rows", ["dense", "sparse"])
def test_two_processes_train_as_one(tmp_path, workload, rows):
    """The same global batch gives the same weights, up to the order in which numbers are added."""
    settings = ["--set", "training.steps=8", "--set", "training.validate_every=4", "--set", f"training.rows={rows}"]
    assert run(arguments(tmp_path / "one", workload, *settings)) == 0
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "flexkg"]
    done = subprocess.run(
        [*torchrun, *arguments(tmp_path / "two", workload, *settings), "--json"],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["steps"] == 8
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=1e-3, atol=1e-6)
