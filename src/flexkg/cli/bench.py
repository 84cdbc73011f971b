"""`flexkg bench`: figures about speed, as ratios to what ran beside."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path  # noqa: TC003  typer reads the annotations at run time
from typing import Annotated, Any

import typer

from flexkg.cli.output import AsJson, Device, emit


class Benchmark(StrEnum):
    """What can be measured."""

    ENGINE = "engine"
    SAMPLING = "sampling"
    SCORING = "scoring"
    TRAINING = "training"
    EVALUATION = "evaluation"
    SERVING = "serving"


def bench_command(
    name: Annotated[Benchmark, typer.Argument(help="What to measure.")],
    data: Annotated[
        str, typer.Option(help="engine, sampling, evaluation, serving: the graph to measure on.")
    ] = "fb15k-237",
    queries: Annotated[int, typer.Option(min=1000, help="engine: queries of each shape.")] = 100_000,
    growth: Annotated[bool, typer.Option(help="engine, sampling: also graphs of 10^5 to 10^7 edges.")] = True,
    device: Annotated[Device, typer.Option(help="sampling, evaluation: where to compute.")] = Device.CPU,
    run: Annotated[Path | None, typer.Option(help="serving: a run to serve; otherwise one is made.")] = None,
    seconds: Annotated[float, typer.Option(min=1, help="serving: how long each number of clients asks.")] = 10.0,
    json: AsJson = False,
) -> None:
    """Measure speed and memory on this machine."""
    report = lambda line: typer.echo(line, err=True)  # noqa: E731
    match name:
        case Benchmark.ENGINE:
            from flexkg.bench import engine
            from flexkg.kg import catalog

            figures = engine.run(catalog.resolve(data), queries=queries, growth=growth, report=report)
            render = _render_engine
        case Benchmark.SAMPLING:
            from flexkg.api import choose_device
            from flexkg.bench import sampling
            from flexkg.kg import catalog

            where = choose_device(device).type
            figures = sampling.run(catalog.resolve(data), growth=growth, device=where, report=report)
            render = _render_sampling
        case Benchmark.SCORING:
            from flexkg.bench import scoring

            figures, render = scoring.run(report=report), _render_scoring
        case Benchmark.TRAINING:
            from flexkg.api import choose_device
            from flexkg.bench import training
            from flexkg.kg import catalog

            where = choose_device(device).type
            figures, render = training.run(catalog.resolve(data), device=where, report=report), _render_training
        case Benchmark.EVALUATION:
            from flexkg.api import choose_device
            from flexkg.bench import evaluation
            from flexkg.kg import catalog

            where = choose_device(device).type
            figures = evaluation.run(catalog.resolve(data), device=where, report=report)
            render = _render_evaluation
        case Benchmark.SERVING:
            from flexkg.bench import serving
            from flexkg.kg import catalog

            graph = catalog.resolve(data) if run is None else None
            figures, render = serving.run(graph, run=run, seconds=seconds, report=report), _render_serving
    emit({"name": str(name), "figures": figures}, json, lambda: render(figures))


def _render_engine(figures: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(emoji=False)
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


def _render_sampling(figures: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(emoji=False)
    table = Table("split", "shape", title=f"queries with answers a second on {figures['data']}, {figures['device']}")
    for column in ("ours", "plain", "ratio"):
        table.add_column(column, justify="right")
    for split in ("train", "test"):
        for shape, row in figures[split].items():
            plain, ratio = row.get("plain_queries_per_second"), row.get("ratio")
            cells = [
                f"{row['queries_per_second']:,.0f}",
                f"{plain:,.0f}" if plain else "",
                f"{ratio:.1f}" if ratio else "",
            ]
            table.add_row(split, shape, *cells)
    console.print(table)
    if "ratio_geometric_mean" in figures:
        console.print(f"{figures['ratio_geometric_mean']:.1f} times the plain Python sampler (geometric mean)")
    whole = figures["workload"]
    console.print(
        f"whole workload: {whole['queries']:,} queries in {whole['seconds']:.1f} s, {whole['megabytes']:.0f} MB"
    )
    for row in figures.get("growth", []):
        rates = ", ".join(f"{shape} {rate:,.0f}/s" for shape, rate in row["queries_per_second"].items())
        console.print(f"{row['edges']:,} edges: peak {row['peak_mb']:,.0f} MB, {rates}")


def _render_scoring(figures: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(emoji=False)
    title = f"queries a second over {figures['entities']:,} entities, dimension {figures['dimension']}"
    table = Table("distance", title=f"{title}, {figures['threads']} threads, {figures['path']}")
    for column in ("plain", "cdist", "ratio", "ours", "ratio", "top 10", "peak MB"):
        table.add_column(column, justify="right")
    for kind, row in figures["all"].items():
        rate = {name: f"{row[f'{name}_queries_per_second']:,.0f}" for name in ("plain", "routine", "ours", "top_10")}
        ratios = f"{row['routine_ratio']:.1f}", f"{row['ratio']:.1f}"
        peak = f"{figures['peak_mb'][kind]:,.0f}"
        table.add_row(kind, rate["plain"], rate["routine"], ratios[0], rate["ours"], ratios[1], rate["top_10"], peak)
    console.print(table)
    for kind, row in figures["listed"].items():
        console.print(
            f"{kind}, candidates drawn for each query, forward and backward: "
            f"{row['ours_queries_per_second']:,.0f}/s, {row['ratio']:.1f} times plain"
        )
    for name, row in figures["search"].items():
        console.print(
            f"the ten best of a million, {name.replace('_', ', ')}: {row['index_ms']:,.1f} ms by the index, "
            f"{row['all_ms']:,.1f} ms by scoring all ({row['ratio']:.1f} times), {row['streamed_ms']:,.1f} ms streamed"
        )
    for name, row in figures.get("gpu", {}).items():
        if isinstance(row, dict) and "forward_share" in row:
            console.print(
                f"gpu {name}: {row['forward_share']:.0%} of the memory's speed forward, "
                f"{row['to_queries_share']:.0%} backward to the queries"
            )


def _render_evaluation(figures: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(emoji=False)
    title = f"queries ranked a second among {figures['entities']:,} entities, dimension {figures['dimension']}"
    table = Table("shape", title=f"{title}, {figures['threads']} threads, {figures['device']}")
    for column in ("plain", "ours", "ratio", "ours, paper's distance"):
        table.add_column(column, justify="right")
    for shape, row in figures["boundary"]["shapes"].items():
        other = figures["paper"]["shapes"][shape]["queries_per_second"]
        rates = f"{row['plain_queries_per_second']:,.1f}", f"{row['queries_per_second']:,.0f}"
        table.add_row(shape, *rates, f"{row['ratio']:.0f}", f"{other:,.0f}")
    console.print(table)
    console.print(
        f"all shapes in shared batches: {figures['boundary']['queries_per_second']:,.0f}/s, "
        f"{figures['ratio']:.0f} times plain; peak {figures['boundary']['peak_mb']:,.0f} MB"
    )


def _render_training(figures: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console(emoji=False)
    if "gpu" in figures:
        _render_training_gpu(figures["gpu"])
        return
    row = figures["cpu"]
    console.print(
        f"training FLEX on {figures['data']}, dimension {row['dimension']}, {row['batch']} queries with "
        f"{row['negatives']} negatives in a batch, {row['threads']} threads"
    )
    for side, name in (("ours", "ours"), ("plain", "plain"), ("plain_tuned", "plain, tuned allocator")):
        rate, peak = row[f"{side}_queries_per_second"], row["peak_mb"][side]
        console.print(f"{name:<24}{rate:>8,.0f} queries/s, peak {peak:,.0f} MB")
    console.print(
        f"{row['ratio']:.1f} times plain, {row['ratio_to_tuned']:.1f} times plain with a tuned allocator; "
        f"{row['share_of_limit']:.0%} of the {row['limit_queries_per_second']:,.0f} that matrix products of "
        f"{row['mflop_per_query']:.1f} MFLOP a query allow at {row['sgemm_gflops']:.0f} GFLOP/s"
    )
    console.print("a step: " + ", ".join(f"{part} {time:.0f} ms" for part, time in row["milliseconds"].items()))


def _render_training_gpu(row: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console(emoji=False)
    console.print(
        f"training {row['recipe']} on {row['data']}, dimension {row['dimension']}, {row['batch_size']:,} queries with "
        f"{row['negatives']} negatives in a batch, {row['precision']}, {row['device']}"
    )
    console.print(
        f"{row['queries_per_second']:,.0f} queries/s, {row['milliseconds_per_update']:.2f} ms an update after "
        f"{row['first_update_seconds']:.0f} s for the first; plain {row['plain_queries_per_second']:,.0f}/s: "
        f"{row['ratio']:.1f} times; peak {row['peak_gpu_mb']:,.0f} MB"
    )
    ceilings, moved = row["ceilings"], row["bytes_per_query"]
    console.print(
        f"a query: {row['operations_per_query'] / 1e6:.0f} MFLOP at {ceilings['operations_per_second'] / 1e12:.0f} "
        f"TFLOP/s, {sum(moved.values()) / 1e6:.2f} MB at {ceilings['bytes_per_second'] / 1e12:.2f} TB/s: "
        f"{row['share_of_the_limit']:.0%} of the larger limit, "
        f"{row['share_of_both_limits_one_after_the_other']:.0%} of both one after the other"
    )
    console.print("an update: " + ", ".join(f"{part} {time:.2f} ms" for part, time in row["milliseconds"].items()))


def _render_serving(figures: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    title = f"{figures['model']}, dimension {figures['dimension']}, on {figures['data']}: answers over HTTP"
    table = Table("clients", title=title)
    for column in ("p50 ms", "p99 ms", "requests/s", "requests", "errors"):
        table.add_column(column, justify="right")
    for clients, row in figures["clients"].items():
        times = f"{row['p50_ms']:.1f}", f"{row['p99_ms']:.1f}"
        table.add_row(clients, *times, f"{row['requests_per_second']:,.0f}", f"{row['requests']:,}", str(row["errors"]))
    console = Console(emoji=False)
    console.print(table)
    memory = f", peak {figures['memory_mb']:,.0f} MB" if figures["memory_mb"] is not None else ""
    console.print(f"{figures['cores']} cores, listening after {figures['start_seconds']:.1f} s{memory}")
