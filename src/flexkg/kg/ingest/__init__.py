"""Import of a user's files into a dataset: TSV, CSV, Parquet, N-Triples, Turtle, PyKEEN folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from flexkg.errors import DataError
from flexkg.kg.dataset import SPLITS, Dataset, is_dataset
from flexkg.kg.ingest.assemble import Encoder, distinct, parse_fractions, random_split
from flexkg.kg.ingest.large import number_large
from flexkg.kg.ingest.names import read_names
from flexkg.kg.ingest.parquet import read_parquet
from flexkg.kg.ingest.pykeen import pykeen_folder, read_pykeen
from flexkg.kg.ingest.rdf import RdfTexts, name_by_local_part, read_rdf
from flexkg.kg.ingest.records import Reading
from flexkg.kg.ingest.sources import NTRIPLES, PARQUET, TURTLE, check_file, file_format
from flexkg.kg.ingest.tables import read_table
from flexkg.kg.storage import check_replaceable
from flexkg.kg.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from flexkg.kg.ingest.assemble import Triples
    from flexkg.kg.ingest.records import Batch, Lexicon, Progress

__all__ = ["MAX_ERRORS", "import_files"]

MAX_ERRORS = 100


def import_files(
    train: Path | str,
    valid: Path | str | None = None,
    test: Path | str | None = None,
    *,
    out: Path | str | None = None,
    names: Path | str | None = None,
    columns: str | None = None,
    split: str | None = None,
    seed: int = 0,
    max_errors: int = MAX_ERRORS,
    name: str | None = None,
    overwrite: bool = False,
    source: str | None = None,
    known_entities: Iterable[str] = (),
    known_relations: Iterable[str] = (),
    progress: Progress | None = None,
) -> Dataset:
    """Read the files, make a dataset and, with `out`, write its folder, whole or not at all.

    split: shares such as "0.9,0.05,0.05" when there is one file. known_entities, known_relations: identifiers that
    take the first ids, for graphs whose ids are published.
    """
    paths = {name: Path(path) for name, path in zip(SPLITS, (train, valid, test), strict=True) if path is not None}
    fractions = _checked_options(paths, split, max_errors)
    if out is not None:
        # Before the work rather than after it.
        check_replaceable(out, overwrite=overwrite, replaceable=is_dataset)
    reading = Reading(max_errors, progress)
    encoder = Encoder(known_entities, known_relations)
    texts = RdfTexts(reading.lexicon)
    raw = {part: _encode(path, columns, encoder, reading, texts) for part, path in paths.items()}
    entities, relations = encoder.entities, encoder.relations
    if not len(raw["train"]):
        bad = f"; {reading.bad.count:,} lines could not be read" if reading.bad.count else ""
        raise DataError(f"{paths['train']} holds no triples{bad}.", hint="Give a file with at least one good triple.")
    reading.tick("Removing duplicates", 0, 0)
    splits, duplicates, repeated = distinct(raw, len(entities), len(relations))
    del raw
    lacking: dict[str, int] = {}
    if fractions is not None:
        splits, lacking = random_split(splits["train"], fractions, seed)
    reading.tick("Collecting names", 0, 0)
    if _has_rdf(paths):
        name_by_local_part(reading.lexicon, [*entities, *relations])
    unknown = _add_names(reading, None if names is None else Path(names), entities, relations)
    dataset = Dataset(
        name or (Path(out).resolve().name if out is not None else paths["train"].name.split(".")[0]),
        _vocabulary(entities, reading.lexicon),
        _vocabulary(relations, reading.lexicon),
        splits,
        prefixes=reading.lexicon.prefixes,
        source=source,
    )
    dataset.report = {
        "files": {part: path.name for part, path in paths.items()},
        "skipped": reading.bad.count,
        "bad_lines": reading.bad.shown,
        "headers": [{"file": file, "columns": columns} for file, columns in reading.headers.items()],
        "blank": reading.counts["blank"],
        "duplicates": duplicates,
        "repeated_in_later_split": repeated,
        "self_loops": sum(int((part[:, 0] == part[:, 2]).sum()) for part in splits.values()),
        "literals": reading.counts["literals"],
        "unseen": _unseen(dataset),
        "unknown_names": unknown,
        "split": None if fractions is None else {"fractions": list(fractions), "seed": seed, "lacking": lacking},
    }
    if out is not None:
        reading.tick("Writing", 0, 0)
        dataset.save(out, overwrite=overwrite)
    return dataset


def _checked_options(paths: dict[str, Path], split: str | None, max_errors: int) -> tuple[float, float, float] | None:
    if max_errors < 0:
        raise DataError(f"--max-errors {max_errors} is negative.", hint="Give 0 to allow no bad line.")
    if split is not None and len(paths) > 1:
        raise DataError(
            "--split divides one file, but there are valid or test files too.",
            hint="Give --train alone, or leave --split out.",
        )
    fractions = None if split is None else parse_fractions(split)
    for path in paths.values():
        if pykeen_folder(path) is None:
            check_file(path)
    return fractions


def _encode(path: Path, columns: str | None, encoder: Encoder, reading: Reading, texts: RdfTexts) -> Triples:
    """The triples of one file as ids."""
    if encoder.is_empty and path.is_file():
        numbered = number_large(path, file_format(path), columns, reading)
        if numbered is not None:
            entities, relations, triples = numbered
            encoder.adopt(entities, relations)
            return triples
    return encoder.encode(_batches(path, columns, reading, texts))


def _batches(path: Path, columns: str | None, reading: Reading, texts: RdfTexts) -> Iterator[Batch]:
    """The triples of one file, whatever its format."""
    folder = pykeen_folder(path)
    if folder is not None:
        return read_pykeen(folder, reading)
    format = file_format(path)
    if format in (NTRIPLES, TURTLE):
        if columns is not None:
            raise DataError(f"--columns does not apply to {format} ({path}).", hint="Leave it out.")
        return read_rdf(path, format, reading, texts)
    if format == PARQUET:
        return read_parquet(path, columns, reading)
    return read_table(path, format, columns, reading)


def _has_rdf(paths: dict[str, Path]) -> bool:
    return any(path.is_file() and file_format(path) in (NTRIPLES, TURTLE) for path in paths.values())


def _add_names(reading: Reading, path: Path | None, entities: list[str], relations: list[str]) -> int:
    """Put the names file over what the graph's own labels say; return how many of its rows name nothing."""
    if path is None:
        return 0
    given = read_names(path, reading)
    lexicon = reading.lexicon
    lexicon.names.update(given.names)
    lexicon.descriptions.update(given.descriptions)
    for identifier, aliases in given.aliases.items():
        known = lexicon.aliases.setdefault(identifier, [])
        known.extend(alias for alias in aliases if alias not in known)
    named = set(given.names) | set(given.descriptions) | set(given.aliases)
    return len(named.difference(entities, relations))


def _vocabulary(identifiers: list[str], lexicon: Lexicon) -> Vocabulary:
    names = [lexicon.names.get(text, "") for text in identifiers] if lexicon.names else None
    descriptions = [lexicon.descriptions.get(text, "") for text in identifiers] if lexicon.descriptions else None
    aliases = {id: found for id, text in enumerate(identifiers) if (found := lexicon.aliases.get(text))}
    return Vocabulary(identifiers, names, descriptions, aliases)


def _unseen(dataset: Dataset) -> dict[str, int]:
    """Entities and relations that stand in valid or test only, which no model can learn about."""
    counts: dict[str, int] = {}
    for kind, size, places in (("entities", len(dataset.entities), [0, 2]), ("relations", len(dataset.relations), [1])):
        seen = np.zeros((2, size), dtype=bool)
        for split in SPLITS:
            for place in places:
                seen[int(split != "train"), dataset.triples[split][:, place]] = True
        counts[kind] = int((seen[1] & ~seen[0]).sum())
    return counts
