"""The head of the page of results: what FLEX reached on each graph, and where that is below the paper's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flexkg.paper.listing import AVERAGES, CHANGED, SHARED, average_of
from flexkg.paper.pace import pace_of
from flexkg.paper.render import both, listed, marks, number
from flexkg.paper.tables import AVERAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flexkg.paper.cells import Filled
    from flexkg.paper.pace import Pace
    from flexkg.paper.plan import Book
    from flexkg.paper.render import Page
    from flexkg.paper.results import Result
    from flexkg.paper.workloads import Registry

_REASONS = {
    ("fb15k-237", "EPFO"): """\
Time gives the average what it lacks ([FLEX by length of training](#flex-by-length-of-training)); the paper's took days.
All models and variants are compared after the shorter training. Rounds 7, 8 and 13 under
[what was tried](#what-was-tried) were for this, too: fewer near misses, an average of the weights, twice as many
negatives, more queries of two and three hops, tables that learn faster than networks. Fewer near misses give some of it
back and take more from shapes with negation; the others changed little. Most of it is in `pi` and `2u`, which are not
trained, as in the paper. Seen from 1p the rivals lack as much in `pi`; in `2u` ConE, Query2box and GQE lack about half
as much. What all have in common is our training, and queries that were sampled by the published rules; on the published
ones of NELL995 neither FLEX nor GQE nor Query2box lacks it.""",
}
"""By graph and average: what was tried, and what stands in the way."""


def glance(pages: Mapping[str, Page], registry: Registry, paces: Mapping[str, Pace], book: Book) -> str:
    """What FLEX reached on each graph, beside the paper's; also when trained longer, where that is better."""
    lines = [
        "## FLEX at a glance",
        "",
        "Test MRR × 100, the paper's as in its main tables and **ours** as means over seeds; the minutes that ours",
        "were trained, and those that the updates take where nothing else uses the device.",
        "",
        "| graph | 1p | EPFO | negation | our seeds | minutes | alone | device | queries the same as the paper's |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for dataset in pages["main-epfo"].table.datasets:
        places = (("epfo", "1p"), ("epfo", AVERAGE), ("negation", AVERAGE))
        printed, seeds = (
            [pages[f"{table}-{shapes}"].cell(dataset, "FLEX", column) for shapes, column in places]
            for table in ("main", "error-bars")
        )
        runs = list({result.name: result for cell in seeds if cell is not None for result in cell.results}.values())
        published = listed(registry[dataset].published["test"] if dataset in registry else ())
        lines.append(_line(dataset, map(_mean, printed, seeds), runs, published, paces, book))
        if (long := longer(pages, dataset)) is not None:
            figures = [100 * long.metrics["shapes"]["1p"]["mrr"], *(average_of(long, name) for name in AVERAGES)]
            cells = [both(_paper(cell), number(value, "mrr")) for cell, value in zip(printed, figures, strict=True)]
            lines.append(_line(f"{dataset}, {long.steps:,} updates", cells, [long], published, paces, book))
    legends = [text for mark, text in (("~", CHANGED), ("†", SHARED)) if any(mark in line for line in lines)]
    return "\n".join([*lines, "", *(line for text in legends for line in (text, ""))])


def longer(pages: Mapping[str, Page], dataset: str) -> Result | None:
    """The run of FLEX by length of training that is the best on validation; None if that is the model's own length."""
    page = pages["training-length"]
    best = max(
        (filled for filled in page.cells if filled.cell.column == "validation MRR" and filled.exact and filled.results),
        key=lambda filled: filled.ours or 0.0,
        default=None,
    )
    if best is None or best.cell.dataset != dataset or not best.results[0].label:
        return None
    return best.results[0]


def below(pages: Mapping[str, Page], paces: Mapping[str, Pace], book: Book) -> str:
    """Averages of FLEX that are below the paper's, by which shapes, whether the rivals' are too, and why."""
    lines = []
    for name in AVERAGES:
        main, seeds = pages[f"main-{name.lower()}"], pages[f"error-bars-{name.lower()}"]
        for dataset in main.table.datasets:
            figures: dict[str, tuple[float, float]] = {}
            for column in main.table.columns:
                printed, mean = (page.cell(dataset, "FLEX", column) for page in (main, seeds))
                if printed and mean and printed.cell.paper is not None and mean.ours is not None:
                    figures[column] = printed.cell.paper, mean.ours
            low = [column for column, (paper, ours) in figures.items() if round(paper - ours, 1) > 0]
            if AVERAGE not in low:
                continue
            shapes = [column for column in main.table.columns if column in {main.table.columns[0], *low} - {AVERAGE}]
            paper, ours = figures[AVERAGE]
            text = f"**{dataset}, {name}**: {ours:.1f}, the paper's {paper:.1f}."
            columns = {
                "the paper's": [f"{figures[shape][0]:.1f}" for shape in shapes],
                "ours": [_beside(*figures[shape]) for shape in shapes],
            }
            if (long := longer(pages, dataset)) is not None:
                alone = _alone([long], paces, book)
                took = f", which take {alone} minutes alone," if alone else ""
                text += f" After {long.steps:,} updates{took} it is {average_of(long, name):.1f}."
                columns[f"after {long.steps:,} updates"] = [
                    _beside(figures[shape][0], 100 * long.metrics["shapes"][shape]["mrr"]) for shape in shapes
                ]
            # Of FLEX there are several seeds.
            flex = [f"{figures[shape][1] / figures[shape][0]:.0%}" for shape in shapes]
            columns |= {"FLEX": flex} | _shares(main, dataset, shapes)
            grid = [["", *columns], ["---"] * (1 + len(columns))]
            grid += [list(row) for row in zip(shapes, *columns.values(), strict=True)]
            lines += [f"{text} By shape, and what is reached of the paper's figures, by the rivals too:", ""]
            lines += [*(f"| {' | '.join(row)} |" for row in grid), ""]
            lines += [part for place, reason in _REASONS.items() if place == (dataset, name) for part in (reason, "")]
    return "\n".join(["### Where it is below the paper's", "", *lines]) if lines else ""


def _beside(paper: float, ours: float) -> str:
    """Ours, and how far it is below the paper's if it is."""
    gap = f" (−{paper - ours:.1f})" if round(paper - ours, 1) > 0 else ""
    return f"{ours:.1f}{gap}"


def _shares(page: Page, dataset: str, shapes: Sequence[str]) -> dict[str, list[str]]:
    """Ours as parts of the paper's, by rival of which all these shapes were measured."""
    shares = {}
    for row in dict.fromkeys(
        row.row for row in reversed(page.table.rows) if row.dataset == dataset and row.row != "FLEX"
    ):
        cells = [page.cell(dataset, row, shape) for shape in shapes]
        parts = [f"{cell.ours / cell.cell.paper:.0%}" for cell in cells if cell and cell.ours and cell.cell.paper]
        if len(parts) == len(shapes):
            shares[row] = parts
    return shares


def _line(
    title: str,
    figures: Iterable[str],
    runs: Sequence[Result],
    published: str,
    paces: Mapping[str, Pace],
    book: Book,
) -> str:
    """A line of the table at a glance."""
    cells = [title, *figures, ", ".join(str(run.seed) for run in runs), _minutes(runs), _alone(runs, paces, book)]
    cells += [", ".join(dict.fromkeys(run.device for run in runs)), published]
    return f"| {' | '.join(cells)} |"


def _mean(printed: Filled | None, seeds: Filled | None) -> str:
    """The paper's figure, and our mean over seeds; how far they spread is in the tables of error bars."""
    return both(_paper(printed), "" if seeds is None else number(seeds.ours, "mrr") + marks(seeds, "mrr"))


def _paper(printed: Filled | None) -> str:
    return "" if printed is None else number(printed.cell.paper, "mrr")


def _minutes(runs: Sequence[Result]) -> str:
    if not runs:
        return ""
    ends = dict.fromkeys(f"{end(run.seconds['train'] for run in runs) / 60:.1f}" for end in (min, max))
    return " to ".join(ends) + " †" * any(run.shared_device for run in runs)


def _alone(runs: Sequence[Result], paces: Mapping[str, Pace], book: Book) -> str:
    known = ((run, pace_of(run, paces, book)) for run in runs)
    return next((f"{pace.minutes(run.steps):.1f}" for run, pace in known if pace is not None), "")
