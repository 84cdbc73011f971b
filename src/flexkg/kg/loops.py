"""Relations that never lead from a thing to itself: no country borders itself, as a model of likeness would have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEWEST = 30
"""Facts without a loop after which none is expected; see decision 0017 for how often that errs."""


def loopless(triples: NDArray[Any], relations: int) -> NDArray[np.bool_]:
    """(relations,): whether a relation has enough facts, and none of them is a loop."""
    facts = np.bincount(triples[:, 1], minlength=relations)
    loops = np.bincount(triples[triples[:, 0] == triples[:, 2], 1], minlength=relations)
    found: NDArray[np.bool_] = (facts >= FEWEST) & (loops == 0)
    return found
