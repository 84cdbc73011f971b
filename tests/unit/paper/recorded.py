"""Results as if runs had been made: every query of every shape with the same value."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np

from flexkg.paper.cells import EPFO, NEGATION
from flexkg.paper.plan import Job, the_paper
from flexkg.paper.queries import save_queries
from flexkg.paper.results import Result, save
from flexkg.paper.runner import missing
from flexkg.paper.workloads import read_registry

ROOT = Path(__file__).resolve().parents[3]
BOOK = the_paper()
REGISTRY = read_registry(ROOT / "results")


def record(folder: Path, job: Job, mrr: float, *, queries: bool = False, **more) -> Result:
    """A result as if the job had been run: every query of every shape with the same value."""
    shapes = job.shapes or (EPFO if job.recipe in ("gqe", "query2box") else (*EPFO, *NEGATION))
    rows = {shape: {"queries": 8, "mrr": mrr, "hits@1": mrr, "hits@3": mrr, "hits@10": mrr} for shape in shapes}
    metrics = {"shapes": rows, "averages": {"mrr_epfo": {"ci95": [mrr - 0.01, mrr + 0.01]}}}
    values = {
        "kind": job.kind, "dataset": job.dataset, "data_checksum": "", "recipe": job.recipe, "label": job.label,
        "overrides": job.overrides, "config": job.config.model_dump(mode="json"), "seed": job.seed, "flexkg": "",
        "workload": {"seed": 0, "checksum": REGISTRY[job.dataset].checksum, "published": {}}, "torch": "",
        "device": "a GPU", "seconds": {"train": 600.0, "evaluate": 6.0, "whole": 660.0}, "queries_per_second": 1e6,
        "steps": 1000, "peak_memory": 1, "parameters": 1, "best": {"step": 1000, "mrr": mrr}, "date": "2026-01-01",
        "metrics": metrics if job.kind == "run" else {"seconds_per_step": 0.002},
    }  # fmt: skip
    result = Result(**values | more)
    path = save(result, folder)
    if queries:
        column = SimpleNamespace(values={"mrr": np.full(8, mrr)}, fingerprint="same")
        save_queries(path, dict.fromkeys(shapes, column), result.date)
    return result


def jobs(table: str, *words: str) -> list[Job]:
    return missing(BOOK.select(table), BOOK, [], REGISTRY, words)


def marks(drawing: str, tag: str, colour: str) -> int:
    """How many marks of a kind and colour a plot has."""
    return sum(part.tag.endswith(tag) and part.get("fill") == colour for part in ElementTree.fromstring(drawing).iter())
