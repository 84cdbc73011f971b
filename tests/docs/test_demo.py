"""`make demo` and the picture in the README show what is true."""

from __future__ import annotations

import importlib
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

import flexkg
from flexkg.query.terms import And, Iff, Implies, Minus, Not, Or, Project, Term, Xor, operands
from flexkg.sampling.make import Order, make_workload

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def kinds(term: Term) -> set[type]:
    return {type(term)}.union(*map(kinds, operands(term)))


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    return importlib.import_module("demo")


@pytest.fixture(scope="module")
def world() -> flexkg.KnowledgeGraph:
    return flexkg.load("world")


def test_the_demo_answers_with_every_connective(demo, world, capsys: pytest.CaptureFixture[str]) -> None:
    demo.show_exact(Console(width=100, highlight=False), world)
    printed = capsys.readouterr().out
    for answers in ("Tokyo", "Madrid", "Belgium, Luxembourg, Switzerland", "Finland, Norway", "Austria, Switzerland"):
        assert f"         {answers}\n" in printed
    assert "not known: uses(Switzerland, Euro)" in printed
    used = set().union(*(kinds(world.parse(question.query)) for question in demo.QUESTIONS))
    assert {Project, And, Or, Not, Minus, Xor, Implies, Iff} <= used
    assert any("exists" in question.query for question in demo.QUESTIONS)
    # A question without an answer would be a poor show.
    assert all(world.answer(question.query).count for question in (*demo.QUESTIONS, *demo.OPEN))


def test_the_demo_trains_measures_and_predicts(demo, world, tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    """All that it does after the exact answers, with a model too small to be any good."""
    console, out = Console(width=100, highlight=False), tmp_path / "run"
    settings = {
        "model.dim": 8, "model.hidden": 16, "training.steps": 20, "training.batch_size": 32, "training.negatives": 8,
        "training.shapes": ["1p", "2i"],
    }  # fmt: skip
    workload = tmp_path / "workload"
    make_workload(world.dataset, workload, Order(splits=("train", "valid"), shapes=("1p", "2i"), count=60))
    train = partial(demo.trained, console, world, out, settings=settings, workload=workload)
    run = train()
    assert "20 steps" in capsys.readouterr().out
    tests = demo.build_tests(world, tmp_path / "tests", ("1p", "2i", "2u"))
    model, baseline = demo.measure(run, world, tests)
    assert list(model) == list(baseline) == ["1p", "2i", "2u"]
    assert 0.01 < baseline["1p"] < 0.1
    assert 0.005 < baseline["2u"] < baseline["1p"]
    demo.show_held_out(console, run, tests)
    for question in demo.OPEN:
        demo.show_predictions(console, run, question)
    printed = capsys.readouterr().out
    found, asked = (int(count) for count in re.search(r"(\d+) of ([\d,]+) answers", printed).groups())  # type: ignore[union-attr]
    assert 0 <= found < asked
    assert "known: Ethiopia, South Sudan" in printed
    assert printed.count("guessed beyond that: ") == len(demo.OPEN)
    # A finished run is used as it is, unless told otherwise.
    before = (out / "run.json").stat().st_mtime_ns
    train()
    assert "holds a finished run" in capsys.readouterr().out
    assert (out / "run.json").stat().st_mtime_ns == before
    train(again=True)
    assert (out / "run.json").stat().st_mtime_ns > before


def test_the_demo_fails_unless_the_model_beats_the_baseline(demo, capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(width=100, highlight=False)
    assert demo.show_verdict(console, {"1p": 0.2, "2p": 0.1}, {"1p": 0.1, "2p": 0.15}) == 0
    assert "15.0" in capsys.readouterr().out
    assert demo.show_verdict(console, {"1p": 0.1, "2p": 0.1}, {"1p": 0.1, "2p": 0.1}) == 1
    assert "not better" in capsys.readouterr().out


def test_the_picture_shows_the_right_counts() -> None:
    picture = (ROOT / "docs" / "img" / "question.svg").read_text(encoding="utf-8")
    world = flexkg.load("world")
    shown = [int(count) for count in re.findall(r">(?:all but )?(\d+)(?: countries)?</text>", picture)]
    neighbours, speakers, users = (
        world.answer(f"?x : {atom}").count for atom in ("borders(France, ?x)", "speaks(?x, German)", "uses(?x, Euro)")
    )
    assert shown == [neighbours, speakers, users, users]
