"""Plain values come out as pickle would give them; everything else is refused before anything runs."""

from __future__ import annotations

import collections
import contextlib
import os
import pickle
import pickletools
from array import array
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flexkg.errors import DataError, FlexError, LimitError
from flexkg.kg import pickle_machine, pickle_runs, safe_pickle
from flexkg.kg.safe_pickle import SETS_AND_DEFAULTDICTS, Limits, loads

if TYPE_CHECKING:
    from pathlib import Path

scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text()
keys = st.recursive(scalars, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=6)
plain = st.recursive(
    keys,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner, inner)
        | st.dictionaries(keys, inner, max_size=4)
        | st.sets(keys, max_size=4)
    ),
    max_leaves=20,
)


@given(plain, st.integers(0, 5))
def test_gives_what_pickle_gives(value: object, protocol: int) -> None:
    data = pickle.dumps(value, protocol)
    assert loads(data, allow=SETS_AND_DEFAULTDICTS) == value
    assert loads(pickletools.optimize(data), allow=SETS_AND_DEFAULTDICTS) == value


@given(st.binary(max_size=300) | st.builds(lambda value, junk: pickle.dumps(value) + junk, plain, st.binary()))
def test_any_bytes_end_in_a_value_or_a_user_error(data: bytes) -> None:
    with contextlib.suppress(FlexError):
        loads(data, allow=SETS_AND_DEFAULTDICTS)


@given(plain, st.data())
def test_a_truncated_pickle_is_refused(value: object, data: st.DataObject) -> None:
    whole = pickle.dumps(value)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(DataError):
        loads(whole[:cut], allow=SETS_AND_DEFAULTDICTS)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_reads_the_benchmarks_structures(protocol: int) -> None:
    queries: dict[object, set[object]] = collections.defaultdict(set)
    queries["e", ("r",)] = {(1, (2,)), (3, (4,))}
    queries["e", ("r", "r")] = {(1, (2, 3))}
    read = loads(pickle.dumps(queries, protocol), allow=SETS_AND_DEFAULTDICTS)
    assert read == queries
    assert type(read) is dict


def test_shared_values_are_kept() -> None:
    part = {1, 2}
    assert loads(pickle.dumps([part, part, (part,)], 4)) == [part, part, (part,)]


class Payload:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_payload_is_refused_and_does_not_run(tmp_path: Path, protocol: int) -> None:
    data = pickle.dumps({0: Payload(tmp_path / "ran")}, protocol)
    for allow in ((), SETS_AND_DEFAULTDICTS):
        with pytest.raises(DataError, match=r"id2ent.pkl names '(posix|nt)\.system', which is not plain data"):
            loads(data, "id2ent.pkl", allow=allow)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "ends too early"),
        (b"\xff", "no instruction"),
        (b"\x80\x7f.", "version 127"),
        (b"(ios\nsystem\n.", r"\(INST at byte 1\)"),
        (b"cos\nsystem\n(S'true'\ntR.", "os.system"),
        (b"P1\n.", "PERSID"),
        (b"\x82\x01.", "EXT1"),
        (b"]]b.", "BUILD"),
        (b"cbuiltins\nset\n.", "builtins.set"),
        (b"\x8c\x05posix\x8c\x06system\x93.", "posix.system"),
        (b"]q\x00h\x00a.", "changes a value that was finished"),  # a list in itself
        (b"K\x01K\x02.", "left over"),
        (b"]K\x01s.", "makes no sense"),
        (b"}]K\x01s.", "makes no sense"),  # a list as a key
        (b"h\x07.", "makes no sense"),
        (b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.", "ends too early"),
        (b"\x8b\xff\x00\x00\x00" + b"\x01" * 255 + b".", "makes no sense"),
    ],
)
def test_says_why_it_refuses(data: bytes, words: str) -> None:
    with pytest.raises(DataError, match=words):
        loads(data)


@pytest.mark.parametrize(
    "data",
    [
        b"cbuiltins\nset\n.",
        b"cbuiltins\nset\n\x85.",
        b"]cbuiltins\nset\na.",
        b"cbuiltins\nset\nK\x01R.",
        b"(cbuiltins\nset\nR.",
    ],
)
def test_an_allowed_name_is_no_value(data: bytes) -> None:
    with pytest.raises(DataError):
        loads(data, allow=SETS_AND_DEFAULTDICTS)


def test_limits_stop_what_would_grow() -> None:
    deep = b")" + b"\x85" * 10_000 + b"."
    with pytest.raises(LimitError, match="more than 16 deep"):
        loads(deep)
    laughs = b"K\x01q\x00" + b"".join(b"(" + b"h%c" % level * 100 + b"tq%c" % (level + 1) for level in range(9))
    with pytest.raises(LimitError, match="stands for more than"):
        loads(laughs + b".")
    with pytest.raises(LimitError, match="makes more than 10 values"):
        loads(pickle.dumps(list(range(100))), limits=Limits(values=10))
    with pytest.raises(LimitError, match="bytes; the limit is 3"):
        loads(b"abcd", limits=Limits(bytes=3))
    with pytest.raises(ValueError, match=r"os\.system"):
        loads(b".", allow={"os.system"})


def test_nothing_is_imported_from_pickle() -> None:
    assert all("pickle" not in vars(module) for module in (safe_pickle, pickle_machine, pickle_runs))


def as_sets(value: object) -> object:
    """The value with arrays for sets of whole numbers, as sets again."""
    if isinstance(value, array):
        return set(value)
    if isinstance(value, dict):
        return {key: as_sets(part) for key, part in value.items()}
    return value


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("length", [0, 1, 2, 3, 255, 999, 1000, 1001, 2000, 2001, 70_000])
def test_arrays_hold_what_the_sets_would(protocol: int, length: int) -> None:
    # Frames begin every 64 KB, batches every thousand: both fall between the numbers here.
    answers = {(id, (id % 7,)): set(range(id, id + length)) for id in (0, 200, 65_500, 2**31 - 70_001)}
    data = pickle.dumps(collections.defaultdict(set, answers), protocol)
    read = loads(data, allow=SETS_AND_DEFAULTDICTS, arrays=True)
    assert as_sets(read) == answers
    if protocol >= 2 and length > 1:
        assert all(isinstance(numbers, array) for numbers in read.values())


@given(
    st.dictionaries(st.tuples(st.integers(0, 70_000), st.tuples(st.integers(0, 300))), st.sets(st.integers())),
    st.integers(2, 5),
)
def test_sets_that_are_no_array_come_out_as_sets(answers: dict[object, set[int]], protocol: int) -> None:
    data = pickle.dumps(answers, protocol)
    try:
        read = loads(data, allow=SETS_AND_DEFAULTDICTS, arrays=True)
    except DataError as error:  # numbers past 64 bits are none of ours
        assert "makes no sense" in str(error)  # noqa: PT017
        return
    assert as_sets(read) == answers


@given(st.binary(max_size=300) | st.builds(lambda value, junk: pickle.dumps(value) + junk, plain, st.binary()))
def test_any_bytes_end_in_a_value_or_a_user_error_with_arrays_too(data: bytes) -> None:
    with contextlib.suppress(FlexError):
        loads(data, allow=SETS_AND_DEFAULTDICTS, arrays=True)


instructions = [
    b"K\x01",
    b"M\x01\x01",
    b"(",
    b"]",
    b"\x8f",
    b"\x90",
    b"e",
    b"a",
    b"\x85",
    b"\x94",
    b"h\x00",
    b"}",
    b"s",
]
instructions += [b"u", b"R", b"cbuiltins\nset\n", b"q\x05", b"r\x00\x00\x00\x00"]


@given(st.lists(st.sampled_from(instructions), max_size=30))
def test_any_program_ends_in_a_value_or_a_user_error(program: list[bytes]) -> None:
    for arrays in (False, True):
        with contextlib.suppress(FlexError):
            loads(b"".join(program) + b".", allow=SETS_AND_DEFAULTDICTS, arrays=arrays)


def test_arrays_count_against_the_limits() -> None:
    data = pickle.dumps([set(range(100))] * 50, 4)
    with pytest.raises(LimitError, match="stands for more than 1,000"):
        loads(data, arrays=True, limits=Limits(weight=1000))
    with pytest.raises(LimitError, match="makes more than 50 values"):
        loads(data, arrays=True, limits=Limits(values=50))


@pytest.mark.parametrize(
    "data",
    [
        b"\x8f(K\x01\x90(]\x90.",  # a list among numbers
        b"\x8f(K\x01\x90\x85}h\x00K\x01s.",
        b"}\x8f(K\x01\x90K\x01s.",  # a set as a key
        b"\x8fr\xff\xff\xff\xff(K\x01\x90.",
        b"K\x01r\xff\xff\xff\x7f.",  # a memo of sixteen gigabytes
        b"K\x01q\x05h\x04.",
    ],
)
def test_arrays_open_no_door(data: bytes) -> None:
    with pytest.raises(DataError):
        loads(data, arrays=True)
