"""Queries as JSON lines, FOLDER/<split>/<shape>.jsonl.gz, the form in which the benchmarks are passed on.

A line is `{"q": nested list}` for training and `{"q": ..., "easy": [...], "hard": [...]}` for the other splits; where
answers are too many to list, `"complement": true` says that `easy` (or `answers`) lists what is not an answer.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from flexkg.errors import DataError, QueryError
from flexkg.kg.storage import atomic_folder
from flexkg.query.betae import to_nested
from flexkg.query.shapes import DE_MORGAN_SHAPES, SHAPES, key_of, template_of
from flexkg.sampling.manifest import PLAIN
from flexkg.sampling.query_files import query_files, read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flexkg.kg.dataset import Dataset
    from flexkg.query.terms import Term
    from flexkg.sampling.queries import Column, QuerySet
    from flexkg.sampling.query_files import Ids, QueryFile
    from flexkg.sampling.workload import Workload


def read_queries(
    folder: Path | str, split: str, shape: str, dataset: Dataset | None = None
) -> tuple[str, Ids, Ids, Column | None, Column | None]:
    """The template's key, entities (n, slots), relations (n, slots), and easy and hard answers where the file has them.

    Queries occur once; with `dataset` their ids are known to be its ids.
    """
    path = next((path for of, name, path in query_files(folder) if (of, name) == (split, shape)), None)
    if path is None:
        raise DataError(f"There is no {split}/{shape}.jsonl.gz in {folder}.")
    found = read_file(path, SHAPES.get(shape) or DE_MORGAN_SHAPES.get(shape))
    found.check_distinct()
    if dataset is not None:
        found.check_ids(len(dataset.entities), 2 * len(dataset.relations))
    return found.key, found.entities, found.relations, found.answers.get("easy"), found.answers.get("hard")


def import_jsonl(
    folder: Path | str,
    dataset: Dataset,
    out: Path | str,
    *,
    de_morgan: bool = False,
    overwrite: bool = False,
    device: str = "cpu",
    progress: Callable[[str, int], None] = lambda _what, _done: None,
) -> Workload:
    """Make a workload of a folder of JSON lines.

    Answers are computed on the dataset's graphs; those that a file gives must be the same. The forms of 2u and up
    without union are left out unless `de_morgan` asks for them. On any error nothing is written.
    """
    import torch

    from flexkg.sampling.build import Pair, answer_queries
    from flexkg.sampling.hardness import missing_links
    from flexkg.sampling.workload import Workload, check_target, data_of, writing

    check_target(out, overwrite=overwrite)
    files = query_files(folder)
    skipped = [] if de_morgan else [f"{split}/{shape}" for split, shape, _ in files if shape in DE_MORGAN_SHAPES]
    files = [file for file in files if f"{file[0]}/{file[1]}" not in skipped]
    if not files:
        raise DataError(
            f"{folder} holds no queries.", hint="They are looked for in train/, valid/ and test/, as SHAPE.jsonl.gz."
        )
    pairs: dict[str, Pair] = {}
    settings = {"protocol": "imported", "source": "jsonl", "skipped": skipped}
    done = 0
    with writing(out, data=data_of(dataset), settings=settings, overwrite=overwrite) as writer:
        for split, shape, path in files:
            progress(f"{split} {shape}", done)
            found = read_file(path, SHAPES.get(shape) or DE_MORGAN_SHAPES.get(shape))
            found.check_ids(len(dataset.entities), 2 * len(dataset.relations))
            found.check_distinct()
            if split not in pairs:
                pairs[split] = Pair.of_split(dataset, split, device)
            ids = [torch.from_numpy(kind.astype(np.int64)) for kind in (found.entities, found.relations)]
            queries = answer_queries(pairs[split], shape, template_of(found.key), ids[0], ids[1])
            _compare(found, queries, dataset.name)
            if "hard" in queries.answers:
                queries = replace(queries, hardness=missing_links(pairs[split], queries))
            writer.add(split, queries)
            done += len(queries)
            progress(f"{split} {shape}", done)
    return Workload.load(out)


def export_jsonl(
    workload: Workload,
    split: str,
    folder: Path | str,
    *,
    answers: bool = False,
    progress: Callable[[str, int], None] = lambda _what, _done: None,
) -> dict[str, int]:
    """Write FOLDER/<split>/<shape>.jsonl.gz and return how many queries of each shape.

    Training lines hold the queries alone, as published, or with `answers` their answers too.
    """
    shapes = workload.shapes(split)
    if not shapes:
        here = ", ".join(workload.splits) or "nothing"
        raise DataError(f"The workload {workload.folder} has no {split} queries.", hint=f"It has {here}.")
    for shape in shapes:
        if not PLAIN.fullmatch(shape):
            raise DataError(f"The shape {shape!r} cannot name a file.", hint="Build it again under another name.")
    counts = dict.fromkeys(shapes, 0)
    done = 0
    with atomic_folder(Path(folder) / split) as temporary:
        for shape in shapes:
            # No name and no time inside, so that the same queries give the same file.
            with (
                (temporary / f"{shape}.jsonl.gz").open("wb") as raw,
                gzip.GzipFile("", "wb", 6, raw, mtime=0) as file,
            ):
                for block in workload.blocks(split, shape):
                    file.write("".join(_lines(block, answers)).encode())
                    counts[shape] += len(block)
                    done += len(block)
                    progress(f"{split} {shape}", done)
    return counts


# Writing


def _lines(queries: QuerySet, answers: bool) -> Iterator[str]:
    form, order = _form(queries.template)
    ids = np.concatenate([queries.entities, queries.relations], axis=1)[:, order].tolist()
    names = {"train": "answers"} if answers else {}
    columns = [
        (names.get(name, name), column.rows())
        for name, column in sorted(queries.answers.items())
        if name != "train" or answers
    ]
    ending = ',"complement":true}\n' if queries.complement and columns else "}\n"
    for row in ids:
        lists = "".join(f',"{name}":{json.dumps(next(rows).tolist(), separators=(",", ":"))}' for name, rows in columns)
        yield f'{{"q":{form % tuple(row)}{lists}{ending}'


def _form(template: Term) -> tuple[str, list[int]]:
    """A nested list with %d for every id, and which column (entities before relations) each of them is."""
    slots = key_of(template).count("e")
    try:
        nested = to_nested(template, entity=lambda id: f"#{id}", relation=lambda id: f"#{slots + id}")
    except QueryError as error:
        raise DataError(f"Queries of this shape have no nested list: {error}") from None
    text = json.dumps(nested, separators=(",", ":"))
    return re.sub(r'"#\d+"', "%d", text), [int(place) for place in re.findall(r'"#(\d+)"', text)]


# Comparing


def _compare(file: QueryFile, queries: QuerySet, data: str) -> None:
    """Raise unless the answers in the file are those that were computed."""
    for name, column in file.answers.items():
        ours = queries.answers.get("train" if name == "answers" else name)
        if ours is None:
            file.fail(
                0, f"{name} does not belong to this split.", "Training queries have answers, others easy and hard."
            )
        if name != "hard" and file.complement is not None and (file.complement != queries.complement).any():
            row = int(np.argmax(file.complement != queries.complement))
            how = "the answers are too many to list" if queries.complement else "the answers can be listed"
            file.fail(row, f'"complement" is wrong: {how}.', "List what is not an answer, or what is, accordingly.")
        row_or_none = first_difference(column, ours)
        if row_or_none is not None:
            theirs, right = set(column.row(row_or_none).tolist()), set(ours.row(row_or_none).tolist())
            some = f"{min(right - theirs)} is missing" if right - theirs else f"{min(theirs - right)} is too many"
            file.fail(
                row_or_none,
                f"{name} is not what the graph {data} gives: {some} ({len(theirs):,} listed, {len(right):,} right).",
                "The queries belong to another dataset or version; leave the lists away to have them computed.",
            )


def first_difference(left: Column, right: Column) -> int | None:
    """The first row in which two columns differ, or None."""
    lengths = left.lengths != right.lengths
    row = int(np.argmax(lengths)) if lengths.any() else len(left)
    stop = int(left.offsets[row])
    members = left.members[:stop] != right.members[:stop]
    if members.any():
        return int(np.searchsorted(left.offsets, int(np.argmax(members)), side="right")) - 1
    return row if row < len(left) else None
