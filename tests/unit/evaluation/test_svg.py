"""Scales of plots: round, and no wider than they have to be."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flexkg.evaluation.svg import Scale


@given(st.lists(st.floats(-1e6, 1e6).map(lambda value: round(value, 6)), min_size=1, max_size=8))
def test_a_scale_holds_all_values_in_few_round_steps(values):
    scale = Scale.over(values)
    slack = 1e-6 * scale.step + 1e-9 * max(map(abs, values))
    assert scale.least - slack <= min(values) <= max(values) <= scale.most + slack
    assert 1 <= len(scale.ticks) - 1 <= 6
    assert scale.ticks[-1] == pytest.approx(scale.most)
    mantissa = scale.step / 10 ** math.floor(math.log10(scale.step) + 1e-9)
    assert any(math.isclose(mantissa, part) for part in (1, 2, 2.5, 5))
    assert min(values) < scale.least + scale.step + slack  # no step is empty
    assert max(values) > scale.most - scale.step - slack


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.0, 58.9], [0, 20, 40, 60]),
        ([17.0, 24.7], [16, 18, 20, 22, 24, 26]),
        ([0.3, 0.6], [0.3, 0.4, 0.5, 0.6]),
        ([], [0, 0.2]),
        ([25.0], [25, 26]),
        ([24.0, 24.7], [24, 25]),
    ],
)
def test_ticks(values, ticks):
    scale = Scale.over(values)
    assert scale.ticks == pytest.approx(ticks)
    assert [scale.part(scale.least), scale.part(scale.most)] == [0, 1]
