"""Every call in the client's table is made here, by the functions that make it, under the description's eye."""

from __future__ import annotations

import pytest

from evalgate.github import approvals, artifacts, checks, comments, endpoints, pulls
from evalgate.github.checks import CheckRun, Conclusion, Output
from evalgate.github.layout import Section

pytestmark = pytest.mark.integration


def test_all_calls_are_judged_by_githubs_description(double, client, another, tmp_path) -> None:
    state = double.state
    mine = Section(key="a", title="a", headline="pass")
    for _ in range(2):
        state.add_comment(1, "<!-- evalgate:k:v1 [] -->", login="octocat")
    comments.post_section(another(token="ghp_person"), 1, mine, key="k")
    comments.post_section(client, 1, mine, key="k")

    output = Output(title="t", summary=["s"])
    check = checks.start(client, head_sha="b" * 40, output=output)
    assert isinstance(check, CheckRun)
    checks.complete(client, check, conclusion=Conclusion.SUCCESS, output=output)

    state.add_artifact("base", {"results.json": "{}"}, run_id=7)
    found = artifacts.find(client, "base", ["a" * 40])
    assert artifacts.list_of_run(client, 7) == (found,)
    artifacts.fetch_files(client, found, into=tmp_path, names=["results.json"])

    state.add_pull(1, fork="x/y", linked=False)
    pulls.fetch_pull(client, 1)
    pulls.find_by_head(client, "b" * 40, head_repository="x/y", head_ref="topic")
    state.roles["octocat"] = "write"
    approvals.fetch_may_write(client, "octocat")
    approvals.fetch_approvals(client, 7)

    made = {seen.call for seen in double.seen if 200 <= seen.status < 400}
    assert made == {(each.method, each.path) for each in endpoints.ENDPOINTS}


def test_the_table_holds_every_endpoint_there_is() -> None:
    named = {each for each in vars(endpoints).values() if isinstance(each, endpoints.Endpoint)}
    assert named == set(endpoints.ENDPOINTS)
    assert len(endpoints.ENDPOINTS) == len(set(endpoints.ENDPOINTS))


def test_a_judge_that_finds_nothing_would_be_no_judge(double) -> None:
    """What GitHub would refuse is found: a misspelt key, a wrong type, an unknown query, an answer of another shape."""
    path = "/repos/o/r/check-runs"
    body = b'{"name": "x", "head_sha": 3, "conclussion": "success", "output": {"title": "t", "sumary": "s"}}'
    sent = {"method": "POST", "target": f"{path}?force=1", "headers": {}, "body": body}
    found = "\n".join(double.description.judge(sent, {"status": 201, "headers": {}, "body": b'{"id": "1"}'}))
    for expected in ("query parameter force", ".conclussion", ".output.sumary", "3 is not of type", "answer 201"):
        assert expected in found
