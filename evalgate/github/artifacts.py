"""Artifacts of a workflow run: downloaded without showing the token to the storage, and unpacked by
the names that we expect, and by nothing that the archive says of itself."""

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
_END = b"PK\x05\x06"
_LONGEST_COMMENT = 65_557
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,  # an offset that leads before the beginning
    RuntimeError,  # zipfile's word for encrypted entries
    NotImplementedError,  # and for uncommon ones
)
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})


@frozen_dataclass
class Limits:
    """How much an archive may hold; sizes in bytes, unpacked."""

    entries: int = 2_000
    file_bytes: int = 64 * 1024 * 1024
    total_bytes: int = 128 * 1024 * 1024


LIMITS = Limits()


def list_of_run(client: Client, run_id: int, *, name: str) -> tuple[Artifact, ...]:
    """The artifacts of one workflow run called `name`, newest first. Raises GitHubFailed."""
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
    """The artifact's zip, whose digest is right. Raises GitHubFailed."""
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
    """Download an artifact, `extract` what is called `names` and write it into the folder `into`;
    where each is.

    Raises GitHubFailed, and OSError of `into`.
    """
    paths: dict[str, Path] = {}
    for name, content in extract(download(client, artifact), names=names).items():
        paths[name] = into / name
        # a link that lies there already would be written through
        paths[name].unlink(missing_ok=True)
        with paths[name].open("xb") as file:
            file.write(content)
    return paths


def extract(archive: bytes, *, names: Collection[str], limits: Limits = LIMITS) -> dict[str, bytes]:
    """The contents of the files called `names`, plain names at the archive's root.

    Files that the archive does not have are missing in the result, others are not looked at.
    Whatever the archive says of paths, sizes and kinds is not believed. Raises
    GitHubFailed(MALFORMED or TOO_LARGE)."""
    name_set = frozenset(names)
    for name in name_set:
        if not _PLAIN_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a plain file name")
    contents: dict[str, bytes] = {}
    remaining_bytes = limits.total_bytes
    try:
        _check_count(archive, limits)
        with zipfile.ZipFile(io.BytesIO(archive)) as zip_file:
            for name, entry in _chosen(zip_file, name_set, limits).items():
                contents[name] = _unpacked(
                    zip_file, entry, most=min(remaining_bytes, limits.file_bytes)
                )
                remaining_bytes -= len(contents[name])
    except _UNREADABLE as error:
        raise _broken(f"it cannot be read ({error})") from None
    return contents


def _chosen(
    zip_file: zipfile.ZipFile, names: frozenset[str], limits: Limits
) -> dict[str, zipfile.ZipInfo]:
    entries = zip_file.infolist()
    if len(entries) > limits.entries:
        raise _too_large(f"{len(entries):,} entries")
    chosen: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        # `orig_filename`: zipfile cuts `filename` at a zero byte, and makes backslashes slashes
        # elsewhere.
        name = entry.orig_filename
        mode = entry.external_attr >> 16
        if name not in names:
            continue
        if name in chosen:
            raise _broken(f"`{name}` appears twice")
        if entry.is_dir() or stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise _broken(f"`{name}` is not a regular file")
        if entry.flag_bits & 0x1:
            raise _broken(f"`{name}` is encrypted")
        if entry.compress_type not in _METHODS:
            raise _broken(f"`{name}` uses an unsupported compression method")
        if entry.file_size > limits.file_bytes:
            raise _too_large(f"`{name}` has {entry.file_size:,} bytes")
        chosen[name] = entry
    return chosen


def _unpacked(zip_file: zipfile.ZipFile, entry: zipfile.ZipInfo, *, most: int) -> bytes:
    with zip_file.open(entry) as source:
        content = source.read(most + 1)
    if len(content) > most:
        raise _too_large(f"`{entry.orig_filename}` unpacks to more than {most:,} bytes")
    return content


def _check_count(archive: bytes, limits: Limits) -> None:
    """Look at the number of entries before zipfile reads them all."""
    at = archive.rfind(_END, max(0, len(archive) - _LONGEST_COMMENT))
    if at < 0 or len(archive) < at + 16:
        raise _broken("it is not a zip file, or it is truncated")
    entries, directory_bytes = struct.unpack_from("<HI", archive, at + 10)
    # A zip of more than 65,534 entries or 4 GB says so elsewhere, and is too large by then.
    if entries > limits.entries or directory_bytes > limits.entries * 1_024:
        raise _too_large(f"{entries:,} entries")


def _broken(reason: str) -> GitHubFailed:
    return GitHubFailed(GitHubFault.MALFORMED, f"the artifact's archive is not used: {reason}")


def _too_large(subject: str) -> GitHubFailed:
    return GitHubFailed(
        GitHubFault.TOO_LARGE, f"the artifact's archive is not used: {subject} exceeds the limit"
    )
