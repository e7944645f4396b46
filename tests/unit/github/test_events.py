"""What a workflow's event says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from evalgate.errors import ConfigError
from evalgate.github import events
from evalgate.github.events import EventKind

A, B, ZEROS = "a" * 40, "b" * 40, "0" * 40
ENVIRON = {"GITHUB_REPOSITORY": "o/r", "GITHUB_SHA": "e" * 40}
REPOSITORY = {"full_name": "o/r", "default_branch": "main"}


def side(sha: str, ref: str, repo: str | None = "o/r") -> dict:
    return {"sha": sha, "ref": ref, "repo": {"full_name": repo} if repo else None}


def pull(**more) -> dict:
    found = {"number": 5, "base": side(A, "main"), "head": side(B, "topic")}
    return {"action": "synchronize", "pull_request": {**found, **more}, "repository": REPOSITORY}


def parse(name: str, payload) -> events.EventContext:
    return events.parse_event(name, payload, ENVIRON)


def test_a_pull_request() -> None:
    found = parse("pull_request", pull())
    assert found == events.EventContext(
        kind=EventKind.PULL_REQUEST,
        name="pull_request",
        repository="o/r",
        number=5,
        base_sha=A,
        head=events.Head(sha=B, ref="topic", repository="o/r", is_fork=False),
    )


@pytest.mark.parametrize(
    ("head", "is_fork"),
    [
        (side(B, "topic", "O/R"), False),  # GitHub's names ignore case
        (side(B, "topic", "mallory/r"), True),
        (side(B, "topic", None), True),  # a fork that was deleted
        ({"sha": B, "ref": "topic"}, True),  # what does not say counts as foreign
        ({"sha": B, "ref": "topic", "repo": {"full_name": 7}}, True),
    ],
)
def test_forks(head, is_fork) -> None:
    assert parse("pull_request", pull(head=head)).head.is_fork is is_fork
    assert parse("pull_request_target", pull(head=head)).head.is_fork is is_fork


@pytest.mark.parametrize(
    ("payload", "on_default", "before"),
    [
        ({"ref": "refs/heads/main", "before": A, "after": B}, True, A),
        ({"ref": "refs/heads/main", "before": ZEROS, "after": B}, True, ""),  # a new branch
        ({"ref": "refs/heads/topic", "before": A, "after": B}, False, A),
        # a tag called like the branch
        ({"ref": "refs/tags/main", "before": A, "after": B}, False, A),
        ({"ref": "refs/heads/main", "before": A, "after": ZEROS, "deleted": True}, False, A),
    ],
)
def test_a_push(payload, on_default, before) -> None:
    found = parse("push", {**payload, "repository": REPOSITORY})
    assert (found.on_default_branch, found.base_sha) == (on_default, before)
    assert found.head.sha == (B if payload["after"] == B else "")
    assert found.head.is_fork is None


def test_a_merge_group() -> None:
    group = {
        "base_sha": A,
        "head_sha": B,
        "base_ref": "refs/heads/main",
        "head_ref": "refs/heads/gh-readonly-queue/x",
    }
    found = parse("merge_group", {"action": "checks_requested", "merge_group": group})
    assert (found.base_sha, found.head.sha) == (A, B)
    assert found.head.ref == "gh-readonly-queue/x"


@pytest.mark.parametrize(
    ("run", "is_fork"),
    [
        ({"head_repository": {"full_name": "o/r"}}, False),
        ({"head_repository": {"full_name": "mallory/r"}}, True),
        ({"head_repository": None}, True),
    ],
)
def test_a_workflow_run(run, is_fork) -> None:
    whole = {
        "id": 7,
        "head_sha": B,
        "head_branch": "topic",
        "event": "pull_request",
        "conclusion": "success",
        **run,
    }
    found = parse(
        "workflow_run", {"action": "completed", "workflow_run": whole, "repository": REPOSITORY}
    )
    assert found.head.is_fork is is_fork
    assert found.run == events.FinishedRun(id=7, event="pull_request", conclusion="success")
    assert (found.head.sha, found.head.ref) == (B, "topic")


@pytest.mark.parametrize("name", ["schedule", "workflow_dispatch", "release", "issue_comment"])
def test_other_events_know_their_commit(name) -> None:
    found = parse(name, {"schedule": "0 3 * * *", "repository": REPOSITORY})
    assert (found.head.sha, found.name, found.repository, found.number) == (
        "e" * 40,
        name,
        "o/r",
        None,
    )
    assert found.kind is (
        EventKind.OTHER if name in ("release", "issue_comment") else EventKind(name)
    )
    assert found.on_default_branch is (name == "schedule")  # which runs nowhere else


def test_outside_github_there_is_no_event() -> None:
    assert events.parse_event("", {}, {}) == events.EventContext(kind=EventKind.NONE)


@pytest.mark.parametrize(
    ("name", "payload", "told"),
    [
        ("pull_request", {}, "pull_request.number"),
        ("pull_request", [], "pull_request.number"),
        ("pull_request", pull(number=True), "pull_request.number"),
        ("pull_request", pull(head=side("HEAD; rm -rf /", "x")), ".head.sha"),
        ("pull_request_target", pull(base=None), ".base.sha"),
        ("push", {"ref": "refs/heads/main", "after": "short"}, "after"),
        ("merge_group", {"merge_group": "x"}, "merge_group.base_sha"),
        ("workflow_run", {"workflow_run": {"head_sha": B}}, "workflow_run.id"),
    ],
)
def test_a_payload_that_lacks_what_is_needed_is_told(name, payload, told) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(name, payload)
    assert told in caught.value.message
    assert "GITHUB_EVENT_PATH" in caught.value.hint


KEYS = [
    *("pull_request", "base", "head", "repo", "sha", "ref", "number", "workflow_run", "id"),
    *(
        "merge_group",
        "pull_requests",
        "head_sha",
        "base_sha",
        "repository",
        "after",
        "full_name",
        "inputs",
        "pull-request",
    ),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner | st.just(A),
            max_size=6,
        )
    ),
    max_leaves=25,
)


@given(st.sampled_from([kind.value for kind in EventKind]), JSON)
def test_garbage_is_an_error_or_a_context_with_whole_shas(name, payload) -> None:
    try:
        found = parse(name, payload)
    except ConfigError:
        return
    for sha in (found.base_sha, found.head.sha):
        assert sha == "" or len(sha) == 40
    assert found.number is None or found.number > 0


def test_a_dispatch_that_names_a_pull_request_is_of_that_pull_request() -> None:
    found = parse(
        "workflow_dispatch",
        {"inputs": {"pull-request": " 12 ", "sha": B.upper()}, "repository": REPOSITORY},
    )
    assert (found.kind, found.number, found.head.sha) == (EventKind.WORKFLOW_DISPATCH, 12, B)
    assert (found.name, found.repository) == ("workflow_dispatch", "o/r")


@pytest.mark.parametrize(
    "inputs", [None, {}, {"sha": B}, {"pull-request": "", "sha": ""}, {"other": "12"}]
)
def test_a_dispatch_that_names_none_is_of_the_branch(inputs) -> None:
    found = parse("workflow_dispatch", {"inputs": inputs, "repository": REPOSITORY})
    assert (found.number, found.head.sha) == (None, "e" * 40)


@pytest.mark.parametrize(
    "inputs",
    [
        {"pull-request": "12"},
        {"pull-request": "12", "sha": "main"},
        {"pull-request": "12", "sha": B[:12]},
        {"pull-request": "12", "sha": ZEROS},
        {"pull-request": "../12", "sha": B},
        {"pull-request": "-1", "sha": B},
        {"pull-request": {"a": 1}, "sha": B},
    ],
)
def test_a_dispatch_that_names_half_is_refused(inputs) -> None:
    with pytest.raises(ConfigError, match="`pull-request` and `sha` must be"):
        parse("workflow_dispatch", {"inputs": inputs})


@pytest.mark.parametrize(
    ("name", "payload", "expected"),
    [
        ("", {}, False),  # a terminal
        ("push", {}, False),
        ("schedule", {}, False),
        ("pull_request", {}, True),
        ("pull_request_target", {}, True),
        ("merge_group", {}, True),
        ("workflow_dispatch", {"inputs": {}}, False),
        ("workflow_dispatch", {"inputs": {"pull-request": "7"}}, True),
        ("pull_request_review", {"pull_request": {"number": 7}}, True),
        ("pull_request_review_comment", {"pull_request": {"number": 7}}, True),
        ("pull_request_review", None, True),  # its name is enough
        # a comment that starts a run for a pull request, or for an issue
        ("issue_comment", {"issue": {"number": 7, "pull_request": {"url": "x"}}}, True),
        ("issue_comment", {"issue": {"number": 7}}, False),
        ("workflow_run", {"workflow_run": {"event": "pull_request"}}, True),
        ("workflow_run", {"workflow_run": {"event": "push"}}, False),
        ("workflow_run", None, False),  # a payload that cannot be read
    ],
)
def test_which_events_are_of_a_change_that_nobody_has_accepted(
    name: str, payload: dict[str, Any] | None, expected: bool, tmp_path: Path
) -> None:
    path = tmp_path / "event.json"
    path.write_text("{" if payload is None else json.dumps(payload), encoding="utf-8")
    environ = {"GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(path)}
    assert events.is_of_change(environ) is expected


UPLOADING = "steps:\n- uses: actions/upload-artifact@v4\n"


@pytest.mark.parametrize(
    ("ref", "text", "kept"),
    [
        ("o/r/.github/workflows/gate.yml@refs/heads/x", UPLOADING, True),
        (
            "o/r/.github/workflows/gate.yml@refs/heads/x",
            "steps:\n- uses: o/evalgate/gate@v1\n",
            True,
        ),
        # reports end with the job
        ("o/r/.github/workflows/gate.yml@refs/heads/x", "steps: []", False),
        # who knows
        (
            "o/r/.github/workflows/gate.yml@refs/heads/x",
            "uses: ./.github/workflows/other.yml",
            True,
        ),
        ("o/r/.github/workflows/other.yml@refs/heads/x", "steps: []", True),  # not in the checkout
        ("o/r/.github/workflows/../../x@y", "steps: []", True),
        ("", "steps: []", True),
    ],
)
def test_whether_reports_outlive_the_job(tmp_path: Path, ref: str, text: str, kept: bool) -> None:
    (tmp_path / ".github/workflows").mkdir(parents=True)
    (tmp_path / ".github/workflows/gate.yml").write_text(text)
    environ = {"GITHUB_WORKFLOW_REF": ref, "GITHUB_WORKSPACE": str(tmp_path)}
    assert events.links_of(environ, parse("pull_request", pull())).keeps_files is kept
