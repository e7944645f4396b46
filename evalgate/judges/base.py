"""The shapes of a judge: what it is asked, what it answers or why not, what a vote says, and the options of all."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol

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
    same, as on a reply that was cut.
    """

    kind: JudgeFailureKind
    message: str
    retry_after_s: float | None = None
    usage: Usage | None = None

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
class SampledRequest:
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
    """One sample as it came: its votes by item and its text, or its failure."""

    index: int
    votes: Mapping[str, Vote] = field(default_factory=dict)
    text: str = ""
    cached: bool = False
    failure: JudgeFailure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteResult:
    """The verdict on each item of a ballot, in its order, and the samples that were asked, by index."""

    items: Mapping[str, ItemVerdict]
    samples: tuple[Sample, ...]


class JudgePanel(Protocol):
    """What a criterion asks: cached, limiters, within the budget, counted; safe to call from many threads."""

    def vote(self, ballot: SampledRequest) -> VoteResult:
        """Ask as many samples as can still change an item, in parallel. Failures are in the result."""

    def vote_all(self, ballots: Sequence[SampledRequest]) -> tuple[VoteResult, ...]:
        """The same for many ballots at once, in their order."""

    def ask(self, request: JudgeRequest) -> JudgeReply:
        """One reply. Raises JudgeFailed."""


_LONGEST_DETAIL = 300

_SAYS: Final[Mapping[JudgeFailureKind, tuple[str, str]]] = MappingProxyType(
    {
        JudgeFailureKind.UNAUTHORIZED: ("the credentials were refused", "check {keys}"),
        JudgeFailureKind.FORBIDDEN: (
            "access was denied",
            "check that the key's project may use this model from here, and that its API and billing are on",
        ),
        JudgeFailureKind.MODEL_MISSING: (
            "there is no such model",
            "check the model's name, and that the endpoint serves it",
        ),
        JudgeFailureKind.BAD_REQUEST: (
            "the request was refused",
            "check judge_model_config and how long the judged text is",
        ),
        JudgeFailureKind.RATE_LIMITED: (
            "too many requests",
            "run again later, with fewer calls at once, or raise the quota",
        ),
        JudgeFailureKind.QUOTA_SPENT: (
            "the quota or the credit is spent",
            "run again when it is renewed, or raise it",
        ),
        JudgeFailureKind.OVERLOADED: (
            "the provider is overloaded",
            "run again later, with fewer calls at once",
        ),
        JudgeFailureKind.SERVER_ERROR: ("the provider failed", "run again later"),
        JudgeFailureKind.TIMEOUT: ("no answer in time", "run again later, or allow the judge more time"),
        JudgeFailureKind.CONNECTION: ("no connection", "check the base URL, the network and the proxy"),
        JudgeFailureKind.MALFORMED: (
            "the answer is not what this API promises",
            "check that the base URL leads to it",
        ),
        JudgeFailureKind.EMPTY: (
            "the answer is empty",
            "run again; a thinking model may need more max_output_tokens",
        ),
        JudgeFailureKind.BLOCKED: (
            "a safety filter stopped it",
            "relax safety_settings in judge_model_config, or judge with another model",
        ),
        JudgeFailureKind.TRUNCATED: (
            "the answer was cut at the token limit",
            "raise max_output_tokens in judge_model_config, or take it out",
        ),
        JudgeFailureKind.NOT_CONFIGURED: ("it cannot be asked", "see docs/judges.md"),
        JudgeFailureKind.NO_RECORDING: (
            "nothing is recorded for this question",
            "record it once with an account",
        ),
        JudgeFailureKind.BUDGET_SPENT: ("the budget is spent", "raise it, or judge less"),
    }
)

_STATUSES: Final[Mapping[int, JudgeFailureKind]] = MappingProxyType(
    {
        401: JudgeFailureKind.UNAUTHORIZED,
        402: JudgeFailureKind.QUOTA_SPENT,
        403: JudgeFailureKind.FORBIDDEN,
        404: JudgeFailureKind.MODEL_MISSING,
        407: JudgeFailureKind.UNAUTHORIZED,
        408: JudgeFailureKind.TIMEOUT,
        429: JudgeFailureKind.RATE_LIMITED,
        503: JudgeFailureKind.OVERLOADED,
        504: JudgeFailureKind.TIMEOUT,
        524: JudgeFailureKind.TIMEOUT,
        529: JudgeFailureKind.OVERLOADED,
    }
)


def failure(
    kind: JudgeFailureKind,
    setting: JudgeSetting,
    *,
    detail: str = "",
    retry_after_s: float | None = None,
    usage: Usage | None = None,
) -> JudgeFailure:
    """The failure in words: which judge, what happened, what the provider said, what to do. Redacted."""
    what, step = _SAYS[kind]
    keys = " or ".join(setting.api_key_env) or "the credentials of the endpoint"
    if setting.vertex:
        keys = "the Google Cloud credentials"
    said = _one_line(detail)
    message = f"judge `{setting.model}`: {what}{f' ({said})' if said else ''}; {step.format(keys=keys)}"
    message = setting.redact(message)
    if setting.api_key:
        message = message.replace(setting.api_key, "***")
    return JudgeFailure(kind=kind, message=message, retry_after_s=retry_after_s, usage=usage)


def kind_of_status(status: int) -> JudgeFailureKind:
    """What an HTTP status says by itself."""
    rest = JudgeFailureKind.BAD_REQUEST if 400 <= status < 500 else JudgeFailureKind.SERVER_ERROR
    return _STATUSES.get(status, rest)


def _one_line(text: str) -> str:
    """Foreign words on one line, markup of an error page taken out, and no longer than bearable."""
    line = " ".join(re.sub(r"<(style|script).*?</\1>|<[^<>]*>", " ", text, flags=re.DOTALL).split())
    return line if len(line) <= _LONGEST_DETAIL else f"{line[: _LONGEST_DETAIL - 3]}..."


ADK_MODEL = "gemini-2.5-flash"
ADK_SAMPLES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """What a criterion asks with; None: nothing was said. ADK's `judge_model_options`, and what is ours.

    `config`: `judge_model_config`. ADK's `parallelism_limit` has no place here: the rate limiter sets the pace.
    """

    model: str | None = None
    config: Json | None = None
    num_samples: int | None = None
    exhaustive: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What a criterion asks with, all settled."""

    model: str = ADK_MODEL
    config: Json = field(default_factory=dict)
    num_samples: int = ADK_SAMPLES
    exhaustive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendLimits:
    """Upper bounds of one run; None: no bound. `calls` counts answered calls: a refused one costs nothing."""

    calls: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeDefaults:
    """What `evalgate.yml` says of judges.

    `options`: for every criterion, above the criteria file. `criteria`: for one criterion, above that.
    `client`: a row of JUDGES for every model (`replay`; `openai` for an endpoint of one's own); empty: by the model's
    name. `base_url`, `api_key_env`: where and with whose key, empty: the provider's own. `replay`: absolute path of
    the recordings. `record`: absolute path of a file that replies are recorded in. Times are seconds.
    """

    options: JudgeOptions = JudgeOptions()
    criteria: Mapping[str, JudgeOptions] = field(default_factory=dict)
    client: str = ""
    base_url: str = ""
    api_key_env: str = ""
    replay: str = ""
    record: str = ""
    timeout_s: float = 120.0
    calls_at_once: int = 32
    deadline_s: float | None = None
    limits: SpendLimits = field(default_factory=SpendLimits)


def choose_judge(criterion: str, written: JudgeOptions, defaults: JudgeDefaults) -> Chosen:
    """What `criterion` asks with: the gate's word for it, then for all, then the criteria file's, then ADK's default.

    The configs of the three are merged by key.
    """
    chosen = Chosen()
    for layer in (written, defaults.options, defaults.criteria.get(criterion, JudgeOptions())):
        chosen = Chosen(
            model=chosen.model if layer.model is None else layer.model,
            config={**chosen.config, **(layer.config or {})},
            num_samples=chosen.num_samples if layer.num_samples is None else layer.num_samples,
            exhaustive=chosen.exhaustive if layer.exhaustive is None else layer.exhaustive,
        )
    return chosen
