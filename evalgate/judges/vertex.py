"""Google Cloud's evaluation service as a judge: one POST `:evaluateInstances` per question, whose
prompt is the body.

Its own client library needs half a gigabyte; the call is one request with a token from
google-auth."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from urllib.parse import quote

from evalgate.model import Text
from evalgate.system.http import Answer, Exchange, ExchangeFailed, Fault, GoogleToken, NoToken
from . import base as judges_base
from .base import (
    Judge,
    JudgeDriver,
    JudgeFailure,
    JudgeFailureKind,
    JudgeReply,
    JudgeRequest,
    JudgeSetting,
)

_FAULTS = {Fault.TIMEOUT: JudgeFailureKind.TIMEOUT, Fault.UNREACHABLE: JudgeFailureKind.CONNECTION}
_VERSION_IN_URL = re.compile(r"/v\d+\w*/?$")


def missing(setting: JudgeSetting) -> str:
    """See JudgeDriver."""
    if _project(setting.environment) or setting.api_key:
        return ""
    return (
        f"Google Cloud's evaluation service (`{setting.model}`): no project; set GOOGLE_CLOUD_PROJECT and "
        "GOOGLE_CLOUD_LOCATION, and Google Cloud credentials; or use recorded replies (`replay`), or a judge model "
        '(`"judge": "llm"` in the criterion)'
    )


class VertexEvaluation(Judge):
    """An opened client. It looks for credentials at the first question."""

    def __init__(self, setting: JudgeSetting) -> None:
        super().__init__(setting)
        self._token = GoogleToken(setting.environment)

    def _ask(self, request: JudgeRequest) -> JudgeReply | JudgeFailure:
        setting = self._setting
        headers: Mapping[str, str] = {"x-goog-api-key": setting.api_key}
        if _project(setting.environment):
            try:
                headers = self._token.headers()
            except NoToken as problem:
                return setting.failure(JudgeFailureKind.UNAUTHORIZED, str(problem))
        exchange = Exchange(
            environment=setting.environment, headers=headers, most_bytes=judges_base.MOST_BYTES
        )
        url = _url(setting)
        body = json.loads(request.prompt)
        try:
            answer = exchange.request("POST", url, body=body, timeout_s=setting.timeout_s)
        except ExchangeFailed as error:
            kind = _FAULTS.get(error.fault, JudgeFailureKind.MALFORMED)
            return setting.failure(kind, str(error))
        finally:
            exchange.close()
        return self._reply(answer)

    def _reply(self, answer: Answer) -> JudgeReply | JudgeFailure:
        if 200 <= answer.status < 300:
            try:
                answer.json()
            except ValueError:
                return self._setting.failure(JudgeFailureKind.MALFORMED, answer.excerpt())
            return JudgeReply(parts=(Text(text=answer.body.decode("utf-8", "replace")),))
        try:
            message = str(answer.json()["error"]["message"])
        except (ValueError, KeyError, TypeError):
            message = answer.excerpt()
        kind = judges_base.kind_of_status(answer.status)
        wait_s = judges_base.wait_of(answer.headers)
        return self._setting.failure(kind, f"{answer.status} {message}", retry_after_s=wait_s)


def _project(environment: Mapping[str, str]) -> str:
    return environment.get("GOOGLE_CLOUD_PROJECT", "").strip()


def _url(setting: JudgeSetting) -> str:
    """The address of the service: of the project's location, or the address for an API key."""
    location = setting.environment.get("GOOGLE_CLOUD_LOCATION", "").strip() or "us-central1"
    project = _project(setting.environment)
    regional = bool(project) and location != "global"
    base_url = _VERSION_IN_URL.sub("", setting.base_url).rstrip("/")
    base = base_url or f"https://{f'{location}-' if regional else ''}aiplatform.googleapis.com"
    parent = (
        f"projects/{quote(project, safe='')}/locations/{quote(location, safe='')}/"
        if project
        else ""
    )
    return f"{base}/v1beta1/{parent}:evaluateInstances"


DRIVER = JudgeDriver(name="vertex_evaluation", missing=missing, open=VertexEvaluation)
