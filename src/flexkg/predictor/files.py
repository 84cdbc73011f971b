"""Ask a file of queries: read in blocks, answered in batches, written in order."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

from flexkg.engine.files import numbered, open_text, read_query
from flexkg.errors import DataError, FlexError
from flexkg.kg.storage import atomic_file, os_errors

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
    if out.exists() and out.samefile(queries):
        raise DataError(f"The answers would overwrite the queries in {queries}.", hint="Choose another --out.")
    count = 0
    with os_errors(queries, "read"):
        source = open_text(queries, "rt")
    with source, atomic_file(out) as partial:
        lines = numbered(source, queries)
        with open_text(partial, "wt", zipped=out.suffix == ".gz") as target:
            while block := list(islice(lines, _LINES_AT_ONCE)):
                parsed = [read_query(predictor.run.dataset, line, queries, number) for number, line in block]
                try:
                    terms = [query.term for query in parsed]
                    found = predictor.ask_many(terms, top, known=known, min_probability=min_probability)
                except FlexError as error:
                    first, last = block[0][0], block[-1][0]
                    raise DataError(f"{queries} lines {first} to {last}: {error}") from None
                target.writelines(map(_line, parsed, found))
                count += len(block)
                progress(count)
        if count == 0:
            hint = 'Give one JSON object a line, such as {"q": [0, [3]]}.'
            raise DataError(f"{queries} holds no queries.", hint=hint)
    return count


def _line(query: FileQuery, found: Predictions) -> str:
    answers: list[dict[str, Any]] = found.to_dicts()
    if not query.by_name:
        answers = [{**row, "entity": answer.id} for row, answer in zip(answers, found, strict=True)]
    record = {"answers": answers, "known_count": found.known_count, "estimate": found.estimate}
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"
