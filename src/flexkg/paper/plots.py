"""Plots as SVG: bars by shape, models line by line, points over minutes, curves over a setting."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from flexkg.evaluation import svg

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

COLOURS = ("#1d4ed8", "#c2410c", "#15803d", "#7e22ce", "#be123c", "#0e7490", "#a16207", "#4d7c0f", "#6b21a8", "#334155")
_PAPER, _GRID = svg.GREY, "#e5e7eb"
_TOP, _BOTTOM, _INNER, _GAP = 76, 36, 220, 56
_WIDE, _NARROW = 17, 8
"""Bars that have their value written above them, and the others."""

_UNIT = svg.Scale(0.0, 1.0, 1.0)


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
class Curve:
    """A line through points."""

    name: str
    """Curves of one name share a colour."""
    note: str
    """Shown when pointed at, before the values of a point."""
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Value:
    """A figure with its interval, if that is known."""

    note: str
    """Shown when pointed at."""
    value: float
    around: tuple[float, float] | None = None


@dataclass(frozen=True)
class Row:
    """A model in a plot of models."""

    name: str
    paper: float | None
    ours: Sequence[Value]
    """One for each seed."""


@dataclass(frozen=True)
class _Panel:
    """A part of a picture with its own scales."""

    left: float
    width: float
    upright: svg.Scale
    across: svg.Scale = _UNIT
    top: float = _TOP

    @property
    def bottom(self) -> float:
        return self.top + _INNER

    def x(self, value: float) -> float:
        return self.left + self.width * self.across.part(value)

    def y(self, value: float) -> float:
        return self.top + _INNER * (1 - self.upright.part(value))

    def frame(self, title: str, below: str = "") -> str:
        body = svg.text(self.left, self.top - 10, title)
        for value in self.upright.ticks:
            body += svg.line([(self.left, self.y(value)), (self.left + self.width, self.y(value))], _GRID)
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
        label = svg.text(ends[0][0] + 2, ends[0][1] - 4, note, style='font-size="9" fill="#6b7280"')
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
        panel = _Panel(44, step * len(shapes), svg.Scale.over([0.0, *values]), top=top)
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


_LINE, _LABELS = 20, 170


def draw_models(title: str, panels: Mapping[str, Sequence[Row]]) -> str:
    """A line for each model: the paper's value as a tick, ours as dots with their intervals, in panels of one order."""
    names = list(dict.fromkeys(row.name for rows in panels.values() for row in rows))
    top, width = 84.0, 250.0
    bottom = top + _LINE * len(names)
    body = svg.text(14, 18, title, style='font-weight="bold"')
    body += svg.legend(14, 38, {"the paper": _PAPER, "here, a dot for each seed with its 95% interval": COLOURS[0]})
    body += "".join(
        svg.text(_LABELS - 10, top + _LINE * (place + 0.5) + 4, name, "end") for place, name in enumerate(names)
    )
    left = float(_LABELS)
    for panel, rows in panels.items():
        values = [value for row in rows for each in row.ours for value in (each.value, *(each.around or ()))]
        scale = svg.Scale.over([*values, *(row.paper for row in rows if row.paper is not None)])
        body += svg.text(left, top - 10, panel)
        for tick in scale.ticks:
            x = left + width * scale.part(tick)
            body += svg.line([(x, top), (x, bottom)], _GRID)
            body += svg.text(x, bottom + 15, f"{tick:g}", "middle", 'font-size="10"')
        for row in rows:
            y = top + _LINE * (names.index(row.name) + 0.5)
            if row.paper is not None:
                x = left + width * scale.part(row.paper)
                body += svg.box(x - 1.5, y - 7, 3, 14, _PAPER, f"{row.name}, the paper: {row.paper:.1f}")
            for each in row.ours:
                if each.around is not None:
                    body += svg.line([(left + width * scale.part(end), y) for end in each.around], COLOURS[0])
                body += _dot(left + width * scale.part(each.value), y, COLOURS[0], each.note)
        left += width + 40
    return svg.document(left - 20, bottom + 28, body)


def draw_minutes(
    title: str,
    panels: Mapping[str, Sequence[Point]],
    levels: Mapping[str, tuple[float, str]],
    below: str,
    order: Sequence[str],
) -> str:
    """Points in panels beside each other, minutes along the bottom; levels are dashed lines with their notes."""
    looks = _numbers(order, (point.name for points in panels.values() for point in points))
    across = svg.Scale.over([0.0, *(point.x for points in panels.values() for point in points)])
    left, width = 44.0, _room(len(panels))
    body = svg.text(44, 18, title, style='font-weight="bold"')
    for name, points in panels.items():
        values = [point.y for point in points] + ([levels[name][0]] if name in levels else [])
        panel = _Panel(left, width, svg.Scale.over(values), across)
        body += panel.frame(name, below) + panel.ticks(across.ticks)
        if name in levels:
            body += panel.dashed(*levels[name])
        body += "".join(
            _mark(panel.x(point.x), panel.y(point.y), looks[point.name], point.note, point.hollow) for point in points
        )
        left += width + _GAP
    return _with_names(body, left - _GAP + 16, looks)


def _room(panels: int) -> float:
    """The width of each of so many panels: a single one takes the whole picture."""
    return 330.0 if panels > 1 else 660.0 + _GAP


def _numbers(order: Iterable[str], used: Iterable[str]) -> dict[str, int]:
    """The marks of those that are used: by an order of more names, so that one has the same mark in several plots."""
    wanted = dict.fromkeys(used)
    return {name: number for number, name in enumerate(dict.fromkeys([*order, *wanted])) if name in wanted}


def _with_names(body: str, width: float, looks: Mapping[str, int]) -> str:
    """Panels as a picture, with what their marks mean below, three in a row."""
    bottom = _TOP + _INNER + _BOTTOM + 14
    for place, (name, number) in enumerate(looks.items()):
        x, y = 50 + 240 * (place % 3), bottom + 16 * (place // 3)
        body += _mark(x, y - 4, number, name) + svg.text(x + 10, y, name)
    return svg.document(max(width, 760), bottom + 16 * -(-len(looks) // 3), body)


def _mark(x: float, y: float, number: int, note: str, hollow: bool = False) -> str:
    """A dot, or a square once all colours are used."""
    colour = COLOURS[number % len(COLOURS)]
    if number < len(COLOURS):
        return _dot(x, y, colour, note, hollow)
    place = f'x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7"'
    fill = "white" if hollow else colour
    return f'<rect {place} fill="{fill}" stroke="{colour}"><title>{escape(note)}</title></rect>'


_TICKS = 6


def draw_curves(title: str, panels: Mapping[str, Sequence[Curve]], below: str, order: Sequence[str]) -> str:
    """Curves in panels beside each other, a mark at each point."""
    looks = _numbers(order, (curve.name for curves in panels.values() for curve in curves))
    body = svg.text(44, 18, title, style='font-weight="bold"')
    left, width = 44.0, _room(len(panels))
    for name, curves in panels.items():
        places = [place for curve in curves for place in curve.points]
        ticks = sorted({x for x, _ in places})
        panel = _Panel(left, width, svg.Scale.over(y for _, y in places), svg.Scale(0.0, 1.05 * max(ticks), 1.0))
        # As many as there is room for, the last among them.
        body += panel.frame(name, below) + panel.ticks(ticks[:: -math.ceil(len(ticks) / _TICKS)])
        for curve in curves:
            number = looks[curve.name]
            line = [(panel.x(x), panel.y(y)) for x, y in curve.points]
            body += svg.line(line, COLOURS[number % len(COLOURS)], 'stroke-width="2"')
            for (x, y), (at, value) in zip(curve.points, line, strict=True):
                body += _mark(at, value, number, f"{curve.note}: {y:.2f} at {x:g}")
        left += width + _GAP
    return _with_names(body, left - _GAP + 16, looks)


def _dot(x: float, y: float, colour: str, note: str, hollow: bool = False) -> str:
    fill = "white" if hollow else colour
    place = f'cx="{x:.1f}" cy="{y:.1f}" r="4"'
    return f'<circle {place} fill="{fill}" stroke="{colour}"><title>{escape(note)}</title></circle>'
