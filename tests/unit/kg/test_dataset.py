"""Splits, the prepared folder, and what happens to a damaged one."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flexkg.errors import DataError
from flexkg.kg.dataset import SPLITS, Dataset
from flexkg.kg.vocabulary import Vocabulary

names = st.text(st.characters(codec="utf-8"), max_size=6)


@st.composite
def datasets(draw):
    entities = draw(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=6), unique=True, min_size=1))
    count = len(entities)
    relations = draw(st.lists(names.filter(bool), unique=True, min_size=1, max_size=4))
    ids = st.integers(0, count - 1)
    triple = st.tuples(ids, st.integers(0, len(relations) - 1), ids)
    triples = draw(st.lists(triple, unique=True, max_size=20))
    part = draw(st.lists(st.integers(0, 2), min_size=len(triples), max_size=len(triples)))
    splits = {
        split: [t for t, p in zip(triples, part, strict=True) if p == number] for number, split in enumerate(SPLITS)
    }
    column = st.lists(names, min_size=count, max_size=count)
    vocabulary = Vocabulary(
        entities,
        draw(st.none() | column),
        draw(st.none() | column),
        draw(st.dictionaries(ids, st.lists(names, max_size=3), max_size=3)),
    )
    prefixes = draw(st.dictionaries(names, names, max_size=2))
    return Dataset("d\t1", vocabulary, Vocabulary(relations), splits, prefixes=prefixes, report={"skipped": 3})


def words(vocabulary: Vocabulary) -> list[object]:
    count = len(vocabulary)
    return [
        (vocabulary.identifier(id), vocabulary.name(id), vocabulary.description(id), list(vocabulary.aliases_of(id)))
        for id in range(count)
    ]


@given(datasets())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_save_and_load(tmp_path, dataset):
    folder = tmp_path / "data"
    dataset.save(folder, overwrite=True)
    loaded = Dataset.load(folder)
    assert (loaded.name, loaded.prefixes, loaded.report) == (dataset.name, dataset.prefixes, dataset.report)
    assert words(loaded.entities) == words(dataset.entities)
    assert words(loaded.relations) == words(dataset.relations)
    for split in SPLITS:
        np.testing.assert_array_equal(loaded.triples[split], dataset.triples[split])
        assert loaded.triples[split].dtype == np.int32
    assert loaded.checksum == dataset.checksum
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@given(datasets())
@settings(deadline=None)
def test_split_of(dataset):
    every = np.concatenate([dataset.triples[split] for split in SPLITS])
    expected = np.repeat([0, 1, 2], [len(dataset.triples[split]) for split in SPLITS])
    np.testing.assert_array_equal(dataset.split_of(every), expected)
    known = set(map(tuple, every.tolist()))
    grid = [
        (h, r, t)
        for h in range(-1, 3)
        for r in range(-1, len(dataset.relations) + 1)
        for t in range(len(dataset.entities) + 2)
    ]
    found = dataset.split_of(grid)
    assert [split >= 0 for split in found] == [triple in known for triple in grid]


@pytest.fixture
def small() -> Dataset:
    return Dataset(
        "small",
        Vocabulary(["a", "b", "c"], ["A", "A", None], aliases={2: ["sea"]}),
        Vocabulary(["r", "s"]),
        {"train": [[0, 0, 1], [1, 1, 1]], "valid": [[1, 0, 2]], "test": [[1, 0, 0], [0, 1, 1]]},
        source="from a test",
    )


def test_info(small):
    info = small.info()
    assert info["entities"] == 3
    assert info["relations"] == 2
    assert info["edges"] == {"train": 2, "valid": 1, "test": 2}
    assert info["self_loops"] == 1
    assert info["ambiguous_names"] == 2
    assert info["unseen"] == {"entities": 1, "relations": 0}
    assert info["leak"] == {"inverse": 0.5, "same_direction": 0.5}
    json.dumps(info)


def test_graphs_are_cumulative_and_kept(small):
    assert [small.graph(split).num_edges for split in SPLITS] == [2, 3, 5]
    assert small.graph() is small.graph("test")
    with pytest.raises(DataError, match="no split 'dev'"):
        small.graph("dev")


def test_names(small):
    assert small.names.find_entities("A") == [0, 1]
    assert small.names.find_entities("sea") == [2]
    assert small.names.find_relations("r") == [0]
    assert small.names.entity_text(0) == "a"
    assert small.names.relation_text(1) == "s"
    assert small.names.describe_entity(0) == "A [a]"
    assert small.names.describe_relation(0) == "r"
    assert small.names.suggest_entities("seq") == ["sea"]
    assert small.names.suggest_relations("R") == ["r"]


@pytest.mark.parametrize("triples", [[[0, 0, 3]], [[0, 2, 0]], [[-1, 0, 0]], [[0, 0]], [[0.0, 0.0, 0.0]]])
def test_triples_out_of_range_are_refused(triples):
    with pytest.raises(ValueError, match="train triples"):
        Dataset("x", Vocabulary(["a", "b", "c"]), Vocabulary(["r", "s"]), {"train": triples})


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match="dev"):
        Dataset("x", Vocabulary(["a"]), Vocabulary(["r"]), {"dev": []})


def test_load_and_names_stay_usable_after_the_folder_goes(small, tmp_path):
    small.save(tmp_path / "d")
    loaded = Dataset.load(tmp_path / "d")
    shutil.rmtree(tmp_path / "d")
    assert loaded.entities.find("sea") == [2]
    assert loaded.source == "from a test"


def manifest(folder: Path, **changes: object) -> None:
    path = folder / "dataset.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)


DAMAGE = {
    "missing-file": (lambda f: (f / "valid.npy").unlink(), r"valid\.npy is missing"),
    "missing-manifest": (lambda f: (f / "dataset.json").unlink(), r"not a prepared dataset: it has no dataset\.json"),
    "truncated": (lambda f: (f / "train.npy").write_bytes(b"\x93NUMPY"), r"train\.npy has 6 bytes instead of"),
    "flipped-bit": (lambda f: flip(f / "entities.tsv"), r"entities\.tsv does not match its checksum"),
    "newer": (lambda f: manifest(f, version=99), r"format version 99; this flexkg reads up to version 1.*Upgrade"),
    "no-version": (lambda f: manifest(f, version="1"), "no valid version"),
    "foreign": (lambda f: manifest(f, format="other"), "does not describe a flexkg dataset"),
    "incomplete": (lambda f: manifest(f, files={}), r"dataset\.json is incomplete"),
    "wrong-count": (lambda f: manifest(f, edges={"train": 1, "valid": 1, "test": 2}), r"train\.npy holds 2 edges"),
    "wrong-entities": (lambda f: manifest(f, entities=1), "not valid: the train triples hold ids"),
    "not-json": (lambda f: (f / "dataset.json").write_text("{"), r"dataset\.json is not valid JSON"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_folder_says_which_file_and_what_to_do(small, tmp_path, kind):
    folder = tmp_path / "d"
    small.save(folder)
    damage, message = DAMAGE[kind]
    damage(folder)
    with pytest.raises(DataError, match=message) as caught:
        Dataset.load(folder)
    assert caught.value.hint


def test_verification_can_be_left_out(small, tmp_path):
    small.save(tmp_path / "d")
    flip(tmp_path / "d" / "entities.tsv")
    assert len(Dataset.load(tmp_path / "d", verify=False).entities) == 3


def test_not_a_folder(tmp_path):
    with pytest.raises(DataError, match="There is no folder"):
        Dataset.load(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="is a file, not a prepared dataset"):
        Dataset.load(tmp_path / "file")


def test_save_refuses_a_folder_with_other_things(small, tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(DataError, match="holds something else"):
        small.save(tmp_path, overwrite=True)
    small.save(tmp_path / "d")
    with pytest.raises(DataError, match=r"exists already.*--force"):
        small.save(tmp_path / "d")
    small.save(tmp_path / "d", overwrite=True)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("mounting a small tmpfs needs root")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_is_explained_and_leaves_the_old_dataset(small, small_disk):
    small.save(small_disk / "d")
    count = 100_000
    large = Dataset("large", Vocabulary([f"e{i}" for i in range(count)]), Vocabulary(["r"]), {"train": [[0, 0, 1]]})
    with pytest.raises(DataError, match="The disk is full"):
        large.save(small_disk / "d", overwrite=True)
    with pytest.raises(DataError, match="The disk is full"):
        large.save(small_disk / "new")
    assert [path.name for path in small_disk.iterdir()] == ["d"]
    assert Dataset.load(small_disk / "d").checksum == small.checksum


def test_a_mount_point_is_explained(small, small_disk):
    with pytest.raises(DataError, match="mount point: choose a folder inside it"):
        small.save(small_disk)
