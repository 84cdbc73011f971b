"""Downloads against a real server on loopback, and whole datasets fetched from one."""

from __future__ import annotations

import hashlib
import resource
from typing import TYPE_CHECKING, Any

import pytest

from flexkg.errors import DataError, LimitError
from flexkg.kg import download
from flexkg.kg.storage import locked

if TYPE_CHECKING:
    from pathlib import Path
from shelf import BODY, Shelf, Watch, left


def fetch(shelf: Shelf, folder: Path, watch: Watch | None = None, path: str = "/file.bin", **options: Any) -> bytes:
    watch = watch or Watch()
    target = folder / "file.bin"
    options = {"patience": watch.patience(), "progress": watch, **options}
    return download.download(shelf.url + path, target, **options).read_bytes()


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
