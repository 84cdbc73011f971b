"""Result files: one JSON file for each run that was evaluated, under results/DATASET/."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from flexkg.errors import DataError
from flexkg.kg.storage import atomic_file, os_errors, read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

FORMAT: Final = "flexkg-result"
VERSION: Final = 1
KINDS: Final = ("run", "time")

_SECTIONS: Final = ("model", "training")
RATES: Final = ("mrr", "hits@1", "hits@3", "hits@10")
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")
_ANEW: Final = "Delete it and measure again with `flexkg paper run`, or restore it from version control."


@dataclass(frozen=True)
class Result:
    """What one run gave."""

    kind: str
    """`run`: trained to the end and evaluated; `time`: trained for some seconds to measure the speed."""
    dataset: str
    data_checksum: str
    workload: Mapping[str, Any]
    """`seed`, `checksum`, and `published`: by split the shapes whose queries are the published ones."""
    recipe: str
    label: str
    """What sets the run apart from others of its recipe, graph and seed; usually nothing."""
    overrides: tuple[str, ...]
    config: Mapping[str, Any]
    seed: int
    flexkg: str
    torch: str
    device: str
    seconds: Mapping[str, float]
    """`train`, `evaluate`, and `whole`: both with all that goes before, between and after. Where it could be told also
    `start`: the part of `train` before the first steps came at their later pace, which is compilation for the most."""
    queries_per_second: float
    steps: int
    peak_memory: int | None
    """Bytes; of the GPU where one was used."""
    parameters: int
    best: Mapping[str, Any] | None
    """Step and MRR of the best validation."""
    metrics: Mapping[str, Any]
    """As `flexkg evaluate` gives them; of a `time`, seconds for each step."""
    date: str
    shared_device: bool = False
    """Whether something else used the device meanwhile: then its seconds compare with no others."""
    validations: tuple[Mapping[str, Any], ...] = ()
    """Each with its `step`, `mrr`, and the MRR of `shapes`."""
    flaw: str = ""
    """What was found wrong with how it was made: it is to be made again."""
    path: Path | None = None
    """Where it was read from."""

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return f"{file_stem(self.kind, self.recipe, self.seed, self.label)}.json"

    def to_dict(self) -> dict[str, Any]:
        """As it is written."""
        content = {key: value for key, value in asdict(self).items() if key != "path"}
        lists = {"overrides": list(self.overrides), "validations": list(self.validations)}
        return {"format": FORMAT, "version": VERSION, **content, **lists}


def file_stem(kind: str, recipe: str, seed: int, label: str) -> str:
    """`flex-seed1`, `flex-seed1-d200`, or `flex-released-time-d200` for a measurement of speed."""
    middle = f"seed{seed}" if kind == "run" else kind
    return "-".join(part for part in (recipe, middle, label) if part)


def save(result: Result, folder: Path) -> Path:
    """Write the file that the run has by its name; an older one is replaced."""
    path = folder / result.dataset / result.name
    with atomic_file(path) as partial:
        write_json(partial, result.to_dict())
    return path


def load(path: Path) -> Result:
    """Read one file, with its fields checked."""
    content = read_json(path)
    if content.get("format") != FORMAT:
        raise DataError(f"{path} is not a result.", hint="Keep other files out of the folder of results.")
    if content.get("version") != VERSION:
        raise DataError(
            f"{path} has version {content.get('version')!r}; this flexkg reads {VERSION}.", hint="Upgrade flexkg."
        )
    names = [field.name for field in fields(Result) if field.name != "path"]
    # What came up later has a default.
    content = {"shared_device": False, "validations": [], "flaw": "", **content}
    if missing := [name for name in names if name not in content]:
        raise DataError(f"{path} has no {missing[0]}.", hint=_ANEW)
    for name in names:
        if not _TYPES[name](content[name]):
            raise DataError(f"{path}: {name} cannot be {content[name]!r}.", hint=_ANEW)
    needed = {"run": "shapes", "time": "seconds_per_step"}[content["kind"]]
    if needed not in content["metrics"]:
        raise DataError(f"{path}: metrics has no {needed}.", hint=_ANEW)
    values = {name: content[name] for name in names}
    lists = {name: tuple(values[name]) for name in ("overrides", "validations")}
    result = Result(**{**values, **lists}, path=path)
    if (path.parent.name, path.name) != (result.dataset, result.name):
        raise DataError(
            f"{path} holds the result {result.dataset}/{result.name}.",
            hint="Rename it so.",
        )
    return result


def load_all(folder: Path) -> list[Result]:
    """Every result under the folder, by name; none if there is no such folder."""
    if not folder.is_dir():
        return []
    with os_errors(folder, "read"):
        paths = sorted(folder.glob("*/*.json"))
    return [load(path) for path in paths]


def find(
    results: Iterable[Result],
    *,
    kind: str,
    dataset: str,
    recipe: str,
    seed: int,
    label: str = "",
    config: Mapping[str, Any] | None = None,
) -> Result | None:
    """The result of a run: with the very same settings before others, and of these the newest."""
    found = [
        result
        for result in results
        if (result.kind, result.dataset, result.recipe, result.label) == (kind, dataset, recipe, label)
        and (kind == "time" or result.seed == seed)
    ]
    return max(found, key=lambda result: (config is not None and is_exact(result, config), result.date), default=None)


def is_exact(result: Result, config: Mapping[str, Any]) -> bool:
    """Whether a result was made with these settings, as far as they decide what comes out."""
    return not changed_settings(result, config)


def changed_settings(result: Result, config: Mapping[str, Any]) -> list[str]:
    """What a result was made with in place of these settings, as far as they decide what comes out."""
    then, now = deciding_settings(result), _deciding(config)
    if then is None:
        return ["settings that can no longer be read"]
    return [f"{key}={then.get(key)}" for key in dict.fromkeys((*then, *now)) if then.get(key) != now.get(key)]


def deciding_settings(result: Result) -> dict[str, Any] | None:
    """Whatever a result was made with that decides what comes out; None where that can no longer be read.

    Settings that came up since have their defaults, which leave things as they were.
    """
    from flexkg.config import parse_config
    from flexkg.errors import ConfigError

    try:
        return _deciding(parse_config(result.config, str(result.path)).model_dump(mode="json"))
    except ConfigError:
        return None


def _deciding(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"{section}.{key}": value
        for section, values in config.items()
        if section != "description"
        for key, value in values.items()
        if key != "checkpoint_every"
    }


def _text(value: Any) -> bool:
    return isinstance(value, str)


def plain_name(text: str) -> str:
    """Text as a part of a file's name: whatever may not stand there becomes a dash."""
    return _ODD.sub("-", text).strip("-")


def is_plain(value: Any) -> bool:
    """Whether a name can be that of a file or folder anywhere."""
    return isinstance(value, str) and _PLAIN.fullmatch(value) is not None


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _share(value: Any) -> bool:
    return _number(value) and value <= 1


def _whole(value: Any) -> bool:
    return type(value) is int and value >= 0


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _workload(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and _whole(value.get("seed"))
        and isinstance(value.get("checksum"), str)
        and isinstance(value.get("published"), dict)
    )


def _seconds(value: Any) -> bool:
    needed = {"train", "whole", "evaluate"}
    return isinstance(value, dict) and needed <= set(value) and all(map(_number, value.values()))


def _metrics(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    shapes = value.get("shapes", {})
    return isinstance(shapes, dict) and all(
        isinstance(row, dict) and "mrr" in row and all(_share(row[key]) for key in row if key in RATES)
        for row in shapes.values()
    )


def _validation(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and _whole(value.get("step"))
        and _share(value.get("mrr"))
        and isinstance(value.get("shapes"), dict)
        and all(map(_share, value["shapes"].values()))
    )


_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "kind": lambda value: value in KINDS,
    "dataset": is_plain,
    "data_checksum": _text,
    "workload": _workload,
    "recipe": is_plain,
    "label": lambda value: value == "" or is_plain(value),
    "overrides": lambda value: isinstance(value, list) and all(map(_text, value)),
    "config": lambda value: isinstance(value, dict) and all(isinstance(value.get(k), dict) for k in _SECTIONS),
    "seed": lambda value: type(value) is int,
    "flexkg": _text,
    "torch": _text,
    "device": _text,
    "seconds": _seconds,
    "queries_per_second": _number,
    "steps": _whole,
    "peak_memory": lambda value: value is None or _whole(value),
    "parameters": _whole,
    "best": lambda value: value is None or (isinstance(value, dict) and _number(value.get("mrr"))),
    "metrics": _metrics,
    "date": _text,
    "shared_device": _flag,
    "validations": lambda value: isinstance(value, list) and all(map(_validation, value)),
    "flaw": _text,
}
