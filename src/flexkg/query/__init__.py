"""The query language: terms, text, and rewrites between them. Imports nothing of the rest but `errors`."""
