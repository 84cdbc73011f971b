"""The same search for every model: fair to every value, its trials real and kept, what won is said."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from equal_effort import Bench, Model, read_search
from flexkg.cli.main import run
from flexkg.config import load_recipe
from flexkg.errors import FlexError
from flexkg.paper.plan import Book
from flexkg.paper.search import DESIGN, FACTORS, LEVELS, Factor, finalists, name_of, settings_of
from flexkg.paper.tuning import read_trials
from tune import Place

ROOT = Path(__file__).resolve().parents[3]

PLAN = """
round = "1"
graphs = ["world"]
seconds = [0.3, 0.6, 1.0]
set = ["training.steps=1", "training.batch_size=16", "training.negatives=4", "training.warm_up=0", "training.shapes=1p"]

[factors]
rate = ["training.learning_rate=1e-3", "training.learning_rate=2e-3", "training.learning_rate=4e-3"]
tables = ["training.table_rate=1", "training.table_rate=3", "training.table_rate=10"]

[models.GQE]
recipe = "gqe"

[models.GQE.factors]
size = ["model.dim=4", "model.dim=6", ["model.dim=8", "training.clip=1"]]
margin = ["model.margin=6", "model.margin=12", "model.margin=24"]
"""


def test_of_any_two_factors_every_pair_of_values_comes_up_once():
    assert len(DESIGN) == len(set(DESIGN)) == LEVELS**2
    for one, other in combinations(range(FACTORS), 2):
        assert Counter((row[one], row[other]) for row in DESIGN) == Counter(
            {(a, b): 1 for a in range(LEVELS) for b in range(LEVELS)}
        )


def test_settings_of_a_trial():
    factors = [Factor("size", (("a=1",), ("a=2", "b=2"), ("a=3",))), Factor("rate", (("c=1",), ("c=2",), ("c=3",)))]
    assert settings_of(factors, (1, 2)) == ("a=2", "b=2", "c=3")
    assert name_of((1, 2)) == "23"


@pytest.mark.parametrize("best", [(2, 0, 2, 1), (1, 1, 1, 0), (0, 0, 0, 0)])
def test_what_is_best_by_itself_is_found_where_values_add_up(best):
    scores = {row: sum(value == good for value, good in zip(row, best, strict=True)) for row in DESIGN}
    found = finalists(scores)
    assert best in found
    assert len(found) == 2
    assert found[0] in DESIGN


def test_where_both_are_the_same_the_second_trial_takes_part():
    scores = {row: -sum(row) - 0.1 * index for index, row in enumerate(DESIGN)}
    assert finalists(scores) == sorted(DESIGN, key=lambda row: -scores[row])[:2]
    assert finalists(scores)[0] == (0, 0, 0, 0)


def test_models_of_one_recipe_have_paces_of_their_own(tmp_path):
    factors = tuple(Factor(name, ((f"model.{name}=4",),) * LEVELS) for name in ("dim", "hidden", "a", "b"))
    plain, other = (Model(name, "flex", (), factors) for name in ("FLEX", "FLEX-residual"))
    size = ("model.dim=4", "model.hidden=4")
    place = Place(tmp_path, tmp_path, tmp_path, "cpu", 0.0)
    bench = Bench("world", place, 1, tmp_path, 1.0, {("FLEX", *size): 0.5, ("FLEX-residual", *size): 0.25})
    assert [bench.steps(model, [DESIGN[0]], 10.0) for model in (plain, other)] == [[20], [40]]


def search(tmp_path: Path, plan: str = PLAN) -> subprocess.CompletedProcess[str]:
    (tmp_path / "plan.toml").write_text(plan)
    options = ["--results", tmp_path / "results", "--work", tmp_path / "work", "--workers", "2"]
    line = [sys.executable, ROOT / "scripts" / "equal_effort.py", tmp_path / "plan.toml", *options]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def test_a_search_is_made_once_and_says_what_won(tmp_path):
    fixed = ["paper", "workload", "world", "--count", "20"]
    assert run([*fixed, "--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]) == 0
    found = search(tmp_path)
    assert found.returncode == 0, found.stderr
    trials = read_trials(tmp_path / "results")
    rounds = Counter(trial.round for trial in trials)
    assert rounds == {"1, GQE, 0.3 seconds each": 9, "1, GQE, 0.6 seconds each": 2}
    assert {trial.name for trial in trials if "0.3" in trial.round} == {name_of(row) for row in DESIGN}
    steps = {trial.name: trial.steps for trial in trials if "0.3" in trial.round}
    for trial in trials:
        assert f"training.steps={trial.steps}" in trial.changed
        assert trial.steps > 1
        if "0.6" in trial.round and trial.name in steps:
            assert trial.steps == pytest.approx(2 * steps[trial.name], abs=1)
    best = max((trial for trial in trials if "0.6" in trial.round), key=lambda trial: trial.mrr)
    said = found.stdout.partition(f"world GQE: {best.name}\n")[2]
    won = tomllib.loads(f"set = [{said}]")["set"]
    assert won[:-2] == list(best.changed[:-2])
    load_recipe("gqe", won)
    # What is kept is not made again.
    again = search(tmp_path)
    assert again.returncode == 0
    assert f"world GQE: {best.name}\n" in again.stdout
    assert read_trials(tmp_path / "results") == trials


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"model.margin=24"]', "]", "does not have 4 factors of 3 values each"),
        ("model.dim=6", "model.dmi=6", "model.dim"),
        ("seconds = [0.3, 0.6, 1.0]", "seconds = [1]", "cannot be read"),
        ("[models.GQE]\n", "[models.GQE\n", "cannot be read"),
    ],
)
def test_a_wrong_plan_is_refused(tmp_path, old, new, said):
    assert old in PLAN
    (tmp_path / "plan.toml").write_text(PLAN.replace(old, new))
    with pytest.raises(FlexError) as caught:
        read_search(tmp_path / "plan.toml")
    assert said in f"{caught.value} {caught.value.hint}"


def test_a_graph_whose_queries_are_not_fixed_is_named(tmp_path):
    found = search(tmp_path, PLAN.replace('graphs = ["world"]', 'graphs = ["nowhere"]'))
    assert found.returncode == 2
    assert "nowhere" in found.stderr
    assert "Traceback" not in found.stderr
    assert not (tmp_path / "results" / "tuning.jsonl").exists()


def test_the_committed_search_is_the_same_for_every_model_and_its_plan_has_its_settings():
    [path] = (ROOT / "results" / "searches").glob("*.toml")
    found = read_search(path)
    assert {(tuple(factor.name for factor in model.factors)) for model in found.models} == {
        ("rate", "tables", "size", "margin")
    }
    book = Book.load(ROOT / "results" / "plans" / path.name)
    for model in found.models:
        for graph in found.graphs:
            job = book.job(model.name, graph)
            assert job is not None
            assert job.overrides[: len(model.base)] == model.base


def test_a_plan_that_is_no_file_is_named(tmp_path):
    with pytest.raises(FlexError, match="Cannot read the plan"):
        read_search(tmp_path / "none.toml")
