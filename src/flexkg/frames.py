"""Rows of answers as a pandas or polars frame, whose columns have the same types however few rows there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flexkg.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def pandas_frame(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, type]) -> Any:
    """A pandas DataFrame; None in a column of numbers is NaN."""
    try:
        import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise MissingExtra("A pandas frame", "frames", "pandas") from None
    kinds = {int: "int64", float: "float64", bool: "bool", str: "str"}
    return pandas.DataFrame(
        {name: pandas.Series([row[name] for row in rows], dtype=kinds[kind]) for name, kind in columns.items()}
    )


def polars_frame(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, type]) -> Any:
    """A polars DataFrame; None is null."""
    try:
        import polars  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise MissingExtra("A polars frame", "frames", "polars") from None
    kinds = {int: polars.Int64, float: polars.Float64, bool: polars.Boolean, str: polars.String}
    return polars.DataFrame(
        {name: [row[name] for row in rows] for name in columns},
        schema={name: kinds[kind] for name, kind in columns.items()},
    )
