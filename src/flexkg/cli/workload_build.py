"""`flexkg workload build`: queries with answers for training and evaluation."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path  # noqa: TC003  typer reads the annotations at run time
from typing import Annotated, Any

import typer

from flexkg.cli.output import AsJson, Device, emit, progress


class ProtocolName(StrEnum):
    """How queries are chosen."""

    BETAE = "betae"
    BETAE_AS_WRITTEN = "betae-as-written"


ProtocolOption = Annotated[
    ProtocolName,
    typer.Option(help="The rules: those of BetaE's benchmarks; as written: operands in another order count anew."),
]


def build_command(
    data: Annotated[str, typer.Argument(metavar="DATA", help="world, a fetched dataset, or a prepared folder.")],
    out: Annotated[Path, typer.Option(help="The workload folder to make.")],
    protocol: ProtocolOption = ProtocolName.BETAE,
    shapes: Annotated[list[str] | None, typer.Option(help="Shapes, such as 1p,2p,2i; all fourteen by default.")] = None,
    train_shapes: Annotated[
        list[str] | None, typer.Option(help="Shapes to train on, when others than the benchmarks' ten.")
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Queries of each shape and split; as published, or by the graph's size.")
    ] = None,
    cap: Annotated[
        int | None, typer.Option(min=1, help="Most answers that the larger graph may add or take away.")
    ] = None,
    split: Annotated[list[str] | None, typer.Option(help="Splits, such as train,test; all three by default.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same workload (on a CPU).")] = 0,
    queries: Annotated[
        Path | None, typer.Option(help="Published queries, FOLDER/SPLIT/SHAPE.jsonl.gz: these first.")
    ] = None,
    templates: Annotated[
        Path | None, typer.Option(help='More shapes: TOML lines such as xor = "?x : r(a, ?x) ^ s(b, ?x)".')
    ] = None,
    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.AUTO,
    force: Annotated[bool, typer.Option("--force", help="Replace a workload that is already there.")] = False,
    json: AsJson = False,
) -> None:
    """Sample queries of every shape with their answers."""
    from flexkg.api import choose_device
    from flexkg.errors import DataError
    from flexkg.kg import catalog
    from flexkg.kg.dataset import SPLITS
    from flexkg.sampling.make import Order, make_workload, split_words
    from flexkg.sampling.protocol import read_templates

    dataset = catalog.resolve(data)
    if queries is not None and not queries.is_dir():
        raise DataError(f"There is no folder {queries}.", hint="Give the folder that holds train/, valid/ and test/.")
    order = Order(
        splits=split_words(split) or SPLITS,
        shapes=split_words(shapes),
        train_shapes=split_words(train_shapes),
        count=count,
        cap=cap,
        seed=seed,
        protocol=str(protocol),
        templates=read_templates(templates) if templates is not None else None,
        queries=queries,
    )
    with progress("Building", "queries") as report:
        result = make_workload(
            dataset,
            out,
            order,
            device=choose_device(device),
            overwrite=force,
            progress=lambda what, done, total: report(done, what, total),
        )
    _warn(result)
    emit({"protocol": str(protocol), **result}, json, lambda: _render(result))


def _warn(result: dict[str, Any]) -> None:
    for shape, by_split in result["shapes"].items():
        for split, row in by_split.items():
            if "asked" in row:
                why = ", ".join(f"{reason} {number:,}" for reason, number in row["rejected"].items())
                typer.echo(
                    f"warning: {split} {shape}: {row['queries']:,} of {row['asked']:,} queries found in "
                    f"{row['attempts']:,} attempts (rejected: {why})",
                    err=True,
                )


def _render(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("shape", box=None, pad_edge=False)
    splits = list(dict.fromkeys(split for row in result["shapes"].values() for split in row))
    splits.sort(key=("train", "valid", "test").index)
    for split in splits:
        table.add_column(split, justify="right")
        table.add_column("a second", justify="right", style="dim")
    for shape, row in result["shapes"].items():
        cells = [shape]
        for split in splits:
            entry = row.get(split)
            rate = entry and entry["queries_per_second"]
            cells += [f"{entry['queries']:,}" if entry else "", f"{rate:,.0f}" if rate else ""]
        table.add_row(*cells)
    console = Console(emoji=False)
    console.print(table)
    console.print(
        f"written to {result['path']} in {result['seconds']:.1f} s", style="dim", markup=False, highlight=False
    )
