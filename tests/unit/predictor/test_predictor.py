"""Asking a run: one ranking of known and predicted answers that equals brute force, from anywhere and any thread."""

from __future__ import annotations

import dataclasses
import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import flexkg
from flexkg.api import KnowledgeGraph
from flexkg.errors import DataError, FlexError, QueryError, UnsupportedOperator
from flexkg.kg.dataset import Dataset
from flexkg.kg.vocabulary import Vocabulary
from flexkg.models import embed
from flexkg.query.terms import Entity, Not, Project
from flexkg.training.folder import RunFolder

QUERIES = {
    "1p": "?x : borders(France, ?x)",
    "2p": "?x : borders(Portugal, ?y) & borders(?y, ?x)",
    "2i": "?x : borders(France, ?x) & speaks(?x, German)",
    "2in": "?x : borders(France, ?x) & !uses(?x, Euro)",
    "2u": "?x : capital(France, ?x) | capital(Spain, ?x)",
    "minus": "?x : speaks(?x, German) \\ uses(?x, Euro)",
    "xor": "?x : speaks(?x, German) ^ borders(France, ?x)",
    "implies": "?x : borders(France, ?x) -> uses(?x, Euro)",
    "iff": "?x : speaks(?x, French) <-> uses(?x, Euro)",
    "not": "?x : !borders(France, ?x)",
    "nothing": "?x : capital(France, ?x) & borders(Spain, ?x)",
}
EXCLUDED = {
    "2in": "?x : uses(?x, Euro)",
    "minus": "?x : uses(?x, Euro)",
    "xor": "?x : speaks(?x, German) & borders(France, ?x)",
    "not": "?x : borders(France, ?x)",
}
"""What no missing fact can make an answer."""
BEGINNINGS = {
    "1p": ["France"],
    "2i": ["France", "German"],
    "2in": ["France"],
    "minus": ["German"],
    "nothing": ["France", "Spain"],
}
"""Nor does one step lead back to where it began: no relation of `world` has loops."""


@pytest.fixture(scope="module")
def predictor(small_run):
    return flexkg.open(small_run, "cpu")


@pytest.fixture
def copied(small_run, tmp_path):
    shutil.copytree(small_run, tmp_path / "run")
    return tmp_path / "run"


def tiny() -> KnowledgeGraph:
    """A graph without a validation split."""
    words = Vocabulary([f"e{number}" for number in range(12)]), Vocabulary(["r"])
    triples = [(head, 0, (head + step) % 12) for head in range(12) for step in (1, 2)]
    return KnowledgeGraph(Dataset("tiny", *words, {"train": triples}))


SHORT = {
    "model.dim": 4,
    "training.steps": 1,
    "training.batch_size": 4,
    "training.negatives": 2,
    "training.shapes": ["1p"],
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("known", [True, False], ids=["all", "predicted"])
def test_the_ranking_is_that_of_brute_force(predictor, name, known):
    term = predictor.parse(QUERIES[name])
    exact = {answer.id for answer in predictor.kg.answer(term)}
    with torch.no_grad():
        states, prepared = embed(predictor.model, [term])
        scores = predictor.model.score_all(states, prepared.owner, prepared.count)[0].tolist()
    never = {answer.id for answer in predictor.kg.answer(EXCLUDED[name])} if name in EXCLUDED else set()
    names = predictor.run.dataset.names
    never |= {id for text in BEGINNINGS.get(name, ()) for id in names.find_entities(text)}
    ids = [id for id in range(len(scores)) if id not in never and (known or id not in exact)]
    expected = sorted(ids, key=lambda id: (id not in exact, -scores[id], id))[:25]
    found = predictor.ask(QUERIES[name], 25, known=known)
    assert [answer.id for answer in found] == expected
    assert [answer.known for answer in found] == [id in exact for id in expected]
    assert [answer.score for answer in found] == pytest.approx([scores[id] for id in expected], abs=1e-5)
    assert [answer.rank for answer in found] == list(range(1, len(expected) + 1))
    assert found.known_count == len(exact)
    entities = predictor.run.dataset.entities
    assert [(a.entity, a.name) for a in found] == [(entities.identifier(id), entities.name(id)) for id in expected]


def test_nothing_borders_itself(predictor):
    """Nor does a reason rest on it."""
    found = predictor.ask("?x : capital(?y, ?x) & borders(France, ?y)", 20, known=False).explain()
    links = [link["text"] for reason in found.reasons for link in reason.missing]
    assert links
    assert "borders(France, France)" not in links
    judged = predictor.ask(QUERIES["1p"], 4381)
    assert "France" not in judged.names()


def test_a_batch_gives_what_single_questions_give(predictor):
    together = predictor.ask_many(list(QUERIES.values()), 10)
    for query, found in zip(QUERIES.values(), together, strict=True):
        alone = predictor.ask(query, 10)
        assert [answer.id for answer in found] == [answer.id for answer in alone]
        assert [answer.score for answer in found] == pytest.approx([answer.score for answer in alone], abs=1e-4)
        assert found.estimate == pytest.approx(alone.estimate, rel=1e-3)
    assert predictor.ask_many([]) == []


def test_threads_get_the_same_answers(predictor):
    queries = list(QUERIES.values()) * 3
    serial = [predictor.ask(query).to_dict() for query in queries]
    fresh = flexkg.open(predictor.run.path, "cpu")
    with ThreadPoolExecutor(6) as pool:
        assert [found.to_dict() for found in pool.map(fresh.ask, queries)] == serial


def test_text_lists_and_terms_are_one_question(predictor):
    term = predictor.parse(QUERIES["2p"])
    dataset = predictor.run.dataset
    portugal, borders = dataset.entities.get("country:PT"), dataset.relations.get("borders")
    by_ids = predictor.ask([portugal, [2 * borders, 2 * borders]])
    by_names = predictor.ask(["country:PT", ["+borders", "+borders"]])
    assert predictor.ask(term).to_dict() == by_ids.to_dict() == by_names.to_dict()


def test_a_run_opens_where_its_data_and_workload_are_not(predictor, small_run, tmp_path, monkeypatch):
    shutil.copytree(small_run, tmp_path / "elsewhere")
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("FLEXKG_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    moved = flexkg.open("elsewhere", "cpu")
    assert moved.ask(QUERIES["2i"]).to_dict() == predictor.ask(QUERIES["2i"]).to_dict()


def test_kept_candidates_change_no_score(small_run):
    plain, kept, refused = (RunFolder.open(small_run).model() for _ in range(3))
    kept.keep_candidates()
    refused.keep_candidates(budget=0)
    state = plain.entity(torch.arange(5))
    with torch.no_grad():
        for candidates in (None, torch.tensor([3, 1]), torch.tensor([[3, 1]] * 5), slice(2, 9)):
            expected = plain.score(state, candidates)
            torch.testing.assert_close(kept.score(state, candidates), expected)
            torch.testing.assert_close(refused.score(state, candidates), expected)


def test_probabilities_are_certain_for_facts_and_rise_with_the_score(predictor):
    for name, calibration in {"1p": "kind", "2i": "kind", "2u": "kind", "minus": "pooled"}.items():
        found = predictor.ask(QUERIES[name], 200)
        assert found.calibration == calibration
        assert all(answer.probability == 1.0 for answer in found if answer.known)
        chances = [answer.probability for answer in found if not answer.known]
        assert chances == sorted(chances, reverse=True)
        assert all(0 < chance < 1 for chance in chances)
    assert "from other kinds of query" in predictor.ask(QUERIES["minus"]).summary()


def test_the_order_of_operands_makes_no_other_kind(predictor):
    forwards = predictor.ask("?x : borders(France, ?x) & !uses(?x, Euro)")
    backwards = predictor.ask("?x : !uses(?x, Euro) & borders(France, ?x)")
    assert (forwards.kind, backwards.kind) == ("2in", "2in")
    assert backwards.calibration == "kind"


def test_the_estimate_adds_up_probabilities(predictor):
    found = predictor.ask(QUERIES["1p"], 4381)
    assert len(found) == 4380  # all but France itself
    assert found.estimate == pytest.approx(sum(answer.probability for answer in found))
    assert found.estimate > found.known_count == 8


def test_least_probabilities_cut_the_list(predictor):
    whole = predictor.ask(QUERIES["1p"], 50)
    least = whole[20].probability
    cut = predictor.ask(QUERIES["1p"], 50, min_probability=least)
    assert [answer.id for answer in cut] == [answer.id for answer in whole if answer.probability >= least]
    assert cut.known_count == whole.known_count
    assert predictor.ask(QUERIES["1p"], 50, min_probability=1.0).names() == [a.name for a in whole if a.known]


def test_without_a_calibration_there_are_no_probabilities(copied):
    (copied / "calibration.json").unlink()
    predictor = flexkg.open(copied, "cpu")
    found = predictor.ask(QUERIES["1p"], 12)
    assert [answer.probability for answer in found] == [1.0] * 8 + [None] * 4
    assert found.estimate is None
    assert found.calibration is None
    assert "predicted" in repr(found)
    with pytest.raises(FlexError, match="no probabilities"):
        predictor.ask(QUERIES["1p"], min_probability=0.5)


def test_without_a_validation_split_nothing_is_calibrated(tmp_path):
    predictor = flexkg.train(tiny(), "flex-small", tmp_path / "run", settings=SHORT, device="cpu")
    assert not (tmp_path / "run" / "calibration.json").exists()
    assert predictor.calibration is None
    found = predictor.ask([3, [0]], 12)
    assert [answer.id for answer in found if answer.known] == sorted(
        [4, 5], key=lambda id: -next(a.score for a in found if a.id == id)
    )
    assert {answer.probability for answer in found if not answer.known} == {None}


def test_a_complement_is_counted_not_listed(predictor):
    found = predictor.ask("?x : !borders(France, ?x)", 5)
    assert found.known_count == 4381 - 8
    assert all(answer.known for answer in found)
    assert len(found) == 5


def test_a_run_without_an_operator_says_who_has_it(tmp_path):
    predictor = flexkg.train(tiny(), "gqe", tmp_path / "run", settings=SHORT, device="cpu")
    with pytest.raises(UnsupportedOperator, match=r"gqe cannot express negation.*betae.*flexkg answer"):
        predictor.ask(Not(Project(0, Entity(1))))


def test_what_the_model_cannot_say_points_to_the_exact_engine(predictor):
    with pytest.raises(UnsupportedOperator, match=r"nothing anchors.*flexkg answer"):
        predictor.ask("?x : borders(?y, ?x)")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("?x : borders(Frnace, ?x)", "no entity 'Frnace'"),
        (Entity(99_999), "no entity 99999"),
        (Project(16, Entity(0)), "no relation 16"),
        (3, "cannot be 3"),
    ],
    ids=["name", "entity", "relation", "number"],
)
def test_mistakes_in_questions(predictor, query, message):
    with pytest.raises(QueryError, match=message):
        predictor.ask(query)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"top": -1}, "top is -1"), ({"top": 10**9}, "0 to 10,000"), ({"min_probability": 1.5}, "0 to 1")],
    ids=["negative", "huge", "probability"],
)
def test_mistakes_in_arguments(predictor, arguments, message):
    with pytest.raises(FlexError, match=message):
        predictor.ask(QUERIES["1p"], **arguments)


def test_answers_print_and_convert(predictor):
    found = predictor.ask(QUERIES["1p"], 9)
    assert len(found) == 9
    assert "Italy" in found
    assert "country:IT" in found
    assert "Atlantis" not in found
    text = repr(found)
    assert text.splitlines()[0] == QUERIES["1p"]
    assert text.count("known ") == 8 + 1
    assert text.splitlines()[-1] == found.summary()
    assert found[0] == next(iter(found))
    assert [answer.rank for answer in found[2:4]] == [3, 4]
    assert list(found.to_dicts()[0]) == ["rank", "entity", "name", "score", "probability", "known"]
    assert json.loads(json.dumps(found.to_dict()))["query"] == QUERIES["1p"]
    html = found._repr_html_()
    assert html.count("<tr>") == 10
    assert "<td>Italy</td>" in html
    assert "Predictor flex on world" in repr(predictor)


def test_names_are_escaped_in_notebooks(tmp_path):
    words = Vocabulary([f"<b>{number}</b>" for number in range(4)]), Vocabulary(["r"])
    kg = KnowledgeGraph(Dataset("odd", *words, {"train": [(0, 0, 1), (1, 0, 2), (2, 0, 3)]}))
    found = flexkg.train(kg, "flex-small", tmp_path / "run", settings=SHORT, device="cpu").ask([0, [0]])
    assert "<b>" not in found._repr_html_()
    assert "<b>0" not in found.explain()._repr_html_()


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_frames(predictor, package):
    library = pytest.importorskip(package, reason=f"{package} is not installed")

    def framed(found):
        frame = getattr(found, f"to_{package}")()
        assert isinstance(frame, library.DataFrame)
        return frame

    found = predictor.ask(QUERIES["1p"], 12)
    assert {answer.known for answer in found} == {True, False}
    frame = framed(found)
    assert list(frame.columns) == ["rank", "entity", "name", "score", "probability", "known"]
    for column in frame.columns:
        assert list(frame[column]) == [row[column] for row in found.to_dicts()]
    # Neither without rows nor without probabilities do the columns change their types.
    bare = dataclasses.replace(
        found, answers=tuple(dataclasses.replace(answer, probability=None) for answer in found.answers)
    )
    types = [str(kind) for kind in frame.dtypes]
    assert types[3:] == (["float64", "float64", "bool"] if package == "pandas" else ["Float64", "Float64", "Boolean"])
    for other, rows in ((predictor.ask(QUERIES["1p"], 0), 0), (bare, 12)):
        made = framed(other)
        assert made.shape == (rows, 6)
        assert [str(kind) for kind in made.dtypes] == types
    empty = framed(bare)["probability"]
    assert int(empty.isna().sum() if package == "pandas" else empty.null_count()) == 12


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("model.safetensors", None, "damaged"),
        ("calibration.json", b"{", "not valid JSON"),
        ("calibration.json", b"{}", "no calibration that this flexkg reads"),
        ("calibration.json", b'{"format": "flexkg-calibration", "version": 1}', "damaged"),
        ("run.json", b'{"format": "other"}', "not a run's"),
    ],
    ids=["weights", "broken", "foreign", "incomplete", "manifest"],
)
def test_damaged_files_are_named(copied, file, content, message):
    path = copied / file
    path.write_bytes(path.read_bytes()[:-100] if content is None else content)
    with pytest.raises(DataError, match=message) as caught:
        flexkg.open(copied, "cpu")
    assert file in str(caught.value)


def test_a_curve_that_falls_is_not_believed(copied):
    path = copied / "calibration.json"
    content = json.loads(path.read_text())
    content["kinds"]["1p"]["slope"] = -1.0
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match="does not rise"):
        flexkg.open(copied, "cpu")


def test_weights_that_are_no_numbers_give_no_answers(copied):
    weights = load_file(copied / "model.safetensors")
    save_file({name: torch.full_like(value, np.nan) for name, value in weights.items()}, copied / "model.safetensors")
    with pytest.raises(DataError, match="not numbers"):
        flexkg.open(copied, "cpu").ask(QUERIES["1p"])


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(DataError, match="is not a run"):
        flexkg.open(tmp_path)
