"""Vector logic and the fuzzy systems: matrices, scalar forms and axioms agree."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flexkg.logic import vector
from flexkg.logic.fuzzy import SYSTEMS

truths = st.floats(0, 1, allow_subnormal=False)
angles = st.floats(-3.2, 3.2)


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(left: torch.Tensor, right: torch.Tensor) -> bool:
    return bool(torch.allclose(left, right, atol=1e-12, rtol=0))


@pytest.mark.parametrize("name", vector.DYADIC)
@given(a=truths, b=truths, angle=angles)
def test_scalar_logic_is_matrix_logic(name, a, b, angle):
    operator, space = vector.DYADIC[name], vector.rotated_space(angle)
    result = space.apply(operator, space.vector(a), space.vector(b))
    scalar = vector.scalar_form(operator)(tensor(a), tensor(b))
    assert close(space.weight(result)[None], scalar)
    # The result is a weighted truth value again: the weights of s and n add up to 1.
    assert close(result, space.vector(scalar[0]))


@given(a=truths, b=truths)
def test_the_product_system_is_vector_logic(a, b):
    system = SYSTEMS["product"]
    left, right = tensor(a), tensor(b)
    both = torch.stack([left, right])
    pairs = {
        "and": system.conjunction(both, 0),
        "or": system.disjunction(both, 0),
        "minus": system.minus(left, right),
        "xor": system.xor(left, right),
        "implies": system.implies(left, right),
        "iff": system.iff(left, right),
    }
    for name, value in pairs.items():
        assert close(value, vector.scalar_form(vector.DYADIC[name])(left, right)), name


every_system = pytest.mark.parametrize("name", SYSTEMS)


@every_system
@given(values=st.lists(truths, min_size=1, max_size=5), order=st.randoms())
def test_and_or_ignore_order_grouping_and_stay_in_bounds(name, values, order):
    system = SYSTEMS[name]
    shuffled = list(values)
    order.shuffle(shuffled)
    cut = order.randint(0, len(values))
    for connective, unit in ((system.conjunction, 1.0), (system.disjunction, 0.0)):
        whole = connective(tensor(*values), 0)
        assert close(whole, connective(tensor(*shuffled), 0))
        parts = [connective(tensor(*part), 0) for part in (values[:cut], values[cut:]) if part]
        assert close(whole, connective(torch.stack(parts), 0))
        assert close(whole, connective(tensor(*values, unit), 0))
        assert close(connective(tensor(*values, 1 - unit), 0), tensor(1 - unit)[0])
        assert 0 <= whole <= 1


@every_system
@given(a=truths, b=truths)
def test_de_morgan_double_negation_and_the_derived_connectives(name, a, b):
    system = SYSTEMS[name]
    left, right = tensor(a), tensor(b)
    both = torch.stack([left, right])
    assert close(system.negation(system.negation(left)), left)
    assert close(system.negation(system.conjunction(both, 0)), system.disjunction(system.negation(both), 0))
    assert close(system.negation(system.disjunction(both, 0)), system.conjunction(system.negation(both), 0))
    assert close(system.implies(left, right), system.negation(system.minus(left, right)))
    assert close(system.implies(left, right), system.disjunction(torch.stack([1 - left, right]), 0))
    assert close(system.iff(left, right), system.negation(system.xor(left, right)))
    assert close(system.xor(left, right), system.xor(right, left))
    for value in (system.minus(left, right), system.xor(left, right), system.implies(left, right)):
        assert bool(((value >= 0) & (value <= 1)).all())


@every_system
@pytest.mark.parametrize("connective", ["minus", "xor", "implies", "iff"])
def test_every_system_agrees_with_the_truth_tables(name, connective):
    operator = vector.DYADIC[connective]
    left, right = tensor(1, 1, 0, 0), tensor(1, 0, 1, 0)
    assert getattr(SYSTEMS[name], connective)(left, right).tolist() == [float(value) for value in operator.table]


@given(values=st.lists(truths, min_size=1, max_size=4), count=st.integers(1, 4))
def test_minimum_and_maximum_are_idempotent(values, count):
    copies = tensor(*values).expand(count, -1)
    assert torch.equal(SYSTEMS["godel"].conjunction(copies, 0), copies[0])
    assert torch.equal(SYSTEMS["godel"].disjunction(copies, 0), copies[0])
