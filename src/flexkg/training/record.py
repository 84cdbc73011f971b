"""What a run measures while it goes: a line of JSON each, and a TensorBoard of them for whoever asks for one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from flexkg.errors import MissingExtra
from flexkg.kg.storage import atomic_file, finite, os_errors

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import TextIO

METRICS, BOARD = "metrics.jsonl", "tensorboard"


def check_tensorboard() -> None:
    """Raise `MissingExtra` unless a TensorBoard can be written."""
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        raise MissingExtra("--tensorboard", "tensorboard") from None


class Recorder:
    """Writes measurements into a run's folder; used as `with Recorder(...) as record`."""

    def __init__(self, folder: Path, *, tensorboard: bool = False, resumed_at: int | None = None) -> None:
        """`resumed_at` is the step from which the run goes on: what was measured after it will be measured again."""
        self._path = folder / METRICS
        if resumed_at is not None and self._path.exists():
            _trim(self._path, resumed_at)
        self._file: TextIO | None = None
        self._board: Any = None
        if tensorboard:
            check_tensorboard()
            from torch.utils.tensorboard import SummaryWriter

            purge = None if resumed_at is None else resumed_at + 1
            with os_errors(folder / BOARD):
                self._board = SummaryWriter(str(folder / BOARD), purge_step=purge)

    def __enter__(self) -> Recorder:
        with os_errors(self._path):
            self._file = self._path.open("a", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with os_errors(self._path):
                self._file.close()
        if self._board is not None:
            self._board.close()

    def __call__(self, row: Mapping[str, Any]) -> None:
        """Write one measurement; it is on its way to the disk when this returns."""
        assert self._file is not None
        with os_errors(self._path):
            self._file.write(json.dumps(finite(row), allow_nan=False) + "\n")
            self._file.flush()
        if self._board is not None:
            for name, value in _scalars(row).items():
                self._board.add_scalar(name, value, row["step"])


def _scalars(row: Mapping[str, Any]) -> dict[str, float]:
    """The curves of a board that a row has a point of."""
    named = {"loss": "training/loss", "queries_per_second": "training/queries_per_second", "valid_mrr": "valid/mrr"}
    curves = {curve: float(row[key]) for key, curve in named.items() if key in row}
    for shape, metrics in row.get("valid", {}).items():
        curves |= {f"valid/{shape}/{name}": float(value) for name, value in metrics.items()}
    return curves


def _trim(path: Path, last: int) -> None:
    """Leave out what came after a step, and half a line that a killed process may have left."""
    kept = []
    with os_errors(path, "read"):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    for line in lines:
        try:
            step = json.loads(line)["step"]
        except (ValueError, KeyError, TypeError):
            continue
        if step <= last:
            kept.append(line + "\n")
    with atomic_file(path) as partial:
        partial.write_text("".join(kept), encoding="utf-8")
