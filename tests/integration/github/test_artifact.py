"""Artifacts of a run: downloaded from the storage without the token, unpacked with care."""

from __future__ import annotations

import pytest

from evalgate.github import artifacts
from evalgate.github.client import GitHubFailed, GitHubFault

pytestmark = pytest.mark.integration

NAME, RUN = "evalgate", 7


def test_they_are_listed_newest_first(double, client) -> None:
    for number in range(30):
        double.state.add_artifact(NAME, b"x", created_at=f"2026-11-{1 + number % 28:02}T00:00:00Z")
        double.state.add_artifact("other", b"x")
    found = artifacts.list_of_run(client, RUN, name=NAME)
    assert len(found) == 30
    assert [each.created_at or "" for each in found] == sorted(
        (each.created_at for each in found), reverse=True
    )


def test_files_arrive_and_the_storage_sees_no_token(double, client) -> None:
    double.state.add_artifact(NAME, {"results.json": '{"a": 1}', "other.txt": "x"}, run_id=7)
    double.state.add_artifact(NAME, {"results.json": "{}"}, run_id=8)
    (artifact,) = artifacts.list_of_run(client, 7, name=NAME)
    found = fetch(client, artifact, "results.json", "missing.json")
    assert found == {"results.json": b'{"a": 1}'}
    assert len(double.stored) == 1
    assert not {"authorization", "cookie", "x-github-api-version"} & set(double.stored[0])


def test_a_truncated_zip_is_told_by_its_digest(double, client) -> None:
    double.state.add_artifact(NAME, {"results.json": "x" * 5_000})
    double.fail("GET /storage", how="truncated", times=99)
    failed = refused(client)
    assert failed.kind is GitHubFault.MALFORMED
    assert "digest" in failed.message


def test_a_truncated_zip_is_told_where_github_keeps_no_digest(double, client) -> None:
    double.state.add_artifact(NAME, {"results.json": "x" * 5_000}, digest=None)
    double.fail("GET /storage", how="truncated", times=99)
    failed = refused(client)
    assert failed.kind is GitHubFault.MALFORMED
    assert "truncated" in failed.message


@pytest.mark.parametrize("how", ["cut", "reset"])
def test_a_download_that_breaks_off_is_begun_anew(double, client, caplog, how) -> None:
    double.state.add_artifact(NAME, {"results.json": "{}"})
    double.fail("GET /storage", how=how)
    (artifact,) = artifacts.list_of_run(client, RUN, name=NAME)
    assert fetch(client, artifact, "results.json")
    assert len(double.stored) == 2
    assert "secret-signature" not in caplog.text


def test_what_the_storage_refuses_is_no_missing_permission_and_shows_no_signature(
    double, client
) -> None:
    double.state.add_artifact(NAME, {"results.json": "{}"})
    double.fail(
        "GET /storage", status=403, body="<Error>AuthenticationFailed sig=secret-signature</Error>"
    )
    failed = refused(client)
    assert failed.kind is GitHubFault.REFUSED
    assert "permissions" not in failed.hint
    assert "secret-signature" not in failed.message


@pytest.mark.parametrize(
    "location",
    ["", "ftp://x.example/1", "/1001", "http://[oops", "javascript:alert(1)", "file:///etc/passwd"],
)
def test_a_redirect_that_leads_to_no_download_is_refused(double, client, location) -> None:
    double.state.add_artifact(NAME, {"results.json": "{}"})
    double.fail("GET .*/zip", status=302, body="", headers={"location": location})
    assert refused(client).kind is GitHubFault.MALFORMED
    assert double.stored == []


def test_an_expired_artifact_is_gone(double, client) -> None:
    double.state.add_artifact(NAME, {"results.json": "{}"}, expired=True)
    assert refused(client).kind is GitHubFault.GONE


def test_an_artifact_larger_than_it_says_is_cut_off(double, client, monkeypatch) -> None:
    monkeypatch.setattr(artifacts, "MOST_ZIP_BYTES", 1_000)
    double.state.add_artifact(NAME, b"x" * 10_000, size_in_bytes=10)
    (artifact,) = artifacts.list_of_run(client, RUN, name=NAME)
    with pytest.raises(GitHubFailed) as caught:
        artifacts.download(client, artifact)
    assert caught.value.kind is GitHubFault.TOO_LARGE


def test_an_artifact_that_says_it_is_too_large_is_not_downloaded(double, client) -> None:
    double.state.add_artifact(NAME, b"x", size_in_bytes=10**9)
    assert refused(client).kind is GitHubFault.TOO_LARGE
    assert double.stored == []


def refused(client) -> GitHubFailed:
    (artifact,) = artifacts.list_of_run(client, RUN, name=NAME)
    with pytest.raises(GitHubFailed) as caught:
        fetch(client, artifact, "results.json")
    return caught.value


def fetch(client, artifact, *names: str) -> dict[str, bytes]:
    return artifacts.extract(artifacts.download(client, artifact), names=names)
