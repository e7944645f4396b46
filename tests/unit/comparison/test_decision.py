"""Both gates together: which kind, what blocks, and the sentence that says why."""

from __future__ import annotations

import dataclasses

import pytest
from builders import sides

from evalgate.model import (
    AgentFailure,
    BaseSource,
    CaseStatus,
    Comparison,
    FailOn,
    FailureKind,
    GateKind,
    Policy,
    Run,
    ThresholdRule,
    Verdict,
)

NEW = {"threshold": ThresholdRule.NEW}


def decide(text: str, *, policy: Policy | None = None, **more: object) -> Verdict:
    policy = policy or Policy()
    inner = {key: more.pop(key) for key in ("unpaired",) if key in more}
    head, base = sides.sides(text, **more)
    comparison = sides.compare_runs(head, base, policy=policy, **inner)  # type: ignore[arg-type]
    return sides.decide(head, comparison, policy)


def kinds(verdict: Verdict) -> dict[str, str]:
    return {gate.gate.value: gate.kind.value for gate in verdict.gates}


@pytest.mark.parametrize(
    ("text", "policy", "threshold", "regression", "blocks"),
    [
        ("PP/PP " * 9, {}, "pass", "pass", False),
        ("FF/PP " * 3 + "PP/PP " * 6, {}, "fail", "fail", True),
        ("FF/FF " + "PP/PP " * 8, {}, "fail", "pass", True),  # main is red already
        ("FF/FF " + "PP/PP " * 8, NEW, "pass", "pass", False),  # and that is let pass
        ("FF/PP " + "PP/PP " * 8, NEW, "fail", "pass", True),  # a new failure is not
        ("FPFP/PPFF " + "PPPP/PPPP " * 8, NEW, "pass", "unchanged", False),  # flaky
        ("FF/?? " + "PP/PP " * 8, NEW, "fail", "not_measured", True),  # unknown on the base: blocks
        (
            "?PPPP/?PPPP " * 5 + "PPPPP/PPPPP " * 15,
            {"min_measured": 0.95},
            "not_measured",
            "not_measured",
            True,
        ),  # by cases
        (
            "?PPPP/?PPPP " * 5 + "PPPPP/PPPPP " * 15,
            {"min_measured": 0.96},
            "not_measured",
            "not_measured",
            True,
        ),
        ("?PPPP/?PPPP " * 5 + "PPPPP/PPPPP " * 15, {"min_measured": 0.75}, "pass", "pass", False),
        (
            "?PPPF/?PPPP " * 5 + "PPPPP/PPPPP " * 15,
            {"min_measured": 0.75},
            "not_measured",
            "pass",
            True,
        ),
        ("FF/FF FF/PP " + "PP/PP " * 7, NEW, "fail", "pass", True),
        # let pass, and yet no pass
        ("FF/FF ??/PP " + "PP/PP " * 7, NEW, "not_measured", "not_measured", True),
        (
            "FF/FF " + "PP/PP " * 8,
            {"fail_on": frozenset({FailOn.REGRESSION})},
            "fail",
            "pass",
            False,
        ),
        ("F/P " + "P/P " * 8, {"fail_on": frozenset({FailOn.INCONCLUSIVE})}, "fail", "pass", False),
        ("F/P " + "P/P " * 8, {"fail_on": frozenset({FailOn.NOT_MEASURED})}, "fail", "pass", False),
        # 8 of 10, one new
        ("FF/FF FF/PP " + "PP/PP " * 8, {**NEW, "pass_rate": 0.9}, "fail", "pass", True),
        # which meets the required pass rate
        ("FF/PP " + "PP/PP " * 9, {**NEW, "pass_rate": 0.9}, "pass", "pass", False),
    ],
)
def test_gates(
    text: str, policy: dict[str, object], threshold: str, regression: str, blocks: bool
) -> None:
    verdict = decide(text, policy=Policy(**policy))  # type: ignore[arg-type]
    regression = "pass" if regression == "unchanged" else regression
    assert kinds(verdict) == {"threshold": threshold, "regression": regression}
    assert verdict.blocks == blocks
    order = ["fail", "not_measured", "inconclusive", "pass"]
    assert verdict.kind.value == min(kinds(verdict).values(), key=order.index)


def test_a_case_that_the_change_adds_must_pass() -> None:
    unpaired = {(sides.SUITE, "c0"): CaseStatus.NEW}
    for base in ("FF", "PF", ".."):  # even where the base was run on it and fails it too
        verdict = decide(f"FF/{base} " + "PP/PP " * 4, policy=Policy(**NEW), unpaired=unpaired)  # type: ignore[arg-type]
        assert kinds(verdict)["threshold"] == "fail"


@pytest.mark.parametrize(
    ("text", "new", "threshold"),
    [
        # 18 of 20, of the base's own 2 of 4
        ("FF/PP FF/PP " + "PP/PP " * 2 + "PP/.. " * 16, 16, "fail"),
        ("FF/PP " + "PP/PP " * 9 + "PP/.. " * 10, 10, "pass"),  # 9 of 10
        ("PP/PP " * 18 + "FF/.. " * 2, 2, "fail"),  # 18 of 20, and none of the new
        ("PP/PP " * 10 + "FF/.. " + "PP/.. " * 9, 10, "pass"),
        ("FF/.. " + "PP/.. " * 9, 10, "pass"),  # all are new
        ("??/PP " + "PP/PP " * 9 + "PP/.. ", 1, "not_measured"),
    ],
)
def test_cases_that_a_change_adds_make_up_for_no_failure(
    text: str, new: int, threshold: str
) -> None:
    count = len(text.split())
    unpaired = {(sides.SUITE, f"c{number}"): CaseStatus.NEW for number in range(count - new, count)}
    verdict = decide(
        text, policy=Policy(threshold=ThresholdRule.ALL, pass_rate=0.9), unpaired=unpaired
    )
    assert kinds(verdict)["threshold"] == threshold


def test_without_a_comparison_there_is_one_gate() -> None:
    head, _ = sides.sides("FF/PP")
    verdict = sides.decide(head, None, Policy(**NEW))  # type: ignore[arg-type]
    assert kinds(verdict) == {"threshold": "fail"}


@pytest.mark.parametrize(
    ("head", "base", "spent", "regression"),
    [
        (500, 200, "the budget of 1,000 agent tokens is spent", "not_measured"),
        # twice is not more than twice
        (400, 200, "the budget of 1,000 agent tokens is spent", "inconclusive"),
        (500, 200, "the budget of $2 for agents is spent", "not_measured"),
        # tokens are not what it counts
        (500, 200, "the budget of 9 agent runs is spent", "inconclusive"),
        # tells nothing, excuses nothing
        (500, None, "the budget of 1,000 agent tokens is spent", "not_measured"),
        (None, 200, "the budget of 1,000 agent tokens is spent", "inconclusive"),
    ],
)
def test_a_budget_that_head_alone_spends_blocks(
    head: int | None, base: int | None, spent: str, regression: str
) -> None:
    ours, theirs = (
        dataclasses.replace(
            run,
            truncated=spent,
            trials=tuple(dataclasses.replace(trial, tokens=own) for trial in run.trials),
        )
        for run, own in zip(sides.sides("P/P " * 4 + "./. " * 4), (head, base), strict=True)
    )
    policy = Policy(threshold=ThresholdRule.ALL)
    compared = sides.compare_runs(ours, theirs, policy=policy)
    verdict = sides.decide(ours, compared, policy)
    assert kinds(verdict)["regression"] == regression
    assert verdict.blocks is (regression == "not_measured")
    if verdict.blocks and base is None:
        assert "Head used 2,000 tokens, the base reported none" in verdict.reason
    elif verdict.blocks:
        assert "Head used 2,000 tokens for 4 runs that took the base 800" in verdict.reason


STOPPED = AgentFailure(kind=FailureKind.START, message="SyntaxError: invalid syntax")


@pytest.mark.parametrize(
    ("text", "failure", "source", "policy", "blocks"),
    [
        # `fail-on` speaks of outages; this is the change's doing
        ("!!/PP " * 3, STOPPED, BaseSource.RERUN, {}, True),
        ("!!/!! " * 3, STOPPED, BaseSource.RERUN, {}, False),  # it starts on neither side
        # the base ran at another time: it may be an outage
        ("!!/PP " * 3, STOPPED, BaseSource.STORE, {}, False),
        ("!!/PP PP/PP", STOPPED, BaseSource.RERUN, {}, False),  # it does start
        # a crash is a run that did not pass
        ("!!/PP " * 3, sides.CRASH, BaseSource.RERUN, {}, True),
        ("!!/PP " * 3, STOPPED, BaseSource.RERUN, {"advisory": frozenset({sides.SUITE})}, False),
        # nothing is to block
        ("!!/PP " * 3, STOPPED, BaseSource.RERUN, {"fail_on": frozenset()}, False),
    ],
)
def test_an_agent_that_starts_on_the_base_alone_blocks(
    text: str, failure: AgentFailure, source: BaseSource, policy: dict[str, object], blocks: bool
) -> None:
    head, base = sides.sides(text)
    trials = (
        each if each.failure is None else dataclasses.replace(each, failure=failure)
        for each in head.trials
    )
    head = dataclasses.replace(head, trials=tuple(trials))
    given: dict[str, object] = {
        "fail_on": frozenset({FailOn.THRESHOLD, FailOn.REGRESSION}),
        **policy,
    }
    rules = Policy(**given)  # type: ignore[arg-type]
    compared = sides.compare_runs(head, base, policy=rules)
    compared = dataclasses.replace(
        compared, origin=dataclasses.replace(compared.origin, source=source)
    )
    assert sides.decide(head, compared, rules).blocks is blocks


def test_a_base_that_could_not_be_measured_is_said_and_not_skipped() -> None:
    head, _ = sides.sides("PP/PP")
    comparison = Comparison(
        origin=sides.ORIGIN, problem="its agent does not start: No module named 'flights'"
    )
    verdict = sides.decide(head, comparison, Policy())
    assert kinds(verdict) == {"threshold": "pass", "regression": "not_measured"}
    assert (
        verdict.reason
        == "Not compared with the base: its agent does not start: No module named 'flights'."
    )
    assert verdict.blocks


@pytest.mark.parametrize(
    ("text", "kind"), [("PP PP", "pass"), ("PP FF", "fail"), ("PP ??", "not_measured")]
)
def test_where_the_base_has_nothing_yet_the_thresholds_alone_decide(text: str, kind: str) -> None:
    head, _ = sides.sides(" ".join(f"{each}/PP" for each in text.split()))
    comparison = Comparison(origin=sides.ORIGIN, problem="it has no agent", no_agent=True)
    every = Policy(fail_on=frozenset(FailOn))
    verdict = sides.decide(head, comparison, every)
    assert (verdict.kind.value, verdict.blocks) == (kind, kind != "pass")
    assert kinds(verdict) == {"threshold": kind, "regression": "pass"}
    if kind == "pass":
        assert verdict.reason == "All 2 cases passed. Nothing to compare with yet: it has no agent."


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (
            "PP/!! PP/!!",
            "inconclusive",
            "Not compared: the base's agent failed in every run: KeyError: 'city'.",
        ),
        # a crash is a run that did not pass
        ("PP/!! PP/PP", "pass", "No regression seen in 1 compared case"),
        ("PP/P! PP/PP", "pass", "No regression seen in 2 compared cases"),
        # an outage of the judge is not the base's fault
        ("PP/?? PP/PP", "not_measured", "1 case lacks a score"),
        ("P?/P! PP/PP", "not_measured", "1 case lacks a score"),  # nor is what head lacks
        ("FF/PP " * 9 + "PP/!!", "fail", "dropped from 1.00"),  # a fall is a fall
    ],
)
@pytest.mark.parametrize("own", [True, False])
def test_the_bases_own_failures_are_runs_that_did_not_pass(
    text: str, kind: str, said: str, own: bool
) -> None:
    head, base = sides.sides(text)
    marked = (
        dataclasses.replace(each, own_failure=own and each.failure is not None)
        for each in base.trials
    )
    comparison = sides.compare_runs(head, dataclasses.replace(base, trials=tuple(marked)))
    gate = sides.regression(head, comparison, Policy())
    # what the change may have made fail is not known
    expected = kind if own or kind == "fail" else "not_measured"
    assert gate.kind.value == expected
    assert gate.blocks == (expected in ("fail", "not_measured"))
    assert (said in gate.reason) == (own or expected == kind)
    assert gate.reason.endswith("The thresholds decide.") == (expected == "inconclusive")


@pytest.mark.parametrize(
    ("kind", "message", "detail", "said"),
    [
        (
            FailureKind.START,
            "the agent 'bot' cannot be loaded: there is no module named 'x' for /a/python. Add it.",
            "Traceback:\n  File a\nModuleNotFoundError: No module named 'x'\ncaused by KeyError: 1",
            "ModuleNotFoundError: No module named 'x'",
        ),
        (
            FailureKind.START,
            "the agent 'bot' cannot be loaded: it called sys.exit(1).",
            "",
            "it called sys.exit(1)",
        ),
        (
            FailureKind.START,
            "the agent was not ready within 2 s",
            "",
            "the agent was not ready within 2 s",
        ),
        (
            FailureKind.EXITED,
            "the process ended",
            "at x\nTypeError: no",
            "the process ended: TypeError: no",
        ),
        (FailureKind.RAISED, "KeyError: 1", "KeyError: 1", "KeyError: 1"),
        (
            FailureKind.INSTALL,
            "installing a.txt failed: no.",
            "error: no",
            "installing a.txt failed: no",
        ),
        (FailureKind.RAISED, "word " * 200, "", "word " * 59 + "wo..."),
    ],
)
def test_why_an_agent_failed(kind: FailureKind, message: str, detail: str, said: str) -> None:
    found = AgentFailure(kind=kind, message=message, detail=detail).summary
    assert found == said


@pytest.mark.parametrize(
    ("text", "regression", "threshold"),
    [
        ("P./P. PP/PP", "inconclusive", "inconclusive"),
        # it ended with the last of the first runs: all is compared
        ("PP/PP PP/PP", "pass", "inconclusive"),
        ("../.. FF/FF", "inconclusive", "not_measured"),  # nobody could run it again
        ("?./P. PP/PP", "not_measured", "not_measured"),  # broken, not only cut short
        ("FF/PP " * 9 + "P./P.", "fail", "fail"),
    ],
)
def test_a_spent_budget_is_inconclusive_at_best(text: str, regression: str, threshold: str) -> None:
    verdict = decide(text, truncated="1.00 USD were spent")
    assert kinds(verdict) == {"regression": regression, "threshold": threshold}


def test_a_case_that_began_badly_when_a_budget_ended_blocks_and_is_counted() -> None:
    verdict = decide("F./PP P./PP", truncated="1.00 USD were spent")
    (gate,) = (each for each in verdict.gates if each.gate is GateKind.THRESHOLD)
    assert (gate.kind.value, gate.blocked_by and gate.blocked_by.value) == (
        "inconclusive",
        "not_measured",
    )
    assert (
        gate.reason
        == f"1 of 2 cases below a threshold could not be fully evaluated in {sides.SUITE}."
    )


@pytest.mark.parametrize("rule", [ThresholdRule.NEW, ThresholdRule.CONFIRMED])
def test_a_failure_that_a_budget_left_unconfirmed_is_not_measured(rule: ThresholdRule) -> None:
    verdict = decide(
        "FF/PP " + "PP/PP " * 9, truncated="1.00 USD were spent", policy=Policy(threshold=rule)
    )
    assert kinds(verdict)["threshold"] == "not_measured"
    assert verdict.blocks


@pytest.mark.parametrize(
    ("text", "unpaired", "expected"),
    [
        ("FF/FF PP/PP", {}, "pass"),  # known
        ("FF/FF PP/PP", {"c0": CaseStatus.CHANGED}, "fail"),  # the base failed another question
        ("FF/FF PP/PP", {"c0": CaseStatus.NEW}, "fail"),
        ("FF/FF PP/PP ; PP/PP PP/PP", {}, "pass"),
        ("PP/FF PP/PP ; FF/PP PP/PP", {}, "fail"),  # the base fails it by another criterion
    ],
)
def test_threshold_new_lets_pass_what_the_base_fails_too(
    text: str, unpaired: dict[str, CaseStatus], expected: str
) -> None:
    head, base = sides.sides(text)
    policy = Policy(threshold=ThresholdRule.NEW)
    comparison = sides.compare_runs(
        head,
        base,
        policy=policy,
        unpaired={(sides.SUITE, case_id): each for case_id, each in unpaired.items()},
    )
    verdict = sides.decide(head, comparison, policy)
    assert kinds(verdict)["threshold"] == expected


def test_advisory_suites_never_decide() -> None:
    head, base = sides.sides("PP/PP " * 5)
    other_head, other_base = sides.sides("FF/PP " * 5, suite="other")
    policy = Policy(advisory=frozenset({"other"}))
    both = joined(head, other_head), joined(base, other_base)
    comparison = sides.compare_runs(*both, policy=policy)
    verdict = sides.decide(both[0], comparison, policy)
    assert kinds(verdict) == {"threshold": "pass", "regression": "pass"}
    assert [(suite.advisory, suite.kind.value) for suite in verdict.suites] == [
        (False, "pass"),
        (True, "fail"),
    ]


def joined(one: Run, other: Run) -> Run:
    return dataclasses.replace(
        one, suites=(*one.suites, *other.suites), trials=(*one.trials, *other.trials)
    )


def test_where_everything_is_advisory_nothing_is_green_and_nothing_blocks() -> None:
    verdict = decide("PP/PP", policy=Policy(advisory=frozenset({sides.SUITE})))
    assert kinds(verdict) == {"threshold": "not_measured"}
    assert verdict.reason == "Every suite is advisory (non-blocking)."
    assert not verdict.blocks


def test_quarantined_cases_do_not_decide() -> None:
    verdict = decide("FF/PP " + "PP/PP " * 4, policy=sides.quarantining(0))
    assert kinds(verdict) == {"threshold": "pass", "regression": "pass"}
    assert verdict.reason.startswith("All 4 deciding cases passed.")
    assert [case.listing is not None for case in verdict.suites[0].cases] == [
        True,
        False,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("advisory", "reason"),
    [
        (False, "Every case is quarantined (non-blocking)."),
        (True, "Every suite is advisory (non-blocking)."),  # also once they can block
    ],
)
def test_where_no_case_decides_yet_it_is_said_which(*, advisory: bool, reason: str) -> None:
    policy = Policy(advisory=frozenset({sides.SUITE} if advisory else ()))
    verdict = decide("FF/PP " * 6, policy=sides.quarantining(*range(6), policy=policy))
    assert verdict.reason == reason
    assert not verdict.blocks


@pytest.mark.parametrize(
    ("statuses", "said"),
    [
        (
            {"c0": CaseStatus.NEW, "c1": CaseStatus.CHANGED},
            "1 new and 1 changed. Use `baseline: auto`",
        ),
        (
            {"c0": CaseStatus.NEW, "c1": CaseStatus.NEW},
            "2 new. Select cases that also exist on the base.",
        ),
        (
            {"c0": CaseStatus.NEW, "c1": CaseStatus.NEW, "old": CaseStatus.REMOVED},
            "2 new and 1 removed. Keep the old cases",
        ),
    ],
)
def test_nothing_to_compare_is_not_a_pass(statuses: dict[str, CaseStatus], said: str) -> None:
    verdict = decide(
        "P/. P/.", unpaired={(sides.SUITE, case_id): each for case_id, each in statuses.items()}
    )
    assert kinds(verdict) == {"threshold": "pass", "regression": "not_measured"}
    assert verdict.blocks
    assert verdict.reason.startswith(f"No case can be compared with the base: {said}")


@pytest.mark.parametrize(
    ("text", "policy", "reason"),
    [
        ("PPP/PPP " * 40, {}, "All 40 cases passed. No regression seen in 40 compared cases."),
        (
            "FFF/PPP " * 5 + "PPP/FFF " + "PPP/PPP " * 15,
            {"fail_on": frozenset({FailOn.REGRESSION})},
            (
                "Worse than the base, evidence 743 : 1: `m` dropped from 0.95 to 0.76 (~0.19), 5 cases now fail, "
                "1 case now passes. 5 of 21 cases failed (5 new) in s."
            ),
        ),
        (
            "FF/FF " + "PP/PP " * 8,
            NEW,
            "8 of 9 cases passed; allowed failures: 1 pre-existing. No regression seen in 9 compared cases.",
        ),
        (
            "F/P " + "P/P " * 8,
            NEW,
            "1 of 9 cases failed (1 not confirmed) in s.",
        ),
        (
            "??/PP PP/PP",
            {"fail_on": frozenset({FailOn.REGRESSION})},
            (
                "1 of 2 cases could not be evaluated in s. Too few scores to compare `m` with the base: 1 case "
                "lacks a score."
            ),
        ),
    ],
)
def test_sentences(text: str, policy: dict[str, object], reason: str) -> None:
    assert decide(text, policy=Policy(**policy)).reason == reason.replace("~", "\N{MINUS SIGN}")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fail_on", "blocks", "begins"),
    [
        ("regression", True, "Worse than the base"),
        ("regression not_measured", True, "Worse than the base"),
        (
            "not_measured",
            True,
            "Too few scores to compare `n` with the base: 9 cases lack a score. Worse than",
        ),
        ("inconclusive", False, "Worse than the base"),
        ("threshold", False, "Worse than the base"),
    ],
)
def test_a_criterion_that_fell_does_not_hide_one_that_was_not_measured(
    fail_on: str, *, blocks: bool, begins: str
) -> None:
    policy = Policy(fail_on=frozenset(map(FailOn, fail_on.split())))
    head, base = sides.sides("FF/PP " * 9 + "; " + "PP/?? " * 9)
    gate = sides.regression(head, sides.compare_runs(head, base, policy=policy), policy)
    assert gate.kind.value == "fail"
    assert gate.blocks is blocks
    assert gate.reason.startswith(begins)


@pytest.mark.parametrize(("fail_on", "blocks"), [("not_measured", True), ("inconclusive", False)])
def test_a_criterion_that_fell_for_certain_does_not_hide_what_it_lacks(
    fail_on: str, *, blocks: bool
) -> None:
    policy = Policy(fail_on=frozenset({FailOn(fail_on)}))
    head, base = sides.sides("FF/PP " * 9 + "PP/?? ")
    gate = sides.regression(head, sides.compare_runs(head, base, policy=policy), policy)
    assert gate.kind.value == "fail"
    assert gate.blocks is blocks
    assert (
        gate.reason.startswith("Too few scores to compare `m` with the base: 1 case lacks a score.")
        is blocks
    )
