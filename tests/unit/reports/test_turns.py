"""The turns of one case, expected beside actual."""

from __future__ import annotations

import dataclasses

import pytest
from builders import build
from builders.build import TOOLS, WORDS, call, case, turn

from evalgate.model import (
    Attachment,
    Case,
    Content,
    ConversationScenario,
    FailureKind,
    Finding,
    Report,
    Score,
    Text,
    VerdictKind,
)
from evalgate.reports import terminal, turns, view
from evalgate.reports.turns import Turn


def turns_of(report: Report) -> tuple[Turn, ...]:
    (only,) = view.view_of(report).cases
    return turns.conversation_of(only).turns


def told(asked: Case, done: build.Done) -> Report:
    suite = build.suite(asked)
    return build.run_report([suite], {(suite.key, asked.case_id): [done]})


def test_turns_expected_beside_actual() -> None:
    asked = case("c", turn("one", call("a"), answer="1"), turn("two", answer="2"))
    done = build.scores(
        turn("one", call("a"), answer="1"),
        turn("two", call("b"), answer="3"),
        **{TOOLS: [1.0, 0.0], WORDS: [1.0, 0.9]},
    )
    first, second = turns_of(told(asked, done))
    assert (first.user, first.expected_answer, first.actual_answer, first.is_notable) == (
        "one",
        "1",
        "1",
        False,
    )
    assert (second.expected_calls, second.actual_calls, second.is_notable) == (
        (),
        (call("b"),),
        True,
    )
    assert [(score.name, score.value, score.kind) for score in second.scores] == [
        (TOOLS, 0.0, VerdictKind.FAIL),
        (WORDS, 0.9, VerdictKind.PASS),
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # a criterion takes it as no call at all, and fails: the calls are what differs
        ({TOOLS: [0.0], WORDS: [1.0]}, ()),
        # it passes, or there is none
        ({TOOLS: [1.0], WORDS: [0.0]}, None),
        ({WORDS: [0.0]}, None),
    ],
)
def test_a_file_that_says_nothing_of_calls(
    values: dict[str, list[float]], expected: tuple[()] | None
) -> None:
    asked = case("c", dataclasses.replace(turn("one", answer="1"), events=None))
    report = told(asked, build.scores(turn("one", call("a"), answer="1"), **values))
    (only,) = turns_of(report)
    assert (only.expected_calls, only.actual_calls) == (expected, (call("a"),))
    assert ("+ a()" in terminal.render(report)) is (expected is not None)
    assert (
        "a was called and is not expected"
        in [cause.cause for cause in view.causes_of(view.view_of(report).cases)]
    ) is (expected is not None)


@pytest.mark.parametrize(
    ("criterion", "options", "shown"),
    [
        (TOOLS, {}, 0),  # the calls, expected beside actual, say the same
        (TOOLS, {"match_type": "IN_ORDER"}, 1),  # not which of the differences counts
        (TOOLS, {"matchers": {"*": {"when": "any"}}}, 1),
        (WORDS, {}, 1),
    ],
)
def test_what_the_calls_show_anyway_is_told_once(
    criterion: str, options: dict[str, object], shown: int
) -> None:
    asked = case("c", turn("one", call("a"), answer="1"))
    found = Finding(text="call 1: expected a(), got b()", turn=1)
    done = build.scores(turn("one", call("b"), answer="1"), **{TOOLS: 0.0, WORDS: 0.0})
    done = dataclasses.replace(
        done, grades={**(done.grades or {}), criterion: Score(value=0.0, findings=(found,))}
    )
    suite = build.suite(asked)
    uses = tuple(
        dataclasses.replace(use, options=options if use.name == criterion else {})
        for use in suite.criteria
    )
    suite = dataclasses.replace(suite, criteria=uses)
    (only,) = turns_of(build.run_report([suite], {(suite.key, "c"): [done]}))
    assert len(only.findings) == shown


def test_a_turn_that_never_came_and_one_that_nobody_asked_for() -> None:
    asked = case("c", turn("one", answer="1"), turn("two", answer="2"))
    zero = {TOOLS: 0.0, WORDS: 0.0}
    missing = turns_of(told(asked, build.scores(turn("one", answer="1"), **zero)))[1]
    assert (missing.actual is not None, missing.is_planned, missing.user, missing.is_notable) == (
        False,
        True,
        "two",
        True,
    )
    extra = turns_of(told(asked, build.scores(*[turn("x", answer="1")] * 3, **zero)))[2]
    assert (extra.actual is not None, extra.is_planned, extra.is_notable) == (True, False, True)


def test_a_broken_agent_shows_how_far_it_came() -> None:
    asked = case("c", turn("one", answer="1"), turn("two", answer="2"))
    failure = build.failed(FailureKind.RAISED, "x", partial=(turn("one", answer="1"),))
    first, second = turns_of(told(asked, failure))
    assert first.actual is not None
    assert second.actual is None


def test_a_simulated_conversation_has_no_expected_side() -> None:
    scenario = ConversationScenario(starting_prompt="hi", conversation_plan="ask")
    asked = Case(case_id="c", scenario=scenario)
    (only_turn,) = turns_of(
        told(asked, build.scores(turn("hi", answer="yes"), **{TOOLS: 0.0, WORDS: 0.0}))
    )
    assert (only_turn.is_planned, only_turn.expected_calls, only_turn.expected_answer) == (
        True,
        None,
        None,
    )


def test_a_lost_transcript_is_no_conversation() -> None:
    made = build.report("fail")
    made = dataclasses.replace(made, run=dataclasses.replace(made.run, transcripts={}.get))
    assert turns_of(made) == ()


def test_the_answer_is_what_is_said_aloud() -> None:
    said = Content(
        parts=(Text(text="hm", thought=True), Text(text="a"), Attachment(data={}), Text(text="b"))
    )
    assert turns.answer_text(said) == "a\nb"
    assert turns.answer_text(Content(parts=(Text(text="hm", thought=True),))) is None
    assert turns.answer_text(None) is None


@pytest.mark.parametrize(
    ("marks", "shown", "left_out"),
    [
        (" - + ", (" - + "), 0),
        # from shortly before the first mark on
        ("          -+   ", "  -+ ", 10),
        # as many as there is room for, where the mark is the last
        ("          +", "    +", 6),
        ("           ", "     ", 6),
    ],
)
def test_lines_around_the_first_changed_call(marks: str, shown: str, left_out: int) -> None:
    calls = [(mark, call(f"c{number}")) for number, mark in enumerate(marks)]
    expected, actual = ([one for mark, one in calls if mark in side] for side in (" -", " +"))
    found, rest = turns.call_lines(expected, actual, width=80, most=5)
    assert ("".join(line.mark for line in found), rest) == (shown, left_out)
