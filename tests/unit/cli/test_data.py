"""`flexkg data list`, `get` and `info`: one JSON object, or a page for people."""

from __future__ import annotations

import gzip
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console
from rich.progress import Progress

from flexkg.cli import data
from flexkg.errors import DataError
from flexkg.kg import benchmarks, prepare
from flexkg.kg.benchmarks import Benchmark, Source
from flexkg.kg.dataset import Dataset
from flexkg.kg.vocabulary import Vocabulary

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLEXKG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path / "home"


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A catalogued dataset in a local folder."""
    triples = {"train": [(0, 0, 1)]}
    content = prepare.content_checksum(Dataset("small", Vocabulary(["a", "b"]), Vocabulary(["r"]), triples))
    source = Source("betae", ("http://127.0.0.1:1/x",), "small")
    entry = Benchmark("small", "of [two]", 2, 1, (1, 0, 0), content, (source,), "CC0", "the tests")
    monkeypatch.setitem(benchmarks.BENCHMARKS, "small", entry)
    folder = tmp_path / "small"
    folder.mkdir()
    for name, text in {
        "entities": "id\tentity\n0\ta\n1\tb\n",
        "relations": "id\trelation\n0\t+r\n1\t-r\n",
        "train": "a\tr\tb\n",
        "valid": "",
        "test": "",
    }.items():
        (folder / f"{name}.tsv.gz").write_bytes(gzip.compress(text.encode()))
    return folder


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    return json.loads(out)


def test_list(capsys: pytest.CaptureFixture[str], small: Path, data_home: Path) -> None:
    data.list_command(json=True)
    listed = {row["name"]: row for row in printed(capsys)["datasets"]}
    assert list(listed) == ["world", "fb15k", "fb15k-237", "nell995", "icews14", "small"]
    assert listed["world"].items() >= {"embedded": True, "available": True, "relations": 8}.items()
    assert listed["fb15k"].items() >= {"embedded": False, "available": False, "entities": 14_951}.items()
    assert not data_home.exists()
    data.list_command()
    out = capsys.readouterr().out
    assert "built in" in out
    assert "of [two]" in out
    assert "flexkg data get NAME" in out


def test_get_from_a_folder(capsys: pytest.CaptureFixture[str], small: Path, data_home: Path) -> None:
    data.get_command("small", small, json=True)
    result = printed(capsys)
    assert result["name"] == "small"
    assert result["path"] == str(data_home / "datasets" / "small")
    assert result["edges"] == {"train": 1, "valid": 0, "test": 0}
    data.get_command("small")  # it is there: nothing is downloaded
    assert "small: 2 entities, 1 relations, train 1" in capsys.readouterr().out
    data.info_command("small")
    out = capsys.readouterr().out
    assert "CC0" in out
    assert "the tests" in out


def test_get_says_what_went_wrong(small: Path) -> None:
    with pytest.raises(DataError, match="Did you mean small"):
        data.get_command("smal")
    (small / "test.tsv.gz").unlink()
    with pytest.raises(DataError, match=r"There is no test\.tsv\.gz"):
        data.get_command("small", small)


def test_info_of_world(capsys: pytest.CaptureFixture[str]) -> None:
    data.info_command("world", json=True)
    result = printed(capsys)
    assert result["entities"] == 4_381
    assert set(result["edges"]) == {"train", "valid", "test"}
    assert next(iter(result["edges_by_relation"])) in ("located_in", "time_zone")
    assert "GeoNames" in result["attribution"]
    data.info_command("world")
    out = capsys.readouterr().out
    assert "CC BY 4.0" in out
    assert "Unicode" in out


def test_info_of_a_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    dataset = Dataset("x[y]", Vocabulary(["a", "b"]), Vocabulary(["[r]"]), {"train": [(0, 0, 1)]})
    dataset.save(tmp_path / "mine")
    data.info_command(str(tmp_path / "mine"))
    out = capsys.readouterr().out
    assert "x[y]" in out
    assert "[r]" in out


def test_the_bar_shows_what_comes() -> None:
    buffer = io.StringIO()
    bar = Progress(console=Console(file=buffer, force_terminal=True, width=100))
    with bar:
        shown = data.TerminalProgress(bar)
        shown.advance(1)
        shown.start("file.zip", 0, 100)
        shown.advance(50)
        shown.note("trying [again]")
        shown.start("file.zip", 50, 100)
        shown.advance(50)
    assert bar.tasks[0].completed == 100
    assert "trying [again]" in buffer.getvalue()


def test_nothing_but_the_result_goes_to_standard_output(capsys: pytest.CaptureFixture[str], small: Path) -> None:
    with data.terminal_progress() as progress:
        progress.start("file.zip", 0, 10)
        progress.advance(10)
        progress.note("a note")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "a note" in captured.err
