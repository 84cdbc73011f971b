"""Takes single files out of zip and tar archives into memory; nothing is ever unpacked onto the disk."""

from __future__ import annotations

import contextlib
import tarfile
import zipfile
import zlib
from lzma import LZMAError
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from flexkg.errors import DataError, LimitError
from flexkg.kg.storage import os_errors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

_MAX_MEMBERS = 100_000
_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, LZMAError, OSError, NotImplementedError)


def read_members(archive: Path, wanted: Collection[str], *, max_bytes: int = 1 << 30) -> dict[str, bytes]:
    """The files of an archive that end in the paths `wanted`, such as `FB15k-betae/train.txt`, by those paths.

    An archive that holds a path out of its folder or a link in place of a wanted file is refused as a whole.
    """
    found: dict[str, bytes] = {}
    left = max_bytes
    with os_errors(archive, "read"):
        archive.stat()
    try:
        with _opened(archive) as members:
            for number, (path, size, file) in enumerate(members):
                if number >= _MAX_MEMBERS:
                    raise LimitError(f"{archive} holds more than {_MAX_MEMBERS:,} files.", hint=_OTHER)
                _check_path(path, archive)
                name = next((name for name in wanted if f"/{path}".endswith(f"/{name}")), None)
                if name is None:
                    continue
                if name in found:
                    raise DataError(f"{archive} holds {name} twice.", hint=_OTHER)
                if file is None:
                    raise DataError(f"{archive} holds {path} as a link or a device, not as a file.", hint=_OTHER)
                data = b""
                if size <= left:
                    # The stated size may lie: one byte more than is left shows it.
                    with file() as opened:
                        data = opened.read(left + 1)
                if max(size, len(data)) > left:
                    raise LimitError(f"The files in {archive} take more than {max_bytes:,} bytes.", hint=_OTHER)
                left -= len(data)
                found[name] = data
    except _DAMAGED as error:
        # tarfile lists on further lines what each of its methods had to say.
        text = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".:")
        raise DataError(f"{archive} is damaged or no archive: {text}.", hint="Get it again.") from None
    if missing := sorted(set(wanted) - set(found)):
        raise DataError(f"{archive} does not hold {', '.join(missing)}.", hint=_OTHER)
    return found


_OTHER = "This is not the published archive."


class _Member:
    """Opens one file of an archive when called."""

    def __init__(self, archive: zipfile.ZipFile | tarfile.TarFile, info: zipfile.ZipInfo | tarfile.TarInfo) -> None:
        self.archive, self.info = archive, info

    def __call__(self) -> BinaryIO:
        if isinstance(self.archive, zipfile.ZipFile) and isinstance(self.info, zipfile.ZipInfo):
            return self.archive.open(self.info)  # type: ignore[return-value]  # it reads bytes
        assert isinstance(self.archive, tarfile.TarFile)
        assert isinstance(self.info, tarfile.TarInfo)
        file = self.archive.extractfile(self.info)
        assert file is not None  # it is a regular file
        return file  # type: ignore[return-value]  # it reads bytes


@contextlib.contextmanager
def _opened(archive: Path) -> Iterator[Iterator[tuple[str, int, _Member | None]]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            yield (
                (info.filename, info.file_size, None if _is_zip_link(info) else _Member(zipped, info))
                for info in zipped.infolist()
                if not info.is_dir()
            )
    else:
        with tarfile.open(archive) as tar:
            yield (
                (info.name, info.size, _Member(tar, info) if info.isreg() else None) for info in tar if not info.isdir()
            )


def _is_zip_link(info: zipfile.ZipInfo) -> bool:
    return (info.external_attr >> 16) & 0o170000 == 0o120000


def _check_path(path: str, archive: Path) -> None:
    parts = PurePosixPath(path.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts or ":" in path.split("/")[0]:
        raise DataError(f"{archive} holds the path {path!r}, which leads out of its folder.", hint=_OTHER)
