"""The same search of settings for every model: nine trials by an orthogonal array, then two longer ones."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LEVELS = 3
FACTORS = 4

DESIGN = tuple((a, b, (a + b) % LEVELS, (a + 2 * b) % LEVELS) for a in range(LEVELS) for b in range(LEVELS))
"""Which value of each factor a trial has: of any two factors every pair of values comes up once."""


@dataclass(frozen=True)
class Factor:
    """Something that is searched, and its three values; a value may be several settings that go together."""

    name: str
    values: tuple[tuple[str, ...], ...]


def settings_of(factors: Sequence[Factor], chosen: Sequence[int]) -> tuple[str, ...]:
    """The settings of a trial that has these values."""
    return tuple(text for factor, value in zip(factors, chosen, strict=True) for text in factor.values[value])


def name_of(chosen: Sequence[int]) -> str:
    """What a trial is called by: the number of each factor's value, from 1."""
    return "".join(str(value + 1) for value in chosen)


def finalists(scores: Mapping[tuple[int, ...], float]) -> list[tuple[int, ...]]:
    """Two to be tried for longer: the best trial, and the values that are best each by itself.

    The trials of a value have all values of the other factors equally often, so that their mean tells of that value
    alone. Where both are the same, the second trial takes part. Of equal ones the earlier counts.
    """
    ranked = sorted(scores, key=lambda chosen: -scores[chosen])
    alone = tuple(
        max(range(LEVELS), key=lambda value: fmean(scores[row] for row in scores if row[factor] == value))
        for factor in range(FACTORS)
    )
    return list(dict.fromkeys((ranked[0], alone, ranked[1])))[:2]
