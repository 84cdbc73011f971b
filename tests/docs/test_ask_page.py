"""The how-to about asking shows what a run printed; what it calls known or missing is so."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import flexkg

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "ask.md").read_text(encoding="utf-8")
ROW = re.compile(r"^ *(\d+)  (.+?)  +(\w+:\w+) +-?[\d.]+ +(known|[\d.]+ %)$", re.MULTILINE)


@pytest.fixture(scope="module")
def script():
    return importlib.import_module("ask_page")


@pytest.fixture(scope="module")
def world() -> flexkg.KnowledgeGraph:
    return flexkg.load("world")


@pytest.fixture(scope="module")
def outputs(script) -> list[str]:
    return [found[3] for found in script.SHOWN.finditer(PAGE)]


def test_known_answers_are_proved_and_the_others_are_not(outputs, world):
    assert len(outputs) == 2
    for output in outputs:
        known = {answer.entity: answer.name for answer in world.answer(output.splitlines()[0])}
        rows = ROW.findall(output)
        assert [int(rank) for rank, *_ in rows] == list(range(1, len(rows) + 1))
        assert rows
        for _, name, entity, mark in rows:
            assert world.dataset.entities.name(world.dataset.leaves.entity(entity)) == name
            assert (known.get(entity) == name) == (mark == "known")
        assert f"{len(known)} known answers, about " in output


def test_missing_links_are_missing_and_the_others_are_facts(outputs, world):
    links = re.findall(r"[├└]── (missing: )?(\w+)\((\w+), (\w+)\)(?:  [\d.]+ %)?$", outputs[1], re.MULTILINE)
    assert {bool(missing) for missing, *_ in links} == {True, False}
    for missing, relation, subject, target in links:
        assert (target in world.answer(f"?x : {relation}({subject}, ?x)")) == (not missing)


def test_the_page_can_be_made_from_any_run(script, small_run):
    made = script.render(PAGE, small_run)
    first, second = (found[3] for found in script.SHOWN.finditer(made))
    assert first.startswith("?x : borders(France, ?x) & speaks(?x, German)\n")
    assert "missing: " in second
    # Everything around the outputs stays.
    assert script.SHOWN.sub(r"\1\4", made) == script.SHOWN.sub(r"\1\4", PAGE)
