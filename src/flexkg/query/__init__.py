"""The query language: terms, text, and rewrites between them. Imports nothing of the rest but `errors`."""

from flexkg.query.parser import parse
from flexkg.query.printer import statement, to_text

__all__ = ["parse", "statement", "to_text"]
