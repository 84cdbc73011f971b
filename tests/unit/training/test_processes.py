"""Several processes: their shares of a batch add up to it, and they decide alike."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flexkg.config import build_model, load_recipe
from flexkg.errors import ConfigError, TrainingError
from flexkg.training.batches import counts_for
from flexkg.training.folder import RunFolder
from flexkg.training.loop import Trainer
from flexkg.training.processes import joined
from small_training import ENTITIES, RELATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

NARROW = ["model.dim=8", "training.batch_size=30", "training.negatives=4"]
PATHS = "training.shapes=1p,2p"


def gradients(folder: Path, queries, recipe: str, settings: list[str], share: tuple[int, int]) -> dict:
    config = load_recipe(recipe, [*NARROW, *settings])
    torch.manual_seed(0)
    model = build_model(config.model, ENTITIES, 2 * RELATIONS)
    sets = [queries[0][shape] for shape in config.training.shapes]
    trainer = Trainer(model, config.training, sets, [], folder, torch.device("cpu"), share)
    model.train()
    trainer._backward(trainer._loss(0), 0)
    dense = {name: value.grad for name, value in model.named_parameters() if value.grad is not None}
    return {name: grad.to_dense() if grad.is_sparse else grad for name, grad in dense.items()}


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        ("flex-small", ["model.hidden=16", "training.shapes=1p,2p,2i,2in", "training.near_misses=0.5"]),
        ("complex", ["model.regularisation=0.3"]),
        ("distmult", []),
        ("transe", []),
        ("cone", ["model.hidden=16", "model.dropout=0", "training.shapes=1p,2p,2i"]),
    ],
)
def test_shares_of_a_batch_add_up_to_it(tmp_path: Path, queries, recipe: str, settings: list[str]) -> None:
    whole = gradients(tmp_path, queries, recipe, settings, (0, 1))
    total: Counter = Counter()
    for rank in range(3):
        for name, grad in gradients(tmp_path, queries, recipe, settings, (rank, 3)).items():
            total[name] = total[name] + grad
    assert total.keys() == whole.keys()
    for name, grad in whole.items():
        torch.testing.assert_close(total[name], grad, rtol=1e-4, atol=1e-6 + 1e-5 * float(grad.abs().max()))


def test_processes_do_not_drop_the_same(tmp_path: Path, queries) -> None:
    seen = []
    for share in ((0, 1), (0, 2), (1, 2)):
        settings = [*NARROW, "model.hidden=16", "model.dropout=0.5", "training.shapes=1p,2i", "training.seed=3"]
        config = load_recipe("flex-small", settings)
        model = build_model(config.model, ENTITIES, 2 * RELATIONS)
        sets = [queries[0][shape] for shape in config.training.shapes]
        trainer = Trainer(model, config.training, sets, [], tmp_path, torch.device("cpu"), share)
        trainer._share_gradients = lambda loss: None
        trainer._update()
        torch.rand(1)
        seen.append(torch.initial_seed())
    assert len(set(seen[1:])) == 2
    assert seen[0] == seen[1]


def test_models_that_differ_by_process_stop_together(tmp_path: Path) -> None:
    """TuckER's batch statistics are those of each process's share, and so are its validations."""
    settings = ["model.dim=8", "model.relation_dim=4", "training.batch_size=64", "training.steps=400"]
    settings += ["training.validate_every=3", "training.patience=2", "training.learning_rate=0.1"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "flexkg"]
    command = [*torchrun, "train", "tucker", "--data", "world", "--out", str(tmp_path / "run"), "--device", "cpu"]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=180, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    assert "stopped early" in done.stderr


def test_batches_that_a_model_cannot_learn_from_are_refused(tmp_path: Path, queries) -> None:
    for size, share in ((1, (0, 1)), (3, (0, 2))):
        settings = ["training.shapes=1p", f"training.batch_size={size}"]
        with pytest.raises(ConfigError, match="tucker learns from 2 queries at least"):
            gradients(tmp_path, queries, "tucker", ["model.relation_dim=4", *settings], share)
        gradients(tmp_path, queries, "transe", settings, share)


def test_one_process_says_what_is_wrong_and_the_others_that_it_ended(tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "flexkg"]
    (tmp_path / "notes.txt").write_text("mine")
    command = [*torchrun, "train", "flex-small", "--data", "world", "--out", str(tmp_path), "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode != 0
    assert "holds something else" in done.stderr
    assert "internal fault" not in done.stderr


TOGETHER = {"MASTER_ADDR": "localhost", "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}


@contextmanager
def started(command: list[str], **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
    with process:
        try:
            yield process
        finally:
            process.kill()


def training(out: Path, rank: int, port: int) -> AbstractContextManager[subprocess.Popen[str]]:
    """One of two processes that train for long, without torchrun, which would end the other one itself."""
    command = [sys.executable, "-m", "flexkg", "train", "flex-small", "--data", "world", "--out", str(out)]
    settings = ["batch_size=64", "steps=100000", "shapes=1p", "validate_every=100000"]
    command += [word for setting in settings for word in ("--set", f"training.{setting}")]
    return started([*command, "--device", "cpu"], **TOGETHER, RANK=str(rank), MASTER_PORT=str(port))


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("localhost", 0))
        return int(place.getsockname()[1])


def ends(process: subprocess.Popen[str]) -> str:
    """What a process says that ends because another one did."""
    _, said = process.communicate(timeout=120)
    assert process.returncode == 2, said
    last: str = said.splitlines()[-1]
    assert last.startswith("error: Another process of this training ended"), said
    return last


def test_a_process_that_ends_while_the_others_join(tmp_path: Path) -> None:
    """The store returns when the other is there, which then waits for one that never says where it is."""
    port = free_port()
    gone = f"from torch.distributed import TCPStore; TCPStore('localhost', {port}, 2, True)"
    with started([sys.executable, "-c", gone]) as first, training(tmp_path / "run", 1, port) as second:
        ends(second)
        assert first.wait(timeout=120) == 0


@pytest.mark.parametrize(("killed", "once"), [(0, "metrics.jsonl"), (1, "*workload*")])
def test_what_was_made_stays_when_a_process_is_killed(tmp_path: Path, killed: int, once: str) -> None:
    """The first while both train; the second while the first samples the workload, which may have taken long."""
    port, out = free_port(), tmp_path / "run"
    with training(out, 0, port) as first, training(out, 1, port) as second:
        until = time.monotonic() + 120
        while not any(out.glob(once)):
            assert first.poll() is None
            assert time.monotonic() < until
            time.sleep(0.005)
        both = [first, second]
        both.pop(killed).kill()
        assert ".cc" not in ends(both[0])
    assert len(RunFolder.open(out).dataset.triples["train"])
    assert (out / "workload").exists()


@pytest.mark.parametrize(
    ("surroundings", "said"),
    [
        ({"MASTER_ADDR": ""}, "MASTER_ADDR is not set"),
        ({"RANK": ""}, "RANK is not set"),
        ({"RANK": "2"}, "RANK is 2, which is none of them"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT is 'http', no number"),
        ({"WORLD_SIZE": "all"}, "WORLD_SIZE is 'all', no number"),
    ],
)
def test_surroundings_that_say_half(monkeypatch, surroundings: dict[str, str], said: str) -> None:
    for name, value in {**TOGETHER, "RANK": "1", "MASTER_PORT": "1", **surroundings}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TrainingError, match=said) as refused, joined(torch.device("cpu")):
        pass
    assert "torchrun" in str(refused.value)


def test_a_process_has_a_gpu_of_its_own(monkeypatch) -> None:
    surroundings = {**TOGETHER, "RANK": "1", "MASTER_PORT": "1", "LOCAL_RANK": str(torch.cuda.device_count())}
    for name, value in surroundings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TrainingError, match="of this machine has no GPU: there"), joined(torch.device("cuda")):
        pass


@given(st.lists(st.floats(0.01, 20), min_size=1, max_size=14), st.integers(1, 300))
def test_a_batch_is_as_large_as_asked(shares: list[float], size: int) -> None:
    names = [f"shape {number}" for number in range(len(shares))]
    counts = counts_for(names, dict(zip(names, shares, strict=True)), size)
    assert sum(counts) == max(size, len(shares))
    assert min(counts) >= 1
    ordered = [count for _, count in sorted(zip(shares, counts, strict=True))]
    assert all(count <= after + 1 for count, after in pairwise(ordered))
