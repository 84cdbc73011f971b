"""The manifest of a workload folder, `workload.json`: read with suspicion, for folders are passed around."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from flexkg.errors import DataError
from flexkg.kg.dataset import SPLITS
from flexkg.kg.storage import read_json
from flexkg.query.shapes import template_of
from flexkg.sampling.columns import BUILD_AGAIN, MAGIC

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Final = "flexkg-workload"
VERSION: Final = 1
MANIFEST: Final = "workload.json"
PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""Names of shapes that name files, too."""

_COLUMN: Final = re.compile(r"[a-z]{1,32}")
_MOST_PACKED: Final = 1032
"""zlib cannot do better than this ratio, so whoever promises more lies."""


def is_workload(folder: Path) -> bool:
    """Whether `folder` is a workload, of any version."""
    try:
        return read_json(folder / MANIFEST).get("format") == FORMAT
    except DataError:
        return False


def read_manifest(folder: Path) -> dict[str, Any]:
    """The content of workload.json, with its fields checked as far as the rest relies on them."""
    path = folder / MANIFEST
    make = "Make one with: flexkg workload build"
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}.", hint=make)
    if not path.exists():
        raise DataError(f"{folder} is not a workload: it has no {MANIFEST}.", hint=make)
    manifest = read_json(path)
    if manifest.get("format") != FORMAT:
        raise DataError(f"{path} does not describe a flexkg workload.", hint=make)
    version: Any = manifest.get("version")
    if not _whole(version, 1):
        raise DataError(f"{path} has no valid version.", hint=BUILD_AGAIN)
    if version > VERSION:
        raise DataError(
            f"{folder} was written in format version {version}; this flexkg reads up to version {VERSION}.",
            hint="Upgrade flexkg, or build the workload again with this one.",
        )
    data: Any = manifest.get("data")
    sets: Any = manifest.get("sets")
    well_formed = (
        isinstance(data, dict)
        and isinstance(data.get("name"), str)
        and isinstance(data.get("checksum"), str | None)
        and all(_whole(data.get(kind), 0) and data[kind] < 1 << 31 for kind in ("entities", "relations"))
        and isinstance(manifest.get("settings"), dict)
        and isinstance(sets, list)
    )
    if not well_formed:
        raise DataError(f"{path} is incomplete.", hint=BUILD_AGAIN)
    seen = set()
    for number, entry in enumerate(sets, 1):
        if not _valid_entry(entry, data["entities"]) or (entry["split"], entry["shape"]) in seen:
            raise DataError(f"{path}: entry {number} of its sets makes no sense.", hint=BUILD_AGAIN)
        seen.add((entry["split"], entry["shape"]))
    return manifest


def _valid_entry(entry: Any, entities: int) -> bool:
    if not isinstance(entry, dict) or entry.get("split") not in SPLITS:
        return False
    if not all(isinstance(entry.get(field), str) for field in ("shape", "key", "file", "sha256", "content")):
        return False
    file, answers = entry["file"].split("/"), entry.get("answers")
    # The manifest may come from anywhere: it must not lead out of the folder.
    if len(file) != 2 or file[0] != entry["split"] or not PLAIN.fullmatch(file[1].replace(".", "-")):
        return False
    if not all(_whole(entry.get(field), 0) for field in ("bytes", "queries")) or entry["bytes"] < len(MAGIC):
        return False
    if not isinstance(entry.get("complement"), bool) or not isinstance(entry.get("extra"), dict):
        return False
    if not isinstance(answers, dict) or not answers or not all(map(_COLUMN.fullmatch, answers)):
        return False
    most = min(entry["queries"] * entities, _MOST_PACKED * entry["bytes"])
    if not all(isinstance(a, dict) and _whole(a.get("total"), 0) and a["total"] <= most for a in answers.values()):
        return False
    if entry["queries"] > _MOST_PACKED * entry["bytes"]:
        return False
    hardness = entry.get("hardness")
    if not isinstance(hardness, dict | None) or (hardness is not None and "hard" not in answers):
        return False
    try:
        template_of(entry["key"])
    except (ValueError, RecursionError):
        return False
    return True


def _whole(value: Any, least: int) -> bool:
    return type(value) is int and value >= least
