"""How many non-answers score above each hard answer, and how many alike.

A score that is not a number tells nothing. A rival without one counts as equal to every answer: below it for the
optimist, above it for the pessimist. An answer without one has every rival that has a number above it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from flexkg.sampling.queries import Column


@dataclass(frozen=True, eq=False)
class Counts:
    """What ranks are made of."""

    above: NDArray[np.int64]
    """(hard answers,): rivals with a higher score."""
    equal: NDArray[np.int64]
    """(hard answers,): rivals with the same score, or with none."""
    not_numbers: NDArray[np.int64]
    """(queries,): scores that are not numbers."""
    constant: NDArray[np.bool_]
    """(queries,): whether all scores are alike, so that they tell nothing."""


def count_rivals(scores: Tensor, hard: Column, easy: Column) -> Counts:
    """Count in rows of scores, (queries, entities); easy and hard answers of a row are disjoint and do not compete."""
    if not len(scores) == len(hard) == len(easy):
        # The kernels would read past the end of the answers.
        raise ValueError(f"{len(scores)} rows of scores for {len(hard)} and {len(easy)} rows of answers")
    if scores.device.type == "cpu" and not os.environ.get("FLEXKG_PLAIN") and find_spec("numba") is not None:
        from flexkg.evaluation import kernels

        rows = scores.contiguous().numpy()
        return Counts(*kernels.count(rows, hard.offsets, hard.members, easy.offsets, easy.members))
    return _by_sorting(scores, hard, easy)


def _by_sorting(scores: Tensor, hard: Column, easy: Column) -> Counts:
    """Sort every row's rivals once and look each hard answer up by halving."""
    width, device = scores.shape[1], scores.device
    hard_rows, hard_ids = places(hard, device)
    easy_rows, easy_ids = places(easy, device)
    nan = scores.isnan()
    not_numbers = nan.sum(dim=1)
    constant = (scores == scores[:, :1]).all(dim=1) | (not_numbers == width)
    wanted = scores[hard_rows, hard_ids]
    rivals = scores.masked_fill(nan, torch.inf)
    rivals[hard_rows, hard_ids] = torch.inf
    rivals[easy_rows, easy_ids] = torch.inf
    missing = not_numbers.clone()
    missing.index_put_((hard_rows,), -nan[hard_rows, hard_ids].long(), accumulate=True)
    missing.index_put_((easy_rows,), -nan[easy_rows, easy_ids].long(), accumulate=True)
    numbers = width - missing
    for rows in (hard_rows, easy_rows):
        numbers.index_put_((rows,), rows.new_full((), -1), accumulate=True)
    del nan
    # What does not compete is infinite, and so behind all numbers, of which `numbers` are left in a row.
    ordered = rivals.sort(dim=1).values.flatten()
    most = numbers[hard_rows]
    below = _search(ordered, hard_rows * width, most, lambda values: values < wanted, width)
    not_above = _search(ordered, hard_rows * width, most, lambda values: values <= wanted, width)
    # Comparing with what is not a number is always false: nothing is below, and everything is above.
    above, equal = most - not_above, not_above - below + missing[hard_rows]
    columns = (part.cpu().numpy() for part in (above, equal, not_numbers, constant))
    return Counts(*columns)


def places(column: Column, device: torch.device) -> tuple[Tensor, Tensor]:
    """Row and entity of every answer, for indexing scores."""
    lengths = torch.from_numpy(column.lengths)
    rows = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    return rows.to(device), torch.from_numpy(column.members).to(device, torch.int64)


def _search(ordered: Tensor, starts: Tensor, lengths: Tensor, before: Callable[[Tensor], Tensor], width: int) -> Tensor:
    """How many of each run of values come before; those are its first ones."""
    low, high = torch.zeros_like(lengths), lengths.clone()
    for _ in range(width.bit_length()):
        middle = (low + high) // 2
        on = (low < high) & before(ordered[(starts + middle).clamp_(max=len(ordered) - 1)])
        low, high = torch.where(on, middle + 1, low), torch.where(on, high, torch.where(low < high, middle, high))
    return low
