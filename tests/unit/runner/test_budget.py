"""What a budget lets begin, and what it keeps back to confirm failures."""

from __future__ import annotations

import pytest

from evalgate.config.settings import AgentBudget
from evalgate.model import Content, Event, Invocation, Text, Transcript, Usage
from evalgate.runner.budget import Budget


def trial(tokens: int) -> Transcript:
    said = Content(role="model", parts=(Text(text="yes"),))
    event = Event(
        author="agent",
        content=said,
        usage=Usage(total_tokens=tokens),
        model_version="gemini-2.5-flash",
    )
    return Transcript(invocations=(Invocation(user_content=said, events=(event,)),))


@pytest.mark.parametrize(
    ("limits", "failure_after", "kept_back", "first", "most", "why"),
    [
        # nothing fails: all of it goes to the first runs
        ({"agent_calls": 24}, None, 12, 24, 24, "the budget of 24 agent runs is spent"),
        # something fails early: what confirming needs is left
        (
            {"agent_calls": 40},
            2,
            12,
            28,
            40,
            "the rest of the budget of 40 agent runs is kept to confirm failures",
        ),
        # at most half, so that a small budget still measures something
        (
            {"agent_calls": 8},
            1,
            12,
            4,
            8,
            "the rest of the budget of 8 agent runs is kept to confirm failures",
        ),
        # too late: what is left is all there is
        (
            {"agent_calls": 24},
            20,
            12,
            20,
            24,
            "the rest of the budget of 24 agent runs is kept to confirm failures",
        ),
        # nothing is rerun: nothing is kept
        ({"agent_calls": 24}, 2, 0, 24, 24, "the budget of 24 agent runs is spent"),
        # what a run takes is what one has taken on the average
        (
            {"tokens": 4_000},
            2,
            12,
            28,
            40,
            "the rest of the budget of 4,000 agent tokens is kept to confirm failures",
        ),
        # half of the tokens is met before
        (
            {"tokens": 1_000},
            2,
            12,
            5,
            10,
            "the rest of the budget of 1,000 agent tokens is kept to confirm failures",
        ),
        # the tighter of two bounds
        (
            {"agent_calls": 40, "tokens": 2_000},
            2,
            12,
            10,
            20,
            "the rest of the budget of 2,000 agent tokens is kept",
        ),
    ],
)
def test_first_runs_leave_what_confirming_needs(
    limits: dict[str, int],
    failure_after: int | None,
    kept_back: int,
    first: int,
    most: int,
    why: str,
) -> None:
    budget, begun = Budget(AgentBudget(**limits)), 0
    while budget.begin():
        begun += 1
        budget.spend(trial(100))
        if begun == failure_after:
            budget.keep_back(kept_back)
    assert begun == first
    assert str(budget.truncated).startswith(why)
    budget.release()
    while budget.begin():
        begun += 1
        budget.spend(trial(100))
    assert begun == most
    assert str(budget.truncated).endswith("is spent")


def test_a_budget_that_nothing_met_ends_nothing() -> None:
    budget = Budget(AgentBudget(agent_calls=40))
    budget.keep_back(12)
    assert all(budget.begin() for _ in range(20))
    budget.release()
    assert (budget.ended, budget.truncated) == ("", "")
