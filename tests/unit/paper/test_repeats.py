"""Published queries that come again in another order: found among real ones, kept, and shown on the page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import flexkg
from flexkg.errors import DataError
from flexkg.paper.queries import save_queries
from flexkg.paper.repeats import FILE, Repeats, find_repeats, list_repeats, read_repeats, write_repeats
from flexkg.paper.results import load
from flexkg.paper.workloads import read_registry
from flexkg.sampling.make import Order, make_workload
from flexkg.sampling.workload import Workload

ROOT = Path(__file__).resolve().parents[3]


def test_operands_in_another_order_make_no_new_query(tmp_path: Path) -> None:
    world = flexkg.load("world").dataset
    make_workload(world, tmp_path / "sampled", Order(splits=("test",), shapes=("2i", "2p"), count=20))
    sampled = Workload.load(tmp_path / "sampled")
    assert find_repeats(sampled, ["2i", "2p"]) == Repeats(sampled.checksum, {})
    written = tmp_path / "published" / "test"
    written.mkdir(parents=True)
    asked = {shape: sampled.queries("test", shape) for shape in ("2i", "2p")}
    both = zip(asked["2i"].entities.tolist(), asked["2i"].relations.tolist(), strict=True)
    pairs = [[[a, [r]], [b, [s]]] for (a, b), (r, s) in both]
    turned = [pairs[3][::-1], pairs[0][::-1]]
    (written / "2i.jsonl").write_text("".join(f"{json.dumps({'q': query})}\n" for query in [*pairs, *turned]))
    paths = zip(asked["2p"].entities.tolist(), asked["2p"].relations.tolist(), strict=True)
    (written / "2p.jsonl").write_text("".join(f"{json.dumps({'q': [a, steps]})}\n" for (a,), steps in paths))
    order = Order(splits=("test",), shapes=("2i", "2p"), queries=tmp_path / "published")
    make_workload(world, tmp_path / "workload", order)
    workload = Workload.load(tmp_path / "workload")
    assert find_repeats(workload, ["2i", "2p"]) == Repeats(workload.checksum, {"2i": [20, 21]})


def test_what_they_change_is_shown(tmp_path: Path) -> None:
    content = json.loads((ROOT / "results" / "nell995" / "flex-seed1.json").read_text(encoding="utf-8"))
    content["metrics"]["shapes"] = {shape: {"queries": 4, "mrr": 0.375} for shape in ("1p", "2i")}
    copy = tmp_path / "nell995" / "flex-seed1.json"
    copy.parent.mkdir()
    copy.write_text(json.dumps(content), encoding="utf-8")
    run = load(copy)
    values = SimpleNamespace(values={"mrr": np.array([0.5, 0.25, 0.5, 0.25])}, fingerprint="same")
    save_queries(copy, {"1p": values, "2i": values}, run.date)
    repeats = Repeats(run.workload["checksum"], {"2i": [1, 3]})
    text = list_repeats({"nell995": repeats}, {"nell995": run})
    assert "| nell995 | 2i | 4 | 2 | 37.5 | 50.0 |" in text
    assert "| nell995 | 1p |" not in text
    # Of other queries, or of a graph without a run, nothing can be said.
    assert list_repeats({"nell995": Repeats("other", repeats.rows)}, {"nell995": run}) == ""
    assert list_repeats({"nell995": repeats}, {}) == ""


def test_the_file_is_of_the_registered_queries() -> None:
    registry = read_registry(ROOT / "results")
    kept = read_repeats(ROOT / "results")
    assert kept
    for name, repeats in kept.items():
        assert repeats.checksum == registry[name].checksum
        assert set(repeats.rows) <= set(registry[name].published["test"])


def test_a_file_keeps_what_was_found(tmp_path: Path) -> None:
    assert read_repeats(tmp_path) == {}
    found = {"b": Repeats("1", {"2i": [3]}), "a": Repeats("2", {})}
    write_repeats(tmp_path, found)
    assert read_repeats(tmp_path) == found
    (tmp_path / FILE).write_text('{"a": {"sum": 1}}')
    with pytest.raises(DataError, match="has no repeated queries"):
        read_repeats(tmp_path)


def look(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "scripts" / "repeats.py", "--source", folder, "--results", folder]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_what_cannot_be_looked_for_is_kept(tmp_path: Path) -> None:
    (tmp_path / "workloads.toml").write_bytes((ROOT / "results" / "workloads.toml").read_bytes())
    write_repeats(tmp_path, {"nell995": Repeats("1", {"2i": [3]})})
    found = look(tmp_path)
    assert found.returncode == 0, found.stderr
    assert "nell995: its published queries are not here" in found.stdout
    assert read_repeats(tmp_path) == {"nell995": Repeats("1", {"2i": [3]})}


def test_without_registered_queries_nothing_is_looked_for(tmp_path: Path) -> None:
    found = look(tmp_path)
    assert found.returncode == 2
    assert "does not say which queries" in found.stderr
    assert not (tmp_path / FILE).exists()
