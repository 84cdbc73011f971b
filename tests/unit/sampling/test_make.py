"""Whole workloads: what is in them, and what happens when a graph cannot give it."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from flexkg.cli.main import run
from flexkg.errors import DataError, FlexError
from flexkg.kg import catalog
from flexkg.query.shapes import SHAPES, key_of
from flexkg.sampling.make import Order, make_workload, split_words
from flexkg.sampling.protocol import PUBLISHED, TRAIN_SHAPES, count_for, loses_answers, read_template, read_templates
from flexkg.sampling.sampler import fingerprint
from flexkg.sampling.workload import Workload


@pytest.fixture(scope="module")
def world():
    return catalog.resolve("world")


@pytest.fixture(scope="module")
def built(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("workload") / "world"
    return make_workload(world, folder, Order(count=40, seed=5)), Workload.load(folder)


def test_the_benchmarks_shapes_are_there(built):
    _, workload = built
    assert set(workload.shapes("train")) == set(TRAIN_SHAPES)
    assert set(workload.shapes("valid")) == set(workload.shapes("test")) == set(SHAPES)


def test_evaluated_queries_carry_their_hardness(built):
    _, workload = built
    for shape in workload.shapes("test"):
        queries = workload.queries("test", shape)
        assert queries.hardness is not None
        assert len(queries.hardness) == len(queries.answers["hard"].members)
        assert queries.hardness.min() >= 1
        assert queries.hardness.max() <= shape.count("p") * 3 + 3


def test_the_report_has_the_fields_of_the_interface(built):
    report, workload = built
    for shape, by_split in report["shapes"].items():
        for split, row in by_split.items():
            assert row["queries"] == len(workload.queries(split, shape))
            assert row["seconds"] >= 0
            assert row["queries_per_second"] > 0
    assert report["shapes"]["1p"]["train"]["source"] == "enumerated"
    assert report["shapes"]["2p"]["train"]["source"] == "sampled"


def test_the_same_seed_gives_the_same_workload(built, world, tmp_path):
    _, first = built
    make_workload(world, tmp_path / "again", Order(count=40, seed=5, splits=("test",), shapes=("2in", "up")))
    again = Workload.load(tmp_path / "again")
    for shape in ("2in", "up"):
        ours, theirs = first.queries("test", shape), again.queries("test", shape)
        assert (ours.entities == theirs.entities).all()
        assert (ours.relations == theirs.relations).all()
        assert (ours.answers["hard"].members == theirs.answers["hard"].members).all()
        assert (ours.hardness == theirs.hardness).all()


def test_training_unions_keep_clear_of_the_evaluated_ones(world, tmp_path):
    make_workload(world, tmp_path / "w", Order(count=300, train_shapes=("1p", "2u", "up"), shapes=("2u", "up")))
    workload = Workload.load(tmp_path / "w")
    assert set(workload.shapes("train")) == {"1p", "2u", "up"}
    for shape in ("2u", "up"):
        marks = [
            set(
                fingerprint(q.template, *(torch.from_numpy(ids.astype(np.int64)) for ids in (q.entities, q.relations)))[
                    0
                ].tolist()
            )
            for q in (workload.queries(split, shape) for split in ("train", "valid", "test"))
        ]
        assert not marks[0] & (marks[1] | marks[2])


def test_published_counts_follow_from_the_number_of_pairs():
    fb = PUBLISHED["fb15k-237"]
    assert [count_for(fb, "train", SHAPES[s], 149_689) for s in ("2p", "3i", "2in", "pni", "2u", "up")] == [
        149_689, 149_689, 14_968, 14_968, 14_968, 14_968,
    ]  # fmt: skip
    assert count_for(fb, "test", SHAPES["up"], 149_689) == 5000
    assert (fb.cap, PUBLISHED["fb15k"].cap, PUBLISHED["nell995"].cap) == (120, 100, 80)
    assert count_for(PUBLISHED["fb15k"], "train", SHAPES["inp"], 273_710) == 27_371
    assert count_for(PUBLISHED["nell995"], "train", SHAPES["pin"], 107_982) == 10_798


def test_which_shapes_can_lose_answers():
    assert {name for name, template in SHAPES.items() if loses_answers(template)} == {"2in", "3in", "inp", "pin", "pni"}
    assert loses_answers(read_template("?x : r(a, ?x) -> s(b, ?x)"))


def test_templates_from_a_file(world, tmp_path):
    file = tmp_path / "more.toml"
    file.write_text(
        '4i = "?x : r(a, ?x) & s(b, ?x) & t(c, ?x) & u(d, ?x)"\n'
        '3ip = "?x : r(a, ?y) & s(b, ?y) & t(c, ?y) & u(?y, ?x)"\n'
        'implication = "?x : r(a, ?x) -> s(b, ?x)"\n'
    )
    templates = read_templates(file)
    assert key_of(templates["3ip"]) == "epepep&3p"
    make_workload(world, tmp_path / "w", Order(count=30, templates=templates, shapes=("4i", "implication", "3ip")))
    workload = Workload.load(tmp_path / "w")
    assert set(workload.shapes("train")) == {"4i", "3ip", "implication"}
    assert workload.queries("train", "implication").complement
    assert not workload.queries("test", "4i").complement


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4i = 3", "not a query text"),
        ('4i = "?x : r(a"', "4i"),
        ("nonsense", "not TOML"),
        ('2p = "?x : r(a, ?x)"', "cannot name"),
        ('"../x" = "?x : r(a, ?x)"', "cannot name"),
    ],
)
def test_bad_template_files(tmp_path, text, message):
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(DataError, match=message):
        read_templates(file)


def test_mistakes_are_found_before_any_work(world, tmp_path):
    with pytest.raises(FlexError, match="no shape '9p'"):
        make_workload(world, tmp_path / "w", Order(shapes=("1p", "9p")))
    with pytest.raises(FlexError, match="no split 'dev'"):
        make_workload(world, tmp_path / "w", Order(splits=("dev",)))
    with pytest.raises(FlexError, match="no shape to make"):
        make_workload(world, tmp_path / "w", Order(shapes=()))
    with pytest.raises(DataError, match="holds no queries"):
        make_workload(world, tmp_path / "w", Order(queries=tmp_path))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years")
    with pytest.raises(DataError, match="holds something else"):
        make_workload(world, tmp_path / "mine", Order())
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years"
    assert not (tmp_path / "w").exists()


def test_words_may_be_written_in_several_ways():
    assert split_words(["1p,2p", "3p 2i"]) == ("1p", "2p", "3p", "2i")
    assert split_words(None) is None


class TestCommand:
    @pytest.mark.parametrize(
        "shapes", [["--shapes", "1p,2i"], ["--shapes", "1p", "2i"], ["--shapes", "1p", "--shapes", "2i"]]
    )
    def test_build_prints_json(self, tmp_path, capsys, shapes):
        arguments = [
            "workload",
            "build",
            "world",
            "--out",
            str(tmp_path / "w"),
            *shapes,
            "--count",
            "20",
            "--split",
            "test",
            "--json",
        ]
        assert run(arguments) == 0
        found = json.loads(capsys.readouterr().out)
        assert set(found["shapes"]) == {"1p", "2i"}
        assert found["shapes"]["2i"]["test"]["queries"] == 20

    def test_a_shortfall_is_said(self, tmp_path, capsys):
        (tmp_path / "g.tsv").write_text("a\tr\tb\nb\tr\tc\nc\tr\td\nd\tr\te\n")
        assert run(["data", "import", "--train", str(tmp_path / "g.tsv"), "--out", str(tmp_path / "g")]) == 0
        assert (
            run(
                [
                    "workload",
                    "build",
                    str(tmp_path / "g"),
                    "--out",
                    str(tmp_path / "w"),
                    "--split",
                    "train",
                    "--count",
                    "50",
                ]
            )
            == 0
        )
        captured = capsys.readouterr()
        # A chain of five: two ways of three steps forwards, two backwards.
        assert "warning: train 3p: 4 of 50 queries found" in captured.err
        assert "rejected: broken rule" in captured.err

    def test_without_test_facts_there_is_nothing_to_evaluate(self, tmp_path, capsys):
        (tmp_path / "g.tsv").write_text("a\tr\tb\nb\tr\tc\n")
        run(["data", "import", "--train", str(tmp_path / "g.tsv"), "--out", str(tmp_path / "g")])
        capsys.readouterr()
        assert run(["workload", "build", str(tmp_path / "g"), "--out", str(tmp_path / "w"), "--split", "test"]) == 2
        assert "no test facts" in capsys.readouterr().err
        assert run(["workload", "build", str(tmp_path / "g"), "--out", str(tmp_path / "w"), "--shapes", "ip"]) == 2
        assert "no facts to ask" in capsys.readouterr().err
        assert not (tmp_path / "w").exists()
