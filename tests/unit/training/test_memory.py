"""Memory that a step frees is there for the next one."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from flexkg.training.memory import keep_freed_memory

STEPS = """
import resource, sys
import torch
from flexkg.training.memory import keep_freed_memory

def step():
    return (torch.ones(1 << 24) + 1).sum()

kept = sys.argv[1] == "keep" and keep_freed_memory(torch.device("cpu"))
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(40):
    step()
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(way: str) -> tuple[bool, int]:
    """Whether the C library could be told, and how many pages forty steps with 128 MB of temporaries asked for."""
    done = subprocess.run([sys.executable, "-c", STEPS, way], capture_output=True, text=True, check=True, timeout=120)
    kept, pages = done.stdout.split()
    return kept == "True", int(pages)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="tells glibc, which is Linux's")
def test_temporaries_of_a_step_come_from_what_the_last_one_freed() -> None:
    kept, pages = faults("keep")
    if not kept:
        pytest.skip("this C library has no such setting")
    # The heap grows to what a step needs, not always within the first one.
    assert pages < faults("plain")[1] / 4


def test_a_gpu_is_left_alone() -> None:
    assert not keep_freed_memory(torch.device("cuda"))
