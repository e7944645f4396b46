"""`mode: post`: what a fork's run claims, posted without believing any of it; a GitHub that judges
every request."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import cmarkgfm
import pytest
from builders import build
from builders.github_state import zipped
from cmarkgfm.cmark import Options

from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, EvalgateError, UnavailableError
from evalgate.gate import post as gate_post
from evalgate.github.client import GitHubFailed
from evalgate.github.comment import Job
from evalgate.github.events import EventContext, EventKind, FinishedRun, Head
from evalgate.model import Links
from evalgate.results import file

pytestmark = pytest.mark.integration

SHA = "b" * 40
RUN = 77
RUNS = itertools.count(100)
EVENT = EventContext(
    kind=EventKind.WORKFLOW_RUN,
    name="workflow_run",
    repository="o/r",
    head=Head(sha=SHA, ref="topic", repository="mallory/r", is_fork=True),
    run=FinishedRun(event="pull_request", id=RUN, conclusion="success"),
)
LINKS = Links(
    repository="https://github.com/o/r",
    commit=SHA,
    workflow_run=f"https://github.com/o/r/actions/runs/{RUN}",
)


class Nothing:
    def find_json(self, _: Any) -> None:
        return None

    def agents(self) -> dict[str, Any]:
        return {}


def written(words: str = "pass pass") -> str:
    report = build.report(words)
    run = dataclasses.replace(
        report.run, commit=SHA, workflow_run=f"o/r/actions/runs/{RUN}/attempts/1"
    )
    return "".join(file.render_results(dataclasses.replace(report, run=run), outcomes=Nothing()))


def changed(words: str = "pass pass", **more: Any) -> str:
    return json.dumps({**json.loads(written(words)), **more})


@pytest.fixture
def fork(double):
    """A fork's pull request 5, which only its branch leads to."""
    double.state.add_pull(5, fork="mallory/r", linked=False)
    return double


def upload(double, files: Any, **more: Any) -> None:
    content = files if isinstance(files, bytes | dict) else {"results.json": files}
    double.state.add_artifact("evalgate", content, **{"run_id": RUN, "head_sha": SHA, **more})


def post(
    client, tmp_path: Path, event: EventContext = EVENT, **given: Any
) -> gate_post.PostOutcome:
    choice = Settings(**given, root=tmp_path)
    job = Job(run=next(RUNS), address=LINKS.workflow_run)
    return gate_post.post(choice, event, client, job=job, links=LINKS)


def comments(double) -> list[dict[str, Any]]:
    return list(double.state.comments.values())


def test_a_claim_is_posted_as_one_and_cannot_turn_a_check_green(fork, client, tmp_path) -> None:
    upload(fork, written())
    posted = post(client, tmp_path)
    assert (posted.has_failed, posted.problems) == (False, ())
    (comment,) = comments(fork)
    assert comment["number"] == 5
    assert "They are unverified" in comment["body"]
    assert "All 2 cases passed" in comment["body"]
    (check,) = fork.state.checks.values()
    assert (check["name"], check["head_sha"]) == ("evalgate (fork, unverified)", SHA)
    assert (check["conclusion"], check["annotations"]) == ("neutral", [])
    assert check["output"]["title"].startswith("unverified: ")
    assert check["details_url"] == LINKS.workflow_run


def test_a_second_push_updates_the_same_comment(fork, client, tmp_path) -> None:
    upload(fork, written())
    post(client, tmp_path)
    upload(fork, written("pass fail"))
    post(client, tmp_path)
    (comment,) = comments(fork)
    assert "1 of 2 cases failed" in comment["body"]


def test_the_verdict_is_made_anew_from_the_grades(fork, client, tmp_path) -> None:
    lie = {"kind": "pass", "reason": "Trust me, @maintainer.", "exit_code": 0, "gates": []}
    upload(fork, changed("fail pass", verdict=lie))
    posted = post(client, tmp_path)
    assert posted.report is not None
    assert posted.report.verdict.kind == "fail"
    (check,) = fork.state.checks.values()
    assert check["conclusion"] == "failure"
    assert "Trust me" not in comments(fork)[0]["body"]


def test_the_policy_is_ours(fork, client, tmp_path) -> None:
    upload(fork, written("fail pass pass"))
    posted = post(client, tmp_path, pass_rate=0.5)
    assert posted.report is not None
    assert posted.report.verdict.kind == "pass"


def test_a_pull_request_of_the_repository_itself_is_no_claim(double, client, tmp_path) -> None:
    double.state.add_pull(5)
    upload(double, written())
    post(client, tmp_path)
    assert "unverified" not in comments(double)[0]["body"]
    (check,) = double.state.checks.values()
    assert (check["name"], check["conclusion"]) == ("evalgate", "success")


def test_nothing_of_the_artifact_says_where_it_is_posted(fork, client, tmp_path) -> None:
    fork.state.add_pull(1, head_sha="d" * 40)
    upload(fork, {"results.json": changed(commit="d" * 40)})
    with pytest.raises(
        ConfigError, match="is of dddddddddddd, this workflow run is of bbbbbbbbbbbb"
    ):
        post(client, tmp_path)
    assert comments(fork) == []
    upload(fork, {"results.json": written(), "pr-number.txt": "1", "NR": "1"})
    post(client, tmp_path)
    assert [comment["number"] for comment in comments(fork)] == [5]
    assert {check["head_sha"] for check in fork.state.checks.values()} == {SHA}


def test_markers_mentions_and_markup_are_text(fork, client, tmp_path) -> None:
    hostile = '<!-- evalgate:evalgate:v1 [["x"]] -->\n@octocat #1 <img src=x> ![](https://evil.example) ```\n|a|'
    raw = json.loads(written("fail pass"))
    raw["suites"][0]["suite"] = f"{hostile}.json"
    for case in raw["suites"][0]["cases"]:
        case["case_id"] = f"{hostile} {case['case_id']}"
    upload(fork, json.dumps(raw))
    post(client, tmp_path)
    post(client, tmp_path)
    (comment,) = comments(fork)
    body = comment["body"]
    assert body.count("<!-- evalgate:") == 1
    assert body.startswith("<!-- evalgate:evalgate:v1 ")
    html = cmarkgfm.github_flavored_markdown_to_html(
        body.partition("-->")[2], Options.CMARK_OPT_UNSAFE
    )
    assert "<img" not in html
    assert all(
        address.startswith("https://github.com/o/r/")
        for address in re.findall(r'href="([^"]*)"', html)
    )
    assert "@octocat" not in re.sub(r"<(code|pre)\b.*?</\1>", "", html, flags=re.DOTALL)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"run": FinishedRun(id=RUN, conclusion="skipped")}, "it was skipped"),
        # nobody let the fork's run begin
        ({"run": FinishedRun(id=RUN, conclusion="action_required")}, "it was action required"),
        ({"head": Head(sha="e" * 40)}, "it was closed or updated"),
    ],
)
def test_where_there_is_nothing_to_post_it_says_so(
    fork, client, tmp_path, change, why: str
) -> None:
    upload(fork, written())
    event = dataclasses.replace(EVENT, **change)
    posted = post(client, tmp_path, event)
    assert posted.report is None
    assert why in posted.reason
    assert comments(fork) == []


def test_a_run_of_another_repository_and_a_run_without_a_name_are_refused(
    fork, client, tmp_path
) -> None:
    for change in ({"repository": "evil/r"}, {"run": None}, {"head": Head()}):
        event = dataclasses.replace(EVENT, **change)
        with pytest.raises(ConfigError):
            post(client, tmp_path, event)
    assert fork.seen == []


def test_several_pull_requests_with_one_head_are_refused(fork, client, tmp_path) -> None:
    fork.state.add_pull(6, fork="mallory/r", linked=False)
    upload(fork, written())
    with pytest.raises(UnavailableError, match="#5, #6"):
        post(client, tmp_path)


def bomb() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("results.json", b" " * (80 * 1024 * 1024))
    return held.getvalue()


def slip() -> bytes:
    return zipped(
        {
            "../results.json": written(),
            "/results.json": written(),
            "a/../../results.json": written(),
        }
    )


@pytest.mark.parametrize(
    "made",
    [
        bomb,  # takes a second to make, which whoever collects tests need not wait for
        slip(),  # nothing called results.json at its root
        b"PK no zip",
        {"results.json": "[" * 100_000},
        {"results.json": "{}"},
        {"results.json": changed(schema_version=1)},
        {"results.json": changed(repeats=10**9)},
        {"results.json": changed(number=1, pull_request=1)},
        {"results.json": changed(models=["x" * 2_000_000])},
        {"results.json": json.dumps({"a": ["x"] * 100})},
        {"other.json": written()},
    ],
    ids=[
        "bomb",
        "slip",
        "no zip",
        "deep",
        "empty",
        "old",
        "repeats",
        "unknown keys",
        "long",
        "foreign",
        "missing",
    ],
)
def test_hostile_artifacts_are_refused_and_nothing_is_posted(fork, client, tmp_path, made) -> None:
    upload(fork, made() if callable(made) else made)
    before = set(tmp_path.rglob("*"))
    with pytest.raises(EvalgateError):
        post(client, tmp_path)
    assert comments(fork) == []
    assert not fork.state.checks
    assert set(tmp_path.rglob("*")) == before


def test_an_artifact_that_is_missing_expired_or_of_another_commit_is_refused(
    fork, client, tmp_path
) -> None:
    with pytest.raises(UnavailableError, match="no artifact"):
        post(client, tmp_path)
    upload(fork, written(), expired=True)
    with pytest.raises(UnavailableError, match="no artifact"):
        post(client, tmp_path)
    upload(fork, written(), head_sha="e" * 40)
    with pytest.raises(ConfigError, match="the artifact is from commit eeeeeee"):
        post(client, tmp_path)


def test_what_cannot_be_posted_is_told(fork, client, tmp_path) -> None:
    upload(fork, written())
    fork.denied = "/check-runs"
    posted = post(client, tmp_path)
    assert not posted.has_failed
    assert [problem.code for problem in posted.problems] == ["not-posted"]
    assert len(comments(fork)) == 1


def test_a_hidden_artifact_is_a_failure_with_the_missing_permission(fork, client, tmp_path) -> None:
    fork.denied = "/artifacts"
    with pytest.raises(GitHubFailed) as caught:
        post(client, tmp_path)
    assert "actions: read" in caught.value.hint
