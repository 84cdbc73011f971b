"""Checkpoints: tensors in safetensors files, everything else in JSON, written whole or not at all.

A checkpoint is a folder `step-N`. The newest two and the best one are kept; reading falls back from a damaged one to
the one before it, and takes the damaged one away, so that it is written anew when the run gets there again.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
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
_OS_ERROR = re.compile(r"os error (\d+)")
"""How the library that writes tensors names an error of the system."""
_NEEDED = {"model", "optimiser"}


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
            write_tensors(file, content)
            hashes[file.name] = sha256_file(file)
        write_json(temporary / "state.json", {**state, "step": step, "sha256": hashes})
    _tidy(folder, state.get("best"))
    return path


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file; a full disk gives the system's own error."""
    # The library lets nobody but the owner read its files; these are as readable as any other.
    path.touch()
    mode = stat.S_IMODE(path.stat().st_mode)
    try:
        save_file({name: value.contiguous() for name, value in tensors.items()}, path)
        path.chmod(mode)
    except SafetensorError as error:
        number = _OS_ERROR.search(str(error))
        if number is None:
            raise DataError(f"Cannot write {path}: {error}.") from None
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from None


def steps(folder: Path) -> list[int]:
    """The steps of the checkpoints in a folder, ascending."""
    if not folder.is_dir():
        return []
    return sorted(int(match[1]) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name)))


def load(folder: Path, step: int, device: torch.device | str = "cpu") -> Checkpoint:
    """Read one checkpoint; a damaged one is a `DataError` that names the file."""
    path = folder / f"step-{step:09d}"
    state = read_json(path / "state.json")
    if not isinstance(hashes := state.get("sha256"), dict) or not {"best", "seconds"} <= state.keys():
        raise DataError(f"{path / 'state.json'} is damaged: it does not say what a state must.")
    tensors = {}
    for name, expected in hashes.items():
        file = path / name
        with os_errors(file, "read"):
            if sha256_file(file) != expected:
                raise DataError(f"{file} is damaged: its checksum does not match.")
            try:
                tensors[name.removesuffix(".safetensors")] = load_file(file, device=str(device))
            except SafetensorError as error:
                raise DataError(f"{file} is damaged: {error}.") from None
    if missing := _NEEDED - tensors.keys():
        raise DataError(f"{path} is damaged: it has no {' and no '.join(sorted(missing))}.")
    return Checkpoint(step, tensors, state)


def load_newest(folder: Path, device: torch.device | str, warn: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint that can be read; each one that cannot is warned about. None if there is none at all."""
    found = steps(folder)
    damaged = []
    for step in reversed(found):
        try:
            good = load(folder, step, device)
        except DataError as error:
            warn(f"checkpoint {step} is skipped: {error}")
            damaged.append(step)
            continue
        for later in damaged:
            _remove(folder, later)
        return good
    if found:
        raise DataError(f"No checkpoint in {folder} can be read.", hint="Start the run anew in another folder.")
    return None


def _tidy(folder: Path, best: Mapping[str, Any] | None) -> None:
    keep = set(steps(folder)[-_KEPT:]) | ({best["step"]} if best else set())
    for step in steps(folder):
        if step not in keep:
            _remove(folder, step)


def _remove(folder: Path, step: int) -> None:
    shutil.rmtree(folder / f"step-{step:09d}", ignore_errors=True)
