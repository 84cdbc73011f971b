"""`flexkg data import`: a user's files into a prepared folder."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flexkg.cli.output import AsJson, emit, progress, say, visible

if TYPE_CHECKING:
    from flexkg.kg.dataset import Dataset


def import_command(
    train: Annotated[
        Path, typer.Option(help="Triples: TSV, CSV, Parquet, N-Triples or Turtle, also .gz, or a PyKEEN folder.")
    ],
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    valid: Annotated[Path | None, typer.Option(help="Validation triples.")] = None,
    test: Annotated[Path | None, typer.Option(help="Test triples.")] = None,
    names: Annotated[
        Path | None, typer.Option(help="A table of entity, name and, if there are, description and aliases (a|b|c).")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Columns of head, relation and tail: names or numbers (1,2,3), or roles in order (h,r,t,_)."),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Divide one file into train, valid and test, such as 0.9,0.05,0.05.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same split.")] = 0,
    max_errors: Annotated[
        int, typer.Option(min=0, help="Stop, and write nothing, when more lines than this are bad.")
    ] = 100,
    force: Annotated[bool, typer.Option("--force", help="Replace a dataset that is already there.")] = False,
    name: Annotated[str | None, typer.Option(help="The dataset's name; the folder's by default.")] = None,
    json: AsJson = False,
) -> None:
    """Import triples into a prepared folder that every other command takes as DATA."""
    from flexkg.kg.ingest import import_files

    with progress("Importing", "done") as report:
        dataset = import_files(
            train,
            valid,
            test,
            out=out,
            names=names,
            columns=columns,
            split=split,
            seed=seed,
            max_errors=max_errors,
            name=name,
            overwrite=force,
            progress=lambda what, done, total: report(done, what, total or None),
        )
    result = import_result(dataset, out)
    emit(result, json, lambda: render(result))
    warn(result)


def import_result(dataset: Dataset, out: Path) -> dict[str, Any]:
    """The fields that `--json` prints."""
    return {
        "path": str(out),
        "name": dataset.name,
        "entities": len(dataset.entities),
        "relations": len(dataset.relations),
        "edges": {split: len(triples) for split, triples in dataset.triples.items()},
        **{key: value for key, value in dataset.report.items() if key != "files"},
        "checksum": dataset.checksum,
    }


def render(result: dict[str, Any]) -> None:
    """Print what was imported, for people."""
    from rich.console import Console
    from rich.table import Table

    console = Console(emoji=False)
    console.print(f"Imported {result['name']} into {result['path']}", markup=False, highlight=False, soft_wrap=True)
    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right")
    rows = {
        "entities": result["entities"],
        "relations": result["relations"],
        **{f"{split} edges": count for split, count in result["edges"].items()},
        "bad lines skipped": result["skipped"],
        "duplicates dropped": result["duplicates"],
        "dropped, in an earlier split": result["repeated_in_later_split"],
        "self loops": result["self_loops"],
        "literals left out": result["literals"],
    }
    for label, count in rows.items():
        if count or label in ("entities", "relations", "train edges"):
            table.add_row(label, f"{count:,}")
    console.print(table)


def warn(result: dict[str, Any]) -> None:
    """Say on standard error what the user may want to look at."""
    for header in result["headers"]:
        columns = ", ".join(header["columns"])
        say(f"{visible(header['file'])}: the first line is taken for a header: {visible(columns)}")
    for bad in result["bad_lines"]:
        typer.echo(f"warning: {bad['file']} line {bad['line']}: {bad['reason']}: {bad['text']!r}", err=True)
    more = result["skipped"] - len(result["bad_lines"])
    if more > 0:
        typer.echo(f"warning: and {more:,} more bad lines", err=True)
    unseen = result["unseen"]
    if unseen["entities"] or unseen["relations"]:
        typer.echo(
            f"warning: {unseen['entities']:,} entities and {unseen['relations']:,} relations stand in valid or test "
            "only; a model cannot learn them",
            err=True,
        )
    if result["unknown_names"]:
        typer.echo(f"warning: {result['unknown_names']:,} entries of the names file are not in the graph", err=True)
    for split, count in ((result["split"] or {}).get("lacking") or {}).items():
        typer.echo(
            f"warning: {split} has {count:,} edges fewer than asked, so that every entity and relation is in train",
            err=True,
        )
