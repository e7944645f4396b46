"""Which events may do what, and under which conditions a stranger's commit runs where secrets are."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from evalgate.errors import ConfigError
from evalgate.github.approvals import Approved
from evalgate.github.events import EventContext, EventKind
from evalgate.settings import Settings
from evalgate.wiring import events

SHA = "b" * 40
TARGET = EventContext(kind=EventKind.PULL_REQUEST_TARGET, name="pull_request_target", head_sha=SHA, number=5)
RUN = EventContext(kind=EventKind.WORKFLOW_RUN, name="workflow_run", trigger="pull_request", is_fork=True, head_sha=SHA)
PULL = EventContext(kind=EventKind.PULL_REQUEST, name="pull_request", head_sha=SHA, is_fork=True)
ALLOWED: dict[str, Any] = {"allow_pull_request_target": True}
APPROVED = Approved(sha=SHA, by="maintainer", means="label safe")


def checkout(folder: Path, *, head: str = SHA, config: str = "[core]\n") -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text(f"{head}\n")
    (folder / ".git" / "config").write_text(config)
    return folder


@pytest.mark.parametrize(
    ("event", "given", "approved", "words"),
    [
        (TARGET, {}, None, "pull_request_target is refused"),
        (TARGET, {"mode": "merge", "results": "parts"}, None, "pull_request_target is refused"),
        (TARGET, ALLOWED | {"env": "KEY"}, None, "`env` hands KEY"),
        (TARGET, ALLOWED, None, "judges are asked where"),
        (TARGET, ALLOWED | {"skip_judged": True, "save_baseline": "always"}, None, "nobody has approved"),
        (TARGET, ALLOWED | {"mode": "merge", "results": "x", "save_baseline": "always"}, None, "nobody has approved"),
        (TARGET, ALLOWED, dataclasses.replace(APPROVED, sha="c" * 40), "another commit is checked out"),
        (PULL, {"mode": "post"}, None, "works on workflow_run, not on pull_request"),
        (EventContext(kind=EventKind.NONE), {"mode": "post"}, None, "not on a local run"),
        (dataclasses.replace(RUN, trigger="push"), {"mode": "post"}, None, "was on push"),
        (RUN, {}, None, "no code of the fork may run here"),
        (PULL, {"mode": "merge"}, None, "needs `results`"),
        (PULL, {"mode": "merge", "results": "x", "shard": "1/2"}, None, "cannot be combined"),
    ],
)  # fmt: skip
def test_what_is_refused(
    event: EventContext, given: dict[str, Any], approved: Approved | None, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=words):
        events.check(event, Settings(**given), root=checkout(tmp_path), approved=approved)


@pytest.mark.parametrize(
    ("event", "given", "approved"),
    [
        (PULL, {"env": "KEY"}, None),  # GitHub gives such a run no secrets
        (TARGET, ALLOWED | {"skip_judged": True}, None),
        (TARGET, ALLOWED | {"env": "KEY"}, APPROVED),
        (TARGET, ALLOWED | {"mode": "merge", "results": "parts"}, None),  # runs nothing
        (RUN, {"mode": "post"}, None),
        (dataclasses.replace(RUN, is_fork=False), {}, None),
        (EventContext(kind=EventKind.PUSH), {}, None),
        (EventContext(kind=EventKind.NONE), {"shard": "1/2"}, None),
    ],
)
def test_what_is_let_pass(
    event: EventContext, given: dict[str, Any], approved: Approved | None, tmp_path: Path
) -> None:
    events.check(event, Settings(**given), root=checkout(tmp_path), approved=approved)


@pytest.mark.parametrize(
    "config",
    [
        '[http "https://github.com/"]\n\textraheader = AUTHORIZATION: basic x\n',
        '[includeIf "gitdir:/x/.git"]\n\tpath = /runner/_temp/credentials.config\n',  # newer versions of the checkout
    ],
)
def test_a_checkout_that_keeps_the_token_is_refused_even_when_approved(config: str, tmp_path: Path) -> None:
    root = checkout(tmp_path, config=config) / "agents" / "one"
    with pytest.raises(ConfigError, match="keeps the token"):
        events.check(TARGET, Settings(**ALLOWED), root=root, approved=APPROVED)


def test_a_branch_that_is_checked_out_is_no_approved_commit(tmp_path: Path) -> None:
    root = checkout(tmp_path, head="ref: refs/heads/topic")
    with pytest.raises(ConfigError, match="another commit is checked out"):
        events.check(TARGET, Settings(**ALLOWED), root=root, approved=APPROVED)


def test_evalgate_yml_cannot_allow_any_of_it() -> None:
    from evalgate.settings import doors_of

    allowing = ("allow_pull_request_target", "approve_label", "approve_environment")
    for name in ("mode", "results", "artifact", *allowing, "shard"):
        assert "file" not in doors_of(name), name


def test_who_may_have_models_asked() -> None:
    assert events.may_ask(PULL, None)
    assert events.may_ask(TARGET, APPROVED)
    assert not events.may_ask(TARGET, None)
