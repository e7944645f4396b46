"""What an exception of an agent means."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import httpx
import pydantic
import pytest
import requests
from google.genai import errors as genai_errors

from evalgate.worker import errors


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as caught:  # noqa: BLE001 - SystemExit is among them
        return caught


def genai(code: int) -> genai_errors.APIError:
    kind = genai_errors.ServerError if code >= 500 else genai_errors.ClientError
    return kind(code, {"error": {"message": "said", "status": "S"}})


class StatusError(Exception):
    """As openai, anthropic and litellm have it."""

    __module__ = "openai._exceptions"

    def __init__(self, status_code: int) -> None:
        super().__init__("said")
        self.status_code = status_code


def answered(status: int) -> requests.HTTPError:
    """What `requests` raises for the answer of a service."""
    answer = requests.Response()
    answer.status_code = status
    return requests.HTTPError(response=answer)


class MineError(Exception):
    """An exception of the user's with a number that is no HTTP status of anybody."""

    code = 503


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        # a model's client, by status
        (genai(429), "rate_limited", 429),
        (genai(500), "unreachable", 500),
        (genai(503), "unreachable", 503),
        (genai(408), "unreachable", 408),
        (genai(400), "model_error", 400),
        (genai(403), "unauthorized", 403),
        (StatusError(401), "unauthorized", 401),
        # as the Gemini API refuses a wrong key
        (
            genai_errors.ClientError(400, {"error": {"details": [{"reason": "API_KEY_INVALID"}]}}),
            "unauthorized",
            400,
        ),
        (StatusError(429), "rate_limited", 429),
        (StatusError(529), "unreachable", 529),
        # no connection
        (httpx.ConnectError("x"), "unreachable", None),
        (httpx.ReadTimeout("x"), "unreachable", None),
        (requests.ConnectionError("x"), "unreachable", None),
        (ConnectionResetError("x"), "unreachable", None),
        (socket.gaierror("x"), "unreachable", None),
        # what a service that is no model answers to a tool
        (answered(404), "raised", None),
        (answered(503), "unreachable", 503),
        # the agent's own faults: never retried
        (ValueError("429"), "raised", None),
        (TimeoutError("my own"), "raised", None),
        (FileNotFoundError("x"), "raised", None),
        (MineError("x"), "raised", None),
        (httpx.InvalidURL("x"), "raised", None),
        # the process would have ended
        (SystemExit(2), "exited", None),
    ],
)
def test_kinds(error: BaseException, kind: str, code: int | None) -> None:
    found = errors.describe(raised(error))
    assert (found["kind"], found.get("code")) == (kind, code)


def with_headers(**headers: str) -> BaseException:
    error = StatusError(429)
    error.response = httpx.Response(
        429, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    return error


def with_retry_info(delay: str) -> BaseException:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}
    return genai_errors.ClientError(
        429, {"error": {"message": "said", "status": "RESOURCE_EXHAUSTED", "details": [info]}}
    )


@pytest.mark.parametrize(
    ("error", "wait_s"),
    [
        (with_headers(retry_after="17"), 17.0),
        (with_headers(Retry_After="0.5"), 0.5),
        # rare, and it is only a hint
        (with_headers(retry_after="Wed, 21 Oct 2026 07:28:00 GMT"), None),
        (with_headers(retry_after="-1"), None),
        (with_headers(retry_after="9" * 400), None),
        (with_headers(), None),
        (with_retry_info("31s"), 31.0),
        (with_retry_info("31.5s"), 31.5),
        (with_retry_info("soon"), None),
        (StatusError(429), None),
        (ValueError("retryDelay: '5s'"), None),  # not a provider's word
    ],
)
def test_what_the_provider_asks_to_wait(error: BaseException, wait_s: float | None) -> None:
    assert errors.describe(raised(error)).get("retry_after_s") == wait_s


def test_a_status_in_a_response_counts() -> None:
    response = requests.Response()
    response.status_code = 503
    assert errors.describe(requests.HTTPError("x", response=response))["code"] == 503


def test_the_cause_decides_where_the_exception_says_nothing() -> None:
    assert errors.describe(raised(RuntimeError("wrapped"), genai(429)))["kind"] == "rate_limited"
    group = Exception("several")
    group.exceptions = (ValueError("x"), genai(503))  # type: ignore[attr-defined]
    assert errors.describe(raised(group))["kind"] == "unreachable"


def test_the_same_failure_has_the_same_message() -> None:
    said = {errors.describe(raised(OSError(f"no route to {object()!r}")))["message"] for _ in "ab"}
    assert said == {"OSError: no route to <object object>"}


def test_causes_in_a_circle_end() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert list(errors.errors_of(one)) == [one, two]


@pytest.mark.parametrize(
    ("code", "message", "kind", "status"),
    [
        ("SAFETY", "blocked", "model_error", None),
        ("MAX_TOKENS", None, "model_error", None),
        ("429", "slow down", "rate_limited", 429),
        ("RESOURCE_EXHAUSTED", "quota", "rate_limited", 429),
        ("503 UNAVAILABLE", "later", "unreachable", 503),
        ("UNAVAILABLE", "later", "unreachable", 503),
        ("INTERNAL", "", "unreachable", 500),
    ],
)
def test_error_answers(code: str, message: Any, kind: str, status: int | None) -> None:
    found = errors.ModelAnsweredError(code, message).description
    assert (found["kind"], found.get("code")) == (kind, status)
    assert code in found["message"]


def test_sentences_are_one_line_and_bounded() -> None:
    assert errors.sentence(ValueError("two\n  lines")) == "ValueError: two lines"
    assert errors.sentence(ValueError()) == "ValueError"
    assert len(errors.sentence(ValueError("x" * 99_999))) < 1100
    # as google-adk says that an MCP server is too slow
    late = ConnectionError("no session: ")
    late.__cause__ = TimeoutError()
    assert errors.sentence(late) == "ConnectionError: no session: TimeoutError"


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("grouped", "said"),
    [
        # anyio's, around what an MCP server's client raises
        ([ConnectionError("refused")], "ConnectionError: refused"),
        ([ExceptionGroup("inner", [ValueError("a"), KeyError("b")])], "ValueError: a (and 1 more)"),
        ([OSError("one"), OSError("two"), OSError("three")], "OSError: one (and 2 more)"),
    ],
)
def test_a_group_says_what_its_first_error_says(grouped: list[Exception], said: str) -> None:
    group = ExceptionGroup("unhandled errors in a TaskGroup", grouped)
    assert errors.sentence(group) == said
    assert errors.user_traceback(group).endswith(f"\nof which {said}")


def test_an_exception_that_cannot_be_printed_has_its_name() -> None:
    assert errors.sentence(UnspeakableError()) == "UnspeakableError"


def test_the_users_frames_are_kept() -> None:
    def of_the_user() -> None:
        httpx.get("no-scheme")

    try:
        of_the_user()
    except httpx.UnsupportedProtocol as error:
        text = errors.user_traceback(error)
    assert "of_the_user" in text
    assert "site-packages" not in text
    assert "UnsupportedProtocol" in text


@pytest.mark.parametrize(
    ("module", "advice"),
    [
        (
            "desk_of_nobody.x",
            "If 'desk_of_nobody' is a package, add it to the agent's requirements",
        ),
        (
            "google.adk",
            "Add `google-adk` to the agent's requirements, or name a Python that has it",
        ),
        # named otherwise than the package
        ("yaml", "Add `pyyaml` to"),
        # an installed package lists it, as an optional one (pytest does)
        ("argcomplete", "Add `argcomplete` to"),
        # a part of a namespace that is there: its own package
        ("google.api_core", "Add `google-api-core` to"),
        # of a package that is there
        ("pytest.gone", "The installed version of 'pytest' does not have it."),
    ],
)
def test_a_missing_module_is_named_with_what_to_do(module: str, advice: str) -> None:
    error = raised(ModuleNotFoundError(f"No module named {module!r}", name=module))
    text = str(errors.LoadFailed.of(error, "the agent 'a'"))
    assert f"there is no module named {module!r}" in text
    assert advice in text


MANAGER = """
class Manager:
    def __init__(self, given):
        self._connection_params = given

    def create_session(self):
        raise CancelledError("Cancelled via cancel scope 7f61b192ef90")
"""


@pytest.mark.parametrize(
    ("given", "server"),
    [
        (SimpleNamespace(url="https://key@maps.example:8443/mcp?key=secret"), "maps.example:8443"),
        # StdioConnectionParams
        (SimpleNamespace(server_params=SimpleNamespace(command="npx")), "npx"),
        (SimpleNamespace(command="npx"), "npx"),
        (None, "of a toolset"),
    ],
)
def test_an_mcp_server_that_cannot_be_reached(given: Any, server: str) -> None:
    """google-adk's module, as far as a traceback shows it."""
    module: dict[str, Any] = {"CancelledError": asyncio.CancelledError}
    exec(
        compile(MANAGER, "/site-packages/google/adk/tools/mcp_tool/mcp_session_manager.py", "exec"),
        module,
    )
    with pytest.raises(asyncio.CancelledError) as caught:
        module["Manager"](given).create_session()
    found = errors.describe(caught.value)
    assert found["kind"] == errors.UNREACHABLE
    assert found["message"] == f"no session with the MCP server {server} (CancelledError)"


def test_a_cancellation_of_the_agents_own_is_its_own() -> None:
    found = errors.describe(raised(asyncio.CancelledError("stop")))
    assert (found["kind"], found["message"]) == (errors.RAISED, "CancelledError: stop")


def test_a_pydantic_error_shows_no_part_of_its_input() -> None:
    class Settings(pydantic.BaseModel):
        DESK_KEY: str
        PLACES: int

    with pytest.raises(pydantic.ValidationError) as caught:
        Settings.model_validate({"OTHER_KEY": "sk-secret", "PLACES": "sk-[secret]"})
    assert errors.sentence(caught.value) == (
        "ValidationError: 2 validation errors for Settings DESK_KEY Field required "
        "PLACES Input should be a valid integer, unable to parse string as an integer"
    )
