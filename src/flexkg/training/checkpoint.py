"""Checkpoints: tensors in safetensors files, everything else in JSON, written whole or not at all.

A checkpoint is a folder `step-N`. The newest two and the best one are kept; reading falls back from a damaged one to
the one before it.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from flexkg.errors import DataError
from flexkg.kg.storage import atomic_folder, os_errors, read_json, sha256_file, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import torch
    from torch import Tensor

_NAME = re.compile(r"step-(\d{9})")
_KEPT = 2


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Where a run stood."""

    step: int
    """Steps that were done."""
    tensors: Mapping[str, Mapping[str, Tensor]]
    """By file: `model`, `optimizer`, and `ema` where there is one."""
    state: Mapping[str, Any]


def save(folder: Path, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]) -> Path:
    """Write a checkpoint into `folder`, then let go of old ones."""
    path = folder / f"step-{step:09d}"
    if path.exists():
        return path
    with atomic_folder(path) as temporary:
        hashes = {}
        for name, content in tensors.items():
            file = temporary / f"{name}.safetensors"
            save_file({key: value.contiguous() for key, value in content.items()}, file)
            hashes[file.name] = sha256_file(file)
        write_json(temporary / "state.json", {**state, "step": step, "sha256": hashes})
    _tidy(folder, state.get("best"))
    return path


def steps(folder: Path) -> list[int]:
    """The steps of the checkpoints in a folder, ascending."""
    if not folder.is_dir():
        return []
    return sorted(int(match[1]) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name)))


def load(folder: Path, step: int, device: torch.device | str = "cpu") -> Checkpoint:
    """Read one checkpoint; a damaged one is a `DataError` that names the file."""
    path = folder / f"step-{step:09d}"
    state = read_json(path / "state.json")
    tensors = {}
    for name, expected in state.get("sha256", {}).items():
        file = path / name
        with os_errors(file, "read"):
            if sha256_file(file) != expected:
                raise DataError(f"{file} is damaged: its checksum does not match.")
            try:
                tensors[name.removesuffix(".safetensors")] = load_file(file, device=str(device))
            except SafetensorError as error:
                raise DataError(f"{file} is damaged: {error}.") from None
    return Checkpoint(step, tensors, state)


def load_newest(folder: Path, device: torch.device | str, warn: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint that can be read; each one that cannot is warned about. None if there is none at all."""
    found = steps(folder)
    for step in reversed(found):
        try:
            return load(folder, step, device)
        except DataError as error:
            warn(f"checkpoint {step} is skipped: {error}")
    if found:
        raise DataError(f"No checkpoint in {folder} can be read.", hint="Start the run anew in another folder.")
    return None


def _tidy(folder: Path, best: Mapping[str, Any] | None) -> None:
    keep = set(steps(folder)[-_KEPT:]) | ({best["step"]} if best else set())
    for step in steps(folder):
        if step not in keep:
            shutil.rmtree(folder / f"step-{step:09d}", ignore_errors=True)
