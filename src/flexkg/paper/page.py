"""The documentation's page of results, made from the result files; no figure in it is typed by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flexkg.paper.cells import outdated, recorded
from flexkg.paper.glance import below, glance
from flexkg.paper.listing import AVERAGES, CHANGED, SHARED, list_runs, list_seeds
from flexkg.paper.pace import list_paces, read_paces
from flexkg.paper.pictures import picture_of, pictures_of
from flexkg.paper.plan import Book, the_paper
from flexkg.paper.render import Page, both, listed, marks, notes_of, number, page_of, triple
from flexkg.paper.repeats import list_repeats, read_repeats
from flexkg.paper.results import load_all
from flexkg.paper.runner import missing
from flexkg.paper.tuning import list_trials, read_trials
from flexkg.paper.variants import list_variants
from flexkg.paper.workloads import read_registry

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from flexkg.paper.cells import Filled
    from flexkg.paper.pictures import Picture
    from flexkg.paper.results import Result
    from flexkg.paper.workloads import Entry, Registry

PLANS = "plans"
"""In a folder of results: plans whose tables stand on the page beside the paper's."""

_HEAD = """\
# Results

The tables of the FLEX paper, and what flexkg measured beside them. This page is made from the files in `results/` by
`python scripts/results_page.py`; no figure in a table or plot was typed by hand. `flexkg paper TABLE` shows the same in
the terminal, [`flexkg paper run TABLE`](reference/command-line.md#paper-run) measures what is missing.

In a cell the paper's value stands first, then ours. An empty second place has not been measured yet.
"""

_CAVEATS = """\
## What to keep in mind

- Training is ours, not the paper's: minutes in place of days, another loss and mix of shapes. With negation, part of
  the negatives are near misses (`training.near_misses`), and queries that the benchmark lacks are sampled from the
  training facts (`training.fill_up`): ten times as many with negation as were published. The paper has neither, and
  most of what our figures with negation are above its ones is due to them. The rivals are given both as well.
- Rivals are trained for the time that FLEX takes here. FLEX had more trials, most of which chose what all share: loss,
  mix, schedule. Of their own settings rivals had, on a GPU, as many trials (ConE) or fewer, with at most half of FLEX's
  updates ([how many](#what-was-tried)). They were chosen on FB15k-237; on NELL995 rivals have the same, but for what
  was published of ConE, and only small ones were tried there, on a CPU, where FLEX was tried on a GPU. What short
  trials found better was
  [mostly no better in longer ones](why/training.md#what-a-short-trial-says); faster tables of ConE on NELL995 were,
  and are not tried in full. Where a rival stays below its published figure, as BetaE and ConE do, it would gain from
  more time, and the margin over it says less than the paper's: ConE on NELL995 above all, whose curve still rises where
  it ends. Where one is above it, as Query2box and GQE are, part of the paper's margin was its training.
- All models had the same search and about the same time in a comparison of another kind, five minutes of one core, on
  FB15k-237 ([below](#tables-that-the-paper-has-not)). What is best there is what learns soonest, Query2box, and says
  little of trainings that are a hundred times as long.
- What the parts of FLEX give here need not be what they give in the paper, the logic part above all:
  [Variants against FLEX](#variants-against-flex).
- Intervals are about the choice of test queries. They do not cover seeds; [Over seeds](#over-seeds) does.
- Recipes are chosen on validation queries. Test figures were seen after each full run all the same, as often as the
  recipe changed: about eight times on FB15k-237, six on NELL995, three on FB15k; a rival's up to six times. One choice
  followed from them: FB15k had 77.03 on 1p where the paper has 77.1, and was then given 170,000 steps for 150,000 and
  more one-hop queries.
"""


def results_page(folder: Path) -> tuple[str, dict[str, str]]:
    """The page in Markdown, and its plots by file name (SVG)."""
    found = load_all(folder)
    registry = read_registry(folder)
    book = the_paper()
    pages = {table.name: page_of(table, book, found, registry) for table in book.tables.values()}
    paces = read_paces(folder)
    images: dict[str, str] = {}
    flex = {name: run for name in registry if (job := book.job("FLEX", name)) and (run := recorded(job, found))}
    parts = [_HEAD, glance(pages, registry, paces, book), below(pages, paces, book), _CAVEATS, _queries(registry)]
    parts.append(list_repeats(read_repeats(folder), flex))
    jobs = missing(book.select("all"), book, [], registry)
    old = {
        job.name: reasons for job in jobs if (run := recorded(job, found)) and (reasons := outdated(run, job, registry))
    }
    for dataset in pages["main-epfo"].table.datasets:
        if drawn := pictures_of(dataset, found, book, pages, paces, old):
            parts += [f"## {dataset}\n", *_asked(dataset, registry), *_shown(drawn, images)]
    parts += [_comparison(pages["comparison"]), *_own(folder, found, registry)]
    parts += [list_variants(pages), list_paces(paces, jobs)]
    parts += [list_runs(found, old), list_seeds(found), "## The paper's tables\n"]
    for name, page in pages.items():
        if name == "comparison":
            continue
        parts.append(_section(page))
        if page.table.kind == "sweep" and (picture := picture_of(page, book, paces)) is not None:
            parts += _shown([picture], images)
    parts.append(list_trials(read_trials(folder)))
    return "\n".join(part for part in parts if part), images


def _shown(drawn: Sequence[Picture], images: dict[str, str]) -> list[str]:
    """Plots and what there is to say of them; their drawings go to the images."""
    images |= {picture.file: picture.drawing for picture in drawn}
    return [
        part
        for picture in drawn
        for part in (f"![{picture.title}](img/{picture.file})\n", picture.remark and f"{picture.remark}\n")
    ]


def _asked(dataset: str, registry: Registry) -> list[str]:
    """A reminder beside the plots."""
    if dataset not in registry:
        return []
    published, sampled = _queries_of(registry[dataset])
    if not sampled:
        return ["The test queries are the published ones, the same as the paper's.\n"]
    return [f"Published test queries, the same as the paper's: {listed(published)}. All others were sampled here.\n"]


def _comparison(page: Page) -> str:
    """FLEX minus the other models where both were measured; the rest is folded away."""
    lines = [
        f"## {page.table.title}",
        "",
        "FLEX minus the other model, MRR × 100 on the same test queries, paired bootstrap.",
        "",
    ]
    measured = dict.fromkeys((filled.cell.dataset, filled.cell.row) for filled in page.cells if filled.ours is not None)
    if measured:
        lines += [
            "| graph | FLEX minus | seeds | EPFO, paper | ours | by seed | negation, paper | ours | by seed |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        lines += ["| " + " | ".join(_compared(page, *place)) + " |" for place in measured]
        lines += ["", *([CHANGED, ""] if any("~" in line for line in lines) else [])]
    else:
        lines += ["Not measured yet.", ""]
    lines += [f"- {note}" for note in notes_of(page)] + [""]
    return "\n".join([*lines, *_folded("By shape", _grid(page, measured or None))])


def _compared(page: Page, dataset: str, row: str) -> list[str]:
    cells = [dataset, row]
    for column in AVERAGES:
        filled = page.cell(dataset, row, column)
        comparison = None if filled is None else filled.comparison
        if filled is None or comparison is None:
            cells += ["", "", ""]
            continue
        if len(cells) == 2:
            cells.append(", ".join(map(str, comparison.seeds)))
        paper, ours, _ = triple(filled, page.table.kind)
        each = ", ".join(number(100 * value, page.table.kind) for value in comparison.each(filled.cell.shapes))
        cells += [paper, f"**{ours}**", each]
    return cells


def _queries(registry: Registry) -> str:
    """Which test queries are the published ones: only there are the paper's figures and ours about the same queries."""
    lines = [
        "## Which queries",
        "",
        "Figures can be compared with the paper's to the last digit only where the queries are the same. The published",
        "test queries were at hand for some shapes; the others were sampled here, before any training, by the same",
        "rules, except that none comes twice in any order of its operands. Checksums are in `results/workloads.toml`.",
        "",
        "| graph | published test queries | sampled test queries | seed | checksum of the workload |",
        "|---|---|---|---|---|",
    ]
    for name, entry in sorted(registry.items()):
        published, sampled = _queries_of(entry)
        cells = [listed(published), listed(sampled), str(entry.seed), f"`{entry.checksum[:12]}`"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _queries_of(entry: Entry) -> tuple[Sequence[str], Sequence[str]]:
    """The shapes whose test queries are the published ones, and the others."""
    published = entry.published["test"]
    return published, [shape for shape in entry.queries["test"] if shape not in published]


def _own(folder: Path, found: Sequence[Result], registry: Registry) -> list[str]:
    """The tables of the plans that lie beside the results."""
    pages = [
        page_of(table, book, found, registry)
        for book in map(Book.load, sorted((folder / PLANS).glob("*.toml")))
        for table in book.tables.values()
    ]
    return ["## Tables that the paper has not\n", *map(_section, pages)] if pages else []


def _section(page: Page) -> str:
    """One table, its rows and columns as in the paper; folded away while there is nothing of ours in it."""
    table = page.table
    lines = [f"### {table.title}", "", f"{table.source}. {table.unit[:1].upper()}{table.unit[1:]}.", ""]
    grid = _grid(page)
    if not page.recorded:
        known = any(filled.cell.paper is not None for filled in page.cells)
        lines += _folded("Not measured yet; the paper's figures", grid) if known else ["Not measured yet.", ""]
    else:
        lines += [*grid, ""]
    if any(filled.results and not filled.exact for filled in page.cells):
        lines += [CHANGED, ""]
    notes = [*notes_of(page), *_measured(page)]
    return "\n".join([*lines, *(f"- {note}" for note in notes), ""] if notes else lines)


def _grid(page: Page, places: Collection[tuple[str, str]] | None = None) -> list[str]:
    """The lines of a table; only some rows of it, if told which."""
    table = page.table
    several = len(table.datasets) > 1
    head = (["graph"] if several else []) + [""] + list(table.columns)
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in table.rows:
        if places is None or (row.dataset, row.row) in places:
            cells = [_cell(page.cell(row.dataset, row.row, column), table.kind) for column in table.columns]
            lines.append("| " + " | ".join([*([row.dataset] if several else []), row.row, *cells]) + " |")
    return lines


def _cell(filled: Filled | None, kind: str) -> str:
    paper, ours, _ = triple(filled, kind)
    if kind == "time" and filled is not None and filled.ours is not None:
        # Days are the paper's measure; ours are seldom that long.
        ours = f"{number(filled.ours, kind)} d = {24 * 60 * filled.ours:.0f} min{marks(filled, kind)}"
    return both(paper, ours)


def _measured(page: Page) -> list[str]:
    """What has to be known of our own measurements."""
    notes = []
    results = [result for filled in page.cells for result in filled.results]
    if page.table.kind == "time" and results:
        notes.append(f"Ours were measured on: {', '.join(sorted({result.device for result in results}))}.")
    if page.table.kind in ("time", "sweep") and any(result.shared_device for result in results):
        notes.append(SHARED)
    if page.table.kind == "sweep":
        notes.append("Validation MRR is over a sample of the queries, as training looks at them.")
    if page.table.kind == "error-bars":
        for dataset in page.table.datasets:
            seeds = sorted({result.seed for result in results if result.dataset == dataset})
            if seeds:
                notes.append(
                    f"Ours on {dataset}: {'seeds' if len(seeds) > 1 else 'seed'} {', '.join(map(str, seeds))}."
                )
    return notes


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    """Lines that are shown when asked for."""
    return ['<details markdown="1">', f"<summary>{title}</summary>", "", *lines, "", "</details>", ""]
