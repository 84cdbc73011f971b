"""The queries of the recorded results: seed and checksum of each graph's workload, fixed before any training."""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from flexkg.errors import DataError
from flexkg.kg.dataset import SPLITS
from flexkg.kg.storage import atomic_file, locked, os_errors, read_json, write_json
from flexkg.sampling.protocol import PROTOCOLS, TRAIN_SHAPES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import torch

    from flexkg.kg.dataset import Dataset
    from flexkg.training.listener import Listener

FILE = "workloads.toml"
TRAINED = (*TRAIN_SHAPES, "2u", "up")
"""FLEX-U trains the unions, too; having them changes none of the other queries."""

_HEAD = """\
# The queries behind the results in this folder: for each graph the seed and the checksum of its workload, fixed before
# the first training. `flexkg paper workload` writes an entry, `flexkg paper run` builds the same workload again and
# compares the checksum. `published` lists the shapes whose queries are the benchmark's own; the others were sampled.
"""


@dataclass(frozen=True)
class Entry:
    """One graph's workload."""

    seed: int
    protocol: str
    count: int
    """Queries of each shape and split; 0 follows the protocol."""
    train_shapes: tuple[str, ...]
    checksum: str
    data_checksum: str
    published: Mapping[str, tuple[str, ...]]
    """By split."""
    queries: Mapping[str, Mapping[str, int]]
    """How many, by split and shape."""


Registry = dict[str, Entry]


def read_registry(results: Path) -> Registry:
    """The entries of a folder of results; none if it has none."""
    path = results / FILE
    if not path.is_file():
        return {}
    with os_errors(path, "read"):
        data = path.read_bytes()
    try:
        content = tomllib.loads(data.decode("utf-8"))
        return {name: _entry(values) for name, values in content.items()}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{path} cannot be read: {error}.", hint="Restore it from version control.") from None


def write_registry(results: Path, registry: Registry) -> None:
    """Write the entries, in the order of their names."""
    lines = [_HEAD]
    for name, entry in sorted(registry.items()):
        plain = name.isascii() and name.replace("-", "").isalnum()
        lines.append(f"[{name}]\n" if plain else f"[{json.dumps(name)}]\n")
        lines += [f"{key} = {_toml(value)}\n" for key, value in asdict(entry).items()]
        lines.append("\n")
    with atomic_file(results / FILE) as partial:
        partial.write_text("".join(lines).rstrip("\n") + "\n", encoding="utf-8")


def build(
    dataset: Dataset,
    folder: Path,
    *,
    seed: int,
    count: int,
    published: Path | None,
    protocol: str = PROTOCOLS[0],
    device: torch.device | str,
    listener: Listener,
) -> Entry:
    """Build a graph's workload, or read the one that is there, and say what it is."""
    from flexkg.sampling.make import Order, make_workload
    from flexkg.sampling.workload import Workload

    with os_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    # Runs are often started side by side: one builds, the others wait.
    with locked(folder):
        if not folder.exists():
            listener.say(f"building the workload of {dataset.name}")
            order = Order(train_shapes=TRAINED, seed=seed, count=count or None, protocol=protocol, queries=published)
            made = make_workload(dataset, folder, order, device=device, progress=listener.queries)
            rows = {
                shape: {split: row["source"] for split, row in splits.items()}
                for shape, splits in made["shapes"].items()
            }
            with atomic_file(_origin(folder)) as partial:
                write_json(partial, {"protocol": protocol, "seed": seed, "count": count, "sources": rows})
    workload = Workload.load(folder)
    workload.check_data(dataset)
    origin = read_json(_origin(folder)) if _origin(folder).is_file() else {}
    sources = origin.get("sources", {})
    made_by = origin.get("protocol", PROTOCOLS[0]), origin.get("seed"), origin.get("count")
    if made_by != (protocol, seed, count):
        raise DataError(
            f"The workload in {folder} was made by {made_by[0]} with seed {made_by[1]} and count {made_by[2]}, "
            f"not by {protocol} with {seed} and {count}.",
            hint="Delete the folder, or give another --work.",
        )
    given = {
        split: tuple(shape for shape in workload.shapes(split) if sources.get(shape, {}).get(split) == "published")
        for split in SPLITS
    }
    queries = {
        split: {shape: workload.count(split, shape) for shape in workload.shapes(split)} for split in workload.splits
    }
    return Entry(seed, protocol, count, TRAINED, workload.checksum, dataset.checksum, given, queries)


def check(
    dataset: Dataset,
    folder: Path,
    entry: Entry,
    published: Path | None,
    device: torch.device | str,
    listener: Listener,
) -> None:
    """Raise unless the workload in the folder, built if it is not there, is the registered one."""
    if dataset.checksum != entry.data_checksum:
        raise DataError(
            f"This {dataset.name} is not the graph of the recorded results.", hint="Fetch it again: flexkg data get."
        )
    if not folder.exists() and any(entry.published.values()) and published is None:
        raise DataError(
            f"The workload of {dataset.name} begins with published queries, which are not here.",
            hint="Give the folder that holds DATASET/queries/SPLIT/SHAPE.jsonl.gz with --source.",
        )
    found = build(
        dataset,
        folder,
        seed=entry.seed,
        count=entry.count,
        published=published,
        protocol=entry.protocol,
        device=device,
        listener=listener,
    )
    if found.checksum != entry.checksum:
        raise DataError(
            f"The workload in {folder} has the checksum {found.checksum[:12]}, registered is {entry.checksum[:12]}.",
            hint="Delete the folder; if that does not help, the published queries are not those of the results.",
        )


def _origin(folder: Path) -> Path:
    """Beside the workload: how it was made and where its queries are from, which the workload itself does not say."""
    return folder.with_name(f"{folder.name}.origin.json")


def _entry(values: Mapping[str, Any]) -> Entry:
    lists = {split: tuple(values["published"][split]) for split in values["queries"]}
    return Entry(**{**values, "published": lists, "train_shapes": tuple(values["train_shapes"])})


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
