"""Compiled functions: where nothing can be kept for the next process, and where something was."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("numba")

from flexkg import compiled as module


def test_without_a_place_to_keep_it_a_function_is_compiled_all_the_same(monkeypatch):
    real, asked = module.njit, []

    def nowhere(**options):
        asked.append(options)
        if options.get("cache"):
            # As numba says it: beside the module and in the user's cache nothing may be written.
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(module, "njit", nowhere)

    @module.compiled(fastmath=True)
    def total(values):
        found = 0.0
        for value in values:
            found += value
        return found

    assert total(np.arange(5.0)) == 10
    assert asked == [{"nogil": True, "cache": True, "fastmath": True}, {"nogil": True, "fastmath": True}]


_DISTANCES = """
import torch
from flexkg.models import distance
torch.manual_seed(0)
for kind, parts in (("l1", 1), ("box", 2), ("cone", 2), ("dot", 1)):
    query = [torch.rand(64, 100, requires_grad=True) for _ in range(parts)]
    table, ids = torch.rand(300, 100, requires_grad=True), torch.randint(0, 300, (64, 9))
    if kind == "dot":
        found = distance.between(kind, *query, table, ids)
    elif kind == "l1":
        found = distance.l1_gathered(*query, table, ids)
    else:
        ends = (1.0, 0.02) if kind == "box" else (0.02,)
        found = getattr(distance, f"{kind}_gathered")(*query, table, ids, *ends)
    found.backward(torch.rand_like(found))
    print(kind, *(x.double().sum().item().hex() for x in (found, found * found, table.grad, *(q.grad for q in query))))
"""


def test_what_was_just_compiled_and_what_was_kept_round_alike(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (
        subprocess.run([sys.executable, "-c", _DISTANCES], env=environment, check=True, capture_output=True, text=True)
        for _ in range(2)
    )
    assert list(tmp_path.rglob("*kernels_cpu._forward*.nbc"))
    assert len(first.stdout.splitlines()) == 4
    assert first.stdout == second.stdout
