"""`flexkg ask`: ranked answers from a trained run, known and predicted, for one query or a file of them."""

from __future__ import annotations

import time
from pathlib import Path  # noqa: TC003  typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated

import typer

from flexkg.cli.output import AsJson, Device, emit, in_markup, progress, visible
from flexkg.errors import FlexError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.tree import Tree

    from flexkg.predictor.explain import Reasoning
    from flexkg.predictor.predictions import Predictions
    from flexkg.predictor.predictor import Predictor


def ask_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A folder that `train` made.")],
    query: Annotated[
        str | None, typer.Argument(metavar="QUERY", help="Such as '?x : borders(France, ?x) & !uses(?x, Euro)'.")
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="Answers to show.")] = 10,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the answers of every part of the query, and reasons.")
    ] = False,
    min_probability: Annotated[float | None, typer.Option(help="Leave out what is less likely.")] = None,
    predicted_only: Annotated[bool, typer.Option("--predicted-only", help="Leave known answers out.")] = False,
    queries: Annotated[
        Path | None, typer.Option(help='A file of queries, a line {"q": nested list or text} each.')
    ] = None,
    out: Annotated[Path | None, typer.Option(help='With --queries: where the lines {"answers": [...]} go.')] = None,
    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.AUTO,
    json: AsJson = False,
) -> None:
    """Ask a trained run: what is known, and what is likely."""
    if (query is None) == (queries is None):
        raise FlexError("Give either a QUERY or --queries FILE.", hint='Try: flexkg ask RUN "?x : borders(France, ?x)"')
    if queries is not None and out is None:
        raise FlexError("--queries needs --out.", hint="Say where the answers go, such as --out answers.jsonl.")
    if queries is not None and explain:
        raise FlexError("--explain goes with one QUERY.", hint="A file of queries gets its answers only.")
    if query is not None and out is not None:
        raise FlexError("--out goes with --queries.", hint="The answers to one query are printed; leave --out away.")
    from flexkg.predictor.predictor import Predictor

    predictor = Predictor.open(run, device)
    if queries is not None and out is not None:
        _ask_file(predictor, queries, out, top, not predicted_only, min_probability, json)
    elif query is not None:
        found = predictor.ask(query, top, known=not predicted_only, min_probability=min_probability)
        reasoning = found.explain() if explain else None
        result = found.to_dict() | ({} if reasoning is None else reasoning.to_dict())
        emit(result, json, lambda: show(found, reasoning))


def _ask_file(
    predictor: Predictor, queries: Path, out: Path, top: int, known: bool, least: float | None, as_json: bool
) -> None:
    from flexkg.predictor.files import ask_file

    begin = time.perf_counter()
    with progress("Asking", "queries") as report:
        count = ask_file(predictor, queries, out, top=top, known=known, min_probability=least, progress=report)
    seconds = time.perf_counter() - begin
    rate = count / max(seconds, 1e-9)
    result = {"queries": count, "seconds": seconds, "queries_per_second": rate, "out": str(out)}
    noun = "query" if count == 1 else "queries"
    emit(
        result,
        as_json,
        lambda: typer.echo(f"{count:,} {noun} asked in {seconds:.2f} s ({rate:,.0f}/s) into {out}"),
    )


def show(found: Predictions, reasoning: Reasoning | None = None) -> None:
    """Print answers, and how they came about, for people."""
    from rich.console import Console

    console = Console(emoji=False)
    console.print(visible(found.query), markup=False, highlight=False, style="bold", soft_wrap=True)
    if len(found):
        _table(console, found)
    else:
        console.print("No answers to show.")
    console.print(found.summary(), style="dim", highlight=False)
    if reasoning is None:
        for note in found.notes:
            console.print(f"rewritten: {note}", style="dim", markup=False, highlight=False)
        return
    console.print(_tree(reasoning, reasoning.asked, None), highlight=False)
    for note in reasoning.notes:
        console.print(f"rewritten: {note}", markup=False, highlight=False)
    for id in reasoning.computed():
        console.print("computed as", style="dim")
        console.print(_tree(reasoning, id, None), highlight=False)
    _reasons(console, reasoning)


def _table(console: Console, found: Predictions) -> None:
    from rich.table import Table

    from flexkg.predictor.answers import mark

    table = Table(box=None, pad_edge=False)
    for heading in ("", "name", "entity", "score", "probability"):
        table.add_column(heading, justify="left" if heading in ("name", "entity") else "right")
    for answer in found:
        cells = (
            str(answer.rank),
            in_markup(answer.name),
            in_markup(answer.entity),
            f"{answer.score:.2f}",
            mark(answer),
        )
        table.add_row(*cells, style="green" if answer.known else None)
    console.print(table)


def _tree(reasoning: Reasoning, id: int, above: Tree | None) -> Tree:
    """The computation graph as a tree, the query at its root."""
    from rich.tree import Tree

    from flexkg.predictor.explain import step_text

    step = reasoning.steps[id]
    text = f"[bold]{in_markup(step.label)}[/bold]{in_markup(step_text(step))}"
    tree = Tree(text, guide_style="dim") if above is None else above.add(text)
    for operand in step.operands:
        _tree(reasoning, operand, tree)
    return tree


def _reasons(console: Console, reasoning: Reasoning) -> None:
    from rich.tree import Tree

    from flexkg.predictor.answers import mark

    for reason in reasoning.reasons:
        tree = Tree(f"{in_markup(reason.answer.name)} ({mark(reason.answer)})", guide_style="dim")
        for line in reason.lines():
            tree.add(in_markup(line))
        console.print(tree, highlight=False)
