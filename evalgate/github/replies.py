"""What we read of GitHub's replies; everything else in them is passed over."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class User(_Reply):
    """An account: a person, or a bot, whose login ends in `[bot]`."""

    login: str
    type: str = ""


class Comment(_Reply):
    """A comment on an issue or a pull request; a deleted account is no user."""

    id: int
    html_url: str = ""
    body: str | None = None
    user: User | None = None


class Reaction(_Reply):
    """A reaction; `created_at` in ISO 8601."""

    id: int
    created_at: str


class CheckRun(_Reply):
    """A check run."""

    id: int
    html_url: str | None = None


class ArtifactRun(_Reply):
    """The workflow run that made an artifact."""

    id: int | None = None
    repository_id: int | None = None
    head_repository_id: int | None = None
    head_branch: str | None = None
    head_sha: str | None = None


class Artifact(_Reply):
    """An artifact; `digest` (`sha256:...`) is of its zip."""

    id: int
    name: str
    size_in_bytes: int
    expired: bool
    created_at: str | None = None
    digest: str | None = None
    workflow_run: ArtifactRun | None = None


class Repository(_Reply):
    """A repository."""

    full_name: str


class Side(_Reply):
    """Base or head of a pull request; the repository of a deleted fork is null."""

    ref: str
    sha: str
    repo: Repository | None = None


class Label(_Reply):
    """A label."""

    name: str


class Pull(_Reply):
    """A pull request."""

    number: int
    state: str
    base: Side
    head: Side
    draft: bool = False
    labels: tuple[Label, ...] = ()


class Environment(_Reply):
    """A deployment environment."""

    name: str


class Approval(_Reply):
    """Somebody's word on a workflow run that waited for an environment."""

    state: str
    user: User
    environments: tuple[Environment, ...] = ()


class Permission(_Reply):
    """What a person may do: admin, write, read or none; `role_name` is finer."""

    permission: str
    role_name: str = ""
