"""Runs of whole numbers inside a pickle, found and decoded many at a time.

Answer sets make up nearly all of a pickle of queries. Taking a number at a time off an interpreter's stack costs a
microsecond and a hundred bytes each; a run of up to a thousand costs a tenth of that and four bytes a number.
"""

from __future__ import annotations

import re
from array import array
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

# A frame, which only says how much to read ahead, may begin between any two instructions.
_FRAME: Final = rb"(?:\x95.{8})?"
_NUMBER: Final = rb"(?:K.|M..|J....|\x95.{8})"
# Possessive, so that no place to come back to is remembered for every number. Python writes a thousand at
# a time, and after exactly a thousand an empty run.
_RUN: Final = _NUMBER + rb"{0,4096}+"
_MEMO: Final = _FRAME + rb"(\x94|q.|r....)?" + _FRAME
_FIRST_IN_SET: Final = re.compile(_MEMO + rb"\((" + _RUN + rb")\x90", re.DOTALL)
_FIRST_IN_LIST: Final = re.compile(_MEMO + rb"(?:\((" + _RUN + rb")e|(" + _NUMBER + rb")a)", re.DOTALL)
_NEXT_IN_SET: Final = re.compile(_FRAME + rb"\((" + _RUN + rb")\x90", re.DOTALL)
_NEXT_IN_LIST: Final = re.compile(_FRAME + rb"(?:\((" + _RUN + rb")e|(" + _NUMBER + rb")a)", re.DOTALL)
_ALIKE: Final = re.compile(rb"(?:K.)++|(?:M..)++|(?:J....)++|\x95.{8}", re.DOTALL)
_FORMATS: Final = {ord("K"): ("xB", 2), ord("M"): ("xH", 3), ord("J"): ("xi", 5)}


class Run(NamedTuple):
    """The whole numbers of a set or a list, the memo instruction before them, and where the pickle goes on."""

    numbers: array[int]
    memo: bytes
    end: int


def find(data: bytes, place: int, *, in_set: bool) -> Run | None:
    """What fills the empty set or list that was just made, if that is whole numbers only."""
    first = (_FIRST_IN_SET if in_set else _FIRST_IN_LIST).match(data, place)
    if first is None:
        return None
    memo, *runs = first.groups()
    numbers: list[int] = []
    end = first.end()
    following = _NEXT_IN_SET if in_set else _NEXT_IN_LIST
    while True:
        for run in runs:
            if run:
                _decode(run, numbers)
        more = following.match(data, end)
        if more is None:
            return Run(array("i", numbers), memo or b"", end)
        runs, end = list(more.groups()), more.end()


def _decode(run: bytes, numbers: list[int]) -> None:
    for alike in _ALIKE.findall(run):
        if alike[0] in _FORMATS:
            numbers.extend(_reader(alike[0], len(alike)).unpack(alike))


@lru_cache(maxsize=4096)
def _reader(code: int, length: int) -> Struct:
    layout, size = _FORMATS[code]
    return Struct("<" + layout * (length // size))
