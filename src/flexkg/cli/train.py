"""`flexkg train`: a recipe and a graph in, a run folder out."""

from __future__ import annotations

import signal
from pathlib import Path  # noqa: TC003  typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flexkg.cli.output import AsJson, Device, emit, progress, say

if TYPE_CHECKING:
    from flexkg.cli.output import Report
    from flexkg.training.listener import Listener, Progress


def train_command(
    data: Annotated[str, typer.Option(help="world, a fetched dataset, or a prepared folder.")],
    out: Annotated[Path, typer.Option(help="The run folder to make, or to go on with.")],
    recipe: Annotated[str, typer.Argument(help="A recipe's name (see `flexkg recipes`) or a TOML file.")] = "flex",
    workload: Annotated[Path | None, typer.Option(help="A workload folder; one is built without it.")] = None,
    set: Annotated[list[str] | None, typer.Option("--set", help="section.key=value, as often as needed.")] = None,
    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.AUTO,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write OUT/tensorboard (extra).")] = False,
    json: AsJson = False,
) -> None:
    """Train a model; interrupt it at any time and go on with --resume."""
    from flexkg.api import choose_device
    from flexkg.config import load_recipe
    from flexkg.kg import catalog
    from flexkg.training.memory import keep_freed_memory
    from flexkg.training.run import train

    config = load_recipe(recipe, set or ())
    where = choose_device(device)
    if where.type == "cpu":
        keep_freed_memory()
    try:
        with progress("training", "queries") as report:
            outcome = train(
                catalog.resolve(data),
                config,
                out,
                recipe=recipe,
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
