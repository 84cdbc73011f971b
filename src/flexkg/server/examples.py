"""Questions to begin with: chosen ones for `world`, drawn ones for other graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flexkg.errors import FlexError
from flexkg.query.shapes import SHAPES, ground
from flexkg.sampling.sampler import Sampler, WalkIndex

if TYPE_CHECKING:
    from flexkg.predictor.predictor import Predictor
    from flexkg.query.terms import Term

_WORLD = (
    ("Neighbours of France where people speak German, without the Euro",
     "?x : borders(France, ?x) & speaks(?x, German) & !uses(?x, Euro)"),
    ("Who borders Switzerland?", "?x : borders(Switzerland, ?x)"),
    ("Capitals of Portugal's neighbours", "?x : capital(?y, ?x) & borders(Portugal, ?y)"),
    ("South America, not next to Brazil", '?x : in_continent(?x, "South America") & !borders(?x, Brazil)'),
    ("Next to Norway or Finland, but not both", "?x : borders(Norway, ?x) ^ borders(Finland, ?x)"),
    ("Where they speak Portuguese or Spanish in Africa",
     "?x : in_continent(?x, Africa) & (speaks(?x, Portuguese) | speaks(?x, Spanish))"),
    ("Italy's neighbours: if the Euro, then German",
     "?x : borders(Italy, ?x) & (uses(?x, Euro) -> speaks(?x, German))"),
)  # fmt: skip
_DRAWN = {"1p": "One step", "2p": "Two steps", "2i": "Both", "2in": "One but not the other", "2u": "Either"}
_TRIES, _MOST_ANSWERS = 32, 30


def examples(predictor: Predictor) -> list[dict[str, str]]:
    """Questions in words and as text, all of which the run can answer."""
    if predictor.run.dataset.name == "world":
        chosen = [{"title": title, "query": query} for title, query in _WORLD if _answerable(predictor, query)]
        if chosen:
            return chosen
    return _drawn(predictor)


def _answerable(predictor: Predictor, query: str) -> bool:
    try:
        predictor.ask(query, 1)
    except FlexError:
        return False
    return True


def _drawn(predictor: Predictor) -> list[dict[str, str]]:
    """A question of each familiar shape that has a few known answers, the shortest of those drawn."""
    sampler = Sampler(WalkIndex(predictor.run.dataset.graph("train")), seed=0)
    found = []
    for shape, title in _DRAWN.items():
        entities, relations = sampler.draw(SHAPES[shape], _TRIES)
        terms = [ground(SHAPES[shape], *row) for row in zip(entities.tolist(), relations.tolist(), strict=True)]
        texts = [predictor.kg.text(term) for term in terms if _listable(predictor, term)]
        text = min(texts, key=lambda text: (len(text), text), default=None)
        if text is not None and _answerable(predictor, text):
            found.append({"title": title, "query": text})
    return found


def _listable(predictor: Predictor, term: Term) -> bool:
    return 0 < predictor.kg.answer(term).count <= _MOST_ANSWERS
