"""ROUGE-1 F over answers: exact arithmetic by default, ADK's floats under adk_compat."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, strategies as st

from evalgate import criteria
from evalgate.criteria import response_match
from evalgate.criteria.base import CriterionServices
from evalgate.model import (
    Case,
    Content,
    CriterionUse,
    Grade,
    Invocation,
    NotEvaluated,
    Reason,
    Score,
    Text,
    TrialView,
)
from evalgate.model.deviations import under

# ruff: noqa: RUF001 - letters of every script are the subject here


def turn(*texts: str | Text) -> Invocation:
    """A turn whose answer has these texts; none means that there is no final response."""
    parts = tuple(Text(text=each) if isinstance(each, str) else each for each in texts)
    return Invocation(
        user_content=Content(), final_response=Content(parts=parts) if texts else None
    )


def grade(
    actual: list[Invocation], expected: list[Invocation] | None, *, adk_compat: bool = False
) -> Grade:
    use = CriterionUse(name="response_match_score", threshold=0.8)
    reference = None if expected is None else tuple(expected)
    evidence = TrialView(case=Case(case_id="c"), actual=tuple(actual), expected=reference)
    return criteria.build(use, CriterionServices(deviations=under(adk_compat=adk_compat)))(evidence)


@pytest.mark.parametrize(
    ("answer", "reference", "score"),
    [
        ("The cats are running", "the cat is run", 0.75),
        ("don't", "don t", 1.0),
        ("café", "cafe", 0.0),
        ("你好世界", "你好", 2 / 3),
        ("foo_bar", "bar foo", 1.0),
        ("a a a b", "a", 0.4),  # a word counts as often as on the side that has fewer
        ("", "word", 0.0),
        ("👍", "word", 0.0),
        ("Ｆｕｌｌ ｗｉｄｔｈ", "full width", 1.0),
    ],
)
@pytest.mark.parametrize("adk_compat", [False, True])
def test_known_scores(answer: str, reference: str, score: float, adk_compat: bool) -> None:
    found = grade([turn(answer)], [turn(reference)], adk_compat=adk_compat)
    assert isinstance(found, Score)
    assert found.value == pytest.approx(score, rel=1e-15)
    assert found.turns == (found.value,)


def test_texts_are_one_a_line_and_an_absent_answer_scores_nothing() -> None:
    found = grade([turn("one", "two"), turn()], [turn("one two"), turn("three")])
    assert isinstance(found, Score)
    assert (found.value, found.turns) == (0.5, (1.0, 0.0))


def test_thoughts_are_no_answer_except_under_adk_compat() -> None:
    thinking = turn(Text(text="let me think", thought=True), "Paris")
    found, compatible = (
        grade([thinking], [turn("Paris")]),
        grade([thinking], [turn("Paris")], adk_compat=True),
    )
    assert isinstance(found, Score)
    assert isinstance(compatible, Score)
    assert (found.value, compatible.value) == (1.0, 0.4)


@pytest.mark.parametrize(
    "reference", [turn(), turn(""), turn("👍"), turn(Text(text="hm", thought=True))]
)
def test_a_turn_without_reference_words_is_left_out_of_the_mean(reference: Invocation) -> None:
    found = grade([turn("yes"), turn("Paris")], [reference, turn("Paris")])
    assert isinstance(found, Score)
    assert (found.value, found.turns) == (1.0, (None, 1.0))
    assert [finding.turn for finding in found.findings] == [1]


@pytest.mark.parametrize("reference", [turn(), turn(""), turn("👍")])
def test_without_any_reference_there_is_no_score(reference: Invocation) -> None:
    found = grade([reference], [reference])
    assert isinstance(found, NotEvaluated)
    assert found.reason is Reason.REFERENCE_MISSING
    compatible = grade([reference], [reference], adk_compat=True)
    assert isinstance(compatible, Score)
    assert compatible.value == 0.0


@pytest.mark.parametrize(
    ("actual", "expected", "reason"),
    [
        ([turn("a")], None, Reason.REFERENCE_MISSING),
        ([], [], Reason.REFERENCE_MISSING),
        ([turn("a")], [], Reason.TURNS_MISSING),
    ],
)
@pytest.mark.parametrize("adk_compat", [False, True])
def test_what_cannot_be_paired_has_no_score(
    actual: Any, expected: Any, reason: Reason, adk_compat: bool
) -> None:
    found = grade(actual, expected, adk_compat=adk_compat)
    assert isinstance(found, NotEvaluated)
    assert found.reason is reason


def test_a_mean_that_is_the_threshold_on_paper_reaches_it() -> None:
    # F = 0.7, 0.8, 0.9: ten words a side, of which 7, 8 and 9 are shared
    words = list("qwrtpsdfgh")
    actual = [turn(" ".join(words[:count] + ["zz"] * (10 - count))) for count in (7, 8, 9)]
    found, compatible = (
        grade(actual, [turn(" ".join(words))] * 3, adk_compat=adk_compat)
        for adk_compat in (False, True)
    )
    assert isinstance(found, Score)
    assert isinstance(compatible, Score)
    assert found.value == 0.8
    assert compatible.value < 0.8


# --- properties -----------------------------------------------------------------------------------

TEXTS = st.text(max_size=30) | st.lists(
    st.sampled_from(["cat", "cats", "running", "你好", "สวัสดี", "é", "."])
).map(" ".join)


@given(TEXTS, TEXTS)
def test_the_exact_score_is_symmetric_and_within_its_scale(one: str, other: str) -> None:
    forth, back = response_match.f_score(one, other), response_match.f_score(other, one)
    assert forth is None or 0 <= forth <= 1
    if forth is not None and back is not None:
        assert forth == back


@given(TEXTS, TEXTS)
def test_adks_float_score_is_the_exact_one_but_for_dust(one: str, other: str) -> None:
    exact = response_match.f_score(one, other)
    assert response_match.f_score_as_adk(one, other) == pytest.approx(
        float(exact or 0), rel=1e-15, abs=0
    )


@given(TEXTS)
def test_a_text_with_words_matches_itself(text: str) -> None:
    score = response_match.f_score(text, text)
    assert score == (Fraction(1) if response_match.split(text) else None)


@given(TEXTS.filter(response_match.split), TEXTS)
def test_a_word_of_the_reference_more_never_lowers_the_score(reference: str, answer: str) -> None:
    """Adding a word that is still wanted raises the score; adding one that is not wanted lowers
    it."""
    said, wanted = response_match.split(answer), response_match.split(reference)
    before = response_match.f_score(answer, reference)
    missing = next((word for word in wanted if said.count(word) < wanted.count(word)), None)
    assert before is not None
    if missing is not None and response_match.split(missing) == [missing]:
        assert response_match.f_score(f"{answer} {missing}", reference) >= before
    assert response_match.f_score(f"{answer} qqq", reference) <= before
