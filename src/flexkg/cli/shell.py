"""`flexkg shell`: ask a trained run question after question, with completion and history."""

from __future__ import annotations

import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path  # noqa: TC003  typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flexkg.cli.ask import show
from flexkg.cli.output import Device, visible
from flexkg.errors import FlexError, QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prompt_toolkit import PromptSession

    from flexkg.predictor.predictions import Predictions
    from flexkg.predictor.predictor import Predictor

_PROMPT = "flexkg> "
_HELP = """\
A question: ?x : borders(France, ?x) & !uses(?x, Euro)
:explain    how the last question was answered
:top N      show N answers
:known      show known answers as well, or predicted ones only
:help       this
:quit       leave (or Ctrl-D)"""


def shell_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A folder that `train` made.")],
    top: Annotated[int, typer.Option(min=0, max=10_000, help="Answers to show.")] = 10,
    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.AUTO,
    json: Annotated[bool, typer.Option("--json", help="Not here: `ask` prints JSON.")] = False,
) -> None:
    """Ask a trained run question after question."""
    if json:
        raise FlexError(
            "The shell answers question after question, and --json is one object.",
            hint='Ask with `flexkg ask RUN "QUERY" --json`, or a file of questions with `flexkg ask --queries`.',
        )
    from flexkg.predictor.predictor import Predictor

    session = Session(Predictor.open(run, device), top)
    asked = sys.stdin.isatty()
    if asked:
        typer.echo(f"{session.predictor!r}\nA question, or :help")
    for line in _lines(session.predictor, asked):
        if not session.handle(line):
            return


class Session:
    """What one shell remembers between lines."""

    def __init__(self, predictor: Predictor, top: int = 10) -> None:
        self.predictor = predictor
        self.top = top
        self.known = True
        self.last: Predictions | None = None

    def handle(self, line: str) -> bool:
        """Do what a line says, and tell whether to go on; a mistake is shown and ends nothing."""
        text = line.strip()
        if text in (":quit", ":q", ":exit"):
            return False
        try:
            self._command(text) if text.startswith(":") else self._ask(text)
        except FlexError as error:
            typer.echo(f"error: {visible(str(error))}", err=True)
            if isinstance(error, QueryError) and (caret := error.caret()):
                typer.echo(caret, err=True)
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
        return True

    def _ask(self, text: str) -> None:
        if text:
            self.last = self.predictor.ask(text, self.top, known=self.known)
            show(self.last)

    def _command(self, text: str) -> None:
        name, _, argument = text.partition(" ")
        match name:
            case ":help" | ":h":
                typer.echo(_HELP)
            case ":explain":
                if self.last is None:
                    raise FlexError("There is nothing to explain yet.", hint="Ask a question first.")
                show(self.last, self.last.explain())
            case ":known":
                self.known = not self.known
                typer.echo("known and predicted answers" if self.known else "predicted answers only")
            case ":top":
                from flexkg.predictor.predictor import MOST

                # A number of so many digits is not read at all.
                wanted = argument.strip()
                if not (wanted.isdecimal() and len(wanted) < 10 and int(wanted) <= MOST):
                    raise FlexError(
                        f"{wanted[:20]!r} is no number of answers from 0 to {MOST:,}.",
                        hint="Write :top 20, for example.",
                    )
                self.top = int(wanted)
            case _:
                raise FlexError(f"There is no command {name}.", hint=":help lists them.")


def _lines(predictor: Predictor, asked: bool) -> Iterator[str]:
    """The lines that are typed or piped in, until the input ends."""
    if not asked:
        yield from sys.stdin
        return
    read: Callable[[], str] = partial(input, _PROMPT)
    if find_spec("prompt_toolkit") is not None:
        read = prompt(predictor).prompt
    while True:
        try:
            yield read()
        except KeyboardInterrupt:  # a line given up
            continue
        except EOFError:
            return


def prompt(predictor: Predictor) -> PromptSession[str]:
    """A prompt with completion and a history that outlives it."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    from flexkg.kg.catalog import home
    from flexkg.predictor.completion import complete

    class Names(Completer):
        """Entities and relations of the run."""

        def get_completions(self, document: Any, complete_event: Any) -> Iterator[Completion]:  # noqa: ARG002
            text = document.text_before_cursor
            for found in complete(predictor.run.dataset, text):
                yield Completion(found.text, found.start - len(text), display_meta=found.about[:60])

    history: FileHistory | InMemoryHistory = InMemoryHistory()
    try:
        home().mkdir(parents=True, exist_ok=True)
        with (home() / "shell-history").open("a"):
            history = FileHistory(str(home() / "shell-history"))
    except OSError:  # a read-only home has no history
        pass
    return PromptSession(_PROMPT, completer=Names(), history=history)
