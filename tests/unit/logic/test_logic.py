"""Vector logic against the paper's own statements."""

from __future__ import annotations

import pytest
import torch

from flexkg.logic import vector
from flexkg.logic.fuzzy import SYSTEMS

SPACE = vector.standard_space()


def test_identity_and_negation():
    s, n = SPACE.s, SPACE.n
    assert torch.equal(SPACE.identity @ s, s)
    assert torch.equal(SPACE.identity @ n, n)
    assert torch.equal(SPACE.negation @ s, n)
    assert torch.equal(SPACE.negation @ n, s)
    assert SPACE.weight(SPACE.negation @ SPACE.vector(0.3)) == pytest.approx(0.7)


def test_conjunction_is_the_matrix_of_the_paper():
    s, n, kron, outer = SPACE.s, SPACE.n, torch.kron, torch.outer
    c = outer(s, kron(s, s)) + outer(n, kron(s, n)) + outer(n, kron(n, s)) + outer(n, kron(n, n))
    assert torch.equal(SPACE.matrix(vector.AND), c)
    assert c.shape == (2, 4)


def test_there_are_sixteen_different_operators():
    assert len(vector.DYADIC) == len({operator.table for operator in vector.DYADIC.values()}) == 16


@pytest.mark.parametrize(
    ("operator", "form"),
    [
        (vector.OR, (0, 1, 1, -1)),
        (vector.AND, (0, 0, 0, 1)),
        (vector.IMPLIES, (1, -1, 0, 1)),
        (vector.XOR, (0, 1, 1, -2)),
        (vector.MINUS, (0, 1, 0, -1)),
        (vector.IFF, (1, -1, -1, 2)),
        (vector.TRUE, (1, 0, 0, 0)),
    ],
)
def test_scalar_forms_of_the_paper(operator, form):
    found = vector.scalar_form(operator)
    assert (found.constant, found.left, found.right, found.both) == form


def test_disjunction_is_inclusion_exclusion():
    a, b, c = torch.rand(3, 5, dtype=torch.float64)
    expected = a + b + c - a * b - a * c - b * c + a * b * c
    torch.testing.assert_close(SYSTEMS["product"].disjunction(torch.stack([a, b, c]), 0), expected)


@pytest.mark.parametrize("name", SYSTEMS)
def test_gradients_are_exact(name):
    generator = torch.Generator().manual_seed(0)
    values = torch.rand(3, 4, dtype=torch.float64, generator=generator).requires_grad_()
    system = SYSTEMS[name]
    for connective in (system.conjunction, system.disjunction):
        assert torch.autograd.gradcheck(lambda x, f=connective: f(x, 0), values)
    for connective in (system.minus, system.xor, system.implies, system.iff):
        assert torch.autograd.gradcheck(lambda x, f=connective: f(x[0], x[1]), values)


def test_a_product_with_a_zero_has_a_gradient():
    values = torch.tensor([[0.0, 0.5], [0.5, 0.5]], requires_grad=True)
    SYSTEMS["product"].conjunction(values, 0).sum().backward()
    assert values.grad.tolist() == [[0.5, 0.5], [0.0, 0.5]]
