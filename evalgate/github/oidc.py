"""Proof of the run that wrote a file: an OpenID Connect token of GitHub for the file's digest.

The token is as public as the file. It names the run that requested it, and GitHub's published keys
prove that it is GitHub's (https://docs.github.com/actions/concepts/security/openid-connect)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlsplit

from evalgate.errors import UnavailableError
from evalgate.system.http import Exchange, ExchangeFailed
from evalgate.values import Environ, JsonObject

URL = "ACTIONS_ID_TOKEN_REQUEST_URL"
"""The runner's variable with the address that issues tokens; set with `id-token: write` only."""
TOKEN = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"  # noqa: S105 - the name of a variable
"""The runner's variable with the secret that a request at that address needs."""
AUDIENCE = "evalgate:"
"""The beginning of a token's audience, before the digest: a token for another purpose proves
nothing."""
MOST_BYTES = 1_000_000
"""Of an answer: a token, or GitHub's keys."""
TIMEOUT_S = 20.0
"""Of one request."""


class Identity:
    """Tokens for digests, and their claims, in a job with the permission `id-token: write`."""

    def __init__(self, environ: Environ) -> None:
        """Only `sign` reads URL and TOKEN; `identity` checks that both are set."""
        self._environ = environ

    def sign(self, digest: str) -> str:
        """A token for a digest. Raises UnavailableError."""
        url = f"{self._environ[URL]}&audience={quote(AUDIENCE + digest)}"
        return str(
            self._read(url, {"Authorization": f"Bearer {self._environ[TOKEN]}"}).get("value", "")
        )

    def scope(self, digest: str, token: str) -> str:
        """`o/r@refs/...` of the run that requested a token for the digest; "" if `token` is not
        one."""
        import jwt  # noqa: PLC0415 - takes long, and few runs need it

        with suppress(jwt.PyJWTError, UnavailableError, KeyError, ValueError):
            key = self._keys[jwt.get_unverified_header(token).get("kid")]
            # a token is valid for minutes, but its claim on the digest stays true
            claims = jwt.decode(
                token,
                key,
                algorithms=["RS256"],
                audience=AUDIENCE + digest,
                issuer=self._issuer,
                options={"verify_exp": False},
            )
            return f"{claims.get('repository')}@{claims.get('ref')}"
        return ""

    @property
    def _issuer(self) -> str:
        """Who signs tokens: GitHub, an enterprise at ghe.com, or a GitHub Enterprise Server."""
        server = self._environ.get("GITHUB_SERVER_URL") or "https://github.com"
        host = urlsplit(server).hostname or ""
        if host == "github.com":
            return "https://token.actions.githubusercontent.com"
        return (
            f"https://token.actions.{host}"
            if host.endswith(".ghe.com")
            else f"{server}/_services/token"
        )

    @functools.cached_property
    def _keys(self) -> Mapping[str | None, Any]:
        """GitHub's public keys by `kid`, fetched once. Raises UnavailableError."""
        import jwt  # noqa: PLC0415 - as above

        keys = jwt.PyJWKSet.from_dict(self._read(f"{self._issuer}/.well-known/jwks", {})).keys
        return {key.key_id: key for key in keys}

    def _read(self, url: str, headers: Mapping[str, str]) -> JsonObject:
        """The JSON object at an address. Raises UnavailableError for any other answer."""
        exchange = Exchange(environment=self._environ, headers=headers, most_bytes=MOST_BYTES)
        try:
            answer = exchange.request("GET", url, timeout_s=TIMEOUT_S)
            content = answer.json() if answer.status == 200 else None
        except (ExchangeFailed, ValueError) as error:
            raise UnavailableError(f"GitHub's tokens are not available: {error}") from error
        finally:
            exchange.close()
        if not isinstance(content, dict):
            raise UnavailableError(f"GitHub's tokens are not available: status {answer.status}")
        return content


def identity(environ: Environ) -> Identity | None:
    """This job's identity; None without the permission."""
    return Identity(environ) if environ.get(URL) and environ.get(TOKEN) else None
