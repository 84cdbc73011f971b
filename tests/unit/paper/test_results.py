"""Result files: written whole, read with their fields checked, found by what they are."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from flexkg.config import load_recipe
from flexkg.errors import DataError
from flexkg.paper.measure import start_seconds, validations_of
from flexkg.paper.plan import Job
from flexkg.paper.results import Result, find, load, load_all, save

JOB = Job("run", "world", "flex-small", 7)
RESULT = Result(
    kind="run",
    dataset="world",
    data_checksum="ab",
    workload={"seed": 0, "checksum": "cd", "published": {"test": ["1p"]}},
    recipe="flex-small",
    label="",
    overrides=(),
    config=JOB.config.model_dump(mode="json"),
    seed=7,
    flexkg="0",
    torch="2",
    device="cpu",
    seconds={"train": 1.0, "evaluate": 0.5, "whole": 2.0},
    queries_per_second=10.0,
    steps=5,
    peak_memory=None,
    parameters=100,
    best={"step": 5, "mrr": 0.25},
    metrics={"shapes": {"1p": {"mrr": 0.5, "hits@1": 0.25}}},
    date="2026-01-01T00:00:00Z",
)


def test_what_is_written_is_read(tmp_path):
    path = save(RESULT, tmp_path)
    assert path == tmp_path / "world" / "flex-small-seed7.json"
    assert load(path) == replace(RESULT, path=path)
    timed = replace(RESULT, kind="time", label="d200", metrics={"seconds_per_step": 0.1})
    assert save(timed, tmp_path).name == "flex-small-time-d200.json"
    assert [result.kind for result in load_all(tmp_path)] == ["run", "time"]
    assert load_all(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "is not a result"),
        ({"version": 2}, "has version 2; this flexkg reads 1"),
        ({"metrics": {"shapes": {"1p": {"mrr": 43.6}}}}, "metrics cannot be"),
        ({"metrics": {"shapes": {"1p": {"mrr": 0.4, "hits@1": "half"}}}}, "metrics cannot be"),
        ({"metrics": {"shapes": {"1p": {}}}}, "metrics cannot be"),
        ({"metrics": {}}, "metrics has no shapes"),
        ({"best": {}}, "best cannot be"),
        ({"config": {"training": {}}}, "config cannot be"),
        ({"metrics": {"shapes": {"1p": {"mrr": float("nan")}}}}, "metrics cannot be"),
        ({"seconds": {"train": 1.0}}, "seconds cannot be"),
        ({"workload": {}}, "workload cannot be"),
        ({"steps": "many"}, "steps cannot be 'many'"),
        ({"recipe": "../flex"}, "recipe cannot be"),
        ({"seed": 8}, "holds the result world/flex-small-seed8.json"),
    ],
    ids=str,
)
def test_a_damaged_file_is_named(tmp_path, change, message):
    path = save(RESULT, tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DataError) as caught:
        load_all(tmp_path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_cut_file_and_a_missing_field_are_named(tmp_path):
    path = save(RESULT, tmp_path)
    content = json.loads(path.read_text())
    del content["device"]
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match="has no device"):
        load(path)
    path.write_text(path.read_text()[:100])
    with pytest.raises(DataError, match="is not valid JSON"):
        load(path)


def test_the_same_settings_come_first_then_the_newest():
    other = replace(RESULT, config=load_recipe("flex-small", ["model.dim=32"]).model_dump(mode="json"))
    newer = replace(other, date="2026-02-02T00:00:00Z")
    where = {"kind": "run", "dataset": "world", "recipe": "flex-small", "seed": 7}
    assert find([newer, RESULT, other], config=RESULT.config, **where) is RESULT
    assert find([other, newer], config=RESULT.config, **where) is newer
    assert find([RESULT], **{**where, "seed": 8}) is None
    assert find([RESULT], label="d200", **where) is None


def test_settings_that_came_up_later_do_not_make_a_result_old():
    training = {key: value for key, value in RESULT.config["training"].items() if key != "patience"}
    old = replace(RESULT, config={**RESULT.config, "training": training})
    newer = replace(RESULT, config={**RESULT.config, "data": {"train_on": "all"}}, date="2027-01-01T00:00:00Z")
    where = {"kind": "run", "dataset": "world", "recipe": "flex-small", "seed": 7}
    assert find([newer, old], config=RESULT.config, **where) is old


def test_a_result_from_before_shared_devices_had_its_own(tmp_path):
    path = save(replace(RESULT, shared_device=True), tmp_path)
    assert load(path).shared_device is True
    content = json.loads(path.read_text())
    del content["shared_device"]
    path.write_text(json.dumps(content))
    assert load(path).shared_device is False
    path.write_text(json.dumps(content | {"shared_device": "perhaps"}))
    with pytest.raises(DataError, match="shared_device cannot be 'perhaps'"):
        load(path)


def test_validations_are_kept_and_older_results_have_none(tmp_path):
    rows = [
        {"step": 10, "loss": 0.5, "seconds": 1.0, "queries_per_second": 100.0},
        {"step": 10, "valid_mrr": 0.25, "valid": {"1p": {"mrr": 0.3, "hits@1": 0.2}, "2i": {"mrr": 0.2}}},
        {"step": 20, "valid_mrr": 0.5, "valid": {"1p": {"mrr": 0.6}, "2i": {"mrr": 0.4}}, "seconds": 3.0},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = validations_of(tmp_path / "metrics.jsonl")
    assert found == (
        {"step": 10, "mrr": 0.25, "shapes": {"1p": 0.3, "2i": 0.2}},
        {"step": 20, "mrr": 0.5, "shapes": {"1p": 0.6, "2i": 0.4}},
    )
    path = save(replace(RESULT, validations=found), tmp_path)
    assert load(path).validations == found
    content = json.loads(path.read_text())
    for bad in ({"step": 1}, {"step": 1, "mrr": 2.0, "shapes": {}}, {"step": 1, "mrr": 0.5, "shapes": {"1p": "x"}}):
        path.write_text(json.dumps(content | {"validations": [bad]}))
        with pytest.raises(DataError, match="validations cannot be"):
            load(path)
    del content["validations"]
    path.write_text(json.dumps(content))
    assert load(path).validations == ()


def test_the_start_is_what_the_first_steps_took_longer(tmp_path):
    path = tmp_path / "metrics.jsonl"
    # 100 queries a step; 1,000 queries/s but for the first ten steps, which took 8 seconds instead of one.
    rows = [{"step": 10, "queries_per_second": 125.0, "seconds": 8.0}]
    rows += [{"step": 10 * number, "queries_per_second": 1000.0, "seconds": 7.0 + number} for number in range(2, 7)]
    rows.insert(3, {"step": 30, "valid_mrr": 0.5, "seconds": 10.0})
    summary = {"steps": 60, "seconds": 13.0, "queries_per_second": 6000 / 13}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert start_seconds(path, summary) == pytest.approx(7.0)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:4]))
    assert start_seconds(path, summary) is None
