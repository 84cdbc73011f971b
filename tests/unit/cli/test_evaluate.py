"""`flexkg evaluate`: one JSON object, a table, and a report that says the same."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
import torch

from flexkg.cli.main import run
from flexkg.evaluation.compare import load_values
from flexkg.query.shapes import SHAPES


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Small models are quickest on one thread: torch's threads wait for each other by spinning."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, _one_thread):
    """A run of fifty steps on `world`."""
    folder = tmp_path_factory.mktemp("evaluate")
    settings = [
        "model.dim=16", "model.hidden=32", "training.steps=50", "training.batch_size=32", "training.negatives=8",
        "training.shapes=1p,2p,2i,2in", "training.validate_every=50", "training.checkpoint_every=50",
    ]  # fmt: skip
    build = ["workload", "build", "world", "--out"]
    training, workload = str(folder / "training"), str(folder / "workload")
    assert run([*build, training, "--shapes", "1p,2p,2i,2in", "--count", "60", "--split", "train,valid"]) == 0
    assert run([*build, workload, "--count", "40", "--split", "valid,test"]) == 0
    options = [part for setting in settings for part in ("--set", setting)]
    for seed, name in enumerate(("run", "other")):
        command = ["train", "flex-small", "--data", "world", "--workload", training, "--out", str(folder / name)]
        assert run([*command, *options, "--set", f"training.seed={seed}", "--device", "cpu"]) == 0
    return folder


def evaluate(capsys, *arguments: object) -> dict[str, object]:
    capsys.readouterr()
    assert run(["evaluate", *map(str, arguments), "--device", "cpu", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_report_json_and_csv_say_what_is_printed(trained, tmp_path, capsys):
    out = tmp_path / "report"
    found = evaluate(capsys, trained / "run", "--workload", trained / "workload", "--out", out, "--baseline")
    assert list(found["shapes"]) == list(SHAPES)
    assert {"queries", "mrr", "hits@1", "hits@3", "hits@10"} <= set(found["shapes"]["2in"])
    assert 0 < found["mrr"] < 1
    assert found["mrr"] == pytest.approx((9 * found["mrr_epfo"] + 5 * found["mrr_negation"]) / 14)
    assert found["seconds"] > 0
    assert json.loads((out / "report.json").read_text()) == found
    with (out / "report.csv").open() as file:
        rows = {row["shape"]: row for row in csv.DictReader(file)}
    assert list(rows) == [*SHAPES, "all", "EPFO", "negation"]
    for shape in SHAPES:
        for column in ("queries", "mrr", "hits@10", "mrr_optimistic"):
            assert float(rows[shape][column]) == found["shapes"][shape][column]
        assert float(rows[shape]["baseline_mrr"]) == found["baseline"][shape]
    assert float(rows["EPFO"]["mrr"]) == found["mrr_epfo"]
    assert float(rows["negation"]["ci95_high"]) == found["averages"]["mrr_negation"]["ci95"][1]
    values, about = load_values(out / "per-query.npz")
    assert about["run"] == found["run"]
    assert {shape: len(column) for shape, column in values.items()} == {
        shape: row["queries"] for shape, row in found["shapes"].items()
    }
    for picture in ("mrr.svg", "scores.svg"):
        assert ET.parse(out / picture).getroot().tag.endswith("svg")
    assert not (trained / "run" / "evaluation").exists()


def test_the_table_of_a_fresh_process(trained, tmp_path):
    command = [sys.executable, "-m", "flexkg", "evaluate", trained / "run", "--workload", trained / "workload"]
    done = subprocess.run(
        [*map(str, command), "--shapes", "1p", "2in", "--out", str(tmp_path / "out"), "--device", "cpu"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    names = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("│")]
    assert names == ["1p", "2in", "all", "EPFO", "negation"]
    assert "report in" in done.stdout


def test_an_unknown_shape_is_named_before_queries_are_built(trained, tmp_path, capsys):
    mine = shutil.copytree(trained / "run", tmp_path / "run")
    shutil.rmtree(mine / "evaluation", ignore_errors=True)
    assert run(["evaluate", str(mine), "--shapes", "9p", "--device", "cpu"]) == 2
    assert "There is no shape '9p'. Choose among 1p" in capsys.readouterr().err
    assert not (mine / "evaluation").exists()


def test_a_run_without_test_queries_builds_its_own(trained, tmp_path, capsys):
    mine = shutil.copytree(trained / "run", tmp_path / "run")
    capsys.readouterr()
    assert run(["evaluate", str(mine), "--shapes", "1p", "--device", "cpu", "--json"]) == 0
    printed = capsys.readouterr()
    assert "building test queries" in printed.err
    found = json.loads(printed.out)
    assert (mine / "evaluation" / "test" / "workload" / "workload.json").is_file()
    assert (mine / "evaluation" / "test" / "report.json").is_file()
    again = evaluate(capsys, mine, "--shapes", "1p")
    assert again["workload"] == found["workload"]
    assert again["shapes"] == found["shapes"]


def test_two_runs_are_compared_query_by_query(trained, tmp_path, capsys):
    workload = ["--workload", trained / "workload", "--shapes", "1p,2i"]
    base = [trained / "run", *workload, "--out", tmp_path / "out"]
    found = evaluate(capsys, *base, "--compare", trained / "other")
    other = evaluate(capsys, trained / "other", *workload, "--out", tmp_path / "other")
    gap = found["compare"]["shapes"]["1p"]
    assert gap["difference"] == pytest.approx(found["shapes"]["1p"]["mrr"] - other["shapes"]["1p"]["mrr"])
    assert gap["ci95"][0] <= gap["difference"] <= gap["ci95"][1]
    assert 0 < found["compare"]["mrr"]["p"] <= 1
    assert found["compare"]["mrr_negation"] is None
    same = evaluate(capsys, *base, "--compare", trained / "run")
    assert same["compare"]["mrr"] == {"difference": 0, "ci95": [0, 0], "p": 1}


def test_what_an_earlier_report_kept_is_used_again(trained, tmp_path, capsys):
    other = shutil.copytree(trained / "other", tmp_path / "other")
    workload = ["--workload", trained / "workload", "--shapes", "1p"]
    evaluate(capsys, other, *workload)
    fresh = evaluate(capsys, trained / "run", *workload, "--out", tmp_path / "a", "--compare", trained / "other")
    kept = evaluate(capsys, trained / "run", *workload, "--out", tmp_path / "b", "--compare", other)
    assert kept["compare"]["mrr"]["difference"] == pytest.approx(fresh["compare"]["mrr"]["difference"], abs=1e-7)


def test_scores_of_one_query_are_drawn(trained, tmp_path, capsys):
    query = "?x : borders(France, ?x)"
    options = ["--workload", trained / "workload", "--shapes", "1p", "--out", tmp_path, "--histogram", query]
    [drawn] = evaluate(capsys, trained / "run", *options)["histograms"]
    assert drawn["name"] == query
    counts = {kind: sum(column) for kind, column in drawn["counts"].items()}
    from flexkg import load

    everything, known = (load("world").answer(query, graph).count for graph in ("test", "train"))
    assert counts == {"known": known, "held out": everything - known, "others": 4381 - everything}
    assert "borders(France" in (tmp_path / "histograms.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shapes", "4p"], "no test queries of the shape 4p"),
        (["--workload", "nowhere"], "no folder nowhere"),
        (["--histogram", "?x : borders(Frankreich?, ?x)"], "error:"),
        (["--histogram", "paper"], "the paper's case study, three queries of FB15k, and world lacks"),
        (["--compare", "nowhere"], "nowhere is not a run"),
    ],
    ids=["shape", "workload", "query", "paper", "compare"],
)
def test_mistakes_are_named(trained, tmp_path, capsys, arguments, message):
    given = arguments if "--workload" in arguments else [*arguments, "--workload", str(trained / "workload")]
    capsys.readouterr()
    assert run(["evaluate", str(trained / "run"), "--out", str(tmp_path / "out"), *given]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""
    assert not (tmp_path / "out").exists()


def test_another_graphs_workload_is_refused(trained, tmp_path, capsys):
    facts = tmp_path / "facts.tsv"
    facts.write_text("".join(f"a{i}\tr\tb{i % 7}\n" for i in range(80)))
    data = str(tmp_path / "data")
    assert run(["data", "import", "--train", str(facts), "--split", "0.8,0.1,0.1", "--out", data]) == 0
    folder = str(tmp_path / "workload")
    assert run(["workload", "build", data, "--out", folder, "--shapes", "1p"]) == 0
    assert run(["evaluate", str(trained / "run"), "--workload", folder]) == 2
    assert "belongs to a graph with" in capsys.readouterr().err


def test_no_run_no_evaluation(tmp_path, capsys):
    assert run(["evaluate", str(tmp_path)]) == 2
    assert "is not a run" in capsys.readouterr().err


def test_two_at_once_share_the_queries_that_the_run_lacked(trained, tmp_path):
    shutil.copytree(trained / "run", tmp_path / "run")
    command = [sys.executable, "-m", "flexkg", "evaluate", str(tmp_path / "run"), "--shapes", "1p", "--json"]
    both = [
        subprocess.Popen([*command, "--out", str(tmp_path / name)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for name in ("one", "two")
    ]
    found = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], found
    assert len({json.loads(out)["workload"]["checksum"] for out, _ in found}) == 1
    assert sum(err.count(b"building test queries in") for _, err in found) == 1
    left = {path.name for path in (tmp_path / "run" / "evaluation" / "test").iterdir()}
    assert left == {"workload"}
