"""The array shapes that the models' annotations state are the ones that run."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Sequence

import jaxtyping
import pytest
import torch
from beartype import beartype

from contracts.cases import CASES, NUM_ENTITIES, make

if typing.TYPE_CHECKING:
    from flexkg.models import QueryModel

_STATE = jaxtyping.Float[torch.Tensor, "rows state"]
_NAMES = {
    "Float": jaxtyping.Float,
    "Int": jaxtyping.Int,
    "Tensor": torch.Tensor,
    "Sequence": Sequence,
    "State": _STATE,
    "States": Sequence[_STATE] | jaxtyping.Float[torch.Tensor, "rows arity state"],
}
METHODS = (
    "entity",
    "project",
    "intersect",
    "negate",
    "score",
    "distance",
    "candidates",
    "take",
    "concat",
    "stacked",
    "penalty",
)


def checked(model: QueryModel, name: str) -> typing.Any:
    """A method of the model with its annotations enforced."""
    method = getattr(model, name)
    function = inspect.unwrap(method.__func__ if inspect.ismethod(method) else method)
    hints = typing.get_type_hints(function, {**vars(inspect.getmodule(function)), **_NAMES}, include_extras=True)
    enforced = jaxtyping.jaxtyped(typechecker=beartype)(_exact(function, hints))
    return functools.partial(enforced, model) if inspect.ismethod(method) else enforced


def _exact(function: typing.Any, hints: dict[str, typing.Any]) -> typing.Any:
    clone = type(function)(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    clone.__kwdefaults__, clone.__annotations__ = function.__kwdefaults__, hints
    clone.__qualname__ = function.__qualname__
    return clone


@pytest.mark.parametrize("name", CASES)
def test_annotations_hold(name):
    model = make(name)
    run = {method: checked(model, method) for method in METHODS}
    ids = torch.arange(4)
    state = run["project"](run["entity"](ids), ids)
    if "intersect" in model.operators:
        state = run["intersect"]([state, state.flip(0)])
        run["intersect"](run["stacked"]([state, state]))
    if "negate" in model.operators:
        run["negate"](state)
    assert run["score"](state).shape == (4, NUM_ENTITIES)
    assert run["score"](state, ids[:3]).shape == (4, 3)
    assert run["distance"](state, ids.expand(4, 4)).shape == (4, 4)
    assert run["take"](run["concat"]([state, state]), ids[:2]).shape == state[:2].shape
    run["candidates"](slice(0, 3))
    run["penalty"](ids, ids, ids)


def test_a_wrong_shape_is_caught():
    model = make("gqe")
    with pytest.raises(jaxtyping.TypeCheckError, match="Type-check error"):
        checked(model, "project")(model.entity(torch.arange(4)), torch.arange(3))
