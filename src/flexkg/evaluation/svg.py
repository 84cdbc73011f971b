"""Pictures as plain SVG: enough for bars, whiskers and histograms, without a library."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

BLUE, ORANGE, GREY = "#1d4ed8", "#c2410c", "#9ca3af"


_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_PARTS = 5


@dataclass(frozen=True)
class Scale:
    """An axis with round ends and round steps between them."""

    least: float
    most: float
    step: float

    @classmethod
    def over(cls, values: Iterable[float]) -> Scale:
        """The narrowest that holds all values in few steps."""
        found = list(values) or [0.0]
        low, high = min(found), max(found)
        # Values that hardly differ are not drawn as if they did.
        room = max(high - low, max(abs(low), abs(high)) / _PARTS) or 1.0
        unit = 10.0 ** math.floor(math.log10(room / _PARTS))
        for step in (unit * part for part in _STEPS if unit * part * _PARTS >= room):
            # A value that is on a step but for rounding needs no further one.
            first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
            if last - first <= _PARTS:
                break
        return cls(first * step, max(last, first + 1) * step, step)

    @property
    def ticks(self) -> list[float]:
        """The ends and what is between them."""
        return [self.least + self.step * part for part in range(round((self.most - self.least) / self.step) + 1)]

    def part(self, value: float) -> float:
        """How far from the lower end to the upper one."""
        return (value - self.least) / (self.most - self.least)


def document(width: float, height: float, body: str) -> str:
    """A whole picture."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="white"/>{body}</svg>\n'
    )


def text(x: float, y: float, content: str, anchor: str = "start", style: str = "") -> str:
    """A line of text; `style` is more attributes."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style and " " + style}>{escape(content)}</text>'


def box(x: float, y: float, width: float, height: float, colour: str, title: str = "") -> str:
    """A filled rectangle that says what it is when pointed at."""
    inner = f"<title>{escape(title)}</title>" if title else ""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(0.0, height):.1f}"'
    return f'<rect {place} fill="{colour}">{inner}</rect>'


def line(points: Sequence[tuple[float, float]], colour: str = "#888", style: str = "") -> str:
    """A line through points."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}"{style and " " + style}/>'


def legend(x: float, y: float, names: Mapping[str, str]) -> str:
    """Names beside their colours, in a row."""
    body = ""
    for name, colour in names.items():
        body += box(x, y - 9, 10, 10, colour) + text(x + 14, y, name)
        x += 26 + 7 * len(name)
    return body
