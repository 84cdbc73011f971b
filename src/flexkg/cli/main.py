"""The `flexkg` command."""

from __future__ import annotations

import io
import os
import signal
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from flexkg import __version__
from flexkg.cli import (
    answer,
    ask,
    bench,
    data,
    data_import,
    evaluate,
    export,
    models,
    paper,
    serve,
    shell,
    train,
    workload,
    workload_build,
)
from flexkg.cli.output import visible
from flexkg.errors import FlexError, QueryError
from flexkg.query.shapes import SHAPES

if TYPE_CHECKING:
    from collections.abc import Iterator

_LISTS = {
    "--shapes": frozenset(SHAPES),
    "--train-shapes": frozenset(SHAPES),
    "--split": frozenset({"train", "valid", "test"}),
}


class _NobodyReadsError(Exception):
    """The reader of our output has gone, as `head` does; nothing is wrong."""


class _Root(typer.core.TyperGroup):
    """Left alone, Typer turns Ctrl-C into an exit without a word, and a reader that has gone into a failure."""

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        with _ending():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: Any) -> Any:
        with _ending():
            return super().invoke(ctx)


@contextmanager
def _ending() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Abort from None
    except BrokenPipeError:
        raise _NobodyReadsError from None
    except SystemExit as end:
        # Rich ends the process where the reader has gone.
        if isinstance(end.__context__, BrokenPipeError):
            raise _NobodyReadsError from None
        raise


app = typer.Typer(
    name="flexkg",
    cls=_Root,
    help="Answers logical questions over incomplete knowledge graphs.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="Graphs: what there is, fetch, import, look.", no_args_is_help=True)
app.add_typer(data_app, name="data")
data_app.command("list")(data.list_command)
data_app.command("get")(data.get_command)
data_app.command("import")(data_import.import_command)
data_app.command("info")(data.info_command)
workload_app = typer.Typer(help="Queries with answers, for training and evaluation.", no_args_is_help=True)
app.add_typer(workload_app, name="workload")
workload_app.command("build")(workload_build.build_command)
workload_app.command("info")(workload.info_command)
workload_app.command("export")(workload.export_command)
workload_app.command("import")(workload.import_command)
workload_app.command("import-betae")(workload.import_betae_command)
app.command("answer")(answer.answer_command)
app.command("train")(train.train_command)
app.command("evaluate")(evaluate.evaluate_command)
app.command("ask")(ask.ask_command)
app.command("shell")(shell.shell_command)
app.command("serve")(serve.serve_command)
app.command("export")(export.export_command)
app.command("models")(models.models_command)
app.command("recipes")(models.recipes_command)
paper_app = typer.Typer(help="The paper's tables beside our results.", cls=paper.PaperGroup)
app.add_typer(paper_app, name="paper")
paper_app.command("show")(paper.show_command)
paper_app.command("run")(paper.run_command)
paper_app.command("workload")(paper.workload_command)
app.command("bench")(bench.bench_command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"flexkg {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; exit 0, 1 (our fault), 2 (the user's mistake, one `error:` line) or 130 (Ctrl-C)."""
    # Streams may be closed (`>&-`), and names of files need not be UTF-8.
    sys.stdin, sys.stdout, sys.stderr = (
        Path(os.devnull).open(mode) if stream is None else stream  # noqa: SIM115 - for as long as the process lives
        for stream, mode in ((sys.stdin, "r"), (sys.stdout, "w"), (sys.stderr, "w"))
    )
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # A polite end, as from a job scheduler: unwind, so that half-written files are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    code = run(sys.argv[1:])
    if os.environ.get("WORLD_SIZE", "1") != "1" or code == 130:
        # Of several processes under torchrun. Threads of their group can outlive it; one that lets go of a tensor while
        # the interpreter is taken down aborts the process. After Ctrl-C threads may go on too, and Python 3.11 forgets
        # the status where annotations were being evaluated. Everything is written, so it is not taken down.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit status."""
    try:
        code = app(_joined(arguments), standalone_mode=False)
        sys.stdout.flush()
    except FlexError as error:
        return _fail(str(error), error.caret() if isinstance(error, QueryError) else None)
    except typer.exceptions.TyperException as error:
        # Showing help for want of arguments is an exception without a message.
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        return _fail(message.replace(": Value error, ", ": ")) if message else 0
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted", file=sys.stderr)
        return 130
    except (_NobodyReadsError, BrokenPipeError):
        _leave_output()
        return 0
    except OSError as error:
        from flexkg.kg.storage import explain_os_error

        if os.environ.get("FLEXKG_TRACEBACK"):
            raise
        _leave_output()
        return _fail(str(explain_os_error(error, "standard output", "use")))
    except Exception as error:  # the last resort: a sentence, not a traceback
        if os.environ.get("FLEXKG_TRACEBACK"):
            raise
        if _lacks_memory(error):
            return _fail("out of memory: use a smaller graph, model, batch or query, or a machine with more memory")
        print(
            f"error: internal fault: {type(error).__name__}: {error} "
            "(please report it; FLEXKG_TRACEBACK=1 shows where it happened)",
            file=sys.stderr,
        )
        return 1
    return code if isinstance(code, int) else 0


def _lacks_memory(error: Exception) -> bool:
    """Whether memory was all that there was no more of; torch has an error of its own for that, without a type."""
    said = str(error).lower()
    mine = isinstance(error, RuntimeError) and ("out of memory" in said or "can't allocate memory" in said)
    return mine or isinstance(error, MemoryError)


def _leave_output() -> None:
    """Let what is still to be printed go nowhere."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _joined(arguments: list[str]) -> list[str]:
    """`--shapes 1p 2p` as `--shapes 1p,2p`: names of shapes and splits that follow such an option belong to it."""
    joined: list[str] = []
    listing: frozenset[str] = frozenset()
    for place, argument in enumerate(arguments):
        if listing and set(argument.split(",")) <= listing:
            joined[-1] += f",{argument}"
        else:
            joined.append(argument)
            listing = _LISTS.get(arguments[place - 1], frozenset()) if place else frozenset()
    return joined


def _fail(message: str, caret: str | None = None) -> int:
    print("error: " + visible(" ".join(message.split("\n"))), file=sys.stderr)
    if caret:
        print(caret, file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
