"""Shows what flexkg can do today: load `world`, answer questions with every connective, prove an answer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.padding import Padding
from rich.text import Text
from rich.tree import Tree

if TYPE_CHECKING:
    from flexkg import KnowledgeGraph


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


def main() -> None:
    """Run the demo."""
    console = Console(highlight=False)
    with console.status("Loading torch and the graph"):
        import flexkg

        world = flexkg.load("world")
        world.answer(QUESTIONS[0].query)
    show_graph(console, world)
    begin = time.perf_counter()
    for question in QUESTIONS:
        show_answers(console, world, question)
    seconds = time.perf_counter() - begin
    show_proof(console, world)
    console.print(f"{len(QUESTIONS)} questions asked, answered and printed in {1000 * seconds:.0f} ms.", style="dim")
    show_next(console)


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


def show_next(console: Console) -> None:
    """Say what this is not yet, and what to try."""
    console.rule("What comes next", align="left")
    console.print(
        "All of this follows from facts in the graph. Graphs are incomplete: asking a\n"
        "trained FLEX for the answers that are missing comes next, and does not exist yet.\n\n"
        "Try one yourself, or bring your own data:"
    )
    for command in (
        """.venv/bin/flexkg answer world '?x : speaks(?x, Portuguese) & in_continent(?x, Africa)' --explain""",
        """.venv/bin/flexkg data import --train triples.tsv --out mygraph""",
    ):
        console.print(Text(f"  {command}", style="bold"), soft_wrap=True)


if __name__ == "__main__":
    main()
