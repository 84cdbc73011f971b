"""Two models on the same queries: what each query came to, kept in a small file, and paired differences."""

from __future__ import annotations

import json
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from flexkg.errors import DataError
from flexkg.evaluation.evaluate import AVERAGES, METRICS, ShapeValues
from flexkg.evaluation.statistics import RESAMPLES, Difference, average, difference, resampled_means
from flexkg.kg.storage import atomic_file, os_errors

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMAT, VERSION = "flexkg-per-query", 1
_COUNTS = ("hard", "answers", "not_numbers", "constant")


def save_values(path: Path, shapes: Mapping[str, ShapeValues], about: Mapping[str, Any]) -> None:
    """Write what every query came to, compressed; `about` is kept beside it."""
    arrays: dict[str, Any] = {}
    fingerprints = {}
    for shape, values in shapes.items():
        fingerprints[shape] = values.fingerprint
        arrays |= {f"{shape}/{metric}": values.values[metric].astype(np.float32) for metric in METRICS}
        arrays |= {f"{shape}/{name}": getattr(values, name).astype(np.int32) for name in _COUNTS}
    content = {"format": FORMAT, "version": VERSION, "queries": fingerprints, **about}
    arrays["about"] = np.frombuffer(json.dumps(content).encode(), np.uint8)
    with os_errors(path), atomic_file(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **arrays)


def load_values(path: Path) -> tuple[dict[str, ShapeValues], dict[str, Any]]:
    """Read what `save_values` wrote: values by shape, to single precision, and what was kept beside them."""
    broken = DataError(f"{path} is not a file of evaluated queries.", hint="Make it again with `flexkg evaluate`.")
    with os_errors(path, "read"):
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                about = json.loads(file["about"].tobytes())
                if about.get("format") != FORMAT or about.get("version") != VERSION:
                    raise broken
                return {shape: _values(file, shape, mark) for shape, mark in about["queries"].items()}, about
        except (ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error, EOFError):
            raise broken from None


def _values(file: Any, shape: str, fingerprint: str) -> ShapeValues:
    metrics = {metric: file[f"{shape}/{metric}"].astype(np.float64) for metric in METRICS}
    hard, answers, not_numbers, constant = (file[f"{shape}/{name}"] for name in _COUNTS)
    if len({column.shape for column in (*metrics.values(), hard, answers, not_numbers, constant)}) != 1:
        raise ValueError("columns of different lengths")
    return ShapeValues(shape, fingerprint, metrics, hard, answers, not_numbers, constant.astype(np.bool_))


def paired(
    one: Mapping[str, ShapeValues],
    other: Mapping[str, ShapeValues],
    metric: str = "mrr",
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> dict[str, Difference]:
    """One minus the other on each shape that both have, and on the averages over them; queries must be the same."""
    common = [shape for shape in one if shape in other]
    if not common:
        raise DataError("The two evaluations have no shape in common.", hint="Evaluate both on the same workload.")
    for shape in common:
        if one[shape].fingerprint != other[shape].fingerprint:
            raise DataError(
                f"The two evaluations asked different {shape} queries.",
                hint="Evaluate both on the same workload: --workload DIR.",
            )
    gaps = {shape: one[shape].values[metric] - other[shape].values[metric] for shape in common}
    means = {shape: resampled_means(gap, shape, seed, resamples) for shape, gap in gaps.items()}
    result = {shape: difference(means[shape], float(gap.mean())) for shape, gap in gaps.items()}
    for name, members in AVERAGES.items():
        shapes = [shape for shape in members if shape in common] or (common if name == "mrr" else [])
        if shapes:
            observed = float(np.mean([gaps[shape].mean() for shape in shapes]))
            result[name] = difference(average(means, shapes), observed)
    return result
