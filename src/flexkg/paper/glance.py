"""The head of the page of results: what FLEX reached on each graph, and where that is below the paper's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flexkg.paper.listing import AVERAGES, CHANGED, SHARED
from flexkg.paper.pace import pace_of
from flexkg.paper.render import both, listed, marks, number
from flexkg.paper.tables import AVERAGE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from flexkg.paper.cells import Filled
    from flexkg.paper.pace import Pace
    from flexkg.paper.render import Page
    from flexkg.paper.results import Result
    from flexkg.paper.workloads import Registry

_REASONS = {
    ("fb15k-237", "EPFO"): """\
  Rounds 7 and 8 under [what was tried](#what-was-tried) were for this: fewer near misses, an average of the weights,
  twice as many negatives, more queries of two and three hops. Fewer near misses give some of it back and take more
  from shapes with negation; the others changed little. Most of it is in `pi` and `2u`, which are not trained, as in the
  paper. Seen from 1p the rivals lack as much there. What all have in common is our training, and queries that were
  sampled by the published rules; on the published ones of NELL995 neither FLEX nor GQE nor Query2box lacks it. Not
  tried yet: a longer training ([FLEX by length of training](#flex-by-length-of-training)); the paper's took days, and
  of our fifteen minutes two are used. Nor tables that learn faster than networks, which gave a small FLEX on a CPU
  12.9 where it had 11.9, and 12.2 with a higher rate for all (one seed, round 12;
  [why](why/training.md#tables-and-networks)).""",
}
"""By graph and average: what was tried, and what stands in the way."""


def glance(pages: Mapping[str, Page], registry: Registry, paces: Mapping[str, Pace]) -> str:
    """What FLEX reached on each graph, beside the paper's."""
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
        published = registry[dataset].published["test"] if dataset in registry else ()
        cells = [dataset, *map(_mean, printed, seeds), ", ".join(str(run.seed) for run in runs)]
        cells += [_minutes(runs), _alone(runs, paces), ", ".join(dict.fromkeys(run.device for run in runs))]
        lines.append("| " + " | ".join([*cells, listed(published)]) + " |")
    legends = [text for mark, text in (("~", CHANGED), ("†", SHARED)) if any(mark in line for line in lines)]
    return "\n".join([*lines, "", *(line for text in legends for line in (text, ""))])


def below(pages: Mapping[str, Page]) -> str:
    """Averages of FLEX that are below the paper's, by which shapes, and why."""
    lines = []
    for name in AVERAGES:
        main, seeds = pages[f"main-{name.lower()}"], pages[f"error-bars-{name.lower()}"]
        for dataset in main.table.datasets:
            figures: dict[str, tuple[float, float]] = {}
            for column in main.table.columns:
                printed, mean = (page.cell(dataset, "FLEX", column) for page in (main, seeds))
                if printed and mean and printed.cell.paper is not None and mean.ours is not None:
                    figures[column] = mean.ours, printed.cell.paper
            low = {column: paper - ours for column, (ours, paper) in figures.items() if round(paper - ours, 1) > 0}
            if AVERAGE in low:
                ours, paper = figures[AVERAGE]
                shapes = ", ".join(f"{shape} −{gap:.1f}" for shape, gap in low.items() if shape != AVERAGE)
                lines.append(f"- {dataset}, {name}: {ours:.1f}, the paper's {paper:.1f} ({shapes}).")
                lines.append(_shares(main, dataset, {main.table.columns[0], *low} - {AVERAGE}))
                lines += [reason for place, reason in _REASONS.items() if place == (dataset, name)]
    return "\n".join(["### Where it is below the paper's", "", *lines, ""]) if lines else ""


def _shares(page: Page, dataset: str, shapes: Collection[str]) -> str:
    """Ours as parts of the paper's, by model: whether the others lack what FLEX lacks."""
    models = []
    for row in dict.fromkeys(row.row for row in reversed(page.table.rows) if row.dataset == dataset):
        cells = [(column, page.cell(dataset, row, column)) for column in page.table.columns if column in shapes]
        parts = [
            f"{column} {cell.ours / cell.cell.paper:.2f}"
            for column, cell in cells
            if cell and cell.ours and cell.cell.paper
        ]
        if len(parts) == len(shapes):
            models.append(f"{row} {', '.join(parts)}")
    return f"  Ours as parts of the paper's: {'; '.join(models)}."


def _mean(printed: Filled | None, seeds: Filled | None) -> str:
    """The paper's figure, and our mean over seeds; how far they spread is in the tables of error bars."""
    paper = "" if printed is None else number(printed.cell.paper, "mrr")
    return both(paper, "" if seeds is None else number(seeds.ours, "mrr") + marks(seeds, "mrr"))


def _minutes(runs: Sequence[Result]) -> str:
    if not runs:
        return ""
    ends = dict.fromkeys(f"{end(run.seconds['train'] for run in runs) / 60:.1f}" for end in (min, max))
    return " to ".join(ends) + " †" * any(run.shared_device for run in runs)


def _alone(runs: Sequence[Result], paces: Mapping[str, Pace]) -> str:
    known = ((run, pace_of(run, paces)) for run in runs)
    return next((f"{pace.minutes(run.steps):.1f}" for run, pace in known if pace is not None), "")
