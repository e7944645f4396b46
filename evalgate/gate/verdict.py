"""The threshold gate from cases to suites to one answer: is head good enough?"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from evalgate import words
from evalgate.gate import allowances, counting, pairing, threshold
from evalgate.gate.allowances import Allowances
from evalgate.gate.pairing import CaseKey
from evalgate.gate.threshold import Scale
from evalgate.model import (
    CaseVerdict,
    CriterionUse,
    FailOn,
    GateKind,
    GateVerdict,
    GradedTrial,
    NotEvaluated,
    Policy,
    Run,
    Suite,
    SuiteVerdict,
    Verdict,
    VerdictKind,
)

SEVERITY = (VerdictKind.FAIL, VerdictKind.NOT_MEASURED, VerdictKind.INCONCLUSIVE, VerdictKind.PASS)
"""Most severe first: the most severe of the suites' kinds is the verdict's kind."""


def decide(run: Run, policy: Policy, *, scales: Mapping[str, Scale], allowed: Allowances = allowances.NONE) -> Verdict:
    """The threshold gate's verdict on a run. Every case of every suite counts, whether or not it ran, but for those of
    advisory suites and those that `allowed` takes out. A run without cases has measured nothing; one that its budget
    ended is inconclusive at best."""
    verdicts = case_verdicts(run, pairing.uses_by_case(run), policy=policy, scales=scales)
    suites = tuple(_judge_suite(suite, verdicts, policy=policy, allowed=allowed) for suite in run.suites)
    deciding = [suite for suite in suites if not suite.advisory]
    kind = _worst(deciding, run)
    toothless = bool(suites) and not deciding
    kinds = () if toothless else (kind, *_hidden(deciding, run))
    blocked_by = worst_of(blocking(GateKind.THRESHOLD, policy).intersection(kinds))
    waiting = [case for suite in suites for case in suite.cases if not case.admitted]
    by_severity = all(suite.suite in policy.advisory for suite in suites)
    nothing = NOTHING_DECIDES if by_severity or not waiting else NOTHING_YET
    noun = "deciding case" if waiting else "case"
    told = nothing if toothless else _sentence(kind, deciding, run=run, allowed=allowed, noun=noun, by=blocked_by)
    reason = " ".join(each for each in (told, _waiting(waiting, policy)) if each)
    gate = GateVerdict(gate=GateKind.THRESHOLD, kind=kind, reason=reason, blocked_by=blocked_by)
    return Verdict(kind=kind, reason=reason, blocked_by=blocked_by, suites=suites, gates=(gate,))


NOTHING_DECIDES = "All suites are advisory."
NOTHING_YET = "All cases are quarantined."
NAMED, NAME_WIDTH = 4, 60
"""How many names a sentence has room for, and how much of each."""


def _waiting(cases: Sequence[CaseVerdict], policy: Policy) -> str:
    """Which cases `admission` keeps from deciding."""
    if not cases:
        return ""
    runs = words.counted(policy.admission, "base run")
    shown = ("`" + case.case_id[:NAME_WIDTH].replace("`", "'") + "`" for case in cases)
    names = words.listed(shown, limit=NAMED)
    return f"{words.counted(len(cases), 'case')} quarantined (`admission`: not reliable in {runs}): {names}."


def _worst(suites: Sequence[SuiteVerdict], run: Run) -> VerdictKind:
    kind = next((each for each in SEVERITY if any(suite.kind is each for suite in suites)), VerdictKind.NOT_MEASURED)
    if kind is not VerdictKind.PASS:
        return kind
    if not run.complete:
        return VerdictKind.NOT_MEASURED
    return VerdictKind.INCONCLUSIVE if run.truncated else kind


def worst_of(kinds: Collection[VerdictKind]) -> VerdictKind | None:
    """The most severe; None of none."""
    return next((each for each in SEVERITY if each in kinds), None)


def _hidden(suites: Sequence[SuiteVerdict], run: Run) -> frozenset[VerdictKind]:
    """The kinds that a more severe one keeps out of sight; what the policy blocks on may be among them."""
    kinds = {kind for suite in suites for kind in (suite.kind, *suite.beside)}
    if run.truncated:
        kinds.add(VerdictKind.INCONCLUSIVE)
    return frozenset(kinds)


def blocking(gate: GateKind, policy: Policy) -> frozenset[VerdictKind]:
    """The kinds of a gate's verdict that end the job red."""
    named = {
        VerdictKind.FAIL: FailOn(gate.value),
        VerdictKind.NOT_MEASURED: FailOn.NOT_MEASURED,
        VerdictKind.INCONCLUSIVE: FailOn.INCONCLUSIVE,
    }
    return frozenset(kind for kind, word in named.items() if word in policy.fail_on)


def case_verdicts(
    run: Run,
    uses: Mapping[CaseKey, Sequence[CriterionUse]],
    *,
    policy: Policy,
    scales: Mapping[str, Scale],
) -> dict[CaseKey, CaseVerdict]:
    """The verdict on each of the cases of `uses`, from the trials of a run."""
    by_case = pairing.trials_by_case(run)
    return {
        key: _judge_case(key, own, by_case.get(key, ()), run, policy=policy, scales=scales) for key, own in uses.items()
    }


def _judge_case(
    key: CaseKey,
    uses: Sequence[CriterionUse],
    trials: Sequence[GradedTrial],
    run: Run,
    *,
    policy: Policy,
    scales: Mapping[str, Scale],
) -> CaseVerdict:
    suite, case_id = key
    expected = run.expected(suite, case_id)
    verdict = threshold.judge_case(
        suite=suite,
        case_id=case_id,
        criteria=uses,
        trials=trials,
        repeats=expected,
        scales=scales,
        adk_compat=policy.adk_compat,
    )
    if verdict.kind is VerdictKind.FAIL:
        return dataclasses.replace(verdict, partial=not policy.adk_compat and _broken(trials, uses))
    cut_short = run.truncated and len(trials) < expected and not _broken(trials, uses)
    if cut_short and verdict.kind is VerdictKind.NOT_MEASURED:
        return dataclasses.replace(verdict, kind=VerdictKind.INCONCLUSIVE, reason=run.truncated)
    return verdict


def _broken(trials: Sequence[GradedTrial], uses: Sequence[CriterionUse]) -> bool:
    """Whether something that did run could not be measured."""
    names = [use.name for use in pairing.deciding(uses)]
    return any(
        trial.failure is not None or isinstance(trial.grades.get(name), NotEvaluated | None)
        for trial in trials
        for name in names
    )


def _judge_suite(
    suite: Suite, verdicts: Mapping[CaseKey, CaseVerdict], *, policy: Policy, allowed: Allowances
) -> SuiteVerdict:
    keys = [(suite.key, case.case_id) for case in suite.eval_set.cases]
    waits = allowed.unreliable if suite.key not in policy.advisory else frozenset()
    cases = tuple(_marked(verdicts[key], key, waits=waits, allowed=allowed) for key in keys)
    counted = [verdicts[key] for key in keys if key not in allowed.unreliable]
    required = policy.suite_pass_rate.get(suite.key, policy.pass_rate)
    kind, reason = counting.judge(counting.count(counted), required=required, min_measured=policy.min_measured)
    failures = {(case.suite, case.case_id) for case in counted if case.kind is VerdictKind.FAIL}
    settled = counting.count([_unsettled(case, allowed) for case in counted], excused=failures & allowed.excused)
    if kind is VerdictKind.FAIL and not allowed.blocking(failures):
        kind, reason = counting.judge(settled, required=required, min_measured=policy.min_measured)
    beside = counting.beside(settled, required=required, min_measured=policy.min_measured)
    return SuiteVerdict(
        suite=suite.key,
        kind=kind,
        cases=cases,
        required_pass_rate=required,
        reason=reason,
        advisory=suite.key in policy.advisory or (bool(cases) and not counted),
        beside=frozenset() if kind is VerdictKind.PASS else beside - {kind},
    )


def _marked(case: CaseVerdict, key: CaseKey, *, waits: Collection[CaseKey], allowed: Allowances) -> CaseVerdict:
    excused = case.kind is VerdictKind.FAIL and key in allowed.excused
    if key not in waits and not excused:
        return case
    return dataclasses.replace(case, admitted=key not in waits, excused=excused)


def _unsettled(case: CaseVerdict, allowed: Allowances) -> CaseVerdict:
    unsettled = (case.suite, case.case_id) in allowed.unsettled
    return dataclasses.replace(case, kind=VerdictKind.INCONCLUSIVE) if unsettled else case


def _sentence(
    kind: VerdictKind,
    suites: Sequence[SuiteVerdict],
    *,
    run: Run,
    allowed: Allowances,
    noun: str,
    by: VerdictKind | None,
) -> str:
    """What there is to say of `kind`; where another kind blocks, `by`, of that one, with the failures behind it."""
    counted = [case for suite in suites for case in suite.cases if (case.suite, case.case_id) not in allowed.unreliable]
    cases = len(counted)
    failed = [case for case in counted if case.kind is VerdictKind.FAIL]
    unmeasured = sum(case.kind is VerdictKind.NOT_MEASURED for case in counted)
    told = by or kind
    where = words.listed((suite.suite for suite in suites if told in (suite.kind, *suite.beside)), limit=3)
    origins = allowed.in_words((case.suite, case.case_id) for case in failed)
    match told:
        case VerdictKind.PASS:
            return _pass_sentence(cases, noun, failed=len(failed), unmeasured=unmeasured, origins=origins)
        case VerdictKind.FAIL:
            rest = f"; {unmeasured} could not be evaluated" if unmeasured else ""
            said = f" ({origins})" if origins else ""
            return f"{len(failed)} of {words.counted(cases, noun)} failed{said} in {where}{rest}."
        case VerdictKind.NOT_MEASURED:
            if cases == 0:
                return "No cases."
            partial = sum(case.partial for case in counted) if kind is VerdictKind.FAIL else 0
            rest = f" ({len(failed)} failed)" if failed else ""
            lacks = f"{unmeasured + partial} of {words.counted(cases, noun)} could not be evaluated"
            return f"{lacks}{' completely' if partial else ''} in {where}{rest}."
        case VerdictKind.INCONCLUSIVE:
            said = f" ({origins})" if origins else ""
            shown = failed and (origins or kind is not told)
            rest = f" {len(failed)} of {words.counted(cases, noun)} failed{said}." if shown else ""
            return f"The run stopped early ({run.truncated or 'budget'}), so there is no verdict.{rest}"


def _pass_sentence(cases: int, noun: str, *, failed: int, unmeasured: int, origins: str) -> str:
    if failed and origins:
        return f"{cases - failed - unmeasured} of {words.counted(cases, noun)} passed; tolerated: {origins}."
    if failed:
        return f"{cases - failed - unmeasured} of {words.counted(cases, noun)} passed, which meets `pass-rate`."
    if unmeasured:
        return (
            f"Every measured {noun} passed; {unmeasured} of {cases} could not be evaluated (allowed by `min-measured`)."
        )
    return f"The {noun} passed." if cases == 1 else f"All {words.counted(cases, noun)} passed."
