"""A zip that somebody else made: read by the names that we expect, and by nothing that the archive says of itself."""

from __future__ import annotations

import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from evalgate.github.failures import FailureKind, GitHubFailed

_END = b"PK\x05\x06"
_LONGEST_COMMENT = 65_557
_CHUNK_BYTES = 64 * 1024
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    ValueError,
    RuntimeError,  # zipfile's word for encrypted entries
    NotImplementedError,  # and for uncommon ones
)
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much an archive may hold; sizes in bytes, unpacked."""

    entries: int = 2_000
    file_bytes: int = 64 * 1024 * 1024
    total_bytes: int = 128 * 1024 * 1024


def extract(archive: Path, *, into: Path, names: Collection[str], limits: Limits | None = None) -> dict[str, Path]:
    """Write the files called `names`, plain names at the archive's root, into the folder `into`; where each is.

    Files that the archive does not have are missing in the result, others are not looked at. Whatever the archive says
    of paths, sizes and kinds is not believed. Raises GitHubFailed(MALFORMED or TOO_LARGE), and OSError of `into`.
    """
    wanted = frozenset(names)
    for name in wanted:
        if not _PLAIN_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no plain file name")
    bounds = limits or Limits()
    try:
        _check_count(archive, bounds)
        with _opened(archive) as opened:
            return _extract(opened, into=into, chosen=_chosen(opened, wanted, bounds), bounds=bounds)
    except _UNREADABLE as error:
        raise _broken(f"it cannot be read ({error})") from None


def _opened(archive: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(archive)
    except OSError as error:  # an offset that leads before the beginning of the file
        raise zipfile.BadZipFile(str(error)) from None


def _chosen(opened: zipfile.ZipFile, wanted: frozenset[str], bounds: Limits) -> dict[str, zipfile.ZipInfo]:
    entries = opened.infolist()
    if len(entries) > bounds.entries:
        raise _large(f"{len(entries):,} entries")
    chosen: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        # `orig_filename`: zipfile cuts `filename` at a zero byte, and makes backslashes slashes elsewhere.
        if entry.orig_filename not in wanted:
            continue
        if entry.orig_filename in chosen:
            raise _broken(f"`{entry.orig_filename}` is in it twice")
        chosen[entry.orig_filename] = _checked(entry, bounds)
    return chosen


def _extract(
    opened: zipfile.ZipFile, *, into: Path, chosen: Mapping[str, zipfile.ZipInfo], bounds: Limits
) -> dict[str, Path]:
    found: dict[str, Path] = {}
    left = bounds.total_bytes
    try:
        for name, entry in chosen.items():
            found[name] = into / name
            found[name].unlink(missing_ok=True)  # a link that lies there already would be written through
            with found[name].open("xb") as file:
                left -= _copy(opened, entry, file, most=min(left, bounds.file_bytes))
    except BaseException:  # half of an archive is no archive
        for path in found.values():
            path.unlink(missing_ok=True)
        raise
    return found


def _checked(entry: zipfile.ZipInfo, bounds: Limits) -> zipfile.ZipInfo:
    mode = entry.external_attr >> 16
    if entry.is_dir() or (stat.S_IFMT(mode) not in (0, stat.S_IFREG)):
        raise _broken(f"`{entry.orig_filename}` is no plain file")
    if entry.flag_bits & 0x1:
        raise _broken(f"`{entry.orig_filename}` is encrypted")
    if entry.compress_type not in _METHODS:
        raise _broken(f"`{entry.orig_filename}` is packed in an uncommon way")
    if entry.file_size > bounds.file_bytes:
        raise _large(f"`{entry.orig_filename}` has {entry.file_size:,} bytes")
    return entry


def _copy(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, file: IO[bytes], *, most: int) -> int:
    size = 0
    for chunk in _chunks(opened, entry):
        size += len(chunk)
        if size > most:
            raise _large(f"`{entry.orig_filename}` unpacks to more than {most:,} bytes")
        file.write(chunk)
    return size


def _chunks(opened: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    try:
        with opened.open(entry) as source:
            while chunk := source.read(_CHUNK_BYTES):
                yield chunk
    except OSError as error:
        raise zipfile.BadZipFile(str(error)) from None


def _check_count(archive: Path, bounds: Limits) -> None:
    """Look at the number of entries before zipfile reads them all into memory."""
    with archive.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _LONGEST_COMMENT))
        tail = file.read()
    at = tail.rfind(_END)
    if at < 0 or len(tail) < at + 16:
        raise _broken("it is no zip, or cut short")
    entries, directory_bytes = struct.unpack("<HI", tail[at + 10 : at + 16])
    # A zip of more than 65,534 entries or 4 GB says so elsewhere, and is too large by then.
    if entries > bounds.entries or directory_bytes > bounds.entries * 1_024:
        raise _large(f"{entries:,} entries")


def _broken(what: str) -> GitHubFailed:
    return GitHubFailed(FailureKind.MALFORMED, f"the artifact's archive is not used: {what}")


def _large(what: str) -> GitHubFailed:
    return GitHubFailed(FailureKind.TOO_LARGE, f"the artifact's archive is not used: {what} is more than we read")
