"""Artifacts of a workflow run: downloaded without showing the token to the storage, and unpacked
only by expected names, whatever else the archive says."""

from __future__ import annotations

import hashlib
import io
import struct
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path

from evalgate.github import client as github_client
from evalgate.github.client import Artifact, ArtifactPage, Client, GitHubFailed, GitHubFault

MOST_ZIP_BYTES = 64 * 1024 * 1024
MOST_BYTES = 128 * 1024 * 1024
"""Of an archive, and of its files together, unpacked."""
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


def list_of_run(client: Client, run_id: int, *, name: str) -> list[Artifact]:
    """The artifacts of a workflow run with this `name`, one for each attempt at most, newest first.
    Raises GitHubFailed."""
    query = {"name": name, "per_page": str(github_client.PAGE_SIZE)}
    page = client.fetch(github_client.LIST_RUN_ARTIFACTS, ArtifactPage, query=query, run_id=run_id)
    artifacts = [artifact for artifact in page.artifacts if artifact.name == name]
    return sorted(artifacts, key=lambda artifact: artifact.created_at or "", reverse=True)


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
    """Download an artifact and write its files called `names` into the new folder `into`. Returns
    their paths; see `extract`.

    Raises GitHubFailed, and OSError of `into`."""
    contents = extract(download(client, artifact), names=names)
    for name, content in contents.items():
        (into / name).write_bytes(content)
    return {name: into / name for name in contents}


def extract(
    archive: bytes, *, names: Collection[str], most_bytes: int = MOST_BYTES
) -> dict[str, bytes]:
    """The contents of the files called `names`, plain names at the archive's root.

    Missing files are missing in the result, others are ignored. Paths, sizes and kinds in the
    archive are not trusted. Raises GitHubFailed(MALFORMED or TOO_LARGE)."""
    contents: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as zip_file:
            for entry in zip_file.infolist():
                # zipfile cuts `filename` at a zero byte, and turns backslashes into slashes
                name = entry.orig_filename
                if name not in names:
                    continue
                if name in contents:
                    raise _broken(f"`{name}` appears twice")
                if entry.compress_type not in _METHODS:
                    raise _broken(f"`{name}` uses an unsupported compression method")
                with zip_file.open(entry) as source:
                    contents[name] = source.read(most_bytes + 1)
                most_bytes -= len(contents[name])
                if most_bytes < 0:
                    message = (
                        "the artifact's files are too large: their unpacked size exceeds the limit"
                    )
                    raise GitHubFailed(GitHubFault.TOO_LARGE, message)
    except _UNREADABLE as error:
        raise _broken(f"it cannot be read, or is truncated ({error})") from None
    return contents


def _broken(reason: str) -> GitHubFailed:
    return GitHubFailed(GitHubFault.MALFORMED, f"the artifact's archive is not used: {reason}")
