"""Finds datasets by name: the one in the package, those that were fetched, and prepared folders anywhere."""

from __future__ import annotations

import difflib
import hashlib
import os
import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from flexkg.errors import DataError, FlexError
from flexkg.kg.benchmarks import BENCHMARKS
from flexkg.kg.dataset import SPLITS, Dataset, is_dataset
from flexkg.kg.storage import check_replaceable, os_errors, read_json

if TYPE_CHECKING:
    from flexkg.kg.benchmarks import Benchmark, Source
    from flexkg.kg.download import Patience, Progress

EMBEDDED = {"world": "countries, cities, languages, currencies"}
_MAX_NAMES_BYTES = 50_000_000


@dataclass(frozen=True)
class Listing:
    """One dataset that can be used or fetched; `path` is None until it is there."""

    name: str
    about: str
    embedded: bool
    entities: int
    relations: int
    edges: dict[str, int]
    path: Path | None

    @property
    def available(self) -> bool:
        """Whether it can be used without fetching it first."""
        return self.path is not None


def home() -> Path:
    """The folder for fetched data: `$FLEXKG_HOME`, or the platform's cache folder of the user."""
    chosen = os.environ.get("FLEXKG_HOME")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("flexkg")


def resolve(data: str | Path) -> Dataset:
    """Open the dataset with this name, or the prepared folder at this path."""
    return Dataset.load(locate(data))


def locate(data: str | Path) -> Path:
    """The prepared folder of a name or path; a name wins over a folder, which `./name` still reaches."""
    text = os.fspath(data)
    if isinstance(data, str):
        if text in EMBEDDED:
            return _embedded(text)
        if _is_name(text) and is_dataset(_fetched(text)):
            return _fetched(text)
    path = Path(text).expanduser()
    if text and path.exists():
        return path
    if text in BENCHMARKS:
        command = f"flexkg data get {text}"
        raise DataError(
            f"The dataset {text} has not been fetched yet.",
            hint=f"Fetch it with: {command} (or from a local folder: {command} --from FOLDER)",
        )
    if not _is_name(text):
        raise DataError(f"There is no folder {text!r}.", hint="Make one with: flexkg data import")
    raise _unknown(text, [listing.name for listing in list_datasets()])


def list_datasets() -> list[Listing]:
    """The embedded dataset, the catalog, and whatever else lies among the fetched ones."""
    listings = [_read_listing(name, _embedded(name), about, embedded=True) for name, about in EMBEDDED.items()]
    for name, benchmark in BENCHMARKS.items():
        path = _fetched(name) if is_dataset(_fetched(name)) else None
        edges = dict(zip(SPLITS, benchmark.edges, strict=True))
        listings.append(Listing(name, benchmark.about, False, benchmark.entities, benchmark.relations, edges, path))
    folder = home() / "datasets"
    with os_errors(folder, "read"):
        others = sorted(path for path in folder.iterdir() if not path.name.startswith(".")) if folder.is_dir() else []
    for path in others:
        if path.name not in BENCHMARKS and path.name not in EMBEDDED and is_dataset(path):
            # A damaged one is not worth failing over here: opening it says what is wrong.
            with suppress(KeyError, TypeError, ValueError):
                listings.append(_read_listing(path.name, path, "your own", embedded=False))
    return listings


def get(
    name: str,
    source: Path | str | None = None,
    *,
    progress: Progress | None = None,
    force: bool = False,
    patience: Patience | None = None,
) -> Path:
    """Fetch a dataset of the catalog and give the folder where it is now.

    source: a local folder with its files instead of the published archive. force: fetch it although it is there.
    """
    if name in EMBEDDED:
        if source is not None:
            raise DataError(f"{name} is part of flexkg.", hint="For your own data: flexkg data import")
        return _embedded(name)
    if name not in BENCHMARKS:
        raise _unknown(name, [*EMBEDDED, *BENCHMARKS])
    benchmark, target = BENCHMARKS[name], _fetched(name)
    if source is None and not force and is_dataset(target):
        return target
    # Only fetching needs these: opening a dataset, which every command does, does not wait for them.
    from flexkg.kg import prepare
    from flexkg.kg.download import Silent

    check_replaceable(target, overwrite=True, replaceable=is_dataset)
    if source is not None:
        folder = Path(source).expanduser()
        if not folder.is_dir():
            raise DataError(f"There is no folder {folder}.", hint="Give the folder that holds train.tsv.gz and so on.")
        dataset = prepare.from_folder(folder, benchmark)
    else:
        dataset = _fetch(benchmark, progress or Silent(), patience)
    dataset.save(target, overwrite=True)
    return target


def _fetch(benchmark: Benchmark, progress: Progress, patience: Patience | None) -> Dataset:
    """Try the published places one after the other; the first that gives the graph as pinned is taken."""
    failures = []
    for source in benchmark.sources:
        try:
            dataset = _fetch_from(source, benchmark, progress, patience)
        except FlexError as error:
            failures.append(error)
            if len(failures) < len(benchmark.sources):
                progress.note(f"{error.message} Trying the next place.")
        else:
            return _add_names(dataset, benchmark, progress, patience)
    if len(failures) == 1:
        raise failures[0]
    raise DataError(
        f"None of the published places gave {benchmark.name}: " + " ".join(error.message for error in failures),
        hint=failures[-1].hint,
    )


def _fetch_from(source: Source, benchmark: Benchmark, progress: Progress, patience: Patience | None) -> Dataset:
    from flexkg.kg import prepare
    from flexkg.kg.download import check_file, download

    files = [_archive(url) for url in source.urls]
    for url, file in zip(source.urls, files, strict=True):
        if file.exists() and source.checksum:
            try:
                check_file(file, source.checksum, url)
            except DataError:
                file.unlink()
        if not file.exists():
            download(
                url,
                file,
                checksum=source.checksum,
                max_bytes=source.max_bytes,
                patience=patience,
                progress=progress,
            )
    progress.note(f"preparing {benchmark.name}")
    try:
        dataset = prepare.from_source(files, source, benchmark)
    except FlexError:
        # Kept, a wrong file would be found again by every later attempt.
        for file in files:
            file.unlink(missing_ok=True)
        raise
    for url, file in zip(source.urls, files, strict=True):
        if _users(url) > 1:
            progress.note(f"{file} is kept for the other datasets in it; delete it when you like")
        else:
            file.unlink()
    return dataset


def _add_names(dataset: Dataset, benchmark: Benchmark, progress: Progress, patience: Patience | None) -> Dataset:
    """Names are a help to the reader; without them the graph is still the graph."""
    if not benchmark.names:
        return dataset
    from flexkg.kg import prepare
    from flexkg.kg.download import download

    file = _archive(benchmark.names)
    try:
        download(benchmark.names, file, max_bytes=_MAX_NAMES_BYTES, patience=patience, progress=progress)
        return prepare.with_names(dataset, file.read_bytes(), file)
    except FlexError as error:
        progress.note(f"{benchmark.name} has identifiers but no names: {error.message}")
        return dataset
    finally:
        file.unlink(missing_ok=True)


def _users(url: str) -> int:
    """How many datasets of the catalog come from this address."""
    return sum(any(url in source.urls for source in benchmark.sources) for benchmark in BENCHMARKS.values())


def _archive(url: str) -> Path:
    """Where a download is kept; the address is part of the name, since others call their files train.txt too."""
    name = Path(unquote(urlsplit(url).path)).name or "download"
    return home() / "downloads" / f"{hashlib.sha256(url.encode()).hexdigest()[:8]}-{name}"


def _embedded(name: str) -> Path:
    return Path(__file__).resolve().parent.parent / "data" / name


def _fetched(name: str) -> Path:
    return home() / "datasets" / name


def _is_name(text: str) -> bool:
    return text not in ("", ".", "..") and not text.startswith("~") and not {"/", "\\", os.sep} & set(text)


def _read_listing(name: str, path: Path, about: str, *, embedded: bool) -> Listing:
    manifest = read_json(path / "dataset.json")
    edges = {split: int(manifest["edges"][split]) for split in SPLITS}
    return Listing(name, about, embedded, int(manifest["entities"]), int(manifest["relations"]), edges, path)


def _unknown(text: str, names: list[str]) -> DataError:
    near = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(text.casefold(), near, n=3, cutoff=0.5)
    if close:
        hint = f"Did you mean {' or '.join(near[match] for match in close)}?"
    else:
        hint = f"There are {', '.join(names)}; for your own data: flexkg data import --train FILE --out FOLDER"
    return DataError(f"There is no dataset or folder {shlex.quote(text)}.", hint=hint)
