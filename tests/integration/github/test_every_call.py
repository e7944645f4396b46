"""Every call in the client's table is made here, by the functions that make it, under the
description's eye."""

from __future__ import annotations

import pytest

from evalgate.github import artifacts, check_run, client as github_client, comment, forks
from evalgate.github.check_run import Conclusion, Output
from evalgate.github.comment import Job
from evalgate.github.events import EventContext, EventKind, Head

pytestmark = pytest.mark.integration

EARLIER, HEAD = "a" * 40, "b" * 40


def test_all_calls_are_judged_by_githubs_description(double, client, another) -> None:
    state = double.state
    for run in (1, 2):
        text = comment.render(Job(run=run), headline="pass")
        state.add_comment(1, text, login="octocat")
    comment.post(another(token="ghp_person"), 1, comment.render(Job(run=3), headline="pass"))
    comment.post(client, 1, comment.render(Job(run=3), headline="pass"))

    output = Output(title="t", summary="s")
    check = check_run.start(client, head_sha=HEAD, output=output)
    check_run.complete(client, check, conclusion=Conclusion.SUCCESS, output=output)

    state.add_artifact("base", {"results.json": "{}"}, run_id=7)
    (found,) = artifacts.list_of_run(client, 7, name="base")
    artifacts.download(client, found)

    state.add_pull(1, fork="x/y", linked=False, earlier=[EARLIER])
    forks.resolve(
        EventContext(kind=EventKind.WORKFLOW_DISPATCH, number=1, head=Head(sha=EARLIER)), client
    )
    ended = EventContext(
        kind=EventKind.WORKFLOW_RUN, head=Head(sha=HEAD, repository="x/y", ref="topic")
    )
    forks.find_by_head(client, ended)

    made = {seen.call for seen in double.seen if 200 <= seen.status < 400}
    endpoints = [
        each for each in vars(github_client).values() if isinstance(each, github_client.Endpoint)
    ]
    assert made == {(each.method, each.path) for each in endpoints}
    assert len(endpoints) == len(set(endpoints)) == len(made)


def test_a_judge_that_finds_nothing_would_be_no_judge(double) -> None:
    """What GitHub would refuse is found: a misspelt key, a wrong type, an unknown query, an answer
    of another shape."""
    path = "/repos/o/r/check-runs"
    body = b'{"name": "x", "head_sha": 3, "conclussion": "success", "output": {"title": "t", "sumary": "s"}}'
    sent = {"method": "POST", "target": f"{path}?force=1", "headers": {}, "body": body}
    found = "\n".join(
        double.description.judge(sent, {"status": 201, "headers": {}, "body": b'{"id": "1"}'})
    )
    for expected in (
        "query parameter force",
        ".conclussion",
        ".output.sumary",
        "3 is not of type",
        "answer 201",
    ):
        assert expected in found
