"""Downloads against a real server on loopback, and whole datasets fetched from one."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import resource
import tarfile
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from flexkg.errors import DataError, FlexError, LimitError
from flexkg.kg import benchmarks, catalog, download, prepare
from flexkg.kg.benchmarks import Benchmark, Source
from flexkg.kg.dataset import SPLITS, Dataset
from flexkg.kg.storage import locked
from flexkg.kg.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BODY = bytes(range(256)) * 4000


class Shelf:
    """A server's files, how it behaves, and what it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.files: dict[str, bytes] = {"/file.bin": BODY}
        self.tags: dict[str, str] = {}
        self.ranges = True
        self.validators = True
        # What to do with the next requests: an HTTP status, or how many bytes to send before hanging up.
        self.script: list[tuple[str, int]] = []
        self.asked: list[dict[str, str]] = []
        self.redirects: dict[str, str] = {}

    def tag(self, path: str) -> str:
        return self.tags.get(path) or f'"{hashlib.sha256(self.files[path]).hexdigest()[:8]}"'


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    shelf: Shelf

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        shelf = self.shelf
        self.close_connection = True
        shelf.asked.append(dict(self.headers))
        kind, number = shelf.script.pop(0) if shelf.script else ("", 0)
        if kind == "status":
            self.reply(number, {"Retry-After": "7"}, b"")
        elif self.path in shelf.redirects:
            self.reply(302, {"Location": shelf.redirects[self.path]}, b"")
        elif self.path not in shelf.files:
            self.reply(404, {}, b"")
        else:
            self.serve(shelf.files[self.path], number if kind == "cut" else None)

    def serve(self, body: bytes, cut: int | None) -> None:
        headers = {"ETag": self.shelf.tag(self.path)} if self.shelf.validators else {}
        wanted, start, status = self.headers.get("Range"), 0, 200
        fresh = self.headers.get("If-Range") == self.shelf.tag(self.path)
        if wanted and self.shelf.ranges and fresh:
            start, status = int(wanted.removeprefix("bytes=").removesuffix("-")), 206
            if start >= len(body):
                self.reply(416, {"Content-Range": f"bytes */{len(body)}"}, b"")
                return
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        self.reply(status, headers, body[start:], cut)

    def reply(self, status: int, headers: dict[str, str], body: bytes, cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:cut])


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    handler = type("BoundHandler", (Handler,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = False
    handler.shelf = Shelf(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield handler.shelf
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


class Watch:
    """Records pauses and progress; can interrupt like a person would."""

    def __init__(self, interrupt_after: int | None = None) -> None:
        self.pauses: list[float] = []
        self.starts: list[tuple[str, int, int | None]] = []
        self.notes: list[str] = []
        self.done = 0
        self.interrupt_after = interrupt_after

    def patience(self, **changes: Any) -> download.Patience:
        return replace(download.Patience(timeout=5, sleep=self.pauses.append), **changes)

    def start(self, what: str, done: int, total: int | None) -> None:
        self.starts.append((what, done, total))

    def advance(self, count: int) -> None:
        self.done += count
        if self.interrupt_after is not None and self.done >= self.interrupt_after:
            raise KeyboardInterrupt

    def note(self, text: str) -> None:
        self.notes.append(text)


def fetch(shelf: Shelf, folder: Path, watch: Watch | None = None, path: str = "/file.bin", **options: Any) -> bytes:
    watch = watch or Watch()
    target = folder / "file.bin"
    options = {"patience": watch.patience(), "progress": watch, **options}
    return download.download(shelf.url + path, target, **options).read_bytes()


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_downloads_a_file_and_leaves_nothing_else(shelf: Shelf, tmp_path: Path) -> None:
    watch = Watch()
    assert fetch(shelf, tmp_path, watch, checksum=f"sha256:{hashlib.sha256(BODY).hexdigest()}") == BODY
    assert left(tmp_path) == ["file.bin"]
    assert watch.starts == [("file.bin", 0, len(BODY))]
    assert watch.done == len(BODY)


def test_goes_on_after_a_cut_connection(shelf: Shelf, tmp_path: Path) -> None:
    shelf.script = [("cut", 300_000), ("cut", 300_000)]
    watch = Watch()
    assert fetch(shelf, tmp_path, watch) == BODY
    assert [asked.get("Range") for asked in shelf.asked] == [None, "bytes=300000-", "bytes=600000-"]
    assert watch.done == len(BODY)
    assert watch.pauses == [1, 2]
    assert "the connection was cut after 300,000 of 1,024,000 bytes; trying again in 1 s" in watch.notes


def test_a_later_run_goes_on_where_an_interrupted_one_stopped(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fetch(shelf, tmp_path, Watch(interrupt_after=400_000))
    assert left(tmp_path) == ["file.bin.part", "file.bin.part.json"]
    there = (tmp_path / "file.bin.part").stat().st_size
    watch = Watch()
    assert fetch(shelf, tmp_path, watch) == BODY
    assert watch.starts == [("file.bin", there, len(BODY))]
    assert left(tmp_path) == ["file.bin"]


def test_a_complete_part_needs_no_more_bytes(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fetch(shelf, tmp_path, Watch(interrupt_after=len(BODY)))
    watch = Watch()
    assert fetch(shelf, tmp_path, watch) == BODY
    assert watch.done == 0


@pytest.mark.parametrize("change", ["no ranges", "changed", "no validator", "other address"])
def test_starts_anew_when_it_cannot_go_on(shelf: Shelf, tmp_path: Path, change: str) -> None:
    shelf.validators = change != "no validator"
    shelf.files["/other"] = BODY[::-1]
    shelf.script = [("cut", 300_000)]
    with pytest.raises(DataError, match="cut after 300,000"):
        fetch(shelf, tmp_path, patience=Watch().patience(tries=1))
    shelf.ranges = change != "no ranges"
    if change == "changed":
        shelf.files["/file.bin"] = BODY[::-1]
    path = "/other" if change == "other address" else "/file.bin"
    assert fetch(shelf, tmp_path, path=path) == shelf.files[path]


def test_a_server_that_sends_another_part_is_not_believed(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.script = [("cut", 300_000)]
    with pytest.raises(DataError):
        fetch(shelf, tmp_path, patience=Watch().patience(tries=1))
    (tmp_path / "file.bin.part").write_bytes(b"x" * (len(BODY) + 5))
    assert fetch(shelf, tmp_path) == BODY


def test_tries_again_after_a_server_error(shelf: Shelf, tmp_path: Path) -> None:
    shelf.script = [("status", 500), ("status", 503)]
    watch = Watch()
    assert fetch(shelf, tmp_path, watch) == BODY
    assert watch.pauses == [7, 7]  # the server asked for that


def test_gives_up_in_the_end_and_says_how_to_go_on(shelf: Shelf, tmp_path: Path) -> None:
    shelf.script = [("status", 500)] * 3
    with pytest.raises(DataError, match=r"answered 500 .*tried 3 times.*run the same command again"):
        fetch(shelf, tmp_path, patience=Watch().patience(tries=3))


def test_progress_earns_more_tries(shelf: Shelf, tmp_path: Path) -> None:
    shelf.files["/file.bin"] = BODY * 8
    shelf.script = [("cut", 1_100_000)] * 6
    assert fetch(shelf, tmp_path, patience=Watch().patience(tries=2)) == BODY * 8


@pytest.mark.parametrize("status", [403, 404, 410])
def test_a_missing_file_is_not_asked_for_again(shelf: Shelf, tmp_path: Path, status: int) -> None:
    shelf.script = [("status", status)]
    with pytest.raises(DataError, match=rf"the server answered {status} .*--from FOLDER"):
        fetch(shelf, tmp_path)
    assert len(shelf.asked) == 1
    assert left(tmp_path) == []


def test_an_unreachable_server_is_named(shelf: Shelf, tmp_path: Path) -> None:
    watch = Watch()
    with pytest.raises(DataError, match=r"Cannot download http://127.0.0.1:1/x: .*refused"):
        download.download("http://127.0.0.1:1/x", tmp_path / "x", patience=watch.patience(), progress=watch)
    assert watch.pauses == [1, 2, 4, 8]


def test_a_silent_server_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        with pytest.raises(DataError, match="did not answer in time"):
            download.download(url, tmp_path / "x", patience=Watch().patience(tries=1, timeout=0.1))


def test_a_wrong_checksum_deletes_what_came(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"not the published file: its sha256 is [0-9a-f]{64}, not 00; it was deleted"):
        fetch(shelf, tmp_path, checksum="sha256:00")
    assert left(tmp_path) == []


def test_size_limits(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(LimitError, match="has 1,024,000 bytes; the limit is 1,000"):
        fetch(shelf, tmp_path, max_bytes=1000)


def test_a_full_disk_is_noticed_before_and_during(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(download.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000}))
        with pytest.raises(DataError, match=r"needs 1,024,000 more bytes in .* where 1,000 are free.*FLEXKG_HOME"):
            fetch(shelf, tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, before[1]))
    try:
        with pytest.raises(DataError, match=r"Cannot write .*file.bin.part: File too large"):
            fetch(shelf, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert fetch(shelf, tmp_path) == BODY


def test_only_the_web_is_read(shelf: Shelf, tmp_path: Path) -> None:
    for url in ("file:///etc/passwd", "ftp://example.org/x", "/etc/passwd"):
        with pytest.raises(DataError, match="only http and https"):
            download.download(url, tmp_path / "x")
    shelf.redirects["/away"] = "ftp://example.org/x"
    with pytest.raises(DataError, match="only http and https"):
        fetch(shelf, tmp_path, path="/away", patience=Watch().patience(tries=1))
    shelf.redirects["/moved"] = shelf.url + "/file.bin"
    assert fetch(shelf, tmp_path, path="/moved") == BODY


def test_two_processes_do_not_write_one_file(shelf: Shelf, tmp_path: Path) -> None:
    with locked(tmp_path / "file.bin.part"), pytest.raises(DataError, match="Another process"):
        fetch(shelf, tmp_path)
    assert fetch(shelf, tmp_path) == BODY


# Whole datasets

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
