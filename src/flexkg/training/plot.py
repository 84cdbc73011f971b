"""A picture of a run: loss and validation MRR over steps, as an SVG that needs no library."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from flexkg.evaluation import svg

if TYPE_CHECKING:
    from pathlib import Path

_WIDTH, _HEIGHT, _LEFT, _TOP = 640, 240, 60, 30
_COLOURS = {"loss": svg.ORANGE, "validation MRR": svg.BLUE}


def draw(metrics: Path) -> str:
    """Two panels from the lines of `metrics.jsonl`."""
    loss: list[tuple[float, float]] = []
    mrr: list[tuple[float, float]] = []
    with metrics.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if "loss" in row:
                loss.append((row["step"], row["loss"]))
            if "valid_mrr" in row:
                mrr.append((row["step"], row["valid_mrr"]))
    panels = [(name, points) for name, points in (("loss", loss), ("validation MRR", mrr)) if points]
    whole = _HEIGHT * max(1, len(panels))
    body = "".join(_panel(name, points, place * _HEIGHT) for place, (name, points) in enumerate(panels))
    return svg.document(_WIDTH, whole, body)


def _panel(name: str, points: list[tuple[float, float]], shift: float) -> str:
    steps = [step for step, _ in points]
    values = [value for _, value in points]
    low, high = min(0.0, *values), max(values) or 1.0
    first, last = min(steps), max(max(steps), min(steps) + 1)
    inner_width, inner_height = _WIDTH - _LEFT - 20, _HEIGHT - _TOP - 40

    def place(step: float, value: float) -> str:
        x = _LEFT + (step - first) / (last - first) * inner_width
        y = shift + _TOP + (high - value) / (high - low or 1.0) * inner_height
        return f"{x:.1f},{y:.1f}"

    bottom = shift + _TOP + inner_height
    line = " ".join(place(step, value) for step, value in points)
    labels = "".join(
        f'<text x="{_LEFT - 6}" y="{y:.0f}" text-anchor="end">{value:.3g}</text>'
        for value, y in ((high, shift + _TOP + 4), (low, bottom + 4))
    )
    ends = "".join(
        f'<text x="{x:.0f}" y="{bottom + 18:.0f}" text-anchor="middle">{step:,.0f}</text>'
        for step, x in ((first, _LEFT), (last, _LEFT + inner_width))
    )
    return (
        f'<text x="{_LEFT}" y="{shift + 18:.0f}" font-weight="bold">{name}</text>'
        f'<path d="M{_LEFT},{shift + _TOP} V{bottom} H{_LEFT + inner_width}" fill="none" stroke="#888"/>'
        f'<polyline points="{line}" fill="none" stroke="{_COLOURS[name]}" stroke-width="1.5"/>{labels}{ends}'
    )
