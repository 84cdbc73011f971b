"""Compiled counting for the CPU (extra `fast`): how many rivals score above each hard answer, and how many alike.

A row of scores is gone through in blocks that stay in the first cache, once for each of the row's hard answers: a
comparison and an addition for eight scores at a time, which up to hundreds of answers beats sorting the row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from flexkg.compiled import compiled
from flexkg.threads import share_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK = 4096
"""Scores of a block: in float32 half of a first cache, and few enough that a float32 counts them exactly."""
_REORDER = {"reassoc", "nsz"}


@compiled(fastmath=_REORDER)
def _compare(block, value):
    """How many are above the value, and how many equal; what is not a number is neither."""
    zero, one = block.dtype.type(0), block.dtype.type(1)
    above, equal = zero, zero
    for j in range(len(block)):
        above += one if block[j] > value else zero
        equal += one if block[j] == value else zero
    return above, equal


@compiled(fastmath=_REORDER)
def _different(block, value):
    """How many differ from the value, and how many are not numbers."""
    zero, one = block.dtype.type(0), block.dtype.type(1)
    different, not_numbers = zero, zero
    for j in range(len(block)):
        different += one if block[j] != value else zero
        not_numbers += one if block[j] != block[j] else zero
    return different, not_numbers


@compiled()
def _count(first, last, scores, hard_offsets, hard, easy_offsets, easy, above, equal, not_numbers, constant):
    width = scores.shape[1]
    rivals = np.empty(width, scores.dtype)
    for row in range(first, last):
        values = scores[row]
        wanted = hard[hard_offsets[row] : hard_offsets[row + 1]]
        known = easy[easy_offsets[row] : easy_offsets[row + 1]]
        different, missing = 0, 0
        for start in range(0, width, _BLOCK):
            parts = _different(values[start : start + _BLOCK], values[0])
            different += int(parts[0])
            missing += int(parts[1])
        not_numbers[row], constant[row] = missing, different == 0 or missing == width
        # Answers do not compete: nothing is above or equal to what is not a number.
        rivals[:] = values
        for answers in (wanted, known):
            for entity in answers:
                missing -= values[entity] != values[entity]
                rivals[entity] = np.nan
        numbers = width - len(wanted) - len(known) - missing
        begin = hard_offsets[row]
        for start in range(0, width, _BLOCK):
            block = rivals[start : start + _BLOCK]
            for place in range(len(wanted)):
                higher, alike = _compare(block, values[wanted[place]])
                above[begin + place] += int(higher)
                equal[begin + place] += int(alike)
        for place in range(len(wanted)):
            own = values[wanted[place]]
            if own != own:
                above[begin + place] = numbers
            equal[begin + place] += missing


def count(
    scores: NDArray[Any],
    hard_offsets: NDArray[np.int64],
    hard: NDArray[np.int32],
    easy_offsets: NDArray[np.int64],
    easy: NDArray[np.int32],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Rivals above and equal to each hard answer; for each row how many scores are no numbers, and if all are alike."""
    rows = len(scores)
    above, equal = np.zeros(len(hard), np.int64), np.zeros(len(hard), np.int64)
    not_numbers, constant = np.zeros(rows, np.int64), np.zeros(rows, np.bool_)
    settings = scores, hard_offsets, hard, easy_offsets, easy, above, equal, not_numbers, constant
    share_out(rows, scores.size, lambda first, last: _count(first, last, *settings))
    return above, equal, not_numbers, constant
