"""What the Gemini judge makes of a request, a setting and a response, without a server."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import pytest
from builders.judging import request
from google.genai import types

from evalgate.judges import gemini
from evalgate.judges.base import JudgeFailed, JudgeFailureKind, JudgeReply, JudgeSetting

SETTING = JudgeSetting(model="gemini-2.5-flash")


class Client:
    """Stands for google-genai's client: keeps what it is asked, answers what it was given."""

    def __init__(self, answer: types.GenerateContentResponse | Exception) -> None:
        self.answer = answer
        self.asked: dict[str, Any] = {}
        self.models = self

    def generate_content(self, **asked: Any) -> types.GenerateContentResponse:
        self.asked = asked
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def response(text: str = "valid", finish: str | None = "STOP") -> types.GenerateContentResponse:
    content = {"parts": [{"text": text}]}
    return types.GenerateContentResponse.model_validate(
        {"candidates": [{"content": content, "finish_reason": finish}]}
    )


def ask(client: Client, **fields: Any) -> JudgeReply:
    return gemini.GeminiJudge(SETTING, client).ask(request(**fields))


def config_sent(**fields: Any) -> types.GenerateContentConfig:
    client = Client(response())
    ask(client, **fields)
    found = client.asked["config"]
    assert isinstance(found, types.GenerateContentConfig)
    return found


def test_the_model_is_the_settings_one() -> None:
    client = Client(response())
    ask(client, model="gemini/gemini-2.5-flash", prompt="hello")
    assert (client.asked["model"], client.asked["contents"]) == ("gemini-2.5-flash", "hello")


def test_the_config_is_passed_through_in_either_spelling() -> None:
    found = config_sent(
        config={"topP": 0.5, "max_output_tokens": 7, "thinkingConfig": {"thinkingBudget": 0}}
    )
    assert (found.top_p, found.max_output_tokens) == (0.5, 7)
    assert found.thinking_config is not None
    assert found.thinking_config.thinking_budget == 0


def test_threads_find_models_that_are_built() -> None:
    """Two threads that build one at once fail, with pydantic before 2.14."""
    script = """
from evalgate.judges import gemini
from evalgate.judges.base import JudgeSetting
from google.genai import types
gemini.open_client(JudgeSetting(model="gemini-2.5-flash", api_key="key"))
shapes = (types.GenerateContentConfig, types.AutomaticFunctionCallingConfig, types.HttpRetryOptions,
          types.GenerateContentResponse)
print([shape.__name__ for shape in shapes if not shape.__pydantic_complete__])
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_function_calls_and_the_clients_retries_are_off() -> None:
    found = config_sent(
        config={"http_options": {"timeout": 5000, "retry_options": {"attempts": 9}}}
    )
    assert found.automatic_function_calling is not None
    assert found.automatic_function_calling.disable is True
    assert found.http_options is not None
    assert found.http_options.timeout == 5000
    assert found.http_options.retry_options is not None
    assert found.http_options.retry_options.attempts == 1


def test_a_schema_of_the_users_own_stands() -> None:
    schema, own = {"type": "object"}, {"response_mime_type": "text/plain"}
    found = config_sent(schema=schema, system="ours", config=own)
    assert (found.response_json_schema, found.response_mime_type, found.system_instruction) == (
        None,
        "text/plain",
        "ours",
    )
    found = config_sent(schema=schema, system="ours")
    assert (found.response_json_schema, found.response_mime_type, found.system_instruction) == (
        schema,
        "application/json",
        "ours",
    )


def test_a_config_that_the_client_does_not_know_is_told() -> None:
    with pytest.raises(JudgeFailed) as raised:
        ask(Client(response()), config={"temprature": 0})
    failure = raised.value.failure
    assert failure.kind is JudgeFailureKind.BAD_REQUEST
    assert "judge_model_config: temprature" in failure.message


@pytest.mark.parametrize(
    ("finish", "kind"),
    [
        ("SAFETY", "blocked"),
        ("RECITATION", "blocked"),
        ("MAX_TOKENS", "truncated"),  # even with a text: half a verdict is none
        ("STOP", None),
        (None, None),
        ("OTHER", None),
        ("A_REASON_OF_NEXT_YEAR", None),
    ],
)
@pytest.mark.filterwarnings("ignore:A_REASON_OF_NEXT_YEAR")
def test_finish_reasons(finish: str | None, kind: str | None) -> None:
    client = Client(response(finish=finish))
    if kind is None:
        assert ask(client).text == "valid"
        return
    with pytest.raises(JudgeFailed) as raised:
        ask(client)
    assert raised.value.failure.kind == kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError("slow"), "timeout"),
        (ConnectionResetError("reset"), "connection"),
        (ValueError("no JSON"), "malformed"),
        (RuntimeError("never seen before"), "bad_request"),
    ],
)
def test_errors_that_are_no_answer(error: Exception, kind: str) -> None:
    with pytest.raises(JudgeFailed) as raised:
        ask(Client(error))
    assert raised.value.failure.kind == kind


def test_no_credentials_at_the_cloud() -> None:
    from google.auth.exceptions import DefaultCredentialsError

    with pytest.raises(JudgeFailed) as raised:
        ask(Client(DefaultCredentialsError("no credentials found")))
    assert raised.value.failure.kind is JudgeFailureKind.UNAUTHORIZED


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (JudgeSetting(model="m", api_key_env=("A", "B")), "set A or B"),
        (JudgeSetting(model="m", api_key="k", api_key_env=("A",)), ""),
        (JudgeSetting(model="m"), ""),  # an endpoint of one's own
        (
            JudgeSetting(model="m", vertex=True),
            "set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION",
        ),
        (JudgeSetting(model="m", vertex=True, environment={"GOOGLE_CLOUD_PROJECT": "p"}), ""),
        (JudgeSetting(model="m", vertex=True, api_key="k"), ""),
    ],
)
def test_what_is_missing(setting: JudgeSetting, said: str) -> None:
    found = gemini.DRIVER.missing(setting)
    assert said in found
    assert bool(found) == bool(said)


@pytest.mark.parametrize(
    ("fields", "version"),
    [
        ({}, "v1beta"),  # as google-adk asks, whatever the client's own default
        ({"base_url": "http://localhost:8080"}, "v1beta"),
        ({"base_url": "http://localhost:8080/v1"}, "v1"),
        ({"environment": {"GOOGLE_GENAI_API_VERSION": "v1"}}, "v1"),
        ({"environment": {"GOOGLE_GENAI_API_VERSION": "beta"}}, "v1beta"),
        (
            {
                "base_url": "http://localhost:8080/v1alpha",
                "environment": {"GOOGLE_GENAI_API_VERSION": "v1"},
            },
            "v1alpha",
        ),
    ],
)
def test_the_version_of_the_api(fields: dict[str, Any], version: str) -> None:
    client = gemini._client(dataclasses.replace(SETTING, api_key="k", **fields))
    assert client._api_client._http_options.api_version == version
