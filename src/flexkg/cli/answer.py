"""`flexkg answer`: exact answers from known facts, for one query or a file of them."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path  # noqa: TC003  typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flexkg.cli.output import AsJson, emit, in_markup, progress, visible
from flexkg.errors import FlexError

if TYPE_CHECKING:
    from flexkg.api import Answers, Explanation, KnowledgeGraph

_SHOWN = 20
_COMPLEMENT_SHOWN = 1000


class Split(StrEnum):
    """The cumulative graphs."""

    TRAIN = "train"
    VALID = "valid"
    TEST = "test"


def answer_command(
    data: Annotated[str, typer.Argument(metavar="DATA", help="world, a fetched dataset, or a prepared folder.")],
    query: Annotated[
        str | None, typer.Argument(metavar="QUERY", help="Such as '?x : borders(France, ?x) & !uses(?x, Euro)'.")
    ] = None,
    graph: Annotated[
        Split, typer.Option(help="Facts to use: train, valid (train and valid) or test (all of them).")
    ] = Split.TEST,
    explain: Annotated[bool, typer.Option("--explain", help="Show the facts that prove each answer.")] = False,
    limit: Annotated[int | None, typer.Option(min=0, help="Answers to show.")] = None,
    queries: Annotated[
        Path | None, typer.Option(help='A file of queries, a line {"q": nested list or text} each.')
    ] = None,
    out: Annotated[Path | None, typer.Option(help='With --queries: where the lines {"answers": [...]} go.')] = None,
    json: AsJson = False,
) -> None:
    """Answer a question exactly, from the facts that are known."""
    if (query is None) == (queries is None):
        raise FlexError(
            "Give either a QUERY or --queries FILE.", hint='Try: flexkg answer world "?x : capital(France, ?x)"'
        )
    if queries is not None and out is None:
        raise FlexError("--queries needs --out.", hint="Say where the answers go, such as --out answers.jsonl.")
    if queries is not None and explain:
        raise FlexError("--explain goes with one QUERY.", hint="A file of queries gets its answers only.")
    if query is not None and out is not None:
        raise FlexError("--out goes with --queries.", hint="The answers to one query are printed; leave --out away.")
    from flexkg.api import load

    kg = load(data)
    if queries is not None and out is not None:
        _answer_file(kg, queries, out, graph, limit, json)
    elif query is not None:
        _answer_one(kg, query, graph, explain, limit, json)


def _answer_one(kg: KnowledgeGraph, query: str, graph: str, explain: bool, limit: int | None, as_json: bool) -> None:
    answers = kg.answer(query, graph)
    if limit is None:
        # A script gets everything that can be listed; people get a page.
        limit = _SHOWN if not as_json else _COMPLEMENT_SHOWN if answers.complement else answers.count
    explanations = answers.explain(limit) if explain else []
    shown = answers.to_dicts(limit)
    result: dict[str, Any] = {
        "query": answers.query,
        "graph": str(graph),
        "count": answers.count,
        "complement": answers.complement,
        "answers": shown,
        "truncated": len(shown) < answers.count,
    }
    if explain:
        result["witnesses"] = [explanation.to_dict() for explanation in explanations]
    emit(result, as_json, lambda: _render(answers, shown, explanations))


def _answer_file(kg: KnowledgeGraph, queries: Path, out: Path, graph: str, limit: int | None, as_json: bool) -> None:
    from flexkg.engine.files import answer_file

    engine = kg.engine(graph)
    begin = time.perf_counter()
    with progress("Answering", "queries") as report:
        count = answer_file(kg.dataset, engine, queries, out, limit=limit, progress=report)
    seconds = time.perf_counter() - begin
    rate = count / max(seconds, 1e-9)
    result = {"queries": count, "seconds": seconds, "queries_per_second": rate, "out": str(out)}
    emit(
        result,
        as_json,
        lambda: typer.echo(
            f"{count:,} {'query' if count == 1 else 'queries'} answered in {seconds:.2f} s ({rate:,.0f}/s) into {out}"
        ),
    )


def _render(answers: Answers, shown: list[dict[str, str]], explanations: list[Explanation]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.tree import Tree

    console = Console(emoji=False)
    console.print(visible(answers.query), markup=False, highlight=False, style="bold", soft_wrap=True)
    if answers.count == 0:
        console.print("No answers among the known facts.")
    elif explanations:
        for explanation in explanations:
            tree = Tree(in_markup(explanation.answer.name), guide_style="dim")
            for fact in explanation.facts:
                tree.add(
                    in_markup(fact["text"]) + ("" if fact["split"] == "train" else f" [dim]({fact['split']})[/dim]")
                )
            for text in explanation.absent:
                tree.add(f"[dim]not known:[/dim] {in_markup(text)}")
            console.print(tree, highlight=False)
    else:
        table = Table("name", "entity", box=None, pad_edge=False)
        for row in shown:
            table.add_row(in_markup(row["name"]), in_markup(row["entity"]), style=None)
        console.print(table)
    rest = answers.count - len(shown)
    plural = "" if answers.count == 1 else "s"
    ending = f"{answers.count:,} answer{plural}" + (f", {rest:,} not shown (--limit)" if rest else "")
    if answers.complement:
        ending += "; the question is open-ended: everything but a few entities answers it"
    console.print(ending, style="dim", highlight=False)
