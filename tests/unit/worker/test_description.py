"""What an agent is made of, read from objects that may be anything."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from evalgate.worker import description


def described(root: object) -> list[dict]:
    return [description.describe(each) for each in description.tree(root)]


def refund(order: str, amount: float = 0.5, how=object(), tool_context: Any = None) -> None:  # type: ignore[no-untyped-def]  # noqa: B008
    """Refunds an order."""


class Hostile:
    """Whatever is asked of it raises."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Declares:
    name, description = "search", "Searches."

    def _get_declaration(self) -> Any:
        schema = {
            "properties": {"q": {"type": "STRING"}, "n": {"type": "integer"}},
            "required": ["q"],
        }
        return SimpleNamespace(parameters_json_schema=schema)


class Raises(Declares):
    def _get_declaration(self) -> Any:
        raise RuntimeError("no server")


def agent(**more: Any) -> Any:
    return SimpleNamespace(**{"name": "desk", **more})


def connect(
    api_key: str = "sk-live-1", dsn: str = "pg://u:pw@db", auth: str = "x", how: str = "fast"
) -> None:
    """Connects."""


@pytest.mark.parametrize(
    ("tool", "name", "parameters"),
    [
        # a value of its own would read otherwise in each process
        (refund, "refund", {"order": "str", "amount": "float = 0.5", "how": "= ..."}),
        (
            SimpleNamespace(name="refund", func=refund),
            "refund",
            {"order": "str", "amount": "float = 0.5", "how": "= ..."},
        ),
        (Declares(), "search", {"q": '{"type": "string"}', "n": '{"type": "integer"} (optional)'}),
        (Raises(), "search", {}),
        # a secret stands in the place of a default
        (
            connect,
            "connect",
            {
                "api_key": "str = ...",
                "dsn": "str = ...",
                "auth": "str = ...",
                "how": "str = 'fast'",
            },
        ),
        (Hostile(), "Hostile", {}),
        # a toolset, which may have to ask a server
        (type("McpToolset", (), {})(), "McpToolset", {}),
    ],
    ids=lambda given: type(given).__name__,  # pytest would ask what raises for its name
)
def test_a_tool(tool: Any, name: str, parameters: dict[str, str]) -> None:
    (told,) = described(agent(tools=[tool]))
    assert list(told["tools"]) == [name]
    assert told["tools"][name]["parameters"] == parameters


@pytest.mark.parametrize(
    ("given", "key", "value"),
    [
        ({"model": "gemini"}, "model", "gemini"),
        ({"model": SimpleNamespace(model="openai/gpt")}, "model", "openai/gpt"),  # LiteLlm
        ({"model": Hostile()}, "model", "Hostile"),
        ({}, "model", ""),  # that of the agent above it
        ({"instruction": "Be kind."}, "instruction", "Be kind."),
        ({"instruction": refund}, "instruction", "(made by refund())"),
        ({"instruction": "b", "global_instruction": "a"}, "instruction", "a\n\nb"),
        (
            {"static_instruction": SimpleNamespace(parts=[SimpleNamespace(text="a")])},
            "instruction",
            "a",
        ),
        ({"instruction": "x" * 100_000}, "instruction", "x" * description.INSTRUCTION),
        (
            {"generate_content_config": SimpleNamespace(temperature=0.2, http_options="secret")},
            "settings",
            {"temperature": "0.2"},
        ),
        ({"max_iterations": 3, "include_contents": "default"}, "settings", {"max_iterations": "3"}),
        ({"generate_content_config": Hostile()}, "settings", {}),
    ],
    ids=lambda given: type(given).__name__,  # pytest would ask what raises for its name
)
def test_an_agent(given: dict[str, Any], key: str, value: Any) -> None:
    (told,) = described(agent(**given))
    assert told[key] == value


def test_every_agent_is_told_once() -> None:
    tool = SimpleNamespace(name="ask_helper", agent=agent(name="helper"))
    child = agent(name="child", tools=[tool])
    root = agent(name="root", sub_agents=[child], tools=[tool])
    child.sub_agents = [root]  # a circle
    found = described(root)
    assert [each["name"] for each in found] == ["root", "helper", "child"]
    assert json.loads(json.dumps(found)) == found


def test_a_huge_tree_is_bounded() -> None:
    found = described(
        agent(
            sub_agents=[agent(name=str(number)) for number in range(1_000)], tools=[refund] * 9_999
        )
    )
    assert len(found) == description.MOST_AGENTS


class LiteLlm(SimpleNamespace):
    """Named as google-adk's client."""


class OwnClient(SimpleNamespace):
    """Asks whatever it likes."""


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("gemini-2.5-flash", ["gemini-2.5-flash"]),
        # of the agent above
        ("", []),
        (None, []),
        (LiteLlm(model="openai/gpt-4o", _additional_args={"temperature": 0}), ["openai/gpt-4o"]),
        # the source says what it is asked with
        (LiteLlm(model="openai/gpt-4o", _additional_args={"api_key": "x"}), []),
        (LiteLlm(model="openai/gpt-4o", api_key="x"), []),
        (OwnClient(model="openai/gpt-4o"), []),
    ],
)
def test_models_that_are_asked_with_keys_of_the_environment(model: Any, names: list[str]) -> None:
    assert description.models(agent(model="my-own", sub_agents=[agent(model=model)])) == [
        "my-own",
        *names,
    ]


def test_no_model_breaks_it() -> None:
    assert description.models(
        agent(model=Hostile(), tools=[SimpleNamespace(agent=agent(model="its-own"))])
    ) == ["its-own"]
