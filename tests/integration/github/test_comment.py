"""The one comment of a gate: found on any page, ours alone, updated in place, whatever happens
meanwhile."""

from __future__ import annotations

import pytest

from evalgate.github import comment
from evalgate.github.client import GitHubFailed, GitHubFault
from evalgate.github.comment import Job

pytestmark = pytest.mark.integration

BOT = "github-actions[bot]"


def text(headline: str = "**pass**", *, name: str = "", run: int = 7, attempt: int = 1) -> str:
    return comment.render(
        Job(name=name, run=run, attempt=attempt), headline=headline, details="all well"
    )


def post(client, written: str = "", *, name: str = "", **more) -> None:
    comment.post(client, 1, written or text(name=name), **more)


def ours(double) -> list[str]:
    return [
        each["body"]
        for each in double.state.comments.values()
        if each["body"].startswith("<!-- evalgate:")
    ]


def writes(double) -> list[str]:
    return double.calls(r"^(POST|PATCH|DELETE) .*/comments(/\d+)?$")


def test_it_is_created_once_then_updated_in_place(double, client, another) -> None:
    post(client)
    created = list(double.state.comments)
    post(another(), text("**fail**", run=8))
    assert list(double.state.comments) == created
    (body,) = ours(double)
    assert "**fail**" in body
    assert "**pass**" not in body


def test_the_same_job_says_more_as_it_goes_on(double, client) -> None:
    job = Job(run=7, attempt=1)
    for said in ("in progress", "done"):
        post(client, comment.render(job, headline=said))
    (body,) = ours(double)
    assert body.endswith("done")


def test_it_is_found_on_the_last_of_many_pages(double, client) -> None:
    for number in range(230):
        double.state.add_comment(1, f"chat {number}")
    double.state.add_comment(1, text("old", run=1), login=BOT)
    for number in range(40):
        double.state.add_comment(1, f"more chat {number}")
    post(client)
    assert len(ours(double)) == 1


@pytest.mark.parametrize(
    ("body", "login"),
    [
        (text(), "mallory"),  # somebody copies ours
        (text(), "dependabot[bot]"),  # another bot
        (f"> {text()}", BOT),  # another job of the same bot quotes us
        (f"\n{text()}", BOT),  # the marker has to be the very first
        (text(name="other"), BOT),  # another gate's comment
        ("<!-- evalgate:evalgate -->", BOT),  # nearly
    ],
    # a marker is never the same twice
    ids=["copied", "other-bot", "quoted", "not-first", "other-gate", "nearly"],
)
def test_a_comment_that_is_not_ours_is_left_alone(double, client, body, login) -> None:
    foreign = double.state.add_comment(1, body, login=login)
    post(client)
    assert double.state.comments[foreign]["body"] == body
    assert len(double.state.comments) == 2


def test_comments_of_other_pull_requests_are_not_looked_at(double, client) -> None:
    double.state.add_comment(2, text(), login=BOT)
    post(client)
    assert len(ours(double)) == 2


def test_each_name_has_a_comment_of_its_own(double, client, another) -> None:
    for name in ("", "travel", "weather"):
        post(client, name=name)
    post(another(), text("new", name="travel", run=8), name="travel")
    assert len(ours(double)) == 3


def test_two_jobs_of_a_run_under_one_name_are_told_to_take_two(double, client, another) -> None:
    post(client)
    before = ours(double)
    with pytest.raises(GitHubFailed, match="another job of this workflow run") as caught:
        post(another(), text("**fail**"))
    assert "`name`" in caught.value.hint
    assert ours(double) == before


def test_doubles_of_runs_that_began_at_once_are_removed(double, client) -> None:
    first = double.state.add_comment(1, text("old", run=5), login=BOT)
    double.state.add_comment(1, text("older", run=4), login=BOT)
    post(client)
    assert list(double.state.comments) == [first]
    assert "**pass**" in ours(double)[0]


@pytest.mark.parametrize("late", [{"run": 8}, {"run": 9, "attempt": 1}])
def test_an_older_run_does_not_overwrite_a_newer_one(double, client, late) -> None:
    post(client, text(run=9, attempt=2))
    before = ours(double)
    post(client, text("late", **late))
    assert ours(double) == before


def test_a_comment_that_only_is_to_be_updated_is_not_created(double, client) -> None:
    post(client, create=False)
    assert writes(double) == []
    post(client)
    post(client, text("other", run=8), create=False)
    assert "other" in ours(double)[0]


@pytest.mark.parametrize(
    "fault", [{"how": "reset"}, {"how": "cut"}, {"status": 500}, {"status": 502}]
)
def test_a_comment_whose_creation_went_unheard_is_found_again(double, client, fault) -> None:
    double.fail("POST .*/comments$", done=True, **fault)
    post(client)
    assert len(ours(double)) == 1


def test_an_app_whose_comments_go_unheard_has_one(double, another) -> None:
    """It learns its name by the comment; whoever never hears of it knows it by its job."""
    double.state.logins = {"ghs_app": "gatekeeper[bot]", **double.state.logins}
    old = double.state.add_comment(1, text("old", run=1), login="gatekeeper[bot]")
    double.fail("POST .*/comments$", done=True, how="reset", times=9)
    post(another(token="ghs_app"))
    assert list(double.state.comments) == [old]
    assert len(double.calls("POST")) == 1


def test_a_comment_that_is_removed_meanwhile_is_created_anew(double, client) -> None:
    gone = double.state.add_comment(1, text("old", run=1), login=BOT)
    double.fail(f"PATCH .*/comments/{gone}", status=404, body={"message": "Not Found"})
    original = double.state.handlers

    def remove_then_list(**values):
        double.state.comments.pop(gone, None) if double.calls("PATCH") else None
        return original[path](**values)

    path = ("GET", "/repos/{owner}/{repo}/issues/{issue_number}/comments")
    double.state.handlers = {**original, path: remove_then_list}
    post(client)
    assert len(ours(double)) == 1


def test_a_missing_permission_is_told_at_once(double, client) -> None:
    double.denied = "^(POST|PATCH|DELETE)"
    with pytest.raises(GitHubFailed) as caught:
        post(client)
    assert caught.value.kind is GitHubFault.FORBIDDEN
    assert "pull-requests: write" in caught.value.hint
    double.state.add_comment(1, text(run=1), login=BOT)
    with pytest.raises(GitHubFailed):
        post(client)
    assert len(double.calls("PATCH")) == 1


def test_a_locked_conversation_is_named(double, client) -> None:
    double.fail(
        "POST .*/comments",
        status=403,
        body={"message": "Unable to create comment because issue is locked."},
    )
    with pytest.raises(GitHubFailed) as caught:
        post(client)
    assert "locked" in caught.value.hint
    assert "permissions" not in caught.value.hint


def test_what_github_makes_of_our_words_is_not_written_again(double, client) -> None:
    original = double.state.handlers
    path = ("POST", "/repos/{owner}/{repo}/issues/{issue_number}/comments")

    def mangle(*, body, **values):
        return original[path](
            body={"body": body["body"].replace("all well", "all  well ")}, **values
        )

    double.state.handlers = {**original, path: mangle}
    post(client)
    assert len(writes(double)) == 1


# --- whose token ----------------------------------------------------------------------------------


def test_a_persons_token_is_asked_whose_it_is(double, another) -> None:
    double.state.add_comment(1, text(), login=BOT)
    post(another(token="github_pat_x"))
    assert double.state.comments[max(double.state.comments)]["user"]["login"] == "octocat"
    assert double.calls("/user") == ["GET /user"]
    post(another(token="github_pat_x"), text(run=8))
    assert len(ours(double)) == 2


def test_an_app_learns_its_name_by_its_own_comment(double, another) -> None:
    double.state.logins = {"ghs_app": "gatekeeper[bot]", **double.state.logins}
    post(another(token="ghs_app"))
    (old,) = double.state.comments
    post(another(token="ghs_app"), text("new", run=8))
    assert list(double.state.comments) == [old]  # what was created meanwhile is gone
    assert "new" in double.state.comments[old]["body"]
    post(another(token="ghs_app"), text("late", run=6))
    assert list(double.state.comments) == [old]
