"""The paper's tables: typed as printed, consistent but for what is listed, and each model has a recipe."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from statistics import fmean

import pytest

from flexkg.cli.main import run
from flexkg.config import load_recipe, recipe_names
from flexkg.paper.plan import the_paper
from flexkg.paper.tables import AVERAGE, NAMES, load_table, published

DATA = Path(os.environ.get("FLEXKG_TEST_DATA", Path(__file__).parents[3] / ".." / "shared" / "data")).resolve()
PAPER = DATA.parent / "paper"
TABLES = {name: load_table(name) for name in NAMES}
LISTED = {
    (name, entry.dataset, entry.row, entry.column) for name, table in TABLES.items() for entry in table.discrepancies
}


def printed(label: str) -> list[list[float]]:
    """The numbers of each line of a table in the paper's LaTeX source, in order; lines without numbers are left out."""
    [file] = PAPER.glob("*.txt")
    text = file.read_text(encoding="utf-8")
    [table] = [
        part for part in re.findall(r"\\begin\{table.*?\\end\{table", text, re.DOTALL) if f"{{table:{label}}}" in part
    ]
    body = table.partition(r"\midrule")[2].partition(r"\bottomrule")[0]
    body = re.sub(r"\\multirow\{\d+\}\{\*\}\{[^}]*\}|\\scriptsize|\\textbf|\\underline|\\pm|\\midrule|[{}$]", " ", body)
    lines = []
    for line in body.replace(r"1\times 10^ -4", "0.0001").split(r"\\"):
        cells = [
            cell.strip().removesuffix("days").removesuffix("M").replace(",", "").strip() for cell in line.split("&")
        ]
        numbers = [float(cell) for cell in cells if re.fullmatch(r"\d+(\.\d+)?", cell)]
        if numbers:
            lines.append(numbers)
    return lines


@pytest.mark.parametrize("name", [name for name in NAMES if TABLES[name].kind not in ("sweep", "comparison")])
def test_the_tables_are_as_printed(name):
    if not PAPER.is_dir():
        pytest.skip(f"the paper's source is not in {PAPER}")
    table = TABLES[name]
    found = re.search(r"Table \d+ \((.*?)\)", table.source)
    assert found is not None
    expected = []
    for row in table.rows:
        # Rows of dimensions begin with a number of their own.
        first = [float(row.row)] if row.row.isdigit() else []
        expected.append(first + [value for value in row.values if value is not None])
        if any(error is not None for error in row.errors):
            expected.append([error for error in row.errors if error is not None])
    assert printed(found[1]) == expected


@pytest.mark.parametrize("name", [name for name in NAMES if AVERAGE in TABLES[name].columns])
def test_averages_are_the_means_of_their_rows(name):
    table = TABLES[name]
    place = table.columns.index(AVERAGE)
    for row in table.rows:
        others = [value for index, value in enumerate(row.values) if index != place and value is not None]
        if row.values[place] is None:
            continue
        # Half a digit for the cells' rounding, and half for the average's own.
        good = abs(fmean(others) - row.values[place]) <= 0.1 + 1e-9
        listed = (name, row.dataset, row.row, AVERAGE) in LISTED
        assert good or listed, (row, fmean(others))


def test_the_listed_discrepancies_are_there():
    for name, dataset, row, column in LISTED:
        assert TABLES[name].value(dataset, row, column) is not None
    gaps = {}
    for name, dataset, row, column in LISTED:
        if column == AVERAGE:
            table = TABLES[name]
            others = [table.value(dataset, row, shape) for shape in table.columns if shape != AVERAGE]
            gaps[name, row] = round(abs(table.value(dataset, row, AVERAGE) - fmean(others)), 2)
    assert gaps == {
        ("main-epfo", "Q2B"): 0.88,
        ("main-negation", "FLEX"): 0.08,
        ("error-bars-negation", "FLEX"): 0.32,
        ("more-variants", "FLEX-logic-over-feature"): 0.66,
    }


def test_tables_that_print_the_same_runs_agree_where_nothing_else_is_listed():
    seen: dict[tuple[str, str, str], tuple[str, float]] = {}
    for name in ("main-epfo", "main-negation", "error-bars-epfo", "error-bars-negation", "variants", "more-variants"):
        table = TABLES[name]
        for row in table.rows:
            for column, value in zip(table.columns, row.values, strict=True):
                if column == AVERAGE or value is None:
                    continue
                other, before = seen.setdefault((row.dataset, row.row, column), (name, value))
                assert value == before or (name, row.dataset, row.row, column) in LISTED, (name, other, row.row, column)


def test_edges_add_up():
    for row in TABLES["datasets"].rows:
        assert sum(row.values[2:5]) == row.values[5]


def test_every_recipe_exists_and_takes_its_settings():
    book = the_paper()
    known = recipe_names()
    for entry in book.models.values():
        assert entry["recipe"] in known
        for changes in [[], *entry.get("datasets", {}).values()]:
            load_recipe(entry["recipe"], [*entry.get("set", []), *changes])
    for table in ("parameters", "running-time"):
        for recipe, *changes in book.settings[table]["models"].values():
            load_recipe(recipe, [*changes, *book.settings[table].get("set", []), "model.dim=200"])


def test_the_papers_bars_are_found_by_either_name():
    assert published("nell995", "flex") == published("nell995", "FLEX")
    assert published("nell995", "flex")["1p"] == 0.578
    assert published("nell995", "flex")["pni"] == 0.041
    assert len(published("nell995", "flex")) == 14
    assert len(published("fb15k", "query2box")) == 9
    assert published("fb15k-237", "flex-3f")["up"] == 0.111
    assert published("fb15k-237", "flex-1p") == {"1p": 0.417}
    assert published("world", "flex") == {}


def test_where_there_are_no_results_it_says_so(tmp_path, capsys):
    assert run(["paper", "main-epfo", "--results", str(tmp_path / "none"), "--json"]) == 0
    printed = capsys.readouterr()
    assert f"there is no folder {tmp_path / 'none'}, so no run is shown" in printed.err
    assert json.loads(printed.out)["tables"][0]["recorded"] == 0
    assert run(["paper", "parameters", "--results", str(tmp_path / "none")]) == 0
    assert capsys.readouterr().err == ""  # these need no runs
