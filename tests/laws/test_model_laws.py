"""The paper's propositions about FLEX's operators, on random valid states."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flexkg.models.flex import CONNECTIVES, Flex
from flexkg.plan.algebra import Operator

if TYPE_CHECKING:
    from collections.abc import Iterator

DIM = 4


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


VARIANTS = {
    "released": {},
    "mlp": {"negation": "mlp", "feature_sign": 1, "logic_scale": 1.0},
    "min": {"system": "godel"},
    "lukasiewicz": {"system": "lukasiewicz"},
    "two features": {"features": 2, "negation": "mlp"},
    "wide": {"boundary": 2.5, "negation": "mlp"},
    "wide shift": {"boundary": 2.5},
    "no logic": {"logic": False, "distance": "paper"},
    "logic over feature": {"connective_features": "logic", "boundary": 2.5},
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)
seeds = st.integers(0, 2**32)


@cache
def flex(variant: str) -> Flex:
    torch.manual_seed(0)
    model = Flex(7, 4, dim=DIM, hidden=8, connectives=CONNECTIVES, union="native", **VARIANTS[variant]).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # towards saturation, where bounds are felt
    return model


def states(model: Flex, seed: int, count: int, rows: int = 3) -> list[torch.Tensor]:
    """Valid states, the ends of the intervals among them."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(width: int) -> torch.Tensor:
        values = torch.rand(rows, width, generator=generator, dtype=torch.float64)
        return torch.where(torch.rand(rows, width, generator=generator) < 0.3, values.round(), values)

    feature, logic = model.features * DIM, DIM * model.logic
    return [torch.cat([(2 * uniform(feature) - 1) * model.boundary, uniform(logic)], dim=1) for _ in range(count)]


def valid(model: Flex, state: torch.Tensor) -> bool:
    feature, logic = model.split(state)
    edge = model.boundary + 1e-12
    return bool((feature.abs() <= edge).all() and (logic >= -1e-12).all() and (logic <= 1 + 1e-12).all())


def connect(model: Flex, operator: Operator, operands: list[torch.Tensor]) -> torch.Tensor:
    if operator in (Operator.INTERSECT, Operator.UNITE):
        return getattr(model, operator)(operands)
    return getattr(model, operator)(*operands[:2])


@every_variant
@settings(max_examples=12)
@given(seed=seeds, arity=st.integers(2, 4))
def test_closure(variant, seed, arity):
    model = flex(variant)
    operands = states(model, seed, arity)
    assert valid(model, model.entity(torch.arange(7)))
    assert valid(model, model.project(operands[0], torch.tensor([0, 1, 3])))
    assert valid(model, model.negate(operands[0]))
    for operator in CONNECTIVES:
        assert valid(model, connect(model, operator, operands)), operator


@every_variant
@settings(max_examples=12)
@given(seed=seeds, arity=st.integers(2, 4), order=st.randoms())
def test_commutativity(variant, seed, arity, order):
    model = flex(variant)
    operands = states(model, seed, arity)
    shuffled = list(operands)
    order.shuffle(shuffled)
    for operator in (Operator.INTERSECT, Operator.UNITE):
        torch.testing.assert_close(connect(model, operator, operands), connect(model, operator, shuffled))
    for operator in (Operator.XOR, Operator.IFF):
        torch.testing.assert_close(connect(model, operator, operands[:2]), connect(model, operator, operands[1::-1]))


@settings(max_examples=12)
@given(seed=seeds, arity=st.integers(2, 4))
def test_minimum_and_maximum_are_idempotent(seed, arity):
    model = flex("min")
    (state,) = states(model, seed, 1)
    for operator in (Operator.INTERSECT, Operator.UNITE):
        torch.testing.assert_close(connect(model, operator, [state] * arity), state)


@every_variant
@settings(max_examples=12)
@given(seed=seeds)
def test_the_logic_part_obeys_double_negation_and_de_morgan(variant, seed):
    model = flex(variant)
    left, right = states(model, seed, 2)

    def logic(state: torch.Tensor) -> torch.Tensor:
        return model.split(state)[1]

    torch.testing.assert_close(logic(model.negate(model.negate(left))), logic(left))
    torch.testing.assert_close(
        logic(model.negate(model.intersect([left, right]))),
        logic(model.unite([model.negate(left), model.negate(right)])),
    )
    torch.testing.assert_close(logic(model.minus(left, right)), logic(model.intersect([left, model.negate(right)])))


@settings(max_examples=12)
@given(seed=seeds)
def test_shifting_twice_is_identity_inside_the_boundary(seed):
    model = flex("wide shift")
    (state,) = states(model, seed, 1)
    feature, logic = model.split(state)
    inside = torch.cat([feature * 0.99, logic], dim=1)
    torch.testing.assert_close(model.negate(model.negate(inside)), inside)


@settings(max_examples=12)
@given(seed=seeds)
def test_logic_over_features_is_logic(seed):
    model = flex("logic over feature")
    left, right = states(model, seed, 2)
    united = model.negate(model.intersect([model.negate(left), model.negate(right)]))
    torch.testing.assert_close(united, model.unite([left, right]))
    torch.testing.assert_close(model.negate(model.negate(left)), left)
