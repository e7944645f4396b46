"""Artifacts of workflow runs: found by name and commit, downloaded without showing the token to the storage."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from evalgate.github import archives, endpoints
from evalgate.github.archives import Limits
from evalgate.github.client import Client
from evalgate.github.failures import FailureKind, GitHubFailed
from evalgate.github.replies import Artifact as ArtifactReply

MOST_LISTED = 1_000
MOST_ZIP_BYTES = 64 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """An artifact of this repository. `from_fork`: a run of a fork's head made it, so its content is a stranger's.

    `digest`: of the zip, "" where GitHub does not say. `created_at` in ISO 8601.
    """

    id: int
    name: str
    size_bytes: int
    expired: bool
    from_fork: bool
    created_at: str = ""
    digest: str = ""
    run_id: int | None = None
    head_sha: str = ""
    head_branch: str = ""


def list_named(client: Client, name: str, *, most: int = MOST_LISTED) -> tuple[Artifact, ...]:
    """The repository's artifacts called `name`, newest first. Raises GitHubFailed."""
    query = {"name": name}
    found = client.fetch_all(endpoints.LIST_ARTIFACTS, ArtifactReply, query=query, under="artifacts", most=most)
    return _newest_first(found, name)


def list_of_run(client: Client, run_id: int, *, name: str = "") -> tuple[Artifact, ...]:
    """The artifacts of one workflow run, newest first; `name`: only those. Raises GitHubFailed."""
    query = {"name": name} if name else {}
    found = client.fetch_all(
        endpoints.LIST_RUN_ARTIFACTS, ArtifactReply, query=query, under="artifacts", most=MOST_LISTED, run_id=run_id
    )
    return _newest_first(found, name)


def find(client: Client, name: str, candidates: Sequence[str], *, branch: str = "") -> Artifact | None:
    """The newest artifact `name` of the first of the commits `candidates` that has one. Raises GitHubFailed.

    Expired ones are passed over, and those of forks: everybody can upload an artifact by opening a pull request.
    `branch`: only of runs on that branch of this repository.
    """
    return choose(list_named(client, name), candidates, branch=branch)


def choose(artifacts: Sequence[Artifact], candidates: Sequence[str], *, branch: str = "") -> Artifact | None:
    """`find` among artifacts that were listed already, newest first."""
    usable = [
        each
        for each in artifacts
        if not each.expired and not each.from_fork and (not branch or each.head_branch == branch)
    ]
    for sha in candidates:
        for each in usable:
            if each.head_sha == sha:
                return each
    return None


def download(client: Client, artifact: Artifact, to: Path, *, most_bytes: int = MOST_ZIP_BYTES) -> None:
    """Write the artifact's zip to the file `to`, and check its digest. Raises GitHubFailed, and OSError of `to`."""
    if artifact.size_bytes > most_bytes:
        message = f"the artifact {artifact.name} has {artifact.size_bytes:,} bytes, more than {most_bytes:,}"
        raise GitHubFailed(FailureKind.TOO_LARGE, message)
    with to.open("w+b") as file:
        client.download(
            endpoints.DOWNLOAD_ARTIFACT, file, most_bytes=most_bytes, artifact_id=artifact.id, archive_format="zip"
        )
    kind, _, said = artifact.digest.partition(":")
    if kind == "sha256" and said and said.lower() != _sha256(to):
        message = f"the artifact {artifact.name} did not arrive as GitHub keeps it: its digest differs"
        raise GitHubFailed(FailureKind.MALFORMED, message, hint="Run the job again.")


def fetch_files(
    client: Client, artifact: Artifact, *, into: Path, names: Collection[str], limits: Limits | None = None
) -> dict[str, Path]:
    """Download an artifact and write those of its files called `names` into the folder `into`.

    Raises GitHubFailed, and OSError of `into`.
    """
    archive = into / f".artifact-{artifact.id}.zip"
    try:
        download(client, artifact, archive)
        return archives.extract(archive, into=into, names=names, limits=limits)
    finally:
        archive.unlink(missing_ok=True)


def _newest_first(found: Sequence[ArtifactReply], name: str) -> tuple[Artifact, ...]:
    named = (_of(each) for each in found if not name or each.name == name)
    return tuple(sorted(named, key=lambda each: (each.created_at, each.id), reverse=True))


def _of(reply: ArtifactReply) -> Artifact:
    run = reply.workflow_run
    return Artifact(
        id=reply.id,
        name=reply.name,
        size_bytes=reply.size_in_bytes,
        expired=reply.expired,
        # Where GitHub does not say whose head it was, it counts as a stranger's.
        from_fork=run is None or run.repository_id is None or run.head_repository_id != run.repository_id,
        created_at=reply.created_at or "",
        digest=reply.digest or "",
        run_id=run.id if run else None,
        head_sha=(run.head_sha or "") if run else "",
        head_branch=(run.head_branch or "") if run else "",
    )


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
