"""How large a query may be: past these sizes reading or rewriting it ends in an error that says the limit."""

from __future__ import annotations

from typing import Final

MAX_TEXT: Final = 100_000
"""Characters in the text of a query."""

MAX_DEPTH: Final = 64
"""Levels of a formula or of a term; terms hash and compare recursively, so depth must stay far from Python's limit."""

MAX_ATOMS: Final = 1_000
"""Atoms in the text of a query."""

MAX_NODES: Final = 10_000
"""Nodes of a term, also while it is being rewritten."""

MAX_EXPANSION: Final = 10_000
"""Atoms copied while a quantifier is pushed through disjunctions."""

MAX_DISJUNCTS: Final = 1_000
"""Disjuncts of a disjunctive normal form, unless the caller sets another limit."""
