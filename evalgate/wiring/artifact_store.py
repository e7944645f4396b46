"""Base results in artifacts of workflow runs: what `actions/upload-artifact` kept of a run on the base branch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from evalgate.baseline.store import Revise, Stored
from evalgate.errors import EvalgateError, UnavailableError
from evalgate.github import artifacts, client
from evalgate.github.artifacts import Artifact
from evalgate.github.client import Client
from evalgate.github.failures import GitHubFailed

RESULTS = "results.json"
TRIES = 3
"""Artifacts that are downloaded at most: the nearest ones may lack results."""


class ArtifactStore:
    """See `baseline.store.Store`; it is only read, since workflows upload artifacts themselves.

    Artifacts of forks' runs are never used: everybody can upload one by opening a pull request. `branch`: the base
    branch, "" for any.
    """

    def __init__(
        self, github: Client, artifact: str, *, branch: str, scratch: Path, warn: Callable[[str], None]
    ) -> None:
        self._github = github
        self._artifact = artifact
        self._branch = branch
        self._scratch = scratch
        self._warn = warn

    @property
    def name(self) -> str:
        """How people call it."""
        return f"artifact {self._artifact}"

    def find(self, candidates: Sequence[str]) -> Stored | None:
        """See Store. Raises UnavailableError."""
        try:
            left = list(artifacts.list_named(self._github, self._artifact))
        except GitHubFailed as failed:
            hint = failed.hint or "The job needs `permissions: actions: read`."
            raise UnavailableError(f"artifacts cannot be listed: {failed.message}", hint=hint) from failed
        for _ in range(TRIES):
            chosen = artifacts.choose(left, candidates, branch=self._branch)
            if chosen is None:
                return None
            path = self._fetch(chosen)
            if path is not None:
                sha = chosen.head_sha
                return Stored(commit=sha, saved_at=chosen.created_at, distance=list(candidates).index(sha), path=path)
            left.remove(chosen)
        return None

    def read(self, name: str) -> bytes | None:  # noqa: ARG002 - the shape of Store
        """There is nothing beside the runs."""
        return None

    def save(self, commit: str, results: Path, *, now: datetime, revise: Revise | None = None) -> None:
        """Nothing: the workflow uploads the report's folder."""

    def _fetch(self, artifact: Artifact) -> Path | None:
        into = self._scratch / f"artifact-{artifact.id}"
        try:
            into.mkdir(parents=True)
            path = artifacts.fetch_files(self._github, artifact, into=into, names={RESULTS}).get(RESULTS)
        except (GitHubFailed, OSError) as error:
            self._warn(f"the artifact of {artifact.head_sha[:7]} was not used: {error}")
            return None
        if path is None:
            self._warn(f"the artifact of {artifact.head_sha[:7]} was not used: it has no {RESULTS} at its top")
        return path


@contextlib.contextmanager
def opened(
    artifact: str, *, environ: Mapping[str, str], token: str | None, scratch: Path, say: Callable[[str], None]
) -> Iterator[ArtifactStore | None]:
    """The store; None, with a line, where GitHub cannot be asked: outside of a workflow, or without a token."""
    if not artifact:
        yield None
        return
    if not token or not environ.get("GITHUB_REPOSITORY"):
        lacking = "a token" if environ.get("GITHUB_REPOSITORY") else "GITHUB_REPOSITORY, which workflows have"
        say(f"`baseline-artifact` is not asked: that needs {lacking}")
        yield None
        return
    try:
        github = Client(client.connection_of(environ, token=token))
    except EvalgateError as error:
        say(f"`baseline-artifact` is not asked: {error.message}")
        yield None
        return
    branch = environ.get("GITHUB_BASE_REF", "")
    try:
        yield ArtifactStore(github, artifact, branch=branch, scratch=scratch, warn=say)
    finally:
        github.close()
