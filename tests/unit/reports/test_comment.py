"""comment.md and summary.md: the verdict first, what broke next, within GitHub's limits."""

from __future__ import annotations

import dataclasses
import json

import pytest
from builders import build, comparing, report_page
from builders.build import TOOLS, WORDS, call, case, turn
from builders.scenarios import SCENARIOS

from evalgate import errors
from evalgate.comparison import verdict
from evalgate.errors import Place
from evalgate.model import Case, Content, Event, FailureKind, Part, Policy, Report, Text
from evalgate.reports import (
    annotations as reports_annotations,
    comment,
    html_report,
    junit,
    sarif,
    terminal,
)
from evalgate.text import markdown


@pytest.mark.parametrize(
    ("words", "policy", "alert", "said"),
    [
        ("pass", Policy(), "TIP", "pass."),
        ("fail", Policy(), "CAUTION", "fail."),
        ("fail", Policy(fail_on=frozenset()), "WARNING", "fail (non-blocking)."),
        ("error", Policy(), "WARNING", "not measured."),
    ],
)
def test_the_verdict_comes_first(words: str, policy: Policy, alert: str, said: str) -> None:
    lines = comment.render(build.report(words, policy=policy)).splitlines()
    assert lines[0] == f"> [!{alert}]"
    assert lines[1].startswith(f"> **evalgate: {said}**")


def test_the_figures() -> None:
    shown = comment.render(build.report("pass fail error"))
    assert "**1** passed \N{MIDDLE DOT} **1** failed \N{MIDDLE DOT} **1** not measured" in shown
    assert "pass rate 50% of 2 measured" in shown
    assert "1 run per case \N{MIDDLE DOT} 820 tokens \N{MIDDLE DOT} agent time 4.5 s" in shown
    assert "[`6a57802`](<https://github.com/example/travel/commit/6a57802" in shown


def test_unknown_figures_are_left_out() -> None:
    shown = comment.render(build.report("error", links=build.Links()))
    assert "pass rate" not in shown
    assert "tokens" not in shown
    assert "](" not in shown  # no address is known: no link


def test_failing_cases_lead_to_their_line_and_show_the_difference() -> None:
    shown = comment.render(build.report("pass fail"))
    assert f"/blob/{build.LINKS.commit}/{build.SUITE}#L20" in shown
    assert '- book(city="Oslo")\n+ book(city="Rome")' in shown
    assert (
        "<code>case_2</code> \N{MIDDLE DOT} <code>tool_trajectory_avg_score</code> 0.00 &lt; 1.00"
        in shown
    )
    assert "<code>case_1</code>" not in shown  # what passed is no news


def test_a_line_is_linked_only_at_the_commit_that_has_it() -> None:
    """Lines are those of the files that were read, such as a pull request's test merge."""
    merged = dataclasses.replace(build.LINKS, checkout="f" * 40)
    shown = comment.render(build.report("pass fail", links=merged))
    assert f"/blob/{'f' * 40}/{build.SUITE}#L20" in shown
    log = json.loads(sarif.render(build.report("pass fail", links=merged)))
    assert log["runs"][0]["versionControlProvenance"][0]["revisionId"] == "f" * 40
    # `mode: post` does not know which commit the finished run had checked out
    unknown = dataclasses.replace(build.LINKS, checkout="")
    shown = comment.render(build.report("pass fail", links=unknown))
    assert f"/blob/{build.LINKS.commit}/{build.SUITE}>)" in shown
    assert "#L" not in shown


def told(asked: Case, *done: build.Done) -> Report:
    suite = build.suite(asked)
    return build.run_report([suite], {(suite.key, asked.case_id): done})


def test_the_answer_is_not_compared_where_only_the_tools_are_wrong() -> None:
    asked = case("c", turn("x", call("a"), answer="one way to say it"))
    other = turn("x", call("b"), answer="another way to say it")
    assert "another way" not in comment.render(
        told(asked, build.scores(other, **{TOOLS: [0.0], WORDS: [0.9]}))
    )
    assert "another way" in comment.render(
        told(asked, build.scores(other, **{TOOLS: [0.0], WORDS: [0.1]}))
    )


def test_only_broken_turns_are_told() -> None:
    asked = case("c", turn("fine", call("a")), turn("bad", call("a")))
    done = build.scores(
        turn("fine", call("a")), turn("bad", call("b")), **{TOOLS: [1.0, 0.0], WORDS: [1.0, 1.0]}
    )
    shown = comment.render(told(asked, done))
    assert "**Turn 2** of 2" in shown
    assert "**Turn 1**" not in shown


@pytest.mark.parametrize(
    ("expected", "actual", "shown"),
    [
        ("Yes.", "No.", "```diff\n- Yes.\n+ No.\n```"),
        ("", "No.", None),  # nothing was expected in words
        ("Yes.", None, "The agent gave no answer. Expected:\n```text\nYes.\n```"),
        (
            "one two three four five " * 30,
            "one two three four six " * 30,
            "<del>five</del><ins>six</ins>",
        ),
    ],
)
def test_answers(expected: str, actual: str | None, shown: str | None) -> None:
    asked = case("c", turn("x", answer=expected))
    text = comment.render_summary(
        told(asked, build.scores(turn("x", answer=actual), **{TOOLS: [1.0], WORDS: [0.0]}))
    )
    assert shown in text if shown else "Answer" not in text


def test_an_answer_without_an_expected_one_is_shown() -> None:
    """Judges and functions score it, and nothing else says what was wrong."""
    done = build.scores(turn("x", answer="The key is abc."), **{TOOLS: [1.0], WORDS: [0.0]})
    report = told(case("c", dataclasses.replace(turn("x"), events=None)), done)
    assert "said:\n```text\nThe key is abc.\n```" in comment.render(report)
    assert "+ The key is abc." in terminal.render(report)
    assert "evalgate accept" not in comment.render(report)  # there is no expectation


def test_a_models_error_code_is_shown_beside_a_missing_answer() -> None:
    event = Event(author="agent", error_code="SAFETY", error_message="`blocked` <b>")
    done = dataclasses.replace(turn("x"), events=(event,))
    report = told(
        case("c", turn("x", answer="Yes.")), build.scores(done, **{TOOLS: [1.0], WORDS: [0.0]})
    )
    shown = comment.render(report)
    assert "gave no answer (``SAFETY: `blocked` <b>``). Expected:" in shown
    assert "  actual:   SAFETY: `blocked` &lt;b&gt;" in junit.render(report)
    assert "SAFETY: `blocked`" in report_page.reviewable(html_report.render(report))


@pytest.mark.parametrize(
    ("parts", "told_so"),
    [
        ((Text(text="Yes."),), True),
        ((Text(text="Well, yes.", thought=True),), False),  # said to itself
        ((call("a"),), False),
    ],
)
def test_text_that_no_event_marks_as_the_answer_is_told(
    parts: tuple[Part, ...], told_so: bool
) -> None:
    event = Event(author="agent", content=Content(parts=parts, role="model"))
    done = dataclasses.replace(turn("x"), events=(event,))
    report = told(
        case("c", turn("x", answer="Yes.")), build.scores(done, **{TOOLS: [1.0], WORDS: [0.0]})
    )
    assert "gave no answer. Expected:" in comment.render(report)
    for shown in (comment.render(report), report_page.reviewable(html_report.render(report))):
        assert (
            "produced text, but not in an event marked as final, so it gave no answer" in shown
        ) is told_so
    assert (
        "  actual:   text, but not in an event marked as final" in junit.render(report)
    ) is told_so


def test_a_broken_agent_is_quoted() -> None:
    asked = case("c", turn("x"))
    failed = build.failed(
        FailureKind.EXITED, "exit code 3", detail="\n".join(f"line {n}" for n in range(100))
    )
    shown = comment.render(told(asked, failed))
    assert "The agent exited in turn 1 (exited): exit code 3" in shown
    assert "line 2\n[... 94 lines left out ...]\nline 97\n" in shown
    assert "line 93" not in shown


def test_what_a_program_says_before_its_stack_is_told_wherever_its_failure_is() -> None:
    stack = "\n".join(
        f"    at ModuleLoader.step{n} (node:internal/modules/esm/loader:{n})" for n in range(40)
    )
    detail = f"node:internal/modules/package_json_reader:267\n\nError: no package 'left-pad'\n{stack}\n\nNode.js v22"
    failed = build.failed(
        FailureKind.START, "exited with code 1, before it was ready", detail=detail
    )
    asked = [case(f"c{number}", turn("x")) for number in range(5)]
    report = build.run_report(
        [build.suite(*asked)], {(build.SUITE, each.case_id): [failed] for each in asked}
    )
    for shown in (comment.render(report), comment.render_summary(report), terminal.render(report)):
        assert shown.count("Error: no package 'left-pad'") == 1
        assert shown.count("Node.js v22") == 1
    assert all(
        "no package 'left-pad'" in each and "Node.js v22" in each
        for each in reports_annotations.render(report)
    )


def test_one_cause_is_told_once() -> None:
    shown = comment.render(build.report("error " * 50))
    assert shown.count("KeyError") == 1
    assert "<b>50 cases</b>" in shown
    assert "42 more" in shown


@pytest.mark.parametrize(("words", "opened"), [("pass", " open"), ("fail", "")])
def test_a_file_that_cannot_be_evaluated_says_what_to_do(words: str, opened: str) -> None:
    """At once, unless a case is open above."""
    whole = build.report(words)
    broken = dataclasses.replace(build.suite(key="big.json"), problem="line 1: it is a pointer")
    hint = errors.error("git-lfs-pointer", "it is a pointer", Place("big.json", 1), "Fetch it.")
    run = dataclasses.replace(whole.run, suites=(*whole.run.suites, broken))
    decided = verdict.decide(run, whole.policy, comparison=None)
    report = dataclasses.replace(whole, run=run, verdict=decided, problems=(hint,))
    _, _, shown = comment.render(report).partition(f"<details{opened}><summary>1 evaluation file")
    assert "*Fetch it.*" in shown.partition("</details>")[0]


def test_flaky_cases_show_every_run() -> None:
    shown = comment.render(build.report("0.9/0.75/0.9 pass/pass/pass"))
    assert "1 case with mixed results" in shown
    assert "0.90, 0.75, 0.90" in shown


def large(count: int, text: str) -> Report:
    cases = [
        case(f"{text[:200]}{n}", turn(text, call(text[:300], **{text[:300]: text}), answer=text))
        for n in range(count)
    ]
    suite = build.suite(*cases, criteria={f"{text[:200]}{n}": 0.5 for n in range(30)})
    done = build.Done(
        turns=(turn(text, call("b"), answer=text[::-1]),),
        grades={use.name: build.Score(value=0.1, turns=(0.1,)) for use in suite.criteria},
    )
    return build.run_report(
        [suite], {(suite.key, each.case_id): [done] for each in cases}, title=text, reproduce=text
    )


@pytest.mark.parametrize("character", ["x", "$", "`", "👍", "\u202e", "|", "<", "\n", "서"])
def test_it_fits_whatever_the_text_is(character: str) -> None:
    report = large(60, character * 30_000)
    assert markdown.length(comment.render(report)) <= comment.COMMENT_LIMIT
    assert len(comment.render_summary(report).encode()) <= comment.SUMMARY_LIMIT


def test_300_failing_cases_are_counted_and_none_is_lost() -> None:
    shown = comment.render(SCENARIOS["many"]())
    assert "299 more cases failed" in shown
    assert shown.count("<details><summary>\N{CROSS MARK}") == 25
    lines = shown.count("\n- \N{CROSS MARK}")
    left_out = 299 - 25 - lines
    assert lines > 150
    assert f"**{left_out} more**, left out to keep this short" in shown


def test_the_summary_lists_every_case() -> None:
    shown = comment.render_summary(SCENARIOS["many"]())
    assert "<summary>All 400 cases</summary>" in shown
    assert all(f"| `case_{number}` |" in shown for number in range(1, 401))


def test_a_suite_is_named_where_there_are_several() -> None:
    first = build.suite(case("c", turn("x")))
    second = build.suite(case("c", turn("x"), file="b.json"), key="b.json")
    done = {
        (key, "c"): [build.scores(turn("x"), **{TOOLS: 1.0, WORDS: 1.0})]
        for key in (first.key, second.key)
    }
    report = build.run_report([first, second], done)
    assert "| Suite | Criterion |" in comment.render(report)
    assert "| `b.json` | `c` |" in comment.render_summary(report)


def test_beside_a_base_the_comment_says_how_to_get_the_same_numbers() -> None:
    shown = comment.render(SCENARIOS["base_regressed"]())
    _, _, desk = shown.partition("What to do")
    assert f"--base {comparing.BASE_SHA[:12]}" in desk
    assert "alpha 0.05" in desk
    assert "alpha" not in comment.render(SCENARIOS["base_broken"]())  # nothing was compared


@pytest.mark.parametrize("words", ["pass", " ".join(["fail"] * 400)])
def test_only_files_that_can_be_had_are_named(words: str) -> None:
    report = build.report(words)
    report = build.changed(report, links=dataclasses.replace(build.LINKS, keeps_files=False))
    shown = comment.render(report)
    assert "report.html" not in shown
    assert f"All cases: the [job summary](<{build.LINKS.workflow_run}>)." in shown
