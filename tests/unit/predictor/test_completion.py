"""What may come next in an unfinished query."""

from __future__ import annotations

import pytest

import flexkg
from flexkg.predictor.completion import complete


@pytest.fixture(scope="module")
def world():
    return flexkg.load("world").dataset


@pytest.mark.parametrize(
    ("text", "expected", "start"),
    [
        ("?x : bor", "borders", 5),
        ("?x : !us", "uses", 6),
        ("?x : (cap", "capital", 6),
        ("?x : borders(France, ?x) & sp", "speaks", 27),
        ("?x : borders(Fran", "France", 13),
        ("?x : borders(fran", "France", 13),
        ("?x : borders(France, Spa", "Spain", 21),
        ('?x : borders("United Sta', '"United States"', 13),
        ("?x : (speaks(?x, Germ", "German", 17),
        ("?x : !(borders(France, ?x) | us", "uses", 29),
    ],
)
def test_names_are_completed(world, text, expected, start):
    found = complete(world, text)
    assert expected in [completion.text for completion in found]
    assert {completion.start for completion in found} == {start}
    assert {completion.kind for completion in found} == {"relation" if expected.islower() else "entity"}


@pytest.mark.parametrize(
    "text", ["", "?", "?x", "?x : borders(?", "?x : borders(France, ?x", "?x : zzzz", "?x : a and"]
)
def test_nothing_is_made_up(world, text):
    assert complete(world, text) == []


def test_a_completion_replaces_what_was_typed_and_can_be_read(world):
    kg = flexkg.load("world")
    text = '?x : borders("United Sta'
    found = next(completion for completion in complete(world, text) if completion.text == '"United States"')
    assert kg.answer(text[: found.start] + found.text + ", ?x)").names() == ["Canada", "Mexico"]
    assert len(complete(world, "?x : borders(S", limit=3)) == 3
