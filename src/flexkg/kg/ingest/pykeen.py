"""Triples from a folder that PyKEEN's `TriplesFactory.to_path_binary` wrote.

Of its files only the tables are read: `base.pth` is a pickle, and a pickle can run code.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from flexkg.errors import DataError
from flexkg.kg.ingest.records import Batch
from flexkg.kg.ingest.sources import TSV, open_bytes
from flexkg.kg.ingest.tables import read_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from flexkg.kg.ingest.records import Reading

_TRIPLES = "numeric_triples.tsv.gz"


def pykeen_folder(path: Path) -> Path | None:
    """The folder with the triples: this one, or `training_triples` in what a PyKEEN pipeline saved."""
    for folder in (path, path / "training_triples"):
        if (folder / _TRIPLES).is_file():
            return folder
    return None


def read_pykeen(folder: Path, reading: Reading) -> Iterator[Batch]:
    """Batches of triples with PyKEEN's labels as identifiers."""
    entities = _labels(folder / "entity_to_id.tsv.gz")
    relations = _labels(folder / "relation_to_id.tsv.gz")
    path = folder / _TRIPLES
    for batch in read_table(path, TSV, None, reading):
        yield Batch(_named(batch.entities, entities, path), _named(batch.relations, relations, path))
    # PyKEEN always writes one.
    reading.headers.pop(str(path), None)


def _named(ids: list[str], labels: dict[str, str], path: Path) -> list[str]:
    try:
        return [labels[id] for id in ids]
    except KeyError as error:
        raise DataError(
            f"{path} holds the id {error.args[0]}, which has no label in the folder.",
            hint="Write the TriplesFactory again with PyKEEN.",
        ) from None


def _labels(path: Path) -> dict[str, str]:
    """Labels by id; pandas wrote them with quotes where they hold tabs or quotes."""
    if not path.is_file():
        raise DataError(
            f"{path} is missing.",
            hint="Only a TriplesFactory with labels can be imported, not a CoreTriplesFactory.",
        )
    with open_bytes(path) as (file, _):
        data = file.read()
    try:
        rows = list(csv.reader(data.decode("utf-8").splitlines(keepends=True), delimiter="\t"))
        id, label = (rows[0].index(name) for name in ("id", "label"))
        labels = {row[id]: row[label] for row in rows[1:]}
    except (UnicodeDecodeError, csv.Error, ValueError, IndexError) as error:
        raise DataError(
            f"{path} is not a table of ids and labels: {error}.", hint="Write it again with PyKEEN."
        ) from None
    if len(set(labels.values())) < len(labels) or "" in labels.values():
        raise DataError(f"{path} has an empty label or one label for two ids.", hint="Labels must be unique.")
    return labels
