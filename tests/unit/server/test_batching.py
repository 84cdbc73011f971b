"""What waits together is worked off together; who gives up costs nothing; a fault stays with its cause."""

from __future__ import annotations

import asyncio
import threading

import pytest

from flexkg import wanted
from flexkg.server.batching import Batcher


def run(scenario):
    return asyncio.run(asyncio.wait_for(scenario, 20))


class Work:
    """Doubles numbers; the first batch waits until it is let go."""

    def __init__(self):
        self.batches = []
        self.begun = threading.Event()
        self.go = threading.Event()

    def __call__(self, jobs):
        self.batches.append(list(jobs))
        self.begun.set()
        assert self.go.wait(20)
        return [ValueError(job) if job < 0 else 2 * job for job in jobs]


async def behind(work, batcher, *jobs, alone=()):
    """Results of jobs that wait behind a first one."""
    first = asyncio.create_task(batcher.submit(0, seconds=20))
    await asyncio.to_thread(work.begun.wait)
    rest = [asyncio.create_task(batcher.submit(job, alone=job in alone, seconds=20)) for job in jobs]
    await asyncio.sleep(0)
    assert batcher.waiting == len(jobs)
    work.go.set()
    results = await asyncio.gather(first, *rest, return_exceptions=True)
    await batcher.close()
    return results[1:]


def test_those_that_wait_are_answered_together():
    work = Work()
    seen = []
    batcher = Batcher(work, 3, lambda size, _: seen.append(size))
    assert run(behind(work, batcher, 1, 2, 3, 4)) == [2, 4, 6, 8]
    assert work.batches == [[0], [1, 2, 3], [4]]
    assert seen == [1, 3, 1]


def test_some_are_answered_alone_and_keep_their_turn():
    work = Work()
    assert run(behind(work, Batcher(work, 8), 1, 9, 2, 8, alone={9, 8})) == [2, 18, 4, 16]
    assert work.batches == [[0], [1, 2], [9], [8]]


def test_a_fault_is_its_own():
    work = Work()
    results = run(behind(work, Batcher(work, 8), 1, -1, 2))
    assert (results[0], results[2]) == (2, 4)
    assert isinstance(results[1], ValueError)


def test_a_fault_of_the_worker_reaches_all():
    def fail(jobs):
        raise KeyError(len(jobs))

    async def scenario():
        batcher = Batcher(fail, 4)
        for _ in range(2):
            with pytest.raises(KeyError):
                await batcher.submit(1, seconds=20)
        await batcher.close()

    run(scenario())


def test_who_gives_up_is_not_worked_for():
    work = Work()

    async def scenario():
        batcher = Batcher(work, 4)
        first = asyncio.create_task(batcher.submit(0, seconds=20))
        await asyncio.to_thread(work.begun.wait)
        with pytest.raises(TimeoutError):
            await batcher.submit(7, seconds=0.01)
        last = asyncio.create_task(batcher.submit(3, seconds=20))
        await asyncio.sleep(0)
        work.go.set()
        assert await asyncio.gather(first, last) == [0, 6]
        await batcher.close()

    run(scenario())
    assert work.batches == [[0], [3]]


def test_a_batch_stops_once_nobody_waits_for_it():
    """It asks between its parts, and goes on for as long as one of its questions is still waited for."""
    stopped = threading.Event()
    parts = []

    def work(jobs):
        if 1 not in jobs:
            return [2 * job for job in jobs]
        try:
            while True:
                wanted.check()
                parts.append(len(jobs))
                # A part of the computation.
                stopped.wait(0.01)
        except wanted.GivenUp as error:
            stopped.set()
            return [error] * len(jobs)

    async def scenario():
        batcher = Batcher(work, 2)
        short = asyncio.create_task(batcher.submit(1, seconds=0.05))
        with pytest.raises(TimeoutError):
            await short
        assert await asyncio.to_thread(stopped.wait, 20)
        # The thread is free again.
        assert await batcher.submit(5, seconds=20) == 10
        await batcher.close()

    run(scenario())
    assert parts


def test_a_batch_goes_on_while_somebody_waits():
    begun, parts = threading.Event(), []

    def work(jobs):
        if jobs == [0]:
            begun.set()
            gone.wait(20)
            return [0]
        for _ in range(5):
            wanted.check()
            parts.append(tuple(jobs))
        return [2 * job for job in jobs]

    gone = threading.Event()

    async def scenario():
        batcher = Batcher(work, 4)
        first = asyncio.create_task(batcher.submit(0, seconds=20))
        await asyncio.to_thread(begun.wait)
        given_up, patient = (asyncio.create_task(batcher.submit(job, seconds=20)) for job in (1, 2))
        await asyncio.sleep(0)
        given_up.cancel()
        gone.set()
        assert await first == 0
        assert await patient == 4
        await batcher.close()

    run(scenario())
    assert parts == [(2,)] * 5
