"""Prices, budgets and accounts: unknown is never 0."""

from __future__ import annotations

import contextlib
import dataclasses
import threading

import pytest
from builders.judging import USAGE, request
from hypothesis import given, settings, strategies as st

from evalgate.config.gate_file import BudgetRule
from evalgate.errors import ConfigError
from evalgate.judges import models, panel
from evalgate.judges.base import JudgeFailed, JudgeFailureKind, JudgeRequest
from evalgate.judges.panel import JudgeBudget, UsageLedger
from evalgate.model import Usage

# --- prices ---------------------------------------------------------------------------------------


def cost(model: str, provider: str, **tokens: int | None) -> float | None:
    return models.cost_usd(model=model, provider=provider, usage=Usage(**tokens))


def test_a_known_model_costs_by_its_tokens() -> None:
    small = cost("gemini-2.5-flash", "google", prompt_tokens=1000, candidates_tokens=100)
    assert small is not None
    assert 0 < small < 0.01
    assert cost(
        "gemini-2.5-flash", "google", prompt_tokens=2000, candidates_tokens=200
    ) == pytest.approx(2 * small)


def test_thoughts_are_paid_as_output_and_cached_input_is_cheaper() -> None:
    plain = cost("gemini-2.5-flash", "google", prompt_tokens=1000, candidates_tokens=100)
    thought = cost(
        "gemini-2.5-flash", "google", prompt_tokens=1000, candidates_tokens=60, thoughts_tokens=40
    )
    cached = cost(
        "gemini-2.5-flash", "google", prompt_tokens=1000, candidates_tokens=100, cached_tokens=900
    )
    assert plain is not None
    assert thought == pytest.approx(plain)
    assert cached is not None
    assert cached < plain


@pytest.mark.parametrize(
    ("model", "provider", "tokens"),
    [
        # nobody knows it
        ("gemini-99-ultra", "google", {"prompt_tokens": 10, "candidates_tokens": 10}),
        # served by who knows whom
        ("gemini-2.5-flash", "", {"prompt_tokens": 10, "candidates_tokens": 10}),
        ("gemini-2.5-flash", "google", {"candidates_tokens": 10}),  # nobody counted
        ("gemini-2.5-flash", "google", {}),
    ],
)
def test_unknown_is_none(model: str, provider: str, tokens: dict[str, int]) -> None:
    assert cost(model, provider, **tokens) is None
    assert models.cost_usd(model=model, provider=provider, usage=None) is None


def test_is_known() -> None:
    assert models.is_price_known(model="gemini-2.5-flash", provider="google")
    assert models.is_price_known(model="gpt-4.1", provider="openai")
    assert not models.is_price_known(model="qwen2.5-1.5b-instruct", provider="openai")


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
    held.settle(tokens=5, cost_usd=None)
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
        held.settle(tokens=5, cost_usd=None)
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
        held.settle(tokens=1000, cost_usd=0.5)
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
                held.settle(tokens=each, cost_usd=None)

    threads = [threading.Thread(target=spend) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert limit * each <= sum(spent) <= max(limit, at_once) * each


def test_money_without_prices_is_a_mistake_of_the_config() -> None:
    known = {"gemini-2.5-flash": True, "qwen": False}
    panel.check_priced(BudgetRule(calls=5), known)
    panel.check_priced(BudgetRule(usd=5), {"gemini-2.5-flash": True})
    with pytest.raises(ConfigError, match="no price known for `qwen`"):
        panel.check_priced(BudgetRule(usd=5), known)


# --- the books ------------------------------------------------------------------------------------


def asking(criterion: str, model: str = "m") -> JudgeRequest:
    return dataclasses.replace(request(model=model), criterion=criterion)


def test_the_books_by_criterion_and_model() -> None:
    ledger = UsageLedger()
    ledger.add(asking("a"), calls=1, usage=USAGE, cost_usd=0.25)
    ledger.add(asking("a"), calls=1)
    ledger.add(asking("a", "n"), calls=1, usage=USAGE, cost_usd=0.5)
    ledger.add(asking("a"), cached=1)
    ledger.add(asking("a"), retries=1)
    ledger.add(asking("a"), failures={"timeout": 1})
    ledger.add(asking("b"), failures={"truncated": 1}, usage=USAGE, cost_usd=0.5)
    first, other, second = ledger.uses()
    assert [(use.criterion, use.model) for use in (first, other, second)] == [
        ("a", "m"),
        ("a", "n"),
        ("b", "m"),
    ]
    assert (first.calls, first.cached, first.retries) == (2, 1, 1)
    assert (first.prompt_tokens, first.output_tokens) == (100, 10)
    assert (first.cost_usd, first.unpriced, first.failures) == (0.25, 1, {"timeout": 1})
    assert (other.calls, other.cost_usd, other.unpriced) == (1, 0.5, 0)
    # a reply that was cut is no answer, and paid for
    assert (second.calls, second.cost_usd, second.failures) == (0, 0.5, {"truncated": 1})


def test_no_price_at_all_is_no_cost() -> None:
    ledger = UsageLedger()
    ledger.add(asking("a"), calls=1, usage=USAGE)
    assert [(use.cost_usd, use.unpriced) for use in ledger.uses()] == [(None, 1)]
