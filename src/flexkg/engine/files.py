"""Exact answers for a file of queries: read in blocks, grouped by shape, answered in batches, written in order."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import defaultdict
from dataclasses import dataclass
from itertools import islice
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import torch

from flexkg.errors import DataError, FlexError
from flexkg.kg.storage import atomic_file, os_errors
from flexkg.query.betae import read_grounding
from flexkg.query.parser import parse
from flexkg.query.shapes import build, key_of, split, template_of
from flexkg.threads import leave_cores_to_kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from flexkg.engine.engine import Engine
    from flexkg.kg.dataset import Dataset
    from flexkg.query.terms import Term

_LINES_AT_ONCE = 1 << 14
_LONGEST_LINE = 1 << 20


@dataclass(frozen=True)
class FileQuery:
    """A line of a file of queries."""

    key: str
    """Of its template."""
    entities: list[int]
    relations: list[int]
    by_name: bool
    """Whether it holds identifiers or is text, so that answers are identifiers too."""

    @property
    def term(self) -> Term:
        """The query itself."""
        return build(self.key, self.entities, self.relations)


def answer_file(
    dataset: Dataset,
    engine: Engine,
    queries: Path,
    out: Path,
    *,
    limit: int | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Answer every line `{"q": nested list or text}` and write `{"answers": [...]}` lines in the same order.

    Answers are ids where the query has ids, identifiers where it has identifiers or is text. Both files may be
    `.gz`. Returns the number of queries; on any error nothing is written.
    """

    def answered(block: list[FileQuery]) -> list[str]:
        with leave_cores_to_kernels(engine.algebra.uses_kernels):
            return _answer(dataset, engine, block, limit)

    return through_file(dataset, queries, out, answered, _LINES_AT_ONCE, progress)


def through_file(
    dataset: Dataset,
    queries: Path,
    out: Path,
    work: Callable[[list[FileQuery]], list[str]],
    lines_at_once: int,
    progress: Callable[[int], None],
) -> int:
    """Read the lines of one file, let `work` make lines of a block of queries, and write them whole or not at all."""
    if out.exists() and out.samefile(queries):
        raise DataError(f"The answers would overwrite the queries in {queries}.", hint="Choose another --out.")
    count = 0
    with os_errors(queries, "read"):
        source = _open(queries)
    with source, atomic_file(out) as partial:
        lines = numbered(source, queries)
        with _open_text(partial, zipped=out.suffix == ".gz") as target:
            while block := list(islice(lines, lines_at_once)):
                parsed = [read_query(dataset, line, queries, number) for number, line in block]
                try:
                    target.writelines(work(parsed))
                except FlexError as error:
                    raise _at_its_line(queries, block, parsed, work, error) from None
                count += len(block)
                progress(count)
        if count == 0:
            hint = 'Give one JSON object a line, such as {"q": [0, [3]]}.'
            raise DataError(f"{queries} holds no queries.", hint=hint)
    return count


def _at_its_line(
    path: Path,
    block: Sequence[tuple[int, str]],
    parsed: Sequence[FileQuery],
    work: Callable[[list[FileQuery]], list[str]],
    error: FlexError,
) -> DataError:
    """An error about some of many queries as one about the first line that has it."""
    for (number, _), query in zip(block, parsed, strict=True):
        try:
            work([query])
        except FlexError as own:
            return DataError(f"{path} line {number}: {own}")
    return DataError(f"{path} lines {block[0][0]} to {block[-1][0]}: {error}")


def _open(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _open_text(path: Path, *, zipped: bool) -> IO[str]:
    # Level 1: answers are long lists of digits, and the default would take longer than answering.
    return gzip.open(path, "wt", encoding="utf-8", compresslevel=1) if zipped else path.open("w", encoding="utf-8")


def numbered(source: IO[bytes], path: Path) -> Iterator[tuple[int, str]]:
    """The lines that hold something, with their numbers."""
    number = 0
    while True:
        try:
            data = source.readline(_LONGEST_LINE)
            if len(data) >= _LONGEST_LINE:
                raise DataError(f"{path} line {number + 1} is longer than {_LONGEST_LINE:,} bytes.")
            # Some editors put a mark before the first line.
            line = data.decode("utf-8" if number else "utf-8-sig")
        except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(f"{path} line {number + 1} cannot be read: {error}.") from None
        if not data:
            return
        number += 1
        if line.strip():
            yield number, line


def read_query(dataset: Dataset, line: str, path: Path, number: int) -> FileQuery:
    """The query of a line: `{"q": nested list or text}`, or the list or text alone."""
    try:
        record = json.loads(line)
        query = record["q"] if isinstance(record, dict) else record
        if isinstance(query, str):
            term = parse(query, dataset.names)
            _, entity_ids, relation_ids = split(term)
            return FileQuery(key_of(term), list(entity_ids), list(relation_ids), True)
        key, entities, relations = read_grounding(query)
        by_name = any(isinstance(leaf, str) for leaf in (*entities, *relations))
        leaves = dataset.leaves
        ids = list(map(leaves.entity, entities)), list(map(leaves.relation, relations))
        return FileQuery(key, *ids, by_name)
    except FlexError as error:
        raise DataError(f"{path} line {number}: {error}") from None
    except KeyError:
        raise DataError(f'{path} line {number} has no "q".', hint='Write {"q": nested list}.') from None
    except RecursionError:
        raise DataError(f"{path} line {number} is nested too deeply.") from None
    except ValueError as error:
        raise DataError(f"{path} line {number} is not valid JSON: {error}.") from None


def _answer(dataset: Dataset, engine: Engine, queries: list[FileQuery], limit: int | None) -> list[str]:
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for position, query in enumerate(queries):
        groups[query.key].append(position)
    lines = [""] * len(queries)
    for key, positions in groups.items():
        entities = torch.tensor([queries[p].entities for p in positions], dtype=torch.int64).view(len(positions), -1)
        relations = torch.tensor([queries[p].relations for p in positions], dtype=torch.int64).view(len(positions), -1)
        for rows, sets in engine.stream(template_of(key), entities, relations):
            for position, (listed, complement) in zip(positions[rows], sets.rows(), strict=True):
                lines[position] = _line(dataset, listed, complement, queries[position].by_name, limit)
    return lines


def _line(dataset: Dataset, listed: list[int], complement: bool, by_name: bool, limit: int | None) -> str:
    count = len(dataset.entities) - len(listed) if complement else len(listed)
    ids = members(listed, complement, len(dataset.entities), limit)
    answers: list[Any] = [dataset.entities.identifier(id) for id in ids] if by_name else ids
    record: dict[str, Any] = {"answers": answers}
    if complement:
        record["complement"] = True
    if len(ids) < count:
        record["count"] = count
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


def members(listed: Sequence[int], complement: bool, universe: int, limit: int | None = None) -> list[int]:
    """The first `limit` (None: all) ids that are in the set, ascending, without writing out more than asked."""
    if not complement:
        return list(listed[:limit])
    wanted = universe if limit is None else limit
    # Among the first wanted + k ids at most k are excluded, where k counts the excluded ones.
    reach = min(universe, wanted + len(listed))
    inside = np.ones(reach, dtype=bool)
    excluded = np.asarray(listed, dtype=np.int64)
    inside[excluded[excluded < reach]] = False
    result: list[int] = np.flatnonzero(inside)[:wanted].tolist()
    return result
