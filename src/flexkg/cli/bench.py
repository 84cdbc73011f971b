"""`flexkg bench`: figures about speed, as ratios to what ran beside."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from flexkg.cli.output import AsJson, emit


class Benchmark(StrEnum):
    """What can be measured."""

    ENGINE = "engine"


def bench_command(
    name: Annotated[Benchmark, typer.Argument(help="What to measure.")],
    data: Annotated[str, typer.Option(help="The graph to measure on.")] = "fb15k-237",
    queries: Annotated[int, typer.Option(min=1000, help="Queries of each shape.")] = 100_000,
    growth: Annotated[bool, typer.Option(help="Also measure synthetic graphs of 10^5, 10^6 and 10^7 edges.")] = True,
    json: AsJson = False,
) -> None:
    """Measure speed and memory on this machine."""
    from flexkg.bench import engine
    from flexkg.kg import catalog

    report = lambda line: typer.echo(line, err=True)  # noqa: E731
    figures = engine.run(catalog.resolve(data), queries=queries, growth=growth, report=report)
    emit({"name": str(name), "figures": figures}, json, lambda: _render(figures))


def _render(figures: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table("shape", title=f"exact answers a second on {figures['data']}, {figures['threads']} threads")
    kinds = [
        kind for kind in ("plain", "tensor", "compiled") if f"{kind}_queries_per_second" in figures["shapes"]["2p"]
    ]
    for kind in kinds:
        table.add_column(kind, justify="right")
        if kind != "plain" and "plain" in kinds:
            table.add_column("ratio", justify="right")
    for shape, row in figures["shapes"].items():
        cells = [shape]
        for kind in kinds:
            cells.append(f"{row[f'{kind}_queries_per_second']:,.0f}")
            if f"{kind}_ratio" in row:
                cells.append(f"{row[f'{kind}_ratio']:.1f}")
        table.add_row(*cells)
    console.print(table)
    for kind in ("tensor", "compiled"):
        if f"{kind}_ratio_geometric_mean" in figures:
            console.print(
                f"{kind}: {figures[f'{kind}_ratio_geometric_mean']:.1f} times plain Python sets (geometric mean)"
            )
    console.print(f"file of queries, JSON in and out: {figures['file']['queries_per_second']:,.0f}/s")
    for row in figures.get("growth", []):
        rates = ", ".join(f"{shape} {rate:,.0f}/s" for shape, rate in row["queries_per_second"].items())
        console.print(
            f"{row['edges']:,} edges: index {row['index_seconds']:.2f} s, peak {row['peak_mb']:,.0f} MB, {rates}"
        )
