"""`flexkg export`: a run's embeddings and vocabularies in plain files."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  typer reads the annotations at run time
from typing import Annotated

import typer

from flexkg.cli.output import AsJson, emit


def export_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A folder that `train` made.")],
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an older export there.")] = False,
    json: AsJson = False,
) -> None:
    """Write a run's embeddings as NumPy arrays and its vocabularies as tables."""
    from flexkg.predictor.export import export_run

    result = export_run(run, out, overwrite=force)
    emit(result, json, lambda: typer.echo(f"{len(result['files'])} files in {result['path']}"))
