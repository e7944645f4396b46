"""GitHub as an issuer of identity tokens: gives a job its tokens, and publishes the key of them."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

BEARER = "of-the-job"
OURS, OTHERS = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))


class Issuer(ThreadingHTTPServer):
    """The server. `claims`: what tokens say of the job; `status`: of every answer."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.status = 200
        self.request_url = f"{self.url}/token?api-version=2.0"
        self.claims: dict[str, Any] = {"repository": "o/r", "ref": "refs/pull/7/merge"}

    def token(self, audience: str, **claims: Any) -> str:
        now = int(time.time())
        usual = {
            "iss": f"{self.url}/_services/token",
            "aud": audience,
            "iat": now,
            "exp": now + 300,
        }
        return jwt.encode(
            {**usual, **self.claims, **claims}, OURS, algorithm="RS256", headers={"kid": "1"}
        )


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


@contextlib.contextmanager
def issuer() -> Iterator[Issuer]:
    """A server for as long as the block lasts."""
    with Issuer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
