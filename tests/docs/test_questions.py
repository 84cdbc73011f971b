"""The page of questions says what the facts prove, and marks of the model's own answers those that they prove."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import flexkg

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script():
    return importlib.import_module("questions_page")


@pytest.fixture(scope="module")
def sections(script) -> dict[str, str]:
    text = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
    head, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    assert head == script._HEAD + "\n"
    return {part.partition("\n")[0]: part for part in parts}


def test_the_page_has_a_dozen_questions_with_every_connective(script, sections):
    assert list(sections) == [question.words for question in script.QUESTIONS]
    assert len(sections) == 12
    asked = " ".join(question.query for question in script.QUESTIONS)
    assert all(sign in asked for sign in ("&", "|", "!", "\\", "^", "->", "<->"))


def test_what_is_proved_is_what_the_engine_proves(script, sections):
    world = flexkg.load("world")
    for question in script.QUESTIONS:
        proved = world.answer(question.query).names()
        part = sections[question.words]
        assert question.query in part
        assert f"**Proved:** {', '.join(proved)}\n" in part
        alone = re.search(r"\*\*FLEX alone:\*\* (.*)\n", part)[1].split(", ")
        assert len(alone) == script.SHOWN
        for answer in alone:
            assert (answer.removesuffix(" ✓") in proved) == answer.endswith(" ✓")


def test_the_page_can_be_made_from_any_run(script, small_run):
    text = script.render(flexkg.open(small_run, "cpu"))
    assert text.startswith(script._HEAD)
    assert text.count("**FLEX alone:**") == 12
