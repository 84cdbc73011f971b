"""The index finds what scoring everything finds: the same entities, the same scores to the last bit, the same order."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flexkg.models import index
from flexkg.models.reference import DistanceSpec
from flexkg.models.scoring import pairwise

pytest.importorskip("numba", reason="the index is made of compiled kernels (extra fast)")
NONE = np.zeros(0, np.int64)


def made(spec: DistanceSpec, table: torch.Tensor) -> index.Index:
    found = index.build(spec, lambda run: table[run], len(table))
    assert found is not None
    return found


def operands(data: st.DataObject) -> tuple[DistanceSpec, tuple[torch.Tensor, ...], torch.Tensor]:
    """Tables with and without ties, queries inside and beyond them."""
    kind = data.draw(st.sampled_from(["l1", "box"]))
    size, width = data.draw(st.integers(1, 200)), data.draw(st.sampled_from([1, 2, 7, 255, 256, 257, 300]))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    scale = data.draw(st.sampled_from([0.0, 1e-6, 1.0, 1e6]))
    if data.draw(st.booleans()):
        table = torch.randint(-2, 3, (size, width), generator=generator) * scale
    else:
        table = torch.randn(size, width, generator=generator) * scale
    near = table[torch.randint(0, size, (2,), generator=generator)]
    away = data.draw(st.sampled_from([0.0, 0.1, 1.0, 10.0]))
    centre = near + away * max(scale, 1e-3) * torch.randn(2, width, generator=generator)
    if kind == "l1":
        return DistanceSpec("l1"), (centre,), table
    offset = torch.rand(2, width, generator=generator) * scale * data.draw(st.sampled_from([0.0, 0.5, 5.0]))
    return DistanceSpec("box", data.draw(st.sampled_from([0.0, 0.02, 1.0]))), (centre, offset), table


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_no_bound_is_above_its_distance(data: st.DataObject) -> None:
    spec, query, table = operands(data)
    bounds = made(spec, table).bounds(query)
    assert bounds is not None
    exact = pairwise(spec, query, table).numpy()
    for row, bound in enumerate(bounds):
        assert (bound.values[: len(table)] <= exact[row]).all()
        assert np.isinf(bound.values[len(table) :]).all()
        assert bound.least.tolist() == bound.values.reshape(-1, 64).min(1).tolist()


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_the_best_are_those_of_scoring_everything(data: st.DataObject) -> None:
    spec, query, table = operands(data)
    parts = 1 + data.draw(st.booleans())
    query = tuple(part[:parts] for part in query)
    constant = torch.tensor([0.0, 3.0])[:parts] if data.draw(st.booleans()) else None
    # A small modulus under a large margin makes equal scores of unequal distances.
    margin, modulus = data.draw(st.sampled_from([(24.0, 1.0), (1e4, 1e-3), (0.0, 0.1)]))

    def score(rows: torch.Tensor) -> np.ndarray:
        distance = pairwise(spec, query, rows) + (0.0 if constant is None else constant[:, None])
        return (margin - torch.tensor([modulus]) * distance).max(0).values.numpy()

    everything = score(table)
    barred = np.array(sorted(data.draw(st.sets(st.integers(0, len(table) - 1), max_size=8))), np.int64)
    k = data.draw(st.sampled_from([0, 1, 3, 10, len(table), len(table) + 5]))
    allowed = np.setdiff1d(np.arange(len(table)), barred)
    expected = allowed[np.argsort(-everything[allowed], kind="stable")][:k]
    bounds = made(spec, table).bounds(query, constant)
    assert bounds is not None
    largest = 0.0 if constant is None else float(constant.max())
    ids, scores = index.best(
        bounds, index.Line(margin, modulus), largest, lambda some: score(table[torch.from_numpy(some)]), k, barred
    )
    assert ids.tolist() == expected.tolist()
    assert scores.tolist() == everything[expected].tolist()


def test_few_entities_are_scored_where_answers_stand_out() -> None:
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(50, 64, generator=generator)
    table = centres[torch.arange(20_000) % 50] + 0.2 * torch.randn(20_000, 64, generator=generator)
    query = table[7:8] + 0.05
    asked: list[int] = []

    def exact(ids: np.ndarray) -> np.ndarray:
        asked.append(len(ids))
        return (-pairwise(DistanceSpec("l1"), (query,), table[torch.from_numpy(ids)])[0]).numpy()

    found = made(DistanceSpec("l1"), table)
    bounds = found.bounds((query,))
    assert bounds is not None
    ids, _ = index.best(bounds, index.Line(0.0, 1.0), 0.0, exact, 10, NONE)
    assert ids[0] == 7
    assert asked[0] == 10
    assert asked[1] < 100
    assert found.bytes < table.nelement() * 4 // 4 + 9 * 20_032


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e20], ids=["nan", "infinity", "huge"])
def test_what_is_no_number_or_could_overflow_is_left_to_scoring(bad: float) -> None:
    table = torch.randn(70, 4, generator=torch.Generator().manual_seed(0))
    found = made(DistanceSpec("l1"), table)
    query = table[:1].clone()
    query[0, 2] = bad
    assert found.bounds((query,)) is None
    assert found.bounds((table[:1],), torch.tensor([bad])) is None
    table[3, 1] = bad
    assert index.build(DistanceSpec("l1"), lambda run: table[run], len(table)) is None


def test_there_is_none_without_a_bound_or_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    table = torch.zeros(5, 4)
    for spec in (DistanceSpec("cone", 0.02), DistanceSpec("dot"), DistanceSpec("box", -1.0)):
        assert index.build(spec, lambda run: table[run], 5) is None
    assert index.build(DistanceSpec("l1"), lambda run: table[run].double(), 5) is None
    assert index.build(DistanceSpec("l1"), lambda run: table[run], 0) is None
    monkeypatch.setenv("FLEXKG_PLAIN", "1")
    assert index.build(DistanceSpec("l1"), lambda run: table[run], 5) is None
