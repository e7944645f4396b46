"""The four informational criteria: numbers as ADK's, unknown where nobody recorded anything."""

from typing import Any

import pytest

from evalgate import criteria
from evalgate.criteria.base import CriterionServices
from evalgate.model import (
    Case,
    Content,
    CriterionUse,
    Event,
    Grade,
    Invocation,
    NotEvaluated,
    Reason,
    Score,
    Timings,
    ToolCall,
    TrialView,
    Usage,
)
from evalgate.model.deviations import under

PLAIN = Event(author="a")


def turn(*events: Event, **more: Any) -> Invocation:
    return Invocation(user_content=Content(), events=events, **more)


def unrecorded(**more: Any) -> Invocation:
    return Invocation(user_content=Content(), **more)


def calling(count: int) -> Event:
    return Event(author="a", content=Content(parts=(ToolCall(name="t"),) * count))


def using(**tokens: int) -> Event:
    return Event(author="a", usage=Usage(**tokens))


def grade(name: str, *actual: Invocation, adk_compat: bool = False) -> Grade:
    use = CriterionUse(name=name, threshold=None, informational=True)
    evidence = TrialView(case=Case(case_id="c"), actual=actual, expected=None)
    return criteria.build(use, CriterionServices(deviations=under(adk_compat=adk_compat)))(evidence)


@pytest.mark.parametrize(
    ("name", "actual", "turns", "value", "compatible"),
    [
        (
            "tool_call_count_v1",
            [turn(calling(2)), turn(calling(1), calling(1)), turn()],
            (2.0, 2.0, 0.0),
            4 / 3,
            4 / 3,
        ),
        ("tool_call_count_v1", [turn(calling(2)), unrecorded()], (2.0, None), 2.0, 1.0),
        (
            "inference_call_count_v1",
            [turn(using(), Event(author="a", model_version="m"), PLAIN)],
            (2.0,),
            2.0,
            2.0,
        ),
        ("inference_call_count_v1", [turn(using()), turn(PLAIN)], (1.0, None), 1.0, 0.5),
        ("inference_call_count_v1", [turn(using()), unrecorded()], (1.0, None), 1.0, 1.0),
        (
            "inference_call_count_v1",
            [turn(using()), turn(using(), itemized=False)],
            (1.0, None),
            1.0,
            1.0,
        ),
        (
            "token_usage_v1",
            [turn(using(prompt_tokens=7), using(candidates_tokens=2))],
            (9.0,),
            9.0,
            9.0,
        ),
        ("token_usage_v1", [turn(using(prompt_tokens=8)), turn(PLAIN)], (8.0, None), 8.0, 4.0),
        ("token_usage_v1", [turn(using(prompt_tokens=8)), turn(using())], (8.0, None), 8.0, 4.0),
    ],
)
def test_the_value_is_the_mean_over_the_turns_that_are_known(
    name: str, actual: list[Invocation], turns: Any, value: float, compatible: float
) -> None:
    found, as_adk = grade(name, *actual), grade(name, *actual, adk_compat=True)
    assert isinstance(found, Score)
    assert isinstance(as_adk, Score)
    assert (found.turns, found.value, as_adk.value) == (turns, value, compatible)


@pytest.mark.parametrize(
    "name", [name for name, spec in criteria.CRITERIA.items() if spec.informational]
)
def test_what_nobody_recorded_is_unknown_never_zero(name: str) -> None:
    for actual in ([unrecorded()], [unrecorded(), unrecorded()], []):
        found = grade(name, *actual)
        assert isinstance(found, NotEvaluated)
        assert (found.reason, found.turns) == (Reason.NOTHING_RECORDED, (None,) * len(actual))


def test_tokens_are_broken_down_by_kind_and_the_reported_total_is_not_used() -> None:
    first = using(
        prompt_tokens=100,
        cached_tokens=40,
        tool_use_prompt_tokens=10,
        candidates_tokens=5,
        total_tokens=999,
    )
    second = using(prompt_tokens=50, thoughts_tokens=20)
    found = grade(
        "token_usage_v1", turn(first, second), turn(using(prompt_tokens=30, candidates_tokens=5))
    )
    assert isinstance(found, Score)
    assert dict(found.breakdown) == {
        "total_tokens": 110.0,
        "input_tokens": 95.0,
        "prompt_tokens": 90.0,
        "cached_tokens": 20.0,  # a kind that one turn did not report counts 0 there
        "tool_use_tokens": 5.0,
        "output_tokens": 15.0,
        "candidates_tokens": 5.0,
        "reasoning_tokens": 10.0,
    }


def test_a_kind_that_nobody_reported_is_absent() -> None:
    found = grade("token_usage_v1", turn(using(prompt_tokens=1)))
    assert isinstance(found, Score)
    assert set(found.breakdown) == {"total_tokens", "input_tokens", "prompt_tokens"}


def test_seconds_are_split_and_untimed_turns_left_out() -> None:
    # the parts exceed the total by a hair
    timed = turn(timings=Timings(total_s=2.0, model_s=1.5, tool_s=0.6))
    total_only = turn(timings=Timings(total_s=1.0005))
    found = grade("invocation_duration_v1", timed, turn(), total_only)
    assert isinstance(found, Score)
    assert found.turns == (2.0, None, 1.0005)
    assert found.value == 1.5
    assert dict(found.breakdown) == {
        "total_seconds": 1.5,
        "model_seconds": 1.5,
        "tool_seconds": 0.6,
        "framework_seconds": 0.0,
    }
