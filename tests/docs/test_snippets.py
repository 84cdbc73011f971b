"""What the documentation shows is what happens: its commands, its Python and its queries run here.

| fence | what is done with it |
|---|---|
| any with `title="FILE"` | written to FILE in the page's own empty folder |
| `console` | `$ flexkg ...` and `$ cat FILE` run and must print what is shown, where `...` stands for anything |
| `python` | run in order, all of a page in one namespace; with `>>>` as a doctest |
| `flexkg` | each line is a query that `world` must understand; `# error: TEXT` behind one says how it must fail |
| others, such as `sh` | shown only |
"""

from __future__ import annotations

import doctest
import io
import re
import shlex
import textwrap
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from flexkg import api
from flexkg.cli.main import run
from flexkg.errors import FlexError

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))

_FENCE = re.compile(r"^( *)```(\w*) *(.*)$")
_TITLE = re.compile(r'title="([^"]+)"')
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)|(?:src|href)=\"([^\"#]+)\"")


@dataclass(frozen=True)
class Snippet:
    """A fenced block: its language, its title if it has one, its text, and the line that its text begins on."""

    language: str
    title: str | None
    text: str
    line: int


def snippets(page: Path) -> list[Snippet]:
    """The fenced blocks of a page."""
    found: list[Snippet] = []
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), start=1))
    for number, line in lines:
        if (fence := _FENCE.match(line)) is None:
            continue
        indent, language, options = fence.groups()
        body = []
        for _, inner in lines:
            if inner.startswith(f"{indent}```"):
                break
            body.append(inner)
        else:
            pytest.fail(f"{page.name}:{number}: the fence is never closed")
        title = _TITLE.search(options)
        text = textwrap.dedent("".join(f"{inner}\n" for inner in body))
        found.append(Snippet(language, title and title[1], text, number + 1))
    return found


@cache
def world() -> api.KnowledgeGraph:
    return api.load("world")


@pytest.fixture
def page_folder(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLEXKG_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    for name in ("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path, page_folder: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__docs__"}
    for snippet in snippets(page):
        where = f"{page.relative_to(ROOT)}:{snippet.line}"
        if snippet.title is not None:
            (page_folder / snippet.title).write_text(snippet.text, encoding="utf-8")
        elif snippet.language == "console":
            run_console(snippet, where)
        elif snippet.language == "python":
            run_python(snippet, where, namespace)
        elif snippet.language == "flexkg":
            parse_queries(snippet, where)


def run_console(snippet: Snippet, where: str) -> None:
    """Run each command and compare what it prints; a shown `error:` goes with exit status 2."""
    assert snippet.text.startswith("$ "), f"{where}: a console block begins with a command"
    for part in re.split(r"^\$ ", snippet.text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.replace("\\\n", " ").partition("\n")
        status, printed = run_command(shlex.split(command, comments=True), where)
        compare(expected, printed, f"{where}: {command}")
        assert status == (2 if re.search("^error:", expected, re.MULTILINE) else 0), f"{where}: {command}"


def run_command(arguments: list[str], where: str) -> tuple[int, str]:
    if arguments[0] == "cat":
        return 0, "".join(Path(name).read_text(encoding="utf-8") for name in arguments[1:])
    assert arguments[0] == "flexkg", f"{where}: only flexkg and cat can run; use a sh fence for {arguments[0]}"
    # In this process: a new one would import torch again for every command.
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        status = run(arguments[1:])
    return status, output.getvalue()


def compare(expected: str, printed: str, where: str) -> None:
    """Equal but for spaces at the ends of lines, and for what `...` stands for."""
    wanted, got = ("".join(f"{line.rstrip()}\n" for line in text.strip().splitlines()) for text in (expected, printed))
    same = doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS)
    assert same, f"{where}\n--- the page shows\n{wanted}--- it prints\n{got}"


def run_python(snippet: Snippet, where: str, namespace: dict[str, Any]) -> None:
    if ">>>" not in snippet.text:
        exec(compile("\n" * (snippet.line - 1) + snippet.text, where.partition(":")[0], "exec"), namespace)
        return
    test = doctest.DocTestParser().get_doctest(snippet.text, {}, where, where, snippet.line)
    test.globs = namespace  # the parser would copy it, and later blocks would not see what this one defines
    report = io.StringIO()
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.write, clear_globs=False)
    assert result.failed == 0, report.getvalue()


def parse_queries(snippet: Snippet, where: str) -> None:
    lines = [line for line in snippet.text.splitlines() if line.strip()]
    for line in lines:
        query, _, failure = line.partition("# error:")
        if not query.strip() or query.startswith("#"):
            continue
        if failure:
            with pytest.raises(FlexError, match=re.escape(failure.strip())):
                world().parse(query.rstrip())
        else:
            try:
                world().parse(query.partition(" # ")[0].rstrip())
            except FlexError as error:
                pytest.fail(f"{where}: {query}\n{error}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [first or second for first, second in _LINK.findall(text)]
    broken = [link for link in targets if "://" not in link and not (page.parent / link).exists()]
    assert not broken
