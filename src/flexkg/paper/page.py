"""The documentation's page of results, made from the result files; no figure in it is typed by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flexkg.paper.bars import draw_bars
from flexkg.paper.plan import the_paper
from flexkg.paper.render import Page, notes_of, page_of, triple
from flexkg.paper.results import load_all
from flexkg.paper.workloads import read_registry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from flexkg.paper.results import Result
    from flexkg.paper.workloads import Registry

_HEAD = """\
# Results

The tables of the FLEX paper, and what flexkg measured beside them. This page is made from the files in `results/` by
`python scripts/results_page.py`; no figure on it was typed by hand. `flexkg paper TABLE` shows the same in the
terminal, [`flexkg paper run TABLE`](reference/command-line.md#paper-run) measures what is missing.

In a cell the paper's value stands first, then ours. An empty second place has not been measured yet.
"""


def results_page(folder: Path) -> tuple[str, dict[str, str]]:
    """The page in Markdown, and its plots by file name (SVG)."""
    found = load_all(folder)
    registry = read_registry(folder)
    book = the_paper()
    pages = [page_of(table, book, found, registry) for table in book.tables.values()]
    plots = _plots(pages)
    parts = [_HEAD, _queries(registry), _runs(found)]
    for page in pages:
        parts.append(_section(page))
        if page.table.name == "main-negation":
            parts += [
                f"![FLEX on {name}: MRR by shape, the paper's and ours](img/{file})\n" for name, file in plots.items()
            ]
    images = {file: draw_bars(pages, name) for name, file in plots.items()}
    return "\n".join(parts), images


def _plots(pages: Sequence[Page]) -> dict[str, str]:
    """For each graph on which FLEX was evaluated, the name of its plot."""
    main = next(page for page in pages if page.table.name == "main-epfo")
    return {
        name: f"results-{name}.svg"
        for name in main.table.datasets
        if (cell := main.cell(name, "FLEX", "1p")) is not None and cell.ours is not None
    }


def _queries(registry: Registry) -> str:
    """Which test queries are the published ones: only there are the paper's figures and ours about the same queries."""
    lines = [
        "## Which queries",
        "",
        "Figures can be compared with the paper's to the last digit only where the queries are the same. The published",
        "test queries were at hand for some shapes; the others were sampled here by the same rules, before any",
        "training, and may be a little easier or harder. Checksums are in `results/workloads.toml`.",
        "",
        "| graph | published test queries | sampled test queries | seed | checksum of the workload |",
        "|---|---|---|---|---|",
    ]
    for name, entry in sorted(registry.items()):
        published = entry.published["test"]
        sampled = [shape for shape in entry.queries["test"] if shape not in published]
        cells = [_listed(published), _listed(sampled), str(entry.seed), f"`{entry.checksum[:12]}`"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _listed(shapes: Sequence[str]) -> str:
    return "all fourteen" if len(shapes) == 14 else " ".join(shapes) or "none"


def _runs(found: Sequence[Result]) -> str:
    """What was trained, on what, and how long it took."""
    runs = [result for result in found if result.kind == "run"]
    lines = ["## Runs", ""]
    if not runs:
        return "\n".join([*lines, "No run is recorded yet.", ""])
    lines += [
        "Minutes of training, and as a whole with preparation and evaluation; 95% intervals by bootstrap over queries.",
        "",
        "| run | device | steps | training | whole | queries/s | EPFO | negation |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for result in runs:
        cells = [
            f"`{result.dataset}/{result.name}`",
            result.device,
            f"{result.steps:,}",
            f"{result.seconds['train'] / 60:.1f}",
            f"{result.seconds['whole'] / 60:.1f}",
            f"{result.queries_per_second:,.0f}",
            _average(result, "mrr_epfo"),
            _average(result, "mrr_negation"),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _average(result: Result, name: str) -> str:
    value = result.metrics.get(name)
    if value is None:
        return ""
    average: Mapping[str, Any] = (result.metrics.get("averages") or {}).get(name) or {}
    interval = average.get("ci95") or []
    around = f" ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})" if len(interval) == 2 else ""
    return f"{100 * value:.1f}{around}"


def _section(page: Page) -> str:
    """One table, its rows and columns as in the paper."""
    table = page.table
    several = len(table.datasets) > 1
    lines = [f"## {table.title}", "", f"{table.source}. {table.unit[:1].upper()}{table.unit[1:]}.", ""]
    head = (["graph"] if several else []) + [""] + list(table.columns)
    lines += ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in table.rows:
        cells = [row.dataset] if several else []
        cells.append(row.row)
        for column in table.columns:
            paper, ours, _ = triple(page.cell(row.dataset, row.row, column), table.kind)
            cells.append(f"{paper} / **{ours}**" if paper and ours else paper or (f"**{ours}**" if ours else ""))
        lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    if any(filled.results and not filled.exact for filled in page.cells):
        lines += ["`~`: made with settings or queries that have changed since.", ""]
    lines += [f"- {note}" for note in notes_of(page)]
    return "\n".join([*lines, ""] if notes_of(page) else lines)
