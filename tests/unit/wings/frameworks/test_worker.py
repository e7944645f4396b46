"""What the adapters for other frameworks share: token counts, what makes agents and contexts."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
import typing_extensions

from evalgate.wings.frameworks.worker import agent_framework, frameworks
from evalgate.worker import errors


@pytest.mark.parametrize(
    ("given", "answered", "more", "counts"),
    [
        # nobody counted
        (None, None, {}, None),
        (0, 0, {"cached_tokens": 0}, None),
        # one side only: no total
        (5, None, {}, {"prompt_token_count": 5}),
        (5, 2, {}, {"prompt_token_count": 5, "candidates_token_count": 2, "total_token_count": 7}),
        # thoughts are a part of what OpenAI calls output, and apart from what ADK calls candidates
        (
            5,
            9,
            {"cached_tokens": 4, "thought_tokens": 6},
            {
                "prompt_token_count": 5,
                "candidates_token_count": 3,
                "thoughts_token_count": 6,
                "cached_content_token_count": 4,
                "total_token_count": 14,
            },
        ),
    ],
)
def test_tokens_as_adk_counts_them(
    given: Any, answered: Any, more: dict[str, Any], counts: Any
) -> None:
    assert frameworks.usage_of(given, answered, **more) == counts


class Keys(typing_extensions.TypedDict):
    """As LangGraph's templates write a context."""

    key: str


@pytest.mark.parametrize("context_class", [None, dict, str, Keys, dict[str, str]])
def test_a_dict_is_context_enough(context_class: Any) -> None:
    assert frameworks.build_context(context_class, {}) is None


class Deps:
    """Needs nothing."""


async def later(state: dict[str, Any]) -> str:
    """Needs the state, and takes its time."""
    return f"of {state['user']}"


@pytest.mark.parametrize(
    ("maker", "what"),
    [
        (None, None),
        # no function: as it is
        ({"a": 1}, {"a": 1}),
        (lambda: 3, 3),
        (lambda state: state["user"], "ada"),
        # what has a default is not needed
        (lambda state=None: state, None),
        (later, "of ada"),
    ],
)
def test_what_is_made_once_a_case(maker: Any, what: Any) -> None:
    assert asyncio.run(frameworks.make_object(maker, {"user": "ada"})) == what


def test_a_class_makes_an_object_of_its_own() -> None:
    assert isinstance(asyncio.run(frameworks.make_object(Deps, {})), Deps)


@pytest.mark.parametrize(
    ("answer", "text"),
    [(None, ""), ("so", "so"), ({"a": [1]}, '{"a": [1]}'), (21, "21")],
)
def test_answers_as_texts(answer: Any, text: str) -> None:
    assert frameworks.answer_text(answer) == text


class Database:
    """Needs nothing."""


@dataclasses.dataclass
class Desk:
    """Needs an object that is made without arguments, and a number."""

    database: Database
    number: int
    place: str = "Aachen"


def test_a_context_is_made_of_the_state_and_of_what_needs_nothing() -> None:
    desk = frameworks.build_context(Desk, {"number": 7})
    assert (type(desk.database), desk.number, desk.place) == (Database, 7, "Aachen")
    with pytest.raises(TypeError, match=r"are given a Desk, which needs number \(int\): "):
        frameworks.build_context(Desk, {})


@pytest.mark.parametrize(
    ("version", "is_accepted"),
    [
        ("0.9.9", False),
        # betas of the lowest release are before it, in any spelling
        ("1.0.0b251001", False),
        ("1.0b1", False),
        ("1.0.0.dev3", False),
        ("1", True),
        ("1.0.0", True),
        # of later ones they are not
        ("1.1.0rc1", True),
        ("1.12.3", True),
        # nor are those of the next major version below it
        ("2.0.0b1", False),
        ("2.0.0", False),
    ],
)
def test_versions_that_a_driver_is_made_for(
    monkeypatch: pytest.MonkeyPatch, version: str, is_accepted: bool
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _package: version)
    loading = agent_framework.Host().load({"call": "no_module:agent"})
    with pytest.raises(errors.LoadFailed) as failure:
        asyncio.run(loading)
    assert ("made for agent-framework-core>=1,<2" not in str(failure.value)) is is_accepted
