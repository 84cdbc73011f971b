"""Compiled functions where nothing can be kept for the next process."""

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
