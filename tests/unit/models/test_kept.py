"""What a model keeps of its entities counts against the budget."""

from __future__ import annotations

import pytest
import torch

from flexkg.models.betae import BetaE
from flexkg.models.gqe import GQE


def test_the_budget_counts_what_is_kept() -> None:
    for model, row in ((BetaE(9, 4, dim=3, hidden=5), 8 * (2 * 3 + 1)), (GQE(9, 4, dim=3), 4 * 3)):
        model.keep_candidates(9 * row - 1)
        assert model._kept is None
        model.keep_candidates(9 * row)
        assert model._kept is not None
        assert model._kept[1].nelement() * model._kept[1].element_size() == 9 * row


def test_candidates_stay_densities() -> None:
    model = BetaE(9, 4, dim=3, hidden=5)
    before = model.candidates(slice(None))
    model.keep_candidates()
    assert torch.equal(model.candidates(slice(None)), before)
    assert before.shape == (9, 6)


def test_candidates_are_kept_for_a_while() -> None:
    model = BetaE(9, 4, dim=3, hidden=5)
    with model.keeping_candidates():
        inside = model._kept
        with model.keeping_candidates():
            assert model._kept is inside is not None
        assert model._kept is inside
    assert model._kept is None
    with model.keeping_candidates(budget=10):
        assert model._kept is None
    with pytest.raises(ZeroDivisionError), model.keeping_candidates():
        raise ZeroDivisionError
    assert model._kept is None
    model.keep_candidates()
    opened = model._kept
    with model.keeping_candidates():
        assert model._kept is opened
    assert model._kept is opened
