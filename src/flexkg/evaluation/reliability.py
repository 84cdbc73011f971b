"""A picture of how far probabilities can be trusted, as an SVG that needs no library."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flexkg.evaluation.calibration import Calibration

_SIDE, _LEFT, _TOP = 360, 70, 50
_LINE, _DOT = "#888", "#1d4ed8"
_ENDS = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Where the axes may end."""


def draw_reliability(calibration: Calibration) -> str:
    """Probability against share of answers, a dot for each bin; on the diagonal both are equal."""
    measured = calibration.measured
    highest = max((value for part in measured.bins for value in (part.probability, part.share)), default=1.0)
    end = next((limit for limit in _ENDS if highest <= limit), 1.0)
    dots = "".join(
        f'<circle cx="{_x(part.probability / end):.1f}" cy="{_y(part.share / end):.1f}" r="5" fill="{_DOT}">'
        f"<title>{part.count:,} predictions: probability {part.probability:.3f}, share {part.share:.3f}</title>"
        "</circle>"
        for part in measured.bins
    )
    ticks = "".join(
        f'<text x="{_x(at):.0f}" y="{_y(0) + 18:.0f}" text-anchor="middle">{at * end:g}</text>'
        f'<text x="{_LEFT - 8}" y="{_y(at) + 4:.0f}" text-anchor="end">{at * end:g}</text>'
        for at in (0.0, 0.5, 1.0)
    )
    title = f"{measured.queries:,} validation queries, expected calibration error {measured.ece:.4f}"
    middle = _TOP + _SIDE / 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _SIDE + 30} {_TOP + _SIDE + 60}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="{_LEFT}" y="18" font-weight="bold">Each query\'s ten best predictions</text>'
        f'<text x="{_LEFT}" y="36">{title}</text>'
        f'<path d="M{_LEFT},{_TOP} V{_TOP + _SIDE} H{_LEFT + _SIDE}" fill="none" stroke="{_LINE}"/>'
        f'<path d="M{_x(0)},{_y(0)} L{_x(1)},{_y(1)}" stroke="{_LINE}" stroke-dasharray="4"/>{dots}{ticks}'
        f'<text x="{_LEFT + _SIDE / 2}" y="{_y(0) + 40:.0f}" text-anchor="middle">probability</text>'
        f'<text x="20" y="{middle}" text-anchor="middle" transform="rotate(-90 20 {middle})">share of answers</text>'
        "</svg>\n"
    )


def _x(value: float) -> float:
    return _LEFT + value * _SIDE


def _y(value: float) -> float:
    return _TOP + (1 - value) * _SIDE
