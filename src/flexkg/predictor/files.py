"""Ask a file of queries: read in blocks, answered in batches, written in order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from flexkg.engine.files import through_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from flexkg.engine.files import FileQuery
    from flexkg.predictor.predictions import Predictions
    from flexkg.predictor.predictor import Predictor

_LINES_AT_ONCE = 256


def ask_file(
    predictor: Predictor,
    queries: Path,
    out: Path,
    *,
    top: int = 10,
    known: bool = True,
    min_probability: float | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Ask every line `{"q": nested list or text}` and write `{"answers": [...]}` lines in the same order.

    An answer's `entity` is an id where the query has ids, and an identifier otherwise. Both files may be `.gz`.
    Returns the number of queries; on any error nothing is written.
    """

    def asked(block: list[FileQuery]) -> list[str]:
        terms = [query.term for query in block]
        found = predictor.ask_many(terms, top, known=known, min_probability=min_probability)
        return list(map(_line, block, found))

    return through_file(predictor.run.dataset, queries, out, asked, _LINES_AT_ONCE, progress)


def _line(query: FileQuery, found: Predictions) -> str:
    answers: list[dict[str, Any]] = found.to_dicts()
    if not query.by_name:
        answers = [{**row, "entity": answer.id} for row, answer in zip(answers, found, strict=True)]
    record = {"answers": answers, "known_count": found.known_count, "estimate": found.estimate}
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"
