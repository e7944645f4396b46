"""Artifacts of a workflow run: downloaded without showing the token to the storage, and unpacked
only by expected names, whatever else the archive says."""

from __future__ import annotations

import hashlib
import io
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path

from evalgate.github import client as github_client
from evalgate.github.client import Artifact, Client, GitHubFailed, GitHubFault
from evalgate.values import frozen_dataclass

MOST_ZIP_BYTES = 64 * 1024 * 1024
_DIRECTORY_END = b"PK\x05\x06"
"""The beginning of a zip's last record, which has the number of entries and the size of their
directory from byte 10 on."""
_LONGEST_END = 65_557
"""The most bytes of that record, with its comment."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,  # an offset before the start
    RuntimeError,  # zipfile raises it for encrypted entries
    NotImplementedError,  # and for unsupported ones
)
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})


@frozen_dataclass
class Limits:
    """The limits of an archive; sizes in bytes, unpacked."""

    entries: int = 2_000
    file_bytes: int = 64 * 1024 * 1024
    total_bytes: int = 128 * 1024 * 1024


LIMITS = Limits()


def list_of_run(client: Client, run_id: int, *, name: str) -> tuple[Artifact, ...]:
    """The artifacts of a workflow run with this `name`, newest first. Raises GitHubFailed."""
    artifacts = client.fetch_all(
        github_client.LIST_RUN_ARTIFACTS,
        Artifact,
        query={"name": name},
        list_key="artifacts",
        run_id=run_id,
    )
    matches = (artifact for artifact in artifacts if artifact.name == name)
    return tuple(
        sorted(matches, key=lambda artifact: (artifact.created_at or "", artifact.id), reverse=True)
    )


def download(client: Client, artifact: Artifact, *, most_bytes: int = MOST_ZIP_BYTES) -> bytes:
    """The artifact's zip, with a verified digest. Raises GitHubFailed."""
    if artifact.size_in_bytes > most_bytes:
        message = f"the artifact {artifact.name} has {artifact.size_in_bytes:,} bytes, more than {most_bytes:,}"
        raise GitHubFailed(GitHubFault.TOO_LARGE, message)
    content = client.download(
        github_client.DOWNLOAD_ARTIFACT,
        most_bytes=most_bytes,
        artifact_id=artifact.id,
        archive_format="zip",
    )
    kind, _, digest = (artifact.digest or "").partition(":")
    if kind == "sha256" and digest and digest.lower() != hashlib.sha256(content).hexdigest():
        message = (
            f"the download of the artifact {artifact.name} is corrupt: its digest does not match"
        )
        raise GitHubFailed(GitHubFault.MALFORMED, message, hint="Run the job again.")
    return content


def fetch_files(
    client: Client, artifact: Artifact, *, into: Path, names: Collection[str]
) -> dict[str, Path]:
    """Download an artifact and write its files called `names` into the folder `into`. Returns their
    paths; see `extract`.

    Raises GitHubFailed, and OSError of `into`."""
    paths: dict[str, Path] = {}
    for name, content in extract(download(client, artifact), names=names).items():
        paths[name] = into / name
        # an existing link would be written through
        paths[name].unlink(missing_ok=True)
        with paths[name].open("xb") as file:
            file.write(content)
    return paths


def extract(archive: bytes, *, names: Collection[str], limits: Limits = LIMITS) -> dict[str, bytes]:
    """The contents of the files called `names`, plain names at the archive's root.

    Missing files are missing in the result, others are ignored. Paths, sizes and kinds in the
    archive are not trusted. Raises GitHubFailed(MALFORMED or TOO_LARGE)."""
    name_set = frozenset(names)
    for name in name_set:
        if not _PLAIN_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a plain file name")
    contents: dict[str, bytes] = {}
    remaining_bytes = limits.total_bytes
    try:
        _check_count(archive, limits)
        with zipfile.ZipFile(io.BytesIO(archive)) as zip_file:
            for name, entry in _entries_of(zip_file, name_set, limits).items():
                contents[name] = _unpack(
                    zip_file, entry, most_bytes=min(remaining_bytes, limits.file_bytes)
                )
                remaining_bytes -= len(contents[name])
    except _UNREADABLE as error:
        raise _broken(f"it cannot be read ({error})") from None
    return contents


def _entries_of(
    zip_file: zipfile.ZipFile, names: frozenset[str], limits: Limits
) -> dict[str, zipfile.ZipInfo]:
    entries = zip_file.infolist()
    if len(entries) > limits.entries:
        raise _too_large(f"{len(entries):,} entries")
    entries_by_name: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        # `orig_filename`: zipfile cuts `filename` at a zero byte, and turns backslashes into
        # slashes.
        name = entry.orig_filename
        mode = entry.external_attr >> 16
        if name not in names:
            continue
        if name in entries_by_name:
            raise _broken(f"`{name}` appears twice")
        if entry.is_dir() or stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise _broken(f"`{name}` is not a regular file")
        if entry.flag_bits & 0x1:
            raise _broken(f"`{name}` is encrypted")
        if entry.compress_type not in _METHODS:
            raise _broken(f"`{name}` uses an unsupported compression method")
        if entry.file_size > limits.file_bytes:
            raise _too_large(f"`{name}` has {entry.file_size:,} bytes")
        entries_by_name[name] = entry
    return entries_by_name


def _unpack(zip_file: zipfile.ZipFile, entry: zipfile.ZipInfo, *, most_bytes: int) -> bytes:
    with zip_file.open(entry) as source:
        content = source.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise _too_large(f"`{entry.orig_filename}` unpacks to more than {most_bytes:,} bytes")
    return content


def _check_count(archive: bytes, limits: Limits) -> None:
    """Refuse too many entries before zipfile reads all of them. Raises GitHubFailed."""
    position = archive.rfind(_DIRECTORY_END, max(0, len(archive) - _LONGEST_END))
    if position < 0 or len(archive) < position + 16:
        raise _broken("it is not a zip file, or it is truncated")
    entries, directory_bytes = struct.unpack_from("<HI", archive, position + 10)
    # A zip of more than 65,534 entries or 4 GB has the count elsewhere, and is too large anyway; so
    # is a directory with more than 1 KB per entry.
    if entries > limits.entries or directory_bytes > limits.entries * 1_024:
        raise _too_large(f"{entries:,} entries")


def _broken(reason: str) -> GitHubFailed:
    return GitHubFailed(GitHubFault.MALFORMED, f"the artifact's archive is not used: {reason}")


def _too_large(subject: str) -> GitHubFailed:
    return GitHubFailed(
        GitHubFault.TOO_LARGE, f"the artifact's archive is not used: {subject} exceeds the limit"
    )
