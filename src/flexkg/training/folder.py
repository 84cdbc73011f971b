"""A run's folder, opened: what was trained, on what, and the weights to use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load_file

from flexkg.config import build_model, parse_config
from flexkg.errors import DataError, TrainingError
from flexkg.kg.dataset import Dataset, is_dataset
from flexkg.kg.storage import os_errors, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from flexkg.config import RunConfig
    from flexkg.models import QueryModel
    from flexkg.sampling.workload import Workload

FORMAT, VERSION = "flexkg-run", 1


def describe_workload(workload: Workload, *, given: bool) -> dict[str, Any]:
    """What a run's manifest keeps of the queries that it learns from; no path, since the run may travel."""
    return {"name": workload.folder.resolve().name, "checksum": workload.checksum, "given": given}


def check_workload(out: Path, manifest: Mapping[str, Any], given: Workload | None) -> None:
    """Raise unless a run goes on with the queries that it was begun with."""
    begun = manifest.get("workload")
    if begun is None:
        # The run is older than this record, or was stopped before its own workload was built.
        return
    if begun["given"] if given is None else begun["checksum"] != given.checksum:
        which = f"--workload ({begun['name']})" if begun["given"] else "command without --workload"
        raise TrainingError(
            f"The run in {out} was begun with another workload.",
            hint=f"Give the same {which}, or start anew in another --out.",
        )


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a run says of itself in `run.json`, with the parts that are needed to go on."""
    manifest = folder / "run.json"
    if not manifest.is_file():
        raise DataError(f"{folder} is not a run: it has no run.json.", hint="Make one with `flexkg train`.")
    content = read_json(manifest)
    if content.get("format") != FORMAT:
        raise DataError(f"{manifest} is not a run's.", hint="Give a folder that `flexkg train` made.")
    if content.get("version") != VERSION:
        raise DataError(
            f"{manifest} has version {content.get('version')!r}; this flexkg reads {VERSION}.",
            hint="Open it with the flexkg that made it.",
        )
    data = content.get("data")
    if not isinstance(content.get("config"), dict) or not isinstance(data, dict) or "checksum" not in data:
        raise DataError(f"{manifest} lacks its config or data.", hint="The file is damaged: train anew.")
    return content


@dataclass(frozen=True, eq=False)
class RunFolder:
    """What a run's folder holds; nothing outside of it is needed."""

    path: Path
    manifest: Mapping[str, Any]
    """`run.json` as it is."""
    config: RunConfig

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """Open a folder that `train` made."""
        folder = Path(path)
        content = read_manifest(folder)
        return cls(folder, content, parse_config(content["config"], str(folder / "run.json")))

    @cached_property
    def dataset(self) -> Dataset:
        """The facts and names that the run was begun with."""
        folder = self.path / "data"
        again = f"`flexkg train --out {self.path} --resume --data DATASET` puts those that it was begun with there."
        if not is_dataset(folder):
            raise DataError(f"The run in {self.path} has lost its facts: {folder} does not hold them.", hint=again)
        dataset = Dataset.load(folder)
        if dataset.checksum != self.manifest["data"]["checksum"]:
            message = f"{folder} holds other facts than those that the run was begun with."
            raise DataError(message, hint=f"Move them away; {again}")
        return dataset

    @property
    def workload(self) -> Path:
        """Where the run's own workload is, if it built one."""
        return self.path / "workload"

    def model(self, device: torch.device | str = "cpu") -> QueryModel:
        """The trained model, ready to answer."""
        weights = self.path / "model.safetensors"
        if not weights.is_file():
            raise DataError(
                f"The run in {self.path} was never finished or stopped: it has no {weights.name}.",
                hint=f"Go on with it by `flexkg train --out {self.path} --resume`.",
            )
        model = build_model(self.config.model, len(self.dataset.entities), 2 * len(self.dataset.relations))
        with os_errors(weights, "read"):
            # The library calls a file that may not be read one that is not there.
            weights.open("rb").close()
            try:
                tensors = load_file(weights, device=str(device))
            except SafetensorError as error:
                raise DataError(f"{weights} is damaged: {error}.") from None
        model.to(device)
        try:
            model.load_state_dict(tensors)
        except RuntimeError as error:
            reason = str(error).splitlines()[-1].strip()
            raise DataError(f"{weights} does not fit the run's settings: {reason}") from None
        model.calibrated = True
        return model.eval()
