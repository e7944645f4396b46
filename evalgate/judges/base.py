"""The types of judges: questions, replies and failures, and votes over several samples."""

from __future__ import annotations

import enum
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Protocol

from evalgate.model import NotEvaluated, Text, Usage
from evalgate.model.deviations import OURS, Deviations
from evalgate.system import http
from evalgate.text import plain
from evalgate.values import (
    Environ,
    Json,
    Sentence,
    Wording,
    frozen_dataclass,
    mapped_wording,
)

# --- one question ---------------------------------------------------------------------------------


class JudgeFailureKind(enum.StrEnum):
    """The reason why a judge gave no readable reply."""

    UNAUTHORIZED = "unauthorized"  # 401: no key, or a wrong one
    FORBIDDEN = "forbidden"  # 403
    MODEL_MISSING = "model_missing"  # 404
    # any other 4xx: options that the model does not take, a prompt that is too long
    BAD_REQUEST = "bad_request"
    RATE_LIMITED = "rate_limited"  # 429 that a wait ends
    # 429 that this run cannot outwait: a daily quota, no credit
    QUOTA_SPENT = "quota_spent"
    OVERLOADED = "overloaded"  # 503, 529: too many requests by all users
    SERVER_ERROR = "server_error"  # any other 5xx
    TIMEOUT = "timeout"  # no answer in time
    CONNECTION = "connection"  # or no such host
    MALFORMED = "malformed"  # a response that does not match the API
    EMPTY = "empty"
    BLOCKED = "blocked"  # by a safety filter, of the prompt or of the reply
    TRUNCATED = "truncated"  # at the token limit
    # ours
    BUDGET_SPENT = "budget_spent"
    NO_RECORDING = "no_recording"
    NOT_CONFIGURED = "not_configured"  # no client for this model


RETRIABLE = frozenset(
    JudgeFailureKind[name]
    for name in (
        "RATE_LIMITED",
        "OVERLOADED",
        "SERVER_ERROR",
        "TIMEOUT",
        "CONNECTION",
        "MALFORMED",
        "EMPTY",
    )
)
"""Kinds of failures that may not occur again if the same question is repeated."""

_LONGEST_DETAIL = 300
_MOST_READ = 10_000
_MARKUP = re.compile(r"<(style|script).*?</\1>|<[^<>]*>", re.DOTALL)

MOST_BYTES = 8_000_000
"""The limit of a judge's unpacked answer; a larger answer is invalid."""

FINAL_KINDS = frozenset(
    JudgeFailureKind[name]
    for name in (
        "UNAUTHORIZED",
        "FORBIDDEN",
        "MODEL_MISSING",
        "QUOTA_SPENT",
        "BUDGET_SPENT",
        "NOT_CONFIGURED",
    )
)
"""Kinds of failures that every further question of the same model would meet as well."""

REFUSED = frozenset(
    {JudgeFailureKind.UNAUTHORIZED, JudgeFailureKind.FORBIDDEN, JudgeFailureKind.NOT_CONFIGURED}
)
"""Kinds of failure that only other credentials fix."""


@frozen_dataclass
class JudgeFailure:
    """The reason why there is no reply."""

    kind: JudgeFailureKind
    message: Wording
    """Names the next step. Without the key; the panel redacts other secrets."""
    retry_after_s: float | None = None
    """The wait that the provider asks for; None if it does not."""
    usage: Usage | None = None
    """Tokens that were spent anyway, as for a reply that was cut."""


class JudgeFailed(Exception):  # noqa: N818 - it carries a JudgeFailure
    """A judge gave no reply; `failure` says why."""

    def __init__(self, failure: JudgeFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@frozen_dataclass
class Asker:
    """Who asks: a criterion, and the version of its prompt."""

    criterion: str
    version: str


@frozen_dataclass
class JudgeRequest:
    """One question to a judge. Every field is part of its address in the cache."""

    model: str
    """As ADK writes it (`gemini-2.5-flash`, `openai/gpt-4.1`)."""
    prompt: str
    asker: Asker
    system: str = ""
    config: Json = field(default_factory=dict)
    """ADK's `judge_model_config`: the fields of GenerateContentConfig in either spelling."""
    schema: Json | None = None
    """JSON schema of the reply, for endpoints that support it."""
    sample: int = 0
    """Counts from 0 in each run of the case."""
    repeat: int | str = 0
    """The run of the case: runs that shared a verdict would count one observation several times."""


@frozen_dataclass
class JudgeReply:
    """A judge's answer."""

    parts: tuple[Text, ...]
    usage: Usage | None = None
    model_version: str | None = None
    finish: str = ""
    cached: bool = False
    """True if it was read from a cache or recording, and cost nothing."""

    @property
    def text(self) -> str:
        """The answer without the model's thoughts."""
        return "".join(part.text for part in self.parts if not part.thought)


class Judge(ABC):
    """An opened client of one provider; safe to call from many threads. It never retries by
    itself."""

    def __init__(self, setting: JudgeSetting) -> None:
        self._setting = setting

    @abstractmethod
    def _ask(self, request: JudgeRequest) -> JudgeReply | JudgeFailure:
        """Ask once."""

    def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask once. Raises JudgeFailed."""
        outcome = self._ask(request)
        if isinstance(outcome, JudgeFailure):
            # raised here, so that no foreign exception, with a header in it, is its cause
            raise JudgeFailed(outcome)
        return outcome

    def close(self) -> None:  # noqa: B027 - not all clients hold connections
        """Close connections. Never raises."""


@frozen_dataclass
class JudgeSetting:
    """The settings of a judge's client."""

    model: str
    """The name at the provider."""
    base_url: str = ""
    """Empty: the provider's own."""
    api_key: str = ""
    """Empty if there is no key."""
    api_key_env: tuple[str, ...] = ()
    """The variables that may contain it; empty if the endpoint needs none."""
    vertex: bool = False
    """True: use Google Cloud."""
    environment: Environ = field(default_factory=dict)
    """For variables that a client reads itself (projects, certificates)."""
    timeout_s: float = 120.0
    path: str = ""
    """The recordings of a replay; absolute."""

    def without_key(self, text: str) -> str:
        """The text without the key."""
        return text.replace(self.api_key, "***") if self.api_key else text

    def failure(
        self,
        kind: JudgeFailureKind,
        detail: str = "",
        *,
        retry_after_s: float | None = None,
        usage: Usage | None = None,
    ) -> JudgeFailure:
        """A failure in words: the judge, the failure, the provider's message, the next step.
        Without the key; the panel removes other secrets."""
        # foreign text on one line, without the markup of an error page, shortened
        excerpt = " ".join(_MARKUP.sub(" ", detail[:_MOST_READ]).split())
        excerpt = plain.clip_end(excerpt, _LONGEST_DETAIL)
        message = Sentence(
            "judge_failure", kind, self.model, excerpt, self.vertex, self.api_key_env
        )
        return JudgeFailure(
            kind=kind,
            message=mapped_wording(message, self.without_key),
            retry_after_s=retry_after_s,
            usage=usage,
        )

    def complete(
        self, reply: JudgeReply, *, blocked: str = "", is_truncated: bool = False
    ) -> JudgeReply | JudgeFailure:
        """The reply, unless a filter blocked it (`blocked`: in the provider's words), the token
        limit cut it, or it has no text."""
        if blocked:
            return self.failure(JudgeFailureKind.BLOCKED, blocked, usage=reply.usage)
        if is_truncated:
            return self.failure(JudgeFailureKind.TRUNCATED, usage=reply.usage)
        if not reply.text.strip():
            return self.failure(JudgeFailureKind.EMPTY, reply.finish, usage=reply.usage)
        return reply


@frozen_dataclass
class JudgeDriver:
    """One row of `evalgate.judges.JUDGES`."""

    name: str
    """The word in settings (gemini, openai, replay)."""
    missing: Callable[[JudgeSetting], str]
    """The missing configuration, with the next step, or ""; it makes no calls."""
    open: Callable[[JudgeSetting], Judge]
    """Opens the client; raises JudgeFailed(NOT_CONFIGURED)."""


# --- a vote among samples -------------------------------------------------------------------------


@frozen_dataclass
class Vote:
    """The vote of one sample on one item."""

    passed: bool | None
    """None: its word matches no label."""
    label: str = ""
    rationale: str = ""
    sure: bool = True
    """False: the judge may have quoted it; it counts if a second question gives the same."""


@frozen_dataclass
class SampledRequest:
    """One question for several samples, and the reader of replies."""

    requests: tuple[JudgeRequest, ...]
    """One for each sample."""
    parse: Callable[[JudgeReply], Mapping[str, Vote]]
    """The votes in a reply, by item; an item that the reply skips has no key. It must not raise."""
    items: tuple[str, ...] = ("",)
    """The items to vote on, such as rubric ids; a single label has the item ""."""
    again: Callable[[int, tuple[str, ...]], JudgeRequest] | None = None
    """The request that asks a sample once more, about items that were skipped or are not sure.
    None: skipped items count as unreadable, the others as they are."""
    exhaustive: bool = False
    """True: every sample is asked, decided or not."""
    deviations: Deviations = OURS


@frozen_dataclass
class Sample:
    """One sample: its votes and its text, or its failure."""

    index: int
    votes: Mapping[str, Vote] = field(default_factory=dict)
    """By item."""
    text: str = ""
    cached: bool = False
    failure: JudgeFailure | None = None


@frozen_dataclass
class VoteResult:
    """The verdicts of a request, and its samples."""

    request: SampledRequest
    items: Mapping[str, Vote | NotEvaluated]
    """In the order of the request: the first vote of the winning side, or why the item is
    undecided."""
    samples: tuple[Sample, ...]
    """Those that were asked, by index."""


class JudgePanel(Protocol):
    """The judges of a criterion: cached, rate-limited, within the budget, counted. Safe for many
    threads."""

    def vote(self, sampled_request: SampledRequest) -> VoteResult:
        """Ask as many samples as can still change an item, in parallel. Failures are part of the
        result."""

    def vote_all(self, sampled_requests: Sequence[SampledRequest]) -> tuple[VoteResult, ...]:
        """The same for many requests at once, in their order."""

    def ask(self, request: JudgeRequest) -> JudgeReply:
        """One reply. Raises JudgeFailed."""


_STATUSES: Mapping[int, JudgeFailureKind] = MappingProxyType(
    {
        **dict.fromkeys((401, 407), JudgeFailureKind.UNAUTHORIZED),
        402: JudgeFailureKind.QUOTA_SPENT,
        403: JudgeFailureKind.FORBIDDEN,
        404: JudgeFailureKind.MODEL_MISSING,
        **dict.fromkeys((408, 504, 524), JudgeFailureKind.TIMEOUT),
        429: JudgeFailureKind.RATE_LIMITED,
        **dict.fromkeys((503, 529), JudgeFailureKind.OVERLOADED),
    }
)


def wait_of(headers: Mapping[Any, Any]) -> float | None:
    """The wait in seconds that a response asks for; None if it does not."""
    texts = {str(name).lower(): str(header) for name, header in headers.items()}
    return http.parse_retry_after(texts, current_moment=datetime.now(UTC))


def kind_of_status(status: int) -> JudgeFailureKind:
    """The kind of failure for an HTTP status."""
    fallback = (
        JudgeFailureKind.BAD_REQUEST if 400 <= status < 500 else JudgeFailureKind.SERVER_ERROR
    )
    return _STATUSES.get(status, fallback)


ADK_MODEL = "gemini-2.5-flash"
ADK_SAMPLES = 5
