"""One case as a reader meets it."""

from __future__ import annotations

import pytest
from builders import build
from builders.build import TOOLS, WORDS, call, case, turn

from evalgate.exhibits import cases
from evalgate.model import (
    Attachment,
    Case,
    Content,
    ConversationScenario,
    FailureKind,
    Policy,
    Report,
    Text,
    VerdictKind,
)


def only(report: Report) -> cases.CaseExhibit:
    (exhibit,) = cases.collect(report)
    return exhibit


@pytest.mark.parametrize(
    ("words", "shown", "why"),
    [
        ("pass/pass", 0, "the first, where all are alike"),
        ("pass/fail/pass", 1, "the one below its threshold"),
        ("error/fail", 1, "a wrong answer before a broken agent"),
        ("pass/error", 1, "a broken agent before a pass"),
        ("never/pass", 1, "what ran"),
    ],
)
def test_the_trial_that_shows_what_went_wrong(words: str, shown: int, why: str) -> None:
    trial = only(build.report(words)).shown
    assert trial is not None, why
    assert trial.key.repeat == shown, why


@pytest.mark.parametrize(
    ("words", "flaky"),
    [
        ("pass/pass/pass", False),
        ("pass/fail/pass", True),
        ("0.9/0.75/0.9", True),  # the mean passes all the same
        ("fail/fail/fail", False),
        ("pass/error/pass", False),  # unknown is neither
    ],
)
def test_flaky_is_both_sides_of_the_threshold(words: str, flaky: bool) -> None:
    assert bool(only(build.report(words)).flaky) is flaky


def test_a_broken_agent_is_told_from_a_failing_one() -> None:
    assert only(build.report("error")).agent_failed
    assert not only(build.report("fail")).agent_failed
    assert not only(build.report("fail/error")).agent_failed
    assert only(build.report("error", policy=Policy(adk_compat=True))).agent_failed


def test_skipped_is_told_from_never_run() -> None:
    assert only(build.report("skipped")).skipped
    assert not only(build.report("never")).skipped
    assert not only(build.report("unjudged")).skipped


def test_the_furthest_below_its_threshold_comes_first() -> None:
    exhibits = cases.collect(build.report("0.7 pass 0.1 fail 0.7"))
    order = [exhibit.verdict.case_id for exhibit in cases.worst_first(exhibits)]
    assert order == ["case_4", "case_3", "case_1", "case_5", "case_2"]


def turns_of(report: Report) -> tuple[cases.Turn, ...]:
    return cases.turns(only(report), report.run.transcripts)


def told(asked: Case, done: build.Done) -> Report:
    suite = build.suite(asked)
    return build.run_report([suite], {(suite.key, asked.case_id): [done]})


def test_turns_expected_beside_actual() -> None:
    asked = case("c", turn("one", call("a"), answer="1"), turn("two", answer="2"))
    done = build.scores(
        turn("one", call("a"), answer="1"), turn("two", call("b"), answer="3"), **{TOOLS: [1.0, 0.0], WORDS: [1.0, 0.9]}
    )
    first, second = turns_of(told(asked, done))
    assert (first.user, first.expected_answer, first.actual_answer, first.broken) == ("one", "1", "1", False)
    assert (second.expected_calls, second.actual_calls, second.broken) == ((), (call("b"),), True)
    assert [(score.name, score.value, score.met) for score in second.scores] == [
        (TOOLS, 0.0, False),
        (WORDS, 0.9, True),
    ]


def test_a_turn_that_never_came_and_one_that_nobody_asked_for() -> None:
    asked = case("c", turn("one", answer="1"), turn("two", answer="2"))
    zero = {TOOLS: 0.0, WORDS: 0.0}
    missing = turns_of(told(asked, build.scores(turn("one", answer="1"), **zero)))[1]
    assert (missing.happened, missing.asked, missing.user, missing.broken) == (False, True, "two", True)
    extra = turns_of(told(asked, build.scores(*[turn("x", answer="1")] * 3, **zero)))[2]
    assert (extra.happened, extra.asked, extra.broken) == (True, False, True)


def test_a_broken_agent_shows_how_far_it_came() -> None:
    asked = case("c", turn("one", answer="1"), turn("two", answer="2"))
    failure = build.failed(FailureKind.RAISED, "x", partial=(turn("one", answer="1"),))
    first, second = turns_of(told(asked, failure))
    assert first.happened
    assert not second.happened


def test_a_simulated_conversation_has_no_expected_side() -> None:
    scenario = ConversationScenario(starting_prompt="hi", conversation_plan="ask")
    asked = Case(case_id="c", scenario=scenario)
    (only_turn,) = turns_of(told(asked, build.scores(turn("hi", answer="yes"), **{TOOLS: 0.0, WORDS: 0.0})))
    assert (only_turn.asked, only_turn.expected_calls, only_turn.expected_answer) == (True, None, None)


def test_a_lost_transcript_is_no_conversation() -> None:
    report = build.report("fail")
    lost = build.InMemoryTranscripts({})
    assert cases.turns(only(report), lost) == ()


def test_the_answer_is_what_is_said_aloud() -> None:
    said = Content(parts=(Text(text="hm", thought=True), Text(text="a"), Attachment(data={}), Text(text="b")))
    assert cases.answer_text(said) == "a\nb"
    assert cases.answer_text(Content(parts=(Text(text="hm", thought=True),))) is None
    assert cases.answer_text(None) is None


def test_kinds() -> None:
    exhibits = cases.collect(build.report("pass fail error"))
    assert [each.verdict.kind for each in cases.of_kind(exhibits, VerdictKind.FAIL, VerdictKind.NOT_MEASURED)] == [
        VerdictKind.FAIL,
        VerdictKind.NOT_MEASURED,
    ]
    assert [(each.file, each.line) for each in exhibits] == [(build.SUITE, 10), (build.SUITE, 20), (build.SUITE, 30)]
