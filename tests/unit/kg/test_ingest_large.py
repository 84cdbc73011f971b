"""Large files of triples, which are numbered another way."""

import gzip
import random

import pytest

from flexkg.kg.ingest import import_files, large
from importing import TSV, triples, write


@pytest.fixture
def every_file_is_large(monkeypatch):
    monkeypatch.setattr(large, "_LARGE", 0)
    monkeypatch.setattr(large, "_LARGE_PACKED", 0)
    monkeypatch.setattr(large, "_BLOCK", 20_000)


@pytest.mark.parametrize("name", ["x.tsv", "x.csv", "x.tsv.gz", "odd[1]*.tsv"])
@pytest.mark.parametrize("header", ["", "h,r,t,when\n"])
def test_the_way_for_large_files_gives_the_same_ids(tmp_path, every_file_is_large, monkeypatch, name, header):
    rng = random.Random(2)
    rows = "".join(f"é{rng.randrange(900)},r{rng.randrange(9)},é{rng.randrange(900)},NULL\n" for _ in range(20_000))
    data = (header + rows).rstrip("\n").encode()
    data = data if "csv" in name else data.replace(b",", b"\t")
    path = write(tmp_path / name, gzip.compress(data) if name.endswith("gz") else data)
    steps = []
    fast = import_files(path, columns="h,r,t,_", progress=lambda what, *_: steps.append(what))
    assert f"Numbering {name}" in steps
    assert f"Reading {name}" not in steps
    monkeypatch.setattr(large, "_LARGE", 1 << 60)
    monkeypatch.setattr(large, "_LARGE_PACKED", 1 << 60)
    plain = import_files(path, columns="h,r,t,_")
    assert list(fast.entities.identifiers) == list(plain.entities.identifiers)
    assert fast.checksum == plain.checksum
    assert fast.report == plain.report


@pytest.mark.parametrize(
    "data",
    [
        b"a\tr\tb\nbad\n",
        b"a\tr\tb\n\n",
        b"a\tr\tb\r\n",
        b"a\tr\tb\nc\r\tr\td\n",
        b"a\tr\tb\n\tr\tb\n",
        b"a\tr\tb\nb\tr\t\n",
        b"a\tr\tb\ncaf\xe9\tr\tb",
        b"a\tr\tb\n\0\tr\tb\n",
        b"a\tr\tb\nc\td\n\te\tf\tg\n",
        b"\xef\xbb\xbfa\tr\tb\n",
    ],
)
def test_a_large_file_with_any_fault_goes_the_ordinary_way(tmp_path, every_file_is_large, data):
    path = write(tmp_path / "x.tsv", data)
    steps = []
    dataset = import_files(path, progress=lambda what, *_: steps.append(what))
    assert "Numbering x.tsv" not in steps
    assert triples(dataset)[0] == ("a", "r", "b")


def test_later_files_continue_the_ids_of_a_large_one(tmp_path, every_file_is_large):
    train = write(tmp_path / "train.tsv", TSV)
    test = write(tmp_path / "test.tsv", "a\tnew\td\nb\ts\tc\n")
    dataset = import_files(train, test=test)
    assert list(dataset.entities.identifiers) == ["a", "b", "c", "d"]
    assert triples(dataset, "test") == [("a", "new", "d")]
