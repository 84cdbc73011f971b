"""Graphs of a handful of facts, with which people begin: what cannot be trained or asked says so, the rest works."""

from __future__ import annotations

import pytest

from flexkg.config import load_recipe
from flexkg.errors import FlexError
from flexkg.kg.dataset import Dataset
from flexkg.kg.vocabulary import Vocabulary
from flexkg.sampling.workload import Workload
from flexkg.training.run import train


def sparse_ring() -> Dataset:
    """A graph whose validation facts ask for hardly any shape."""
    words = Vocabulary([f"e{number}" for number in range(9)]), Vocabulary(["r"])
    facts = [(number, 0, (number + 1) % 9) for number in range(9)]
    return Dataset("ring", *words, {"train": facts[:7], "valid": facts[7:8], "test": facts[8:]})


def test_what_cannot_be_trained_leaves_nothing_in_the_way(tmp_path):
    """The hint names other settings: the same folder takes them."""
    out, small = tmp_path / "run", ["model.dim=4", "model.hidden=4", "training.steps=2", "training.batch_size=8"]
    config = load_recipe("flex-small", [*small, "training.shapes=1p,3in"])
    with pytest.raises(FlexError, match="Leave it out with --set"):
        train(sparse_ring(), config, out, recipe="flex-small")
    assert not out.exists()
    assert train(sparse_ring(), load_recipe("flex-small", [*small, "training.shapes=1p"]), out, recipe="x").finished
    # What was begun stays as it is, whatever comes after.
    before = sorted(path.name for path in out.iterdir())
    with pytest.raises(FlexError, match="begun with other settings"):
        train(sparse_ring(), config, out, recipe="flex-small", resume=True)
    assert sorted(path.name for path in out.iterdir()) == before


def test_shapes_that_valid_cannot_ask_about_are_left_out_of_validations(tmp_path):
    settings = [
        "model.dim=4",
        "model.hidden=4",
        "training.steps=4",
        "training.validate_every=1",
        "training.shapes=1p,2i",
    ]
    config = load_recipe("flex-small", [*settings, "training.batch_size=8"])
    outcome = train(sparse_ring(), config, tmp_path / "run", recipe="flex-small")
    workload = Workload.load(tmp_path / "run" / "workload")
    assert [workload.count("valid", shape) > 0 for shape in ("1p", "2i", "3i")] == [True, True, False]
    assert 0 < outcome.summary["best"]["mrr"] <= 1
    for name in ("run.json", "metrics.jsonl"):
        assert "NaN" not in (tmp_path / "run" / name).read_text()


def test_weights_are_as_readable_as_any_file(tmp_path):
    settings = ["model.dim=4", "model.hidden=4", "training.steps=2", "training.shapes=1p", "training.batch_size=8"]
    train(sparse_ring(), load_recipe("flex-small", settings), tmp_path / "run", recipe="flex-small")
    usual = (tmp_path / "run" / "run.json").stat().st_mode
    weights = sorted((tmp_path / "run").rglob("*.safetensors"))
    assert len(weights) == 5
    assert {path.stat().st_mode for path in weights} == {usual}
