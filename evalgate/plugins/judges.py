"""The shapes of a judge, of what it is asked and of what a vote among its samples says."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from evalgate.model import Json, Text, Usage

# --- one question ---------------------------------------------------------------------------------


class JudgeFailureKind(enum.StrEnum):
    """Why a judge gave no reply that could be read."""

    UNAUTHORIZED = "unauthorized"  # 401: no key, or a wrong one
    FORBIDDEN = "forbidden"  # 403: the key may not use this model or project
    MODEL_MISSING = "model_missing"  # 404
    BAD_REQUEST = "bad_request"  # any other 4xx: options that the model does not take, a prompt that is too long
    RATE_LIMITED = "rate_limited"  # 429 that time cures
    QUOTA_SPENT = "quota_spent"  # 429 that this run cannot outwait: a daily quota, no credit
    OVERLOADED = "overloaded"  # 503, 529: too much for it, whoever asks
    SERVER_ERROR = "server_error"  # any other 5xx
    TIMEOUT = "timeout"
    CONNECTION = "connection"  # refused, reset, no such host
    MALFORMED = "malformed"  # the body is not what the API promises
    EMPTY = "empty"  # no candidate, or one without text
    BLOCKED = "blocked"  # a safety filter, of the prompt or of the reply
    TRUNCATED = "truncated"  # cut at the token limit
    BUDGET_SPENT = "budget_spent"  # ours: the run may spend no more
    NO_RECORDING = "no_recording"  # a replay has nothing for this question
    NOT_CONFIGURED = "not_configured"  # no client can be made for this model


RETRIABLE: frozenset[JudgeFailureKind] = frozenset(
    {
        JudgeFailureKind.RATE_LIMITED,
        JudgeFailureKind.OVERLOADED,
        JudgeFailureKind.SERVER_ERROR,
        JudgeFailureKind.TIMEOUT,
        JudgeFailureKind.CONNECTION,
        JudgeFailureKind.MALFORMED,
        JudgeFailureKind.EMPTY,
    }
)
"""Kinds that the same question may escape when it is asked again."""

FINAL: frozenset[JudgeFailureKind] = frozenset(
    {
        JudgeFailureKind.UNAUTHORIZED,
        JudgeFailureKind.FORBIDDEN,
        JudgeFailureKind.MODEL_MISSING,
        JudgeFailureKind.QUOTA_SPENT,
        JudgeFailureKind.BUDGET_SPENT,
        JudgeFailureKind.NOT_CONFIGURED,
    }
)
"""Kinds that every further question of the same model would meet as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeFailure:
    """Why there is no reply; `message` is redacted and names the next step.

    `retry_after_s`: how long the provider asks to wait, None where it says nothing. `usage`: what was spent all the
    same, as on a reply that was cut. `reply`: what came of one that was cut or stopped, which ADK reads and we do not.
    """

    kind: JudgeFailureKind
    message: str
    retry_after_s: float | None = None
    usage: Usage | None = None
    reply: JudgeReply | None = None

    @property
    def retriable(self) -> bool:
        """Whether asking again may help."""
        return self.kind in RETRIABLE


class JudgeFailed(Exception):  # noqa: N818 - it says what happened, and it carries a value that is named so
    """A judge gave no reply; `failure` says why."""

    def __init__(self, failure: JudgeFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRequest:
    """One question to a judge, and its address in the cache: every field counts there.

    `model`: as ADK writes it (`gemini-2.5-flash`, `openai/gpt-4.1`). `config`: `judge_model_config`, the fields of
    GenerateContentConfig in either spelling. `schema`: JSON schema of the reply, for endpoints that can keep to one.
    `criterion`, `version`: who asks, and the version of its prompt. `sample` counts from 0.
    """

    model: str
    prompt: str
    criterion: str
    version: str
    system: str = ""
    config: Json = field(default_factory=dict)
    schema: Json | None = None
    sample: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """What a judge answered; `cached`: it was read, not asked for, and cost nothing."""

    parts: tuple[Text, ...]
    usage: Usage | None = None
    model_version: str | None = None
    finish: str = ""
    cached: bool = False

    @property
    def text(self) -> str:
        """The answer without the model's thoughts."""
        return "".join(part.text for part in self.parts if not part.thought)

    @property
    def adk_text(self) -> str:
        """The answer as ADK reads it: every non-empty part a line of its own, thoughts among them."""
        return "\n".join(part.text for part in self.parts if part.text)


class Judge(Protocol):
    """An opened client of one provider; safe to call from many threads. It never retries by itself."""

    def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask once. Raises JudgeFailed."""

    def close(self) -> None:
        """Let connections go. Never raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSetting:
    """What a judge's client is opened with.

    `model`: the name at the provider. `base_url`: empty means the provider's own. `api_key`: empty where there is none;
    `api_key_env`: the variables that it may stand in, empty where the endpoint needs none. `vertex`: by way of Google
    Cloud. `environment`: for what a client reads there itself (projects, certificates). `path`: absolute, the
    recordings of a replay.
    """

    model: str
    base_url: str = ""
    api_key: str = ""
    api_key_env: tuple[str, ...] = ()
    vertex: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 120.0
    path: str = ""
    redact: Callable[[str], str] = str


class JudgeDriver(Protocol):
    """One row of `evalgate.judges.JUDGES`."""

    @property
    def name(self) -> str:
        """The word a user writes: gemini, openai, replay."""

    def missing(self, setting: JudgeSetting) -> str:
        """What it lacks to be asked, with the next step; empty where nothing is known to be missing. Asks nobody."""

    def open(self, setting: JudgeSetting) -> Judge:
        """Open the client. Raises JudgeFailed(NOT_CONFIGURED)."""


# --- a vote among samples -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """What one sample says of one item. `passed` None: it said something, and that is none of the labels."""

    passed: bool | None
    label: str = ""
    rationale: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """One question put to several samples, and how a reply is read.

    `request`: its `sample` is set by the panel. `items`: what is voted on, rubric ids for one; a single label has the
    item "". `parse`: the votes found in a reply, by item; an item that the reply passes over has no key. It must not
    raise. `again(reply, items)`: the prompt that asks once more for the items passed over; None: they count as
    unreadable. `exhaustive`: every sample is asked, decided or not. `adk_compat`: ADK's arithmetic: every sample is
    asked, one that fails voids the ballot, and nothing is asked again.
    """

    request: JudgeRequest
    parse: Callable[[JudgeReply], Mapping[str, Vote]]
    items: tuple[str, ...] = ("",)
    num_samples: int = 5
    again: Callable[[JudgeReply, tuple[str, ...]], str] | None = None
    exhaustive: bool = False
    adk_compat: bool = False


class Undecided(enum.StrEnum):
    """Why an item has no verdict."""

    UNAVAILABLE = "unavailable"  # samples failed, and they could have changed the outcome
    UNREADABLE = "unreadable"  # the judge answered, but not with a label for this item


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemVerdict:
    """What the samples say of one item: `passed`, or why it is undecided, with a message for people.

    `vote`, `sample`: the first sample of the winning side. The counts are those of the samples that were asked.
    """

    item: str
    passed: bool | None
    undecided: Undecided | None = None
    message: str = ""
    vote: Vote | None = None
    sample: int | None = None
    positives: int = 0
    negatives: int = 0
    unreadable: int = 0
    missing: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sample as it came: its votes by item and its text, or its failure. `reply`: the first one, as it was read."""

    index: int
    votes: Mapping[str, Vote] = field(default_factory=dict)
    text: str = ""
    cached: bool = False
    failure: JudgeFailure | None = None
    reply: JudgeReply | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteResult:
    """The verdict on each item of a ballot, in its order, and the samples that were asked, by index."""

    items: Mapping[str, ItemVerdict]
    samples: tuple[Sample, ...]


class Panel(Protocol):
    """What a criterion asks: cached, governed, within the budget, counted; safe to call from many threads."""

    def vote(self, ballot: Ballot) -> VoteResult:
        """Ask as many samples as can still change an item, in parallel. Failures are in the result."""

    def vote_all(self, ballots: Sequence[Ballot]) -> tuple[VoteResult, ...]:
        """The same for many ballots at once, in their order."""

    def ask(self, request: JudgeRequest) -> JudgeReply:
        """One reply. Raises JudgeFailed."""
