"""The page that lists the parameters lists those that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flexkg.models import MODELS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "parameters.md"
TITLES = {
    "gqe": "GQE",
    "query2box": "Query2box",
    "betae": "BetaE",
    "cone": "ConE",
    "flex": "FLEX",
    "transe": "TransE",
    "distmult": "DistMult",
    "complex": "ComplEx",
    "rotate": "RotatE",
    "tucker": "TuckER",
}
ENTITIES, RELATIONS, DIM, HIDDEN, ATTENTION, FEATURES, RELATION_DIM = 101, 26, 7, 11, 13, 5, 3
_SIZES = {
    "n": ENTITIES,
    "m": RELATIONS,
    "d": DIM,
    "2d": 2 * DIM,
    "3d": 3 * DIM,
    "h": HIDDEN,
    "a": ATTENTION,
    "k·d": FEATURES * DIM,
    "(k+1)·d": (FEATURES + 1) * DIM,
    "r": RELATION_DIM,
    "1": 1,
}


def listed(model: str) -> dict[str, tuple[int, ...]]:
    text = PAGE.read_text(encoding="utf-8")
    section = text.split(f"## {TITLES[model]}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| \((.*?)\) \| ", section, flags=re.MULTILINE)
    return {name: tuple(_SIZES[size] for size in shape.split(", ")) for name, shape in rows}


def general(name: str) -> str:
    """A FLEX parameter's name with letters for connective, feature part and place."""
    name = re.sub(r"^attention\.[a-z]+\.\d+\.", "attention.C.j.", name)
    name = re.sub(r"\.first\.\d+\.", ".first.p.", name)
    return re.sub(r"^complement\.\d+\.", "complement.j.", name)


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_is_on_the_page(name):
    settings = {"dim": DIM}
    if name in ("betae", "cone", "flex"):
        settings["hidden"] = HIDDEN
    if name == "tucker":
        settings["relation_dim"] = RELATION_DIM
    if name == "flex":
        settings |= {"features": FEATURES, "attention_hidden": ATTENTION, "negation": "mlp"}
        settings["connectives"] = ("intersect", "unite", "minus", "xor", "implies", "iff")
    model = MODELS[name](ENTITIES, RELATIONS, **settings)
    found = (
        {general(key): tuple(value.shape) for key, value in model.named_parameters()}
        if name == "flex"
        else {key: tuple(value.shape) for key, value in model.named_parameters()}
    )
    assert listed(name) == found
