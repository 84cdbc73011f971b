"""Which columns of a table hold head, relation and tail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flexkg.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_NAMES = (
    frozenset({"head", "h", "subject", "subj", "s", "source", "src", "from", "head_id", "subject_id"}),
    frozenset(
        {"relation", "r", "predicate", "pred", "p", "property", "rel", "edge", "edge_type", "relation_id", "type"}
    ),
    frozenset({"tail", "t", "object", "obj", "o", "target", "dst", "to", "tail_id", "object_id"}),
)
_ROLES = ("head", "relation", "tail")
_HOW = (
    "Say which columns hold head, relation and tail with --columns: names or numbers such as 1,2,3, "
    "or the role of each column such as h,r,t,_ (the underscore leaves one out)."
)


@dataclass(frozen=True)
class Layout:
    """Positions of head, relation and tail among `width` columns, and whether the first row is a header."""

    width: int
    roles: tuple[int, int, int]
    header: bool
    guessed: bool = False
    """Whether nobody said that the first row is a header: its words did."""


def find_layout(path: Path, first: Sequence[str], columns: str | None, *, named: bool = False) -> Layout:
    """The layout of a table by its first row.

    columns: what the user said. named: the row holds column names for certain, as in Parquet.
    """
    width = len(first)
    by_header = _roles_in(first)
    if columns is None:
        if by_header is not None:
            return Layout(width, by_header, True, guessed=not named)
        if width == 3:
            return Layout(3, (0, 1, 2), named)
        shown = ", ".join(repr(text[:30]) for text in first[:6])
        if width > 3:
            raise DataError(f"{path} has {width} columns ({shown}).", hint=_HOW)
        raise DataError(
            f"{path} has {width} column{'s' * (width != 1)} instead of three ({shown}).", hint=_separator(first)
        )
    wanted = [column.strip() for column in columns.split(",")]
    roles, header = _wanted_roles(path, first, wanted, named)
    guessed = by_header is not None and not (header or named)
    return Layout(width, roles, header or guessed or named, guessed)


def _wanted_roles(
    path: Path, first: Sequence[str], wanted: Sequence[str], named: bool
) -> tuple[tuple[int, int, int], bool]:
    """Positions of the three roles as `--columns` says, and whether it named a header."""
    width = len(first)
    if len(wanted) == 3:
        for fold in (str, str.lower):
            header = [fold(text.strip()) for text in first]
            if all(header.count(fold(name)) == 1 for name in wanted) and len(set(map(fold, wanted))) == 3:
                return _three([header.index(fold(name)) for name in wanted]), True
        if all(name.isascii() and name.isdigit() for name in wanted):
            numbers = [int(name) for name in wanted]
            if len(set(numbers)) < 3 or not all(1 <= number <= width for number in numbers):
                raise DataError(
                    f"--columns {','.join(wanted)}: {path} has the columns 1 to {width}.",
                    hint="Give three different numbers among them.",
                )
            return _three([number - 1 for number in numbers]), False
    by_position = _roles_in(wanted)
    if by_position is not None and all(name == "_" for i, name in enumerate(wanted) if i not in by_position):
        if len(wanted) != width:
            raise DataError(
                f"--columns {','.join(wanted)} gives {len(wanted)} columns, but {path} has {width}.",
                hint="Write an underscore for each column to leave out.",
            )
        return by_position, False
    what = "columns" if named else "first row"
    shown = ", ".join(text[:30] for text in first[:10])
    raise DataError(f"--columns {','.join(wanted)} does not fit {path}, whose {what} is: {shown}.", hint=_HOW)


def _roles_in(names: Sequence[str]) -> tuple[int, int, int] | None:
    """Positions of the head, relation and tail among column names, if each is there exactly once."""
    folded = [name.strip().lower() for name in names]
    found = []
    for known in _NAMES:
        places = [place for place, name in enumerate(folded) if name in known]
        if len(places) > 1:
            # `source` and `s` may both stand there; the full word of the role decides.
            places = [place for place in places if folded[place] in (*_ROLES, "subject", "predicate", "object")]
        if len(places) != 1:
            return None
        found.append(places[0])
    return _three(found)


def _three(places: Sequence[int]) -> tuple[int, int, int]:
    head, relation, tail = places
    return head, relation, tail


def _separator(first: Sequence[str]) -> str:
    text = first[0] if first else ""
    for mark, name, ending in ((",", "commas", ".csv"), ("\t", "tabs", ".tsv")):
        if text.count(mark) >= 2:
            return f"Its fields look separated by {name}: name the file {ending}."
    if text.count(";") >= 2:
        return "Its fields look separated by semicolons: replace them by tabs."
    return "Give head, relation and tail, separated by tabs in .tsv or by commas in .csv."
