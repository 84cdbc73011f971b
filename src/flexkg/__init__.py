"""flexkg answers logical questions over incomplete knowledge graphs.

>>> import flexkg
>>> world = flexkg.load("world")
>>> world.answer("?x : borders(France, ?x) & speaks(?x, German) & !uses(?x, Euro)").names()
['Switzerland']
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from flexkg.errors import DataError, FlexError, LimitError, QueryError
from flexkg.version import __version__

if TYPE_CHECKING:
    from flexkg.api import KnowledgeGraph, load
    from flexkg.predictor.fit import train
    from flexkg.predictor.predictor import Predictor
    from flexkg.predictor.predictor import open as open

# `open` is left out, so that `from flexkg import *` does not hide Python's own.
__all__ = [
    "DataError",
    "FlexError",
    "KnowledgeGraph",
    "LimitError",
    "Predictor",
    "QueryError",
    "__version__",
    "load",
    "train",
]

# torch's threads wait for each other by spinning, for milliseconds unless told otherwise when torch is loaded. With
# anything else on the cores that made training a small model ten times slower; a short spin costs next to nothing.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "4000")


def __getattr__(name: str) -> object:
    # torch takes two seconds to import: `import flexkg` and `flexkg --help` do not wait for it.
    if name in {"KnowledgeGraph", "load"}:
        from flexkg import api

        return getattr(api, name)
    if name in {"Predictor", "open"}:
        from flexkg.predictor import predictor

        return getattr(predictor, name)
    if name == "train":
        from flexkg.predictor import fit

        return fit.train
    raise AttributeError(f"module 'flexkg' has no attribute {name!r}")
