"""Which events may do what, and what a stranger's commit needs to run where secrets are."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest
from builders import repositories

from evalgate.config import Door, names_with
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError
from evalgate.github import forks
from evalgate.github.events import EventContext, EventKind, FinishedRun, Head

SHA = "b" * 40
TARGET = EventContext(
    kind=EventKind.PULL_REQUEST_TARGET, name="pull_request_target", number=5, head=Head(sha=SHA)
)
RUN = EventContext(
    kind=EventKind.WORKFLOW_RUN,
    name="workflow_run",
    head=Head(is_fork=True, sha=SHA),
    run=FinishedRun(id=1, event="pull_request"),
)
PULL = EventContext(
    kind=EventKind.PULL_REQUEST, name="pull_request", head=Head(sha=SHA, is_fork=True)
)
DISPATCH = EventContext(
    kind=EventKind.WORKFLOW_DISPATCH, name="workflow_dispatch", number=5, head=Head(sha=SHA)
)


def checkout(folder: Path, *, head: str = SHA, config: str = "") -> Path:
    (folder / "agents" / "one").mkdir(parents=True)
    repositories.git(folder, "init", "--quiet")
    (folder / ".git" / "HEAD").write_text(f"{head}\n")
    with (folder / ".git" / "config").open("a") as file:
        file.write(config)
    return folder


@pytest.mark.parametrize(
    ("event", "given", "words"),
    [
        (TARGET, {}, "pull_request_target is refused"),
        (TARGET, {"mode": "merge", "results": "parts"}, "pull_request_target is refused"),
        (TARGET, {"mode": "post"}, "pull_request_target is refused"),
        (PULL, {"mode": "post"}, "works on workflow_run, not on pull_request"),
        (EventContext(kind=EventKind.NONE), {"mode": "post"}, "not on a local run"),
        (
            dataclasses.replace(RUN, run=FinishedRun(id=1, event="push")),
            {"mode": "post"},
            "was on push",
        ),
        (RUN, {}, "no code of the fork may run here"),
        (PULL, {"mode": "merge"}, "needs `results`"),
        (PULL, {"mode": "merge", "results": "x", "shard": "1/2"}, "cannot be combined"),
        (
            dataclasses.replace(DISPATCH, head=Head(sha="c" * 40)),
            {},
            "another commit is checked out",
        ),
    ],
)
def test_what_is_refused(
    event: EventContext, given: dict[str, Any], words: str, tmp_path: Path
) -> None:
    environ = {**os.environ, "GITHUB_EVENT_NAME": event.name}
    with pytest.raises(ConfigError, match=words):
        forks.check(event, Settings(**given), root=checkout(tmp_path), environ=environ)


@pytest.mark.parametrize(
    ("event", "given"),
    [
        (PULL, {"env": "KEY"}),  # GitHub gives such a run no secrets
        (DISPATCH, {"env": "KEY"}),
        (RUN, {"mode": "post"}),
        (dataclasses.replace(RUN, head=Head(sha=SHA, is_fork=False)), {}),
        (EventContext(kind=EventKind.PUSH), {}),
        (EventContext(kind=EventKind.WORKFLOW_DISPATCH, head=Head(sha="c" * 40)), {}),
        (EventContext(kind=EventKind.NONE), {"shard": "1/2"}),
    ],
)
def test_what_is_allowed(event: EventContext, given: dict[str, Any], tmp_path: Path) -> None:
    refused = []
    environ = {**os.environ, "GITHUB_EVENT_NAME": event.name}
    try:
        forks.check(event, Settings(**given), root=checkout(tmp_path), environ=environ)
    except ConfigError as error:
        refused.append(error.message)
    assert refused == []


@pytest.mark.parametrize(
    "config",
    [
        '[http "https://github.com/"]\n\textraheader = AUTHORIZATION: basic x\n',
        # newer versions of the checkout
        '[includeIf "gitdir:/x/.git"]\n\tpath = /runner/_temp/credentials.config\n',
    ],
)
def test_a_checkout_that_keeps_the_token_is_refused(config: str, tmp_path: Path) -> None:
    root = checkout(tmp_path, config=config) / "agents" / "one"
    with pytest.raises(ConfigError, match="keeps the token"):
        forks.check(DISPATCH, Settings(), root=root, environ=os.environ)


def test_a_branch_that_is_checked_out_is_not_the_reviewed_commit(tmp_path: Path) -> None:
    root = checkout(tmp_path / "branch", head="ref: refs/heads/topic")
    for place in (root, tmp_path):
        with pytest.raises(ConfigError, match="another commit is checked out"):
            forks.check(DISPATCH, Settings(), root=place, environ=os.environ)


def test_evalgate_yml_cannot_set_any_of_it() -> None:
    for name in ("mode", "results", "artifact", "shard"):
        assert name not in names_with(Settings, Door.FILE), name
