"""What is written comes back; what is not whole is refused with the file's name and what to do."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flexkg.errors import DataError, FlexError, LimitError
from flexkg.kg.dataset import Dataset
from flexkg.kg.storage import sha256_file
from flexkg.kg.vocabulary import Vocabulary
from flexkg.sampling import columns, workload
from flexkg.sampling.queries import Column, QuerySet
from flexkg.sampling.workload import Workload, data_of, writing

DATA = {"name": "toy", "checksum": None, "entities": 300, "relations": 4}


def column(rows: list[set[int]] | list[list[int]]) -> Column:
    members = np.array([member for row in rows for member in sorted(row)], dtype=np.int32)
    return Column(np.cumsum([0, *map(len, rows)], dtype=np.int64), members)


def query_set(shape: str = "2p", key: str = "epp", rows: int = 5, **changes: Any) -> QuerySet:
    random = np.random.default_rng(rows)
    fields: dict[str, Any] = {
        "entities": random.integers(0, 300, (rows, key.count("e")), dtype=np.int32),
        "relations": random.integers(0, 8, (rows, key.count("p")), dtype=np.int32),
        "answers": {
            "train": column([set(random.integers(0, 300, random.integers(1, 9)).tolist()) for _ in range(rows)])
        },
    }
    return QuerySet(shape, key, **{**fields, **changes})


def evaluated(shape: str = "2i", key: str = "epep&2") -> QuerySet:
    hard = column([{1, 2}, {299}, {7}])
    answers = {"hard": hard, "easy": column([{3}, set(), {0, 150, 299}])}
    return query_set(shape, key, 3, answers=answers, hardness=np.array([1, 2, 1, 3], np.uint8))


def same(left: QuerySet, right: QuerySet) -> bool:
    arrays = [
        (left.entities, right.entities),
        (left.relations, right.relations),
        *((left.answers[name].offsets, right.answers[name].offsets) for name in left.answers),
        *((left.answers[name].members, right.answers[name].members) for name in left.answers),
    ]
    if left.hardness is not None and right.hardness is not None:
        arrays.append((left.hardness, right.hardness))
    return (
        (left.shape, left.key, left.complement, set(left.answers), left.hardness is None)
        == (right.shape, right.key, right.complement, set(right.answers), right.hardness is None)
        and all(np.array_equal(one, other) and one.dtype == other.dtype for one, other in arrays)
        and left.extra == right.extra
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with writing(tmp_path / "w", data=DATA, settings={"seed": 3}) as writer:
        writer.add("train", query_set())
        writer.add("test", evaluated())
        writer.add("train", query_set("1p", "ep", 40))
    return tmp_path / "w"


@st.composite
def query_sets(draw: st.DrawFn) -> tuple[int, int, QuerySet]:
    """Entities, relations and a query set over them; sizes on both sides of one, two and three bytes."""
    entities = draw(st.sampled_from([1, 2, 255, 256, 257, 65_535, 65_537, 1 << 24, (1 << 24) + 1, (1 << 31) - 1]))
    relations = draw(st.sampled_from([1, 100, 128, 129, 40_000]))
    key = draw(st.sampled_from(["ep", "epepn&2", "eppep&2", "*p", "epep>"]))
    rows = draw(st.integers(0, 6))
    entity = st.integers(0, entities - 1)
    ids = draw(
        st.lists(st.lists(entity, min_size=key.count("e"), max_size=key.count("e")), min_size=rows, max_size=rows)
    )
    step = st.integers(0, 2 * relations - 1)
    steps = draw(
        st.lists(st.lists(step, min_size=key.count("p"), max_size=key.count("p")), min_size=rows, max_size=rows)
    )
    names = draw(st.sampled_from([("train",), ("easy", "hard")]))
    answers = {
        name: column(draw(st.lists(st.sets(entity, max_size=9), min_size=rows, max_size=rows))) for name in names
    }
    hardness = None
    if "hard" in names and draw(st.booleans()):
        total = len(answers["hard"].members)
        hardness = np.array(draw(st.lists(st.integers(0, 255), min_size=total, max_size=total)), np.uint8)
    queries = QuerySet(
        draw(st.text(min_size=1, max_size=8).filter(lambda text: text.isprintable())),
        key,
        np.array(ids, np.int32).reshape(rows, key.count("e")),
        np.array(steps, np.int32).reshape(rows, key.count("p")),
        answers,
        draw(st.booleans()),
        hardness,
        {"seconds": 1.5},
    )
    return entities, relations, queries


@given(query_sets(), st.integers(1, 12), st.integers(1, 4))
def test_what_is_written_comes_back(case: tuple[int, int, QuerySet], members: int, rows: int) -> None:
    entities, relations, queries = case
    data = {"name": "toy", "checksum": "abc", "entities": entities, "relations": relations}
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "_MEMBERS", members)
        patch.setattr(columns, "_ROWS", rows)
        with writing(Path(name) / "w", data=data, settings={"seed": 1}) as writer:
            writer.add("valid", queries)
        loaded = Workload.load(Path(name) / "w")
        assert same(loaded.queries("valid", queries.shape), queries)
        parts = list(loaded.blocks("valid", queries.shape))
    assert sum(map(len, parts)) == len(queries)
    assert all(len(part) <= rows for part in parts)
    for column_name, whole in queries.answers.items():
        assert [row.tolist() for part in parts for row in part.answers[column_name].rows()] == [
            row.tolist() for row in whole.rows()
        ]


def test_a_workload_lists_reads_and_describes_what_it_holds(folder: Path) -> None:
    loaded = Workload.load(folder)
    assert {split: list(shapes) for split, shapes in loaded.splits.items()} == {"train": ["1p", "2p"], "test": ["2i"]}
    assert loaded.shapes("valid") == []
    assert loaded.count("train") == 45
    assert loaded.count("train", "2p") == 5
    assert loaded.settings == {"seed": 3}
    assert same(loaded.splits["test"]["2i"], evaluated())
    assert loaded.queries("test", "2i") is not None
    kept = loaded.queries("train", "1p")
    assert loaded.queries("train", "1p") is kept
    info = loaded.info()
    assert info["shapes"]["2i"]["test"]["answers"]["easy"] == {"total": 4, "most": 3, "mean": 1.33}
    assert info["shapes"]["2i"]["test"]["hardness"] == {"1": 2, "2": 1, "3": 1}
    assert info["queries"] == {"train": 45, "valid": 0, "test": 3}
    assert repr(loaded) == "<Workload toy: train 45, test 3>"
    with pytest.raises(KeyError):
        loaded.splits["test"]["nothing"]
    with pytest.raises(DataError, match="no valid queries of the shape 2p"):
        loaded.queries("valid", "2p")


def test_the_checksum_is_that_of_the_content(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_LEVEL", 9)
    with writing(tmp_path / "again", data=DATA, settings={"seed": 4}) as writer:
        writer.add("train", query_set("1p", "ep", 40, extra={"seconds": 2}))
        writer.add("train", query_set())
        writer.add("test", evaluated())
    assert Workload.load(folder).checksum == Workload.load(tmp_path / "again").checksum
    with writing(tmp_path / "other", data=DATA, settings={}) as writer:
        writer.add("train", query_set())
    assert Workload.load(folder).checksum != Workload.load(tmp_path / "other").checksum


def test_nothing_is_left_of_a_failed_writing(tmp_path: Path) -> None:
    def fail() -> None:
        with writing(tmp_path / "deep" / "w", data=DATA, settings={}) as writer:
            writer.add("train", query_set())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not list(tmp_path.iterdir())


def test_only_an_older_workload_is_replaced(folder: Path, tmp_path: Path) -> None:
    def write(target: Path, overwrite: bool) -> None:
        with writing(target, data=DATA, settings={}, overwrite=overwrite) as writer:
            writer.add("train", query_set())

    with pytest.raises(DataError, match="exists already"):
        write(folder, False)
    write(folder, True)
    assert Workload.load(folder).count("train") == 5
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    with pytest.raises(DataError, match="holds something else"):
        write(tmp_path / "mine", True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"answers": {"train": column([[300]] * 5)}}, "entity 300"),
        ({"answers": {"train": Column(np.array([0, 2, 2, 2, 2, 2]), np.array([2, 1], np.int32))}}, "not ascending"),
        ({"relations": np.full((5, 2), 8, np.int32)}, "relation 8"),
        ({"entities": np.full((5, 1), -1, np.int32)}, "entity"),
    ],
)
def test_a_writer_takes_nothing_that_is_wrong(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    def write() -> None:
        with writing(tmp_path / "w", data=DATA, settings={}) as writer:
            writer.add("train", query_set(**changes))

    with pytest.raises(ValueError, match=words):
        write()
    assert not list(tmp_path.iterdir())


def test_shapes_that_cannot_name_files_are_stored_all_the_same(tmp_path: Path) -> None:
    names = ["2P", "2p", "../x", "a/b", "", "CON", "ü", "-"]
    with writing(tmp_path / "w", data=DATA, settings={}) as writer:
        for name in names:
            writer.add("train", query_set(name))
        with pytest.raises(ValueError, match="written already"):
            writer.add("train", query_set("2p"))
        with pytest.raises(ValueError, match="no such split"):
            writer.add("dev", query_set("3p"))
    loaded = Workload.load(tmp_path / "w")
    assert set(loaded.shapes("train")) == set(names)
    assert all(same(loaded.queries("train", name), query_set(name)) for name in names)
    assert not list(tmp_path.glob("*x*"))


def test_a_workload_knows_its_dataset(tmp_path: Path) -> None:
    def dataset(entities: int, edge: tuple[int, int, int] = (0, 0, 1)) -> Dataset:
        words = Vocabulary([f"e{id}" for id in range(entities)])
        return Dataset("toy", words, Vocabulary(["r", "s"]), {"train": [edge]})

    queries = query_set(answers={"train": column([{0, 1}] * 5)}, entities=np.zeros((5, 1), np.int32))
    queries = QuerySet("2p", "epp", queries.entities, np.zeros((5, 2), np.int32), queries.answers)
    with writing(tmp_path / "w", data=data_of(dataset(3)), settings={}) as writer:
        writer.add("train", queries)
    loaded = Workload.load(tmp_path / "w")
    loaded.check_data(dataset(3))
    with pytest.raises(DataError, match=r"graph with 3 entities; toy has 4"):
        loaded.check_data(dataset(4))
    with pytest.raises(DataError, match="another version of toy"):
        loaded.check_data(dataset(3, (1, 0, 0)))
    loaded.data["checksum"] = None
    loaded.check_data(dataset(3, (1, 0, 0)))


def spoil(folder: Path, change: Any) -> None:
    """Change the manifest."""
    path = folder / "workload.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    change(manifest)
    path.write_text(json.dumps(manifest), encoding="utf-8")


def replace(folder: Path, file: str, data: bytes) -> None:
    """Put another file there, with a manifest that vouches for it."""
    (folder / file).write_bytes(data)

    def change(manifest: dict[str, Any]) -> None:
        entry = next(entry for entry in manifest["sets"] if entry["file"] == file)
        entry.update(bytes=len(data), sha256=sha256_file(folder / file))

    spoil(folder, change)


def packed(rows: int, raw: bytes, size: int | None = None) -> bytes:
    data = zlib.compress(raw)
    return columns.MAGIC + struct.pack("<III", rows, len(raw) if size is None else size, len(data)) + data


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.update(format="other"), "does not describe"),
        (lambda m: m.update(version=2), "format version 2; this flexkg reads up to version 1"),
        (lambda m: m.update(version="1"), "no valid version"),
        (lambda m: m.update(sets=None), "incomplete"),
        (lambda m: m["data"].update(entities=-1), "incomplete"),
        (lambda m: m["data"].update(entities=True), "incomplete"),
        (lambda m: m["data"].update(entities=1 << 40), "incomplete"),
        (lambda m: m["sets"][0].update(file="../x"), "entry 1"),
        (lambda m: m["sets"][0].update(file="train/.."), "entry 1"),
        (lambda m: m["sets"][0].update(file="/etc/passwd"), "entry 1"),
        (lambda m: m["sets"][0].update(key="eppq"), "entry 1"),
        (lambda m: m["sets"][0].update(key="e" * 3), "entry 1"),
        (lambda m: m["sets"][0].update(split="dev"), "entry 1"),
        (lambda m: m["sets"][0].update(queries=10**15), "entry 1"),
        (lambda m: m["sets"][0]["answers"]["train"].update(total=10**15), "entry 1"),
        (lambda m: m["sets"][0].update(answers={}), "entry 1"),
        (lambda m: m["sets"][0].update(answers={"train": 7}), "entry 1"),
        (lambda m: m["sets"][0].update(hardness={}), "entry 1"),
        (lambda m: m["sets"].append(m["sets"][0]), "entry 4"),
        (lambda m: m["sets"].__setitem__(0, []), "entry 1"),
        (lambda m: m["sets"][0].update(bytes=20), "bytes instead of 20"),
        (lambda m: m["sets"][0].update(file="train/none.columns"), "is missing"),
    ],
)
def test_a_spoilt_manifest_is_refused(folder: Path, change: Any, words: str) -> None:
    spoil(folder, change)
    with pytest.raises(DataError, match=words) as raised:
        Workload.load(folder)
    assert raised.value.hint


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m["sets"][0].update(queries=4), "more than workload.json says"),
        (lambda m: m["sets"][0].update(queries=6), "less than workload.json says"),
        (lambda m: m["sets"][0]["answers"]["train"].update(total=3), "more than workload.json says"),
        (lambda m: m["sets"][0].update(key="eppp"), "too short|too long|holds"),
        (lambda m: m["data"].update(entities=257), "entity 2.., but there are 257"),
        (lambda m: m["sets"][0].update(sha256="0" * 64), "does not match its checksum"),
    ],
)
def test_a_manifest_that_does_not_fit_its_files_is_refused(folder: Path, change: Any, words: str) -> None:
    spoil(folder, change)
    with pytest.raises(DataError, match=words):
        Workload.load(folder).queries("train", "2p")


def test_blocks_must_add_up(folder: Path) -> None:
    spoil(folder, lambda manifest: manifest["sets"][0].update(queries=6))
    with pytest.raises(DataError, match="holds 5 queries instead of 6"):
        list(Workload.load(folder).blocks("train", "2p"))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "entry 1|does not begin"),
        (b"x" * 40, "does not begin"),
        (columns.MAGIC + b"\0" * 5, "ends too early"),
        (columns.MAGIC + struct.pack("<III", 1, 10, 5) + b"abc", "ends too early"),
        (columns.MAGIC + struct.pack("<III", 1, 10, 5) + b"abcde", "cannot be unpacked"),
        (columns.MAGIC + struct.pack("<III", 0, 0, 0), "impossible size"),
        (columns.MAGIC + struct.pack("<III", 1 << 30, 10, 10) + b"x" * 10, "impossible size"),
        (columns.MAGIC + struct.pack("<III", 1, 1 << 31, 10) + b"x" * 10, "impossible size"),
        (packed(1, bytes(1 << 24)), "impossible size"),
        (packed(1, bytes(1 << 20), 20), "impossible size|does not unpack"),
        (packed(1, bytes(300), 20), "does not unpack to the size it states"),
        (packed(1, bytes(5)), "too short"),
        (packed(1, bytes(9)), "too long"),
        (packed(1, bytes(4) + b"\xff\xff\xff\xff"), "too short"),
    ],
)
def test_a_spoilt_file_is_refused(folder: Path, data: bytes, words: str) -> None:
    replace(folder, "train/2p.columns", data)
    with pytest.raises(DataError, match=words):
        Workload.load(folder).queries("train", "2p")


@given(st.data())
def test_any_damage_ends_in_an_error_of_ours_or_is_seen_by_the_checksum(draw: st.DataObject) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name) / "w"
        with writing(folder, data=DATA, settings={}) as writer:
            writer.add("test", evaluated())
        path = folder / "test/2i.columns"
        data = bytearray(path.read_bytes())
        place = draw.draw(st.integers(0, len(data) - 1))
        data[place] ^= draw.draw(st.integers(1, 255))
        path.write_bytes(data)
        with pytest.raises(FlexError):
            Workload.load(folder).queries("test", "2i")
        with suppress(FlexError):
            Workload.load(folder, verify=False).queries("test", "2i")


def test_a_set_too_large_for_memory_is_to_be_read_in_blocks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "MAX_MEMBERS", 3)
    loaded = Workload.load(folder)
    with pytest.raises(LimitError, match="in blocks"):
        loaded.queries("train", "2p")
    assert sum(map(len, loaded.blocks("train", "2p"))) == 5


def test_no_folder_and_no_workload(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "none", "no folder"), (tmp_path, "not a workload")):
        with pytest.raises(DataError, match=words):
            Workload.load(path)


def test_reading_needs_numpy_alone() -> None:
    code = "import sys, flexkg.sampling.workload; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
