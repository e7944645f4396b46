"""What a reader is told to do."""

from __future__ import annotations

import dataclasses

import pytest
from builders import build, comparing
from builders.compared_scenarios import COMPARED
from builders.scenarios import SCENARIOS

from evalgate import errors, reports
from evalgate.errors import Problem
from evalgate.model import Comparison, FailOn, GateKind, Policy, ThresholdRule, VerdictKind
from evalgate.reports import comment, view, wording


@pytest.mark.parametrize(
    ("scenario", "kinds"),
    [
        ("base_regressed", {"Thresholds": VerdictKind.FAIL, "Against the base": VerdictKind.FAIL}),
        (
            "base_broken",
            {"Against the base": VerdictKind.NOT_MEASURED, "Thresholds": VerdictKind.PASS},
        ),
        ("base_unchanged", {"Thresholds": VerdictKind.PASS, "Against the base": VerdictKind.PASS}),
        (
            "base_failed",
            {"Thresholds": VerdictKind.PASS, "Against the base": VerdictKind.INCONCLUSIVE},
        ),
        # nothing was asked there
        ("base_no_agent", {"Thresholds": VerdictKind.PASS, "Against the base": None}),
    ],
)
def test_each_gate_answers_and_what_blocks_comes_first(
    scenario: str, kinds: dict[str, VerdictKind | None]
) -> None:
    found = wording.answers(COMPARED[scenario]())
    assert [(question, kind) for question, kind, _ in found] == list(kinds.items())


def test_one_gate_needs_no_list() -> None:
    assert wording.answers(build.report("fail")) == ()


@pytest.mark.parametrize(
    ("scenario", "step"),
    [
        ("base_unchanged", ""),
        ("base_regressed", "Fix the agent"),
        ("base_known", "`threshold: new` allows them"),
        ("base_broken", "The base run failed"),  # head is well: nothing to repair there
        ("base_failed", ""),  # the reason says what follows
        ("base_no_agent", "only thresholds apply"),
        ("base_inconclusive", "within the required pass rate"),
        ("base_cut_short", "Increase `budget`"),
    ],
)
def test_the_next_step(scenario: str, step: str) -> None:
    said = wording.next_step(COMPARED[scenario]())
    assert step in said
    assert bool(step) == bool(said)


def test_the_next_step_where_head_alone_cannot_tell() -> None:
    assert wording.next_step(SCENARIOS["inconclusive"]()).startswith("Too little could be measured")


@pytest.mark.parametrize(
    ("head", "base", "reason", "step"),
    [
        # a criterion's mean
        (
            "pass*5 " * 8 + "0.8*5 " * 40,
            "pass*5 " * 48,
            "dropped from",
            "Fix the regression, or raise `max_drop`",
        ),
        # crashes alone
        ("error*5 " * 8, "pass*5 " * 8, ": 8 cases run only on the base", "Fix the errors below"),
        # one of them crashes at times
        (
            "error*5 " * 8 + "error/pass*4",
            "pass*5 " * 9,
            ": 8 cases run only on the base",
            "Fix the errors below",
        ),
        (
            "error*5 " * 4 + "pass*5 " * 8,
            "pass*5 " * 12,
            ": 4 cases run only on the base",
            "Fix the errors below",
        ),
    ],
)
def test_a_regression_alone_asks_for_no_new_expectations(
    head: str, base: str, reason: str, step: str
) -> None:
    report = comparing.report(head, base)
    assert report.verdict.kind is VerdictKind.FAIL
    assert reason in str(report.verdict.reason)
    assert wording.next_step(report).startswith(step)


NEW = Policy(threshold=ThresholdRule.NEW, pass_rate=0.5)


@pytest.mark.parametrize(
    ("head", "base", "policy", "waiting", "step"),
    [
        ("pass fail", "pass fail", NEW, "", "The failures below are not new"),
        (
            "pass pass fail",
            "pass pass pass",
            NEW,
            "",
            "The failures below are within the required pass rate",
        ),  # it is new
        (
            "pass pass fail",
            "pass pass error",
            NEW,
            "",
            "The failures below are within the required",
        ),  # whose it is, nobody knows
        ("pass pass fail", "pass pass pass", NEW, "3", "The failures below are non-blocking"),
        ("pass fail fail", "pass fail pass", NEW, "3", "The deciding failures below are not new"),
        (
            "pass fail fail",
            "pass pass pass",
            NEW,
            "3",
            "The deciding failures below are within the required",
        ),
        (
            "pass pass fail",
            "pass pass pass",
            Policy(pass_rate=0.5),
            "",
            "The failures below are within the required",
        ),
        ("pass fail fail", "pass pass pass", Policy(), "23", "The failures below are non-blocking"),
        (
            "fail fail fail",
            "pass pass pass",
            Policy(),
            "123",
            "Every case is quarantined: fix some",
        ),
        ("fail", "pass", Policy(advisory=frozenset({build.SUITE})), "", "change the `severity`"),
    ],
)
def test_the_step_contradicts_neither_the_counts_nor_who_decides(
    head: str, base: str, policy: Policy, waiting: str, step: str
) -> None:
    policy = dataclasses.replace(policy, fail_on=frozenset({FailOn.THRESHOLD}))
    keys = frozenset((build.SUITE, f"case_{number}") for number in waiting)
    report = comparing.report(head, base, policy=policy, waiting=keys)
    # the other is not asked here
    (gate,) = (gate for gate in report.verdict.gates if gate.gate is GateKind.THRESHOLD)
    alone = dataclasses.replace(
        report.verdict, gates=(gate,), kind=gate.kind, blocked_by=gate.blocked_by
    )
    assert step in wording.next_step(dataclasses.replace(report, verdict=alone))


ALL = Policy(threshold=ThresholdRule.ALL)
MOVED = errors.warning("provider-drift", "since then", hint="The model moved.")


@pytest.mark.parametrize(
    ("head", "base", "problems", "step"),
    [
        ("pass fail", "pass pass", (), "Fix the agent, or update the expectations"),
        (
            "pass fail fail",
            "pass fail pass",
            (),
            "Fix the new failures, or update the expectations",
        ),
        ("pass fail", "pass error", (MOVED,), "Check the model first: pin its version"),
        # on the base branch itself
        ("pass fail", "", (MOVED,), "Check the model first: pin its version"),
        (
            "pass fail",
            "pass fail",
            (MOVED,),
            "The base fails all of these too, so this change is not the cause",
        ),
        # both sides ran today, and the base passes
        ("pass fail", "pass pass", (MOVED,), "Fix the agent"),
    ],
)
def test_the_step_after_a_failure_says_who_has_to_act(
    head: str, base: str, problems: tuple[Problem, ...], step: str
) -> None:
    report = comparing.report(head, base, policy=ALL) if base else build.report(head)
    assert wording.next_step(dataclasses.replace(report, problems=problems)).startswith(step)


@pytest.mark.parametrize(
    ("edited", "step"),
    [
        ((), "Not caused by this change"),
        ((1,), "Not caused by this change"),  # a case that passes
        ((2,), "The agent fails cases that this change adds or edits"),
        # the first evaluation files
        ((1, 2, 3), "The agent fails cases that this change adds or edits"),
    ],
)
def test_a_case_that_the_change_edits_is_not_the_base_branchs_failure(
    edited: tuple[int, ...], step: str
) -> None:
    report = comparing.report("pass fail pass", "pass fail pass")
    assert report.comparison is not None
    keys = tuple((build.SUITE, f"case_{number}") for number in edited)
    comparison = dataclasses.replace(report.comparison, unchanged=(build.SUITE,), edited=keys)
    assert wording.next_step(dataclasses.replace(report, comparison=comparison)).startswith(step)


def test_a_budget_that_ended_before_the_base_ran_is_not_the_bases_fault() -> None:
    report = comparing.without(
        "pass pass", Comparison(origin=comparing.RERUN, problem="no base result could be compared")
    )
    assert "The base run failed" in wording.next_step(report)
    cut = dataclasses.replace(
        report, run=dataclasses.replace(report.run, truncated="the budget is spent")
    )
    assert wording.next_step(cut).startswith("Increase `budget`")


def test_failures_that_the_base_has_too_are_called_so() -> None:
    assert "The base fails all of these" in wording.next_step(
        comparing.report("pass fail", "pass fail")
    )
    fresh = (
        {(build.SUITE, "case_2"): [build.done_of("pass")] * 3},
        {(build.SUITE, "case_2"): [build.done_of("pass")] * 3},
    )
    flaky = comparing.report("pass fail", "pass pass", fresh=fresh)
    # and not: run it more often
    assert wording.next_step(flaky).startswith("The flaky cases below failed at first")


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("evalgate run", "evalgate run --base 0f1e2d3c4b5a"),
        (
            "evalgate run a.json --base main --runs 2",
            "evalgate run a.json --runs 2 --base 0f1e2d3c4b5a",
        ),
        ("evalgate run --base=main", "evalgate run --base 0f1e2d3c4b5a"),
        ("evalgate run 'a b.json'", "evalgate run 'a b.json' --base 0f1e2d3c4b5a"),
        ("evalgate run 'open", "evalgate run 'open"),  # no words can be made of it
        ("evalgate compare a.json b.json", "evalgate compare a.json b.json"),
        ("", ""),
    ],
)
def test_the_command_names_the_commit_that_was_compared_with(typed: str, shown: str) -> None:
    report = build.changed(COMPARED["base_reruns"](), reproduce=typed)
    assert wording.reproduce(report) == shown


def test_without_a_base_the_command_is_as_it_was_typed() -> None:
    assert (
        wording.reproduce(build.report("pass", reproduce="evalgate run --runs 2"))
        == "evalgate run --runs 2"
    )


def test_what_is_no_commit_gets_into_no_command() -> None:
    report = COMPARED["base_reruns"]()
    origin = dataclasses.replace(report.comparison.origin, commit="$(rm -rf /) ; main")
    hostile = dataclasses.replace(
        report, comparison=dataclasses.replace(report.comparison, origin=origin)
    )
    assert "rm -rf" not in wording.reproduce(hostile)


@pytest.mark.parametrize("words", ["error error", "pass fail"])
def test_the_terminal_points_up_and_the_other_reports_down(words: str) -> None:
    report = build.report(
        words, policy=Policy(fail_on=frozenset({FailOn.NOT_MEASURED}), pass_rate=0.5)
    )
    below, above = wording.next_step(report), wording.next_step(report, placement="above")
    assert below.replace("below", "above") == above != below
    assert above in reports.render_terminal(report)
    assert below in reports.RENDERERS["comment"].render(report)


def test_what_every_reader_must_know_stands_at_the_top_and_is_escaped() -> None:
    waiting = frozenset((build.SUITE, f"case_{number}") for number in range(1, 8))
    report = comparing.report("fail " * 7 + "pass", "pass " * 8, waiting=waiting)
    told = errors.warning(
        "provider-drift", "since <b>then</b> it @passes less", hint="The model moved."
    )
    ended = errors.warning("quarantine-expired", "the quarantine of `x` expired")
    report = dataclasses.replace(report, problems=(told, ended))
    notices = dict(wording.notices(report, view.view_of(report).cases))
    assert list(notices) == [
        "Not caused by this pull request: the model changed",
        "7 quarantined cases (non-blocking)",
        "Quarantine",
    ]
    assert notices["7 quarantined cases (non-blocking)"].startswith(
        "`case_1` failed (`@maria`, until 2026-02-01), "
    )
    assert notices["7 quarantined cases (non-blocking)"].endswith(" and 3 more.")
    head = comment.render_head(report)
    assert "the model changed</summary>\n\nsince &lt;b" in head
    assert "<b>" not in head
