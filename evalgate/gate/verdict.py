"""From cases to suites to the one answer."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from evalgate import words
from evalgate.gate import threshold
from evalgate.gate.threshold import Scale
from evalgate.model import (
    CaseVerdict,
    FailOn,
    GateKind,
    GateVerdict,
    GradedTrial,
    Policy,
    Run,
    Suite,
    SuiteVerdict,
    Verdict,
    VerdictKind,
)

SEVERITY = (VerdictKind.FAIL, VerdictKind.NOT_MEASURED, VerdictKind.INCONCLUSIVE, VerdictKind.PASS)
"""Most severe first: the most severe of the suites' kinds is the verdict's kind."""


def decide(run: Run, policy: Policy, *, scales: Mapping[str, Scale]) -> Verdict:
    """The verdict on a run. Every case of every suite counts, whether or not it ran. A run without cases has
    measured nothing."""
    by_case: defaultdict[tuple[str, str], list[GradedTrial]] = defaultdict(list)
    for trial in run.trials:
        by_case[trial.key.suite, trial.key.case_id].append(trial)
    suites = tuple(
        _judge_suite(suite, by_case, policy=policy, repeats=run.repeats, scales=scales) for suite in run.suites
    )
    kind = next((each for each in SEVERITY if any(suite.kind is each for suite in suites)), VerdictKind.NOT_MEASURED)
    if not run.complete and kind is VerdictKind.PASS:
        kind = VerdictKind.NOT_MEASURED
    reason = _sentence(kind, suites)
    blocks = kind in blocking(GateKind.THRESHOLD, policy)
    gate = GateVerdict(gate=GateKind.THRESHOLD, kind=kind, reason=reason, blocks=blocks)
    return Verdict(kind=kind, reason=reason, blocks=blocks, suites=suites, gates=(gate,))


def blocking(gate: GateKind, policy: Policy) -> frozenset[VerdictKind]:
    """The kinds of a gate's verdict that end the job red."""
    named = {
        VerdictKind.FAIL: FailOn(gate.value),
        VerdictKind.NOT_MEASURED: FailOn.NOT_MEASURED,
        VerdictKind.INCONCLUSIVE: FailOn.INCONCLUSIVE,
    }
    return frozenset(kind for kind, word in named.items() if word in policy.fail_on)


def _judge_suite(
    suite: Suite,
    by_case: Mapping[tuple[str, str], list[GradedTrial]],
    *,
    policy: Policy,
    repeats: int,
    scales: Mapping[str, Scale],
) -> SuiteVerdict:
    cases = tuple(
        threshold.judge_case(
            suite=suite.key,
            case_id=case.case_id,
            criteria=suite.criteria,
            trials=by_case.get((suite.key, case.case_id), []),
            repeats=repeats,
            scales=scales,
            adk_compat=policy.adk_compat,
        )
        for case in suite.eval_set.cases
    )
    required = policy.suite_pass_rate.get(suite.key, policy.pass_rate)
    kind, reason = judge_counts(cases, required=required, min_measured=policy.min_measured)
    return SuiteVerdict(suite=suite.key, kind=kind, cases=cases, required_pass_rate=required, reason=reason)


def judge_counts(cases: Sequence[CaseVerdict], *, required: float, min_measured: float) -> tuple[VerdictKind, str]:
    """A suite's kind from its cases: the pass rate among the measured, where enough was measured.

    Fails for certain, however the unmeasured would have ended, come first: an outage does not hide a failure.
    """
    total = len(cases)
    passed = sum(1 for case in cases if case.kind is VerdictKind.PASS)
    failed = sum(1 for case in cases if case.kind is VerdictKind.FAIL)
    measured = passed + failed
    if total == 0:
        return VerdictKind.NOT_MEASURED, "no case"
    if total - failed < _needed(total, required):
        return VerdictKind.FAIL, f"{failed} of {words.counted(total, 'case')} failed"
    if measured == 0 or measured < _needed(total, min_measured):
        return VerdictKind.NOT_MEASURED, f"{total - measured} of {words.counted(total, 'case')} could not be measured"
    if passed < _needed(measured, required):
        return VerdictKind.FAIL, f"{passed} of {measured} measured cases passed, {words.percent(required)} required"
    return VerdictKind.PASS, ""


def _needed(total: int, share: float) -> int:
    # 0.7 * 10 is 7.000000000000001 in floats: the dust must not ask for an eighth case
    return math.ceil(round(total * share, 9))


def _sentence(kind: VerdictKind, suites: Sequence[SuiteVerdict]) -> str:
    cases = sum(len(suite.cases) for suite in suites)
    failed = sum(suite.count(VerdictKind.FAIL) for suite in suites)
    unmeasured = sum(suite.count(VerdictKind.NOT_MEASURED) for suite in suites)
    where = words.listed((suite.suite for suite in suites if suite.kind is kind), limit=3)
    match kind:
        case VerdictKind.PASS:
            return _pass_sentence(cases, failed=failed, unmeasured=unmeasured)
        case VerdictKind.FAIL:
            rest = f"; {unmeasured} could not be measured" if unmeasured else ""
            their = "its threshold" if failed == 1 else "their thresholds"
            return f"{failed} of {words.counted(cases, 'case')} below {their} in {where}{rest}."
        case VerdictKind.NOT_MEASURED:
            rest = f" ({failed} failed)" if failed else ""
            if cases == 0:
                return "There was no case to measure."
            return f"{unmeasured} of {words.counted(cases, 'case')} could not be measured in {where}{rest}: no pass."
        case VerdictKind.INCONCLUSIVE:
            return f"The data cannot tell in {where}."


def _pass_sentence(cases: int, *, failed: int, unmeasured: int) -> str:
    if failed:
        return f"{cases - failed - unmeasured} of {words.counted(cases, 'case')} passed, as many as required."
    if unmeasured:
        return f"Every measured case passed; {unmeasured} of {cases} could not be measured, which the policy allows."
    return "The case passed." if cases == 1 else f"All {words.counted(cases, 'case')} passed."
