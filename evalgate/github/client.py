"""The client of GitHub's REST API: every call that evalgate makes, one token for one host, patient within bounds."""

from __future__ import annotations

import enum
import json
import logging
import math
import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, urlencode, urljoin, urlsplit

import requests
import urllib3
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from requests.adapters import HTTPAdapter
from urllib3.exceptions import InvalidHeader, MaxRetryError, ReadTimeoutError

from evalgate import __version__
from evalgate.errors import ConfigError, UnavailableError
from evalgate.system import http
from evalgate.system.http import ExchangeFailed
from evalgate.text import plain, words
from evalgate.values import Environ, Json

if TYPE_CHECKING:
    from types import TracebackType

    from urllib3.connectionpool import ConnectionPool

API_VERSION = "2022-11-28"
MOST_TRIES = 5
MOST_ANSWER_BYTES = 32 * 1024 * 1024  # a page of a hundred full comments is 26 MB at worst
MOST_PAGES = 100
PAGE_SIZE = 100
SECONDARY_WAIT_S = 60.0
"""GitHub's advice for a secondary limit that names no time: at least a minute."""
_SECONDARY_SIGNS = (b"secondary rate limit", b"abuse detection", b"submitted too quickly")
_LIMITED: Final = frozenset({403, 422, 429})
_BROKEN: Final = frozenset({500, 502, 503, 504})
_DOWNLOAD_S = 300.0
_CHUNK_BYTES = 64 * 1024
_LONGEST_SAYING = 300
_REPOSITORY = re.compile(r"(?!\.{1,2}/)[A-Za-z0-9._-]+/(?!\.{1,2}\Z)[A-Za-z0-9._-]+")
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")

Reply = TypeVar("Reply", bound=BaseModel)
Parsed = TypeVar("Parsed")


# --- the calls ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One call: `doing` says for people what it is for, `needs` which permission a job grants for it."""

    method: str
    path: str
    doing: str
    needs: str


_REPO = "/repos/{owner}/{repo}"
_COMMENTS = f"{_REPO}/issues/{{issue_number}}/comments"
_COMMENT = f"{_REPO}/issues/comments/{{comment_id}}"
_CHECKS = f"{_REPO}/check-runs"


LIST_COMMENTS: Final = Endpoint("GET", _COMMENTS, "read the comments of the pull request", "pull-requests: write")
CREATE_COMMENT: Final = Endpoint("POST", _COMMENTS, "comment on the pull request", "pull-requests: write")
UPDATE_COMMENT: Final = Endpoint("PATCH", _COMMENT, "update the comment on the pull request", "pull-requests: write")
DELETE_COMMENT: Final = Endpoint("DELETE", _COMMENT, "delete a duplicate of the comment", "pull-requests: write")
CREATE_CHECK: Final = Endpoint("POST", _CHECKS, "create the check run", "checks: write")
UPDATE_CHECK: Final = Endpoint("PATCH", f"{_CHECKS}/{{check_run_id}}", "update the check run", "checks: write")
LIST_RUN_ARTIFACTS: Final = Endpoint(
    "GET", f"{_REPO}/actions/runs/{{run_id}}/artifacts", "list the artifacts of a workflow run", "actions: read"
)
DOWNLOAD_ARTIFACT: Final = Endpoint(
    "GET", f"{_REPO}/actions/artifacts/{{artifact_id}}/{{archive_format}}", "download an artifact", "actions: read"
)
FETCH_PULL: Final = Endpoint("GET", f"{_REPO}/pulls/{{pull_number}}", "read the pull request", "pull-requests: read")
LIST_PULL_COMMITS: Final = Endpoint(
    "GET", f"{_REPO}/pulls/{{pull_number}}/commits", "read the commits of the pull request", "pull-requests: read"
)
LIST_PULLS: Final = Endpoint("GET", f"{_REPO}/pulls", "look for the pull request of a branch", "pull-requests: read")
LIST_COMMIT_PULLS: Final = Endpoint(
    "GET", f"{_REPO}/commits/{{commit_sha}}/pulls", "look for the pull request of a commit", "pull-requests: read"
)
FETCH_USER: Final = Endpoint("GET", "/user", "find out whose token this is", "read:user")


# --- what is read of the answers ------------------------------------------------------------------------


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class User(_Reply):
    """An account: a person, or a bot, whose login ends in `[bot]`."""

    login: str
    type: str = ""


class Comment(_Reply):
    """A comment on an issue or a pull request; a deleted account is no user."""

    id: int
    body: str | None = None
    user: User | None = None


class CheckRun(_Reply):
    """A check run."""

    id: int


class ArtifactRun(_Reply):
    """The workflow run that made an artifact."""

    head_sha: str | None = None


class Artifact(_Reply):
    """An artifact; `digest` (`sha256:...`) is of its zip, `created_at` in ISO 8601."""

    id: int
    name: str
    size_in_bytes: int
    expired: bool
    created_at: str | None = None
    digest: str | None = None
    workflow_run: ArtifactRun | None = None


class RepositoryReply(_Reply):
    """A repository."""

    full_name: str


class PullSide(_Reply):
    """Base or head of a pull request; the repository of a deleted fork is null."""

    ref: str
    sha: str
    repo: RepositoryReply | None = None


class Pull(_Reply):
    """A pull request."""

    number: int
    state: str
    base: PullSide
    head: PullSide

    @property
    def is_fork(self) -> bool:
        """Whether the head is in another repository, or in one that was deleted."""
        here, there = self.base.repo, self.head.repo
        return here is None or there is None or there.full_name.lower() != here.full_name.lower()


class Commit(_Reply):
    """A commit."""

    sha: str


# --- what goes wrong ------------------------------------------------------------------------------------


class GitHubFault(enum.StrEnum):
    """What went wrong."""

    UNAUTHORIZED = "unauthorized"  # 401
    FORBIDDEN = "forbidden"  # 403 that waiting does not cure
    NOT_FOUND = "not_found"  # 404: not there, or hidden from the token
    CONFLICT = "conflict"  # 409
    GONE = "gone"  # 410: an expired artifact
    INVALID = "invalid"  # 422
    REFUSED = "refused"  # any other 4xx
    RATE_LIMITED = "rate_limited"  # 403, 422 or 429, and the wait is longer than we may wait
    SERVER = "server"  # 5xx, time and again
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"  # refused, reset, no such host
    TOO_LARGE = "too_large"
    MALFORMED = "malformed"  # no JSON, JSON of another shape, a broken archive
    REDIRECTED = "redirected"  # to a place that must not see the token


AMBIGUOUS: Final = frozenset(
    {GitHubFault.SERVER, GitHubFault.TIMEOUT, GitHubFault.UNREACHABLE, GitHubFault.MALFORMED, GitHubFault.TOO_LARGE}
)
"""Failures after which GitHub may have done what it was asked."""

_KINDS: Final[Mapping[int, GitHubFault]] = {
    401: GitHubFault.UNAUTHORIZED,
    403: GitHubFault.FORBIDDEN,
    404: GitHubFault.NOT_FOUND,
    409: GitHubFault.CONFLICT,
    410: GitHubFault.GONE,
    413: GitHubFault.INVALID,
    422: GitHubFault.INVALID,
    429: GitHubFault.RATE_LIMITED,
}
_HINTS: Final[Mapping[GitHubFault, str]] = {
    GitHubFault.UNAUTHORIZED: "The token is missing, wrong or expired; the job's own is `${{ github.token }}`.",
    GitHubFault.FORBIDDEN: "The job needs `permissions: NEEDS`; a pull request from a fork never has it "
    "(docs/github.md).",
    GitHubFault.NOT_FOUND: "It does not exist, or the token cannot see it: the job needs `permissions: NEEDS`.",
    GitHubFault.CONFLICT: "Something else changed it at the same time; run the job again.",
    GitHubFault.GONE: "It no longer exists: artifacts expire after their `retention-days`.",
    GitHubFault.INVALID: "GitHub rejected the request; please report this with the message above.",
    GitHubFault.RATE_LIMITED: "Too many requests were made with this token; run the job again later.",
    GitHubFault.SERVER: "GitHub has problems (githubstatus.com); run the job again later.",
    GitHubFault.TIMEOUT: "GitHub or a proxy is slow; run the job again.",
    GitHubFault.UNREACHABLE: "Check GITHUB_API_URL, the proxy settings (HTTPS_PROXY, NO_PROXY) and the network.",
    GitHubFault.MALFORMED: "Check that GITHUB_API_URL is the address of an API and that no proxy answers in its place.",
    GitHubFault.REDIRECTED: "Check GITHUB_API_URL.",
}
_LOCKED = "The conversation is locked: unlock it, or read the report in the job summary."
_SSO = "The token has to be authorized for the organization's single sign-on."


class GitHubFailed(UnavailableError):  # noqa: N818 - it says what happened
    """GitHub did not do it; `kind` and `status` for programs, message and hint for people. Never holds the token."""

    def __init__(self, kind: GitHubFault, message: str, *, status: int | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.status = status

    @property
    def not_permitted(self) -> bool:
        """Whether the token lacks a permission: what it would have written has to go elsewhere."""
        return self.kind in (GitHubFault.FORBIDDEN, GitHubFault.NOT_FOUND)


# --- the client -----------------------------------------------------------------------------------------


class Client:
    """The calls above, each answered by a value or a GitHubFailed; for one thread at a time.

    Proxies and certificates are those of the environment. `timeout_s`: of one request. `patience_s`: what may be spent
    waiting for limits and faults to pass, over all requests. Raises ConfigError.
    """

    def __init__(
        self,
        *,
        repository: str,
        token: str,
        api_url: str = "https://api.github.com",
        timeout_s: float = 20.0,
        patience_s: float = 120.0,
    ) -> None:
        if not _REPOSITORY.fullmatch(repository):
            raise ConfigError(f"GITHUB_REPOSITORY must be owner/name, got {repository[:100]!r}")
        token = token.strip()
        if not _TOKEN.fullmatch(token):  # whatever else would complain of it would show it
            raise ConfigError("the GitHub token is empty or has characters that no token has")
        self.repository = repository
        self.token_of_app = token.startswith("ghs_")
        self._api_url = api_url.rstrip("/")
        self._token = token
        # Its warnings of retries would show signed addresses.
        logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
        self._budget = _Budget(timeout_s=timeout_s, patience_s=patience_s)
        self._session = _Session()
        self._session.auth = self._with_token
        self._session.max_redirects = 3
        self._session.verify = os.environ.get("SSL_CERT_FILE") or True  # requests knows REQUESTS_CA_BUNDLE alone
        self._session.headers.update(
            {
                "accept": "application/vnd.github+json",
                "x-github-api-version": API_VERSION,
                "user-agent": f"evalgate/{__version__}",
            }
        )
        self._session.mount(self._api_url, _with_retry(self._budget, methods=("GET", "PATCH", "DELETE")))
        # Twice created does no harm here, since the newest check run of a name counts.
        self._session.mount(self._url(CREATE_CHECK, {}), _with_retry(self._budget, methods=None))

    @classmethod
    def of(cls, environ: Environ, *, token: str) -> Client:
        """The client for the repository of a runner's environment. Raises ConfigError."""
        api_url = environ.get("GITHUB_API_URL") or "https://api.github.com"
        return cls(repository=environ.get("GITHUB_REPOSITORY", ""), token=token, api_url=api_url)

    def copy(self, *, timeout_s: float, patience_s: float) -> Client:
        """A further client of the same repository, for another thread."""
        given = {"repository": self.repository, "token": self._token, "api_url": self._api_url}
        return Client(**given, timeout_s=timeout_s, patience_s=patience_s)

    def close(self) -> None:
        """Let go of the connection."""
        self._session.close()

    def end_within(self, seconds: float) -> None:
        """From now on all calls and waits together have so much time; another thread may say so."""
        self._budget.ends = time.monotonic() + seconds

    def fetch(
        self, endpoint: Endpoint, shape: type[Reply], *, query: Mapping[str, str] | None = None, **values: object
    ) -> Reply:
        """GET one thing. Raises GitHubFailed."""
        return self._answer(endpoint, self._url(endpoint, values, query), shape.model_validate_json)[0]

    def fetch_all(
        self,
        endpoint: Endpoint,
        shape: type[Reply],
        *,
        query: Mapping[str, str] | None = None,
        under: str = "",
        **values: object,
    ) -> list[Reply]:
        """GET a list, page by page as `Link` says; `under`: its key in the answer. Raises GitHubFailed."""
        adapter = TypeAdapter(list[shape])  # type: ignore[valid-type]  # a list of whatever shape was asked for

        def parse(body: bytes) -> list[Reply]:
            try:
                found = json.loads(body)
            except RecursionError:
                raise ValueError("nested too deeply") from None
            return adapter.validate_python(found.get(under) if under and isinstance(found, dict) else found)

        url = self._url(endpoint, values, {**(query or {}), "per_page": str(PAGE_SIZE)})
        found: list[Reply] = []
        for _ in range(MOST_PAGES):
            page, response = self._answer(endpoint, url, parse)
            found += page
            following = response.links.get("next", {}).get("url")
            if not following:
                return found
            if _same_origin(response.url, following) is None:
                raise _other_host(endpoint, following)
            url = urljoin(response.url, following)
        message = f"could not {endpoint.doing}: there are more than {MOST_PAGES} pages"
        raise GitHubFailed(GitHubFault.TOO_LARGE, message)

    def send(self, endpoint: Endpoint, shape: type[Reply], *, body: Json, **values: object) -> Reply:
        """POST or PATCH. Raises GitHubFailed."""
        return self._answer(endpoint, self._url(endpoint, values), shape.model_validate_json, body=body)[0]

    def remove(self, endpoint: Endpoint, **values: object) -> bool:
        """DELETE; False where it was not there any more. Raises GitHubFailed."""
        try:
            self._answer(endpoint, self._url(endpoint, values), bytes)
        except GitHubFailed as failed:
            if failed.status in (404, 410):
                return False
            raise
        return True

    def download(self, endpoint: Endpoint, into: IO[bytes], *, most_bytes: int, **values: object) -> None:
        """GET what another host keeps, which never sees the token. Raises GitHubFailed, and OSError of `into`."""
        with self._asked(endpoint, self._session, self._url(endpoint, values), follow=False) as start:
            if start.status_code >= 400:
                raise _of_answer(endpoint, start, hidden=self._token)
            target = start.headers.get("location", "")
            if not start.is_redirect or _origin(target) is None:
                raise _unreadable(endpoint, start, "does not redirect to the download")
        signature = urlsplit(target).query  # whoever has it may read the artifact
        with requests.Session() as storage:
            storage.verify = self._session.verify
            for scheme in ("http://", "https://"):
                storage.mount(scheme, _with_retry(self._budget, methods=("GET",)))
            for again in (True, False):  # a connection that is lost in the middle: nobody else begins anew
                into.seek(0)
                into.truncate()
                try:
                    with self._asked(endpoint, storage, target, hidden=signature) as response:
                        if response.status_code != 200:
                            raise _of_answer(endpoint, response)
                        self._copy(endpoint, response, into, most_bytes=most_bytes, most_s=_DOWNLOAD_S)
                except GitHubFailed as failed:
                    if again and failed.kind is GitHubFault.UNREACHABLE:
                        continue
                    kind = GitHubFault.REFUSED if failed.not_permitted else failed.kind
                    hint = "GitHub stores artifacts on this other host; a proxy may block it."
                    message = f"{_without(signature, failed.message)} (from storage)"
                    raise GitHubFailed(kind, message, status=failed.status, hint=hint) from None
                return

    def _with_token(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["authorization"] = f"Bearer {self._token}"
        return request

    def _url(self, endpoint: Endpoint, values: Mapping[str, object], query: Mapping[str, str] | None = None) -> str:
        owner, _, repo = self.repository.partition("/")
        filled = {name: quote(str(value), safe="") for name, value in values.items()}
        path = endpoint.path.format(owner=owner, repo=repo, **filled)
        return f"{self._api_url}{path}{f'?{urlencode(query)}' if query else ''}"

    def _answer(
        self, endpoint: Endpoint, url: str, parse: Callable[[bytes], Parsed], *, body: Json | None = None
    ) -> tuple[Parsed, requests.Response]:
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        with self._asked(endpoint, self._session, url, data=data) as response:
            if response.status_code >= 400:
                raise _of_answer(endpoint, response, hidden=self._token)
            if response.is_redirect:
                raise _other_host(endpoint, response.headers["location"])
            held = bytearray()
            self._copy(endpoint, response, held, most_bytes=MOST_ANSWER_BYTES, most_s=self._budget.timeout_s)
            try:
                return parse(bytes(held)), response
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False, include_context=False)[0]
                why = f"does not match the API: {words.fault_with_place(first)}"
                raise _unreadable(endpoint, response, why) from None
            except (ValueError, RecursionError):
                raise _unreadable(endpoint, response, "is not JSON") from None

    @contextmanager
    def _asked(
        self,
        endpoint: Endpoint,
        session: requests.Session,
        url: str,
        *,
        data: bytes | None = None,
        hidden: str = "",
        follow: bool = True,
    ) -> Iterator[requests.Response]:
        """The answer, whose body can be read within. Raises GitHubFailed, also where reading breaks off."""
        failed: GitHubFailed
        try:
            if self._budget.left_s() <= 0:
                raise requests.Timeout
            timeout = _TimeLeft(self._budget)
            headers = {} if data is None else {"content-type": "application/json"}
            given: dict[str, Any] = {"data": data, "headers": headers, "timeout": timeout, "allow_redirects": follow}
            with session.request(endpoint.method, url, stream=True, **given) as response:
                yield response
        except requests.TooManyRedirects:
            failed = _other_host(endpoint, "a redirect loop")
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            failed = _of_error(endpoint, error, hidden=hidden)
        else:
            return
        raise failed from None

    def _copy(
        self,
        endpoint: Endpoint,
        response: requests.Response,
        into: IO[bytes] | bytearray,
        *,
        most_bytes: int,
        most_s: float,
    ) -> None:
        size, ends = 0, time.monotonic() + most_s
        # Not `iter_content`: that waits until a chunk is full, and a server that trickles never fills one.
        while chunk := response.raw.read1(_CHUNK_BYTES, decode_content=True):
            size += len(chunk)
            if size > most_bytes:
                message = f"could not {endpoint.doing}: the answer is larger than {most_bytes:,} bytes"
                raise GitHubFailed(GitHubFault.TOO_LARGE, message)
            if time.monotonic() > min(ends, self._budget.ends):
                raise requests.Timeout
            into.extend(chunk) if isinstance(into, bytearray) else into.write(chunk)


@dataclass(slots=True)
class _Budget:
    """What one request, all waits together and everything together (`ends`, monotonic) may take."""

    timeout_s: float
    patience_s: float
    ends: float = math.inf

    def left_s(self) -> float:
        return self.ends - time.monotonic()


class _TimeLeft(urllib3.Timeout):
    """The time of one try: urllib3 asks for it anew before each."""

    def __init__(self, budget: _Budget) -> None:
        super().__init__(total=max(0.001, min(budget.timeout_s, budget.left_s())))
        self._budget = budget

    def clone(self) -> urllib3.Timeout:
        return _TimeLeft(self._budget)


class _Session(requests.Session):
    """A session that follows redirects on the host it asked alone: of a repository that was renamed, for one."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        target = super().get_redirect_target(resp)
        return target if target and _same_origin(resp.url, target) else None


class _Retry(urllib3.Retry):
    """Repeats what may pass: lost connections, 5xx, limits that say when they end, within the budget."""

    budget: _Budget
    wait_s: float = 0.0

    def new(self, **given: Any) -> _Retry:
        made = super().new(**given)
        made.budget = self.budget
        return made

    def is_retry(self, method: str, status_code: int, has_retry_after: bool = False) -> bool:  # noqa: FBT001, FBT002 - urllib3's
        return status_code in _LIMITED or super().is_retry(method, status_code, has_retry_after)

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: urllib3.BaseHTTPResponse | None = None,
        error: Exception | None = None,
        _pool: ConnectionPool | None = None,
        _stacktrace: TracebackType | None = None,
    ) -> _Retry:
        """The retries that are left; MaxRetryError where none makes sense, which hands on the answer that is there."""
        following = super().increment(method, url, response, error, _pool, _stacktrace)
        asked_s = None if response is None else limit_wait(response)
        limited = response is not None and response.status in _LIMITED
        wait_s = following.get_backoff_time() if asked_s is None else asked_s + random.random()  # noqa: S311 - no secret
        left_s = min(self.budget.left_s(), self.budget.patience_s)
        if (limited and asked_s is None) or wait_s >= left_s:
            raise MaxRetryError(_pool, url or "", error)  # type: ignore[arg-type]  # urllib3 passes its pool on as well
        self.budget.patience_s -= wait_s
        following.wait_s = wait_s
        return following

    def sleep(self, response: urllib3.BaseHTTPResponse | None = None) -> None:  # noqa: ARG002 - urllib3's
        time.sleep(self.wait_s)


def _with_retry(budget: _Budget, *, methods: tuple[str, ...] | None) -> HTTPAdapter:
    retries = _Retry(
        total=MOST_TRIES - 1,
        redirect=False,
        status_forcelist=_BROKEN,
        allowed_methods=methods,
        backoff_factor=0.5,
        backoff_max=20,
        backoff_jitter=0.5,
        raise_on_status=False,
    )
    retries.budget = budget
    return HTTPAdapter(max_retries=retries)


def limit_wait(response: urllib3.BaseHTTPResponse) -> float | None:
    """Seconds that an answer asks to wait; None where it tells of no limit. Primary limits come with
    `x-ratelimit-remaining: 0` and a reset time, secondary ones with `Retry-After` or only in words, as 403, 429, or 422
    for content that was created too quickly."""
    asked = response.headers.get("retry-after")
    if asked is not None:
        with suppress(InvalidHeader):
            return urllib3.Retry().parse_retry_after(asked)
    if response.status not in _LIMITED:
        return None
    exhausted = response.headers.get("x-ratelimit-remaining") == "0"
    reset = response.headers.get("x-ratelimit-reset", "")
    if exhausted and reset.isascii() and reset.isdigit() and len(reset) < 12:
        return max(0.0, int(reset) - time.time()) + 1
    response.decode_content = True
    in_words = any(sign in response.data.lower() for sign in _SECONDARY_SIGNS)
    return SECONDARY_WAIT_S if exhausted or in_words or response.status == 429 else None


# --- failures in words ----------------------------------------------------------------------------------


def _of_answer(endpoint: Endpoint, response: requests.Response, *, hidden: str = "") -> GitHubFailed:
    """The failure that an answer with a status from 400 on tells of."""
    status = response.status_code
    kind = _KINDS.get(status, GitHubFault.SERVER if status >= 500 else GitHubFault.REFUSED)
    response.raw.decode_content = True
    said = _without(hidden, _said(response.raw.data))  # not `content`: a retry may have read it already
    words = f"could not {endpoint.doing}: GitHub answered {status}{f' ({said})' if said else ''}"
    wait_s = limit_wait(response.raw) if status in _LIMITED else None
    if wait_s is not None:
        kind = GitHubFault.RATE_LIMITED
        until = datetime.fromtimestamp(time.time() + wait_s, tz=UTC).strftime("%H:%M:%S UTC")
        words = f"{words}; it asks for a pause of {wait_s:.0f} s, until {until}"
    hint = _HINTS.get(kind, "").replace("NEEDS", endpoint.needs)
    if kind is GitHubFault.FORBIDDEN and "locked" in said.lower():
        hint = _LOCKED
    elif kind is GitHubFault.FORBIDDEN and "x-github-sso" in response.headers:
        hint = _SSO
    return GitHubFailed(kind, words, status=status, hint=hint)


def _of_error(endpoint: Endpoint, error: Exception, *, hidden: str = "") -> GitHubFailed:
    """The failure of a request that got no answer, or half of one."""
    reason = error.args[0] if error.args else error
    reason = getattr(reason, "reason", None) or reason
    slow = isinstance(error, requests.ReadTimeout | ReadTimeoutError) or isinstance(reason, ReadTimeoutError)
    slow = slow or type(error) is requests.Timeout
    kind = GitHubFault.TIMEOUT if slow else GitHubFault.UNREACHABLE
    told = "the request timed out" if slow else _without(hidden, str(reason).rpartition("): ")[2])
    return GitHubFailed(kind, f"could not {endpoint.doing}: {plain.label(told, 300)}", hint=_HINTS[kind])


def _unreadable(endpoint: Endpoint, response: requests.Response, detail: str) -> GitHubFailed:
    sort = plain.label(response.headers.get("content-type") or "no content type", 80)
    status, kind = response.status_code, GitHubFault.MALFORMED
    message = f"could not {endpoint.doing}: the answer ({status}, {sort}) {plain.label(detail, 300)}"
    return GitHubFailed(kind, message, status=status, hint=_HINTS[kind])


def _other_host(endpoint: Endpoint, address: str) -> GitHubFailed:
    host = (_origin(address) or ("", "", None))[1] or address
    message = f"could not {endpoint.doing}: GitHub redirects to another host ({plain.label(host, 100)})"
    return GitHubFailed(GitHubFault.REDIRECTED, message, hint=_HINTS[GitHubFault.REDIRECTED])


def _said(content: bytes) -> str:
    """GitHub's own words in the body of an error; nothing of a page of HTML."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return "an HTML page instead of JSON" if content.lstrip()[:1] == b"<" else ""
    if not isinstance(body, dict):
        return ""
    said = [str(body.get("message") or "")]
    errors = body.get("errors")
    for each in errors[:5] if isinstance(errors, list) else ():
        if isinstance(each, Mapping):
            place = ".".join(str(each[key]) for key in ("resource", "field") if each.get(key))
            said.append(f"{place} {each.get('message') or each.get('code') or ''}".strip())
        else:
            said.append(str(each))
    return plain.label("; ".join(word for word in said if word), _LONGEST_SAYING) if any(said) else ""


def _without(secret: str, text: str) -> str:
    return text.replace(secret, "***") if secret else text


def _origin(url: str) -> tuple[str, str, int | None] | None:
    """Scheme, host in lower case and port; None where `url` is no address of HTTP."""
    try:
        found = http.origin(url)
    except ExchangeFailed:
        return None
    return found if found[0] in ("http", "https") and found[1] else None


def _same_origin(base: str, reference: str) -> str | None:
    """Where `reference`, found at `base`, leads, if the token may be shown there."""
    try:
        url = urljoin(base, reference)
    except ValueError:
        return None
    return url if _origin(url) is not None and _origin(url) == _origin(base) else None
