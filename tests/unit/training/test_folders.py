"""A run's folder is begun whole, by one process at a time, and goes on only as what it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import flexkg
from flexkg.cli.main import run
from flexkg.errors import DataError, TrainingError
from flexkg.kg.dataset import Dataset
from flexkg.training.begin import alone
from flexkg.training.folder import RunFolder

SMALL = ["model.dim=8", "model.hidden=16", "training.batch_size=16", "training.steps=6", "training.fill_up=0"]


@pytest.fixture(scope="module")
def queries(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("queries") / "workload"
    assert run(["workload", "build", "world", "--out", str(out), "--shapes", "1p,2i", "--count", "20"]) == 0
    return out


def train(out: Path, queries: Path, *more: str) -> int:
    changes = [word for change in (*SMALL, "training.shapes=1p,2i") for word in ("--set", change)]
    command = ["train", "flex-small", "--data", "world", "--workload", str(queries), "--device", "cpu", *changes]
    return run([*command, "--out", str(out), *more])


def test_one_process_trains_a_run(tmp_path, queries, capsys):
    out = tmp_path / "runs" / "one"
    with alone(out):
        assert train(out, queries) == 2
        assert "is being trained by another process" in capsys.readouterr().err
        assert not out.exists()
    assert train(out, queries) == 0
    assert train(out, queries, "--resume") == 0
    assert [path.name for path in out.parent.iterdir()] == ["one"]  # the lock is gone


def test_a_run_that_was_killed_at_its_beginning_goes_on(tmp_path, queries, capsys):
    out = tmp_path / "run"
    (out / ".data.0123456789ab.partial").mkdir(parents=True)
    (out / ".run.json.0123456789ab.partial").write_text("{")
    flexkg.load("world").dataset.save(out / "data")
    assert train(out, queries, "--resume") == 0
    assert not list(out.glob(".*"))
    for name, content in (("notes.txt", "mine"), (".data.partial", "mine"), ("data", "mine")):
        other = tmp_path / f"other-{name}"
        other.mkdir()
        (other / name).write_text(content)
        assert train(other, queries) == 2
        assert "holds something else" in capsys.readouterr().err
        assert (other / name).read_text() == content


def test_what_a_run_says_of_itself_has_to_be_whole(tmp_path, queries, capsys):
    out = tmp_path / "run"
    assert train(out, queries) == 0
    whole = json.loads((out / "run.json").read_text())
    for lacking in ("config", "data"):
        (out / "run.json").write_text(json.dumps({key: value for key, value in whole.items() if key != lacking}))
        with pytest.raises(DataError, match="lacks its config or data"):
            RunFolder.open(out)
        assert train(out, queries, "--resume") == 2
        assert "lacks its config or data" in capsys.readouterr().err


def test_a_run_that_stopped_early_stays_as_it_is(tmp_path, queries, capsys):
    out = tmp_path / "run"
    more = ["--set", "training.steps=400", "--set", "training.validate_every=1", "--set", "training.patience=2"]
    more += ["--set", "training.learning_rate=1e-12", "--json"]
    assert train(out, queries, *more) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["steps"] < 400
    metrics = (out / "metrics.jsonl").read_text()
    assert train(out, queries, *more, "--resume") == 0
    assert json.loads(capsys.readouterr().out)["steps"] == first["steps"]
    assert (out / "metrics.jsonl").read_text() == metrics


def test_a_run_has_the_facts_that_it_was_begun_with(tmp_path, queries, capsys):
    out = tmp_path / "run"
    assert train(out, queries) == 0
    shutil.rmtree(out / "data")
    ask = ["ask", str(out), "?x : borders(France, ?x)"]
    lost = f"has lost its facts: {out / 'data'} does not hold them."
    for left in (None, "an empty folder"):
        if left:
            (out / "data").mkdir()
        assert run(ask) == 2
        assert lost in capsys.readouterr().err
        # The command that goes on with the run has them at hand.
        assert train(out, queries, "--resume") == 0
        assert run(ask) == 0
        shutil.rmtree(out / "data")
    # As many entities and relations, so that the weights would fit.
    world = flexkg.load("world").dataset
    fewer = world.triples | {"test": world.triples["test"][1:]}
    Dataset(world.name, world.entities, world.relations, fewer).save(out / "data")
    resume = ["train", "--out", str(out), "--resume"]
    for command in (ask, resume, [*resume, "--data", "world", "--workload", str(queries)]):
        assert run(command) == 2
        assert "holds other facts than those that the run was begun with" in capsys.readouterr().err


def test_a_seed_has_64_bits(tmp_path, queries, capsys):
    assert train(tmp_path / "run", queries, "--set", f"training.seed={2**63}") == 2
    assert "training.seed" in capsys.readouterr().err
    assert train(tmp_path / "run", queries, "--set", f"training.seed={2**63 - 1}") == 0


def test_shapes_of_ones_own_are_trained_by_their_keys_and_evaluated(tmp_path, capsys):
    (tmp_path / "shapes.toml").write_text('either = "?x : r(a, ?x) ^ r(b, ?x)"\n')
    workload = ["workload", "build", "world", "--out", str(tmp_path / "mixed"), "--count", "20"]
    assert run([*workload, "--templates", str(tmp_path / "shapes.toml"), "--shapes", "1p,either"]) == 0
    out = tmp_path / "run"
    small = ["--set", "model.connectives=intersect,xor"]
    assert train(out, tmp_path / "mixed", *small, "--set", "training.shapes=1p,epep^") == 0
    capsys.readouterr()
    assert train(tmp_path / "none", tmp_path / "mixed", *small, "--set", "training.shapes=1p,epep-") == 2
    assert "It has 1p, epep^ (either): choose among them" in capsys.readouterr().err
    assert train(tmp_path / "none", tmp_path / "mixed", "--set", "training.shapes=either") == 2
    assert "others go by their keys" in capsys.readouterr().err
    assert run(["evaluate", str(out), "--workload", str(tmp_path / "mixed"), "--split", "test", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["shapes"]) == {"1p", "either"}


@pytest.mark.slow
def test_a_run_evaluates_what_it_was_trained_on(tmp_path, capsys):
    out = tmp_path / "run"
    changes = [*SMALL, "model.connectives=intersect,xor", "training.shapes=1p,epep^"]
    command = ["train", "flex-small", "--data", "world", "--device", "cpu", "--out", str(out)]
    assert run([*command, *(word for change in changes for word in ("--set", change))]) == 0
    assert run(["evaluate", str(out), "--shapes", "1p,epep^", "--json", "--device", "cpu"]) == 0
    assert "epep^" in json.loads(capsys.readouterr().out.splitlines()[-1])["shapes"]


def test_a_folder_may_be_the_present_one(tmp_path, queries, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert train(Path(), queries) == 0
    with pytest.raises(TrainingError), alone(Path()), alone(tmp_path / "here"):
        pytest.fail("one folder by two names")
