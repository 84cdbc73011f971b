"""The reference of the command line names every command and every option, and the README every command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer

from flexkg.cli.main import app

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMON = {"--json", "--help"}


def commands(group: Any, before: str = "") -> Iterator[tuple[str, set[str]]]:
    """Every command with its options."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        else:
            options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
            yield f"{before}{name}", options - COMMON


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_and_options_are_described(name: str) -> None:
    section = re.search(rf"^## {name}$(.*?)(?=^## |\Z)", REFERENCE, re.MULTILINE | re.DOTALL)
    assert section is not None, f"docs/reference/command-line.md has no section {name}"
    missing = {option for option in COMMANDS[name] if option not in section[1].replace("--no-", "--")}
    assert not missing
    words = name.split()
    assert re.search(rf"\b{words[-1]}\b", README.partition("## Commands")[2].partition("## Status")[0])
