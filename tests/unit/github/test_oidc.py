"""GitHub's word on a file's digest, asked for and read as a real issuer gives it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from evalgate.errors import UnavailableError
from evalgate.github import oidc
from evalgate.github.oidc import Witness

DIGEST = "ab" * 32
BEARER = "of-the-job"
OURS, OTHERS = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))


class Issuer(ThreadingHTTPServer):
    """GitHub: gives a job its tokens, and publishes the key of them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.status = 200
        self.claims: dict[str, Any] = {"repository": "o/r", "ref": "refs/pull/7/merge"}

    def token(self, audience: str, **claims: Any) -> str:
        now = int(time.time())
        usual = {"iss": f"{self.url}/_services/token", "aud": audience, "iat": now, "exp": now + 300}
        return jwt.encode({**usual, **self.claims, **claims}, OURS, algorithm="RS256", headers={"kid": "1"})


class Handler(BaseHTTPRequestHandler):
    server: Issuer

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        if address.path == "/_services/token/.well-known/jwks":
            key = jwt.algorithms.RSAAlgorithm.to_jwk(OURS.public_key(), as_dict=True)
            content: Any = {"keys": [{**key, "kid": "1", "use": "sig", "alg": "RS256"}]}
        else:
            assert self.headers["Authorization"] == f"Bearer {BEARER}"
            (audience,) = parse_qs(address.query)["audience"]
            content = {"value": self.server.token(audience)}
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def witness_of(issuer: Issuer) -> Witness:
    environ = {
        "GITHUB_SERVER_URL": issuer.url,
        oidc.URL: f"{issuer.url}/token?api-version=2.0",
        oidc.TOKEN: BEARER,
    }
    witness = oidc.witness(environ)
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
        (lambda issuer: issuer.token(DIGEST), False),  # asked for by somebody else, for something else
        (lambda issuer: issuer.token(f"evalgate:{DIGEST}", iss="https://evil.example"), False),
        (lambda issuer: jwt.encode(claims(issuer), OTHERS, algorithm="RS256", headers={"kid": "1"}), False),
        (lambda issuer: jwt.encode(claims(issuer), OURS, algorithm="RS256", headers={"kid": "2"}), False),
        (lambda issuer: jwt.encode(claims(issuer), "", algorithm="none", headers={"kid": "1"}), False),
        (lambda issuer: jwt.encode(claims(issuer), "x" * 32, algorithm="HS256", headers={"kid": "1"}), False),
        (lambda issuer: issuer.token(f"evalgate:{DIGEST}")[:-8], False),
        (lambda _: "", False),
        (lambda _: "a.b.c", False),
        (lambda _: "é" * 100, False),
    ],
)
def test_only_githubs_own_word_counts(issuer: Issuer, token: Callable[[Issuer], str], is_believed: bool) -> None:
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
    assert oidc.witness({oidc.URL: "http://x.example/?a", oidc.TOKEN: "t"} | {lacking: ""}) is None


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
    assert Witness({"GITHUB_SERVER_URL": server})._issuer == issuer
