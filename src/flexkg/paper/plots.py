"""The plots of the page of results, as SVG: MRR by shape, MRR against minutes, and what the dimension changes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from flexkg.evaluation import svg

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COLOURS = ("#1d4ed8", "#c2410c", "#15803d", "#7e22ce", "#be123c", "#0e7490", "#a16207", "#4d7c0f", "#6b21a8", "#334155")
_PAPER = svg.GREY
_TOP, _BOTTOM, _INNER, _GAP = 76, 36, 220, 56
_WIDE, _NARROW = 17, 8
"""Bars that have their value written above them, and the others."""


@dataclass(frozen=True)
class Point:
    """A run in a plot of two quantities."""

    name: str
    """Runs of one name share a colour."""
    note: str
    """Shown when pointed at."""
    x: float
    y: float
    hollow: bool = False


@dataclass(frozen=True)
class _Panel:
    """A part of a picture with its own scales."""

    left: float
    width: float
    most: float
    """At the top of the upright scale, which begins at 0."""
    least_x: float = 0.0
    most_x: float = 1.0
    top: float = _TOP

    @property
    def bottom(self) -> float:
        return self.top + _INNER

    def x(self, value: float) -> float:
        return self.left + self.width * (value - self.least_x) / (self.most_x - self.least_x)

    def y(self, value: float) -> float:
        return self.top + _INNER * (1 - value / self.most)

    def frame(self, title: str, below: str = "") -> str:
        body = svg.text(self.left, self.top - 10, title)
        for part in range(5):
            value = self.most * part / 4
            body += svg.line([(self.left, self.y(value)), (self.left + self.width, self.y(value))], "#e5e7eb")
            body += svg.text(self.left - 6, self.y(value) + 4, f"{value:g}", "end", 'font-size="10"')
        if below:
            body += svg.text(self.left + self.width, self.bottom + 30, below, "end", 'font-size="10"')
        return body

    def ticks(self, values: Sequence[float]) -> str:
        return "".join(
            svg.text(self.x(value), self.bottom + 15, f"{value:g}", "middle", 'font-size="10"') for value in values
        )

    def dashed(self, value: float, note: str) -> str:
        """A level to reach."""
        ends = [(self.left, self.y(value)), (self.left + self.width, self.y(value))]
        label = svg.text(ends[1][0], ends[1][1] - 4, note, "end", 'font-size="9" fill="#6b7280"')
        return svg.line(ends, "#6b7280", 'stroke-dasharray="4 3"') + label


def draw_shapes(title: str, groups: Mapping[str, Sequence[str]], series: Mapping[str, Mapping[str, float]]) -> str:
    """MRR × 100 by shape, a panel for each group of shapes; the values of the first two series are written out."""
    widths = [_WIDE if place < 2 else _NARROW for place in range(len(series))]
    step = sum(widths) + 12
    looks = dict(zip(series, (_PAPER, *COLOURS), strict=False))
    body = svg.text(44, 18, title, style='font-weight="bold"') + svg.legend(44, 38, looks)
    top = float(_TOP)
    for group, shapes in groups.items():
        values = [series[name][shape] for name in series for shape in shapes if shape in series[name]]
        if not values:
            continue
        panel = _Panel(44, step * len(shapes), _round_up(max(values)), top=top)
        body += panel.frame(group)
        for place, shape in enumerate(shapes):
            at = panel.left + step * place + 6
            body += svg.text(at + step / 2 - 6, panel.bottom + 15, shape, "middle")
            for (name, found), width in zip(series.items(), widths, strict=True):
                if shape in found:
                    body += _bar(panel, at, width, found[shape], looks[name], f"{name}: {shape} {found[shape]:.1f}")
                at += width
        top = panel.bottom + _GAP
    longest = max(map(len, groups.values()))
    return svg.document(max(60 + step * longest, 620), top - _GAP + _BOTTOM, body)


def _bar(panel: _Panel, x: float, width: float, value: float, colour: str, note: str) -> str:
    y = panel.y(value)
    body = svg.box(x, y, width - 1, panel.bottom - y, colour, note)
    if width == _WIDE:
        body += svg.text(x + width / 2 - 0.5, y - 3, f"{value:.1f}", "middle", 'font-size="8"')
    return body


def draw_minutes(
    title: str, panels: Mapping[str, Sequence[Point]], levels: Mapping[str, tuple[float, str]], below: str
) -> str:
    """Points in panels beside each other, minutes along the bottom; levels are dashed lines with their notes."""
    names = list(dict.fromkeys(point.name for points in panels.values() for point in points))
    most_x = _round_up(max((point.x for points in panels.values() for point in points), default=1.0))
    left, width = 44.0, 330.0
    body = svg.text(44, 18, title, style='font-weight="bold"')
    for name, points in panels.items():
        values = [point.y for point in points] + ([levels[name][0]] if name in levels else [])
        panel = _Panel(left, width, _round_up(max(values, default=1.0)), 0.0, most_x)
        body += panel.frame(name, below) + panel.ticks([most_x * part / 4 for part in range(5)])
        if name in levels:
            body += panel.dashed(*levels[name])
        body += "".join(
            _mark(panel.x(point.x), panel.y(point.y), names.index(point.name), point.note, point.hollow)
            for point in points
        )
        left += width + _GAP
    return _with_names(body, left - _GAP + 16, names)


def _with_names(body: str, width: float, names: Sequence[str]) -> str:
    """Panels as a picture, with what their marks mean below, three in a row."""
    bottom = _TOP + _INNER + _BOTTOM + 14
    for place, name in enumerate(names):
        x, y = 50 + 240 * (place % 3), bottom + 16 * (place // 3)
        body += _mark(x, y - 4, place, name) + svg.text(x + 10, y, name)
    return svg.document(max(width, 760), bottom + 16 * -(-len(names) // 3), body)


def _mark(x: float, y: float, number: int, note: str, hollow: bool = False) -> str:
    """A dot, or a square once all colours are used."""
    colour = COLOURS[number % len(COLOURS)]
    if number < len(COLOURS):
        return _dot(x, y, colour, note, hollow)
    place = f'x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7"'
    fill = "white" if hollow else colour
    return f'<rect {place} fill="{fill}" stroke="{colour}"><title>{escape(note)}</title></rect>'


_TICKS = 6


def draw_curves(title: str, panels: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]], below: str) -> str:
    """Curves in panels beside each other, a mark at each point."""
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    body = svg.text(44, 18, title, style='font-weight="bold"')
    left, width = 44.0, 330.0
    for name, curves in panels.items():
        points = [point for curve in curves.values() for point in curve]
        ticks = sorted({x for x, _ in points})
        panel = _Panel(left, width, _round_up(max(y for _, y in points)), 0.0, 1.05 * max(ticks))
        # As many as there is room for, the last among them.
        body += panel.frame(name, below) + panel.ticks(ticks[:: -math.ceil(len(ticks) / _TICKS)])
        for kind, curve in curves.items():
            place = names.index(kind)
            points = [(panel.x(x), panel.y(y)) for x, y in curve]
            body += svg.line(points, COLOURS[place % len(COLOURS)], 'stroke-width="2"')
            for (x, y), (at, value) in zip(curve, points, strict=True):
                body += _mark(at, value, place, f"{kind}: {y:.2f} at {x:g}")
        left += width + _GAP
    return _with_names(body, left - _GAP + 16, names)


def _dot(x: float, y: float, colour: str, note: str, hollow: bool = False) -> str:
    fill = "white" if hollow else colour
    place = f'cx="{x:.1f}" cy="{y:.1f}" r="4"'
    return f'<circle {place} fill="{fill}" stroke="{colour}"><title>{escape(note)}</title></circle>'


def _round_up(value: float) -> float:
    """A round number at or above a value, for the top of a scale."""
    unit = 10.0 ** math.floor(math.log10(max(value, 1e-9)))
    return next(unit * part for part in (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10) if unit * part >= value)
