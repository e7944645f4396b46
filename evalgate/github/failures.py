"""Why GitHub did not do what it was asked, in words that name the missing permission or setting."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from evalgate.errors import UnavailableError
from evalgate.github.endpoints import Endpoint
from evalgate.text import plain
from evalgate.web.exchange import Answer, ExchangeFailed, Fault

_LONGEST_SAYING = 300


class FailureKind(enum.StrEnum):
    """What went wrong."""

    UNAUTHORIZED = "unauthorized"  # 401
    FORBIDDEN = "forbidden"  # 403 that waiting does not cure
    NOT_FOUND = "not_found"  # 404: not there, or hidden from the token
    CONFLICT = "conflict"  # 409
    GONE = "gone"  # 410: an expired artifact
    INVALID = "invalid"  # 422
    REFUSED = "refused"  # any other 4xx
    RATE_LIMITED = "rate_limited"  # 403 or 429, and the wait is longer than we may wait
    SERVER = "server"  # 5xx, time and again
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"  # refused, reset, no such host
    TOO_LARGE = "too_large"
    MALFORMED = "malformed"  # no JSON, JSON of another shape, a broken archive
    REDIRECTED = "redirected"  # to a place that must not see the token


AMBIGUOUS: Final = frozenset(
    {FailureKind.SERVER, FailureKind.TIMEOUT, FailureKind.UNREACHABLE, FailureKind.MALFORMED, FailureKind.TOO_LARGE}
)
"""Failures after which GitHub may have done what it was asked."""

NOT_PERMITTED: Final = frozenset({FailureKind.FORBIDDEN, FailureKind.NOT_FOUND})
"""How GitHub says that a token lacks a permission."""


class GitHubFailed(UnavailableError):  # noqa: N818 - it says what happened
    """GitHub did not do it; `kind` and `status` for programs, message and hint for people. Never holds the token."""

    def __init__(self, kind: FailureKind, message: str, *, status: int | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.status = status

    @property
    def not_permitted(self) -> bool:
        """Whether the token lacks a permission: what it would have written has to go elsewhere."""
        return self.kind in NOT_PERMITTED


_KINDS: Final[Mapping[int, FailureKind]] = MappingProxyType(
    {
        401: FailureKind.UNAUTHORIZED,
        403: FailureKind.FORBIDDEN,
        404: FailureKind.NOT_FOUND,
        409: FailureKind.CONFLICT,
        410: FailureKind.GONE,
        413: FailureKind.INVALID,
        422: FailureKind.INVALID,
        429: FailureKind.RATE_LIMITED,
    }
)

_HINTS: Final[Mapping[FailureKind, str]] = MappingProxyType(
    {
        FailureKind.UNAUTHORIZED: "The token is missing, wrong or expired; the job's own is `${{ github.token }}`.",
        FailureKind.FORBIDDEN: "The job needs `permissions: {needs}`; a pull request from a fork never has it "
        "(docs/github.md).",
        FailureKind.NOT_FOUND: "It is not there, or the token may not see it: the job needs `permissions: {needs}`.",
        FailureKind.CONFLICT: "Something else changed it at the same time; run the job again.",
        FailureKind.GONE: "It is gone for good: artifacts expire after their `retention-days`.",
        FailureKind.INVALID: "GitHub refuses what was sent; please report this with the message above.",
        FailureKind.REFUSED: "",
        FailureKind.RATE_LIMITED: "Too many requests were made with this token; run the job again later.",
        FailureKind.SERVER: "GitHub has trouble (githubstatus.com); run the job again later.",
        FailureKind.TIMEOUT: "GitHub or a proxy is slow; run the job again.",
        FailureKind.UNREACHABLE: "Check GITHUB_API_URL, the proxy settings (HTTPS_PROXY, NO_PROXY) and the network.",
        FailureKind.TOO_LARGE: "",
        FailureKind.MALFORMED: "Check that GITHUB_API_URL is the address of an API and that no proxy answers in its "
        "place.",
        FailureKind.REDIRECTED: "Check GITHUB_API_URL.",
    }
)
_LOCKED = "The conversation is locked: unlock it, or read the report in the job summary."
_SSO = "The token has to be authorized for the organization's single sign-on."


def of_answer(answer: Answer, endpoint: Endpoint, *, kind: FailureKind | None = None) -> GitHubFailed:
    """The failure that an answer with a status from 400 on tells of; `kind`: where the status alone misleads."""
    if kind is None:
        rest = FailureKind.SERVER if answer.status >= 500 else FailureKind.REFUSED
        kind = _KINDS.get(answer.status, rest)
    said = _said(answer)
    hint = _HINTS[kind].format(needs=endpoint.needs) if "{needs}" in _HINTS[kind] else _HINTS[kind]
    if kind is FailureKind.FORBIDDEN and "locked" in said.lower():
        hint = _LOCKED
    elif kind is FailureKind.FORBIDDEN and "x-github-sso" in answer.headers:
        hint = _SSO
    words = f"could not {endpoint.doing}: GitHub answers {answer.status}{f' ({said})' if said else ''}"
    return GitHubFailed(kind, words, status=answer.status, hint=hint)


def of_exchange(failed: ExchangeFailed, endpoint: Endpoint) -> GitHubFailed:
    """The failure of a request that got no answer."""
    kinds = {
        Fault.TIMEOUT: FailureKind.TIMEOUT,
        Fault.UNREACHABLE: FailureKind.UNREACHABLE,
        Fault.TOO_LARGE: FailureKind.TOO_LARGE,
        Fault.REDIRECTS: FailureKind.REDIRECTED,
        Fault.INVALID: FailureKind.UNREACHABLE,
    }
    kind = kinds[failed.fault]
    return GitHubFailed(kind, f"could not {endpoint.doing}: {plain.label(str(failed), 300)}", hint=_HINTS[kind])


def of_shape(answer: Answer, endpoint: Endpoint, detail: str) -> GitHubFailed:
    """The failure of an answer whose body is not what the API promises."""
    sort = plain.label(answer.headers.get("content-type") or "no content type", 80)
    message = f"could not {endpoint.doing}: the answer ({answer.status}, {sort}) {plain.label(detail, 300)}"
    return GitHubFailed(FailureKind.MALFORMED, message, status=answer.status, hint=_HINTS[FailureKind.MALFORMED])


def of_limit(answer: Answer, endpoint: Endpoint, *, wait_s: float, until: str) -> GitHubFailed:
    """A rate limit that lasts longer than we may wait."""
    failure = of_answer(answer, endpoint, kind=FailureKind.RATE_LIMITED)
    message = f"{failure.message}; it asks to wait {wait_s:.0f} s, until {until}"
    return GitHubFailed(FailureKind.RATE_LIMITED, message, status=answer.status, hint=failure.hint)


def of_redirect(endpoint: Endpoint, *, host: str) -> GitHubFailed:
    """A redirect to another host, which is not followed."""
    message = f"could not {endpoint.doing}: GitHub sends us to another host ({plain.label(host, 100)})"
    return GitHubFailed(FailureKind.REDIRECTED, message, hint=_HINTS[FailureKind.REDIRECTED])


def _said(answer: Answer) -> str:
    """GitHub's own words in the body of an error; nothing of a page of HTML."""
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError):
        return "a page instead of JSON" if answer.body.lstrip()[:1] == b"<" else ""
    if not isinstance(body, dict):
        return ""
    words = [str(body.get("message") or ""), *_details(body.get("errors"))]
    return plain.label("; ".join(word for word in words if word), _LONGEST_SAYING) if any(words) else ""


def _details(errors: Any) -> list[str]:
    if not isinstance(errors, list):
        return []
    found = []
    for each in errors[:5]:
        if isinstance(each, Mapping):
            place = ".".join(str(each[key]) for key in ("resource", "field") if each.get(key))
            found.append(" ".join(word for word in (place, str(each.get("message") or each.get("code") or "")) if word))
        else:
            found.append(str(each))
    return found
