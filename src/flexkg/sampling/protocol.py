"""What a workload is made of: shapes, counts and caps, as published for the benchmarks, scaled for other graphs."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flexkg.errors import DataError, FlexError
from flexkg.kg.storage import os_errors
from flexkg.query.parser import parse
from flexkg.query.shapes import SHAPES, split
from flexkg.query.terms import Iff, Implies, Minus, Not, Term, Xor, operands

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TRAIN_SHAPES = ("1p", "2p", "3p", "2i", "3i", "2in", "3in", "inp", "pin", "pni")
"""ip, pi, 2u and up are never trained in the benchmarks, only evaluated."""


AS_WRITTEN = "betae-as-written"
PROTOCOLS = ("betae", AS_WRITTEN)
"""Rules of BetaE's benchmarks. As written, operands in another order make another query, as for their own sampler."""


@dataclass(frozen=True)
class Protocol:
    """Counts and caps of a benchmark."""

    cap: int
    """Most answers that the larger graph may add, and most that it may take away."""
    evaluated: int | None
    """Queries of each shape but 1p in valid and in test; None scales with the graph."""


PUBLISHED = {
    "fb15k": Protocol(cap=100, evaluated=8000),
    "fb15k-237": Protocol(cap=120, evaluated=5000),
    "nell995": Protocol(cap=80, evaluated=4000),
}
DEFAULT = Protocol(cap=100, evaluated=None)


def count_for(protocol: Protocol, split: str, template: Term, pairs: int) -> int:
    """How many queries of a shape a split gets by default.

    `pairs` is the number of training 1p queries: the benchmarks have as many of each positive training shape, a
    tenth of that for shapes with negation and for those that are not trained by default, and about a thirtieth in
    valid and test.
    """
    if split != "train":
        return protocol.evaluated or min(5000, max(100, pairs // 30))
    return pairs if usually_trained(template) and not loses_answers(template) else pairs // 10


def usually_trained(template: Term) -> bool:
    """Whether the benchmarks train this shape; what is trained beyond them keeps clear of the evaluated queries."""
    return any(template == SHAPES[name] for name in TRAIN_SHAPES)


def loses_answers(template: Term) -> bool:
    """Whether a larger graph can take answers away: whether there is a negation of any kind."""
    return isinstance(template, Not | Minus | Xor | Implies | Iff) or any(map(loses_answers, operands(template)))


class _Holes:
    """Any name stands for a hole."""

    def find_entities(self, text: str) -> Sequence[int]:  # noqa: ARG002
        return [0]

    find_relations = find_entities

    def suggest_entities(self, text: str) -> Sequence[str]:  # noqa: ARG002
        return []

    suggest_relations = suggest_entities

    def entity_text(self, id: int) -> str:
        return f"e{id}"

    def relation_text(self, id: int) -> str:
        return f"r{id}"

    describe_entity = entity_text
    describe_relation = relation_text


def read_template(text: str) -> Term:
    """The template of a query text in which every name is a hole, such as `?x : r(a, ?x) ^ s(b, ?x)`."""
    return split(parse(text, _Holes()))[0]


def read_templates(path: Path) -> dict[str, Term]:
    """Templates from a TOML file of lines `name = "query text"`."""
    with os_errors(path, "read"):
        data = path.read_bytes()
    try:
        entries = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} is not TOML: {error}.", hint='Write lines such as xor = "?x : r(a, ?x) ^ s(b, ?x)".'
        ) from None
    templates = {}
    for name, text in entries.items():
        if not isinstance(text, str):
            raise DataError(f"{path}: {name} is not a query text.", hint='Write name = "?x : r(a, ?x)".')
        if name in SHAPES or not name.replace("-", "").replace("_", "").isalnum():
            raise DataError(
                f"{path}: {name!r} cannot name a template.",
                hint="Use letters, digits, - and _, and no name of a known shape.",
            )
        try:
            templates[name] = read_template(text)
        except FlexError as error:
            raise DataError(f"{path}: {name}: {error}") from None
    return templates
