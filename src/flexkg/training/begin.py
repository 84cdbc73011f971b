"""How a run's folder begins: its facts and what it says of itself, whole, by one process at a time."""

from __future__ import annotations

import platform
import re
import shutil
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import torch

from flexkg.config import parse_config
from flexkg.errors import DataError, FlexError, TrainingError
from flexkg.kg.dataset import Dataset, is_dataset
from flexkg.kg.storage import atomic_file, clear_partial, locked, os_errors, write_json
from flexkg.training.folder import FORMAT, VERSION, RunFolder, check_workload, describe_workload, read_manifest
from flexkg.training.processes import OtherEnded
from flexkg.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from flexkg.config import RunConfig
    from flexkg.sampling.workload import Workload

_BEGUN = re.compile(r"\.(data|run\.json)\.[0-9a-f]+\.partial")
"""What was being written."""


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Keep other processes from training in the same folder."""
    with os_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    busy = TrainingError(
        f"The run in {out} is being trained by another process.", hint="Wait until it ends, or choose another --out."
    )
    whole = out.resolve()
    with locked(whole.with_name(f"{whole.name}.training"), busy):
        yield


@contextmanager
def taken_back(out: Path) -> Iterator[Callable[[], None]]:
    """Remove a new run if a mistake ends the block before what it gives is called; what is interrupted stays."""
    new, begun = not (out / "run.json").exists(), [False]

    def begin() -> None:
        begun[0] = True

    try:
        yield begin
    except OtherEnded:
        raise
    except FlexError:
        if new and not begun[0] and (out / "run.json").exists():
            for name in ("run.json", "data", "workload"):
                path = out / name
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
            with suppress(OSError):
                out.rmdir()
        raise


def begin_run(
    out: Path,
    dataset: Dataset,
    config: RunConfig,
    recipe: str,
    device: torch.device,
    resume: bool,
    given: Workload | None,
) -> None:
    """Make the run's folder, or check that the one that is there may go on."""
    manifest = out / "run.json"
    if manifest.exists():
        if not resume:
            raise DataError(f"{out} holds a run already.", hint="Go on with it by --resume, or choose another --out.")
        old = read_manifest(out)
        own = f"`flexkg train --out {out} --resume` goes on with its own; for others choose another folder."
        if old["data"]["checksum"] != dataset.checksum:
            raise TrainingError(f"The run in {out} was begun on other data.", hint=own)
        if parse_config(old["config"], str(manifest)) != config:
            raise TrainingError(f"The run in {out} was begun with other settings.", hint=own)
        check_workload(out, old, given)
        _keep_facts(out, dataset)
        clear_partial(out)
        clear_partial(out / "checkpoints")
        return
    if out.exists() and not out.is_dir():
        raise DataError(f"{out} is a file.", hint="Give the name of a folder to make.")
    with os_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in out.iterdir()}
    # A run that was killed while its folder was made may have left its facts there, or a part of them.
    if any(name != "data" and not _BEGUN.fullmatch(name) for name in names) or not _is(out / "data", dataset):
        raise DataError(f"The folder {out} holds something else.", hint="Choose a new folder.")
    clear_partial(out)
    if "data" not in names:
        dataset.save(out / "data")
    with atomic_file(manifest) as partial:
        write_json(
            partial,
            {
                "format": FORMAT,
                "version": VERSION,
                "flexkg": __version__,
                "torch": torch.__version__,
                "recipe": recipe,
                "config": config.model_dump(mode="json"),
                "data": {"name": dataset.name, "checksum": dataset.checksum},
                **({} if given is None else {"workload": describe_workload(given, given=True)}),
                "seed": config.training.seed,
                "device": torch.cuda.get_device_name(device)
                if device.type == "cuda"
                else platform.processor() or "cpu",
                "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            },
        )


def _keep_facts(out: Path, dataset: Dataset) -> None:
    """Put lost facts back, which are at hand; others in their place are somebody's."""
    if is_dataset(out / "data"):
        _ = RunFolder.open(out).dataset
        return
    with suppress(OSError):
        (out / "data").rmdir()
    dataset.save(out / "data")


def _is(folder: Path, dataset: Dataset) -> bool:
    """Whether a folder holds these facts, or is not there."""
    try:
        return not folder.exists() or Dataset.load(folder).checksum == dataset.checksum
    except DataError:
        return False
