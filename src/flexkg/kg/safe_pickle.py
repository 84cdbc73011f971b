"""Reads plain values out of pickles without unpickling them: nothing that a pickle names is imported or called.

The benchmarks are published as pickles. A pickle is a program; this module interprets the few instructions that build
numbers, text, tuples, lists, sets and dictionaries, and refuses every other one by name. It also refuses what those few
can do to hurt: values nested too deeply (hashing them overflows the stack) and small files that stand for huge values
(a tuple of two references to a tuple of two references to...).

The published pickles of queries hold millions of tuples and tens of millions of answers. The instructions that make
these are written out in `Machine.run`, and with `arrays` sets of whole numbers are read by the run.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any, Final

from flexkg.errors import LimitError
from flexkg.kg.pickle_machine import NOT_READ, Limits, Machine, integer, pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

__all__ = ["SETS_AND_DEFAULTDICTS", "Limits", "loads"]

# What a set or a defaultdict looks like in a pickle. Pass it as `allow` where the file may hold them.
SETS_AND_DEFAULTDICTS: Final = frozenset(
    {"builtins.set", "__builtin__.set", "builtins.frozenset", "__builtin__.frozenset", "collections.defaultdict"}
)


def loads(
    data: bytes,
    what: str = "The pickle",
    *,
    limits: Limits | None = None,
    allow: Collection[str] = (),
    arrays: bool = False,
) -> Any:
    """The plain value that a pickle describes.

    allow: names out of `SETS_AND_DEFAULTDICTS` that the pickle may use; a defaultdict becomes a dict. arrays: sets and
    lists of whole numbers become `array("i")`, in their order in the file, a tenth of the size of sets; the numbers of
    a set are not checked for repeats.
    """
    limits = limits or Limits()
    if unknown := set(allow) - SETS_AND_DEFAULTDICTS:
        raise ValueError(f"cannot build {sorted(unknown)}")
    if len(data) > limits.bytes:
        raise LimitError(f"{what} has {len(data):,} bytes; the limit is {limits.bytes:,}.", hint=NOT_READ)
    machine = Machine(data, what, limits, frozenset(allow), _ACTIONS | _ARRAY_ACTIONS if arrays else _ACTIONS)
    # Nothing that a pickle may make here can hold itself, and looking for such among millions takes most of the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return machine.run()
    finally:
        if collecting:
            gc.enable()


def _long(machine: Machine, size: int) -> int:
    if size > 9:
        raise ValueError
    return int.from_bytes(machine.take(size), "little", signed=True)


def _text(size: str) -> Callable[[Machine], None]:
    return lambda m: m.push(m.take(m.number(size)).decode("utf-8", "surrogatepass"))


_ACTIONS: Final[dict[int, Callable[[Machine], None]]] = {
    ord(code): action
    for code, action in {
        "\x80": Machine.protocol,
        "\x95": Machine.frame,
        "(": lambda m: m.marks.append(len(m.values)),
        "0": lambda m: (m.pop(), None)[1],
        "1": Machine.pop_mark,
        "N": lambda m: m.push(None),
        "\x88": lambda m: m.push(True),
        "\x89": lambda m: m.push(False),
        "I": Machine.integer_line,
        "L": lambda m: m.push(integer(m.line())),
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
        "d": lambda m: m.filled(pairs, *m.items()),
        "\x8f": lambda m: m.filled(set, [], []),
        "\x91": lambda m: m.filled(frozenset, *m.items()),
        "a": lambda m: (lambda part: m.extend([part[0]], [part[1]]))(m.pop()),
        "e": lambda m: m.extend(*m.items()),
        "\x90": lambda m: m.unite(*m.items()),
        "s": lambda m: (lambda value, key: m.assign([key[0], value[0]], [key[1], value[1]]))(m.pop(), m.pop()),
        "u": lambda m: m.assign(*m.items()),
        "c": lambda m: m.named(f"{m.line().decode('utf-8')}.{m.line().decode('utf-8')}"),
        "\x93": Machine.stack_global,
        "R": Machine.reduce,
        "p": lambda m: m.put(integer(m.line())),
        "q": lambda m: m.put(m.number("<B")),
        "r": lambda m: m.put(m.number("<I")),
        "\x94": lambda m: m.put(len(m.memo)),
        "g": lambda m: m.get(integer(m.line())),
        "h": lambda m: m.get(m.number("<B")),
        "j": lambda m: m.get(m.number("<I")),
    }.items()
}
_ARRAY_ACTIONS: Final[dict[int, Callable[[Machine], None]]] = {
    ord("]"): lambda m: m.run_of(list),
    ord("\x8f"): lambda m: m.run_of(set),
}
