"""What `import flexkg` offers."""

from __future__ import annotations

import sys

import pytest

import flexkg
from flexkg.kg.dataset import Dataset
from flexkg.kg.vocabulary import Vocabulary
from flexkg.query.terms import Entity, Project


@pytest.fixture(scope="module")
def world():
    return flexkg.load("world")


def test_the_interface_example(world):
    answers = world.answer("?x : borders(France, ?x) & !uses(?x, Euro)")
    assert "Switzerland" in answers
    assert "country:CH" in answers
    assert "Germany" not in answers
    assert len(answers) == answers.count == len(list(answers))
    assert answers[0].name == answers.names()[0] == answers.to_dicts()[0]["name"]


def test_answers_come_in_the_order_of_their_names(world):
    names = world.answer("?x : borders(France, ?x)").names()
    assert names == sorted(names, key=str.casefold)


def test_terms_and_nested_lists_are_queries_too(world):
    text = "?x : borders(France, ?x)"
    term = world.parse(text)
    assert isinstance(term, Project)
    assert isinstance(term.operand, Entity)
    nested = [term.operand.id, [term.relation]]
    assert world.answer(term).names() == world.answer(nested).names() == world.answer(text).names()
    assert world.text(term) == text


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ([999_999, [0]], "no entity 999999"),
        ([0, [999]], "no relation 999"),
        (["country:XX", ["+borders"]], "'country:XX'"),
        (5, "cannot be 5"),
    ],
)
def test_nonsense_is_an_error_that_says_so(world, query, message):
    with pytest.raises(flexkg.FlexError, match=message):
        world.answer(query)


def test_nested_lists_may_hold_identifiers(world):
    assert world.answer(["country:PT", ["+borders"]]).names() == ["Spain"]


def test_results_print_well(world):
    answers = world.answer("?x : borders(Portugal, ?x)")
    assert repr(answers) == "1 answer to ?x : borders(Portugal, ?x)\n  Spain  [country:ES]"
    assert "<td>Spain</td>" in answers._repr_html_()
    assert "more" in repr(world.answer("?x : located_in(?x, France)"))
    assert "world" in repr(world)


def test_html_is_escaped():
    names = Vocabulary(["a", "<script>alert(1)</script>"]), Vocabulary(["r<b>"])
    kg = flexkg.KnowledgeGraph(Dataset("nasty", *names, {"train": [[0, 0, 1]]}))
    shown = kg.answer('?x : "r<b>"(a, ?x)')._repr_html_()
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown
    assert "r<b>" not in shown


def test_explanations_are_objects_and_plain_python(world):
    [explanation] = world.answer("?x : borders(Portugal, ?x)").explain()
    assert explanation.answer.name == "Spain"
    assert "borders(Portugal, Spain)" in repr(explanation)
    assert explanation.to_dict()["facts"][0]["head"] == "country:PT"


def test_an_unknown_dataset_says_what_there_is():
    with pytest.raises(flexkg.DataError, match="world"):
        flexkg.load("wrold")


def test_an_unknown_split_says_which_there_are(world):
    with pytest.raises(flexkg.DataError, match="train, valid, test"):
        world.answer("?x : borders(France, ?x)", graph="all")


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_answers_as_a_frame(world, package):
    library = pytest.importorskip(package, reason=f"{package} is not installed")
    frame = getattr(world.answer("?x : borders(Portugal, ?x)"), f"to_{package}")()
    assert isinstance(frame, library.DataFrame)
    assert list(frame.columns) == ["entity", "name"]
    assert list(frame["entity"]) == ["country:ES"]
    assert list(frame["name"]) == ["Spain"]
    nothing = getattr(world.answer("?x : borders(Iceland, ?x)"), f"to_{package}")()
    assert nothing.shape == (0, 2)
    assert dict(zip(nothing.columns, nothing.dtypes, strict=True)) == dict(
        zip(frame.columns, frame.dtypes, strict=True)
    )


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_frame_without_its_package_says_what_to_install(world, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(flexkg.FlexError, match=rf'A {package} frame needs .* pip install "{package}>=[^" ]*"$'):
        getattr(world.answer("?x : borders(Portugal, ?x)"), f"to_{package}")()
