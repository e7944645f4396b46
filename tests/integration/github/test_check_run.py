"""The check run: in progress, ended, with its annotations, or not permitted."""

from __future__ import annotations

import pytest

from evalgate.errors import Severity
from evalgate.github import check_run
from evalgate.github.check_run import Conclusion, Output
from evalgate.github.client import CheckRun, GitHubFailed, GitHubFault
from evalgate.reports.annotations import Remark

pytestmark = pytest.mark.integration

SHA = "b" * 40
OUTPUT = Output(title="2 of 40 cases failed", summary="**fail**", text="| case |")


def remark(
    line: int | None, message: str, *, title: str = "", level: Severity = Severity.ERROR
) -> Remark:
    return Remark(level=level, file="a/x.evalset.json", line=line, title=title, message=message)


def annotations(count: int) -> list[Remark]:
    return [remark(each + 1, f"case {each}") for each in range(count)]


def begun(client) -> CheckRun:
    return check_run.start(client, head_sha=SHA, output=OUTPUT, details_url="https://x.example/run")


def only(double) -> dict:
    (found,) = double.state.checks.values()
    return found


def test_it_runs_then_ends(double, client) -> None:
    check = begun(client)
    assert (only(double)["status"], only(double)["head_sha"]) == ("in_progress", SHA)
    check_run.update(client, check, Output(title="40/120", summary="in progress"))
    assert only(double)["output"]["title"] == "40/120"
    check_run.complete(
        client, check, conclusion=Conclusion.FAILURE, output=OUTPUT, annotations=annotations(1)
    )
    ended = only(double)
    assert (ended["status"], ended["conclusion"]) == ("completed", "failure")
    assert ended["annotations"][0]["path"] == "a/x.evalset.json"
    assert ended["completed_at"] is not None


@pytest.mark.parametrize("conclusion", list(Conclusion))
def test_every_conclusion_is_one_of_githubs(double, client, conclusion) -> None:
    check_run.complete(client, begun(client), conclusion=conclusion, output=OUTPUT)
    assert only(double)["conclusion"] == conclusion.value


def test_annotations_go_out_fifty_by_fifty_the_most_important_with_the_verdict(
    double, client
) -> None:
    check_run.complete(
        client,
        begun(client),
        conclusion=Conclusion.FAILURE,
        output=OUTPUT,
        annotations=annotations(120),
    )
    sent = [seen.json for seen in double.seen if seen.method == "PATCH"]
    assert [len(body["output"]["annotations"]) for body in sent] == [50, 50, 20]
    assert [body.get("conclusion") for body in sent] == ["failure", None, None]
    assert [row["message"] for row in only(double)["annotations"]] == [
        f"case {each}" for each in range(120)
    ]


def test_far_too_many_annotations_are_left_out(double, client) -> None:
    check_run.complete(
        client,
        begun(client),
        conclusion=Conclusion.FAILURE,
        output=OUTPUT,
        annotations=annotations(700),
    )
    assert len(only(double)["annotations"]) == 500


def test_the_verdict_stands_when_github_refuses_the_annotations(double, client) -> None:
    check = begun(client)
    double.fail("PATCH .*/check-runs", status=422, body={"message": "Validation Failed"})
    check_run.complete(
        client, check, conclusion=Conclusion.FAILURE, output=OUTPUT, annotations=annotations(3)
    )
    assert only(double)["conclusion"] == "failure"


def test_the_verdict_stands_when_later_annotations_fail(double, client) -> None:
    check = begun(client)
    original = double.state.handlers[("PATCH", "/repos/{owner}/{repo}/check-runs/{check_run_id}")]

    def fail_the_rest(**values):
        double.fail("PATCH .*/check-runs", status=500, times=99)
        return original(**values)

    double.state.handlers[("PATCH", "/repos/{owner}/{repo}/check-runs/{check_run_id}")] = (
        fail_the_rest
    )
    check_run.complete(
        client, check, conclusion=Conclusion.FAILURE, output=OUTPUT, annotations=annotations(120)
    )
    assert only(double)["conclusion"] == "failure"


@pytest.mark.parametrize("status", [403, 404])
def test_a_missing_permission_is_told(double, client, status) -> None:
    double.fail(
        "POST .*/check-runs",
        status=status,
        body={"message": "Resource not accessible by integration"},
    )
    with pytest.raises(GitHubFailed) as caught:
        begun(client)
    assert caught.value.not_permitted
    assert "checks: write" in caught.value.hint
    assert "create the check run" in caught.value.message


@pytest.mark.parametrize(
    ("status", "kind"), [(401, GitHubFault.UNAUTHORIZED), (422, GitHubFault.INVALID)]
)
def test_other_failures_are_failures(double, client, status, kind) -> None:
    double.fail("POST .*/check-runs", status=status)
    with pytest.raises(GitHubFailed) as caught:
        check_run.start(client, head_sha=SHA, output=OUTPUT)
    assert caught.value.kind is kind


def test_texts_of_any_size_and_kind_are_sent_within_the_limits(double, client) -> None:
    """The double refuses what GitHub's description does: 65,535 at most."""
    large = Output(title="t" * 900, summary="**must**\n" + "한" * 30_000, text="x\n" * 80_000)
    rows = [
        remark(3, "\x1b[31m" + "m" * 90_000, title="t" * 900),
        remark(None, ""),
        remark(1, "\ud800", level=Severity.WARNING),
    ]
    check_run.complete(
        client, begun(client), conclusion=Conclusion.FAILURE, output=large, annotations=rows
    )
    output = only(double)["output"]
    assert all(len(output[name].encode()) <= 65_535 for name in ("summary", "text"))
    assert output["summary"].startswith("**must**")
    assert "The rest was left out because of GitHub's size limit" in output["summary"]
    assert [row["annotation_level"] for row in only(double)["annotations"]] == [
        "failure",
        "failure",
        "warning",
    ]
