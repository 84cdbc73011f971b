"""`flexkg bench training`: queries a second of a training step, beside a plain one, and how near the limit it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from flexkg.kg.dataset import Dataset


def run(dataset: Dataset, *, device: str = "cpu", report: Callable[[str], None]) -> dict[str, Any]:
    """All figures of the benchmark, under the name of the kind of device."""
    if device == "cpu":
        from flexkg.bench import training_cpu

        return {"data": dataset.name, "cpu": training_cpu.run(dataset, report=report)}
    from flexkg.bench import training_gpu

    return {"data": dataset.name, "gpu": training_gpu.run(dataset, report=report)}
