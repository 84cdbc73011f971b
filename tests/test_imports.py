"""The architecture as tests: imports point one way, heavy packages load when first needed, modules stay short."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flexkg

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(flexkg.__file__).parent
LONGEST_MODULE = 400

# What each part may import, lowest first. A part that is not listed here fails until somebody decides where it belongs.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "version": set(),
    "wanted": {"errors"},
    "threads": set(),
    "compiled": set(),
    "query": {"errors"},
    "logic": {"errors"},
    "kg": {"errors", "query"},
    "plan": {"errors", "query"},
    "models": {"errors", "threads", "compiled", "query", "logic", "plan"},
    "model_settings": set(),
    "config": {"errors", "query", "models", "model_settings"},
    "engine": {"errors", "wanted", "threads", "compiled", "query", "kg", "plan"},
    "sampling": {"errors", "threads", "query", "kg", "plan", "engine"},
    "evaluation": {"errors", "threads", "compiled", "query", "kg", "plan", "engine", "sampling", "models"},
    "training": {
        "errors",
        "query",
        "kg",
        "plan",
        "engine",
        "sampling",
        "models",
        "config",
        "model_settings",
        "evaluation",
        "version",
    },
    "paper": {
        "errors",
        "query",
        "kg",
        "plan",
        "engine",
        "sampling",
        "models",
        "config",
        "evaluation",
        "training",
        "version",
    },
    "frames": {"errors"},
    "api": {"errors", "frames", "query", "kg", "plan", "engine", "sampling"},
    "predictor": {
        "errors",
        "frames",
        "wanted",
        "query",
        "kg",
        "plan",
        "engine",
        "sampling",
        "models",
        "config",
        "evaluation",
        "training",
        "api",
    },
    "server": {"errors", "wanted", "version", "query", "plan", "sampling", "models", "evaluation", "predictor"},
    "__init__": {"errors", "version", "api", "predictor"},
    "bench": {
        "errors",
        "threads",
        "query",
        "kg",
        "plan",
        "engine",
        "sampling",
        "api",
        "models",
        "evaluation",
        "predictor",
        "config",
        "training",
    },
    "cli": {
        "errors",
        "query",
        "kg",
        "plan",
        "engine",
        "sampling",
        "api",
        "__init__",
        "bench",
        "models",
        "config",
        "evaluation",
        "training",
        "predictor",
        "paper",
        "server",
    },
    "__main__": {"cli"},
}
# Of a part that may be imported, sometimes only these modules: the graph provides names to the parser, no more.
ONLY: dict[tuple[str, str], set[str]] = {("kg", "query"): {"query.names"}}

HEAVY = {"torch", "duckdb", "pyoxigraph", "numba", "matplotlib", "fastapi"}


def modules() -> dict[str, Path]:
    """Every module by its name without the leading `flexkg.`; the package itself is `__init__`."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        found[name] = path
    return found


MODULES = modules()


def imports(name: str) -> set[str]:
    """The modules that a module imports anywhere: at the top, inside functions, or for type checking only."""
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    return {module for node in ast.walk(tree) for module in _imported(node)} - {name}


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from _known(alias.name)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "relative imports hide where things come from"
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield from _known(inner if inner.removeprefix("flexkg.") in MODULES else str(node.module))


def _known(dotted: str) -> Iterator[str]:
    if dotted == "flexkg":
        yield "__init__"
    elif dotted.startswith("flexkg."):
        yield dotted.removeprefix("flexkg.")


def test_every_part_has_its_place() -> None:
    assert {name.split(".")[0] for name in MODULES} <= set(MAY_IMPORT)


def test_the_order_of_the_parts_has_no_cycle() -> None:
    below: set[str] = set()
    for part, allowed in MAY_IMPORT.items():
        assert allowed <= below, f"{part} may import {allowed - below}, which is not below it"
        below.add(part)


@pytest.mark.parametrize("name", MODULES)
def test_imports_point_one_way(name: str) -> None:
    part = name.split(".")[0]
    for module in imports(name):
        other = module.split(".")[0]
        assert other == part or other in MAY_IMPORT[part], f"{name} imports {module}"
        assert module in ONLY.get((part, other), {module}), f"{name} imports {module}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {name: imports(name) for name in MODULES}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path[path.index(name) :], name))
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, (*path, name))
            done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_short(name: str) -> None:
    lines = MODULES[name].read_text(encoding="utf-8").count("\n")
    assert lines <= LONGEST_MODULE, f"{name} has {lines} lines; split it"


def loaded(code: str) -> set[str]:
    """The top-level packages that a fresh interpreter holds after running the code."""
    program = f"import json, sys\n{code}\nprint(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    [
        "import flexkg",
        "from flexkg.cli.main import run; assert run(['--help']) == 0",
        "from flexkg.cli.main import run; assert run(['data', 'list']) == 0",
    ],
)
def test_starting_needs_nothing_heavy(code: str) -> None:
    assert not loaded(code) & HEAVY


def test_looking_at_the_help_loads_no_settings() -> None:
    # The command line may bring pydantic in to read its own arguments; the package does not before a recipe is read.
    assert "pydantic" not in loaded("import flexkg") | loaded("from flexkg.cli.main import run; run(['--help'])")


def test_answering_needs_torch_alone() -> None:
    code = "import flexkg; assert flexkg.load('world').answer('?x : capital(France, ?x)').names() == ['Paris']"
    assert loaded(code) & HEAVY == {"torch"}
