"""Gemini as a judge, through the google-genai client: the Gemini API and Vertex AI."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from evalgate.formats import adk_shapes
from evalgate.model import Text, Usage, shapes
from evalgate.system import http
from evalgate.system.http import ExchangeFailed
from evalgate.values import elements, member
from . import base
from .base import (
    Judge,
    JudgeDriver,
    JudgeFailed,
    JudgeFailure,
    JudgeFailureKind,
    JudgeReply,
    JudgeRequest,
    JudgeSetting,
)

if TYPE_CHECKING:
    from google.genai import Client, types
    from google.genai.errors import APIError


_VERSION_IN_URL = re.compile(r"^(.*)/(v\d+\w*)/?$")
_BLOCKED = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "MODEL_ARMOR"}
)


def missing(setting: JudgeSetting) -> str:
    """See JudgeDriver."""
    if (
        setting.vertex
        and not setting.api_key
        and not setting.environment.get("GOOGLE_CLOUD_PROJECT")
    ):
        advice = "set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, and Google Cloud credentials"
    elif not setting.vertex and setting.api_key_env and not setting.api_key:
        advice = f"set {' or '.join(setting.api_key_env)}"
        if "GOOGLE_API_KEY" in setting.api_key_env:
            advice += ", or GOOGLE_GENAI_USE_VERTEXAI=true, GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION for Vertex AI"
    else:
        return ""
    return f"judge `{setting.model}`: no credentials; {advice}, or use recorded replies (`replay`)"


def open_client(setting: JudgeSetting) -> Judge:
    """See JudgeDriver."""
    try:
        return GeminiJudge(setting, _client(setting))
    except Exception as error:  # noqa: BLE001 - google-auth and google-genai raise unrelated errors here
        problem = str(error)
    raise JudgeFailed(setting.failure(JudgeFailureKind.NOT_CONFIGURED, problem))


def _client(setting: JudgeSetting) -> Client:
    from google import genai  # noqa: PLC0415 - takes a second or more to load, only where a judge is asked
    from google.genai import types  # noqa: PLC0415 - as above

    # google-genai builds its models on first use, and before pydantic 2.14 two threads that do so
    # at once fail
    for model in (
        types.GenerateContentConfig,
        types.AutomaticFunctionCallingConfig,
        types.HttpRetryOptions,
        types.GenerateContentResponse,
    ):
        model.model_rebuild()
    match = _VERSION_IN_URL.match(setting.base_url)
    # google-genai before 3.0, and so google-adk, uses the Gemini API's v1beta; the default since
    # 3.0 is v1, which some users' endpoints lack
    api_version = setting.environment.get("GOOGLE_GENAI_API_VERSION", "").strip()
    version = None if setting.vertex else "v1beta" if api_version in ("", "beta") else api_version
    base_url, version = (match[1], match[2]) if match else (setting.base_url or None, version)
    options = types.HttpOptions(
        base_url=base_url,
        api_version=version,
        timeout=int(setting.timeout_s * 1000),
        client_args={"event_hooks": {"response": [http.limit_response(base.MOST_BYTES)]}},
    )
    if setting.vertex and not setting.api_key:
        project = setting.environment.get("GOOGLE_CLOUD_PROJECT")
        location = setting.environment.get("GOOGLE_CLOUD_LOCATION", "global")
        return genai.Client(vertexai=True, project=project, location=location, http_options=options)
    key = setting.api_key or "none"  # the client needs one, the user's endpoint may not
    return genai.Client(vertexai=setting.vertex, api_key=key, http_options=options)


class GeminiJudge(Judge):
    """An opened client. Its own retries are off; the rate limiter repeats calls."""

    def __init__(self, setting: JudgeSetting, client: Client) -> None:
        super().__init__(setting)
        self._client = client

    def close(self) -> None:
        """See Judge."""
        close = getattr(self._client, "close", None)  # since google-genai 1.33
        if close is not None:
            close()

    def _ask(self, request: JudgeRequest) -> JudgeReply | JudgeFailure:
        setting = self._setting
        try:
            config = _config(request)
        except ValidationError as error:
            fields = ", ".join(".".join(map(str, detail["loc"])) for detail in error.errors()[:3])
            return setting.failure(JudgeFailureKind.BAD_REQUEST, f"judge_model_config: {fields}")
        try:
            response = self._client.models.generate_content(
                model=setting.model, contents=request.prompt, config=config
            )
        except Exception as error:  # noqa: BLE001 - four libraries raise here: google-genai, httpx, google-auth, pydantic
            return _failure_of(error, setting)
        return _reply_of(response, setting)


def _config(request: JudgeRequest) -> types.GenerateContentConfig:
    """The config as written, without function calls and the client's retries, with the schema
    unless the user sets one."""
    from google.genai import types  # noqa: PLC0415 - see `open_client`

    config = types.GenerateContentConfig.model_validate(dict(request.config))
    config.automatic_function_calling = types.AutomaticFunctionCallingConfig(disable=True)
    if config.http_options is not None:
        config.http_options.retry_options = types.HttpRetryOptions(attempts=1)
    if request.system:
        config.system_instruction = request.system
    if request.schema is not None and not (
        config.response_schema or config.response_json_schema or config.response_mime_type
    ):
        config.response_mime_type = "application/json"
        config.response_json_schema = dict(request.schema)
    return config


def _reply_of(
    response: types.GenerateContentResponse, setting: JudgeSetting
) -> JudgeReply | JudgeFailure:
    usage = None
    metadata = response.usage_metadata
    if metadata is not None:
        usage = Usage(
            **{
                field: shapes.count(getattr(metadata, attribute))
                for attribute, field in adk_shapes.USAGE.items()
            }
        )
    feedback = response.prompt_feedback
    if feedback is not None and feedback.block_reason is not None:
        detail = f"prompt: {feedback.block_reason.value}"
        return setting.failure(JudgeFailureKind.BLOCKED, detail, usage=usage)
    candidate = response.candidates[0] if response.candidates else None
    if candidate is None:
        return setting.failure(JudgeFailureKind.EMPTY, "no candidate", usage=usage)
    finish = candidate.finish_reason.value if candidate.finish_reason else ""
    content = candidate.content
    parts = tuple(
        Text(text=part.text, thought=bool(part.thought))
        for part in (content.parts if content and content.parts else [])
        if part.text
    )
    reply = JudgeReply(
        parts=parts, usage=usage, model_version=response.model_version, finish=finish
    )
    blocked = f"reply: {finish}" if finish in _BLOCKED else ""
    return setting.complete(reply, blocked=blocked, is_truncated=finish == "MAX_TOKENS")


# --- errors ---------------------------------------------------------------------------------------


def _failure_of(error: Exception, setting: JudgeSetting) -> JudgeFailure:
    from google.auth import exceptions as auth_errors  # noqa: PLC0415 - see `open_client`
    from google.genai import errors  # noqa: PLC0415 - see `open_client`

    if isinstance(error, errors.APIError):
        return _api_failure(error, setting)
    if isinstance(error, auth_errors.GoogleAuthError):
        is_unreachable = isinstance(error, auth_errors.TransportError)
        kind = JudgeFailureKind.CONNECTION if is_unreachable else JudgeFailureKind.UNAUTHORIZED
        return setting.failure(kind, str(error))
    # The client moved from httpx to httpx2 and raises errors of either: they are recognized by
    # name.
    names = {error_class.__name__ for error_class in type(error).__mro__}
    if "TimeoutException" in names or isinstance(error, TimeoutError):
        return setting.failure(JudgeFailureKind.TIMEOUT, f"{setting.timeout_s:g} s")
    if names & {"TransportError", "InvalidURL"} or isinstance(error, OSError):
        return setting.failure(JudgeFailureKind.CONNECTION, f"{type(error).__name__}: {error}")
    # a body that is not JSON, has another shape, is too large
    if isinstance(error, ValueError | ExchangeFailed):
        detail = str(error) if isinstance(error, ExchangeFailed) else type(error).__name__
        return setting.failure(JudgeFailureKind.MALFORMED, detail)
    return setting.failure(JudgeFailureKind.BAD_REQUEST, f"{type(error).__name__}: {error}")


def _api_failure(api_error: APIError, setting: JudgeSetting) -> JudgeFailure:
    body = api_error.details
    error = body.get("error", body) if isinstance(body, Mapping) else {}
    details = elements(error, "details")
    kind = base.kind_of_status(api_error.code)
    reasons = {str(member(detail, "reason")) for detail in details}
    if kind is JudgeFailureKind.BAD_REQUEST and reasons & {"API_KEY_INVALID", "API_KEY_EXPIRED"}:
        kind = JudgeFailureKind.UNAUTHORIZED  # the Gemini API answers 400 to a wrong key
    elif kind is JudgeFailureKind.BAD_REQUEST and "FAILED_PRECONDITION" in str(body):
        kind = JudgeFailureKind.FORBIDDEN  # no service in this country, or no billing
    elif kind is JudgeFailureKind.RATE_LIMITED and is_daily_quota(details):
        kind = JudgeFailureKind.QUOTA_SPENT
    wait_s = parse_google(details)
    if wait_s is None:
        headers = getattr(getattr(api_error, "response", None), "headers", None)
        wait_s = base.wait_of(headers or {})
    detail = f"{api_error.code} {api_error.message or ''}"
    return setting.failure(kind, detail, retry_after_s=wait_s)


_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)s\s*$")
_DAILY = re.compile(r"per[-_ ]?day", re.IGNORECASE)


def parse_google(details: Iterable[Any]) -> float | None:
    """The wait in seconds of a `google.rpc.RetryInfo` in an error's details; Gemini sends no
    header."""
    for detail in _details_of_type(details, "RetryInfo"):
        match = _DURATION.match(str(detail.get("retryDelay", "")))
        if match:
            return http.parse_seconds(match[1])
    return None


def is_daily_quota(details: Iterable[Any]) -> bool:
    """True if a `google.rpc.QuotaFailure` names a daily quota, which no run can wait for."""
    return any(
        _DAILY.search(f"{member(violation, 'quotaId')} {member(violation, 'subject')}")
        for detail in _details_of_type(details, "QuotaFailure")
        for violation in elements(detail, "violations")
    )


def _details_of_type(details: Iterable[Any], name: str) -> Iterable[Mapping[str, Any]]:
    return (
        detail
        for detail in details
        if isinstance(detail, Mapping) and str(detail.get("@type", "")).endswith(f".{name}")
    )


DRIVER = JudgeDriver(name="gemini", missing=missing, open=open_client)
