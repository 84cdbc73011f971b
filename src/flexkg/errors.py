"""Every error a user can meet: what is wrong, where, and what to do about it."""

from __future__ import annotations

import re


class FlexError(Exception):
    """A mistake in what the user gave; the command line prints it as one `error:` line and exits 2."""

    kind = "error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message


class DataError(FlexError):
    """Something is wrong with a file, a folder or a dataset."""

    kind = "data"


class MissingExtra(FlexError):  # noqa: N818  (it names what is missing)
    """A feature needs a package that is not installed."""

    kind = "missing-extra"

    def __init__(self, what: str, extra: str, package: str = "") -> None:
        """`package` is the one of the extra's packages that is missing, where one would do."""
        needed = [name for name in _packages(extra) if name.startswith(package)] or [f"flexkg[{extra}]"]
        several = len(needed) > 1
        super().__init__(
            f"{what} needs {'optional packages' if several else 'an optional package'}.",
            hint=f"Install {'them' if several else 'it'} with: pip install " + " ".join(f'"{name}"' for name in needed),
        )


def _packages(extra: str) -> list[str]:
    """What the extra stands for, as far as the installed package tells."""
    # Loading it takes time that an error has and a command does not.
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires("flexkg") or ()
    except PackageNotFoundError:
        return []
    split = (line.partition(";") for line in lines)
    return [package.strip() for package, _, when in split if re.search(rf"extra\s*==\s*[\"']{extra}[\"']", when)]


class LimitError(FlexError):
    """A stated limit on size, depth or time was reached."""

    kind = "limit"


class QueryError(FlexError):
    """A query cannot be read; carries the place in its text (1-based line and column)."""

    kind = "query"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        text: str | None = None,
        line: int | None = None,
        column: int | None = None,
        width: int = 1,
    ) -> None:
        super().__init__(message, hint=hint)
        self.text = text
        self.line = line
        self.column = column
        self.width = width

    def caret(self) -> str | None:
        """The offending line with a caret under the place, or None when the place is unknown."""
        if self.text is None or self.line is None or self.column is None:
            return None
        lines = self.text.splitlines() or [""]
        line = lines[min(self.line, len(lines)) - 1]
        start = max(0, self.column - 1 - 60)
        # A tab would move the line but not the caret, and control characters should not reach a terminal.
        shown = "".join(c if c.isprintable() else " " for c in line[start : start + 120])
        marks = "^" * max(1, min(self.width, 120 - (self.column - 1 - start)))
        return f"  {shown}\n  {' ' * (self.column - 1 - start)}{marks}"

    def __str__(self) -> str:
        message = self.message
        if self.line is not None:
            message = f"{message.removesuffix('.')} (line {self.line}, column {self.column})."
        return f"{message} {self.hint}" if self.hint else message


class ConfigError(FlexError):
    """A setting or a recipe cannot be used."""

    kind = "config"


class UnsupportedOperator(FlexError):  # noqa: N818  (it names what is not supported)
    """A model was asked for an operator that it does not have."""

    kind = "unsupported"

    def __init__(self, model: str, what: str, *, where: str | None = None, instead: tuple[str, ...] = ()) -> None:
        place = f" ({where})" if where else ""
        *first, last = instead or ("",)
        advice = f"; try {', '.join(first)}{' or ' if first else ''}{last}" if last else ""
        super().__init__(f"{model} cannot express {what}{place}{advice}.")
        self.model = model
        self.what = what
        self.where = where
        self.instead = instead


class TrainingError(FlexError):
    """A run cannot go on, or cannot be opened."""

    kind = "training"
