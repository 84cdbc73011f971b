"""`flexkg workload info`, `export`, `import` and `import-betae`: looking at workloads, and moving them in and out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flexkg.cli.answer import Split  # noqa: TC001  the same
from flexkg.cli.output import AsJson, emit, progress

if TYPE_CHECKING:
    from flexkg.sampling.workload import Workload

Force = Annotated[bool, typer.Option("--force", help="Replace a workload that is already there.")]
DeMorgan = Annotated[bool, typer.Option("--de-morgan", help="Also 2u-DM and up-DM: 2u and up written without union.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="The workload folder to make.")]


def info_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A workload folder.")],
    json: AsJson = False,
) -> None:
    """Show what a workload holds."""
    from flexkg.sampling.workload import Workload

    workload = Workload.load(folder)
    result = {"path": str(folder), **workload.info()}
    emit(result, json, lambda: _show(result))


def export_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A workload folder.")],
    split: Annotated[Split, typer.Option(help="The split to write.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where FOLDER/SPLIT/SHAPE.jsonl.gz go.")],
    answers: Annotated[bool, typer.Option("--answers", help="With the answers to training queries.")] = False,
    json: AsJson = False,
) -> None:
    """Write the queries of a split as JSON lines."""
    from flexkg.sampling.jsonl import export_jsonl
    from flexkg.sampling.workload import Workload

    workload = Workload.load(folder)
    with progress("Exporting", "queries", workload.count(split)) as report:
        counts = export_jsonl(
            workload, split, out, answers=answers, progress=lambda what, done: report(done, f"Exporting {what}")
        )
    result = {"path": str(out), "shapes": {shape: {str(split): {"queries": n}} for shape, n in counts.items()}}
    emit(
        result,
        json,
        lambda: typer.echo(f"{sum(counts.values()):,} {split} queries of {len(counts)} shapes in {out / split}"),
    )


def import_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Holds SPLIT/SHAPE.jsonl.gz.")],
    data: Annotated[str, typer.Option(metavar="DATA", help="The graph that the queries are about.")],
    out: Out,
    de_morgan: DeMorgan = False,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Make a workload of queries in JSON lines; answers are computed, and checked where they are given."""
    from flexkg.kg.catalog import resolve
    from flexkg.sampling.jsonl import import_jsonl

    begin = time.perf_counter()
    dataset = resolve(data)
    with progress("Importing", "queries") as report:
        workload = import_jsonl(
            folder,
            dataset,
            out,
            de_morgan=de_morgan,
            overwrite=force,
            progress=lambda what, done: report(done, f"Importing {what}"),
        )
    _finish(workload, out, begin, json)


def import_betae_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder of BetaE's pickles.")],
    out: Out,
    data: Annotated[
        str | None, typer.Option(metavar="DATA", help="The graph that the queries are about; its ids are compared.")
    ] = None,
    de_morgan: DeMorgan = False,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Make a workload of the published BetaE pickles, which are read as data: nothing in them is run."""
    from flexkg.kg.catalog import resolve
    from flexkg.sampling.betae_pickles import import_betae

    begin = time.perf_counter()
    dataset = None if data is None else resolve(data)
    with progress("Importing", "queries") as report:
        workload = import_betae(
            folder,
            out,
            dataset=dataset,
            de_morgan=de_morgan,
            overwrite=force,
            progress=lambda what, done: report(done, f"Importing {what}"),
        )
    _finish(workload, out, begin, json)


def _finish(workload: Workload, out: Path, begin: float, as_json: bool) -> None:
    """Say what was made, and what was left out."""
    skipped = workload.settings["skipped"]
    if skipped:
        typer.echo(
            f"note: left out {', '.join(skipped)}, which repeat 2u and up without union (--de-morgan takes them)",
            err=True,
        )
    result = {"path": str(out), "seconds": time.perf_counter() - begin, **workload.info()}
    emit(result, as_json, lambda: _show(result))


def _show(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("shape", "split", box=None, pad_edge=False)
    for column in ("queries", "answers", "easy", "hard", "one link"):
        table.add_column(column, justify="right")
    for shape, by_split in result["shapes"].items():
        for split, row in by_split.items():
            table.add_row(Text(shape), split, f"{row['queries']:,}", *_sizes(row), _one_link(row["hardness"]))
    console = Console(highlight=False, emoji=False)
    console.print(table)
    console.print(
        Text(
            f"{sum(result['queries'].values()):,} queries over {result['data']['name']}, "
            f"{_size(result['bytes'])} in {result['path']}; answers are means, "
            "one link is the share of hard answers that need a single missing fact",
            style="dim",
        )
    )


def _sizes(row: dict[str, Any]) -> list[str]:
    """Mean sizes; where the answers are too many to list, of what is no answer."""
    cells = []
    for name in ("train", "easy", "hard"):
        sizes = row["answers"].get(name)
        mean = f"{sizes['mean']:,.1f}" if sizes else ""
        cells.append(f"all but {mean}" if mean and row["complement"] and name != "hard" else mean)
    return cells


def _one_link(hardness: dict[str, int] | None) -> str:
    total = sum(hardness.values()) if hardness else 0
    return f"{hardness.get('1', 0) / total:.0%}" if hardness and total else ""


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 100_000 else f"{count / 1e3:,.1f} kB"
