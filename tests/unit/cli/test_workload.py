"""`flexkg workload info`, `export`, `import` and `import-betae` from the shell."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from flexkg.cli.main import run
from flexkg.cli.workload_build import ProtocolName
from flexkg.sampling.protocol import PROTOCOLS

QUERIES = {"1p": [[0, [0]], [1, [1]]], "2u-DM": [[[[0, [0, -2]], [1, [1, -2]]], [-2]]], "all but": [[0, [0, -2]]]}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLEXKG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    for shape, queries in QUERIES.items():
        for split in ("train", "test"):
            path = tmp_path / "in" / split / f"{shape}.jsonl.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress("".join(json.dumps({"q": query}) + "\n" for query in queries).encode()))
    return tmp_path


def flexkg(*arguments: str) -> int:
    return run(["workload", *arguments])


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    return json.loads(out)


def test_in_look_out_and_in_again(capsys: pytest.CaptureFixture[str]) -> None:
    (Path("in/train/all but.jsonl.gz")).rename("in/train/rest.jsonl.gz")
    (Path("in/test/all but.jsonl.gz")).rename("in/test/rest.jsonl.gz")
    assert flexkg("import", "in", "--data", "world", "--out", "w", "--json") == 0
    captured = capsys.readouterr()
    assert "left out train/2u-DM, test/2u-DM" in captured.err
    made = json.loads(captured.out)
    assert {shape: list(splits) for shape, splits in made["shapes"].items()} == {
        "1p": ["train", "test"],
        "rest": ["train", "test"],
    }
    assert made["seconds"] > 0
    assert flexkg("info", "w", "--json") == 0
    info = printed(capsys)
    assert info["shapes"] == made["shapes"]
    entry = info["shapes"]["1p"]["test"]
    assert entry["queries"] == 2
    assert set(entry["answers"]) == {"easy", "hard"}
    assert set(entry["answers"]["easy"]) == {"total", "most", "mean"}
    assert sum(entry["hardness"].values()) == entry["answers"]["hard"]["total"]
    assert flexkg("export", "w", "--split", "train", "--out", "out", "--answers", "--json") == 0
    assert printed(capsys)["shapes"]["1p"] == {"train": {"queries": 2}}
    assert flexkg("export", "w", "--split", "test", "--out", "out") == 0
    assert capsys.readouterr().out == "3 test queries of 2 shapes in out/test\n"
    assert flexkg("import", "out", "--data", "world", "--out", "again", "--json") == 0
    assert printed(capsys)["checksum"] == info["checksum"]


def test_a_page_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert flexkg("import", "in", "--data", "world", "--out", "w", "--de-morgan") == 0
    page = capsys.readouterr().out
    assert flexkg("info", "w") == 0
    assert capsys.readouterr().out == page
    assert "2u-DM" in page
    assert "all but" in page
    assert "queries over world" in page


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["info", "none"], "There is no folder none"),
        (["info", "in"], "in is not a workload"),
        (["import", "none", "--data", "world", "--out", "w"], "There is no folder none"),
        (["import", "in", "--data", "wrold", "--out", "w"], "wrold"),
        (["import", "in", "--data", "world", "--out", "in"], "holds something else"),
        (["import-betae", "in", "--out", "w"], "neither id2ent.pkl"),
        (["export", "in", "--split", "test", "--out", "out"], "in is not a workload"),
    ],
)
def test_mistakes_exit_2_and_write_nothing(
    arguments: list[str], words: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert flexkg(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert words in captured.err
    assert {path.name for path in here.iterdir()} <= {"in", "home"}


def test_a_split_or_a_name_that_cannot_go_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert flexkg("import", "in", "--data", "world", "--out", "w") == 0
    assert flexkg("export", "w", "--split", "valid", "--out", "out") == 2
    assert "no valid queries. It has train, test" in capsys.readouterr().err
    assert flexkg("export", "w", "--split", "test", "--out", "out") == 2
    assert "'all but' cannot name a file" in capsys.readouterr().err
    assert not Path("out").exists()
    assert flexkg("import", "in", "--data", "world", "--out", "w") == 2
    assert "--force" in capsys.readouterr().err
    assert flexkg("import", "in", "--data", "world", "--out", "w", "--force") == 0


def test_betaes_pickles(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = here / "betae"
    folder.mkdir()
    (folder / "stats.txt").write_text("numentity: 4\nnumrelations: 2\n")
    (folder / "train-queries.pkl").write_bytes(pickle.dumps({("e", ("r",)): {(0, (1,)), (3, (0,))}}))
    (folder / "train-answers.pkl").write_bytes(pickle.dumps({(0, (1,)): {1, 2}, (3, (0,)): {3}}))
    assert flexkg("import-betae", "betae", "--out", "w", "--json") == 0
    result = printed(capsys)
    assert result["shapes"]["1p"]["train"]["answers"]["train"] == {"total": 3, "most": 2, "mean": 1.5}
    assert result["data"] == {"name": "betae", "checksum": None, "entities": 4, "relations": 1}
    assert flexkg("import-betae", "betae", "--data", "world", "--out", "v") == 2
    assert "has 4 entities and 2 directed relations; world has" in capsys.readouterr().err


def test_rules_are_chosen_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    shape = ("--shapes", "2i", "--split", "test", "--count", "300", "--json")
    assert flexkg("build", "world", "--out", "w", "--protocol", "betae-as-written", *shape) == 0
    assert printed(capsys)["protocol"] == "betae-as-written"
    assert flexkg("info", "w", "--json") == 0
    written = printed(capsys)
    assert written["settings"]["protocol"] == "betae-as-written"
    assert flexkg("build", "world", "--out", "v", *shape) == 0
    assert printed(capsys)["protocol"] == "betae"
    assert flexkg("info", "v", "--json") == 0
    assert printed(capsys)["checksum"] != written["checksum"]
    assert flexkg("build", "world", "--out", "u", "--protocol", "beta") == 2
    message = "error: Invalid value for '--protocol': 'beta' is not one of 'betae', 'betae-as-written'.\n"
    assert capsys.readouterr().err == message


def test_every_protocol_can_be_chosen() -> None:
    assert tuple(ProtocolName) == PROTOCOLS
