"""Which failures smell of a variable that the agent lacks; the messages are the packages' own."""

from __future__ import annotations

import os

import pytest

from evalgate.agents import pool
from evalgate.agents.base import AgentFailed, AgentSetting
from evalgate.agents.pool import WorkerPool
from evalgate.agents.worker_process import Launch
from evalgate.config.variables import AgentVariables
from evalgate.model import AgentFailure, Case, FailureKind, TrialKey
from evalgate.system.python_env import InstallSetup
from evalgate.worker import errors

TRACEBACK = """Traceback (most recent call last):
  File "/repo/agent.py", line 3, in <module>
    URL = os.environ["DB_URL"]
          ~~~~~~~~~~^^^^^^^^^^
  File "{file}", line 679, in __getitem__
    raise KeyError(key) from None
KeyError: 'DB_URL'"""
NONE = """Traceback (frames of installed packages left out):
  File "/repo/agent.py", line 34, in <module>
    model=Gemini(
        model=os.getenv("DB_URL"),
        ^^^^^^^^^^^^^^^^^^^^^^^^^^
pydantic_core._pydantic_core.ValidationError: 1 validation error for Gemini
model
  {}"""
OPENAI = "Missing credentials. Please pass an `api_key`, `workload_identity`, `admin_api_key`, or set the "
WITH = "`env: {}` under the step's `with:`"
LITELLM = "litellm.AuthenticationError: "


def explained(
    message: str, *, detail: str = "", kind: FailureKind = FailureKind.RAISED, **environ: str
) -> str:
    variables = AgentVariables(environ={"CI": "true", **environ}, names=("SHARED_KEY",))
    found = pool.explained(AgentFailure(kind=kind, message=message, detail=detail), variables)
    return found.message.removesuffix(message).removesuffix(f" ({message})")


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("KeyError: 'DB_URL' (not in os.environ)", "DB_URL"),
        # google-genai 1.0 and 2.34
        (
            "ValueError: Missing key inputs argument! To use the Google AI API, provide (`api_key`)",
            "GEMINI_API_KEY",
        ),
        (
            "ValueError: No API key was provided. Please pass a valid API key. Learn how to",
            "GEMINI_API_KEY",
        ),
        # google-auth
        (
            "DefaultCredentialsError: Your default credentials were not found. To set up Application Default",
            "GOOGLE_APPLICATION_CREDENTIALS",
        ),
        # openai 1.0 and 2.54
        (
            "The api_key client option must be set either by passing api_key or by setting the OPENAI_API_KEY",
            "OPENAI_API_KEY",
        ),
        (
            f"OpenAIError: {OPENAI}`OPENAI_API_KEY` or `OPENAI_ADMIN_KEY` environment variable.",
            "OPENAI_API_KEY",
        ),
        (
            f"{OPENAI}`AZURE_OPENAI_API_KEY` or `AZURE_OPENAI_AD_TOKEN` environment variables.",
            "AZURE_OPENAI_API_KEY",
        ),
        # anthropic
        (
            'TypeError: "Could not resolve authentication method. Expected either api_key or auth_token to be set."',
            "ANTHROPIC_API_KEY",
        ),
        # LiteLLM, in its own words and in those of a provider that got an empty key
        (
            f"{LITELLM}Missing Anthropic API Key - A call is being made to anthropic but no key",
            "ANTHROPIC_API_KEY",
        ),
        (
            "litellm.APIConnectionError: Missing Gemini API key. Set the GEMINI_API_KEY or",
            "GEMINI_API_KEY",
        ),
        (f"{LITELLM}AuthenticationError: GroqException - Invalid API Key", "GROQ_API_KEY"),
        # boto3
        ("NoCredentialsError: Unable to locate credentials", "AWS_ACCESS_KEY_ID"),
        # the agent's own words
        ("ValueError: DB_URL environment variable is not set", "DB_URL"),
        ("RuntimeError: Please set the environment variable DB_URL.", "DB_URL"),
        ("AssertionError: `DB_URL` must be set", "DB_URL"),
        # pydantic-settings
        ("ValidationError: 2 validation errors for Settings db_url Field required b", "DB_URL"),
    ],
)
def test_what_is_lacking(message: str, name: str) -> None:
    passes = AgentVariables(environ={"CI": "true"}).passes(name)
    said = explained(message, **{name: "value"})
    assert said == (
        ""
        if passes
        else f"{name} is set here but not passed to the agent; name it: {WITH.format(name)}"
    )
    assert (
        f"{name} is set here but empty, as secrets are in a fork's or Dependabot's pull request"
        in explained(message, **{name: ""})
    )
    assert f"{name} is " in explained(message)
    assert "not passed" not in explained(message)


@pytest.mark.parametrize(
    ("message", "more"),
    [
        ("KeyError: 'CITY'", {}),  # of a dict of the agent's own
        ("ValueError: the shared_key was refused", {}),
        (
            "ClientError: 404 NOT_FOUND. {'error': {'message': 'models/x is not found', 'status': 'NOT_FOUND'}}",
            {},
        ),
        ("KeyError: 'DB_URL' (not in os.environ)", {"kind": FailureKind.TIMEOUT}),
        # of logs only what an agent says as it ends
        ("ValueError: division by zero", {"detail": "warning: DB_URL is not set"}),
        # one that may lack, but the error is about something else
        (
            "ValueError",
            {"detail": NONE.format("Input should be a valid string"), "kind": FailureKind.START},
        ),
        # it is there, so that something else is the matter
        ("ValueError: SHARED_KEY is required", {"SHARED_KEY": "value"}),
    ],
)
def test_what_smells_of_nothing(message: str, more: dict[str, str]) -> None:
    assert explained(message, **more) == ""


@pytest.mark.parametrize(
    ("kind", "detail"),
    [
        (FailureKind.EXITED, TRACEBACK.format(file="/usr/lib/python3.11/os.py")),
        (
            FailureKind.START,
            TRACEBACK.format(file="<frozen os>").replace("    raise KeyError(key) from None\n", ""),
        ),
        (
            FailureKind.START,
            NONE.format("Input should be a valid string [input_value=None, input_type=NoneType]"),
        ),
        (
            FailureKind.START,
            NONE.format("TypeError: expected str, not NoneType").replace("getenv", "environ.get"),
        ),
        (
            FailureKind.RAISED,
            "Traceback\nValueError: no desk\ncaused by KeyError: 'DB_URL' (not in os.environ)",
        ),
    ],
)
def test_the_cause_may_be_behind_the_message(kind: FailureKind, detail: str) -> None:
    assert explained("the agent's process exited with code 1", detail=detail, kind=kind).startswith(
        "DB_URL is not set"
    )


def test_a_worker_tells_whose_key_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DB_URL", raising=False)
    said = []
    for mapping in (os.environ, {}):
        try:
            mapping["DB_URL"]
        except KeyError as error:
            said.append(errors.sentence(error))
    assert said == ["KeyError: 'DB_URL' (not in os.environ)", "KeyError: 'DB_URL'"]


def test_a_worker_says_why_its_conversation_failed() -> None:
    def launch() -> Launch:
        raise AgentFailed(FailureKind.START.failure("DB_URL is not set"))

    setting = AgentSetting(
        root="/",
        world=InstallSetup(environment={}, cache="/nowhere"),
        variables=AgentVariables(environ={"DB_URL": "", "CI": "true"}),
    )
    key = TrialKey(suite="a.test.json", case_id="a")
    with (
        pytest.raises(AgentFailed, match=r"DB_URL is set here but empty, .* \(DB_URL is not set\)"),
        WorkerPool(launch, setting=setting).converse(Case(case_id="a"), key),
    ):
        pass
