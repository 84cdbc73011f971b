"""Reads plain values out of pickles without unpickling them: nothing that a pickle names is imported or called.

The benchmarks are published as pickles. A pickle is a program; this module interprets the few instructions that build
numbers, text, tuples, lists, sets and dictionaries, and refuses every other one by name. It also refuses what those few
can do to hurt: values nested too deeply (hashing them overflows the stack) and small files that stand for huge values
(a tuple of two references to a tuple of two references to...).
"""

from __future__ import annotations

import pickletools
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from flexkg.errors import DataError, LimitError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

_OPCODES: Final = {ord(opcode.code): opcode.name for opcode in pickletools.opcodes}
_HIGHEST_PROTOCOL: Final = 5

# What a set or a defaultdict looks like in a pickle. Pass it as `allow` where the file may hold them.
SETS_AND_DEFAULTDICTS: Final = frozenset(
    {"builtins.set", "__builtin__.set", "builtins.frozenset", "__builtin__.frozenset", "collections.defaultdict"}
)


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
class _Global:
    """Stands for something that a pickle names; it is only ever compared, never imported."""

    name: str


class _Note:
    """What is known of a value on the stack: its nesting, its weight, and whether it may still grow."""

    __slots__ = ("depth", "open", "plain", "weight")

    def __init__(self, depth: int, weight: int, *, open: bool = False, plain: bool = True) -> None:
        self.depth, self.weight, self.open, self.plain = depth, weight, open, plain


_SCALAR: Final = _Note(0, 1)
_NAMED: Final = _Note(0, 1, plain=False)


def loads(data: bytes, what: str = "The pickle", *, limits: Limits | None = None, allow: Collection[str] = ()) -> Any:
    """The plain value that a pickle describes.

    allow: names out of `SETS_AND_DEFAULTDICTS` that the pickle may use; a defaultdict becomes a dict.
    """
    limits = limits or Limits()
    if unknown := set(allow) - SETS_AND_DEFAULTDICTS:
        raise ValueError(f"cannot build {sorted(unknown)}")
    if len(data) > limits.bytes:
        raise LimitError(f"{what} has {len(data):,} bytes; the limit is {limits.bytes:,}.", hint=_NOT_READ)
    return _Machine(data, what, limits, frozenset(allow)).run()


_NOT_READ: Final = "Nothing of it was used."


class _Machine:
    """Interprets one pickle. Values and their notes live on two stacks in step."""

    def __init__(self, data: bytes, what: str, limits: Limits, allow: frozenset[str]) -> None:
        self.data, self.what, self.limits, self.allow = data, what, limits, allow
        self.place = 0
        self.values: list[Any] = []
        self.notes: list[_Note] = []
        self.marks: list[int] = []
        self.memo: dict[int, tuple[Any, _Note]] = {}
        self.made = 0

    def run(self) -> Any:
        """Interpret up to STOP."""
        actions, data = _ACTIONS, self.data
        while True:
            start = self.place
            if start >= len(data):
                self.damaged("it ends too early")
            code = data[start]
            self.place = start + 1
            if code == _STOP:
                break
            action = actions.get(code)
            if action is None:
                self.refuse(code, start)
            try:
                action(self)
            except (IndexError, struct.error, ValueError, KeyError, TypeError, UnicodeError, OverflowError):
                self.damaged(f"{_OPCODES[code]} at byte {start} makes no sense")
        if len(self.values) != 1 or self.marks:
            self.damaged("something is left over at its end")
        value, _ = self.pop()
        return value

    # Failing

    def refuse(self, code: int, place: int) -> NoReturn:
        name = _OPCODES.get(code)
        if name is None:
            self.damaged(f"byte {place} is no instruction")
        raise DataError(
            f"{self.what} holds more than plain data ({name} at byte {place}) and is refused.",
            hint=f"{_NOT_READ} Get the file from its publisher again.",
        )

    def damaged(self, why: str) -> NoReturn:
        raise DataError(f"{self.what} is not a whole pickle: {why}.", hint=f"{_NOT_READ} Get the file again.")

    def too_large(self, why: str) -> NoReturn:
        raise LimitError(f"{self.what} {why}.", hint=_NOT_READ)

    # Reading

    def take(self, count: int) -> bytes:
        end = self.place + count
        if count < 0 or end > len(self.data):
            self.damaged("it ends too early")
        taken = self.data[self.place : end]
        self.place = end
        return taken

    def line(self) -> bytes:
        end = self.data.find(b"\n", self.place)
        if end < 0:
            self.damaged("it ends too early")
        taken = self.data[self.place : end]
        self.place = end + 1
        return taken

    def number(self, layout: str) -> int:
        value: int = struct.unpack(layout, self.take(struct.calcsize(layout)))[0]
        return value

    # The stack

    def push(self, value: Any, note: _Note = _SCALAR) -> None:
        self.made += 1
        if self.made > self.limits.values:
            self.too_large(f"makes more than {self.limits.values:,} values")
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
        if type(value) is not kind or not note.open:
            self.damaged("it changes a value that was finished")
        return value, note

    # Building

    def tuple(self, values: list[Any], parts: list[_Note]) -> None:
        if len(parts) == 1 and parts[0] is _NAMED:
            # The argument of `defaultdict(set)`; `reduce` is the only one to accept it.
            self.push(tuple(values), _Note(1, 2, plain=False))
            return
        note = _Note(1, 1)
        self.contain(note, parts)
        self.push(tuple(values), note)

    def last(self, count: int) -> None:
        if len(self.values) - (self.marks[-1] if self.marks else 0) < count:
            raise IndexError
        values, notes = self.values[-count:], self.notes[-count:]
        del self.values[-count:], self.notes[-count:]
        for note in notes:
            note.open = False
        self.tuple(values, notes)

    def filled(self, make: Callable[[list[Any]], Any], values: list[Any], parts: list[_Note]) -> None:
        note = _Note(1, 1, open=True)
        self.contain(note, parts)
        self.push(make(values), note)

    def extend(self, values: list[Any], parts: list[_Note]) -> None:
        target, note = self.growing(list)
        self.contain(note, parts)
        target.extend(values)

    def unite(self, values: list[Any], parts: list[_Note]) -> None:
        target, note = self.growing(set)
        self.contain(note, parts)
        target.update(values)

    def assign(self, values: list[Any], parts: list[_Note]) -> None:
        target, note = self.growing(dict)
        self.contain(note, parts)
        target.update(_pairs(values))

    # Names

    def named(self, name: str) -> None:
        if name not in self.allow:
            raise DataError(
                f"{self.what} names {name[:80]!r}, which is not plain data, and is refused.",
                hint=f"{_NOT_READ} Get the file from its publisher again.",
            )
        self.push(_Global(name), _NAMED)

    def stack_global(self) -> None:
        (name, _), (module, _) = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise TypeError
        self.named(f"{module}.{name}")

    def reduce(self) -> None:
        if self.marks and len(self.values) - self.marks[-1] < 2:
            raise IndexError
        arguments, note = self.values.pop(), self.notes.pop()
        function, _ = self.values.pop(), self.notes.pop()
        if type(arguments) is not tuple or type(function) is not _Global:
            raise TypeError
        if function.name == "collections.defaultdict":
            # The default is dropped with the argument: a plain dictionary has none.
            if len(arguments) > 1 or (arguments and type(arguments[0]) is not _Global):
                raise TypeError
            self.filled(dict, [], [])
            return
        if len(arguments) > 1 or not note.plain or (arguments and type(arguments[0]) not in (list, tuple, set)):
            raise TypeError
        elements = arguments[0] if arguments else []
        made = _Note(1, 1, open=function.name.endswith(".set"))
        self.contain(made, [note])
        self.push(set(elements) if made.open else frozenset(elements), made)

    # The memo

    def put(self, place: int) -> None:
        self.memo[place] = self.values[-1], self.notes[-1]

    def get(self, place: int) -> None:
        value, note = self.memo[place]
        # What is referred to may not change any more: so no value can hold itself, and its weight is final.
        note.open = False
        self.push(value, note)

    def frame(self) -> None:
        if self.number("<Q") > len(self.data) - self.place:
            self.damaged("it ends too early")

    def protocol(self) -> None:
        version = self.take(1)[0]
        if version > _HIGHEST_PROTOCOL:
            self.damaged(f"it has version {version}")

    def pop_mark(self) -> None:
        self.items()

    def integer_line(self) -> None:
        text = self.line()
        self.push({b"00": False, b"01": True}[text] if text in (b"00", b"01") else _integer(text))


def _pairs(values: list[Any]) -> dict[Any, Any]:
    return dict(zip(values[::2], values[1::2], strict=True))


def _integer(text: bytes) -> int:
    # Turning long digits into a number takes quadratic time; nothing here needs more than 64 bits.
    digits = text.removesuffix(b"L")
    if len(digits) > 20:
        raise ValueError
    return int(digits)


def _long(machine: _Machine, size: int) -> int:
    if size > 9:
        raise ValueError
    return int.from_bytes(machine.take(size), "little", signed=True)


def _text(size: str) -> Callable[[_Machine], None]:
    return lambda m: m.push(m.take(m.number(size)).decode("utf-8", "surrogatepass"))


_STOP: Final = ord(".")
_ACTIONS: Final[Mapping[int, Callable[[_Machine], None]]] = {
    ord(code): action
    for code, action in {
        "\x80": _Machine.protocol,
        "\x95": _Machine.frame,
        "(": lambda m: m.marks.append(len(m.values)),
        "0": lambda m: (m.pop(), None)[1],
        "1": _Machine.pop_mark,
        "N": lambda m: m.push(None),
        "\x88": lambda m: m.push(True),
        "\x89": lambda m: m.push(False),
        "I": _Machine.integer_line,
        "L": lambda m: m.push(_integer(m.line())),
        "J": lambda m: m.push(m.number("<i")),
        "K": lambda m: m.push(m.number("<B")),
        "M": lambda m: m.push(m.number("<H")),
        "\x8a": lambda m: m.push(_long(m, m.number("<B"))),
        "\x8b": lambda m: m.push(_long(m, m.number("<i"))),
        "F": lambda m: m.push(float(m.line()[:64])),
        "G": lambda m: m.push(m.number(">d")),
        "U": _text("<B"),
        "T": _text("<i"),
        "X": _text("<I"),
        "\x8c": _text("<B"),
        "\x8d": _text("<Q"),
        "V": lambda m: m.push(m.line().decode("raw-unicode-escape")),
        ")": lambda m: m.tuple([], []),
        "t": lambda m: m.tuple(*m.items()),
        "\x85": lambda m: m.last(1),
        "\x86": lambda m: m.last(2),
        "\x87": lambda m: m.last(3),
        "]": lambda m: m.filled(list, [], []),
        "l": lambda m: m.filled(list, *m.items()),
        "}": lambda m: m.filled(dict, [], []),
        "d": lambda m: m.filled(_pairs, *m.items()),
        "\x8f": lambda m: m.filled(set, [], []),
        "\x91": lambda m: m.filled(frozenset, *m.items()),
        "a": lambda m: (lambda part: m.extend([part[0]], [part[1]]))(m.pop()),
        "e": lambda m: m.extend(*m.items()),
        "\x90": lambda m: m.unite(*m.items()),
        "s": lambda m: (lambda value, key: m.assign([key[0], value[0]], [key[1], value[1]]))(m.pop(), m.pop()),
        "u": lambda m: m.assign(*m.items()),
        "c": lambda m: m.named(f"{m.line().decode('utf-8')}.{m.line().decode('utf-8')}"),
        "\x93": _Machine.stack_global,
        "R": _Machine.reduce,
        "p": lambda m: m.put(_integer(m.line())),
        "q": lambda m: m.put(m.number("<B")),
        "r": lambda m: m.put(m.number("<I")),
        "\x94": lambda m: m.put(len(m.memo)),
        "g": lambda m: m.get(_integer(m.line())),
        "h": lambda m: m.get(m.number("<B")),
        "j": lambda m: m.get(m.number("<I")),
    }.items()
}
