"""Draws the paper's second case study: a query of two conditions, with the answers at every node of its graph.

Asks a run that was trained on FB15k-237, writes what it found as JSON, and draws that:

    python scripts/case_study.py runs/fb15k-237

Draws it again from the JSON alone:

    python scripts/case_study.py --from docs/img/case-study-religion.json
"""

from __future__ import annotations

import argparse
import re
import sys
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flexkg.errors import DataError, FlexError
from flexkg.evaluation.svg import text
from flexkg.kg.storage import atomic_file, os_errors, read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flexkg.predictor.predictor import Predictor
    from flexkg.query.terms import Term

OUT = Path(__file__).resolve().parents[1] / "docs" / "img" / "case-study-religion.svg"
QUERY: list[Any] = [
    ["/m/09c7w0", ["+/location/statistical_region/religions./location/religion_percentage/religion"]],
    ["/m/03vrnh", ["+/people/person/religion"]],
]
"""Religions of the United States of America that are a religion of Sunny Deol, in the benchmarks' nested form."""

_WIDTH, _GAP, _ROW, _MARGIN, _TOP = 272, 56, 22, 16, 46
_LONGEST = 26
_MARKS = {"learnt": "✓", "held out": "◆", None: ""}
_MEANING = {
    "learnt": "proved by the facts that the model learnt",
    "held out": "proved with held-out facts, which it never saw",
}
_STYLE = """
  <!-- Cards carry their own background, and the rest is a middle grey: both hold on a light and on a dark page. -->
  <style>
    .line { fill: none; stroke: #8b93a1; stroke-width: 1.8; }
    .tip { fill: #8b93a1; }
    .card { stroke-width: 1.2; }
    .entity { fill: #fdf3dc; stroke: #d9a93f; }
    .project { fill: #e6f0fb; stroke: #5b8fc9; }
    .logic { fill: #efe9fa; stroke: #8d6fc4; }
    .root { fill: #e2f4e8; stroke: #4b9b69; }
    .word { fill: #1f2430; font-size: 13px; }
    .head { fill: #1f2430; font-size: 14px; font-weight: 600; }
    .score { fill: #4b5563; font-size: 12px; font-variant-numeric: tabular-nums; }
    .mark { fill: #15803d; font-size: 13px; }
    .note { fill: #7d8594; font-size: 13px; }
  </style>
"""


def collect(run: Predictor, query: Sequence[Any] = QUERY, top: int = 5) -> dict[str, Any]:
    """Ask, and keep of every node of the query the `top` entities that the model itself finds likeliest."""
    from flexkg.query.walk import postorder

    term = run.parse(query)
    found = run.ask(term, top)
    reasoning = found.explain(top)
    # The steps begin with the parts of the query as it was asked, in this order.
    parts = list(dict.fromkeys(postorder(term)))
    answers = _answers(run, parts, top)
    return {
        "query": found.query,
        "run": _about(run),
        "asked": reasoning.asked,
        "nodes": [
            {**step.to_dict(), "answers": rows}
            for step, rows in zip(reasoning.steps[: len(parts)], answers, strict=True)
        ],
        "proved": run.kg.answer(term).names(),
        "notes": list(reasoning.notes),
        "reasons": [reason.to_dict() for reason in reasoning.reasons],
    }


def _answers(run: Predictor, parts: Sequence[Term], top: int) -> list[list[dict[str, Any]]]:
    """The highest scores of each part, with what is proved marked as learnt or held out.

    At an entity of the query these are the entities that lie nearest to it, as in the paper.
    """
    learnt = run.kg.engine("test" if run.run.config.data.train_on == "all" else "train").answer(parts).rows()
    found = []
    for judged, (listed, complement) in zip(run.judge.judge(parts), learnt, strict=True):
        seen, rows = set(listed), []
        for answer in judged.listed(judged.highest(top), run.run.dataset):
            facts = None if not answer.known else "learnt" if (answer.id in seen) != complement else "held out"
            rows.append({**answer.to_dict(), "facts": facts})
        found.append(rows)
    return found


def _about(run: Predictor) -> dict[str, Any]:
    """What was trained, so that the picture can be made again."""
    manifest, training = run.run.manifest, run.run.config.training
    result = manifest.get("result", {})
    return {
        "model": run.model.name,
        "recipe": manifest.get("recipe", ""),
        "data": run.run.dataset.name,
        "dim": getattr(run.run.config.model, "dim", None),
        "seed": training.seed,
        "steps": result.get("steps"),
        "best": result.get("best"),
    }


def draw(data: Mapping[str, Any]) -> str:
    """The computation graph from left to right, a card for each node with its likeliest entities."""
    nodes = {node["id"]: node for node in data["nodes"]}
    heights = {id: 44 + _ROW * len(node["answers"]) for id, node in nodes.items()}
    column: dict[int, int] = {}
    for id, node in nodes.items():
        column[id] = max((column[part] + 1 for part in node["operands"]), default=0)
    middle, bottom = _middles(nodes, heights)
    left = {id: _MARGIN + column[id] * (_WIDTH + _GAP) for id in nodes}
    width = max(left.values()) + _WIDTH + _MARGIN
    body = text(_MARGIN, 26, _readable(data["query"]), style='class="note"')
    for id, node in nodes.items():
        body += "".join(_arrow(left[part] + _WIDTH, middle[part], left[id], middle[id]) for part in node["operands"])
    for id, node in nodes.items():
        place = left[id], middle[id] - heights[id] / 2, heights[id]
        body += _card(node, place, root=id == data["asked"])
    proved = f"Proved by all facts: {', '.join(data['proved']) or 'nothing'}."
    meaning = ". ".join(f"{_MARKS[kind]} {words}" for kind, words in _MEANING.items())
    body += text(_MARGIN, bottom + 26, f"{meaning}.", style='class="note"')
    body += text(_MARGIN, bottom + 46, proved, style='class="note"')
    size = f'viewBox="0 0 {width} {bottom + 60:g}" width="{width}" height="{bottom + 60:g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title desc" '
        f"font-family=\"system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif\">\n"
        f'  <title id="title">{escape(_readable(data["query"]))}</title>\n'
        f'  <desc id="desc">{escape(_described(data))}</desc>{_STYLE}{body}</svg>\n'
    )


def _middles(nodes: Mapping[int, Any], heights: Mapping[int, float]) -> tuple[dict[int, float], float]:
    """Where the middle of each card is: leaves below each other, everything else between its operands."""
    middle: dict[int, float] = {}
    bottom = float(_TOP)
    for id, node in nodes.items():
        if node["operands"]:
            places = [middle[part] for part in node["operands"]]
            middle[id] = (min(places) + max(places)) / 2
        else:
            # A leaf leaves room for the cards of its row, all of which may be as tall.
            middle[id] = bottom + max(heights.values()) / 2
            bottom += max(heights.values()) + 24
    return middle, bottom - 24


def _arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    bend = (x + to_x) / 2
    curve = f'<path class="line" d="M{x:g} {y:g} C{bend:g} {y:g} {bend:g} {to_y:g} {to_x - 8:g} {to_y:g}"/>'
    return f'{curve}<path class="tip" d="M{to_x:g} {to_y:g} l-9 -4.5 v9 z"/>\n'


def _card(node: Mapping[str, Any], place: tuple[float, float, float], *, root: bool) -> str:
    x, y, height = place
    kind = "root" if root else node["operator"] if node["operator"] in ("entity", "project") else "logic"
    body = f'<g class="card"><title>{escape(node["term"])}</title>'
    body += f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{height:g}" rx="8"/></g>\n'
    body += text(x + 14, y + 24, _short(_heading(node)), style='class="head"')
    for row, answer in enumerate(node["answers"]):
        line = y + 48 + _ROW * row
        body += f"<g><title>{escape(answer['name'])} ({escape(answer['entity'])})</title>"
        body += text(x + 14, line, _MARKS[answer["facts"]], style='class="mark"')
        body += text(x + 32, line, _short(answer["name"]), style='class="word"')
        body += text(x + _WIDTH - 12, line, f"{answer['score']:.2f}", "end", style='class="score"') + "</g>\n"
    return body


def _heading(node: Mapping[str, Any]) -> str:
    """An entity or a connective by its name, a relation with the way that it is followed."""
    if node["operator"] != "project":
        return str(node["label"])
    relation = _readable(node["label"]).partition("(")[0]
    return f"{relation} →" if node["label"].endswith("(..., ?)") else f"← {relation}"


def _readable(query: str) -> str:
    """Freebase's relations by their last word: `/people/person/religion` is `religion`."""
    plain = re.sub(r'"?/[^"(]*/([^"/(]+)"?\(', r"\1(", query)
    return plain.replace("_", " ")


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1].rstrip() + "…"


def _described(data: Mapping[str, Any]) -> str:
    """The picture in words, for whoever cannot see it."""
    return " ".join(
        f"{_readable(node['term'])}: {', '.join(answer['name'] for answer in node['answers'])}."
        for node in data["nodes"]
    )


def main(arguments: list[str] | None = None) -> int:
    """Ask or read, then draw; 2 on a user's mistake."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", type=Path, help="a run trained on FB15k-237")
    parser.add_argument("--from", dest="source", type=Path, help="draw from this JSON instead, without a run")
    parser.add_argument("--out", type=Path, help="the picture, beside its JSON; docs/img/case-study-religion.svg")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"), help="where to compute")
    parser.add_argument("--top", type=int, default=5, help="entities at each node")
    given = parser.parse_args(arguments)
    if (given.run is None) == (given.source is None):
        parser.error("give either a run folder or --from JSON")
    out = given.out or (OUT if given.source is None else given.source.with_suffix(".svg"))
    try:
        if given.source is not None:
            data = read_json(given.source)
            if not {"query", "asked", "nodes", "proved"} <= data.keys():
                raise DataError(f"{given.source} is no case study.", hint="Give a JSON file that this script wrote.")
        else:
            import flexkg

            data = collect(flexkg.open(given.run, given.device), top=given.top)
            _write(out.with_suffix(".json"), data)
        _write(out, draw(data))
    except FlexError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{out} written")
    return 0


def _write(path: Path, content: Mapping[str, Any] | str) -> None:
    with os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as partial:
            if isinstance(content, str):
                partial.write_text(content, encoding="utf-8")
            else:
                write_json(partial, content)


if __name__ == "__main__":
    sys.exit(main())
