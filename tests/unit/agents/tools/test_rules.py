"""Which mock rule answers, and how long it takes."""

from __future__ import annotations

from typing import Any

import pytest

from evalgate.agents.base import PendingCall
from evalgate.agents.toolbox import MockFile, MockRule, MockRules
from evalgate.model import TrialKey

KEY = TrialKey(suite="s", case_id="c")


def at_work(tools: dict[str, Any], *, key: TrialKey = KEY, seed: int = 0) -> MockRules:
    return MockRules(MockFile.model_validate({"tools": tools}), draws=f"{seed}:{key}")


def ask(some: MockRules, tool: str = "t", nth: int = 1, **args: Any) -> Any:
    answer = some.answer(PendingCall(number=nth, tool=tool, args=args), nth=nth)
    if answer is None:
        return None
    if answer.reply:
        return answer.reply.error.message if answer.reply.error else answer.reply.response
    return "runs"


@pytest.mark.parametrize(
    ("rule", "args", "held"),
    [
        # no condition: the default
        ({}, {"a": 1}, True),
        # named arguments are equal, others are free
        ({"args": {"city": "Oslo"}}, {"city": "Oslo", "unit": "C"}, True),
        ({"args": {"city": "Oslo"}}, {"city": "Rome"}, False),
        ({"args": {"city": "Oslo"}}, {}, False),
        ({"args": {"n": 1}}, {"n": 1.0}, True),
        ({"args": {"deep": {"a": 1}}}, {"deep": {"a": 1, "b": 2}}, False),
        # exact: these and no others
        ({"args": {"city": "Oslo"}, "exact": True}, {"city": "Oslo", "unit": "C"}, False),
        ({"args": {"city": "Oslo"}, "exact": True}, {"city": "Oslo"}, True),
        ({"exact": True}, {}, True),
        ({"exact": True}, {"a": 1}, False),
        # a matcher for one argument
        ({"where": {"city": {"regex": "^Os"}}}, {"city": "Oslo", "x": 1}, True),
        ({"where": {"city": {"regex": "^os"}}}, {"city": "Oslo"}, False),
        ({"where": {"city": {"regex": "."}}}, {}, False),
        ({"where": {"city": {"any": True}}, "exact": True}, {"city": 1}, True),
        ({"where": {"tags": {"contains": "a"}}}, {"tags": ["a", "b"]}, True),
        ({"args": {"n": 1.0}, "where": {"m": {"regex": "x"}}}, {"n": 1, "m": "y"}, False),
    ],
)
def test_for_which_calls_a_rule_is_meant(
    rule: dict[str, Any], args: dict[str, Any], held: bool
) -> None:
    assert MockRule.model_validate({**rule, "response": 1}).match(args) is held


def test_the_first_rule_that_holds_answers_and_the_default_comes_last() -> None:
    some = at_work(
        {
            "t": [
                {"args": {"a": 1}, "response": "one"},
                {"args": {"a": 2}, "error": "two"},
                {"run": True},
            ]
        }
    )
    assert [ask(some, a=1), ask(some, a=2), ask(some, a=3)] == ["one", "two", "runs"]
    assert ask(some, "other") is None


def test_own_rules_come_before_those_of_a_pattern() -> None:
    some = at_work(
        {
            "*": [{"response": "any"}],
            "get_*": [{"response": "get"}],
            "get_x": [{"args": {"a": 1}, "response": "x"}],
        }
    )
    assert [ask(some, "get_x", a=1), ask(some, "get_y"), ask(some, "put")] == ["x", "any", "any"]
    assert ask(some, "get_x", a=2) == "any"  # patterns in the order of the file


def test_a_rule_may_answer_a_few_times_only() -> None:
    some = at_work({"t": [{"times": 2, "error": "down"}, {"response": "up"}]})
    assert [ask(some), ask(some), ask(some)] == ["down", "down", "up"]
    assert ask(at_work({"t": [{"times": 1, "response": 1}]}), "t") == 1


def test_chances_come_from_the_seed_and_from_nothing_else() -> None:
    tools = {"t": [{"probability": 0.5, "error": "down"}, {"response": "up"}]}

    def day(seed: int, case: str = "c") -> list[Any]:
        some = at_work(tools, key=TrialKey(suite="s", case_id=case), seed=seed)
        return [ask(some, nth=nth) for nth in range(1, 41)]

    assert day(1) == day(1)
    assert day(1) != day(2)
    assert day(1) != day(1, "another")
    assert 8 <= day(1).count("down") <= 32


def test_latency_lies_between_its_seconds_and_its_jitter_and_is_the_same_again() -> None:
    def delay(nth: int) -> float:
        some = at_work({"t": [{"latency": {"seconds": 0.5, "jitter": 0.2}, "response": 1}]})
        answer = some.answer(PendingCall(number=1, tool="t"), nth=nth)
        assert answer is not None
        assert answer.reply
        return answer.delay_s

    delays = [delay(nth) for nth in range(1, 30)]
    assert all(0.5 <= each < 0.7 for each in delays)
    assert len(set(delays)) > 20
    assert delays == [delay(nth) for nth in range(1, 30)]


def test_probabilities_of_none_and_all() -> None:
    assert ask(at_work({"t": [{"probability": 0, "response": 1}]})) is None
    assert ask(at_work({"t": [{"probability": 1, "response": 1}]})) == 1
