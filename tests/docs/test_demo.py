"""`make demo` and the picture in the README show what is true."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

import flexkg
from flexkg.query.terms import And, Iff, Implies, Minus, Not, Or, Project, Term, Xor, operands

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[2]


def kinds(term: Term) -> set[type]:
    return {type(term)}.union(*map(kinds, operands(term)))


def test_the_demo_answers_with_every_connective(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    spec = importlib.util.spec_from_file_location("demo", ROOT / "scripts" / "demo.py")
    assert spec is not None
    assert spec.loader is not None
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    demo.main()
    printed = capsys.readouterr().out
    for answers in ("Tokyo", "Madrid", "Belgium, Luxembourg, Switzerland", "Finland, Norway", "Austria, Switzerland"):
        assert f"         {answers}\n" in printed
    assert "not known: uses(Switzerland, Euro)" in printed
    assert "does not exist yet" in printed
    world = flexkg.load("world")
    used = set().union(*(kinds(world.parse(question.query)) for question in demo.QUESTIONS))
    assert {Project, And, Or, Not, Minus, Xor, Implies, Iff} <= used
    assert any("exists" in question.query for question in demo.QUESTIONS)
    # A question without an answer would be a poor show.
    assert all(world.answer(question.query).count for question in demo.QUESTIONS)


def test_the_picture_shows_the_right_counts() -> None:
    picture = (ROOT / "docs" / "img" / "question.svg").read_text(encoding="utf-8")
    world = flexkg.load("world")
    shown = [int(count) for count in re.findall(r">(?:all but )?(\d+)(?: countries)?</text>", picture)]
    neighbours, speakers, users = (
        world.answer(f"?x : {atom}").count for atom in ("borders(France, ?x)", "speaks(?x, German)", "uses(?x, Euro)")
    )
    assert shown == [neighbours, speakers, users, users]
