"""What is said of where head's conversation parts from the base's."""

from __future__ import annotations

import dataclasses
import re

import pytest
from builders import comparing, led_scenarios
from builders.build import call, text, turn

from evalgate.model import Event, Invocation, SimulatorUse, ToolCall
from evalgate.reports import comment, html_report, turns, view

A = turn("A table, please.", answer="For how many?")
B = turn("For two.", answer="At what time?")


def says(answer: str | None, *calls: ToolCall, user: str = "For two.") -> Invocation:
    return turn(user, *calls, answer=answer)


def sentence(
    base: tuple[Invocation, ...],
    head: tuple[Invocation, ...],
    simulator: SimulatorUse | None = None,
) -> str:
    report = led_scenarios.report({"c": head}, {"c": base}, simulator=simulator)
    return turns.conversation_of(view.view_of(report).cases[0]).divergence


PAID = (says("Paid.", call("pay", francs=2)), says("Paid.", call("pay", francs=3)))
HEARS_CALLS = SimulatorUse(include_function_calls=True)


@pytest.mark.parametrize(
    ("base", "head", "words"),
    [
        ((A, B), (A, B), "The base had the same conversation."),
        (
            (A, B, A),
            (A, says("Booked."), B),
            "The conversations diverge in turn 2;",
        ),
        (
            (A, B, A),
            (A, says("Booked."), B),
            "from turn 3 on, the simulated users say different things.",
        ),
        ((A, B, A), (A, says("Booked.")), "from turn 3 on, only the base's continues."),
        ((A, B), (A, says("Booked."), B), "from turn 3 on, only head's continues."),
        (
            (A, B),
            (A, says(None)),
            "diverge in turn 2; the simulated user replied the same to both.",
        ),
        (
            (A, B),
            (A, says("At what time?", user="Two!")),
            "From turn 2 on, the simulated user says something",
        ),
    ],
)
def test_the_sentence(
    base: tuple[Invocation, ...], head: tuple[Invocation, ...], words: str
) -> None:
    assert words in sentence(base, head)


def test_calls_that_the_user_sees_count() -> None:
    base, head = ((A, PAID[0], A), (A, PAID[1], B))
    assert "diverge in turn 2;" in sentence(base, head, HEARS_CALLS)
    assert "although it had received the same replies" in sentence(base, head)


def test_steps_before_the_same_answer_count() -> None:
    event = Event(author="desk", content=text("Let me see."))
    sooner = dataclasses.replace(B, events=(event, *(B.events or ())))
    assert "diverge in turn 2;" in sentence((A, B), (A, sooner))


def test_a_case_that_is_written_down_parts_nowhere() -> None:

    report = comparing.report("fail", "pass")
    assert turns.conversation_of(view.view_of(report).cases[0]).divergence == ""


def test_the_base_is_shown_as_far_as_the_user_said_the_same() -> None:
    report = led_scenarios.parted()
    [broken, _, alike] = (turns.conversation_of(case).turns for case in view.view_of(report).cases)
    assert [turn.base_answer for turn in broken if turn.base] == ["For how many?", "At what time?"]
    assert sum(turn.base is not None for turn in alike) == 3


def test_what_agents_said_breaks_out_of_no_report() -> None:
    evil = "```\n</details><script>alert(1)</script> @everyone [x](javascript:y) ``"
    head = (A, says(evil, call("a`<b>`", **{"</details>": evil})), B)
    report = led_scenarios.report(
        {"c": head}, {"c": (A, says(evil * 2), B)}, failing=frozenset({"c"})
    )
    assert "<script>alert" not in html_report.render(report)
    text = _uncoded(comment.render(report))
    assert "The conversations diverge in turn 2" in text
    assert "<script>" not in text
    assert "</script>" not in text
    assert text.count("<details") == text.count("</details>")
    assert "@everyone" not in text


def _uncoded(text: str) -> str:
    """Without what stands within code fences and code spans, of however many backticks."""
    unfenced = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"(?<![\\`])(`+)(?!`).*?(?<!`)\1(?!`)", "", unfenced)
