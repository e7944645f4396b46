"""From a model's name and the files' words to an opened client with its endpoint and key."""

from __future__ import annotations

import pytest
from builders.judging import HeldClock, ScriptedJudge
from hypothesis import given, strategies as st

from evalgate.config.gate_file import JudgeRule
from evalgate.judges import models, rate_limit
from evalgate.judges.base import JudgeFailed, JudgeFailureKind, JudgeSetting
from evalgate.judges.clients import Clients

# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "client", "provider", "name"),
    [
        ("gemini-2.5-flash", "gemini", "google", "gemini-2.5-flash"),
        ("models/gemini-2.5-flash", "gemini", "google", "gemini-2.5-flash"),
        ("gemma-3-27b-it", "gemini", "google", "gemma-3-27b-it"),
        ("gemini/gemini-2.5-pro", "gemini", "google", "gemini-2.5-pro"),  # LiteLLM
        ("vertex_ai/gemini-2.5-pro", "gemini", "vertex", "gemini-2.5-pro"),
        (
            "projects/p/locations/l/endpoints/123",
            "gemini",
            "vertex",
            "projects/p/locations/l/endpoints/123",
        ),
        ("gpt-4.1", "openai", "openai", "gpt-4.1"),
        ("o4-mini", "openai", "openai", "o4-mini"),
        ("openai/gpt-4.1", "openai", "openai", "gpt-4.1"),
        ("claude-sonnet-4-5", "openai", "anthropic", "claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4-5", "openai", "anthropic", "claude-sonnet-4-5"),
        ("openrouter/qwen/qwen3-8b", "openai", "openrouter", "qwen/qwen3-8b"),
        ("ollama_chat/gemma3:1b", "openai", "ollama_chat", "gemma3:1b"),
        ("Qwen/Qwen3-8B", "", "", "Qwen/Qwen3-8B"),  # only with an endpoint of one's own
        ("apigee/gemini-2.5-flash", "", "", "apigee/gemini-2.5-flash"),
        ("omega-1", "", "", "omega-1"),
        ("", "", "", ""),
        ("openai/", "", "", "openai/"),
    ],
)
def test_names(written: str, client: str, provider: str, name: str) -> None:
    found = models.parse_name(written)
    assert (found.client, found.provider, found.name) == (client, provider, name)
    assert found.vertex is (provider == "vertex")


@given(st.text(max_size=30))
def test_any_name_is_read(written: str) -> None:
    assert models.parse_name(written).client in ("", "gemini", "openai")


# --- who is asked ---------------------------------------------------------------------------------


def clients_of(
    defaults: JudgeRule | None = None, **environment: str
) -> tuple[Clients, dict[str, ScriptedJudge]]:
    judges = {name: ScriptedJudge(lambda _: "valid") for name in ("gemini", "openai", "replay")}
    return Clients(
        judges,
        defaults=defaults or JudgeRule(),
        environment=environment,
        limiters=rate_limit.limiters_for(defaults or JudgeRule(), HeldClock()),
    ), judges


def setting_of(
    model: str, defaults: JudgeRule | None = None, **environment: str
) -> tuple[str, JudgeSetting]:
    """The client that was opened for `model`, and what with."""
    held, judges = clients_of(defaults, **environment)
    held.client(model)
    return next((name, judge.settings[0]) for name, judge in judges.items() if judge.settings)


@pytest.mark.parametrize(
    ("model", "defaults", "environment", "client", "base_url", "key", "needs"),
    [
        (
            "gemini-2.5-flash",
            {},
            {"GEMINI_API_KEY": "k"},
            "gemini",
            "",
            "k",
            ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        ),
        # a double, or a gateway: as the client itself reads it, and it may do without a key
        (
            "gemini-2.5-flash",
            {},
            {"GOOGLE_GEMINI_BASE_URL": "http://h"},
            "gemini",
            "http://h",
            "",
            (),
        ),
        (
            "gpt-4.1",
            {},
            {"OPENAI_API_KEY": "k"},
            "openai",
            "https://api.openai.com/v1",
            "k",
            ("OPENAI_API_KEY",),
        ),
        ("gpt-4.1", {}, {"OPENAI_BASE_URL": "http://h/v1"}, "openai", "http://h/v1", "", ()),
        (
            "ollama/x",
            {},
            {"OLLAMA_API_BASE": "http://h:11434"},
            "openai",
            "http://h:11434/v1",
            "",
            (),
        ),
        ("ollama/x", {}, {}, "openai", "http://localhost:11434/v1", "", ()),
        ("Qwen/Qwen3", {"base_url": "http://h/v1"}, {}, "openai", "http://h/v1", "", ()),
        (
            "gemini-2.5-flash",
            {"client": "replay"},
            {},
            "replay",
            "https://api.openai.com/v1",
            "",
            None,
        ),
        # a key of one's own name is demanded wherever the endpoint is
        (
            "x",
            {"base_url": "http://h", "api_key_env": "MINE"},
            {"MINE": "k"},
            "openai",
            "http://h",
            "k",
            ("MINE",),
        ),
    ],
)
def test_endpoint_and_key(
    model: str,
    defaults: dict[str, str],
    environment: dict[str, str],
    client: str,
    base_url: str,
    key: str,
    needs: tuple[str, ...] | None,
) -> None:
    name, setting = setting_of(model, JudgeRule(**defaults), **environment)
    assert (name, setting.base_url, setting.api_key) == (client, base_url, key)
    assert needs is None or setting.api_key_env == needs


def test_vertex_by_name_or_by_wish() -> None:
    assert setting_of("vertex_ai/gemini-2.5-pro")[1].vertex
    assert setting_of("gemini-2.5-pro", GOOGLE_GENAI_USE_VERTEXAI="TRUE")[1].vertex
    assert not setting_of("gemini-2.5-pro", GOOGLE_GENAI_USE_VERTEXAI="0")[1].vertex


def test_nobody_to_ask() -> None:
    held, _ = clients_of()
    assert "unknown judge model `omega-1`" in held.missing(["omega-1"])["omega-1"]
    with pytest.raises(JudgeFailed) as raised:
        held.client("omega-1")
    assert raised.value.failure.kind is JudgeFailureKind.NOT_CONFIGURED


def test_what_a_client_lacks_is_said_before_it_is_opened() -> None:
    judge = ScriptedJudge(lambda _: "", lacking="set THE_KEY")
    held = Clients({"gemini": judge}, defaults=JudgeRule(), environment={})
    assert held.missing(["gemini-2.5-flash"]) == {"gemini-2.5-flash": "set THE_KEY"}
    with pytest.raises(JudgeFailed, match="set THE_KEY"):
        held.client("gemini-2.5-flash")
    assert judge.settings == []


def test_a_model_is_opened_once_and_a_provider_has_one_limiter() -> None:
    held, judges = clients_of()
    assert held.client("gemini-2.5-flash") is held.client("gemini-2.5-flash")
    assert held.client("gemini-2.5-flash")[1] is held.client("gemini-2.5-pro")[1]
    assert held.client("gpt-4.1")[1] is not held.client("gemini-2.5-flash")[1]
    held.close()
    assert (judges["gemini"].closed, judges["openai"].closed, judges["replay"].closed) == (2, 1, 0)


def test_keys_are_taken_out_whatever_their_variable_is_called() -> None:
    held, _ = clients_of(JudgeRule(api_key_env="MINE"), MINE="abc", OPENAI_API_KEY="sk-0123456789")
    assert held.redact("abc and sk-0123456789") == "*** and ***"


@pytest.mark.parametrize(
    ("asked", "judge", "environment", "keys"),
    [
        (["gpt-4.1"], {}, {"OPENAI_API_KEY": "a-long-key", "GOOGLE_API_KEY": "another-key"}, {"OPENAI_API_KEY"}),
        (["gpt-4.1", "gemini-2.5-flash"], {}, {"OPENAI_API_KEY": "key-1", "GEMINI_API_KEY": "key-2"},
         {"OPENAI_API_KEY", "GEMINI_API_KEY"}),
        # of two names the one that is sent
        (["gemini-2.5-flash"], {}, {"GOOGLE_API_KEY": "a-long-key", "GEMINI_API_KEY": "other"}, {"GOOGLE_API_KEY"}),
        # an endpoint that would do without one gets it all the same
        (["Qwen/Qwen3"], {"base_url": "http://here"}, {"OPENAI_API_KEY": "a-long-key"}, {"OPENAI_API_KEY"}),
        (["gpt-4.1"], {"api_key_env": "PW"}, {"PW": "abc", "CI": "abc"}, {"PW"}),
        # the same secret under another name; a short word may be anything
        (["gpt-4.1"], {}, {"OPENAI_API_KEY": "a-long-key", "AUTH": "a-long-key"}, {"OPENAI_API_KEY", "AUTH"}),
        (["gpt-4.1"], {}, {"OPENAI_API_KEY": "none", "PAGER": "none", "MY_KEY": "none"}, {"OPENAI_API_KEY", "MY_KEY"}),
        (["vertex_ai/gemini-2.5-pro"], {}, {"GOOGLE_APPLICATION_CREDENTIALS": "/run/credentials.json"},
         {"GOOGLE_APPLICATION_CREDENTIALS"}),
        (["gpt-4.1"], {"client": "replay"}, {"OPENAI_API_KEY": "a-long-key"}, set()),
        (["gpt-4.1"], {}, {}, set()),
    ],
)  # fmt: skip
def test_which_variables_hold_the_keys_of_judges(
    asked: list[str], judge: dict[str, str], environment: dict[str, str], keys: set[str]
) -> None:
    rule = JudgeRule.model_validate(judge)
    assert Clients(defaults=rule, environment=environment).key_names(asked) == keys


def test_a_replay_has_a_price() -> None:
    assert clients_of(JudgeRule(client="replay"))[0].is_priced("omega-1")
    assert clients_of()[0].is_priced("gemini-2.5-flash")
    assert not clients_of()[0].is_priced("ollama/gemma3")
