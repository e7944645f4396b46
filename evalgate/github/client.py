"""The client of GitHub's REST API: every call that evalgate makes, with one token for one host, and
with bounded retries."""

from __future__ import annotations

import enum
import json
import logging
import math
import os
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from pydantic import AliasPath, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from requests.utils import parse_header_links

from evalgate import __version__
from evalgate.errors import ConfigError, UnavailableError
from evalgate.system import http
from evalgate.system.http import Answer, Exchange, ExchangeFailed, Fault
from evalgate.text import plain, words
from evalgate.values import Environ, Json, elements, member

API_VERSION = "2022-11-28"
"""The version of the REST API that every request asks for, by a header."""
MOST_TRIES = 5
"""Of one request, the first one included."""
MOST_ANSWER_BYTES = 32 * 1024 * 1024
"""Of a JSON answer: a page of a hundred full comments is 26 MB at worst."""
MOST_PAGES = 100
"""Of one list; a longer one raises TOO_LARGE, as a part of it could mislead."""
PAGE_SIZE = 100
"""GitHub's limit of elements per page."""
SECONDARY_WAIT_S = 60.0
"""GitHub's advice for a secondary limit without a time: at least a minute."""
_SECONDARY_SIGNS = (b"secondary rate limit", b"abuse detection", b"submitted too quickly")
"""Words, in lower case, of answers that report a secondary limit without any header for it."""
_LIMIT_STATUSES = frozenset({403, 422, 429})
"""Statuses of rate limits; 403 and 422 have other meanings, too."""
_SERVER_FAILURES = frozenset({500, 502, 503, 504})
"""Statuses after which the same request may succeed."""
_DOWNLOAD_S = 300.0
"""The time of one download with all its tries, in place of `timeout_s`."""
_LONGEST_BACKOFF_S = 20.0
"""The longest pause before another try if the answer asks for none."""
_TEMPORARY_FAULTS = frozenset({Fault.TIMEOUT, Fault.UNREACHABLE})
"""Faults of the connection after which the same request may succeed."""
_MESSAGE_WIDTH = 300
"""Characters of GitHub's own messages that an error quotes."""
_REPOSITORY = re.compile(r"(?!\.{1,2}/)[A-Za-z0-9._-]+/(?!\.{1,2}\Z)[A-Za-z0-9._-]+")
"""`owner/name`; neither is `.` or `..`, which would lead to another path of the API."""
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")
"""Printable ASCII without spaces: everything that can be in a header."""

Reply = TypeVar("Reply", bound=BaseModel)
"""The shape of the JSON object that a call returns."""
Parsed = TypeVar("Parsed")
"""What the parser of an answer returns."""


# --- the calls ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One call."""

    method: str
    """A POST that may have been carried out is not repeated, except for a check run."""
    path: str
    """With places for the values of a call, such as `{owner}`."""
    doing: str
    """Its purpose in words, after `could not`."""
    needs: str
    """The permission that a job needs for it."""


_REPO = "/repos/{owner}/{repo}"
"""Its places are filled from the client's repository."""
_COMMENTS = f"{_REPO}/issues/{{issue_number}}/comments"
"""Of a pull request, which is an issue here: the conversation, without comments on lines."""
_COMMENT = f"{_REPO}/issues/comments/{{comment_id}}"
"""One comment, whatever issue it belongs to."""
_CHECKS = f"{_REPO}/check-runs"


LIST_COMMENTS = Endpoint(
    "GET", _COMMENTS, "read the comments of the pull request", "pull-requests: write"
)
"""Reading needs less, but whoever reads the comments writes one next."""
CREATE_COMMENT = Endpoint("POST", _COMMENTS, "comment on the pull request", "pull-requests: write")
"""Not repeated if it may have been carried out: `comment.post` reads the comments again."""
UPDATE_COMMENT = Endpoint(
    "PATCH", _COMMENT, "update the comment on the pull request", "pull-requests: write"
)
DELETE_COMMENT = Endpoint(
    "DELETE", _COMMENT, "delete a duplicate of the comment", "pull-requests: write"
)
CREATE_CHECK = Endpoint("POST", _CHECKS, "create the check run", "checks: write")
"""Repeated after any temporary failure: the newest check run of a name counts."""
UPDATE_CHECK = Endpoint(
    "PATCH", f"{_CHECKS}/{{check_run_id}}", "update the check run", "checks: write"
)
"""Also completes it; annotations are added to those of earlier requests."""
LIST_RUN_ARTIFACTS = Endpoint(
    "GET",
    f"{_REPO}/actions/runs/{{run_id}}/artifacts",
    "list the artifacts of a workflow run",
    "actions: read",
)
"""Several artifacts may have one name: each attempt of the run uploads its own."""
DOWNLOAD_ARTIFACT = Endpoint(
    "GET",
    f"{_REPO}/actions/artifacts/{{artifact_id}}/{{archive_format}}",
    "download an artifact",
    "actions: read",
)
"""Answers with a redirect to a signed address on another host."""
FETCH_PULL = Endpoint(
    "GET", f"{_REPO}/pulls/{{pull_number}}", "read the pull request", "pull-requests: read"
)
LIST_PULL_COMMITS = Endpoint(
    "GET",
    f"{_REPO}/pulls/{{pull_number}}/commits",
    "read the commits of the pull request",
    "pull-requests: read",
)
"""GitHub lists 250 commits at most."""
LIST_PULLS = Endpoint(
    "GET", f"{_REPO}/pulls", "look for the pull request of a branch", "pull-requests: read"
)
"""Its query filters by `state` and by `head`, which is `owner:branch`."""
LIST_COMMIT_PULLS = Endpoint(
    "GET",
    f"{_REPO}/commits/{{commit_sha}}/pulls",
    "look for the pull request of a commit",
    "pull-requests: read",
)
"""Of this repository's commits: for a fork's commit the answer may be empty, or a 422."""
FETCH_USER = Endpoint("GET", "/user", "find out whose token this is", "read:user")
"""An app's token, such as the job's own, must not ask this."""


# --- the parts of answers that are read
# -------------------------------------------------------------


class _Reply(BaseModel):
    """Reads the fields that are named here, whatever else GitHub sends."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class User(_Reply):
    """An account: a person or a bot."""

    login: str
    """Of a bot, it ends in `[bot]`."""
    type: str = ""
    """`Bot` for an app."""


class Comment(_Reply):
    """A comment on an issue or a pull request."""

    id: int
    """Lower for an older comment."""
    body: str | None = None
    """Markdown, as it was posted."""
    user: User | None = None
    """None for a deleted account."""


class CheckRun(_Reply):
    """A check run."""

    id: int
    """Needed to update it."""


class Artifact(_Reply):
    """An artifact of a workflow run."""

    id: int
    """Needed to download it."""
    name: str
    """Not unique: each attempt of a run may have an artifact of the same name."""
    size_in_bytes: int
    """Of its zip, as GitHub reports it before the download."""
    expired: bool
    """True if only the entry is left, without content."""
    created_at: str | None = None
    """ISO 8601."""
    digest: str | None = None
    """Of its zip: `sha256:...`."""
    head_sha: str | None = Field(None, validation_alias=AliasPath("workflow_run", "head_sha"))
    """The commit of the workflow run that made it."""


class ArtifactPage(_Reply):
    """Artifacts of a workflow run."""

    artifacts: list[Artifact]
    """At most PAGE_SIZE; further pages are not read."""


class PullSide(_Reply):
    """Base or head of a pull request."""

    ref: str
    """The branch, without `refs/heads/`."""
    sha: str
    """Its newest commit when GitHub answered."""
    repository: str | None = Field(None, validation_alias=AliasPath("repo", "full_name"))
    """None for a deleted fork."""


class Pull(_Reply):
    """A pull request."""

    number: int
    state: str
    """`open` or `closed`; a merged one is closed."""
    base: PullSide
    """The branch to merge into."""
    head: PullSide
    """The branch to merge, perhaps of a fork."""

    @property
    def is_fork(self) -> bool:
        """True if the head is in another repository, or in a deleted one."""
        names = {str(side.repository).lower() for side in (self.base, self.head)}
        return len(names) > 1 or None in (self.base.repository, self.head.repository)


class Commit(_Reply):
    """A commit."""

    sha: str
    """Full, in lower case."""


# --- failures
# ---------------------------------------------------------------------------------------


class GitHubFault(enum.Enum):
    """The kind of a failure: the statuses or faults that mean it, and the next step."""

    UNAUTHORIZED = (
        {401},
        "The token is missing, wrong or expired; the job's own is `${{ github.token }}`.",
    )
    FORBIDDEN = (
        {403},
        "The job needs `permissions: NEEDS`; a pull request from a fork never has it (docs/github.md).",
    )
    """A 403 that a wait does not end."""
    NOT_FOUND = (
        {404},
        "It does not exist, or the token cannot see it: the job needs `permissions: NEEDS`.",
    )
    """Missing, or hidden from the token."""
    CONFLICT = ({409}, "Something else changed it at the same time; run the job again.")
    """Also if another job of the same run wrote the comment, or if the comment keeps
    disappearing."""
    GONE = ({410}, "It no longer exists; artifacts expire after their `retention-days`.")
    INVALID = (
        {413, 422},
        "GitHub rejected the request; please report this with the message above.",
    )
    """Also a limit of GitHub that the request exceeds."""
    RATE_LIMITED = (
        {429},
        "Too many requests were made with this token; run the job again later.",
    )
    """A 403, 422 or 429 that asks for too long a wait."""
    SERVER = (
        range(500, 1000),
        "GitHub has problems (githubstatus.com); run the job again later.",
    )
    """After all tries."""
    TIMEOUT = ({Fault.TIMEOUT}, "GitHub or a proxy is slow; run the job again.")
    UNREACHABLE = (
        {Fault.UNREACHABLE, Fault.INVALID},
        "Check GITHUB_API_URL, the proxy settings (HTTPS_PROXY, NO_PROXY) and the network.",
    )
    """Refused, reset, or no such host."""
    TOO_LARGE = ({Fault.TOO_LARGE}, "")
    """An answer, a list or an archive beyond our own limits."""
    MALFORMED = (
        (),
        "Check that GITHUB_API_URL is the address of an API and that no proxy answers in its place.",
    )
    """No JSON, JSON of another shape, or a broken archive."""
    REDIRECTED = ({Fault.REDIRECTS}, "Check GITHUB_API_URL.")
    """To a place that must not see the token, or in a circle."""
    REFUSED = (range(400, 500), "")
    """Any other 4xx."""

    @classmethod
    def of(cls, outcome: int | Fault) -> GitHubFault:
        """The kind that a status or a fault means: the first that has it."""
        return next(kind for kind in cls if outcome in kind.value[0])


AMBIGUOUS = frozenset(
    {
        GitHubFault.SERVER,
        GitHubFault.TIMEOUT,
        GitHubFault.UNREACHABLE,
        GitHubFault.MALFORMED,
        GitHubFault.TOO_LARGE,
    }
)
"""Failures after which GitHub may have carried out the request."""

_LOCKED = "The conversation is locked: unlock it, or read the report in the job summary."
"""The hint for a 403 whose message says that the conversation is locked."""
_SSO = "The token has to be authorized for the organization's single sign-on."
"""The hint for a 403 with the header `x-github-sso`."""


class GitHubFailed(UnavailableError):  # noqa: N818 - the name of an outcome
    """A request to GitHub failed; `kind` and `status` for programs, message and hint for people.
    Never contains the token."""

    def __init__(
        self, kind: GitHubFault, message: str, *, status: int | None = None, hint: str = ""
    ) -> None:
        """`status`: of the answer; None if there was no answer."""
        super().__init__(message, hint=hint)
        self.kind = kind
        self.status = status

    @property
    def not_permitted(self) -> bool:
        """True if the token lacks a permission: the output must go elsewhere."""
        return self.kind in (GitHubFault.FORBIDDEN, GitHubFault.NOT_FOUND)


# --- the client -----------------------------------------------------------------------------------


class Client:
    """The calls above. Each returns a value or raises GitHubFailed; for one thread at a time.

    Proxies and certificates are those of the environment. `timeout_s`: of one request.
    `patience_s`: the time for waits, over all requests. Raises ConfigError."""

    def __init__(
        self,
        *,
        repository: str,
        token: str,
        api_url: str = "https://api.github.com",
        timeout_s: float = 20.0,
        patience_s: float = 120.0,
    ) -> None:
        """Makes no request. Raises ConfigError for a repository or a token that cannot be one."""
        if not _REPOSITORY.fullmatch(repository):
            raise ConfigError(f"GITHUB_REPOSITORY must be owner/name, got {repository[:100]!r}")
        token = token.strip()
        if not _TOKEN.fullmatch(token):  # other libraries' errors would show it
            raise ConfigError("the GitHub token is empty or has characters that no token has")
        self.repository = repository
        self.token_of_app = token.startswith("ghs_")
        """True for an app's token, such as the job's own."""
        self._api_url = api_url.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        """Seconds left for waits, over all requests."""
        self._ends = math.inf
        """Monotonic, see `end_within`."""
        # Its log lines on requests would show signed addresses.
        logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
        headers = {
            "accept": "application/vnd.github+json",
            "authorization": f"Bearer {token}",
            "x-github-api-version": API_VERSION,
            "user-agent": f"evalgate/{__version__}",
        }
        self._exchange = Exchange(
            environment=os.environ, headers=headers, most_bytes=MOST_ANSWER_BYTES
        )

    @classmethod
    def of(cls, environ: Environ, *, token: str) -> Client:
        """The client for the repository of a runner's environment. Raises ConfigError."""
        api_url = environ.get("GITHUB_API_URL") or "https://api.github.com"
        return cls(repository=environ.get("GITHUB_REPOSITORY", ""), token=token, api_url=api_url)

    def copy(self, *, timeout_s: float, patience_s: float) -> Client:
        """Another client of the same repository, for another thread."""
        return Client(
            repository=self.repository,
            token=self._token,
            api_url=self._api_url,
            timeout_s=timeout_s,
            patience_s=patience_s,
        )

    def close(self) -> None:
        """Close the connection."""
        self._exchange.close()

    def end_within(self, seconds: float) -> None:
        """Limit the time of all calls and waits from now on; other threads may call it."""
        self._ends = time.monotonic() + seconds

    def call(
        self,
        endpoint: Endpoint,
        shape: type[Reply],
        *,
        query: Mapping[str, str] | None = None,
        body: Json | None = None,
        **values: object,
    ) -> Reply:
        """The object that a call returns. Raises GitHubFailed."""
        answer = self._answer(endpoint, self._url(endpoint, values, query), body=body)
        return _parse(endpoint, answer, shape.model_validate_json)

    def fetch_all(
        self,
        endpoint: Endpoint,
        shape: type[Reply],
        *,
        query: Mapping[str, str] | None = None,
        **values: object,
    ) -> list[Reply]:
        """GET a list, page by page by `Link` headers. Raises GitHubFailed."""
        adapter = TypeAdapter(list[shape])  # type: ignore[valid-type]  # a list of the requested shape
        url = self._url(endpoint, values, {**(query or {}), "per_page": str(PAGE_SIZE)})
        replies: list[Reply] = []
        for _ in range(MOST_PAGES):
            answer = self._answer(endpoint, url)
            replies += _parse(endpoint, answer, adapter.validate_json)
            links = parse_header_links(answer.headers.get("link", ""))
            next_url = next((link["url"] for link in links if link.get("rel") == "next"), "")
            if not next_url:
                return replies
            try:
                url = http.join(url, next_url)
            except ExchangeFailed as fault:
                raise _fault_failure(endpoint, fault) from None
        message = f"could not {endpoint.doing}: there are more than {MOST_PAGES} pages"
        raise GitHubFailed(GitHubFault.TOO_LARGE, message)

    def remove(self, endpoint: Endpoint, **values: object) -> None:
        """DELETE, if it is still there. Raises GitHubFailed."""
        try:
            self._answer(endpoint, self._url(endpoint, values))
        except GitHubFailed as error:
            if error.kind not in (GitHubFault.NOT_FOUND, GitHubFault.GONE):
                raise

    def download(self, endpoint: Endpoint, *, most_bytes: int, **values: object) -> bytes:
        """GET a file from another host, which never sees the token. Raises GitHubFailed."""
        redirect = self._send_patiently(endpoint, self._url(endpoint, values), self._exchange.send)
        if redirect.status >= 400:
            raise _answer_failure(endpoint, redirect, secret=self._token)
        target = redirect.headers.get("location", "")
        if redirect.status not in http.REDIRECTS or not _is_web_address(target):
            raise _unreadable_failure(endpoint, redirect, "does not redirect to the download")
        signature = urlsplit(target).query  # anybody with it can read the artifact
        storage = Exchange(environment=os.environ, headers={}, most_bytes=most_bytes)
        try:
            answer = self._send_patiently(
                endpoint, target, storage.request, ends=time.monotonic() + _DOWNLOAD_S
            )
            if answer.status == 200:
                return answer.body
            failure = _answer_failure(endpoint, answer)
        except GitHubFailed as error:
            failure = error
        finally:
            storage.close()
        kind = GitHubFault.REFUSED if failure.not_permitted else failure.kind
        hint = "GitHub stores artifacts on this other host; a proxy may block it."
        message = f"{_redacted(signature, failure.message)} (from storage)"
        raise GitHubFailed(kind, message, status=failure.status, hint=hint)

    def _url(
        self,
        endpoint: Endpoint,
        values: Mapping[str, object],
        query: Mapping[str, str] | None = None,
    ) -> str:
        """The address of a call; `values` fill the places of its path, quoted."""
        owner, _, repo = self.repository.partition("/")
        quoted_values = {name: quote(str(value), safe="") for name, value in values.items()}
        path = endpoint.path.format(owner=owner, repo=repo, **quoted_values)
        return f"{self._api_url}{path}{f'?{urlencode(query)}' if query else ''}"

    def _answer(self, endpoint: Endpoint, url: str, *, body: Json | None = None) -> Answer:
        """The accepted answer to a request, which no other host gets. Raises GitHubFailed."""
        send = partial(self._exchange.request, same_host=True)
        answer = self._send_patiently(endpoint, url, send, body=body)
        if answer.status >= 400:
            raise _answer_failure(endpoint, answer, secret=self._token)
        return answer

    def _send_patiently(
        self,
        endpoint: Endpoint,
        url: str,
        send: Callable[..., Answer],
        *,
        body: Json | None = None,
        ends: float | None = None,
    ) -> Answer:
        """Any answer to a request, which is repeated after temporary failures. `ends`: the deadline
        of a longer request, monotonic. Raises GitHubFailed if there is no answer."""
        outcome: Answer | ExchangeFailed
        for tries in range(MOST_TRIES):
            remaining_s = (ends or time.monotonic() + self._timeout_s) - time.monotonic()
            try:
                timeout_s = min(remaining_s, self._ends - time.monotonic())
                outcome = send(endpoint.method, url, body=body, timeout_s=timeout_s)
            except ExchangeFailed as error:
                outcome = error
            wait_s = _pause(endpoint, outcome, tries)
            is_last = tries == MOST_TRIES - 1
            if (
                is_last
                or wait_s is None
                or wait_s >= min(self._patience_s, self._ends - time.monotonic())
            ):
                break
            self._patience_s -= wait_s
            time.sleep(wait_s)
        if isinstance(outcome, ExchangeFailed):
            raise _fault_failure(endpoint, outcome)
        return outcome


def _fault_failure(endpoint: Endpoint, fault: ExchangeFailed) -> GitHubFailed:
    """The failure of a request without a complete answer."""
    kind = GitHubFault.of(fault.fault)
    message = f"could not {endpoint.doing}: {plain.label(str(fault), 300)}"
    return GitHubFailed(kind, message, hint=kind.value[1])


def _pause(endpoint: Endpoint, outcome: Answer | ExchangeFailed, tries: int) -> float | None:
    """Seconds until a request is worth another try; None if it never is. Lost connections and 5xx
    may be temporary, and limits with an end."""
    requested_s = limit_wait(outcome) if isinstance(outcome, Answer) else None
    is_limited = isinstance(outcome, Answer) and outcome.status in _LIMIT_STATUSES
    is_broken = (
        outcome.status in _SERVER_FAILURES
        if isinstance(outcome, Answer)
        else outcome.fault in _TEMPORARY_FAULTS
    )
    # Creating a check run twice is harmless, since the newest one with a name counts.
    may_repeat = endpoint.method != "POST" or endpoint is CREATE_CHECK
    if requested_s is not None and (is_limited or (is_broken and may_repeat)):
        return requested_s + random.random()  # noqa: S311 - no secret
    if is_limited or not (is_broken and may_repeat):
        return None
    return min(2.0**tries + random.random(), 2 * _LONGEST_BACKOFF_S) / 2 if tries else 0.0  # noqa: S311 - as above


def limit_wait(answer: Answer) -> float | None:
    """Seconds that an answer asks to wait; None if it reports no limit. Primary limits come with
    `x-ratelimit-remaining: 0` and a reset time, secondary limits with `Retry-After` or only in
    words, as 403, 429, or 422 for content that was created too quickly."""
    requested_s = http.parse_retry_after(
        answer.headers, current_moment=datetime.fromtimestamp(time.time(), tz=UTC)
    )
    if requested_s is not None or answer.status not in _LIMIT_STATUSES:
        return requested_s
    is_exhausted = answer.headers.get("x-ratelimit-remaining") == "0"
    reset = answer.headers.get("x-ratelimit-reset", "")
    if is_exhausted and reset.isascii() and reset.isdigit() and len(reset) < 12:
        return max(0.0, int(reset) - time.time()) + 1
    has_limit_words = any(sign in answer.body.lower() for sign in _SECONDARY_SIGNS)
    return SECONDARY_WAIT_S if is_exhausted or has_limit_words or answer.status == 429 else None


def _parse(endpoint: Endpoint, answer: Answer, parse: Callable[[bytes], Parsed]) -> Parsed:
    """The parsed answer. Raises GitHubFailed."""
    try:
        return parse(answer.body)
    except ValidationError as error:
        first_fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        reason = f"does not match the API: {words.fault_with_place(first_fault)}"
        raise _unreadable_failure(endpoint, answer, reason) from None


# --- failures in words ----------------------------------------------------------------------------


def _answer_failure(endpoint: Endpoint, answer: Answer, *, secret: str = "") -> GitHubFailed:
    """The failure that an answer with status 400 or above reports."""
    status = answer.status
    kind = GitHubFault.of(status)
    message = _redacted(secret, _error_text(answer.body))
    text = (
        f"could not {endpoint.doing}: GitHub answered {status}{f' ({message})' if message else ''}"
    )
    wait_s = limit_wait(answer) if status in _LIMIT_STATUSES else None
    if wait_s is not None:
        kind = GitHubFault.RATE_LIMITED
        end_time = datetime.fromtimestamp(time.time() + wait_s, tz=UTC).strftime("%H:%M:%S UTC")
        text = f"{text}; it asks for a pause of {wait_s:.0f} s, until {end_time}"
    hint = kind.value[1].replace("NEEDS", endpoint.needs)
    if kind is GitHubFault.FORBIDDEN and "locked" in message.lower():
        hint = _LOCKED
    elif kind is GitHubFault.FORBIDDEN and "x-github-sso" in answer.headers:
        hint = _SSO
    return GitHubFailed(kind, text, status=status, hint=hint)


def _unreadable_failure(endpoint: Endpoint, answer: Answer, detail: str) -> GitHubFailed:
    """The failure of an answer that arrived but cannot be used. `detail`: why, after `the
    answer`."""
    content_type = plain.label(answer.headers.get("content-type") or "no content type", 80)
    message = f"could not {endpoint.doing}: the answer ({answer.status}, {content_type}) {plain.label(detail, 300)}"
    return GitHubFailed(
        GitHubFault.MALFORMED, message, status=answer.status, hint=GitHubFault.MALFORMED.value[1]
    )


def _error_text(content: bytes) -> str:
    """The messages in the body of an error; an HTML page is not quoted."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return "an HTML page instead of JSON" if content.lstrip()[:1] == b"<" else ""
    messages = [member(body, "message"), *map(_detail, elements(body, "errors")[:5])]
    text = "; ".join(str(message) for message in messages if message)
    return text and plain.label(text, _MESSAGE_WIDTH)


def _detail(error: Any) -> str:
    """One of the `errors` in an answer: its place, and what is wrong there."""
    if not isinstance(error, Mapping):
        return str(error)
    place = ".".join(str(error[key]) for key in ("resource", "field") if error.get(key))
    return f"{place} {error.get('message') or error.get('code') or ''}".strip()


def _redacted(secret: str, text: str) -> str:
    """The text without the secret; unchanged if the secret is empty."""
    return text.replace(secret, "***") if secret else text


def _is_web_address(url: str) -> bool:
    """True for an absolute http or https address; a redirect may name anything."""
    try:
        scheme, host, _ = http.origin(url)
    except ExchangeFailed:
        return False
    return scheme in ("http", "https") and bool(host)
