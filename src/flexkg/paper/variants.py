"""A section of the page of results: what every change to FLEX gives and takes, in the paper and here."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from flexkg.paper.cells import EPFO, NEGATION
from flexkg.paper.listing import CHANGED
from flexkg.paper.render import number
from flexkg.paper.tables import COMPARISON

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
_REMARK = """\
By the paper's distance, which FLEX has here, the logic part of a query adds the same to the distances of all entities.
It can change their order only through what follows: the next step, an intersection, a negation, a union. Features can
do these without it, by networks of their own, and near misses teach them to negate; so it is less missed here.
"""


def list_variants(pages: Mapping[str, Page]) -> str:
    """The section; empty before a variant was measured."""
    rows: dict[str, list[str]] = {}
    old = False
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
            if name in rows or not any(filled and filled.ours is not None for filled in cells.values()):
                continue
            rows[name] = [name]
            for shapes in _MEANS.values():
                printed = _gap([_paper(cells[shape]) for shape in shapes], [_paper(flex[shape]) for shape in shapes])
                found = _gap([_ours(cells[shape]) for shape in shapes], [_ours(over_seeds[shape]) for shape in shapes])
                mark = "~" * any(filled is not None and not filled.exact for filled in cells.values())
                rows[name] += [
                    number(printed, COMPARISON),
                    "" if found is None else f"**{number(found, COMPARISON)}{mark}**",
                ]
                old = old or bool(mark)
    if not rows:
        return ""
    head = ["variant", *(text for name in _MEANS for text in (f"{name}, paper", "ours"))]
    lines = [_HEAD, "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    lines += ["| " + " | ".join(cells) + " |" for cells in rows.values()]
    return "\n".join([*lines, "", *([CHANGED, ""] if old else []), _REMARK])


def _gap(values: Sequence[float | None], of_flex: Sequence[float | None]) -> float | None:
    """The difference of two means; None where a shape lacks."""
    both = zip(values, of_flex, strict=True)
    gaps = [value - other for value, other in both if value is not None and other is not None]
    return fmean(gaps) if len(gaps) == len(values) else None


def _paper(filled: Filled | None) -> float | None:
    return None if filled is None else filled.cell.paper


def _ours(filled: Filled | None) -> float | None:
    return None if filled is None else filled.ours
