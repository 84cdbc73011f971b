"""Settings for the whole suite."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As under `make test &`: programs started by tests would inherit it, and never see the Ctrl-C that they are sent.
    signal.signal(signal.SIGINT, signal.default_int_handler)

if TYPE_CHECKING:
    from pathlib import Path

# The machine decides how long an example takes; the first call of a compiled kernel loads it.
settings.register_profile("default", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few seconds on `world`, with probabilities; whoever changes it works on a copy."""
    import torch

    import flexkg
    from flexkg.sampling.make import Order, make_workload

    folder = tmp_path_factory.mktemp("small-run")
    world = flexkg.load("world")
    order = Order(splits=("train", "valid"), shapes=("1p", "2p", "2i", "2in", "2u"), count=120)
    make_workload(world.dataset, folder / "workload", order)
    threads = torch.get_num_threads()
    # Small operations on several threads mostly wait for each other.
    torch.set_num_threads(1)
    try:
        flexkg.train(
            world,
            "flex-small",
            folder / "run",
            workload=folder / "workload",
            device="cpu",
            settings={
                "model.dim": 16,
                "model.hidden": 32,
                "training.steps": 120,
                "training.batch_size": 128,
                "training.negatives": 16,
                "training.shapes": ["1p", "2p", "2i", "2in"],
                "training.validate_every": 120,
                "training.learning_rate": 0.01,
            },
        )
    finally:
        torch.set_num_threads(threads)
    return folder / "run"
