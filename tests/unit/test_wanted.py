"""A computation stops between its parts once nobody wants its result, in its own thread and no other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import flexkg
from flexkg import wanted
from flexkg.errors import LimitError

QUERY = "?x : borders(Portugal, ?y) & borders(?y, ?x)"


class Times:
    """Says yes so many times."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self) -> bool:
        self.left -= 1
        return self.left >= 0


def test_it_is_wanted_unless_somebody_says_otherwise():
    wanted.check()
    with wanted.only_while(lambda: True):
        wanted.check()
    with wanted.only_while(lambda: False), pytest.raises(wanted.GivenUp):
        wanted.check()
    wanted.check()
    assert issubclass(wanted.GivenUp, LimitError)


def test_other_threads_go_on():
    with wanted.only_while(lambda: False), ThreadPoolExecutor(1) as pool:
        assert pool.submit(wanted.check).result() is None


def test_the_engine_asks_before_every_step():
    world = flexkg.load("world")
    known = world.answer(QUERY).names()
    with wanted.only_while(Times(1)), pytest.raises(wanted.GivenUp):
        world.answer(QUERY)
    with wanted.only_while(Times(2)):
        assert world.answer(QUERY).names() == known


def test_asking_and_explaining_stop(small_run):
    run = flexkg.open(small_run, "cpu")
    found = run.ask(QUERY)
    with wanted.only_while(lambda: False):
        with pytest.raises(wanted.GivenUp):
            run.ask(QUERY)
        with pytest.raises(wanted.GivenUp):
            run.ask(QUERY, estimate=False)
        with pytest.raises(wanted.GivenUp):
            found.explain()
    # Nothing is left behind by what was given up.
    assert run.ask(QUERY).to_dict() == found.to_dict()
