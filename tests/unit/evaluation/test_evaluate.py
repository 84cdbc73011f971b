"""What an evaluation says adds up, and its intervals cover what they should."""

from __future__ import annotations

import numpy as np
import pytest

from flexkg.errors import DataError
from flexkg.evaluation.compare import load_values, paired, save_values
from flexkg.evaluation.evaluate import evaluate
from flexkg.evaluation.statistics import difference, interval, resampled_means
from flexkg.plan.algebra import Operator
from flexkg.plan.prepare import Interpretation, Union
from unit.evaluation.fixed import BY, Fixed, query_set


def sample(count=40, universe=60, seed=0, **shapes):
    """Random scores, and queries of some shapes with one to five hard answers and their missing links."""
    random = np.random.default_rng(seed)
    model = Fixed(random.normal(size=(count, universe)).round(1))
    queries = {}
    for shape in shapes or {"1p": 1, "2p": 2, "2in": 3}:
        sizes = random.integers(1, 6, count)
        answers = [random.choice(universe, size + 2, replace=False).tolist() for size in sizes]
        easy, hard = [set(row[:2]) for row in answers], [set(row[2:]) for row in answers]
        queries[shape] = query_set(easy, hard, shape, random.integers(1, 4, int(sizes.sum())).astype(np.uint8))
    return model, queries


def test_the_fields_that_scripts_rely_on():
    model, queries = sample()
    found = evaluate(model, queries, BY).to_dict()
    assert list(found["shapes"]) == ["1p", "2p", "2in"]
    for row in found["shapes"].values():
        assert {"queries", "mrr", "hits@1", "hits@3", "hits@10"} <= set(row)
        assert row["mrr_pessimistic"] <= row["mrr"] <= row["mrr_optimistic"]
        assert row["ci95"][0] < row["mrr"] < row["ci95"][1]
    mrr = {shape: row["mrr"] for shape, row in found["shapes"].items()}
    assert found["mrr"] == pytest.approx(sum(mrr.values()) / 3)
    assert found["mrr_epfo"] == pytest.approx((mrr["1p"] + mrr["2p"]) / 2)
    assert found["mrr_negation"] == mrr["2in"]
    assert found["averages"]["mrr_epfo"]["shapes"] == ["1p", "2p"]
    assert found["queries"] == 120
    assert found["seconds"] > 0


def test_a_mean_over_queries_is_one_over_answers_first():
    model = Fixed([[3.0, 2.0, 1.0, 0.0], [0.0, 1.0, 2.0, 3.0]])
    found = evaluate(model, {"1p": query_set([set(), set()], [{0, 3}, {3}])}, BY).to_dict()
    # Ranks 1 and 3 of the first query (the other answer does not compete), 1 of the second.
    assert found["shapes"]["1p"]["mrr"] == pytest.approx(((1 + 1 / 3) / 2 + 1) / 2)
    assert found["shapes"]["1p"]["hits@1"] == pytest.approx((1 / 2 + 1) / 2)
    assert found["mrr_negation"] is None


def test_hardness_and_numbers_of_answers_split_the_same_answers():
    model, queries = sample()
    found = evaluate(model, queries, BY)
    result = found.to_dict()
    total = sum(row["hard_answers"] for row in result["shapes"].values())
    assert sum(row["answers"] for row in result["by_missing_links"].values()) == total
    assert sum(row["answers"] for row in result["by_answers"].values()) == total
    assert sum(row["queries"] for row in result["by_answers"].values()) == result["queries"]
    weighted = sum(row["mrr"] * row["queries"] for row in result["by_answers"].values()) / result["queries"]
    assert weighted == pytest.approx(np.mean([row["mrr"] for row in result["shapes"].values()]))
    assert set(result["by_answers"]) == {"3-4", "5-9"}
    # Answers of one query weighed by how many of each kind it has give the query's own mean back.
    values = found.shapes["1p"]
    sums = sum(row["answers"] for row in values.links.values())
    assert sums == values.hard.sum()


def test_one_missing_link_each_is_the_whole():
    model, queries = sample()
    easy = {shape: query_set_with_links(found, 1) for shape, found in queries.items()}
    result = evaluate(model, easy, BY).to_dict()
    for row in result["shapes"].values():
        assert row["by_missing_links"]["1"]["mrr"] == pytest.approx(row["mrr"])
        assert row["by_missing_links"]["1"]["queries"] == row["queries"]


def query_set_with_links(queries, links):
    from dataclasses import replace

    return replace(queries, hardness=np.full_like(queries.hardness, links))


def test_what_a_model_cannot_say_is_left_out_and_named():
    model, queries = sample()
    from dataclasses import replace

    queries["2in"] = replace(queries["2in"], key="epepn&2", entities=np.zeros((40, 2), np.int32))
    no_negation = Interpretation(frozenset({Operator.ENTITY, Operator.PROJECT, Operator.INTERSECT}), Union.DNF, "point")
    found = evaluate(model, queries, no_negation).to_dict()
    assert list(found["shapes"]) == ["1p", "2p"]
    assert "point cannot express negation" in found["left_out"]["2in"]


def test_queries_without_anything_to_predict_do_not_count():
    model = Fixed([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]])
    found = evaluate(model, {"1p": query_set([{0}, {0}], [set(), {2}])}, BY).to_dict()
    assert found["shapes"]["1p"]["queries"] == 1


def test_constant_and_missing_scores_are_reported():
    table = np.zeros((3, 11))
    table[1] = np.arange(11)
    table[2, 4:] = np.nan
    found = evaluate(Fixed(table), {"1p": query_set([set()] * 3, [{0}, {10}, {1}])}, BY).to_dict()
    assert found["constant_scores"] == 1
    assert found["not_numbers"] == 7
    assert found["shapes"]["1p"]["mrr"] == pytest.approx((1 / 6 + 1 + 1 / 6) / 3)


def test_intervals_cover_the_truth_as_often_as_they_say():
    random = np.random.default_rng(5)
    covered = 0
    for trial in range(300):
        values = random.beta(0.5, 1.5, 200)
        low, high = interval(resampled_means(values, "1p", trial, 400))
        covered += low <= 0.25 <= high
    assert 0.91 <= covered / 300 <= 0.98


def test_resampling_is_decided_by_the_seed():
    values = np.random.default_rng(0).random(50)
    assert np.array_equal(resampled_means(values, "1p"), resampled_means(values, "1p"))
    assert not np.array_equal(resampled_means(values, "1p"), resampled_means(values, "2p"))
    assert not np.array_equal(resampled_means(values, "1p"), resampled_means(values, "1p", 1))


def test_paired_differences_see_what_single_intervals_hide():
    model, queries = sample(count=200)
    base = evaluate(model, queries, BY)
    random = np.random.default_rng(2)
    better = Fixed(model.table)
    # Every hard answer of the first half of the queries a little higher.
    for found in queries.values():
        for row in range(100):
            better.table[row, found.answers["hard"].row(row)] += random.random() / 3
    other = evaluate(better, queries, BY)
    gaps = paired(other.shapes, base.shapes)
    assert set(gaps) == {"1p", "2p", "2in", "mrr", "mrr_epfo", "mrr_negation"}
    assert gaps["mrr"].difference == pytest.approx(other.mean("mrr") - base.mean("mrr"))
    low, high = gaps["mrr"].ci95
    assert 0 < low < gaps["mrr"].difference < high
    assert gaps["mrr"].p < 0.01
    assert base.ci95("mrr")[1] > other.ci95("mrr")[0], "the single intervals overlap"
    back = paired(base.shapes, other.shapes)
    assert back["mrr"].difference == pytest.approx(-gaps["mrr"].difference)


def test_no_difference_is_no_evidence():
    model, queries = sample()
    found = evaluate(model, queries, BY)
    gaps = paired(found.shapes, found.shapes)
    assert all((gap.difference, gap.ci95, gap.p) == (0, (0, 0), 1) for gap in gaps.values())


def test_a_p_value_is_uniform_where_nothing_differs():
    random = np.random.default_rng(3)
    values = [
        difference(resampled_means(gap, "1p", trial, 200), gap.mean()).p
        for trial, gap in enumerate(random.normal(size=(300, 100)))
    ]
    assert 0.02 <= np.mean([p < 0.05 for p in values]) <= 0.09


def test_values_are_kept_in_a_file(tmp_path):
    model, queries = sample()
    found = evaluate(model, queries, BY)
    path = tmp_path / "per-query.npz"
    save_values(path, found.shapes, {"run": "a"})
    back, about = load_values(path)
    assert about["run"] == "a"
    for shape, values in back.items():
        assert values.fingerprint == found.shapes[shape].fingerprint
        np.testing.assert_allclose(values.values["mrr"], found.shapes[shape].values["mrr"], rtol=1e-6)
        assert np.array_equal(values.answers, found.shapes[shape].answers)
    assert abs(paired(back, found.shapes)["mrr"].difference) < 1e-6


def test_different_queries_are_not_compared(tmp_path):
    one = evaluate(*sample(), BY).shapes
    other = evaluate(*sample(seed=1), BY).shapes
    with pytest.raises(DataError, match="different 1p queries"):
        paired(one, other)
    with pytest.raises(DataError, match="no shape in common"):
        paired({"1p": one["1p"]}, {"2p": other["2p"]})


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04nonsense", b"\x93NUMPY"], ids=["empty", "zip", "array"])
def test_a_damaged_file_is_named(tmp_path, content):
    path = tmp_path / "per-query.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"per-query.npz is not a file of evaluated queries"):
        load_values(path)
