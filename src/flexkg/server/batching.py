"""Questions that come while others are being answered wait together, and are answered together."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from flexkg.wanted import only_while

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[Job, Result]):
    job: Job
    alone: bool
    future: asyncio.Future[Result]


class Batcher(Generic[Job, Result]):
    """One thread that works off jobs, as many at a time as wait for it.

    work: gives a result or an exception for each job of a batch, in the same order.
    observe: told the size of each batch and the seconds that it took.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Job]], Sequence[Result | BaseException]],
        most: int,
        observe: Callable[[int, float], None] = lambda _size, _seconds: None,
    ) -> None:
        self._work = work
        self._most = most
        self._observe = observe
        self._queue: deque[_Waiting[Job, Result]] = deque()
        self._running: asyncio.Task[None] | None = None
        # One thread: the work uses as many cores as it is given, and its kernels must not run twice at once.
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="answers")

    @property
    def waiting(self) -> int:
        """Jobs that wait."""
        return len(self._queue)

    async def submit(self, job: Job, *, alone: bool = False, seconds: float) -> Result:
        """The result of a job, or TimeoutError; a job given up before its batch began is never run."""
        loop = asyncio.get_running_loop()
        waiting: _Waiting[Job, Result] = _Waiting(job, alone, loop.create_future())
        self._queue.append(waiting)
        if self._running is None or self._running.done():
            self._running = loop.create_task(self._run())
        return await asyncio.wait_for(waiting.future, seconds)

    async def close(self) -> None:
        """Finish what was begun."""
        if self._running is not None:
            await asyncio.wait([self._running])
        self._pool.shutdown()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while batch := self._take():
            begin = time.perf_counter()
            try:
                results = await loop.run_in_executor(self._pool, self._worked, batch)
            except BaseException as error:  # whatever happens, nobody waits for ever
                results = [error] * len(batch)
            self._observe(len(batch), time.perf_counter() - begin)
            for waiting, result in zip(batch, results, strict=True):
                if waiting.future.done():
                    continue
                if isinstance(result, BaseException):
                    waiting.future.set_exception(result)
                else:
                    waiting.future.set_result(result)

    def _worked(self, batch: Sequence[_Waiting[Job, Result]]) -> Sequence[Result | BaseException]:
        """The results of a batch; it stops early once nobody waits for any of them."""
        with only_while(lambda: not all(waiting.future.done() for waiting in batch)):
            return self._work([waiting.job for waiting in batch])

    def _take(self) -> list[_Waiting[Job, Result]]:
        """The first job that is still wanted, and, unless it runs alone, others that may run with it."""
        batch: list[_Waiting[Job, Result]] = []
        left: list[_Waiting[Job, Result]] = []
        while self._queue and len(batch) < self._most:
            waiting = self._queue.popleft()
            if waiting.future.done():
                continue
            if batch and waiting.alone:
                left.append(waiting)
                continue
            batch.append(waiting)
            if waiting.alone:
                break
        self._queue.extendleft(reversed(left))
        return batch
