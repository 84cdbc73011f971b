"""Cuts the text of a query into tokens and turns places in it into errors with a caret."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from flexkg.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYWORDS = {
    "not": "!",
    "and": "&",
    "minus": "\\",
    "xor": "^",
    "or": "|",
    "implies": "->",
    "iff": "<->",
    "exists": "exists",
}

# The symbols of logic textbooks cost nothing to accept, and people paste them.
_SYMBOLS = {"¬": "!", "∧": "&", "∖": "\\", "⊕": "^", "∨": "|", "→": "->", "↔": "<->", "∃": "exists"}

_OPERATORS = ("<->", "->", "!", "&", "\\", "^", "|", "(", ")", ",", ":", ".")

_MISTAKES = {
    "<=>": ("'<=>' is not a connective.", "Write <-> or iff."),
    "&&": ("'&&' is not a connective.", "Write a single & or and."),
    "||": ("'||' is not a connective.", "Write a single | or or."),
    "=>": ("'=>' is not a connective.", "Write -> or implies."),
    "<-": ("'<-' is not a connective.", "Write -> with the condition on its left."),
    "==": ("There is no equality in a query.", "Write the name itself in the variable's place."),
    "!=": ("There is no inequality in a query.", "Negate an atom instead, as in !borders(France, ?x)."),
    "=": ("There is no equality in a query.", "Write the name itself in the variable's place."),
    "~": ("'~' is not a connective.", "Write ! or not."),
    "-": ("'-' is not a connective.", "Write \\ or minus for a difference, -> for an implication."),
    "'": ("Single quotes do not quote a name.", 'Write "double quotes" around it.'),
    "‘": ("Curly quotes do not quote a name.", 'Write straight "double quotes" around it.'),
    "’": ("Curly quotes do not quote a name.", 'Write straight "double quotes" around it.'),
    "“": ("Curly quotes do not quote a name.", 'Write straight "double quotes" around it.'),
    "”": ("Curly quotes do not quote a name.", 'Write straight "double quotes" around it.'),
}


class Token(NamedTuple):
    """A piece of the text: `kind` is an operator, or one of name, variable, exists, end."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a query, able to point at a part of itself."""

    text: str

    def error(self, message: str, start: int, end: int, hint: str | None = None) -> QueryError:
        """An error about the characters from `start` up to `end`."""
        # The same line breaks as in `QueryError.caret`, or the caret would stand on another line.
        before = self.text[:start].splitlines(keepends=True)
        if before and before[-1].splitlines()[0] == before[-1]:
            line, column = len(before), len(before[-1]) + 1
        else:
            line, column = len(before) + 1, 1
        first_line = self.text[start:end].splitlines()
        width = len(first_line[0]) if first_line else 1
        return QueryError(message, hint=hint, text=self.text, line=line, column=column, width=max(1, width))

    def end(self) -> int:
        """Where the text ends, less white space behind it: a caret there stays on the last written line."""
        return len(self.text.rstrip())


def tokens(source: Source) -> Iterator[Token]:
    """Yield the tokens in order, an `end` token last; lazily, so that the first mistake is the one reported."""
    text = source.text
    position = 0
    while position < len(text):
        character = text[position]
        if character.isspace() or character == "\ufeff":
            position += 1
            continue
        if character == "?":
            token = _variable(source, position)
        elif character == '"':
            token = _quoted(source, position)
        elif _starts_name(character):
            end = _name_end(text, position)
            token = Token(_keyword(text[position:end]) or "name", text[position:end], position, end)
        else:
            token = _operator(source, position)
        yield token
        position = token.end
    yield Token("end", "", source.end(), source.end())


def written(name: str) -> str:
    """The name as a query writes it: bare where the lexer reads it back as one name, else in quotes."""
    if name and _starts_name(name[0]) and _name_end(name, 0) == len(name) and _keyword(name) is None:
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def shown(text: str, width: int = 80) -> str:
    """The text on one line and not longer than `width`, for use inside a message."""
    line = "".join(character if character.isprintable() else " " for character in text[: width + 1])
    return line if len(line) <= width else line[: width - 1] + "…"


def _starts_name(character: str) -> bool:
    return character == "_" or character.isalnum()


def _continues_name(character: str) -> bool:
    # Vowel signs and accents of their own code point belong to the letter before them.
    return character == "_" or character.isalnum() or unicodedata.category(character)[0] == "M"


def _name_end(text: str, start: int) -> int:
    position = start + 1
    while position < len(text):
        if _continues_name(text[position]):
            position += 1
        elif text[position] in ".-':" and position + 1 < len(text) and _starts_name(text[position + 1]):
            position += 2
        else:
            break
    return position


def _keyword(word: str) -> str | None:
    if word in KEYWORDS:
        return KEYWORDS[word]
    return KEYWORDS.get(word.lower()) if word.isupper() else None


def _variable(source: Source, start: int) -> Token:
    text, end = source.text, start + 1
    if end < len(text) and (text[end] == "_" or text[end].isalpha()):
        while end < len(text) and _continues_name(text[end]):
            end += 1
        return Token("variable", text[start + 1 : end], start, end)
    raise source.error("A variable is '?' with a name right behind it.", start, start + 1, "Write ?y, for example.")


def _quoted(source: Source, start: int) -> Token:
    text, position = source.text, start + 1
    pieces: list[str] = []
    while position < len(text):
        character = text[position]
        if character == '"':
            if not pieces:
                raise source.error("A name cannot be empty.", start, position + 1)
            return Token("name", "".join(pieces), start, position + 1)
        if character == "\\":
            position += 1
            character = text[position : position + 1]
            if character not in ('"', "\\"):
                raise source.error(
                    "Inside quotes a backslash stands before a quote or another backslash.",
                    position - 1,
                    position + 1,
                    "Write \\\\ for a backslash.",
                )
        pieces.append(character)
        position += 1
    raise source.error("This quote is never closed.", start, start + 1, 'Put a " behind the name.')


def _operator(source: Source, start: int) -> Token:
    text = source.text
    for length in (3, 2, 1):
        piece = text[start : start + length]
        if piece in _OPERATORS:
            return Token(piece, piece, start, start + length)
        if piece in _MISTAKES:
            message, hint = _MISTAKES[piece]
            raise source.error(message, start, start + length, hint)
    character = text[start]
    if character in _SYMBOLS:
        return Token(_SYMBOLS[character], character, start, start + 1)
    name = f"'{character}'" if character.isprintable() else f"U+{ord(character):04X}"
    raise source.error(
        f"The character {name} has no meaning here.", start, start + 1, "Put names that hold it in double quotes."
    )
