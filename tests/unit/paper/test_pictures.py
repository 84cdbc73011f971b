"""The plots of the page of results: what is drawn, and nothing outside of them."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from flexkg.paper.cells import EPFO, NEGATION
from flexkg.paper.pace import Pace, keep_paces
from flexkg.paper.page import results_page
from flexkg.paper.pictures import draw_models, draw_runs, draw_validations
from flexkg.paper.workloads import write_registry
from unit.paper.recorded import BOOK, REGISTRY, jobs, marks, record


def test_validations_are_drawn_where_they_are_recorded(tmp_path):
    write_registry(tmp_path, REGISTRY)
    shapes = dict.fromkeys((*EPFO, *NEGATION), 0.25)
    for seed in (1, 10):
        steps = [{"step": 100 * (at + 1), "mrr": 0.25, "shapes": shapes} for at in range(10)]
        record(tmp_path, BOOK.job("FLEX", "nell995", seed=seed), 0.25, validations=tuple(steps))
    half = [each | {"step": 2 * each["step"]} for each in steps[:3]]
    record(tmp_path, BOOK.job("ConE", "nell995", seed=1), 0.25, validations=tuple(half), steps=2000)
    record(tmp_path, BOOK.job("GQE", "nell995", seed=1), 0.25)  # older: nothing of it is known
    text, images = results_page(tmp_path)
    assert "![nell995: validation MRR while training](img/results-nell995-validations.svg)" in text
    drawing = images["results-nell995-validations.svg"]
    assert drawing.count("FLEX, seed 10: 25.00 at ") == 2 * 10
    assert drawing.count("ConE, seed 1: 25.00 at ") == 2 * 3
    assert drawing.count("<circle") == 2 * (10 + 10 + 3) + 2  # and two names
    assert "GQE" not in drawing
    assert drawing.count("ConE, seed 1: 25.00 at 30<") == 2  # 600 of 2,000 steps
    assert {f">{part}<" in drawing for part in range(20, 101, 20)} == {True}
    assert ">90<" not in drawing  # no room


def test_models_of_one_recipe_are_told_apart_by_their_labels(tmp_path):
    long = {"recipe": "flex", "label": "long"}
    book = replace(BOOK, models={**BOOK.models, "FLEX-long": long})
    curve = ({"step": 1000, "mrr": 0.2, "shapes": dict.fromkeys((*EPFO, *NEGATION), 0.2)},)
    plain, longer = (book.job(name, "nell995", seed=1) for name in ("FLEX", "FLEX-long"))
    swept = [book.job(name, "nell995", seed=1, label="d200") for name in ("FLEX", "FLEX-long")]
    found = [record(tmp_path, job, 0.2, validations=curve) for job in (plain, longer, *swept)]
    drawing = draw_runs(found, "nell995", book, {}, ())
    for title in ("FLEX", "FLEX-long", "FLEX d200", "FLEX-long d200"):
        assert drawing.count(f"{title}, seed 1: 20.0 after") == 2, title
    curves = draw_validations(found, "nell995", book)
    assert curves.count("FLEX, seed 1: 20.00 at ") == curves.count("FLEX-long, seed 1: 20.00 at ") == 2
    assert "d200" not in curves  # a sweep's trainings are not compared


def test_minutes_are_those_alone_where_they_were_measured(tmp_path):
    write_registry(tmp_path, REGISTRY)
    keep_paces(
        tmp_path,
        [
            Pace("nell995/flex-seed1", 60.0, "a GPU", "2026-11-16"),
            Pace("nell995/cone-seed1", 60.0, "another", "2026-11-16"),
            Pace("nell995/betae-seed1", 60.0, "a GPU", "2026-11-16"),
        ],
    )
    record(tmp_path, BOOK.job("FLEX", "nell995", seed=10), 0.25, shared_device=True)
    record(tmp_path, BOOK.job("ConE", "nell995", seed=1), 0.25, shared_device=True)
    now = BOOK.job("BetaE", "nell995", seed=1)
    record(tmp_path, replace(now, overrides=(*now.overrides, "training.steps=7")), 0.25, shared_device=True)
    text, images = results_page(tmp_path)
    drawing = images["results-nell995-minutes.svg"]
    assert "FLEX, seed 10: 25.0 after 1.0 minutes on a GPU" in drawing  # 1,000 steps
    assert "ConE, seed 1: 25.0 after 10.0 minutes on a GPU" in drawing  # measured elsewhere
    assert "BetaE, seed 1: 25.0 after 10.0 minutes on a GPU" in drawing  # with other settings
    assert marks(drawing, "circle", "white") == 4  # these two, in two panels
    assert "| nell995 | 57.8 / **25.0** | 28.2 / **25.0** | 6.7 / **25.0** | 10 | 10.0 † | 1.0 | a GPU |" in text


@pytest.mark.parametrize("name", ["results-nell995.svg", "results-nell995-models.svg", "results-nell995-minutes.svg"])
def test_nothing_is_drawn_outside_of_a_plot(tmp_path, name):
    write_registry(tmp_path, REGISTRY)
    for number, job in enumerate(jobs("main", "nell995")):
        record(tmp_path, job, 0.15 * (number + 1), seconds={"train": 7.0 * 10**number, "evaluate": 1.0, "whole": 1e6})
    drawing = ElementTree.fromstring(results_page(tmp_path)[1][name])
    _, _, width, height = map(float, drawing.get("viewBox").split())
    for part in drawing.iter():
        for key, most in (("x", width), ("cx", width), ("y", height), ("cy", height)):
            assert 0 <= float(part.get(key, 0)) <= most, ElementTree.tostring(part)


def test_models_stand_line_by_line_with_the_papers_value_the_best_first(tmp_path):
    flex = [record(tmp_path, BOOK.job("FLEX", "nell995", seed=seed), 0.25 + seed / 1000) for seed in (1, 10)]
    assert draw_models(flex, "nell995", BOOK, ()) is None  # one model is no comparison
    others = [record(tmp_path, BOOK.job(name, "nell995"), mrr) for name, mrr in (("GQE", 0.1), ("ConE", 0.3))]
    others.append(record(tmp_path, BOOK.job("FLEX", "nell995", label="d200", overrides=("model.dim=200",)), 0.4))
    others.append(record(tmp_path, BOOK.job("TransE", "nell995"), 0.5))  # one-hop queries alone
    drawing = draw_models([*flex, *others], "nell995", BOOK, {"nell995/cone-seed1"})
    labels = [part for part in ElementTree.fromstring(drawing).iter() if part.get("text-anchor") == "end"]
    assert [part.text for part in labels] == ["ConE~", "FLEX", "GQE"]
    heights = [float(part.get("y")) for part in labels]
    assert heights == sorted(heights)
    assert "FLEX, seed 10: 26.0 (25.0 to 27.0)" in drawing
    assert "FLEX, the paper: 28.3" in drawing  # the mean of its row; printed 28.2
    assert marks(drawing, "circle", "#1d4ed8") == 2 * 3 + 1  # GQE has no negation
    assert marks(drawing, "rect", "#9ca3af") == 1 + 3 + 2  # after the legend's


def test_minutes_on_another_device_are_not_drawn_beside_these(tmp_path):
    found = [record(tmp_path, job, 0.25) for job in jobs("main-epfo", "nell995")]
    slower = record(tmp_path, replace(BOOK.job("FLEX", "nell995"), label="slow"), 0.1, device="cpu")
    assert draw_runs([*found, slower], "nell995", BOOK, {}, ()) == draw_runs(found, "nell995", BOOK, {}, ())


def test_a_model_has_one_colour_in_all_plots_of_a_graph(tmp_path):
    curve = ({"step": 1000, "mrr": 0.2, "shapes": dict.fromkeys((*EPFO, *NEGATION), 0.2)},)
    older = record(tmp_path, BOOK.job("FLEX", "nell995"), 0.2)  # its validations are not known
    found = [older, record(tmp_path, BOOK.job("ConE", "nell995"), 0.25, validations=curve)]
    drawings = draw_runs(found, "nell995", BOOK, {}, ()), draw_validations(found, "nell995", BOOK)
    assert [marks(drawing, "circle", "#c2410c") for drawing in drawings] == [3, 3]
    assert [marks(drawing, "circle", "#1d4ed8") for drawing in drawings] == [3, 0]


def test_minutes_of_a_sweep_are_drawn_where_they_compare(tmp_path):
    write_registry(tmp_path, REGISTRY)
    [first, second, third, *_] = jobs("dimensions")
    for job in (first, second):
        record(tmp_path, job, 0.2, shared_device=True)
    record(tmp_path, third, 0.2)
    text, images = results_page(tmp_path)
    assert "![FLEX by dimension: MRR](img/results-dimensions.svg)" in text
    assert "Minutes are not drawn: too few of them compare." in text
    assert "minutes" not in images["results-dimensions.svg"]
    keep_paces(tmp_path, [Pace(second.name, 60.0, "a GPU", "2026-11-18")])
    text, images = results_page(tmp_path)
    assert "![FLEX by dimension: MRR and minutes](img/results-dimensions.svg)" in text
    drawn = [f"minutes: {value} at {row}<" for value, row in (("1.00", 400), ("10.00", 600))]
    assert [part in images["results-dimensions.svg"] for part in drawn] == [True, True]
    assert images["results-dimensions.svg"].count("minutes: ") == 2
