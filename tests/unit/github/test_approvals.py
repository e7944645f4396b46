"""A maintainer's word is on one commit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evalgate.github import approvals
from evalgate.github.approvals import Approved, NotApproved
from evalgate.github.events import EventContext, EventKind
from evalgate.github.pulls import PullRequest
from evalgate.github.replies import Approval

A, B = "a" * 40, "b" * 40
PULL = PullRequest(
    number=5,
    is_open=True,
    base_sha=B,
    base_ref="main",
    head_sha=A,
    head_ref="topic",
    head_repository="mallory/r",
    is_fork=True,
    draft=False,
    labels=("run-evals",),
)
LABELED = EventContext(
    kind=EventKind.PULL_REQUEST_TARGET,
    action="labeled",
    label="run-evals",
    number=5,
    head_sha=A,
    sender="boss",
    labels=("run-evals",),
)


def by_label(event=LABELED, pull=PULL, *, may_write=True):
    return approvals.by_label(event, pull, label="run-evals", may_write=may_write)


def test_putting_the_label_on_the_head_approves_that_commit() -> None:
    assert by_label() == Approved(sha=A, by="boss", means="label run-evals")


@pytest.mark.parametrize(
    ("event", "pull", "may_write", "told"),
    [
        ({"action": "synchronize", "label": ""}, {}, True, "later push"),  # the label stays, the word does not
        ({"action": "opened", "label": ""}, {}, True, "not added by this event"),
        ({"label": "docs"}, {}, True, "another label"),
        ({}, {"head_sha": B}, True, "push after"),  # pushed between the label and the run
        ({}, {"number": 6}, True, "push after"),
        ({}, {}, False, "may not write"),  # triage may label, but not decide
        ({"kind": EventKind.WORKFLOW_RUN}, {}, True, "not added by this event"),
    ],
)
def test_what_is_no_approval(event, pull, may_write, told) -> None:
    found = by_label(replace(LABELED, **event), replace(PULL, **pull), may_write=may_write)
    assert isinstance(found, NotApproved)
    assert told in found.reason


def said(state: str, environment: str) -> Approval:
    return Approval.model_validate({"state": state, "user": {"login": "boss"}, "environments": [{"name": environment}]})


@pytest.mark.parametrize(
    ("reviews", "run_sha", "approved"),
    [
        ([said("approved", "evals")], A, True),
        ([said("rejected", "evals"), said("approved", "evals")], A, True),
        ([said("rejected", "evals")], A, False),
        ([said("approved", "production")], A, False),
        ([], A, False),
        ([said("approved", "evals")], B, False),  # that was another commit
    ],
)
def test_an_environments_reviewers_approve_the_runs_commit(reviews, run_sha, approved) -> None:
    found = approvals.by_environment(reviews, PULL, environment="evals", run_sha=run_sha)
    assert isinstance(found, Approved) is approved
