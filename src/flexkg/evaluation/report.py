"""An evaluation on disk and on paper: JSON, CSV and pictures."""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING, Any

from flexkg.evaluation import svg
from flexkg.evaluation.evaluate import AVERAGES
from flexkg.kg.storage import atomic_file, os_errors, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from flexkg.evaluation.histogram import Histogram

COLUMNS = ("queries", "mrr", "hits@1", "hits@3", "hits@10", "mrr_optimistic", "mrr_pessimistic")
_NAMES = {"mrr": "all", "mrr_epfo": "EPFO", "mrr_negation": "negation"}


def rows(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each shape, then for each average, of what `Evaluation.to_dict` gives and was put beside it."""
    found = []
    for name, row in [*result["shapes"].items(), *((name, result["averages"].get(name)) for name in _NAMES)]:
        if row is None:
            continue
        average = name in _NAMES and name not in result["shapes"]
        line = {"shape": _NAMES[name] if average else name}
        line |= {column: row.get(column) for column in COLUMNS}
        line |= {"ci95_low": row["ci95"][0], "ci95_high": row["ci95"][1]}
        # An average over some shapes is not to be set beside one over all.
        line |= {"shapes": len(row["shapes"]), "of": len(AVERAGES[name])} if average else {"shapes": None, "of": None}
        for other in ("baseline", "paper"):
            if other in result:
                whole = not average or other == "baseline" or line["shapes"] == line["of"]
                line[f"{other}_mrr"] = result[other].get(name) if whole else None
        found.append(line)
    return found


def to_csv(result: Mapping[str, Any]) -> str:
    """The rows as CSV, numbers in full."""
    lines = rows(result)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: "" if value is None else value for key, value in line.items()} for line in lines)
    return out.getvalue()


def write_report(out: Path, result: Mapping[str, Any], pictures: Mapping[str, str]) -> None:
    """Write report.json, report.csv and the pictures into a folder, each at once or not at all."""
    with os_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    with atomic_file(out / "report.json") as partial:
        write_json(partial, result)
    for name, content in {"report.csv": to_csv(result), **pictures}.items():
        with atomic_file(out / name) as partial:
            partial.write_text(content, encoding="utf-8")


def draw_mrr(result: Mapping[str, Any], title: str) -> str:
    """MRR by shape with its interval, beside the paper's and the baseline's where they are known."""
    lines = rows(result)
    series = {"mrr": ("this run", svg.BLUE), "paper_mrr": ("paper", svg.ORANGE), "baseline_mrr": ("baseline", svg.GREY)}
    series = {key: look for key, look in series.items() if any(line.get(key) is not None for line in lines)}
    left, top, inner = 44, 50, 220
    step = 18 * len(series) + 12
    width, bottom = left + step * len(lines) + 20, top + inner
    values = [line[key] for line in lines for key in (*series, "ci95_high") if line.get(key) is not None]
    scale = svg.Scale.over([0.0, 1.0, *(100 * value for value in values)])
    body = svg.text(left, 20, title, style='font-weight="bold"')
    body += svg.legend(left, 38, dict(series.values()))
    for tick in scale.ticks:
        y = bottom - inner * scale.part(tick)
        body += svg.line([(left, y), (width - 20, y)], "#e5e7eb") + svg.text(left - 6, y + 4, f"{tick:g}", "end")
    for number, row in enumerate(lines):
        x = left + step * number + 6
        for place, (key, (name, colour)) in enumerate(series.items()):
            if row.get(key) is None:
                continue
            value, at = 100 * row[key], x + 18 * place
            y = bottom - inner * scale.part(value)
            body += svg.box(at, y, 15, bottom - y, colour, f"{name}: {row['shape']} {value:.1f}")
            above = y if key != "mrr" else bottom - inner * scale.part(100 * row["ci95_high"])
            body += svg.text(at + 7.5, above - 4, f"{value:.1f}", "middle", 'font-size="8"')
        low, high = (bottom - inner * scale.part(100 * row[key]) for key in ("ci95_low", "ci95_high"))
        body += svg.line([(x + 7.5, low), (x + 7.5, high)], "#111")
        body += "".join(svg.line([(x + 4.5, y), (x + 10.5, y)], "#111") for y in (low, high))
        body += svg.text(x + 9 * len(series) - 1.5, bottom + 16, row["shape"], "middle")
    return svg.document(width, bottom + 30, body + svg.line([(left, top), (left, bottom), (width - 20, bottom)]))


_LOOKS = {"others": svg.GREY, "easy": svg.BLUE, "hard": svg.ORANGE, "known": svg.BLUE, "held out": svg.ORANGE}


def draw_histograms(histograms: Sequence[Histogram], title: str, across: int = 3) -> str:
    """A panel for each: number of entities over score, on a logarithmic scale, since few entities are answers."""
    wide, high = 300, 190
    across = min(across, len(histograms))
    body = svg.text(20, 20, title, style='font-weight="bold"')
    kinds = dict.fromkeys(kind for histogram in histograms for kind in histogram.counts)
    body += svg.legend(20, 40, {kind: _LOOKS[kind] for kind in ("others", *kinds)})
    for number, histogram in enumerate(histograms):
        body += _panel(histogram, 20 + wide * (number % across), 56 + high * (number // across), wide - 20, high - 24)
    return svg.document(20 + wide * across, 56 + high * -(-len(histograms) // across), body)


def _panel(histogram: Histogram, x: float, y: float, width: float, height: float) -> str:
    top, bottom, left = y + 18, y + height - 18, x + 34
    most = max(1.0, *(math.log10(1 + int(column.max())) for column in histogram.counts.values()))
    bar = (x + width - left) / (len(histogram.edges) - 1)
    name = histogram.name if len(histogram.name) <= 44 else histogram.name[:43] + "…"
    body = svg.text(left, y + 10, name)
    # The rest first: the few answers are drawn over it.
    for kind in ("others", *(kind for kind in histogram.counts if kind != "others")):
        for place, count in enumerate(histogram.counts[kind].tolist()):
            if count:
                size = (bottom - top) * math.log10(1 + count) / most
                low, high = histogram.edges[place : place + 2]
                note = f"{count:,} {kind} from {low:.2f} to {high:.2f}"
                body += svg.box(left + bar * place, bottom - size, bar, size, _LOOKS[kind] + "b0", note)
    for power in range(math.floor(most) + 1):
        at = bottom - (bottom - top) * math.log10(1 + 10**power) / most
        if at >= top - 1:
            body += svg.text(left - 5, at + 4, f"{10**power:,}", "end", 'font-size="9"')
    ends = ((left, histogram.edges[0], "start"), (x + width, histogram.edges[-1], "end"))
    body += "".join(svg.text(at, bottom + 14, f"{edge:.2f}", anchor, 'font-size="9"') for at, edge, anchor in ends)
    return body + svg.line([(left, top), (left, bottom), (x + width, bottom)])
