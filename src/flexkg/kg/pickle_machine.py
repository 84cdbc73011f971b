"""The interpreter behind `safe_pickle`: values on a stack, each with a note of how deep and how heavy it is."""

from __future__ import annotations

import pickletools
import struct
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

from flexkg.errors import DataError, LimitError
from flexkg.kg import pickle_runs

NOT_READ: Final = "Nothing of it was used."

_OPCODES: Final = {ord(opcode.code): opcode.name for opcode in pickletools.opcodes}
_HIGHEST_PROTOCOL: Final = 5
_STOP: Final = ord(".")
_BININT1: Final = ord("K")
_BININT2: Final = ord("M")
_MEMOIZE: Final = ord("\x94")
_LONG_BINPUT: Final = ord("r")
_MEMO_GAP: Final = 4096
"""Pickles that were optimized leave places of the memo out; nobody leaves out more than this."""


@dataclass(frozen=True)
class Limits:
    """How much a pickle may ask for.

    bytes: length of the file. values: how many values it makes. depth: nesting of containers. weight: values in the
    result when everything that is referred to several times is counted each time.
    """

    bytes: int = 64 << 20
    values: int = 5_000_000
    depth: int = 16
    weight: int = 20_000_000


@dataclass(frozen=True)
class Global:
    """Stands for something that a pickle names; it is only ever compared, never imported."""

    name: str


class _Note:
    """What is known of a value on the stack: its nesting, its weight, and whether it may still grow."""

    __slots__ = ("depth", "open", "plain", "weight")

    def __init__(self, depth: int, weight: int, *, open: bool = False, plain: bool = True) -> None:
        self.depth, self.weight, self.open, self.plain = depth, weight, open, plain


_SCALAR: Final = _Note(0, 1)
_SHARED: Final = [[_Note(depth, weight) for weight in range(64)] for depth in range(8)]
"""Notes of small tuples, which do not grow: millions of them would take more room than the tuples."""
_NAMED: Final = _Note(0, 1, plain=False)


class Machine:
    """Interprets one pickle. Values and their notes live on two stacks in step."""

    def __init__(self, data: bytes, what: str, limits: Limits, allow: frozenset[str], actions: Actions) -> None:
        self.data, self.what, self.limits, self.allow = data, what, limits, allow
        self.place = 0
        self.values: list[Any] = []
        self.notes: list[_Note] = []
        self.marks: list[int] = []
        # Places in the memo count up from 0 in every pickle that Python writes.
        self.memo: list[tuple[Any, _Note] | None] = []
        self.made = 0
        self.actions = actions

    def run(self) -> Any:
        """Interpret up to STOP."""
        actions, data, values, notes, memo = self.actions, self.data, self.values, self.notes, self.memo
        push, note, remember = values.append, notes.append, memo.append
        most = self.limits.values
        code = start = place = numbers = 0
        try:
            while True:
                start = place
                if start >= len(data):
                    self.damaged("it ends too early")
                code = data[start]
                # Written out, the numbers and memo instructions of millions of queries take half the time.
                if code == _BININT2:
                    push(data[start + 1] | data[start + 2] << 8)
                    note(_SCALAR)
                    numbers += 1
                    place = start + 3
                elif code == _MEMOIZE:
                    remember((values[-1], notes[-1]))
                    place = start + 1
                elif code == _BININT1:
                    push(data[start + 1])
                    note(_SCALAR)
                    numbers += 1
                    place = start + 2
                elif code == _LONG_BINPUT and data[start + 1 : start + 5] == len(memo).to_bytes(4, "little"):
                    remember((values[-1], notes[-1]))
                    place = start + 5
                elif code == _STOP:
                    break
                else:
                    self.place = start + 1
                    action = actions.get(code)
                    if action is None:
                        self.refuse(code, start)
                    action(self)
                    place = self.place
                    if self.made + numbers > most:
                        self.too_large(f"makes more than {most:,} values")
        except (IndexError, struct.error, ValueError, KeyError, TypeError, UnicodeError, OverflowError):
            self.damaged(f"{_OPCODES[code]} at byte {start} makes no sense")
        if len(values) != 1 or self.marks:
            self.damaged("something is left over at its end")
        value, _ = self.pop()
        return value

    # Failing

    def refuse(self, code: int, place: int) -> NoReturn:
        """An instruction that does more than build plain data."""
        name = _OPCODES.get(code)
        if name is None:
            self.damaged(f"byte {place} is no instruction")
        raise DataError(
            f"{self.what} holds more than plain data ({name} at byte {place}) and is refused.",
            hint=f"{NOT_READ} Get the file from its publisher again.",
        )

    def damaged(self, why: str) -> NoReturn:
        """Something that no pickler writes."""
        raise DataError(f"{self.what} is not a whole pickle: {why}.", hint=f"{NOT_READ} Get the file again.")

    def too_large(self, why: str) -> NoReturn:
        """More than the limits allow."""
        raise LimitError(f"{self.what} {why}.", hint=NOT_READ)

    # Reading

    def take(self, count: int) -> bytes:
        """The next bytes."""
        end = self.place + count
        if count < 0 or end > len(self.data):
            self.damaged("it ends too early")
        taken = self.data[self.place : end]
        self.place = end
        return taken

    def line(self) -> bytes:
        """The bytes up to the end of the line."""
        end = self.data.find(b"\n", self.place)
        if end < 0:
            self.damaged("it ends too early")
        taken = self.data[self.place : end]
        self.place = end + 1
        return taken

    def number(self, layout: str) -> int:
        """One number in the layout of `struct`."""
        value: int = struct.unpack(layout, self.take(struct.calcsize(layout)))[0]
        return value

    # The stack

    def push(self, value: Any, note: _Note = _SCALAR) -> None:
        """Put a value on the stack."""
        self.made += 1
        self.values.append(value)
        self.notes.append(note)

    def pop(self) -> tuple[Any, _Note]:
        """Take the top as a finished part of something; it may not change any more."""
        if self.marks and self.marks[-1] >= len(self.values):
            raise IndexError
        value, note = self.values.pop(), self.notes.pop()
        if not note.plain:
            self.damaged("a name stands where a value belongs")
        note.open = False
        return value, note

    def items(self) -> tuple[list[Any], list[_Note]]:
        """Take everything above the last mark."""
        mark = self.marks.pop()
        values, notes = self.values[mark:], self.notes[mark:]
        del self.values[mark:], self.notes[mark:]
        for note in notes:
            note.open = False
        return values, notes

    def contain(self, note: _Note, parts: list[_Note]) -> None:
        """Count `parts` into the container of `note`."""
        for part in parts:
            if not part.plain:
                self.damaged("a name stands where a value belongs")
            note.weight += part.weight
            if part.depth >= note.depth:
                note.depth = part.depth + 1
        if note.depth > self.limits.depth:
            self.too_large(f"nests values more than {self.limits.depth} deep")
        if note.weight > self.limits.weight:
            self.too_large(f"stands for more than {self.limits.weight:,} values")

    def growing(self, kind: type) -> tuple[Any, _Note]:
        """The container on top of the stack, which must still be under construction."""
        if self.marks and self.marks[-1] >= len(self.values):
            raise IndexError
        value, note = self.values[-1], self.notes[-1]
        if type(value) is array:
            self.damaged("it puts other things among whole numbers")
        if type(value) is not kind or not note.open:
            self.damaged("it changes a value that was finished")
        return value, note

    # Building

    def tuple(self, values: list[Any], parts: list[_Note]) -> None:
        """Make a tuple."""
        if len(parts) == 1 and parts[0] is _NAMED:
            # The argument of `defaultdict(set)`; `reduce` is the only one to accept it.
            self.push(tuple(values), _Note(1, 2, plain=False))
            return
        note = _Note(1, 1)
        self.contain(note, parts)
        self.push(tuple(values), note)

    def last(self, count: int) -> None:
        """Make a tuple of the last values: most of what queries are."""
        values, notes = self.values, self.notes
        if len(values) - (self.marks[-1] if self.marks else 0) < count:
            raise IndexError
        made, parts = values[-count:], notes[-count:]
        del values[-count:], notes[-count:]
        depth, weight = 0, 1
        for part in parts:
            if not part.plain:
                break
            part.open = False
            weight += part.weight
            if part.depth > depth:
                depth = part.depth
        else:
            if weight < 64 and depth < 7 and depth < self.limits.depth and weight <= self.limits.weight:
                self.made += 1
                values.append(tuple(made))
                notes.append(_SHARED[depth + 1][weight])
                return
        self.tuple(made, parts)

    def filled(self, make: Callable[[list[Any]], Any], values: list[Any], parts: list[_Note]) -> None:
        """Make a container that may grow."""
        note = _Note(1, 1, open=True)
        self.contain(note, parts)
        self.push(make(values), note)

    def extend(self, values: list[Any], parts: list[_Note]) -> None:
        """Add to the list on top."""
        target, note = self.growing(list)
        self.contain(note, parts)
        target.extend(values)

    def unite(self, values: list[Any], parts: list[_Note]) -> None:
        """Add to the set on top."""
        target, note = self.growing(set)
        self.contain(note, parts)
        target.update(values)

    def assign(self, values: list[Any], parts: list[_Note]) -> None:
        """Add to the dictionary on top."""
        target, note = self.growing(dict)
        self.contain(note, parts)
        target.update(pairs(values))

    # Names

    def named(self, name: str) -> None:
        """Take a name for what it stands for, if it is one of those allowed."""
        if name not in self.allow:
            raise DataError(
                f"{self.what} names {name[:80]!r}, which is not plain data, and is refused.",
                hint=f"{NOT_READ} Get the file from its publisher again.",
            )
        self.push(Global(name), _NAMED)

    def stack_global(self) -> None:
        """Take a name from the two texts on top."""
        (name, _), (module, _) = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise TypeError
        self.named(f"{module}.{name}")

    def reduce(self) -> None:
        """Make a set or a dictionary: the only names that can be called."""
        if self.marks and len(self.values) - self.marks[-1] < 2:
            raise IndexError
        arguments, note = self.values.pop(), self.notes.pop()
        function, _ = self.values.pop(), self.notes.pop()
        if type(arguments) is not tuple or type(function) is not Global:
            raise TypeError
        if function.name == "collections.defaultdict":
            # The default is dropped with the argument: a plain dictionary has none.
            if len(arguments) > 1 or (arguments and type(arguments[0]) is not Global):
                raise TypeError
            self.filled(dict, [], [])
            return
        if len(arguments) > 1 or not note.plain or (arguments and type(arguments[0]) not in (list, tuple, set, array)):
            raise TypeError
        elements = arguments[0] if arguments else []
        if type(elements) is array:
            self.push(elements, note)
            return
        made = _Note(1, 1, open=function.name.endswith(".set"))
        self.contain(made, [note])
        self.push(set(elements) if made.open else frozenset(elements), made)

    def run_of(self, kind: type[set[Any]] | type[list[Any]]) -> None:
        """Fill a new set or list: with whole numbers all at once, or as the instructions that follow say."""
        found = pickle_runs.find(self.data, self.place, in_set=kind is set)
        if found is None:
            self.filled(kind, [], [])
            return
        numbers, memo, self.place = found
        self.made += len(numbers)
        note = _Note(1, 1 + len(numbers))
        self.contain(note, [])
        self.push(numbers, note)
        if memo:
            self.put(len(self.memo) if memo == b"\x94" else int.from_bytes(memo[1:], "little"))

    # The memo

    def put(self, place: int) -> None:
        """Remember the top."""
        memo = self.memo
        if place == len(memo):
            memo.append((self.values[-1], self.notes[-1]))
            return
        if not 0 <= place < len(memo) + _MEMO_GAP:
            raise IndexError
        memo.extend([None] * (place + 1 - len(memo)))
        memo[place] = self.values[-1], self.notes[-1]

    def get(self, place: int) -> None:
        """Put what was remembered on the stack."""
        known = self.memo[place] if place >= 0 else None
        if known is None:
            raise KeyError
        value, note = known
        # What is referred to may not change any more: so no value can hold itself, and its weight is final.
        note.open = False
        self.push(value, note)

    def frame(self) -> None:
        """A frame says how much may be read ahead; it must be there."""
        if self.number("<Q") > len(self.data) - self.place:
            self.damaged("it ends too early")

    def protocol(self) -> None:
        """Check the version."""
        version = self.take(1)[0]
        if version > _HIGHEST_PROTOCOL:
            self.damaged(f"it has version {version}")

    def pop_mark(self) -> None:
        """Drop everything above the last mark."""
        self.items()

    def integer_line(self) -> None:
        """A number or a truth value in digits."""
        text = self.line()
        self.push({b"00": False, b"01": True}[text] if text in (b"00", b"01") else integer(text))


def pairs(values: list[Any]) -> dict[Any, Any]:
    """Keys and values in turn as a dictionary."""
    return dict(zip(values[::2], values[1::2], strict=True))


def integer(text: bytes) -> int:
    """A whole number in digits."""
    # Turning long digits into a number takes quadratic time; nothing here needs more than 64 bits.
    digits = text.removesuffix(b"L")
    if len(digits) > 20:
        raise ValueError
    return int(digits)


Actions: TypeAlias = Mapping[int, Callable[[Machine], None]]
