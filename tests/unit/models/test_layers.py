"""Layers that take a short cut on a CPU are what they are written as."""

from __future__ import annotations

import pytest
import torch

from flexkg.models.layers import scaled_tanh


@pytest.mark.parametrize("factor", [1.0, -1.0, 2.5])
def test_scaled_tanh_is_its_formula(factor):
    values = torch.linspace(-3, 3, 40, dtype=torch.float64).view(8, 5).requires_grad_()
    weights = torch.linspace(-1, 2, 40, dtype=torch.float64).view(8, 5)
    plain = factor * torch.tanh(values / 0.7)
    ours = scaled_tanh(values, 1 / 0.7, factor)
    torch.testing.assert_close(ours, plain, rtol=1e-12, atol=0)
    expected = torch.autograd.grad((plain * weights).sum(), values)[0]
    torch.testing.assert_close(torch.autograd.grad((ours * weights).sum(), values)[0], expected, rtol=1e-12, atol=1e-15)
