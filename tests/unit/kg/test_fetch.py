"""Whole datasets fetched from a real server on loopback."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import tarfile
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from flexkg.errors import DataError, FlexError
from flexkg.kg import benchmarks, catalog, prepare
from flexkg.kg.benchmarks import Benchmark, Source
from flexkg.kg.dataset import SPLITS, Dataset
from flexkg.kg.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
from shelf import Shelf, Watch, left

ENTITIES = ["/m/a", "/m/b", "/m/c", "/m/d"]
RELATIONS = ["likes", "knows"]
TRIPLES = {
    "train": [(0, 0, 1), (2, 1, 3), (1, 1, 0), (3, 0, 3)],
    "valid": [(0, 1, 2)],
    "test": [(2, 0, 1), (3, 1, 0)],
}


def tiny(*sources: Source, **changes: Any) -> Benchmark:
    dataset = Dataset("tiny", Vocabulary(ENTITIES), Vocabulary(RELATIONS), TRIPLES)
    known: dict[str, Any] = {
        "name": "tiny",
        "about": "for tests",
        "entities": 4,
        "relations": 2,
        "edges": (4, 1, 2),
        "content": prepare.content_checksum(dataset),
        "sources": sources,
        "licence": "none",
        "attribution": "the tests",
    }
    return Benchmark(**(known | changes))


def betae_files() -> dict[str, bytes]:
    files = {}
    for split, triples in TRIPLES.items():
        both = [edge for h, r, t in triples for edge in ((h, 2 * r, t), (t, 2 * r + 1, h))]
        files[f"{split}.txt"] = "".join(f"{h}\t{r}\t{t}\n" for h, r, t in both).encode()
    files["id2ent.pkl"] = pickle.dumps(dict(enumerate(ENTITIES)))
    files["id2rel.pkl"] = pickle.dumps(dict(enumerate(sign + name for name in RELATIONS for sign in "+-")))
    files["train-queries.pkl"] = b"never looked at"
    return {f"tiny-betae/{name}": data for name, data in files.items()}


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def tarred(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def text_files(extra: str = "") -> dict[str, bytes]:
    return {
        f"{split}.txt": "".join(f"{ENTITIES[h]}\t{RELATIONS[r]}\t{ENTITIES[t]}\n" for h, r, t in triples).encode()
        + (extra.encode() if split != "train" else b"")
        for split, triples in TRIPLES.items()
    }


@pytest.fixture
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLEXKG_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def publish(shelf: Shelf, data_home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put an archive on the server and its dataset into the catalog."""

    def publish(archive: bytes, layout: Any = "betae", **changes: Any) -> None:
        shelf.files["/data.archive"] = archive
        folder = "tiny-betae" if layout == "betae" else ""
        source = Source(layout, (shelf.url + "/data.archive",), folder, changes.pop("checksum", None))
        monkeypatch.setitem(benchmarks.BENCHMARKS, "tiny", tiny(source, **changes))

    return publish


def get_tiny(watch: Watch | None = None, **options: Any) -> Dataset:
    watch = watch or Watch()
    catalog.get("tiny", progress=watch, patience=watch.patience(), **options)
    return catalog.resolve("tiny")


def same_graph(dataset: Dataset) -> bool:
    return (
        list(dataset.entities.identifiers) == ENTITIES
        and list(dataset.relations.identifiers) == RELATIONS
        and all(dataset.triples[split].tolist() == [list(edge) for edge in TRIPLES[split]] for split in SPLITS)
    )


def test_fetches_a_betae_archive(shelf: Shelf, data_home: Path, publish: Callable[..., None]) -> None:
    archive = zipped({f"KG_data/{name}": data for name, data in betae_files().items()})
    publish(archive, checksum=f"md5:{hashlib.md5(archive, usedforsecurity=False).hexdigest()}")
    with pytest.raises(DataError, match=r"tiny has not been fetched yet.*flexkg data get tiny"):
        catalog.resolve("tiny")
    dataset = get_tiny()
    assert same_graph(dataset)
    assert dataset.report["attribution"] == "the tests"
    assert left(data_home) == ["datasets", "downloads"]
    assert left(data_home / "downloads") == []
    asked = len(shelf.asked)
    get_tiny()
    assert len(shelf.asked) == asked  # it is there
    get_tiny(force=True)
    assert len(shelf.asked) > asked


def test_fetches_plain_triples_with_names(shelf: Shelf, data_home: Path, publish: Callable[..., None]) -> None:
    shelf.files["/names.txt"] = b"/m/a\tAnna\n/m/b\tBert\n/m/z\tZoe\n"
    unseen = "/m/a\tlikes\t/m/unknown\n/m/a\thates\t/m/b\n"
    publish(tarred(text_files(unseen)), "triples", names=shelf.url + "/names.txt")
    dataset = get_tiny()
    assert same_graph(dataset)
    assert list(dataset.entities.names) == ["Anna", "Bert", "/m/c", "/m/d"]
    del shelf.files["/names.txt"]
    watch = Watch()
    assert same_graph(get_tiny(watch, force=True))
    assert any("identifiers but no names" in note for note in watch.notes)


def test_fetches_dated_facts(shelf: Shelf, data_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    urls = []
    for split, data in text_files().items():
        lines = data.decode().splitlines()
        shelf.files[f"/{split}"] = "".join(f"{line}\t2014-01-0{day}\n" for day in (1, 2) for line in lines).encode()
        urls.append(f"{shelf.url}/{split}")
    again = b"/m/a\tlikes\t/m/b\t2014-01-09\n"
    shelf.files["/test.txt"] = again + shelf.files["/test.txt"]
    dataset = Dataset(
        "tiny",
        Vocabulary(ENTITIES),
        Vocabulary(sorted(RELATIONS)),
        {split: [(h, 1 - r, t) for h, r, t in triples] for split, triples in TRIPLES.items()},
    )
    entry = tiny(Source("quads", tuple(urls)), content=prepare.content_checksum(dataset))
    monkeypatch.setitem(benchmarks.BENCHMARKS, "tiny", entry)
    fetched = get_tiny()
    assert fetched.report["dated_facts"] == {"train": 8, "valid": 2, "test": 5}
    assert fetched.report["same_fact_on_another_date"] == {"train": 4, "valid": 1, "test": 3}
    assert len(fetched.triples["test"]) == 2


def refused(data_home: Path, words: str) -> None:
    with pytest.raises(FlexError, match=words) as caught:
        get_tiny()
    assert "\n" not in str(caught.value)
    assert not (data_home / "datasets").exists()
    assert left(data_home / "downloads") == []


def changed(name: str, data: bytes) -> dict[str, bytes]:
    return betae_files() | {f"tiny-betae/{name}": data}


class Payload:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("payload-ran",)


@pytest.mark.parametrize(
    ("archive", "words"),
    [
        (zipped(betae_files())[:-300], "is damaged"),
        (tarred(text_files())[:-20], "is damaged|does not hold"),
        (b"not an archive", "is damaged"),
        (zipped({}), "does not hold tiny-betae/id2ent.pkl"),
        (zipped(betae_files() | {"../../evil.txt": b""}), r"'../../evil.txt', which leads out of its folder"),
        (zipped(betae_files() | {"/etc/evil": b""}), "leads out of its folder"),
        (zipped(betae_files() | {"C:\\evil": b""}), "leads out of its folder"),
        (zipped(betae_files() | {"again/tiny-betae/train.txt": b""}), "twice"),
        (zipped(changed("id2ent.pkl", pickle.dumps({0: Payload()}))), "mkdir', which is not plain data"),
        (zipped(changed("id2ent.pkl", pickle.dumps({0: "a", 2: "b"}))), "does not map the ids"),
        (zipped(changed("id2ent.pkl", pickle.dumps([1]))), "does not map the ids"),
        (zipped(changed("id2ent.pkl", b"\x80\x04")), "not a whole pickle"),
        (zipped(changed("id2rel.pkl", pickle.dumps({0: "+a", 1: "-b"}))), r"as \+name and -name in turn"),
        (zipped(changed("train.txt", b"0\t0\t1\n")), "in both directions"),
        (zipped(changed("train.txt", b"0\tx\t1\n")), "three whole numbers"),
        (zipped(changed("train.txt", b"0\t0\n")), "three whole numbers"),
        (zipped(changed("train.txt", b"-1\t0\t1\n1\t1\t-1\n")), "no ids"),
        (zipped(changed("valid.txt", b"")), "0 valid edges instead of 1"),
        (zipped(changed("valid.txt", b"0\t0\t1\n1\t1\t0\n")), "counts agree, but not the ids or the triples"),
        (
            zipped(changed("id2ent.pkl", pickle.dumps(dict(enumerate(reversed(ENTITIES)))))),
            "counts agree, but not the ids or the triples",
        ),
    ],
)
def test_what_is_not_the_dataset_is_refused(
    data_home: Path,
    publish: Callable[..., None],
    archive: bytes,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    publish(archive)
    refused(data_home, words)
    assert not (tmp_path / "payload-ran").exists()


def test_links_and_bombs_are_refused(
    data_home: Path, publish: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        link = tarfile.TarInfo("train.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    publish(buffer.getvalue(), "triples")
    refused(data_home, "as a link or a device")
    files = betae_files()
    info = zipfile.ZipInfo("tiny-betae/train.txt")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as zip_archive:
        zip_archive.writestr(info, files.pop("tiny-betae/train.txt"))
        for name, data in files.items():
            zip_archive.writestr(name, data)
    publish(buffer.getvalue())
    refused(data_home, "as a link or a device")
    monkeypatch.setattr(prepare.read_members, "__kwdefaults__", {"max_bytes": 1000})
    publish(zipped(changed("train.txt", b"0\t0\t1\n1\t1\t0\n" * 1000)))
    refused(data_home, "take more than 1,000 bytes")


def test_a_wrong_archive_checksum_is_refused(data_home: Path, publish: Callable[..., None]) -> None:
    publish(zipped(betae_files()), checksum="sha256:00")
    refused(data_home, "not the published file")


def test_the_next_place_is_tried(shelf: Shelf, data_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.files["/good"] = zipped(betae_files())
    gone, good = (Source("betae", (shelf.url + path,), "tiny-betae") for path in ("/gone", "/good"))
    monkeypatch.setitem(benchmarks.BENCHMARKS, "tiny", tiny(gone, good))
    watch = Watch()
    assert same_graph(get_tiny(watch))
    assert any("404" in note for note in watch.notes)
    monkeypatch.setitem(benchmarks.BENCHMARKS, "tiny", tiny(gone, gone))
    with pytest.raises(DataError, match=r"None of the published places gave tiny: .*404.*404"):
        get_tiny(force=True)
    assert same_graph(catalog.resolve("tiny"))  # the old one stays


def test_an_archive_of_several_datasets_is_kept(
    shelf: Shelf, data_home: Path, publish: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(zipped(betae_files()))
    monkeypatch.setitem(benchmarks.BENCHMARKS, "twin", replace(benchmarks.BENCHMARKS["tiny"], name="twin"))
    get_tiny()
    asked = len(shelf.asked)
    catalog.get("twin", patience=Watch().patience())
    assert len(shelf.asked) == asked
    assert same_graph(catalog.resolve("twin"))


def test_an_interrupted_fetch_goes_on(shelf: Shelf, data_home: Path, publish: Callable[..., None]) -> None:
    publish(zipped(betae_files() | {"padding": os.urandom(1_000_000)}))
    with pytest.raises(KeyboardInterrupt):
        get_tiny(Watch(interrupt_after=300_000))
    assert not (data_home / "datasets").exists()
    watch = Watch()
    assert same_graph(get_tiny(watch))
    assert watch.starts[0][1] >= 262_144
