"""Atomic writes and the plain table format."""

import errno
import io
import math
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flexkg.errors import DataError
from flexkg.kg.storage import (
    atomic_file,
    atomic_folder,
    escape_field,
    explain_os_error,
    locked,
    parse_table,
    read_array,
    read_json,
    sha256_bytes,
    sha256_file,
    table_bytes,
    unescape_field,
    write_array,
    write_json,
)

texts = st.text(st.characters(codec="utf-8"))


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_and_fail(path: Path, error: BaseException) -> None:
    path.write_text("new")
    raise error


def ours(folder: Path) -> bool:
    return (folder / "mark").exists()


def test_a_folder_appears_whole(tmp_path):
    with atomic_folder(tmp_path / "a" / "b") as folder:
        (folder / "mark").write_text("x")
        assert not (tmp_path / "a" / "b").exists()
    assert entries(tmp_path / "a" / "b") == ["mark"]
    assert entries(tmp_path / "a") == ["b"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failure_leaves_nothing_behind_not_even_parents(tmp_path, error):
    with pytest.raises(error), atomic_folder(tmp_path / "a" / "b") as folder:
        write_and_fail(folder / "mark", error())
    assert entries(tmp_path) == []


def test_a_failure_keeps_the_old_folder(tmp_path):
    target = tmp_path / "data"
    with atomic_folder(target) as folder:
        (folder / "mark").write_text("old")
    with pytest.raises(RuntimeError), atomic_folder(target, overwrite=True, replaceable=ours) as folder:
        write_and_fail(folder / "mark", RuntimeError())
    assert (target / "mark").read_text() == "old"
    assert entries(tmp_path) == ["data"]


def test_overwrite_replaces_only_what_is_ours(tmp_path):
    target = tmp_path / "data"
    with atomic_folder(target) as folder:
        (folder / "mark").write_text("old")
    with pytest.raises(DataError, match=r"exists already.*--force"), atomic_folder(target, replaceable=ours):
        pass
    with atomic_folder(target, overwrite=True, replaceable=ours) as folder:
        (folder / "mark").write_text("new")
    assert (target / "mark").read_text() == "new"
    (target / "mark").rename(target / "letters from grandmother")
    with (
        pytest.raises(DataError, match=r"holds something else, and is not overwritten"),
        atomic_folder(target, overwrite=True, replaceable=ours),
    ):
        pass
    assert entries(tmp_path) == ["data"]


def test_an_empty_folder_may_be_filled_and_a_file_may_not(tmp_path):
    (tmp_path / "empty").mkdir()
    with atomic_folder(tmp_path / "empty") as folder:
        (folder / "mark").write_text("x")
    assert entries(tmp_path / "empty") == ["mark"]
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="is a file"), atomic_folder(tmp_path / "file"):
        pass
    with pytest.raises(DataError, match="is in the way"), atomic_folder(tmp_path / "file" / "x"):
        pass


def test_a_folder_through_a_link_keeps_the_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic_folder(tmp_path / "link") as folder:
        (folder / "mark").write_text("x")
    assert (tmp_path / "link").is_symlink()
    assert entries(tmp_path / "real") == ["mark"]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "x.json"
    with atomic_file(path) as temporary:
        temporary.write_text("1")
    with pytest.raises(ValueError, match="stop"), atomic_file(path) as temporary:
        write_and_fail(temporary, ValueError("stop"))
    assert path.read_text() == "1"
    assert entries(tmp_path) == ["x.json"]
    with pytest.raises(DataError, match="is a folder"), atomic_file(tmp_path):
        pass


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.ENOSPC, "The disk is full"),
        (errno.EACCES, "permissions"),
        (errno.EROFS, "read-only"),
        (errno.EDQUOT, "quota"),
        (errno.EIO, "Check the path and the disk"),
    ],
)
def test_the_systems_complaints_come_with_advice(code, advice):
    error = explain_os_error(OSError(code, os.strerror(code), "/data/x"), "/data")
    assert "/data/x" in str(error)
    assert advice in str(error)


def test_a_complaint_that_is_a_sentence_ends_with_one_full_stop():
    complaint = io.UnsupportedOperation("File or stream is not seekable.")
    assert str(explain_os_error(complaint, "in", "read")) == (
        "Cannot read in: File or stream is not seekable. Check the path and the disk."
    )


def test_a_file_size_limit_is_explained_and_leaves_nothing(tmp_path):
    script = """
import resource, signal, sys
import numpy as np
from flexkg.errors import DataError
from flexkg.kg.storage import atomic_folder, write_array
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
try:
    with atomic_folder(sys.argv[1]) as folder:
        write_array(folder / "x.npy", np.zeros((100_000, 3), np.int32))
except DataError as error:
    print(error)
"""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] != 0
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "out"], capture_output=True, text=True, check=True)
    assert "larger than this system or account allows" in done.stdout
    assert entries(tmp_path) == []


@given(texts)
def test_escapes_come_back(text):
    escaped = escape_field(text)
    assert not set("\t\n\r") & set(escaped)
    assert unescape_field(escaped) == text


@given(st.lists(st.tuples(texts, texts, texts)))
def test_a_table_comes_back(rows):
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    header = ("a", "b", "c")
    assert parse_table(table_bytes(header, columns), header, "x") == columns


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a\tb\n1\t2\n3\n", "line 3 does not have 2 columns"),
        (b"a\tb\n1\t2\n3\t4\t5\n1\t2\t3", "not a whole table"),
        (b"x\ty\n", "columns a, b"),
        (b"", "not a whole table"),
        (b"a\tb\n\xff\t2\n", "not UTF-8"),
    ],
)
def test_a_damaged_table_says_where(data, message):
    with pytest.raises(DataError, match=message):
        parse_table(data, ("a", "b"), "names.tsv")


def test_half_a_surrogate_pair_cannot_be_written():
    with pytest.raises(DataError, match="UTF-8"):
        table_bytes(["a"], [["x\ud800"]])


def test_arrays(tmp_path):
    for array in (np.arange(12, dtype=np.int32).reshape(4, 3), np.empty((0, 3), np.int32)):
        write_array(tmp_path / "x.npy", array)
        for limit in (0, 1 << 20):
            found = read_array(tmp_path / "x.npy", map_above=limit)
            np.testing.assert_array_equal(found, array)
            assert type(found) is np.ndarray
    for junk in (b"", b"junk", np.lib.format.MAGIC_PREFIX):
        (tmp_path / "x.npy").write_bytes(junk)
        with pytest.raises(DataError, match="not a whole NumPy array"):
            read_array(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="not a whole NumPy array"):
        read_array(tmp_path / "x.npy")


def test_json_and_hashes(tmp_path):
    (tmp_path / "x").write_bytes(b"abc")
    assert sha256_file(tmp_path / "x") == sha256_bytes(b"abc")
    with pytest.raises(DataError, match="not valid JSON"):
        read_json(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"[" * 100_000)
    with pytest.raises(DataError, match="not valid JSON"):
        read_json(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"[1]")
    with pytest.raises(DataError, match="JSON object"):
        read_json(tmp_path / "x")
    with pytest.raises(DataError, match=r"Cannot read .*nowhere"):
        read_json(tmp_path / "nowhere")


def test_who_comes_second_waits(tmp_path):
    path, inside, seen = tmp_path / "folder", [], []

    def enter(name):
        for _ in range(20):
            with locked(path):
                inside.append(name)
                seen.append(len(inside))
                inside.remove(name)

    threads = [threading.Thread(target=enter, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1] * 120
    assert list(tmp_path.iterdir()) == []


def test_who_comes_second_is_told(tmp_path):
    path, busy = tmp_path / "file", DataError("It is in use.")
    with locked(path), pytest.raises(DataError, match="in use"), locked(path, busy):
        pass
    with locked(path, busy):
        assert [each.name for each in tmp_path.iterdir()] == ["file.lock"]
    assert list(tmp_path.iterdir()) == []


def test_a_lock_is_given_back_after_an_error(tmp_path):
    with pytest.raises(KeyError), locked(tmp_path / "file"):
        raise KeyError
    with locked(tmp_path / "file", DataError("It is in use.")):
        pass
    with pytest.raises(DataError, match="absent"), locked(tmp_path / "absent" / "file"):
        pass


def test_json_has_null_for_what_is_no_number(tmp_path):
    write_json(tmp_path / "a.json", {"mrr": math.nan, "rows": [1.5, (math.inf, {"x": -math.inf})], "n": 3})
    assert read_json(tmp_path / "a.json") == {"mrr": None, "rows": [1.5, [None, {"x": None}]], "n": 3}
