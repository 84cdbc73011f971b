"""What every model promises; adding a row to MODELS, or a recipe, is adding its tests."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file

from contracts.cases import CASES, NUM_ENTITIES, NUM_RELATIONS, make, queries, shapes_of
from flexkg.errors import UnsupportedOperator
from flexkg.models import calibrate_modulus, distance, embed, interpretation, run_plan
from flexkg.models import reference as oracle
from flexkg.plan.algebra import Operator
from flexkg.plan.prepare import prepare_groups
from flexkg.query.shapes import SHAPES, split

EXACT = {"rtol": 0.0, "atol": 1e-10}


@pytest.fixture(params=CASES)
def model(request):
    return make(request.param)


def rows(model, count=4, seed=0):
    """Some states of the model: one hop from random entities."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(NUM_ENTITIES, (count,), generator=generator)
    return model.project(model.entity(ids), torch.randint(NUM_RELATIONS, (count,), generator=generator))


def call(model, operator, states):
    match operator:
        case Operator.INTERSECT | Operator.UNITE:
            return getattr(model, operator)(states)
        case Operator.NEGATE:
            return model.negate(states[0])
        case _:
            return getattr(model, operator)(*states[:2])


CONNECTIVES = [operator for operator in Operator if operator not in ("entity", "any", "project")]


def test_a_gradient_reaches_every_parameter(model):
    batch = [query for shape in shapes_of(model) for query in queries(shape, 3)]
    state, prepared = embed(model, batch)
    weights = torch.linspace(-1, 1, NUM_ENTITIES, dtype=torch.float64)
    (model.score(state, None, prepared.owner, prepared.count) * weights).sum().backward()
    missing = [name for name, value in model.named_parameters() if value.grad is None or not value.grad.abs().sum() > 0]
    assert not missing
    assert all(value.grad.isfinite().all() for value in model.parameters())


def test_operand_order_is_ignored(model):
    states = [rows(model, seed=seed) for seed in range(3)]
    for operator in (Operator.INTERSECT, Operator.UNITE, Operator.XOR, Operator.IFF):
        if operator in model.operators:
            taken = states if operator in (Operator.INTERSECT, Operator.UNITE) else states[:2]
            torch.testing.assert_close(call(model, operator, taken), call(model, operator, taken[::-1]), **EXACT)


def test_ordered_connectives_see_the_order(model):
    left, right = rows(model, seed=1), rows(model, seed=2)
    for operator in (Operator.MINUS, Operator.IMPLIES):
        if operator in model.operators:
            one, other = (model.score(call(model, operator, pair)) for pair in ((left, right), (right, left)))
            assert not torch.equal(one.argsort(dim=1), other.argsort(dim=1)), "both orders rank candidates alike"


def test_operands_may_come_stacked(model):
    if Operator.INTERSECT not in model.operators:
        pytest.skip("has no operator with several operands")
    states = [rows(model, seed=seed) for seed in range(3)]
    assert torch.equal(model.intersect(states), model.intersect(torch.stack(states, dim=1)))


def test_inputs_are_not_mutated(model):
    states = [rows(model, seed=seed) for seed in range(2)]
    before = [state.clone() for state in states]
    ids = torch.arange(4) % NUM_RELATIONS
    model.project(states[0], ids)
    model.score(states[0], torch.arange(8).view(4, 2))
    for operator in CONNECTIVES:
        if operator in model.operators:
            call(model, operator, states)
    assert all(torch.equal(state, copy) for state, copy in zip(states, before, strict=True))
    assert ids.tolist() == [0, 1, 2, 3]


def test_what_is_not_an_operator_says_so(model):
    states = [rows(model, seed=seed) for seed in range(2)]
    for operator in CONNECTIVES:
        if operator not in model.operators:
            with pytest.raises(UnsupportedOperator, match=f"{model.name} cannot express"):
                call(model, operator, states)
    with pytest.raises(UnsupportedOperator):
        model.any(3)


def test_a_mixed_batch_takes_few_calls_and_equals_one_by_one(model):
    shapes = [shape for shape in shapes_of(model) if shape in SHAPES]
    batches = [queries(shape, 2, seed=number) for number, shape in enumerate(shapes)]
    prepared = prepare_groups([(SHAPES[shape], 2) for shape in shapes], interpretation(model))
    assert len(prepared.plan.steps) <= 10
    parts = [[split(query)[1:] for query in batch] for batch in batches]
    ids = [tuple(torch.tensor([part[kind] for part in batch]) for kind in (0, 1)) for batch in parts]
    state = run_plan(model, prepared, prepared.plan.ground(ids))
    scores = model.score(state, None, prepared.owner, prepared.count)
    alone = []
    for query in (query for batch in batches for query in batch):
        single, plan = embed(model, [query])
        alone.append(model.score(single, None, plan.owner, plan.count))
    torch.testing.assert_close(scores, torch.cat(alone), **EXACT)


def test_an_ad_hoc_batch_equals_one_by_one(model):
    batch = [query for shape in shapes_of(model) for query in queries(shape, 2)]
    state, plan = embed(model, batch)
    scores = model.score(state, None, plan.owner, plan.count)
    for row, query in enumerate(batch):
        single, alone = embed(model, [query])
        torch.testing.assert_close(model.score(single, None, alone.owner, alone.count)[0], scores[row], **EXACT)


def test_candidates_by_row_shared_or_all_score_alike(model):
    state = rows(model)
    whole = model.score(state)
    shared = torch.tensor([5, 0, 7, 7])
    own = torch.arange(4 * NUM_ENTITIES).view(4, -1) % NUM_ENTITIES
    torch.testing.assert_close(model.score(state, shared), whole[:, shared], **EXACT)
    torch.testing.assert_close(model.score(state, own), whole.gather(1, own), **EXACT)
    torch.testing.assert_close(model.score(state, own[:, :3]), whole.gather(1, own[:, :3]), **EXACT)
    torch.testing.assert_close(model.score(state, slice(4, 9)), whole[:, 4:9], **EXACT)


def test_chunked_equals_whole(model):
    state = rows(model)
    whole = model.score(state).detach()
    torch.testing.assert_close(model.score_all(state, budget=2000), whole, **EXACT)
    for k in (1, 5, NUM_ENTITIES, NUM_ENTITIES + 5):
        values, entities = model.top_k(state, k, budget=1)
        best = whole.topk(min(k, NUM_ENTITIES), dim=1)
        torch.testing.assert_close(values, best.values, **EXACT)
        torch.testing.assert_close(whole.gather(1, entities), best.values, **EXACT)


def all_ways(model, state, owner):
    """The same scores in every way that a model gives some."""
    own = torch.arange(4 * NUM_ENTITIES).view(4, -1) % NUM_ENTITIES
    for candidates in (None, slice(4, 9), torch.tensor([5, 0, 7, 7]), own, own[:, :3], own[:2, :3]):
        yield model.score(state, candidates)
    yield model.score(state, own[:2, :3], owner, 2)
    for budget in (2000, 1 << 28):
        yield model.score_all(state, budget=budget)
        yield model.score_all(state, owner, 2, budget)
        yield from model.top_k(state, 5, budget=budget)
        yield from model.top_k(state, 5, owner, 2, budget)


def test_scores_that_are_no_numbers_come_last(model, monkeypatch):
    state = rows(model).detach()
    candidates = model.candidates(slice(None)).detach().clone()
    candidates[::3] = torch.nan
    monkeypatch.setattr(model, "candidates", lambda rows: candidates[rows])
    numbers = NUM_ENTITIES - len(candidates[::3])
    ways = {
        "nearest": model.top_k(state, NUM_ENTITIES),
        "by runs": model.top_k(state, NUM_ENTITIES, budget=1),
        "few at a time": model.top_k(state, 3, budget=1),
        "unions": model.top_k(state, NUM_ENTITIES, torch.arange(4), 4),
    }
    for way, (values, entities) in ways.items():
        assert (entities[:, :numbers] % 3 > 0).all(), way
        assert entities[:, numbers:].tolist() in ([list(range(0, NUM_ENTITIES, 3))] * 4, [[]] * 4), way
        assert values[:, :numbers].isfinite().all(), way
        assert (values[:, numbers:] == -torch.inf).all(), way
        assert torch.equal(entities[:, :3], ways["nearest"][1][:, :3]), way


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kept_candidates_change_no_score(model, dtype, monkeypatch):
    model = model.to(dtype)
    state, owner = rows(model).detach(), torch.tensor([0, 0, 1, 1])
    with torch.no_grad():
        expected = list(all_ways(model, state, owner))
        model.keep_candidates(budget=0)
        refused = list(all_ways(model, state, owner))
        model.keep_candidates()
        # What is kept is all that is needed of entities: nothing is made of them again.
        monkeypatch.setattr(model, "candidates", None)
        monkeypatch.setattr(distance, "_linear", None)
        kept = list(all_ways(model, state, owner))
    for found in (refused, kept):
        for value, wanted in zip(found, expected, strict=True):
            torch.testing.assert_close(value, wanted, rtol=1e-6, atol=1e-5 if dtype == torch.float32 else 1e-10)


def test_distances_equal_the_reference(model):
    state = rows(model).detach().requires_grad_()
    own = torch.arange(12).view(4, 3)

    def reference(candidates):
        target = model.target(state)
        query = tuple(part[:, None] for part in target.query)
        distance = oracle.distance(model.distance_spec, query, model.candidates(candidates))
        return distance if target.constant is None else distance + target.constant[:, None]

    for candidates, expected in ((None, reference(slice(None))), (own, reference(own))):
        found = model.distance(state, candidates)
        torch.testing.assert_close(found, expected, **EXACT)
        parameters = [state, *(value for name, value in model.named_parameters() if name == "entities.weight")]
        weights = torch.linspace(-1, 1, found.numel(), dtype=torch.float64).view_as(found)
        ours, theirs = (torch.autograd.grad((value * weights).sum(), parameters) for value in (found, expected))
        for mine, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine, other, **EXACT)


def test_an_entity_is_nearest_to_itself(model):
    if model.distance_spec.kind == "dot":
        pytest.skip("scores by a product, which grows with a vector's length")
    ids = torch.arange(NUM_ENTITIES)
    assert torch.equal(model.score(model.entity(ids)).argmax(dim=1), ids)


@pytest.mark.parametrize("name", CASES)
def test_save_and_load_is_exact(name, tmp_path):
    model, other = make(name), make(name)
    with torch.no_grad():
        for value in [*model.parameters(), *model.buffers()]:
            value.add_(0.25)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    state = rows(model)
    assert torch.equal(rows(other), state)
    assert torch.equal(other.score(state), model.score(state))


def test_calibration_makes_the_mean_distance_score_nothing(model):
    state, candidates = rows(model), torch.arange(12).view(4, 3)
    if not isinstance(model.modulus, torch.Tensor):
        assert calibrate_modulus(model, state, candidates) == 1.0
        return
    calibrate_modulus(model, state, candidates)
    assert model.score(state, candidates).mean().item() == pytest.approx(0, abs=1e-5)


def test_models_work_in_single_precision(model):
    model = model.float()
    batch = [query for shape in shapes_of(model) for query in queries(shape, 2)]
    state, plan = embed(model, batch)
    assert state.dtype == torch.float32
    scores = model.score(state, None, plan.owner, plan.count)
    assert scores.shape == (len(batch), NUM_ENTITIES)
    assert scores.isfinite().all()
