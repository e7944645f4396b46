"""The one comment: found on any page, ours alone, updated in place, shared by jobs, whatever happens meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evalgate.github import claim, comments, layout
from evalgate.github.comments import Writing
from evalgate.github.failures import FailureKind, GitHubFailed
from evalgate.github.layout import Section

pytestmark = pytest.mark.integration

KEY = "evals"
MINE = Section(key="job-a", title="Job A", headline="**pass**", details="all well", run=7, revision="a" * 40)
OTHERS = Section(key="job-b", title="Job B", headline="**fail**", details="one broke", run=7, revision="a" * 40)
BOT = "github-actions[bot]"


def post(client, section=MINE, **more) -> comments.Posted:
    return comments.post_section(client, 1, section, key=KEY, **more)


def ours(double) -> list[str]:
    marker = layout.marker_of(KEY)
    return [
        each["body"]
        for each in double.state.comments.values()
        if each["body"].startswith(marker) and each["user"]["login"] == BOT
    ]


def rendered(*sections: Section) -> str:
    together: tuple[Section, ...] = ()
    for section in sections:
        together = layout.put(together, section) or ()
    return layout.render(together, KEY)


def writes(double) -> list[str]:
    return double.calls(r"^(POST|PATCH|DELETE) .*/comments(/\d+)?$")


def test_it_is_created_once_then_updated_in_place(double, client, another) -> None:
    created = post(client)
    assert created.writing is Writing.CREATED
    assert created.url.endswith(f"#issuecomment-{created.comment_id}")
    later = post(another(), replace(MINE, headline="**fail**", run=8))
    assert (later.writing, later.comment_id) == (Writing.UPDATED, created.comment_id)
    assert len(double.state.comments) == 1
    assert "**fail**" in ours(double)[0]
    assert "**pass**" not in ours(double)[0]
    assert double.state.reactions == {}  # the claim was given back


def test_what_stands_there_is_not_written_again(double, client, another) -> None:
    post(client)
    before = len(writes(double))
    assert post(another()).writing is Writing.UNCHANGED
    assert len(writes(double)) == before
    assert len(double.calls("reactions")) == 0


def test_it_is_found_on_the_last_of_many_pages(double, client) -> None:
    for number in range(230):
        double.state.add_comment(1, f"chat {number}")
    double.state.add_comment(1, rendered(replace(MINE, headline="old", run=1)), login=BOT)
    for number in range(40):
        double.state.add_comment(1, f"more chat {number}")
    assert post(client).writing is Writing.UPDATED
    assert len(ours(double)) == 1


@pytest.mark.parametrize(
    ("body", "login"),
    [
        (rendered(MINE), "mallory"),  # somebody copies ours
        (rendered(MINE), "dependabot[bot]"),  # another bot
        (f"> {rendered(MINE)}", BOT),  # another job of the same bot quotes us
        (f"\n{rendered(MINE)}", BOT),  # the marker has to be the very first
        (layout.render([], "other-key"), BOT),  # another gate's comment
        ("<!-- evalgate:evals -->", BOT),  # nearly
    ],
)
def test_a_comment_that_is_not_ours_is_left_alone(double, client, body, login) -> None:
    foreign = double.state.add_comment(1, body, login=login)
    assert post(client).writing is Writing.CREATED
    assert double.state.comments[foreign]["body"] == body
    assert len(double.state.comments) == 2


def test_comments_of_other_pull_requests_are_not_looked_at(double, client) -> None:
    double.state.add_comment(2, rendered(MINE), login=BOT)
    assert post(client).writing is Writing.CREATED


def test_a_second_job_has_its_section_beside_the_first(double, client, another) -> None:
    post(client)
    post(another(), OTHERS)
    body = ours(double)[0]
    assert body.index("### Job A") < body.index("all well") < body.index("### Job B") < body.index("one broke")
    assert [each.key for each in layout.parse(body, KEY)] == ["job-a", "job-b"]


def test_doubles_are_merged_into_the_oldest_and_removed(double, client) -> None:
    first = double.state.add_comment(1, rendered(replace(OTHERS, headline="old", run=6)), login=BOT)
    double.state.add_comment(1, rendered(OTHERS), login=BOT)
    double.state.add_comment(1, rendered(replace(MINE, headline="older", run=5)), login=BOT)
    assert post(client).comment_id == first
    assert list(double.state.comments) == [first]
    found = layout.parse(ours(double)[0], KEY)
    assert [(each.key, each.headline, each.run) for each in found] == [
        ("job-a", "**pass**", 7),
        ("job-b", "**fail**", 7),
    ]


def test_an_older_run_does_not_overwrite_a_newer_one(double, client) -> None:
    post(client, replace(MINE, run=9))
    before = ours(double)
    assert post(client, replace(MINE, run=8, headline="late")).writing is Writing.SUPERSEDED
    assert ours(double) == before


def test_a_comment_that_only_is_to_be_updated_is_not_created(double, client) -> None:
    assert post(client, create=False).writing is Writing.ABSENT
    assert writes(double) == []
    post(client)
    assert post(client, replace(MINE, headline="other"), create=False).writing is Writing.UPDATED


@pytest.mark.parametrize("how", ["reset", "cut"])
def test_a_comment_whose_creation_went_unheard_is_found_again(double, client, how) -> None:
    double.fail("POST .*/comments$", how=how, done=True)
    assert post(client).comment_id in double.state.comments
    assert len(ours(double)) == 1


def test_a_comment_that_is_removed_meanwhile_is_created_anew(double, client) -> None:
    gone = double.state.add_comment(1, rendered(OTHERS), login=BOT)
    double.fail(f"PATCH .*/comments/{gone}", status=404, body={"message": "Not Found"})
    original = double.state.handlers

    def remove_then_list(**values):
        double.state.comments.pop(gone, None) if double.calls("PATCH") else None
        return original[path](**values)

    path = ("GET", "/repos/{owner}/{repo}/issues/{issue_number}/comments")
    double.state.handlers = {**original, path: remove_then_list}
    assert post(client).writing is Writing.CREATED
    assert len(ours(double)) == 1


def test_a_missing_permission_is_told_at_once(double, client) -> None:
    double.denied = "^(POST|PATCH|DELETE)"
    with pytest.raises(GitHubFailed) as caught:
        post(client)
    assert caught.value.kind is FailureKind.FORBIDDEN
    assert "pull-requests: write" in caught.value.hint
    double.state.add_comment(1, rendered(OTHERS), login=BOT)
    with pytest.raises(GitHubFailed):
        post(client)
    assert len(double.calls("PATCH")) == 1


def test_what_github_makes_of_our_words_counts_as_them(double, client) -> None:
    original = double.state.handlers
    path = ("POST", "/repos/{owner}/{repo}/issues/{issue_number}/comments")

    def mangle(*, body, **values):
        return original[path](body={"body": body["body"].replace("all well", "all  well ")}, **values)

    double.state.handlers = {**original, path: mangle}
    assert post(client).writing is Writing.CREATED
    assert len(writes(double)) == 1  # and not again and again


def test_a_comment_edited_in_a_browser_comes_back_with_other_line_ends(double, client) -> None:
    body = rendered(replace(MINE, details="one\n\ntwo"), OTHERS).replace("\n", "\r\n")
    double.state.add_comment(1, body, login=BOT)
    post(client, replace(MINE, headline="new"))
    assert [each.key for each in layout.parse(ours(double)[0], KEY)] == ["job-a", "job-b"]


# --- whose token ----------------------------------------------------------------------------------------


def test_a_persons_token_is_asked_whose_it_is(double, another) -> None:
    double.state.add_comment(1, rendered(MINE), login=BOT)
    posted = post(another(token="github_pat_x"))
    assert double.state.comments[posted.comment_id]["user"]["login"] == "octocat"
    assert double.calls("/user") == ["GET /user"]
    assert post(another(token="github_pat_x")).writing is Writing.UNCHANGED


def test_an_app_learns_its_name_by_its_own_comment(double, another) -> None:
    double.state.logins = {"ghs_app": "gatekeeper[bot]", **double.state.logins}
    app = {"token": "ghs_app"}
    old = post(another(**app)).comment_id
    post(another(**app), replace(MINE, headline="new", run=8))
    assert list(double.state.comments) == [old]  # what was created meanwhile is gone
    assert "new" in double.state.comments[old]["body"]
    before = len(double.calls("POST .*/comments$"))
    post(another(**app), replace(MINE, headline="newer", run=9), login="gatekeeper[bot]")
    assert len(double.calls("POST .*/comments$")) == before  # told its name, it creates nothing


# --- the claim ------------------------------------------------------------------------------------------


def test_a_claim_is_waited_for(double, client, another, clock) -> None:
    post(client)
    comment_id = next(iter(double.state.comments))
    with claim.claimed(another(), comment_id) as held:
        assert held
        with claim.claimed(another(), comment_id) as second:
            assert not second
    assert sum(clock.slept) >= 45 * 0.9
    assert double.state.reactions == {}


def test_a_claim_that_was_left_behind_runs_out(double, client, clock) -> None:
    post(client)
    comment_id = next(iter(double.state.comments))
    claim._claim(client, comment_id)
    clock.slept.append(70)
    with claim.claimed(client, comment_id) as held:
        assert held
    assert double.state.reactions == {}


def test_without_the_permission_for_claims_the_comment_is_written_all_the_same(double, client) -> None:
    double.denied = "reactions"
    post(client)
    assert post(client, OTHERS).writing is Writing.UPDATED
    assert len(layout.parse(ours(double)[0], KEY)) == 2
