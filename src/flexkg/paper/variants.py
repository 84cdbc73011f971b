"""A section of the page of results: what every change to FLEX gives and takes, in the paper and here."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from flexkg.paper.cells import EPFO, NEGATION
from flexkg.paper.listing import CHANGED
from flexkg.paper.render import number
from flexkg.paper.tables import COMPARISON

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flexkg.paper.cells import Filled
    from flexkg.paper.render import Page

_TABLES = ("variants", "more-variants")
_MEANS: Mapping[str, tuple[str, ...]] = {"all": EPFO + NEGATION, "EPFO": EPFO, "negation": NEGATION, "1p": ("1p",)}
_HEAD = """\
## Variants against FLEX

The variant minus FLEX, MRR × 100 on FB15k-237, in the paper and **here**. Each is trained for the time that FLEX
takes, so that one with more parameters makes fewer updates. Here one seed of the variant is compared with the mean of
FLEX over its seeds, which differ themselves: see [Over seeds](#over-seeds).
"""
_NO_LOGIC = "FLEX-w/o-logic"
_REMARK = """\
Without its logic part FLEX is no worse here, unlike in the paper, while it makes more updates in the same time. By the
paper's distance, which FLEX has here, the logic part of a query adds the same to the distances of all entities.
It can change their order only through what follows: the next step, an intersection, a negation, a union. Features can
do these without it, by networks of their own, and near misses teach them to negate; so it is less missed here.
"""


def list_variants(pages: Mapping[str, Page]) -> str:
    """The section; empty before a variant was measured."""
    lines: dict[str, str] = {}
    remark = ""
    for page in (pages[name] for name in _TABLES):
        dataset = page.table.datasets[0]
        flex = {shape: page.cell(dataset, "FLEX", shape) for shape in _MEANS["all"]}
        over_seeds = {
            shape: pages[f"error-bars-{kind}"].cell(dataset, "FLEX", shape)
            for kind, shapes in (("epfo", EPFO), ("negation", NEGATION))
            for shape in shapes
        }
        for name in (row.row for row in page.table.rows if row.row != "FLEX"):
            cells = {shape: page.cell(dataset, name, shape) for shape in _MEANS["all"]}
            printed = {mean: _gap(cells, flex, shapes, _paper) for mean, shapes in _MEANS.items()}
            found = {mean: _gap(cells, over_seeds, shapes, _ours) for mean, shapes in _MEANS.items()}
            if name in lines or all(value is None for value in found.values()):
                continue
            mark = "~" * any(filled is not None and not filled.exact for filled in cells.values())
            texts = [
                text
                for mean, value in found.items()
                for text in (
                    number(printed[mean], COMPARISON),
                    "" if value is None else f"**{number(value, COMPARISON)}{mark}**",
                )
            ]
            lines[name] = "| " + " | ".join([name, *texts]) + " |"
            if name == _NO_LOGIC and (found["all"] or 0) >= 0 > (printed["all"] or 0):
                remark = _REMARK
    if not lines:
        return ""
    head = ["variant", *(text for mean in _MEANS for text in (f"{mean}, paper", "ours"))]
    table = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *lines.values(), ""]
    legend = [CHANGED, ""] if any("~" in line for line in lines.values()) else []
    return "\n".join([_HEAD, *table, *legend, remark])


def _gap(
    cells: Mapping[str, Filled | None],
    flex: Mapping[str, Filled | None],
    shapes: Sequence[str],
    read: Callable[[Filled | None], float | None],
) -> float | None:
    """The difference of two means over shapes; None where one lacks."""
    both = [(read(cells[shape]), read(flex[shape])) for shape in shapes]
    gaps = [value - other for value, other in both if value is not None and other is not None]
    return fmean(gaps) if len(gaps) == len(shapes) else None


def _paper(filled: Filled | None) -> float | None:
    return None if filled is None else filled.cell.paper


def _ours(filled: Filled | None) -> float | None:
    return None if filled is None else filled.ours
