"""Models on a GPU: the numbers of the CPU, and a whole training step captured as one CUDA graph."""

from __future__ import annotations

import pytest
import torch

from contracts.cases import CASES, NUM_ENTITIES, make, queries, shapes_of
from flexkg.config import template_for
from flexkg.models import embed, interpretation, run_plan
from flexkg.plan.prepare import prepare_groups
from flexkg.query.shapes import split

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("name", CASES)
def test_scores_equal_the_cpu(name):
    model = make(name)
    batch = [query for shape in shapes_of(model) for query in queries(shape, 2)]

    def scores():
        state, plan = embed(model, batch)
        own = torch.arange(len(batch) * 3).view(-1, 3).to(state.device) % NUM_ENTITIES
        best = model.top_k(state, 5, plan.owner, plan.count)[0]
        return [model.score(state, ids, plan.owner, plan.count).detach().cpu() for ids in (None, own)] + [best.cpu()]

    expected = scores()
    model.cuda()
    for found, wanted in zip(scores(), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_a_training_step_is_one_graph(name):
    model = make(name).float().cuda()
    shapes, count = shapes_of(model), 8
    groups = [(template_for(shape), count) for shape in shapes]
    prepared = prepare_groups(groups, interpretation(model)).to("cuda")
    candidates = torch.randint(NUM_ENTITIES, (prepared.count, 9), device="cuda")

    def ground(seed):
        parts = [[split(query)[1:] for query in queries(shape, count, seed)] for shape in shapes]
        ids = [tuple(torch.tensor([part[kind] for part in group]) for kind in (0, 1)) for group in parts]
        return prepared.plan.ground(ids, "cuda")

    grounding = ground(0)

    def step():
        state = run_plan(model, prepared, grounding)
        scores = model.score(state, candidates, prepared.owner, prepared.count)
        loss = torch.nn.functional.softplus(scores[:, 1:]).mean() - torch.nn.functional.logsigmoid(scores[:, 0]).mean()
        loss.backward()
        return loss.detach()

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            model.zero_grad(set_to_none=True)
            step()
    graph = torch.cuda.CUDAGraph()
    model.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph, stream=stream):
        loss = step()
    gradients = [parameter.grad for parameter in model.parameters()]
    with torch.cuda.stream(stream):
        for seed in (1, 2):
            grounding.copy_(ground(seed))
            torch._foreach_zero_(gradients)
            graph.replay()
            captured = loss.item(), [gradient.clone() for gradient in gradients]
            torch._foreach_zero_(gradients)
            assert step().item() == pytest.approx(captured[0], rel=1e-5)
            for gradient, wanted in zip(gradients, captured[1], strict=True):
                torch.testing.assert_close(gradient, wanted, rtol=1e-3, atol=1e-5)
