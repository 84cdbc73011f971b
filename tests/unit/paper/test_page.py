"""The page of results: made from the files alone, each table and plot once there is something to show."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from flexkg.cli.main import run
from flexkg.paper.pace import Pace, keep_paces
from flexkg.paper.page import results_page
from flexkg.paper.plan import Book
from flexkg.paper.render import page_of
from flexkg.paper.results import load_all
from flexkg.paper.runner import missing
from flexkg.paper.workloads import write_registry
from results_page import BEGIN, END, with_summary
from unit.paper.recorded import BOOK, REGISTRY, ROOT, jobs, marks, record

if TYPE_CHECKING:
    from flexkg.paper.plan import Job


def test_the_page_of_results_is_up_to_date():
    text, images = results_page(ROOT / "results")
    again = "run: python scripts/results_page.py"
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == text, again
    for name, image in images.items():
        assert (ROOT / "docs" / "img" / name).read_text(encoding="utf-8") == image, again
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme == with_summary(readme, text), again
    assert text.partition("| nell995 |")[2].partition("\n")[0] in readme
    there = {path.name for path in (ROOT / "docs" / "img").glob("results-*.svg")}
    assert there == set(images), "plots of the page that it no longer has"


def test_without_results_the_papers_figures_are_folded_away(tmp_path):
    text, images = results_page(tmp_path)
    assert images == {}
    assert "No run is recorded yet." in text
    before, _, after = text.partition("### MRR on queries with negation")[2].partition("</details>")
    assert "<summary>Not measured yet; the paper's figures</summary>" in before
    assert "| fb15k | BetaE | 14.3 |" in before
    assert "### FLEX by dimension" in after
    assert "| 200 |" not in after.partition("### FLEX by dimension")[2].partition("###")[0]  # nothing to fold either


def test_plans_beside_the_results_have_their_tables_on_the_page(tmp_path):
    heading = "## Tables that the paper has not"
    assert heading not in results_page(tmp_path)[0]
    write_registry(tmp_path, REGISTRY)
    (tmp_path / "plans").mkdir()
    shutil.copy(ROOT / "results" / "plans" / "one-core.toml", tmp_path / "plans")
    book = Book.load(tmp_path / "plans" / "one-core.toml")
    mine = results_page(tmp_path)[0].partition(heading)[2]
    assert [mine.index(f"### {table.title}") for table in book.tables.values()]
    assert "Not measured yet." in mine.partition("\n## ")[0]
    job = book.job("FLEX", "fb15k-237")
    assert job is not None
    record(tmp_path, job, 0.25)
    mine = results_page(tmp_path)[0].partition(heading)[2].partition("\n## ")[0]
    assert "| FLEX | " + "**25.0** | " * 9 + "**25.0** |" in mine


def test_a_single_run_fills_its_cells_everywhere(tmp_path):
    write_registry(tmp_path, REGISTRY)
    [job] = jobs("main-epfo", "nell995", "FLEX")
    record(tmp_path, job, 0.25, seconds={"train": 600.0, "evaluate": 6.0, "whole": 660.0, "start": 30.0})
    text, images = results_page(tmp_path)
    row = "| `nell995/flex-seed1` | a GPU | 1,000 | 10.0 | 0.5 | 11.0 | 1,000,000 | 25.0 | 25.0 (24.0 to 26.0) | 25.0 |"
    assert row in text
    assert "| nell995 | 57.8 / **25.0** | 28.2 / **25.0** | 6.7 / **25.0** | 1 | 10.0 |  | a GPU | all" in text
    assert "| nell995 | FLEX | 57.8 / **25.0** | 16.8 / **25.0** |" in text
    assert "| nell995 | FLEX | 57.8 ±0.012 / **25.0** |" in text  # one seed of five: a mean without a deviation
    assert "- Ours on nell995: seed 1." in text
    assert "~" not in text
    assert "†" not in text
    assert "### Over seeds" not in text
    assert list(images) == ["results-nell995.svg", "results-nell995-minutes.svg"]
    shapes = images["results-nell995.svg"]
    assert marks(shapes, "rect", "#1d4ed8") == marks(shapes, "rect", "#9ca3af") == 1 + 14  # and one in the legend
    assert marks(images["results-nell995-minutes.svg"], "circle", "#1d4ed8") == 3  # two averages, and a legend


def test_seeds_of_a_run_belong_together_though_a_setting_came_up_between_them(tmp_path):
    write_registry(tmp_path, REGISTRY)
    for seed, mrr in ((1, 0.2), (10, 0.3), (100, 0.4)):
        job = BOOK.job("FLEX", "nell995", seed=seed)
        config = job.config.model_dump(mode="json")
        if seed < 100:
            del config["training"]["table_rate"]  # as results have it that are older than the setting
        record(tmp_path, job, mrr, config=config)
    other = BOOK.job("FLEX", "nell995", seed=1000)
    changed = other.config.model_dump(mode="json")
    changed["training"]["learning_rate"] *= 2
    record(tmp_path, other, 0.9, config=changed)
    unreadable = BOOK.job("FLEX", "nell995", seed=10000)
    record(tmp_path, unreadable, 0.9, config={"model": {"name": "of old"}, "training": {}})
    spread = results_page(tmp_path)[0].partition("### Over seeds")[2].partition("\n#")[0]
    assert "| nell995 | flex | 1, 10, 100 | 30.00 ±10.00 | 30.00 ±10.00 | 30.00 ±10.00 |" in spread
    assert spread.count("| nell995 |") == 1


def test_what_is_below_the_papers_is_named_by_shape_and_with_its_reason(tmp_path):
    write_registry(tmp_path, REGISTRY)
    record(tmp_path, BOOK.job("FLEX", "fb15k-237", seed=1), 0.2)
    record(tmp_path, BOOK.job("FLEX", "nell995", seed=1), 0.9)
    record(tmp_path, BOOK.job("Q2B", "fb15k-237", seed=1), 0.4)
    text = results_page(tmp_path)[0]
    short = text.partition("### Where it is below the paper's")[2].partition("\n#")[0]
    lines = short.strip().splitlines()
    assert lines[0].startswith("**fb15k-237, EPFO**: 20.0, the paper's 24.6. By shape")
    # Models of which all these shapes were measured, FLEX first.
    assert lines[2] == "|  | the paper's | ours | FLEX | Q2B |"
    assert lines[4:8] == [
        "| 1p | 43.6 | 20.0 (−23.6) | 46% | 97% |",
        "| 2i | 34.9 | 20.0 (−14.9) | 57% | 129% |",
        "| 3i | 48.4 | 20.0 (−28.4) | 41% | 88% |",
        "| pi | 27.4 | 20.0 (−7.4) | 73% | 183% |",
    ]
    assert lines[9].startswith("Time gives the average what it lacks")
    assert "fb15k-237, negation" not in short  # 20.0 for 6.1
    assert "nell995" not in short
    assert "#what-was-tried" in short
    record(tmp_path, BOOK.job("FLEX", "fb15k-237", seed=1), 0.9)
    assert "### Where it is below the paper's" not in results_page(tmp_path)[0]


def test_a_result_with_a_flaw_is_marked_says_why_and_is_to_be_made_again(tmp_path):
    write_registry(tmp_path, REGISTRY)
    job = BOOK.job("FLEX-U", "fb15k-237", seed=1)
    record(tmp_path, job, 0.25, flaw="it learnt some test queries")
    text = results_page(tmp_path)[0]
    assert "- `fb15k-237/flex-union-seed1`: it learnt some test queries\n" in text
    assert "| FLEX-U | 18.1 / **25.0~** |" in text
    assert job in missing(BOOK.select("variants"), BOOK, load_all(tmp_path), REGISTRY)
    record(tmp_path, job, 0.25)
    assert "~" not in results_page(tmp_path)[0]
    assert job not in missing(BOOK.select("variants"), BOOK, load_all(tmp_path), REGISTRY)


def swept(steps: int) -> Job:
    [job] = jobs("training-length", f"fb15k-237/flex-seed1-s{steps}")
    return job


def test_a_longer_training_that_is_better_on_validation_is_shown_beside_the_models_own(tmp_path):
    write_registry(tmp_path, REGISTRY)
    keep_paces(tmp_path, [Pace("fb15k-237/flex-seed1", 2.0, "a GPU", "2026-11-16")])
    record(tmp_path, BOOK.job("FLEX", "fb15k-237", seed=1), 0.2, best={"step": 60_000, "mrr": 0.2}, steps=60_000)
    record(tmp_path, swept(20_000), 0.1, best={"step": 20_000, "mrr": 0.1}, steps=20_000)
    assert "updates |" not in results_page(tmp_path)[0].partition("## What to keep in mind")[0]
    record(tmp_path, swept(180_000), 0.26, best={"step": 180_000, "mrr": 0.26}, steps=180_000, shared_device=True)
    text, images = results_page(tmp_path)
    head = text.partition("## What to keep in mind")[0]
    figures = "43.6 / **26.0** | 24.6 / **26.0** | 6.5 / **26.0** | 1 | 10.0 † | 6.0 | a GPU | 1p"
    assert f"| fb15k-237, 180,000 updates | {figures} |" in head  # an update takes 2 ms, however many there are
    assert "the paper's 24.6. After 180,000 updates, which take 6.0 minutes alone, it is 26.0. By shape" in head
    assert "|  | the paper's | ours | after 180,000 updates | FLEX |" in head
    assert "| pi | 27.4 | 20.0 (−7.4) | 26.0 (−1.4) | 73% |" in head
    assert "FLEX s180000, seed 1: 26.0 after 6.0 minutes on a GPU" in images["results-fb15k-237-minutes.svg"]


def test_a_longer_training_of_other_settings_is_no_longer_flexs(tmp_path):
    write_registry(tmp_path, REGISTRY)
    record(tmp_path, BOOK.job("FLEX", "fb15k-237", seed=1), 0.2, best={"step": 1, "mrr": 0.2})
    job = swept(180_000)
    older = replace(job, overrides=(*job.overrides, "model.dropout=0.5"))
    record(tmp_path, older, 0.26, best={"step": 1, "mrr": 0.26})
    assert "updates |" not in results_page(tmp_path)[0].partition("## What to keep in mind")[0]


def test_labels_say_which_runs_differ_in_length_alone():
    assert BOOK.without_length("s180000") == ""
    assert BOOK.without_length("wide-s20000") == "wide"
    assert BOOK.without_length("d200") == "d200"
    assert BOOK.without_length("") == ""


def test_the_summary_of_the_readme_is_replaced_whole():
    page = results_page(ROOT / "results")[0]
    readme = with_summary(f"Before\n{BEGIN}\nold\n\n{END}After\n", page)
    assert readme.startswith(f"Before\n{BEGIN}\nTest MRR")
    assert readme.endswith(f"no others.\n\n{END}After\n")
    assert "old" not in readme
    with pytest.raises(SystemExit, match="to write between"):
        with_summary("Nothing to replace", page)


def test_at_a_glance_seeds_are_averaged(tmp_path):
    write_registry(tmp_path, REGISTRY)
    for seed, value, seconds in ((1, 0.25, 600.0), (10, 0.26, 300.0)):
        job = BOOK.job("FLEX", "nell995", seed=seed)
        record(tmp_path, job, value, seconds={"train": seconds, "evaluate": 6.0, "whole": 660.0})
    glance = results_page(tmp_path)[0].partition("## FLEX at a glance")[2].partition("##")[0]
    assert "| nell995 | 57.8 / **25.5** | 28.2 / **25.5** | 6.7 / **25.5** | 1, 10 | 5.0 to 10.0 |  | a GPU |" in glance
    assert "| fb15k-237 | 43.6 | 24.6 | 6.5 |  |  |  |  | 1p |" in glance  # the main tables', where error bars have 6.1


def test_variants_are_set_against_flex_in_the_paper_and_here(tmp_path):
    write_registry(tmp_path, REGISTRY)
    for seed, value in ((1, 0.2), (10, 0.3)):
        record(tmp_path, BOOK.job("FLEX", "fb15k-237", seed=seed), value)
    assert "## Variants against FLEX" not in results_page(tmp_path)[0]
    record(tmp_path, BOOK.job("FLEX-w/o-logic", "fb15k-237", seed=1), 0.24)
    record(tmp_path, BOOK.job("FLEX-3F", "fb15k-237", seed=1), 0.25, steps=1)
    record(tmp_path, BOOK.job("FLEX-1p", "fb15k-237", seed=1), 0.26)
    section = results_page(tmp_path)[0].partition("## Variants against FLEX")[2].partition("\n## ")[0]
    assert (
        "| FLEX-w/o-logic | −2.04 | **−1.00** | −2.70 | **−1.00** | −0.86 | **−1.00** | −1.70 | **−1.00** |" in section
    )
    assert "| FLEX-3F | +0.29 | **+0.00** |" in section  # none is a figure, too
    assert "| FLEX-1p |  |  |  |  |  |  | −1.90 | **+1.00** |" in section
    assert "FLEX-2F" not in section
    assert "~" not in section
    assert "logic part" not in section
    record(tmp_path, BOOK.job("FLEX-w/o-logic", "fb15k-237", seed=1), 0.25)
    section = results_page(tmp_path)[0].partition("## Variants against FLEX")[2].partition("\n## ")[0]
    assert "Without its logic part FLEX is no worse here" in section


def test_an_older_variant_is_marked(tmp_path):
    write_registry(tmp_path, REGISTRY)
    record(tmp_path, BOOK.job("FLEX", "fb15k-237", seed=1), 0.2)
    job = BOOK.job("FLEX-2F", "fb15k-237", seed=1)
    config = job.config.model_dump(mode="json")
    config["training"]["steps"] = 5
    record(tmp_path, job, 0.21, config=config)
    section = results_page(tmp_path)[0].partition("## Variants against FLEX")[2].partition("\n## ")[0]
    assert "| FLEX-2F | +0.24 | **+1.00~** |" in section
    assert "changed since" in section


def test_models_are_compared_over_the_seeds_that_both_have(tmp_path):
    write_registry(tmp_path, REGISTRY)
    pairs = [[BOOK.job(name, "fb15k-237", seed=1) for name in ("FLEX", other)] for other in ("ConE", "GQE")]
    [flex, cone], [_, gqe] = pairs
    record(tmp_path, flex, 0.25, queries=True)
    record(tmp_path, cone, 0.235, queries=True, shared_device=True)
    record(tmp_path, gqe, 0.2, queries=True)
    record(tmp_path, BOOK.job("FLEX", "fb15k-237", seed=10), 0.27)
    text, images = results_page(tmp_path)
    # All queries differ alike, so that the interval has no width; the paper's rows differ by 1.2 and 0.54.
    same = "**+1.50 (+1.50 to +1.50)**"
    assert f"| fb15k-237 | ConE | 1 | +1.20 | {same} | +1.50 | +0.54 | {same} | +1.50 |" in text
    assert "| fb15k-237 | GQE | 1 | +7.99 | **+5.00 (+5.00 to +5.00)** | +5.00 |  |  |  |" in text
    assert "| nell995 | ConE |" not in text.partition("## Runs")[0]
    assert "| fb15k-237 | flex | 1, 10 | 26.00 ±1.41 | 26.00 ±1.41 | 26.00 ±1.41 |" in text
    assert "| `fb15k-237/cone-seed1` | a GPU | 1,000 | 10.0 † |  | 11.0 † | 1,000,000 † |" in text
    assert "`†`: something else used the device meanwhile" in text
    assert "- Ours on fb15k-237: seeds 1, 10." in text
    dots = ElementTree.fromstring(images["results-fb15k-237-minutes.svg"]).iter()
    notes = [part[0].text for part in dots if part.tag.endswith("circle")]
    assert "ConE, seed 1: 23.5 after 10.0 minutes on a GPU" in notes
    assert len(notes) == 4 + 3 + 3  # with, without negation, in the legend
    assert marks(images["results-fb15k-237-minutes.svg"], "circle", "white") == 2  # of a shared device
    assert marks(images["results-fb15k-237.svg"], "rect", "#c2410c") == 1 + 9  # GQE, after the legend
    assert marks(images["results-fb15k-237.svg"], "rect", "#15803d") == 1 + 14  # ConE


def test_runs_of_other_settings_are_marked_and_kept_apart(tmp_path):
    write_registry(tmp_path, REGISTRY)
    for seed in (1, 10, 100):
        record(tmp_path, BOOK.job("ConE", "fb15k-237", seed=seed), 0.25)
    present = BOOK.job("ConE", "fb15k-237", seed=100)
    older = replace(present, overrides=(*present.overrides, "training.steps=7", "model.dropout=0.5"))
    record(tmp_path, older, 0.5, shared_device=True)
    record(tmp_path, BOOK.job("FLEX", "fb15k-237", label="d400", overrides=("model.dim=400",)), 0.5, shared_device=True)
    text, images = results_page(tmp_path)
    assert "| `fb15k-237/cone-seed100`~ | a GPU |" in text
    assert "| `fb15k-237/cone-seed10` | a GPU |" in text
    assert "- `fb15k-237/cone-seed100`: model.dropout=0.5; training.steps=7\n" in text
    assert "- `fb15k-237/cone-seed10`:" not in text
    assert "| fb15k-237 | cone | 1, 10 | 25.00 ±0.00 |" in text
    assert text.count("`~`: made with settings or queries that have changed since.") == 1
    assert "Hollow points: it was not, and something else" in text
    assert "ConE, ours~" not in images["results-fb15k-237.svg"]
    record(tmp_path, replace(older, seed=1), 0.5)
    queries = {"seed": 7, "checksum": "other", "published": {}}
    record(tmp_path, BOOK.job("ConE", "fb15k-237", seed=10), 0.5, workload=queries)
    text, images = results_page(tmp_path)
    assert "ConE, ours~" in images["results-fb15k-237.svg"]
    assert "- `fb15k-237/cone-seed10`: other queries\n" in text


def test_a_table_says_which_queries_are_the_papers(tmp_path):
    record(tmp_path, BOOK.job("FLEX", "fb15k-237"), 0.25)
    page = page_of(BOOK.tables["main-negation"], BOOK, load_all(tmp_path), REGISTRY)
    note = "fb15k-237: test queries of 1p are the published ones, others were sampled here."
    assert note in page.to_dict()["notes"]
    assert not any("nell995" in each for each in page.to_dict()["notes"])
    empty = page_of(BOOK.tables["main-negation"], BOOK, [], REGISTRY)
    assert empty.to_dict()["notes"] == list(BOOK.tables["main-negation"].notes)


def test_a_run_of_some_shapes_has_no_average(tmp_path):
    write_registry(tmp_path, REGISTRY)
    [job] = jobs("link-prediction", "TransE")
    record(tmp_path, job, 0.3)
    text, images = results_page(tmp_path)
    assert "| `fb15k-237/transe-seed1` | a GPU | 1,000 | 10.0 |  | 11.0 | 1,000,000 | 30.0 |  |  |" in text
    assert "| mrr | 43.6 | 41.8 | 45.1 | **30.0** |" in text
    assert images == {}


def test_times_of_shared_devices_are_marked_in_the_terminal_too(tmp_path, capsys):
    write_registry(tmp_path, REGISTRY)
    for job in jobs("dimensions")[:2]:
        record(tmp_path, job, 0.25, shared_device=job.label == "d200")
    assert run(["paper", "dimensions", "--results", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.count("10.0 †") == out.count("†") - 1 == 1
    assert "† something else used the device meanwhile" in out
    assert "~" not in out


def test_days_are_shown_in_minutes_too_and_dimensions_are_drawn(tmp_path):
    write_registry(tmp_path, REGISTRY)
    for job in jobs("running-time", "BetaE"):
        record(tmp_path, job, 0.0, shared_device=job.label == "d200")
    for place, job in enumerate(jobs("dimensions")):
        record(tmp_path, job, 0.2 + place / 100)
    text, images = results_page(tmp_path)
    # 300,000 steps of 2 ms: ten minutes.
    assert "| 200 | 3.5 / **0.0069 d = 10 min †** | 1.9 | 1.2 |" in text
    assert "| 1000 | 4.9 / **0.0069 d = 10 min** | 2.6 |" in text
    assert "- Ours were measured on: a GPU." in text
    assert "![FLEX by dimension: MRR and minutes](img/results-dimensions.svg)" in text
    assert "results-training-length.svg" not in images  # of three lengths one is the main table's
    assert "| 400 | **21.0** | **21.0** | **21.0** | **21.0** | **10.0** |" in text
    drawing = ElementTree.fromstring(images["results-dimensions.svg"])
    assert sum(part.tag.endswith("circle") for part in drawing.iter()) == 5 * 5 + 5  # and their names
