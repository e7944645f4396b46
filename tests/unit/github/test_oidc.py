"""GitHub's word on a file's digest, asked for and read as a real issuer gives it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jwt
import pytest
from builders import identity_double
from builders.identity_double import BEARER, OTHERS, OURS, Issuer

from evalgate.errors import UnavailableError
from evalgate.github import oidc
from evalgate.github.oidc import Identity

DIGEST = "ab" * 32


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with identity_double.issuer() as server:
        yield server


def witness_of(issuer: Issuer) -> Identity:
    environ = {
        "GITHUB_SERVER_URL": issuer.url,
        oidc.URL: issuer.request_url,
        oidc.TOKEN: BEARER,
    }
    witness = oidc.identity(environ)
    assert witness is not None
    return witness


def test_a_token_says_of_which_run_the_digest_is(issuer: Issuer) -> None:
    witness = witness_of(issuer)
    token = witness.sign(DIGEST)
    assert witness.scope(DIGEST, token) == "o/r@refs/pull/7/merge"
    issuer.claims["ref"] = "refs/heads/main"
    assert witness.scope(DIGEST, witness.sign(DIGEST)) == "o/r@refs/heads/main"
    assert witness.scope(DIGEST, token) == "o/r@refs/pull/7/merge"


@pytest.mark.parametrize(
    ("token", "is_believed"),
    [
        (lambda issuer: issuer.token(f"evalgate:{DIGEST}"), True),
        (lambda issuer: issuer.token(f"evalgate:{DIGEST}", exp=1), True),  # of last week
        (lambda issuer: issuer.token(f"evalgate:{'cd' * 32}"), False),  # of another file
        # asked for by somebody else, for something else
        (lambda issuer: issuer.token(DIGEST), False),
        (lambda issuer: issuer.token(f"evalgate:{DIGEST}", iss="https://evil.example"), False),
        (
            lambda issuer: jwt.encode(
                claims(issuer), OTHERS, algorithm="RS256", headers={"kid": "1"}
            ),
            False,
        ),
        (
            lambda issuer: jwt.encode(
                claims(issuer), OURS, algorithm="RS256", headers={"kid": "2"}
            ),
            False,
        ),
        (
            lambda issuer: jwt.encode(claims(issuer), "", algorithm="none", headers={"kid": "1"}),
            False,
        ),
        (
            lambda issuer: jwt.encode(
                claims(issuer), "x" * 32, algorithm="HS256", headers={"kid": "1"}
            ),
            False,
        ),
        (lambda issuer: issuer.token(f"evalgate:{DIGEST}")[:-8], False),
        (lambda _: "", False),
        (lambda _: "a.b.c", False),
        (lambda _: "é" * 100, False),
    ],
)
def test_only_githubs_own_word_counts(
    issuer: Issuer, token: Callable[[Issuer], str], is_believed: bool
) -> None:
    expected = "o/r@refs/pull/7/merge" if is_believed else ""
    assert witness_of(issuer).scope(DIGEST, token(issuer)) == expected


def claims(issuer: Issuer) -> dict[str, Any]:
    return {"iss": f"{issuer.url}/_services/token", "aud": f"evalgate:{DIGEST}", **issuer.claims}


def test_an_outage_signs_nothing_and_believes_nothing(issuer: Issuer) -> None:
    token = witness_of(issuer).sign(DIGEST)
    issuer.status = 503
    with pytest.raises(UnavailableError, match="status 503"):
        witness_of(issuer).sign(DIGEST)
    assert witness_of(issuer).scope(DIGEST, token) == ""


@pytest.mark.parametrize("lacking", [oidc.URL, oidc.TOKEN])
def test_a_job_without_the_permission_has_no_witness(lacking: str) -> None:
    assert oidc.identity({oidc.URL: "http://x.example/?a", oidc.TOKEN: "t"} | {lacking: ""}) is None


@pytest.mark.parametrize(
    ("server", "issuer"),
    [
        ("", "https://token.actions.githubusercontent.com"),
        ("https://github.com", "https://token.actions.githubusercontent.com"),
        ("https://octo.ghe.com", "https://token.actions.octo.ghe.com"),
        ("https://github.example.com", "https://github.example.com/_services/token"),
    ],
)
def test_the_issuer_is_of_the_server(server: str, issuer: str) -> None:
    assert Identity({"GITHUB_SERVER_URL": server})._issuer == issuer
