"""Shows what flexkg can do: answer questions exactly and prove it, train FLEX on `world`, predict what is missing.

Exits with 1 if the trained model does not beat a guess by how often a relation leads where.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flexkg import KnowledgeGraph, Predictor
    from flexkg.sampling.workload import Workload


class Question(NamedTuple):
    """A question in words and as a query, and what to look for in its answers."""

    connective: str
    words: str
    query: str


QUESTIONS = (
    Question("one step", "What is the capital of Japan?", "?x : capital(Japan, ?x)"),
    Question("inverse", "Which country has Canberra as its capital?", "?x : capital(?x, Canberra)"),
    Question("hop", "Capitals of Portugal's neighbours?", "?x : capital(?y, ?x) & borders(Portugal, ?y)"),
    Question("and", "Who borders both France and Germany?", "?x : borders(France, ?x) & borders(Germany, ?x)"),
    Question("or", "Who borders Portugal or Monaco?", "?x : borders(Portugal, ?x) | borders(Monaco, ?x)"),
    Question(
        "not",
        "Who in South America does not border Brazil?",
        '?x : in_continent(?x, "South America") & !borders(?x, Brazil)',
    ),
    Question("minus", "Italy's neighbours, less those with the Euro?", "?x : borders(Italy, ?x) \\ uses(?x, Euro)"),
    Question("xor", "Who borders Norway or Finland, but not both?", "?x : borders(Norway, ?x) ^ borders(Finland, ?x)"),
    Question(
        "implies",
        "Italy's neighbours that speak German if they use the Euro?",
        "?x : borders(Italy, ?x) & (uses(?x, Euro) -> speaks(?x, German))",
    ),
    Question(
        "iff",
        "Italy's neighbours that use the Euro exactly if they speak German?",
        "?x : borders(Italy, ?x) & (uses(?x, Euro) <-> speaks(?x, German))",
    ),
    Question(
        "exists",
        "Who in South America has no neighbour at all?",
        '?x : in_continent(?x, "South America") & !(exists ?y. borders(?x, ?y))',
    ),
)
PROVED = "?x : capital(?y, ?x) & borders(France, ?y) & speaks(?y, German) & !uses(?y, Euro)"


OPEN = (
    Question("hop", "Which languages are spoken next to Zambia?", "?x : borders(Zambia, ?y) & speaks(?y, ?x)"),
    Question("and", "Who borders both Kenya and Sudan?", "?x : borders(Kenya, ?x) & borders(Sudan, ?x)"),
    Question(
        "not",
        "Who speaks Spanish outside of South America?",
        '?x : speaks(?x, Spanish) & !in_continent(?x, "South America")',
    ),
)
"""Asked of the model, beyond what is known."""


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; 1 if the model is no better than the baseline."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="the run folder to make or to use")
    parser.add_argument("--again", action="store_true", help="train anew, even if the folder holds a finished run")
    given = parser.parse_args(arguments)
    begin = time.perf_counter()
    console = Console(highlight=False)
    with console.status("Loading torch and the graph"):
        import flexkg

        world = flexkg.load("world")
        world.answer(QUESTIONS[0].query)
    show_exact(console, world)
    console.rule("[bold]FLEX[/bold] learns the graph, and predicts what it lacks", align="left")
    run = trained(console, world, given.out, again=given.again)
    with tempfile.TemporaryDirectory() as folder:
        tests = build_tests(world, Path(folder) / "workload")
        model, baseline = measure(run, world, tests)
        show_held_out(console, run, tests)
    for question in OPEN:
        show_predictions(console, run, question)
    status = show_verdict(console, model, baseline)
    show_next(console, given.out, time.perf_counter() - begin)
    return status


def show_exact(console: Console, world: KnowledgeGraph) -> None:
    """What follows from the facts."""
    show_graph(console, world)
    begin = time.perf_counter()
    for question in QUESTIONS:
        show_answers(console, world, question)
    seconds = time.perf_counter() - begin
    show_proof(console, world)
    console.print(f"{len(QUESTIONS)} questions asked, answered and printed in {1000 * seconds:.0f} ms.", style="dim")
    console.print()


def trained(
    console: Console,
    world: KnowledgeGraph,
    out: Path,
    *,
    again: bool = False,
    settings: Mapping[str, Any] | None = None,
    workload: Path | None = None,
) -> Predictor:
    """The run in the folder, trained if it is not there yet, or to its end if it was interrupted."""
    import torch

    import flexkg
    from flexkg.training.memory import keep_freed_memory

    manifest = out / "run.json"
    begun = manifest.is_file() and json.loads(manifest.read_text(encoding="utf-8")).get("format") == "flexkg-run"
    if begun and again:
        shutil.rmtree(out)
        begun = False
    if begun and json.loads(manifest.read_text(encoding="utf-8")).get("result", {}).get("finished"):
        console.print(f"{out} holds a finished run, which is used; `--again` trains anew.\n")
        return flexkg.open(out, "cpu")
    console.print(f"Training the recipe flex-small on 90% of the facts, into {out}; Ctrl-C keeps what is done.")
    keep_freed_memory(torch.device("cpu"))
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("sampling questions")

        def report(progress: Any) -> None:
            mrr = "" if progress.mrr is None else f", validation MRR {100 * progress.mrr:.1f}"
            what = f"loss {progress.loss:.3f}, {progress.queries_per_second:,.0f} queries/s{mrr}"
            bar.update(task, total=progress.steps, completed=progress.step, description=what)

        run = flexkg.train(
            world, "flex-small", out, settings=settings, workload=workload, device="cpu", resume=begun, report=report
        )
    result = run.run.manifest["result"]
    console.print(
        f"{result['steps']:,} steps, {result['parameters']:,} parameters, {result['whole_seconds']:.0f} s in all, "
        f"{result['queries_per_second']:,.0f} queries a second.\n"
    )
    return run


def build_tests(world: KnowledgeGraph, folder: Path, shapes: tuple[str, ...] | None = None) -> Workload:
    """Questions with answers that need facts of the test split, which training never saw."""
    from flexkg.sampling.make import Order, make_workload
    from flexkg.sampling.workload import Workload

    make_workload(world.dataset, folder, Order(splits=("test",), shapes=shapes))
    return Workload.load(folder)


def measure(run: Predictor, world: KnowledgeGraph, tests: Workload) -> tuple[dict[str, float], dict[str, float]]:
    """MRR of each shape of test questions: the model's and the baseline's."""
    from flexkg.evaluation.baseline import RelationFrequency
    from flexkg.evaluation.ranking import rank
    from flexkg.models import interpretation
    from flexkg.plan.prepare import Interpretation, Union

    by = interpretation(run.model)
    baseline = RelationFrequency(world.dataset.graph("train"))
    all_of_them = Interpretation(baseline.operators, Union.NATIVE)
    queries = {shape: tests.queries("test", shape) for shape in tests.shapes("test")}
    model = {shape: rank(run.model, some, by).metrics()["mrr"] for shape, some in queries.items()}
    return model, {shape: rank(baseline, some, all_of_them).metrics()["mrr"] for shape, some in queries.items()}  # type: ignore[arg-type]


def show_held_out(console: Console, run: Predictor, tests: Workload) -> None:
    """How many facts that training never saw are among the first guesses, and some of them."""
    import numpy as np

    from flexkg.evaluation.ranking import rank
    from flexkg.models import interpretation

    queries = tests.queries("test", "1p")
    ranks = rank(run.model, queries, interpretation(run.model)).realistic
    owner = np.repeat(np.arange(len(queries)), queries.answers["hard"].lengths)
    found = int((ranks <= 10).sum())
    console.print(
        f"[bold]{found:,} of {len(ranks):,}[/bold] answers that it never saw are among its first ten guesses, as"
    )
    shown: set[int] = set()
    names = run.run.dataset.entities.names
    for place in np.argsort(ranks, kind="stable"):
        query = owner[place]
        relation = int(queries.relations[query, 0])
        if relation in shown or ranks[place] > 10:
            continue
        shown.add(relation)
        subject, answer = names[int(queries.entities[query, 0])], names[int(queries.answers["hard"].members[place])]
        name = run.run.dataset.relations.names[relation // 2]
        atom = f"{name}({subject}, {answer})" if relation % 2 == 0 else f"{name}({answer}, {subject})"
        console.print(Text(f"         {atom:<56} guess {ranks[place]:.0f}", style="green"), soft_wrap=True)
        if len(shown) == 6:
            break
    console.print()


def show_predictions(console: Console, run: Predictor, question: Question, guesses: int = 4) -> None:
    """Print what is known and what the model would add."""
    console.print(f"[bold cyan]{question.connective:<8}[/bold cyan] [bold]{question.words}[/bold]")
    console.print(Text(f"         {question.query}", style="dim"), soft_wrap=True)
    known = run.kg.answer(question.query).names()
    console.print(Text(f"         known: {', '.join(known)}", style="green"), soft_wrap=True)
    marks = [
        f"{answer.name} {'' if answer.probability is None else f'({answer.probability:.0%})'}"
        for answer in run.ask(question.query, top=guesses, known=False)
    ]
    console.print(Text(f"         guessed beyond that: {', '.join(marks)}\n", style="yellow"), soft_wrap=True)


def show_verdict(console: Console, model: Mapping[str, float], baseline: Mapping[str, float]) -> int:
    """Print both sides by shape; 1 unless the model is better on average."""
    table = Table("test questions", title="mean reciprocal rank of answers that need facts it never saw, times 100")
    for column in ("FLEX", "relation frequency"):
        table.add_column(column, justify="right")
    means = {}
    for name, values in (("model", model), ("baseline", baseline)):
        means[name] = sum(values.values()) / len(values)
    for shape in model:
        table.add_row(shape, f"{100 * model[shape]:.1f}", f"{100 * baseline[shape]:.1f}")
    table.add_section()
    table.add_row("mean", f"{100 * means['model']:.1f}", f"{100 * means['baseline']:.1f}", style="bold")
    console.print(table)
    if means["model"] > means["baseline"]:
        return 0
    console.print("[bold red]FLEX is not better than guessing by relation.[/bold red]")
    return 1


def show_graph(console: Console, world: KnowledgeGraph) -> None:
    """Print what the graph holds, with a fact of each relation."""
    info, relations = world.info(), world.dataset.relations
    console.rule("[bold]world[/bold], a graph that comes with flexkg", align="left")
    console.print(f"{info['entities']:,} entities and {sum(info['edges'].values()):,} facts such as")
    for name in relations.names:
        subject = "Lima" if name in ("located_in", "time_zone") else "Peru"
        example = world.answer(f"?x : {name}({subject}, ?x)").names(1)[0]
        console.print(Text(f"         {name}({subject}, {example})"))
    console.print()


def show_answers(console: Console, world: KnowledgeGraph, question: Question) -> None:
    """Print a question and its answers."""
    names = world.answer(question.query).names()
    console.print(f"[bold cyan]{question.connective:<8}[/bold cyan] [bold]{question.words}[/bold]")
    console.print(Text(f"         {question.query}", style="dim"), soft_wrap=True)
    console.print(Text(f"         {', '.join(names)}\n", style="green"), soft_wrap=True)


def show_proof(console: Console, world: KnowledgeGraph) -> None:
    """Print an answer with the facts that prove it."""
    console.print("[bold cyan]why[/bold cyan]      [bold]Each answer has a proof.[/bold]")
    console.print(Text(f"         {PROVED}", style="dim"), soft_wrap=True)
    for explanation in world.answer(PROVED).explain():
        tree = Tree(Text(explanation.answer.name, style="green"), guide_style="dim")
        for fact in explanation.facts:
            tree.add(Text(fact["text"]))
        for absent in explanation.absent:
            tree.add(Text.assemble(("not known: ", "dim"), absent))
        console.print(Padding(tree, (0, 0, 1, 9)))


def show_next(console: Console, out: Path, seconds: float) -> None:
    """What to try."""
    console.print(f"\nDone in {seconds:.0f} s. Ask it yourself, or bring your own data:")
    for command in (
        f""".venv/bin/flexkg ask {out} '?x : speaks(?x, Portuguese) & in_continent(?x, Africa)' --explain""",
        """.venv/bin/flexkg data import --train triples.tsv --out mygraph""",
    ):
        console.print(Text(f"  {command}", style="bold"), soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
