"""The published BetaE folders: pickles of queries and answers, read as data.

    <split>-queries.pkl                          {structure: {query, ...}}
    train-answers.pkl                            {query: {entity, ...}}
    <split>-easy-answers.pkl, -hard-answers.pkl  the same, for valid and test
    id2ent.pkl, id2rel.pkl, stats.txt            the ids; relation 2k is +name, 2k + 1 is -name

A structure is a query with "e", "r", "n" and "u" for entities, relations, negation (-2) and union (-1).
"""

from __future__ import annotations

import re
from array import array
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from flexkg.errors import DataError, FlexError, LimitError
from flexkg.kg import safe_pickle
from flexkg.kg.dataset import SPLITS
from flexkg.kg.storage import os_errors
from flexkg.query.betae import read_grounding
from flexkg.query.shapes import DE_MORGAN_SHAPES, shape_name, template_of
from flexkg.sampling.build import Pair
from flexkg.sampling.hardness import missing_links
from flexkg.sampling.queries import Column, QuerySet, cofinite
from flexkg.sampling.workload import Workload, check_target, data_of, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from flexkg.kg.dataset import Dataset

LIMITS: Final = safe_pickle.Limits(bytes=4 << 30, values=400_000_000, depth=16, weight=800_000_000)
"""FB15k-237's training pickles have 26 million values in 0.15 GB and take 1.4 GB while they are read."""

_ANSWERS: Final = {
    split: {"train": "train-answers.pkl"}
    if split == "train"
    else {name: f"{split}-{name}-answers.pkl" for name in ("easy", "hard")}
    for split in SPLITS
}
_LEAVES: Final = {"e": 0, "r": 0, "n": -2, "u": -1}
_FOLDER: Final = "Give a folder of the BetaE download, such as FB15k-237-betae."
_OTHER: Final = "The file is damaged, or it is not one of BetaE's."
_STATS: Final = re.compile(r"numentity:\s*(\d{1,10})\s+numrelations:\s*(\d{1,10})\s*")


def import_betae(
    folder: Path | str,
    out: Path | str,
    *,
    dataset: Dataset | None = None,
    de_morgan: bool = False,
    overwrite: bool = False,
    progress: Callable[[str, int], None] = lambda _what, _done: None,
) -> Workload:
    """Make a workload of a folder of pickles; all of it is read before anything is written.

    With `dataset`, the folder's ids must be the dataset's, the workload belongs to it, and says how many missing links
    every hard answer needs. The forms of 2u and up
    without union are left out unless `de_morgan` asks for them.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}.", hint=_FOLDER)
    check_target(out, overwrite=overwrite)
    data = _data(folder, dataset)
    splits = [split for split in SPLITS if (folder / f"{split}-queries.pkl").is_file()]
    if not splits:
        raise DataError(f"{folder} holds no train-queries.pkl, valid-queries.pkl or test-queries.pkl.", hint=_FOLDER)
    for split in splits:
        for file in _ANSWERS[split].values():
            if not (folder / file).is_file():
                raise DataError(f"{folder} has {split}-queries.pkl, but no {file}.", hint=_FOLDER)
    skipped: list[str] = []
    found: list[tuple[str, QuerySet]] = []

    def report(what: str) -> None:
        progress(what, sum(len(queries) for _, queries in found))

    for split in splits:
        pair = None if dataset is None or split == "train" else Pair.of_split(dataset, split)
        for queries in _read_split(folder, split, data, skipped, de_morgan, report):
            if pair is not None:
                queries = replace(queries, hardness=missing_links(pair, queries))
            found.append((split, queries))
            report(f"{split} {queries.shape}")
    settings = {"protocol": "imported", "source": "betae", "skipped": skipped}
    with writing(out, data=data, settings=settings, overwrite=overwrite) as writer:
        for split, queries in found:
            writer.add(split, queries)
    return Workload.load(out)


def _data(folder: Path, dataset: Dataset | None) -> dict[str, Any]:
    """What the workload will remember of its graph."""
    names = {
        kind: _names(folder / f"id2{kind}.pkl") for kind in ("ent", "rel") if (folder / f"id2{kind}.pkl").is_file()
    }
    if len(names) == 2:
        entities, directed = len(names["ent"]), len(names["rel"])
    else:
        entities, directed = _stats(folder)
    if directed % 2:
        raise DataError(f"{folder} has {directed} relations, which are not pairs of + and -.", hint=_OTHER)
    if dataset is None:
        return {"name": folder.resolve().name, "checksum": None, "entities": entities, "relations": directed // 2}
    sizes = len(dataset.entities), 2 * len(dataset.relations)
    if (entities, directed) != sizes:
        raise DataError(
            f"{folder} has {entities:,} entities and {directed:,} directed relations; "
            f"{dataset.name} has {sizes[0]:,} and {sizes[1]:,}.",
            hint="Name the dataset that the queries were made for, or leave --data away.",
        )
    if names:
        ours = {
            "ent": list(dataset.entities.identifiers),
            "rel": [sign + name for name in dataset.relations.identifiers for sign in "+-"],
        }
        for kind, listed in names.items():
            if listed != ours[kind]:
                id = next(id for id, (one, other) in enumerate(zip(listed, ours[kind], strict=True)) if one != other)
                raise DataError(
                    f"{folder}/id2{kind}.pkl calls {id} {listed[id]!r}; in {dataset.name} it is {ours[kind][id]!r}.",
                    hint="The ids must agree: name the dataset that the queries were made for.",
                )
    return data_of(dataset)


def _names(path: Path) -> list[str]:
    names = _load(path)
    if not isinstance(names, dict) or any(type(names.get(id)) is not str for id in range(len(names))):
        raise DataError(f"{path} does not map the ids 0, 1, ... to names.", hint=_OTHER)
    return [names[id] for id in range(len(names))]


def _stats(folder: Path) -> tuple[int, int]:
    path = folder / "stats.txt"
    if not path.is_file():
        raise DataError(f"{folder} has neither id2ent.pkl and id2rel.pkl nor stats.txt.", hint=_FOLDER)
    with os_errors(path, "read"), path.open("rb") as file:
        found = _STATS.fullmatch(file.read(200).decode("ascii", "replace"))
    if found is None:
        raise DataError(f"{path} does not say numentity and numrelations.", hint=_OTHER)
    return int(found[1]), int(found[2])


def _load(path: Path, *, arrays: bool = False) -> Any:
    with os_errors(path, "read"):
        if path.stat().st_size > LIMITS.bytes:
            raise LimitError(f"{path} has {path.stat().st_size:,} bytes; the limit is {LIMITS.bytes:,}.")
        data = path.read_bytes()
    return safe_pickle.loads(data, str(path), limits=LIMITS, allow=safe_pickle.SETS_AND_DEFAULTDICTS, arrays=arrays)


def _read_split(
    folder: Path,
    split: str,
    data: Mapping[str, Any],
    skipped: list[str],
    de_morgan: bool,
    progress: Callable[[str], None],
) -> Iterator[QuerySet]:
    path = folder / f"{split}-queries.pkl"
    progress(path.name)
    structures = _load(path)
    if not isinstance(structures, dict):
        raise DataError(f"{path} does not hold queries by structure.", hint=_OTHER)
    answers: dict[str, dict[Any, Any]] = {}
    for name, file in _ANSWERS[split].items():
        progress(file)
        answers[name] = _load(folder / file, arrays=True)
        if not isinstance(answers[name], dict):
            raise DataError(f"{folder / file} does not hold answers by query.", hint=_OTHER)
    for structure in list(structures):
        key = _key(structure, path)
        shape = shape_name(template_of(key)) or key
        queries = structures.pop(structure)
        if shape in DE_MORGAN_SHAPES and not de_morgan:
            skipped.append(f"{split}/{shape}")
        elif queries:
            yield _query_set(path, shape, key, queries, answers, data)


def _key(structure: Any, path: Path) -> str:
    """The template of a structure."""

    def ids(part: Any) -> Any:
        return [ids(inner) for inner in part] if isinstance(part, tuple) else _LEAVES[part]

    try:
        return read_grounding(ids(structure))[0]
    except (KeyError, TypeError, FlexError):
        raise DataError(
            f"{path} holds {repr(structure)[:80]}, which is no structure of queries.", hint=_OTHER
        ) from None


def _query_set(
    path: Path, shape: str, key: str, queries: Any, answers: Mapping[str, dict[Any, Any]], data: Mapping[str, Any]
) -> QuerySet:
    if not isinstance(queries, set | frozenset | list):
        raise DataError(f"{path}: the queries of {shape} are not a set.", hint=_OTHER)
    if cofinite(template_of(key)):
        raise DataError(f"{path}: {shape} has too many answers to be listed.", hint="Build such queries anew.")
    ordered = list(queries)
    ids = array("q"), array("q")
    for query in ordered:
        try:
            own, *leaves = read_grounding(query)
            for column, part in zip(ids, leaves, strict=True):
                column.extend(part)  # type: ignore[arg-type]
        except (FlexError, TypeError, OverflowError):
            own = ""
        if own != key:
            raise DataError(f"{path}: {repr(query)[:80]} is no query of the shape {shape}.", hint=_OTHER)
    entities, relations = (np.frombuffer(column, dtype=np.int64).reshape(len(ordered), -1) for column in ids)
    for kind, values, limit in (
        ("entity", entities, data["entities"]),
        ("relation", relations, 2 * data["relations"]),
    ):
        if values.size and int(values.max()) >= limit:
            raise DataError(
                f"{path}: a {shape} query holds the {kind} {values.max()}; there are {limit:,}.", hint=_OTHER
            )
    # A set has no order of its own; by their ids, the same queries give the same workload.
    order = np.lexsort(np.concatenate([entities, relations], axis=1).T[::-1])
    ordered = [ordered[row] for row in order.tolist()]
    columns = {name: _column(path, shape, name, ordered, table, data) for name, table in answers.items()}
    return QuerySet(shape, key, entities[order].astype(np.int32), relations[order].astype(np.int32), columns)


def _column(
    path: Path, shape: str, name: str, queries: Sequence[Any], table: dict[Any, Any], data: Mapping[str, Any]
) -> Column:
    rows: list[array[int]] = []
    for query in queries:
        found = table.get(query)
        if found is None and name == "easy":
            # A defaultdict: what was never looked up while it was made is the empty set.
            found = ()
        if isinstance(found, set | frozenset | tuple | list) and all(type(id) is int for id in found):
            try:
                found = array("i", found)
            except OverflowError:
                found = None
        if not isinstance(found, array):
            raise DataError(
                f"{path}: there are no {name} answers to the {shape} query {repr(query)[:80]}.", hint=_OTHER
            )
        rows.append(found)
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    members = np.frombuffer(b"".join(rows), dtype=np.int32)
    limit = data["entities"]
    if len(members) and not 0 <= int(members.min()) <= int(members.max()) < limit:
        raise DataError(
            f"{path}: {name} answers of {shape} hold {members.max()}; there are {limit:,} entities.", hint=_OTHER
        )
    # Sorting one key a member is many times faster than sorting row by row.
    starts = np.repeat(np.arange(len(rows), dtype=np.int64) * limit, lengths)
    keys = starts + members
    keys.sort()
    if (keys[1:] == keys[:-1]).any():
        raise DataError(f"{path}: {name} answers of {shape} hold an entity twice.", hint=_OTHER)
    return Column.of(lengths, (keys - starts).astype(np.int32))
