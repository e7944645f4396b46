"""Prices, budgets and accounts: unknown is never 0."""

from __future__ import annotations

import contextlib
import threading

import pytest
from builders.judging import USAGE, request
from hypothesis import given, settings, strategies as st

from evalgate.config.gate_file import BudgetRule
from evalgate.judges import models
from evalgate.judges.base import JudgeFailed, JudgeFailureKind, JudgeRequest
from evalgate.judges.panel import JudgeBudget, UsageLedger
from evalgate.model import Usage

# --- prices ---------------------------------------------------------------------------------------


def cost(model: str, **tokens: int | None) -> float | None:
    return models.cost_usd(model, Usage(**tokens))


def test_a_known_model_costs_by_its_tokens() -> None:
    small = cost("gemini-2.5-flash", prompt_tokens=1000, candidates_tokens=100)
    assert small is not None
    assert 0 < small < 0.01
    assert cost("gemini-2.5-flash", prompt_tokens=2000, candidates_tokens=200) == pytest.approx(
        2 * small
    )


def test_thoughts_are_paid_as_output_and_cached_input_is_cheaper() -> None:
    plain = cost("gemini-2.5-flash", prompt_tokens=1000, candidates_tokens=100)
    thought = cost("gemini-2.5-flash", prompt_tokens=1000, candidates_tokens=60, thoughts_tokens=40)
    cached = cost("gemini-2.5-flash", prompt_tokens=1000, candidates_tokens=100, cached_tokens=900)
    assert plain is not None
    assert thought == pytest.approx(plain)
    assert cached is not None
    assert cached < plain


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        # nobody knows it
        ("gemini-99-ultra", {"prompt_tokens": 10, "candidates_tokens": 10}),
        # served by who knows whom
        ("house/gemini-2.5-flash", {"prompt_tokens": 10, "candidates_tokens": 10}),
        ("gemini-2.5-flash", {"candidates_tokens": 10}),  # nobody counted
        ("gemini-2.5-flash", {}),
    ],
)
def test_unknown_is_none(model: str, tokens: dict[str, int]) -> None:
    assert cost(model, **tokens) is None
    assert models.cost_usd(model, None) is None


def test_is_known() -> None:
    assert models.is_price_known("gemini-2.5-flash")
    assert models.is_price_known("gpt-4.1")
    assert not models.is_price_known("openai/qwen2.5-1.5b-instruct")


# --- budgets --------------------------------------------------------------------------------------


def refused(held: JudgeBudget) -> str:
    with pytest.raises(JudgeFailed) as raised:
        held.reserve()
    assert raised.value.failure.kind is JudgeFailureKind.BUDGET_SPENT
    return raised.value.failure.message


@pytest.mark.parametrize(
    ("outcome", "waited_for"), [("fails, for free", "goes"), ("is answered", "is refused")]
)
def test_the_last_call_of_a_budget_is_waited_for(outcome: str, waited_for: str) -> None:
    held = JudgeBudget(BudgetRule(calls=2))
    held.reserve()
    held.settle(Usage(total_tokens=5))
    held.reserve()
    ends: list[str] = []

    def next_one() -> None:
        try:
            held.reserve()
        except JudgeFailed:
            ends.append("is refused")
        else:
            ends.append("goes")

    thread = threading.Thread(target=next_one)
    thread.start()
    thread.join(timeout=0.05)
    assert ends == []
    if outcome == "is answered":
        held.settle(Usage(total_tokens=5))
    else:
        held.settle(is_paid=False)
    thread.join(timeout=10)
    assert ends == [waited_for]


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (BudgetRule(tokens=1000), "1,000 tokens"),
        (BudgetRule(usd=0.5), "$0.50"),
        (BudgetRule(calls=0), "0"),
    ],
)
def test_a_spent_budget_refuses(limits: BudgetRule, said: str) -> None:
    held = JudgeBudget(limits)
    if limits.calls is None:
        held.reserve()
        held.settle(Usage(total_tokens=1000), 0.5)
    assert said in refused(held)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 50), st.integers(1, 8), st.integers(1, 100))
def test_many_at_once_overshoot_by_no_more_than_their_first_wave(
    limit: int, at_once: int, each: int
) -> None:
    held = JudgeBudget(BudgetRule(tokens=limit * each))
    spent: list[int] = []

    def spend() -> None:
        with contextlib.suppress(JudgeFailed):
            while True:
                held.reserve()
                spent.append(each)
                held.settle(Usage(total_tokens=each))

    threads = [threading.Thread(target=spend) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert limit * each <= sum(spent) <= max(limit, at_once) * each


# --- the books ------------------------------------------------------------------------------------


PRICED = "gemini-2.5-flash"


def asking(criterion: str, model: str = PRICED) -> JudgeRequest:
    return request(model=model, criterion=criterion)


def test_the_books_by_criterion_and_model() -> None:
    ledger = UsageLedger()
    ledger.add(asking("a"), USAGE, calls=1)
    ledger.add(asking("a"), calls=1)
    ledger.add(asking("a", "gpt-4.1"), USAGE, calls=1)
    ledger.add(asking("a"), cached=1)
    ledger.add(asking("a"), retries=1)
    ledger.add(asking("a"), failures={"timeout": 1})
    ledger.add(asking("b"), USAGE, failures={"truncated": 1})
    first, other, second = ledger.uses()
    assert [(use.criterion, use.model) for use in (first, other, second)] == [
        ("a", PRICED),
        ("a", "gpt-4.1"),
        ("b", PRICED),
    ]
    price, other_price = (models.cost_usd(model, USAGE) for model in (PRICED, "gpt-4.1"))
    assert price
    assert other_price
    assert (first.calls, first.cached, first.retries) == (2, 1, 1)
    assert (first.prompt_tokens, first.output_tokens) == (100, 10)
    assert (first.cost_usd, first.unpriced, first.failures) == (price, 1, {"timeout": 1})
    assert (other.calls, other.cost_usd, other.unpriced) == (1, other_price, 0)
    # a reply that was cut is no answer, and paid for
    assert (second.calls, second.cost_usd, second.failures) == (0, price, {"truncated": 1})


def test_no_price_at_all_is_no_cost() -> None:
    ledger = UsageLedger()
    ledger.add(asking("a", "m"), USAGE, calls=1)
    assert [(use.cost_usd, use.unpriced) for use in ledger.uses()] == [(None, 1)]
