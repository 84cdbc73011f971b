"""An export holds the weights and names of its run, in files that anybody can read."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.torch import load_file

from flexkg.cli.main import run
from flexkg.training.folder import RunFolder


def test_arrays_and_tables_are_those_of_the_run(small_run, tmp_path, capsys):
    out = tmp_path / "export"
    assert run(["export", str(small_run), "--out", str(out), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["path"] == str(out)
    assert sorted(result["files"]) == sorted(str(p.relative_to(out)) for p in out.rglob("*") if p.is_file())
    weights = load_file(small_run / "model.safetensors")
    manifest = json.loads((out / "export.json").read_text())
    assert set(manifest["arrays"]) == {f"parameters/{name}.npy" for name in weights} | {"candidates.npy"}
    for name, value in weights.items():
        array = np.load(out / "parameters" / f"{name}.npy", allow_pickle=False)
        np.testing.assert_array_equal(array, value.numpy())
        assert manifest["arrays"][f"parameters/{name}.npy"]["shape"] == list(array.shape)
    opened = RunFolder.open(small_run)
    candidates = np.load(out / "candidates.npy")
    np.testing.assert_array_equal(candidates, opened.model().candidates(slice(None)).detach().numpy())
    lines = (out / "entities.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "entity\tname\tdescription"
    assert len(lines) == 1 + len(candidates)
    france = opened.dataset.entities.get("country:FR")
    assert lines[1 + france].split("\t")[:2] == ["country:FR", "France"]
    assert len((out / "relations.tsv").read_text(encoding="utf-8").splitlines()) == 1 + 8
    assert "candidates.npy" in (out / "README.txt").read_text()


def test_only_an_older_export_is_replaced(small_run, tmp_path, capsys):
    out = tmp_path / "export"
    command = ["export", str(small_run), "--out", str(out)]
    assert run(command) == 0
    assert f"files in {out}" in capsys.readouterr().out
    assert run(command) == 2
    assert "--force" in capsys.readouterr().err
    assert run([*command, "--force"]) == 0
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("mine")
    assert run(["export", str(small_run), "--out", str(other), "--force"]) == 2
    assert (other / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["nowhere", "data"])
def test_what_is_no_run(small_run, tmp_path, capsys, name):
    assert run(["export", str(small_run / name), "--out", str(tmp_path / "export")]) == 2
    assert "is not a run" in capsys.readouterr().err
    assert not (tmp_path / "export").exists()
