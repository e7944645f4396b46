"""What a message says to do is never what is cut off; what passes without a judge is told above
all."""

from __future__ import annotations

import pytest
from builders import build, report_page, scenarios
from hypothesis import given, strategies as st

from evalgate import reports
from evalgate.judges.base import JudgeFailureKind, JudgeSetting
from evalgate.model import NotEvaluated, Policy, Reason, Report
from evalgate.model.deviations import ADKS
from evalgate.text import markdown, plain

TEXTS = ("comment", "summary", "html", "junit")
TRIED = "(tried 6 times in 5 min 00 s; to try longer, raise `judge: {call_deadline: ...}`)"


def told_by(name: str, report: Report) -> str:
    """A report without the marks that keep its Markdown and XML from being more than text."""
    if name == "annotations":
        return "\n".join(reports.render_annotations(report))
    made = (
        reports.render_terminal(report)
        if name == "terminal"
        else reports.RENDERERS[name].render(report)
    )
    if name == "html":
        made = report_page.reviewable(made)
    for mark, text in (
        (markdown.SPLIT, ""),
        ("\\", ""),
        ("`", ""),
        ("&#x27;", "'"),
        ("<code>", ""),
        ("</code>", ""),
    ):
        made = made.replace(mark, text)
    return made.replace("&#39;", "'")


def failed_with(message: str, *, cases: int) -> Report:
    asked = build.suite(
        *(build.case(f"case_{at}", build.turn("hi", answer="yes"), line=at) for at in range(cases))
    )
    lack = NotEvaluated(
        reason=Reason.JUDGE_UNAVAILABLE, message=f"4 of 5 samples failed: {message}"
    )
    done = build.Done(
        turns=(build.turn("hi", answer="yes"),), grades={build.TOOLS: lack, build.WORDS: lack}
    )
    return build.run_report(
        [asked], {(asked.key, case.case_id): [done] for case in asked.eval_set.cases}
    )


@pytest.mark.parametrize("cases", [1, 12])  # by itself, and as one of a group
@pytest.mark.parametrize("kind", JudgeFailureKind)
def test_the_remedy_is_in_every_report(kind: JudgeFailureKind, cases: int) -> None:
    setting = JudgeSetting(
        model="a-model-with-a-long-name-2026-09",
        api_key_env=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    )
    said = "; ".join(f"{number}. something went wrong here" for number in range(40))
    message = setting.failure(kind, detail=said).message
    step = str(message).rpartition("); ")[2]
    report = failed_with(f"{message} {TRIED}", cases=cases)
    for name in (*TEXTS, "terminal"):
        told = told_by(name, report)
        assert step.replace("`", "") in told, name
        assert "raise judge: {call_deadline: ...}" in told, name
    assert step in told_by("annotations", report)


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("short; do this", 20, "short; do this"),
        ("what went wrong at length and in detail; do this", 24, "what went wr... do this"),
        ("what went wrong at length. Do this.", 24, "what went wrong at... Do this."),
        ("no advice " * 9, 20, plain.clip("no advice " * 9, 20)),
    ],
)
def test_what_is_left_out_stands_before_the_advice(text: str, limit: int, expected: str) -> None:
    shown = plain.keep_advice(text, limit)
    assert shown.split()[-2:] == expected.split()[-2:]
    assert len(shown) <= max(limit + 4, len(plain.clip(text, limit)))


@given(what=st.text(max_size=3_000), advice=st.text(alphabet="abc `", min_size=1, max_size=200))
def test_advice_is_kept_whole(what: str, advice: str) -> None:
    assert plain.keep_advice(f"{what}; {advice}", 300).endswith(advice)


@pytest.mark.parametrize(
    ("in_part", "how"), [(False, "without a score of"), (True, "by a part of")]
)
@pytest.mark.parametrize("name", ["comment", "summary", "html", "terminal", "annotations"])
def test_a_judge_that_is_down_is_told_above_all_where_the_run_passes_without_it(
    name: str, how: str, *, in_part: bool
) -> None:
    report = scenarios.judge_down(adk_compat=True, in_part=in_part)
    told = told_by(name, report)
    said = f"6 of 6 passing cases passed {how} final_response_match_v2, as in ADK (adk-compat):"
    above = (
        told.partition("<h1>")[0].partition("[!TIP]")[0]
        if name != "terminal"
        else told.splitlines()[0]
    )
    above = above.replace("`", "")
    assert said in above
    assert "run again later, with fewer calls at once" in above
    assert report.verdict.kind.value == "pass"


@pytest.mark.parametrize(
    ("words", "policy"),
    [
        ("pass skipped", Policy(deviations=ADKS)),  # the user left it out
        ("pass fail", Policy(deviations=ADKS)),
        ("pass unjudged", Policy()),  # it does not pass
    ],
)
def test_nothing_is_told_where_nothing_passes_without_a_score(words: str, policy: Policy) -> None:
    assert "without a score of" not in told_by("comment", build.report(words, policy=policy))
