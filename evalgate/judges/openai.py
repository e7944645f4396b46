"""An endpoint with OpenAI's chat completions as a judge: OpenAI, gateways, local servers.

It uses the `openai` client (the extra `evalgate-action[openai]`): the makers of the protocol
maintain it, and its errors are typed. It needs 16 MB, so it is an extra."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evalgate import extensions
from evalgate.model import Text, Usage, shapes
from evalgate.model.shapes import to_camel
from evalgate.system import http
from evalgate.system.http import ExchangeFailed
from evalgate.values import JsonObject, member
from . import base, prompting
from .base import (
    Judge,
    JudgeDriver,
    JudgeFailure,
    JudgeFailureKind,
    JudgeReply,
    JudgeRequest,
    JudgeSetting,
)

if TYPE_CHECKING:
    from openai import OpenAI


_PARAMETERS = {
    "temperature": "temperature",
    "topP": "top_p",
    "seed": "seed",
    "stopSequences": "stop",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}
_TRANSPORT = {"extraBody": "extra_body", "headers": "extra_headers"}
_INERT = frozenset(
    {"safetySettings", "automaticFunctionCalling", "labels", "candidateCount", "responseMimeType"}
)
_NEW_LIMIT = re.compile(r"(o\d|gpt-[5-9])")  # these refuse `max_tokens`


def missing(setting: JudgeSetting) -> str:
    """See JudgeDriver."""
    if importlib.util.find_spec("openai") is None:
        advice = f"install it: {extensions.install_command('openai')}"
        return f"judge `{setting.model}`: the client is not installed; {advice}"
    if setting.api_key_env and not setting.api_key:
        advice = f"set {' or '.join(setting.api_key_env)}"
        return f"judge `{setting.model}`: no API key; {advice}, or use recorded replies (`replay`)"
    return ""


def open_client(setting: JudgeSetting) -> Judge:
    """See JudgeDriver."""
    from openai import DefaultHttpxClient, OpenAI  # noqa: PLC0415 - an extra, and a second to load

    client = OpenAI(
        base_url=setting.base_url,
        api_key=setting.api_key or "none",  # the client needs one, a local server may not
        max_retries=0,
        timeout=setting.timeout_s,
        http_client=DefaultHttpxClient(
            event_hooks={"response": [http.limit_response(base.MOST_BYTES)]}
        ),
    )
    return OpenAIJudge(setting, client)


class OpenAIJudge(Judge):
    """An opened client. Its own retries are off; the rate limiter repeats calls."""

    def __init__(self, setting: JudgeSetting, client: OpenAI) -> None:
        super().__init__(setting)
        self._client = client

    def close(self) -> None:
        """See Judge."""
        self._client.close()

    def _ask(self, request: JudgeRequest) -> JudgeReply | JudgeFailure:
        options, unknown = _options(request, self._setting.model)
        if unknown:
            detail = (
                f"judge_model_config: {unknown} has no meaning for an OpenAI-compatible endpoint"
            )
            return self._setting.failure(JudgeFailureKind.BAD_REQUEST, detail)
        try:
            response = self._client.chat.completions.with_raw_response.create(
                model=self._setting.model, **options
            )
            body = response.http_response.json()
        except Exception as error:  # noqa: BLE001 - openai, httpx and json raise here
            return _failure_of(error, self._setting)
        return _reply_of(body, self._setting)


def _options(request: JudgeRequest, model: str) -> tuple[JsonObject, str]:
    """The call's arguments, and the first field of the config that such endpoints do not
    support."""
    config = {
        to_camel(name): setting for name, setting in request.config.items() if setting is not None
    }
    messages = [{"role": "user", "content": request.prompt}]
    if request.system:
        messages.insert(0, {"role": "system", "content": request.system})
    options: JsonObject = {"messages": messages}
    limit = config.pop("maxOutputTokens", None)
    if limit is not None:
        options["max_completion_tokens" if _NEW_LIMIT.match(model) else "max_tokens"] = limit
    schema = config.pop("responseJsonSchema", None) or request.schema
    if schema is not None:
        strict = schema.get("additionalProperties") is False
        format_fields = {"name": "verdict", "schema": dict(schema), "strict": strict}
        options["response_format"] = {"type": "json_schema", "json_schema": format_fields}
    for name, setting in (config.pop("httpOptions", None) or {}).items():
        if to_camel(name) in _TRANSPORT:
            options[_TRANSPORT[to_camel(name)]] = setting
    options |= {_PARAMETERS[name]: config.pop(name) for name in list(config) if name in _PARAMETERS}
    return options, next((name for name in config if name not in _INERT), "")


def _reply_of(body: Any, setting: JudgeSetting) -> JudgeReply | JudgeFailure:
    try:
        choice = body["choices"][0] if body["choices"] else None
        usage = _usage_of(body.get("usage"))
        if choice is None:
            return setting.failure(JudgeFailureKind.EMPTY, "no choice", usage=usage)
        message = choice["message"]
        finish = str(choice.get("finish_reason") or "")
        text = message.get("content") or ""
        refusal = message.get("refusal")
        reasoning = message.get("reasoning_content") or ""
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        return setting.failure(JudgeFailureKind.MALFORMED, f"{type(error).__name__} {error}")
    inline_thoughts, text = prompting.split_thoughts(text) or ("", text)
    reasoning = reasoning + inline_thoughts
    text = text.lstrip() if inline_thoughts else text
    thoughts = (Text(text=reasoning, thought=True),) if reasoning else ()
    parts = (*thoughts, *((Text(text=text),) if text else ()))
    version = body.get("model")
    reply = JudgeReply(
        parts=parts, usage=usage, model_version=version and str(version), finish=finish
    )
    blocked = str(refusal or "") or (finish if finish == "content_filter" else "")
    return setting.complete(reply, blocked=blocked, is_truncated=finish == "length")


def _usage_of(usage: Any) -> Usage | None:
    """Tokens as Gemini counts them: thoughts separate from the answer."""
    if not isinstance(usage, Mapping):
        return None
    thoughts = _count(usage.get("completion_tokens_details"), "reasoning_tokens")
    output = _count(usage, "completion_tokens")
    return Usage(
        prompt_tokens=_count(usage, "prompt_tokens"),
        cached_tokens=_count(usage.get("prompt_tokens_details"), "cached_tokens"),
        candidates_tokens=None if output is None else max(0, output - (thoughts or 0)),
        thoughts_tokens=thoughts,
        total_tokens=_count(usage, "total_tokens"),
    )


def _count(fields: Any, name: str) -> int | None:
    number = member(fields, name)
    return shapes.count(number) if isinstance(number, int) else None


# --- errors ---------------------------------------------------------------------------------------


def _failure_of(error: Exception, setting: JudgeSetting) -> JudgeFailure:
    import openai  # noqa: PLC0415 - see `open_client`

    if isinstance(error, openai.APITimeoutError):
        return setting.failure(JudgeFailureKind.TIMEOUT, f"{setting.timeout_s:g} s")
    for cause in (error, error.__cause__):
        if isinstance(cause, ExchangeFailed):  # too large
            return setting.failure(JudgeFailureKind.MALFORMED, str(cause))
    if isinstance(error, openai.APIConnectionError):
        return setting.failure(JudgeFailureKind.CONNECTION, str(error.__cause__ or error))
    if isinstance(error, openai.APIStatusError):
        return _status_failure(error, setting)
    if isinstance(error, ValueError | openai.APIResponseValidationError):
        return setting.failure(JudgeFailureKind.MALFORMED, type(error).__name__)
    names = {error_class.__name__ for error_class in type(error).__mro__}
    kind = (
        JudgeFailureKind.CONNECTION if "TransportError" in names else JudgeFailureKind.BAD_REQUEST
    )
    return setting.failure(kind, f"{type(error).__name__}: {error}")


def _status_failure(error: Any, setting: JudgeSetting) -> JudgeFailure:
    kind = base.kind_of_status(error.status_code)
    if kind is JudgeFailureKind.RATE_LIMITED and "insufficient_quota" in (error.code, error.type):
        kind = JudgeFailureKind.QUOTA_SPENT  # no credit has the same status as too many requests
    body = error.body if isinstance(error.body, Mapping) else {}
    detail = f"{error.status_code} {body.get('message') or error.message}"
    wait_s = base.wait_of(error.response.headers)
    return setting.failure(kind, detail, retry_after_s=wait_s)


DRIVER = JudgeDriver(name="openai", missing=missing, open=open_client)
