"""What each test query of a recorded run came to, in a small file beside its result, for comparing runs in pairs.

MODEL-seedN.queries.npz   for each shape its queries' reciprocal ranks, as they are averaged to the MRR: `uint16`, the
                          value times 65,535, so right to 1e-5; and `about`: JSON with the result, its date, and the
                          fingerprint of each shape's queries
"""

from __future__ import annotations

import json
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from flexkg.errors import DataError
from flexkg.kg.storage import atomic_file, os_errors

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from flexkg.evaluation.evaluate import ShapeValues
    from flexkg.paper.results import Result

    Numbers = NDArray[np.float64]

FORMAT: Final = "flexkg-result-queries"
VERSION: Final = 1
SUFFIX: Final = ".queries.npz"

_LARGEST: Final = 65_535
_EXACT: Final = 1e-5
"""How far the mean of rounded values may be from the recorded MRR; each value is at most 0.77e-5 off."""
_ANEW: Final = "Delete it, and `flexkg paper run comparison` makes it anew."


def queries_path(result: Path) -> Path:
    """Where the queries of a result file are."""
    return result.with_name(result.name.removesuffix(".json") + SUFFIX)


def has_queries(result: Result) -> bool:
    """Whether a result has its queries beside it."""
    return result.path is not None and queries_path(result.path).is_file()


def save_queries(result: Path, shapes: Mapping[str, ShapeValues], date: str) -> Path:
    """Write what the queries of a result came to; the date ties the two files together."""
    path = queries_path(result)
    arrays: dict[str, Any] = {
        shape: np.rint(values.values["mrr"] * _LARGEST).astype(np.uint16) for shape, values in shapes.items()
    }
    prints = {shape: values.fingerprint for shape, values in shapes.items()}
    about = {"format": FORMAT, "version": VERSION, "result": result.name, "date": date, "queries": prints}
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    with os_errors(path), atomic_file(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **arrays)
    return path


def load_queries(result: Result) -> tuple[dict[str, Numbers], dict[str, str]] | None:
    """For each shape its queries' reciprocal ranks and their fingerprint; None where the result has no such file."""
    if result.path is None or not has_queries(result):
        return None
    path = queries_path(result.path)
    broken = DataError(f"{path} is not a file of recorded queries.", hint=_ANEW)
    with os_errors(path, "read"):
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                about = json.loads(file["about"].tobytes())
                if (about.get("format"), about.get("version")) != (FORMAT, VERSION):
                    raise broken
                prints = {str(shape): str(mark) for shape, mark in about["queries"].items()}
                values = {shape: _values(file[shape]) for shape in prints}
        except (ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error, EOFError):
            raise broken from None
    _check(path, result, about, values)
    return values, prints


def _values(column: NDArray[Any]) -> Numbers:
    if column.dtype != np.uint16 or column.ndim != 1:
        raise ValueError("not a column of rounded values")
    return column.astype(np.float64) / _LARGEST


def _check(path: Path, result: Result, about: Mapping[str, Any], values: Mapping[str, Numbers]) -> None:
    """Raise unless the queries are those of the result: the same evaluation, the same numbers, the same MRR."""
    recorded = result.metrics.get("shapes", {})
    if (about.get("result"), about.get("date")) != (result.name, result.date) or set(values) != set(recorded):
        raise DataError(f"{path} does not belong to {result.name} of {result.date}.", hint=_ANEW)
    for shape, column in values.items():
        row = recorded[shape]
        mean = float(column.mean()) if len(column) else 0.0
        if len(column) != row.get("queries") or not abs(mean - row["mrr"]) < _EXACT:
            raise DataError(
                f"{path} holds {len(column):,} {shape} queries of MRR {mean:.6f}, "
                f"its result {row.get('queries', 'no')} of MRR {row['mrr']:.6f}.",
                hint=_ANEW,
            )
