"""What a user sees when GitHub says no, says nothing, or says nonsense; and that nobody ever sees
the token."""

from __future__ import annotations

import logging
import time
import traceback

import pytest

from evalgate.errors import ConfigError, ExitCode
from evalgate.github import client as github_client
from evalgate.github.client import CheckRun, GitHubFailed, GitHubFault, Pull

pytestmark = pytest.mark.integration

PULL = "GET /repos/o/r/pulls/1"


def pull(client) -> Pull:
    return client.call(github_client.FETCH_PULL, Pull, pull_number=1)


def comments(client) -> list[github_client.Comment]:
    return client.fetch_all(github_client.LIST_COMMENTS, github_client.Comment, issue_number=1)


def failed_with(call) -> GitHubFailed:
    with pytest.raises(GitHubFailed) as caught:
        call()
    return caught.value


def later(seconds: float) -> str:
    return str(int(time.time() + seconds))


@pytest.mark.parametrize(
    ("fault", "kind", "told", "tries"),
    [
        # a wrong token
        (
            {"status": 401, "body": {"message": "Bad credentials"}},
            "unauthorized",
            "github.token",
            1,
        ),
        # a job without the permission, or a fork
        (
            {"status": 403, "body": {"message": "Resource not accessible"}},
            "forbidden",
            "pull-requests: read",
            1,
        ),
        # an organization with single sign-on
        (
            {"status": 403, "body": {"message": "no"}, "headers": {"x-github-sso": "required"}},
            "forbidden",
            "sign-on",
            1,
        ),
        # GitHub hides what a token may not see
        ({"status": 404, "body": {"message": "Not Found"}}, "not_found", "pull-requests: read", 1),
        ({"status": 409, "body": {"message": "Conflict"}}, "conflict", "run the job again", 1),
        ({"status": 410, "body": {"message": "expired"}}, "gone", "retention-days", 1),
        ({"status": 418}, "refused", "", 1),
        # an error in words of its own shape
        (
            {
                "status": 422,
                "body": {
                    "message": "Validation Failed",
                    "errors": [{"field": "body", "code": "odd"}, "x"],
                },
            },
            "invalid",
            "body odd; x",
            1,
        ),
        # trouble that does not end
        ({"status": 502, "body": "<html>Bad gateway"}, "server", "githubstatus.com", 5),
        ({"how": "reset"}, "unreachable", "GITHUB_API_URL", 5),
        ({"how": "cut"}, "unreachable", "GITHUB_API_URL", 5),
        # something else answers in GitHub's place
        ({"how": "html", "status": 200}, "malformed", "GITHUB_API_URL", 1),
        ({"how": "garbage"}, "malformed", "GITHUB_API_URL", 1),
        # limits that last longer than we wait
        (
            {
                "status": 403,
                "headers": {"x-ratelimit-remaining": "0", "x-ratelimit-reset": later(3000)},
            },
            "rate_limited",
            "UTC",
            1,
        ),
        ({"status": 429, "headers": {"retry-after": "1000"}}, "rate_limited", "1000 s", 1),
        ({"status": 429, "headers": {"retry-after": "1e300"}}, "rate_limited", "31622400 s", 1),
    ],
)
def test_what_fails_for_good_is_told_with_the_next_step(
    double, client, fault, kind, told, tries
) -> None:
    double.fail(PULL, times=99, **fault)
    failed = failed_with(lambda: pull(client))
    assert failed.kind is GitHubFault[kind.upper()]
    assert told in f"{failed.message} {failed.hint}"
    assert failed.message.startswith("could not read the pull request: ")
    assert failed.exit_code is ExitCode.NOT_MEASURED
    assert len(double.seen) == tries


@pytest.mark.parametrize(
    ("fault", "slept"),
    [
        ({"status": 500}, 0),  # the first time at once
        ({"status": 503, "times": 3}, 1 + 2 + 2 * 0.25),
        ({"how": "reset"}, 0),
        ({"status": 503, "headers": {"retry-after": "7"}}, 7.5),
        ({"status": 429, "headers": {"retry-after": "7"}}, 7.5),
        ({"status": 403, "headers": {"retry-after": "7"}}, 7.5),
        # a secondary limit that only speaks
        ({"status": 403, "body": {"message": "You have exceeded a secondary rate limit"}}, 60.5),
        (
            {
                "status": 422,
                "body": {"message": "Validation Failed", "errors": ["was submitted too quickly"]},
            },
            60.5,
        ),
    ],
)
def test_what_passes_is_waited_for(double, client, clock, fault, slept) -> None:
    double.state.add_pull(1)
    double.fail(PULL, **fault)
    assert pull(client).number == 1
    assert sum(clock.slept) == pytest.approx(slept)


def test_a_primary_limit_is_waited_for_until_its_reset(double, client, clock) -> None:
    double.state.add_pull(1)
    double.fail(
        PULL, status=403, headers={"x-ratelimit-remaining": "0", "x-ratelimit-reset": later(30)}
    )
    assert pull(client).number == 1
    assert 29 <= sum(clock.slept) <= 33


def test_all_waits_together_are_bounded(double, client, clock) -> None:
    double.state.add_pull(1)
    double.fail(PULL, status=429, headers={"retry-after": "50"}, times=2)
    pull(client)
    double.fail(PULL, status=429, headers={"retry-after": "50"})
    assert failed_with(lambda: pull(client)).kind is GitHubFault.RATE_LIMITED
    assert sum(clock.slept) < 120


def test_an_answer_that_never_comes_ends_in_time(double, another) -> None:
    double.fail(PULL, how="hang", times=9)
    began = time.monotonic()
    failed = failed_with(lambda: pull(another(timeout_s=0.2)))
    assert failed.kind is GitHubFault.TIMEOUT
    assert time.monotonic() - began < 5


def test_all_calls_together_end_in_the_time_that_they_are_given(double, another, clock) -> None:
    client = another(timeout_s=20)
    client.end_within(0.3)
    double.fail(PULL, how="hang", times=9)
    began = time.monotonic()
    for _ in range(3):
        assert failed_with(lambda: pull(client)).kind is GitHubFault.TIMEOUT
    assert time.monotonic() - began < 5
    assert len(double.seen) == 1, "no time was left for another"

    client.end_within(30)
    double.faults.clear()
    double.fail(PULL, status=429, headers={"retry-after": "50"})
    assert failed_with(lambda: pull(client)).kind is GitHubFault.RATE_LIMITED
    assert clock.slept == [], "a wait that ends too late is not begun"


def test_nobody_listens(another) -> None:
    failed = failed_with(lambda: pull(another(api_url="http://127.0.0.1:9")))
    assert failed.kind is GitHubFault.UNREACHABLE
    assert "HTTPS_PROXY" in failed.hint


def test_an_answer_has_a_largest_size(double, client, monkeypatch, another) -> None:
    monkeypatch.setattr(github_client, "MOST_ANSWER_BYTES", 1_000)
    double.fail(PULL, status=200, body="x" * 2_000)
    assert failed_with(lambda: pull(another())).kind is GitHubFault.TOO_LARGE


def test_what_must_not_happen_twice_is_not_sent_again(double, client) -> None:
    double.fail("POST .*/comments", status=502)
    body = {"body": "x"}
    failed = failed_with(
        lambda: client.call(
            github_client.CREATE_COMMENT, github_client.Comment, body=body, issue_number=1
        )
    )
    assert failed.kind is GitHubFault.SERVER
    # a limit: nothing was done
    double.fail("POST .*/comments", status=403, headers={"retry-after": "7"})
    client.call(github_client.CREATE_COMMENT, github_client.Comment, body=body, issue_number=1)
    assert len(double.state.comments) == 1
    double.fail("POST .*/check-runs", status=502)  # the newest of a name counts
    client.call(github_client.CREATE_CHECK, CheckRun, body={"name": "x", "head_sha": "b" * 40})
    assert len(double.state.checks) == 1


# --- where the token goes -------------------------------------------------------------------------


def test_no_redirect_and_no_link_takes_the_token_to_another_host(double, client) -> None:
    elsewhere = double.state.storage_url  # another port is another origin; it would remember
    double.fail(PULL, status=301, headers={"location": f"{elsewhere}/1001"})
    assert failed_with(lambda: pull(client)).kind is GitHubFault.REDIRECTED
    double.fail(
        "GET .*/comments", status=200, body=[], headers={"link": f'<{elsewhere}/1001>; rel="next"'}
    )
    failed = failed_with(lambda: comments(client))
    assert failed.kind is GitHubFault.REDIRECTED
    double.fail(
        "GET .*/comments", status=200, body=[], headers={"link": '<http://[oops>; rel="next"'}
    )
    failed_with(lambda: comments(client))
    assert double.stored == []


def test_a_renamed_repository_is_followed_on_the_same_host(double, client) -> None:
    double.state.add_pull(1)
    double.fail(PULL, status=301, headers={"location": f"{double.url}/repos/new/name/pulls/1"})
    assert pull(client).number == 1


def test_a_redirect_in_circles_ends(double, client) -> None:
    double.fail(PULL, status=302, headers={"location": "/repos/o/r/pulls/1"}, times=99)
    assert failed_with(lambda: pull(client)).kind is GitHubFault.REDIRECTED


def test_the_token_is_in_no_log_exception_or_repr(double, another, caplog) -> None:
    token = "ghs_secretsecretsecret"
    client = another(token=token)
    double.fail(PULL, status=403, body={"message": f"who is {token}?"})
    double.fail(PULL, status=401, body={"message": f"who is {token}?"})
    with caplog.at_level(logging.DEBUG):
        told = [failed_with(lambda: pull(client)) for _ in range(2)]
    double.fail(PULL, how="reset", times=9)
    with caplog.at_level(logging.DEBUG):
        told.append(failed_with(lambda: pull(client)))
    shown = [repr(client), repr(client._exchange), caplog.text]
    for failed in told:
        shown += [str(failed), repr(failed), "".join(traceback.format_exception(failed))]
    assert token not in "".join(shown)
    assert "***" in told[0].message
    assert double.seen[0].headers["authorization"] == f"Bearer {token}"


@pytest.mark.parametrize("token", ["", "  ", "two words", "line\nfeed", "tok\u00e9n", "x" * 5000])
def test_what_is_no_token_is_refused_without_being_shown(another, token) -> None:
    with pytest.raises(ConfigError) as caught:
        another(token=token)
    assert not token.strip() or token.strip() not in str(caught.value)


@pytest.mark.parametrize("repository", ["", "o", "o/r/x", "o/r?x=1", "../r", "o/r\n"])
def test_what_is_no_repository_is_refused(another, repository) -> None:
    with pytest.raises(ConfigError):
        another(repository=repository)


# --- how it asks ----------------------------------------------------------------------------------


def test_an_enterprise_server_has_its_api_under_a_folder(double, another) -> None:
    double.state.add_pull(1)
    assert pull(another(api_url=f"{double.url}/api/v3/")).number == 1


def test_a_proxy_is_used_as_the_environment_says(double, another, monkeypatch) -> None:
    double.state.add_pull(1)
    for name in ("http_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", double.url)
    assert pull(another(api_url="http://github.invalid")).number == 1
    monkeypatch.setenv("NO_PROXY", ".invalid")
    failed_with(lambda: pull(another(api_url="http://github.invalid")))


def test_netrc_never_stands_in_for_the_token(double, client, monkeypatch, tmp_path) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login x password y\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    double.state.add_pull(1)
    pull(client)
    assert double.seen[0].headers["authorization"].startswith("Bearer ")


def test_names_in_addresses_are_quoted(double, client) -> None:
    failed_with(
        lambda: client.fetch_all(github_client.LIST_COMMIT_PULLS, Pull, commit_sha="a/../../b?c#d")
    )
    assert double.seen[0].target == "/repos/o/r/commits/a%2F..%2F..%2Fb%3Fc%23d/pulls?per_page=100"
