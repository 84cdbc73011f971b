"""A run's embeddings and vocabularies as plain files, for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from flexkg.kg.storage import atomic_folder, read_json, table_bytes, write_array, write_json
from flexkg.training.folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from flexkg.kg.vocabulary import Vocabulary

FORMAT, VERSION = "flexkg-export", 1
_MANIFEST = "export.json"
_README = """Embeddings of a flexkg run ({model} on {data}).

entities.tsv         row i names entity i: identifier, name, description
relations.tsv        row k names relation k
candidates.npy       (entities, width): entities as the model's distance sees them; row i is entity i
parameters/*.npy     every trained tensor under its name. In tables of relations, row 2k is relation k read from head
                     to tail and row 2k + 1 is the same relation read backwards
export.json          the same in a form for programs: settings, shapes and types

Arrays are NumPy's .npy, little-endian. In tables, tab, line breaks and the backslash are written \\t, \\n, \\r, \\\\.
"""


def export_run(run: str | Path, out: str | Path, *, overwrite: bool = False) -> dict[str, Any]:
    """Write the folder, whole or not at all, and say what is in it."""
    folder = RunFolder.open(run)
    model, dataset = folder.model("cpu"), folder.dataset
    with torch.no_grad(), atomic_folder(out, overwrite=overwrite, replaceable=_is_export) as partial:
        (partial / "parameters").mkdir()
        arrays = {f"parameters/{name}.npy": value for name, value in sorted(model.state_dict().items())}
        arrays["candidates.npy"] = model.candidates(slice(None))
        for name, value in arrays.items():
            write_array(partial / name, value.cpu().numpy())
        for name, vocabulary in (("entities", dataset.entities), ("relations", dataset.relations)):
            (partial / f"{name}.tsv").write_bytes(_table(name, vocabulary))
        text = _README.format(model=model.name, data=dataset.name)
        (partial / "README.txt").write_text(text, encoding="utf-8")
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "data": {"name": dataset.name, "checksum": dataset.checksum},
            "config": folder.manifest["config"],
            "arrays": {name: {"shape": list(value.shape), "type": str(value.dtype)} for name, value in arrays.items()},
        }
        write_json(partial / _MANIFEST, manifest)
        files = sorted(_names(partial))
    return {"path": str(out), "files": files, "entities": len(dataset.entities), "relations": len(dataset.relations)}


def _names(folder: Path) -> Iterable[str]:
    return (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _table(kind: str, vocabulary: Vocabulary) -> bytes:
    header = ({"entities": "entity", "relations": "relation"}[kind], "name", "description")
    described = vocabulary.descriptions or [""] * len(vocabulary)
    return table_bytes(header, [vocabulary.identifiers, vocabulary.names, described])


def _is_export(folder: Path) -> bool:
    manifest = folder / _MANIFEST
    return manifest.is_file() and read_json(manifest).get("format") == FORMAT
