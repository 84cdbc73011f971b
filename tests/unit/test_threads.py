"""How work is shared out among the cores."""

from __future__ import annotations

import threading

import pytest
import torch

from flexkg.threads import RUNS, kernel_threads, leave_cores_to_kernels, run_between, share_out


@pytest.mark.parametrize("tasks", [0, 1, 3, RUNS * 64 + 1])
@pytest.mark.parametrize("elements", [1, 1 << 20])
def test_every_task_is_done_once(tasks: int, elements: int) -> None:
    done = [0] * tasks
    runs = []

    def work(first: int, last: int) -> None:
        runs.append(threading.current_thread().name)
        for task in range(first, last):
            done[task] += 1

    share_out(tasks, elements, work)
    assert done == [1] * tasks
    shared = tasks > 1 and elements > 1
    assert len(runs) == (min(tasks, RUNS * kernel_threads()) if shared else min(tasks, 1))
    # What is small is not worth a thread.
    assert all(name.startswith("flexkg-kernels") == shared for name in runs)


def test_nothing_is_done_where_there_is_nothing() -> None:
    share_out(5, 0, lambda first, last: pytest.fail(f"{first} to {last}"))


def test_results_come_in_order() -> None:
    assert run_between([0, 2, 2, 7], lambda first, last: last - first) == [2, 0, 5]
    assert run_between([3, 9], lambda first, last: (first, last)) == [(3, 9)]


def test_torch_has_one_thread_while_kernels_have_all() -> None:
    before = torch.get_num_threads()
    with leave_cores_to_kernels():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
    with leave_cores_to_kernels(used=False):
        assert torch.get_num_threads() == before
