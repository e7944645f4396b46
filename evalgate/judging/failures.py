"""How a provider's error becomes a typed failure with a message that names the next step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from evalgate.model import Usage
from evalgate.plugins import JudgeFailure, JudgeFailureKind, JudgeReply, JudgeSetting

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
    reply: JudgeReply | None = None,
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
    return JudgeFailure(kind=kind, message=message, retry_after_s=retry_after_s, usage=usage, reply=reply)


def kind_of_status(status: int) -> JudgeFailureKind:
    """What an HTTP status says by itself."""
    rest = JudgeFailureKind.BAD_REQUEST if 400 <= status < 500 else JudgeFailureKind.SERVER_ERROR
    return _STATUSES.get(status, rest)


def _one_line(text: str) -> str:
    """Foreign words on one line, markup of an error page taken out, and no longer than bearable."""
    line = " ".join(re.sub(r"<(style|script).*?</\1>|<[^<>]*>", " ", text, flags=re.DOTALL).split())
    return line if len(line) <= _LONGEST_DETAIL else f"{line[: _LONGEST_DETAIL - 3]}..."
