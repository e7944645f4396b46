"""Artifacts of a workflow run: downloaded without showing the token to the storage, and unpacked
only by expected names, whatever else the archive says."""

from __future__ import annotations

import hashlib
import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Collection

from . import client as github_client
from .client import Artifact, ArtifactPage, Client, GitHubFailed, GitHubFault

MOST_ZIP_BYTES = 64 * 1024 * 1024
"""Of an archive, as GitHub reports it and as it is downloaded."""
MOST_FILE_BYTES = 64 * 1024 * 1024
"""Of one file, unpacked: the sizes that an archive names are not trusted."""
MOST_BYTES = 128 * 1024 * 1024
"""Of all extracted files together, unpacked."""
MOST_ENTRIES = 2_000
"""Of an archive: zipfile reads the whole directory before it returns one entry."""
_DIRECTORY_END = b"PK\x05\x06"
"""The beginning of a zip's last record, which has the number of entries and the size of their
directory from byte 10 on."""
_LONGEST_END = 65_557
"""The most bytes of that record, with its comment."""
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
"""What zipfile raises for damaged or forged archives."""
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""The compression methods that actions/upload-artifact uses; all others are refused."""


def list_of_run(client: Client, run_id: int, *, name: str) -> list[Artifact]:
    """The artifacts of a workflow run with this `name`, one for each attempt at most, newest first.
    Raises GitHubFailed."""
    query = {"name": name, "per_page": str(github_client.PAGE_SIZE)}
    page = client.call(github_client.LIST_RUN_ARTIFACTS, ArtifactPage, query=query, run_id=run_id)
    artifacts = [artifact for artifact in page.artifacts if artifact.name == name]
    return sorted(artifacts, key=lambda artifact: artifact.created_at or "", reverse=True)


def download(client: Client, artifact: Artifact) -> bytes:
    """The artifact's zip, with a verified digest. Raises GitHubFailed."""
    if artifact.size_in_bytes > MOST_ZIP_BYTES:
        message = f"the artifact {artifact.name} has {artifact.size_in_bytes:,} bytes, more than {MOST_ZIP_BYTES:,}"
        raise GitHubFailed(GitHubFault.TOO_LARGE, message)
    content = client.download(
        github_client.DOWNLOAD_ARTIFACT,
        most_bytes=MOST_ZIP_BYTES,
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


def extract(archive: bytes, *, names: Collection[str]) -> dict[str, bytes]:
    """The contents of the files called `names`, plain names at the archive's root.

    Missing files are missing in the result, others are ignored. Paths, sizes and kinds in the
    archive are not trusted. Raises GitHubFailed(MALFORMED or TOO_LARGE)."""
    contents: dict[str, bytes] = {}
    remaining_bytes = MOST_BYTES
    _check_count(archive)
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as zip_file:
            for entry in zip_file.infolist():
                # zipfile cuts `filename` at a zero byte, and turns backslashes into slashes
                name = entry.orig_filename
                if name not in names:
                    continue
                if name in contents:
                    raise _unusable(f"`{name}` appears twice")
                if entry.compress_type not in _METHODS:
                    raise _unusable(f"`{name}` uses an unsupported compression method")
                if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
                    raise _unusable(f"`{name}` is not a regular file")
                with zip_file.open(entry) as source:
                    contents[name] = source.read(min(remaining_bytes, MOST_FILE_BYTES) + 1)
                remaining_bytes -= len(contents[name])
                if remaining_bytes < 0 or len(contents[name]) > MOST_FILE_BYTES:
                    raise _unusable(f"`{name}` is too large, unpacked", GitHubFault.TOO_LARGE)
    except _UNREADABLE as error:
        raise _unusable(f"it cannot be read ({error})") from None
    return contents


def _check_count(archive: bytes) -> None:
    """Refuse too many entries before zipfile reads all of them. Raises GitHubFailed."""
    position = archive.rfind(_DIRECTORY_END, max(0, len(archive) - _LONGEST_END))
    if position < 0 or len(archive) < position + 16:
        raise _unusable("it is not a zip file, or it is truncated")
    entries, directory_bytes = struct.unpack_from("<HI", archive, position + 10)
    # a zip of more than 65,534 entries or 4 GB has the count elsewhere, and is too large anyway; so
    # is a directory with more than 1 KB per entry
    if entries > MOST_ENTRIES or directory_bytes > MOST_ENTRIES * 1_024:
        raise _unusable(f"it has too many entries ({entries:,})", GitHubFault.TOO_LARGE)


def _unusable(reason: str, kind: GitHubFault = GitHubFault.MALFORMED) -> GitHubFailed:
    """The error for an archive whose content is refused; `reason` ends its message."""
    return GitHubFailed(kind, f"the artifact's archive is not used: {reason}")
