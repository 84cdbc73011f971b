"""One answer of a ranking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

COLUMNS = {"rank": int, "entity": str, "name": str, "score": float, "probability": float, "known": bool}


@dataclass(frozen=True, slots=True)
class Prediction:
    """One entity of a ranking."""

    rank: int
    id: int
    entity: str
    name: str
    score: float
    """The model's score: the higher the likelier."""
    probability: float | None
    """1 for a known answer; for another the chance that it is one, or None where the run has no calibration."""
    known: bool
    """Whether the facts of the run's data prove it."""

    def to_dict(self) -> dict[str, Any]:
        """Plain Python, without the id."""
        return {column: getattr(self, column) for column in COLUMNS}


def mark(answer: Prediction) -> str:
    """`known`, the probability in per cent, or `predicted` where there is none."""
    if answer.known:
        return "known"
    return "predicted" if answer.probability is None else f"{100 * answer.probability:.1f} %"
