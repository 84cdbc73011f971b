"""The plain Python evaluator that benchmarks are measured against: a file beside the project, not part of it."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

    from flexkg.kg.dataset import Dataset

_PLACE = Path("shared", "reference", "naive.py")


def find_reference() -> ModuleType | None:
    """Load `naive.py` from $FLEXKG_REFERENCE or from `shared/reference` in a folder above, if it is there."""
    here = Path.cwd()
    given = os.environ.get("FLEXKG_REFERENCE")
    for path in [Path(given)] if given else [folder / _PLACE for folder in (here, *here.parents)]:
        if path.is_file():
            spec = importlib.util.spec_from_file_location("flexkg_reference", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    return None


def plain_graph(reference: ModuleType, dataset: Dataset, upto: str = "test") -> Any:
    """The dataset's cumulative graph as dicts of sets."""
    from flexkg.kg.dataset import SPLITS

    graph = reference.Graph(len(dataset.entities))
    for split in SPLITS[: SPLITS.index(upto) + 1]:
        for head, relation, tail in dataset.triples[split].tolist():
            graph.add(head, 2 * relation, tail)
    return graph
