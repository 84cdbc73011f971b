"""`flexkg train`: a recipe and a graph in, a run folder out."""

from __future__ import annotations

import signal
from pathlib import Path  # noqa: TC003  typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flexkg.cli.output import AsJson, Device, emit, progress, say
from flexkg.errors import FlexError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flexkg.cli.output import Report
    from flexkg.config import RunConfig
    from flexkg.kg.dataset import Dataset
    from flexkg.training.listener import Listener, Progress

_RECIPE = "flex"
"""Where none is named."""


def train_command(
    out: Annotated[Path, typer.Option(help="The run folder to make, or to go on with.")],
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe's name (see `flexkg recipes`) or a TOML file; flex without one.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="world, a fetched dataset, or a prepared folder. With --resume the run's own.")
    ] = None,
    workload: Annotated[Path | None, typer.Option(help="A workload folder; one is built without it.")] = None,
    set: Annotated[list[str] | None, typer.Option("--set", help="section.key=value, as often as needed.")] = None,
    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.AUTO,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write OUT/tensorboard (extra).")] = False,
    json: AsJson = False,
) -> None:
    """Train a model; interrupt it at any time and go on with --resume."""
    from flexkg.api import choose_device
    from flexkg.training.memory import keep_freed_memory
    from flexkg.training.run import train

    dataset, name, config = _wanted(data, recipe, set or [], out if resume else None)
    where = choose_device(device)
    keep_freed_memory(where)
    try:
        with progress("training", "queries") as report:
            outcome = train(
                dataset,
                config,
                out,
                recipe=name,
                workload=workload,
                device=where,
                resume=resume,
                listener=listen(report),
                tensorboard=tensorboard,
            )
    except KeyboardInterrupt:
        # Not between two steps, but before the first or behind the last.
        typer.echo("interrupted; go on with --resume", err=True)
        raise typer.Exit(130) from None
    summary = {key: value for key, value in outcome.summary.items() if key != "process"}
    if outcome.summary["process"] == 0:
        emit(summary, json, lambda: _render(summary))
    if not outcome.finished and outcome.summary["process"] == 0:
        typer.echo(f"stopped at step {outcome.summary['steps']:,}; go on with --resume", err=True)
    if not outcome.finished:
        raise typer.Exit(130 if outcome.signal == signal.SIGINT else 0)


def _wanted(
    data: str | None, recipe: str | None, settings: Sequence[str], begun: Path | None
) -> tuple[Dataset, str, RunConfig]:
    """The facts, the recipe's name and all settings; what is not given, a run that was begun says itself."""
    from flexkg.config import load_recipe
    from flexkg.kg import catalog
    from flexkg.training.folder import RunFolder

    run = None
    if begun is not None and (data is None or (begun / "run.json").exists()):
        run = RunFolder.open(begun)
    if data is not None:
        dataset = catalog.resolve(data)
    elif run is not None:
        dataset = run.dataset
    else:
        raise FlexError("Missing option '--data'.", hint="`flexkg data list` shows what there is.")
    if run is not None and recipe is None and not settings:
        return dataset, str(run.manifest.get("recipe", "")), run.config
    name = recipe or _RECIPE
    return dataset, name, load_recipe(name, settings)


def listen(report: Report, what: str = "training") -> Listener:
    """One bar for what comes before, between and after the steps, with loss, rate and the last validation MRR."""
    from flexkg.training.listener import Listener

    def trained(state: Progress) -> None:
        mrr = "" if state.mrr is None else f", validation MRR {100 * state.mrr:.1f}"
        note = (
            f"{state.step:,} of {state.steps:,} steps, loss {state.loss:.4f}, {state.queries_per_second:,.0f} queries/s"
        )
        report(state.step, what, state.steps, note + mrr)

    return Listener(say, lambda now, done, total: report(done, now, total), trained)


def _render(summary: Any) -> None:
    best = summary["best"]
    typer.echo(
        f"{summary['model']} with {summary['parameters']:,} parameters: {summary['steps']:,} steps in "
        f"{summary['seconds']:.1f} s, {summary['queries_per_second']:,.0f} queries/s"
    )
    if best is not None:
        typer.echo(f"best validation MRR {100 * best['mrr']:.1f} at step {best['step']:,}")
    typer.echo(f"run folder: {summary['run']}")
