"""Where the reports of a workflow point at: the repository, the commit, the run, and the gate's folder in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evalgate.github.events import EventContext
from evalgate.model import Links


def links_of(environ: Mapping[str, str], event: EventContext) -> Links:
    """Of the run at hand. The head of a pull request is its own commit, not the merge that was checked out."""
    return _links(environ, commit=event.head_sha or environ.get("GITHUB_SHA", ""), run=environ.get("GITHUB_RUN_ID", ""))


def links_of_trigger(environ: Mapping[str, str], event: EventContext) -> Links:
    """Of the run that this one was started by: the pull request's commit, and what measured it."""
    return _links(environ, commit=event.head_sha, run=str(event.trigger_run_id or ""))


def folder_of(environ: Mapping[str, str]) -> str:
    """The input `root` as GitHub names files: from the top of its repository, "" where it is the top."""
    workspace = Path(environ.get("GITHUB_WORKSPACE") or ".").resolve()
    root = (workspace / (environ.get("INPUT_ROOT", "").strip() or ".")).resolve()
    within = [place for place in (root, *root.parents) if place.is_relative_to(workspace)]
    top = next((place for place in within if (place / ".git").exists()), workspace)
    return "" if root == top or not root.is_relative_to(top) else root.relative_to(top).as_posix()


def root_of(root: Path, links: Links) -> str | None:
    """Where a gate's folder lies in its repository, "" where it is the top; None where no repository is around it."""
    if links.repository:
        return links.folder
    root = root.resolve()
    top = next((place for place in (root, *root.parents) if (place / ".git").exists()), None)
    if top is None or root == top:
        return None if top is None else ""
    return root.relative_to(top).as_posix()


def _links(environ: Mapping[str, str], *, commit: str, run: str) -> Links:
    server, repository = environ.get("GITHUB_SERVER_URL", ""), environ.get("GITHUB_REPOSITORY", "")
    folder = folder_of(environ)
    if not server or not repository:
        return Links(commit=commit, folder=folder)
    address = f"{server}/{repository}"
    return Links(
        repository=address,
        commit=commit,
        workflow_run=f"{address}/actions/runs/{run}" if run else "",
        folder=folder,
    )
