"""Bars: MRR by shape, the paper's beside ours, as SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flexkg.paper.tables import AVERAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flexkg.paper.render import Page

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 760, 300, 40, 36, 30
_COLOURS = {"paper": "#9aa5b1", "ours": "#3f51b5"}


def draw_bars(pages: Sequence[Page], dataset: str, row: str = "FLEX") -> str:
    """The bars of one model on one graph, from the two main tables."""
    pairs = []
    for page in pages:
        if page.table.name in ("main-epfo", "main-negation"):
            for column in page.table.columns:
                filled = page.cell(dataset, row, column)
                if filled is not None and column != AVERAGE:
                    pairs.append((column, filled.cell.paper, filled.ours))
    top = max([value for _, *both in pairs for value in both if value is not None], default=1.0)
    plain = _HEIGHT - _TOP - _BOTTOM
    step = (_WIDTH - _LEFT - 10) / max(1, len(pairs))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="11" role="img"><title>{row} on {dataset}: MRR × 100 by shape</title>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="13">{row} on {dataset}, test MRR × 100 by shape</text>',
    ]
    for place, (name, colour) in enumerate(_COLOURS.items()):
        key = _WIDTH - 150 + 75 * place
        parts.append(f'<rect x="{key}" y="11" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{key + 14}" y="20">{name}</text>')
    base = _HEIGHT - _BOTTOM
    for place, (shape, paper, ours) in enumerate(pairs):
        left = _LEFT + place * step
        for side, (name, value) in enumerate((("paper", paper), ("ours", ours))):
            if value is None:
                continue
            height = plain * value / top
            x = left + step * (0.1 + 0.4 * side)
            parts.append(
                f'<rect x="{x:.1f}" y="{base - height:.1f}" width="{0.38 * step:.1f}" height="{height:.1f}" '
                f'fill="{_COLOURS[name]}"/>'
            )
            parts.append(
                f'<text x="{x + 0.19 * step:.1f}" y="{base - height - 3:.1f}" text-anchor="middle" font-size="8">'
                f"{value:.1f}</text>"
            )
        parts.append(f'<text x="{left + step / 2:.1f}" y="{base + 16}" text-anchor="middle">{shape}</text>')
    parts.append(f'<line x1="{_LEFT}" y1="{base}" x2="{_WIDTH - 10}" y2="{base}" stroke="#666"/></svg>')
    return "\n".join(parts) + "\n"
