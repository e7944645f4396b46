"""The verdict: is head good enough, and is it worse than the base? Its words:
`reports.sentences`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from evalgate.comparison import pairing, threshold
from evalgate.comparison.compare import OF_RERUNS
from evalgate.model import (
    BaseSource,
    Book,
    CaseKey,
    CaseStatus,
    CaseVerdict,
    Change,
    Comparison,
    Confirmation,
    CriterionComparison,
    FailOn,
    FailureKind,
    FailureOrigin,
    GateCause,
    GateKind,
    GateVerdict,
    Lack,
    NonBlocking,
    Policy,
    Quarantine,
    Run,
    Suite,
    SuiteVerdict,
    ThresholdRule,
    Verdict,
    VerdictKind,
)
from evalgate.values import Sentence, Wording, frozen_dataclass, grouped


@frozen_dataclass
class Allowed:
    """The cases and failures that the threshold gate treats specially."""

    flaky_cases: frozenset[CaseKey] = frozenset()  # failed or crashed, and pass in reruns
    # the base fails too, and `threshold: new` allows it
    known_failures: frozenset[CaseKey] = frozenset()
    open_failures: frozenset[CaseKey] = frozenset()  # not rerun, or not measured
    new_cases: frozenset[CaseKey] = frozenset()  # not on the base
    drifted_cases: frozenset[CaseKey] = frozenset()  # both sides fail today, the base passed before

    def reason(self, case: CaseVerdict) -> NonBlocking | None:
        """Why a failed or crashed case does not block; None if it may block."""
        has_failed = case.kind is VerdictKind.FAIL
        is_crash = case.kind is VerdictKind.NOT_MEASURED
        if case.key in self.flaky_cases and (has_failed or is_crash):
            return NonBlocking.FLAKY
        return NonBlocking.ALLOWED if case.key in self.known_failures and has_failed else None


NO_VERDICTS: Mapping[CaseKey, CaseVerdict] = {}
NOT_QUARANTINED: Mapping[CaseKey, Quarantine] = {}


def _origins(comparison: Comparison | None, book: Book | None) -> dict[CaseKey, FailureOrigin]:
    """The origin of each failure: from the comparison with a base, else from the reruns."""
    if comparison is not None and comparison.base is not None:
        return {case.key: case.origin for case in comparison.cases if case.origin is not None}
    return {
        key: OF_RERUNS[confirmation]
        for key, confirmation in (book.confirmations if book else {}).items()
        if confirmation in (Confirmation.FLAKY, Confirmation.LOST)
    }


def _allowed(
    run: Run,
    policy: Policy,
    *,
    comparison: Comparison | None,
    book: Book | None,
    origins: Mapping[CaseKey, FailureOrigin],
) -> Allowed:
    """The failures that the policy allows: flaky failures, and with `threshold: new` those that the
    base has too. New cases and cases without a base result are never allowed as old failures."""
    book = book or Book()
    keys: defaultdict[Confirmation, set[CaseKey]] = defaultdict(set)
    for key, confirmation in book.confirmations.items():
        keys[confirmation].add(key)
    base = None if comparison is None else comparison.base
    cases = () if comparison is None or base is None else comparison.cases
    old_failures = {
        key
        for key, origin in origins.items()
        if origin in (FailureOrigin.KNOWN, FailureOrigin.MIXED)
    }
    known_failures = frozenset(old_failures if policy.threshold is ThresholdRule.NEW else ())
    # measured in an earlier run than head's
    separate_keys = {trial.key.case for trial in (base.trials if base else ()) if trial.apart}
    passed_keys = {case.key for case in cases if case.base and case.base.passed > case.base.failed}
    open_failures = keys[Confirmation.LOST]
    if run.truncated or (base is not None and base.truncated):
        open_failures |= keys[Confirmation.OPEN] - known_failures
    return Allowed(
        flaky_cases=frozenset(keys[Confirmation.FLAKY]),
        known_failures=known_failures,
        open_failures=frozenset(open_failures),
        new_cases=frozenset(case.key for case in cases if case.status is CaseStatus.NEW),
        drifted_cases=frozenset(separate_keys & passed_keys & old_failures & book.on_both),
    )


SEVERITY = (VerdictKind.FAIL, VerdictKind.NOT_MEASURED, VerdictKind.INCONCLUSIVE, VerdictKind.PASS)
"""The most severe first. The most severe kind of the suites is the verdict's kind."""


def _worst(kinds: Iterable[VerdictKind | None]) -> VerdictKind | None:
    """The most severe kind; None if there is none."""
    return min(filter(None, kinds), key=SEVERITY.index, default=None)


def _threshold_gate(run: Run, suites: Sequence[SuiteVerdict], policy: Policy) -> GateVerdict:
    """The threshold gate's verdict on a run.

    Every suite counts, except advisory ones; if all are advisory, nothing blocks. A run without
    cases is not measured. If its budget ended a run, the verdict is inconclusive at best."""
    deciding_suites = [suite for suite in suites if not suite.advisory]
    kind = _worst(suite.kind for suite in deciding_suites) or VerdictKind.NOT_MEASURED
    if kind is VerdictKind.PASS and not run.complete:
        kind = VerdictKind.NOT_MEASURED
    elif kind is VerdictKind.PASS and run.truncated:
        kind = VerdictKind.INCONCLUSIVE
    # including kinds that a more severe kind hides: the policy may block on them
    kinds = {kind}
    for suite in deciding_suites:
        kinds |= {suite.kind, *suite.lesser_kinds}
    if run.truncated:
        kinds.add(VerdictKind.INCONCLUSIVE)
    is_advisory_only = bool(suites) and not deciding_suites
    blocked_by = None if is_advisory_only else _blocking(GateKind.THRESHOLD, kinds, policy)
    return GateVerdict(gate=GateKind.THRESHOLD, kind=kind, blocked_by=blocked_by)


def _blocking(gate: GateKind, kinds: Collection[VerdictKind], policy: Policy) -> VerdictKind | None:
    """The most severe kind of a gate's verdict that fails the job; None if none does."""
    settings = {
        VerdictKind.FAIL: FailOn(gate.value),
        VerdictKind.NOT_MEASURED: FailOn.NOT_MEASURED,
        VerdictKind.INCONCLUSIVE: FailOn.INCONCLUSIVE,
    }
    return _worst(kind for kind in kinds if settings.get(kind) in policy.fail_on)


def _judge_suite(
    suite: Suite,
    verdicts: Mapping[CaseKey, CaseVerdict],
    *,
    policy: Policy,
    allowed: Allowed,
    quarantines: Mapping[CaseKey, Quarantine],
    is_compared: bool,
) -> SuiteVerdict:
    """The verdict on a suite by its own pass rate. Every case counts, including cases that did not
    run, except quarantined ones and those in `allowed`. `is_compared`: the comparison with a base
    decides criteria without a threshold."""
    is_advisory = suite.key in policy.advisory
    if suite.problem:
        return SuiteVerdict(
            suite=suite.key,
            kind=VerdictKind.NOT_MEASURED,
            cases=(),
            reason=suite.problem,
            advisory=is_advisory,
        )
    case_verdicts = [verdicts[suite.key, case.case_id] for case in suite.cases]
    shown_quarantines = NOT_QUARANTINED if is_advisory else quarantines
    counted_cases = [case for case in case_verdicts if case.key not in quarantines]
    pass_rate = policy.suite_pass_rate.get(suite.key, policy.pass_rate)
    case_groups = [counted_cases]
    if pass_rate < 1 and counted_cases:
        # old and new cases have a pass rate each: otherwise new cases could make up for failures
        groups = grouped((case.key in allowed.new_cases, case) for case in counted_cases)
        case_groups = [group for _, group in sorted(groups.items())]
    group_verdicts = [
        _judge_cases(case_group, policy=policy, allowed=allowed, required=pass_rate)
        for case_group in case_groups
    ]
    group_verdicts.sort(key=lambda kinds: SEVERITY.index(next(iter(kinds))))
    kind, reason = next(iter(group_verdicts[0].items()))
    compared = [use.name for use in suite.criteria if use.is_compared]
    deciding_uses = pairing.deciding(suite.criteria)
    if kind is VerdictKind.PASS and compared and len(compared) == len(deciding_uses):
        kind = kind if is_compared else VerdictKind.NOT_MEASURED
        reason = Sentence("suite_without_threshold", compared, is_compared)
    return SuiteVerdict(
        suite=suite.key,
        kind=kind,
        cases=tuple(_case_verdict(case, allowed, shown_quarantines) for case in case_verdicts),
        required_pass_rate=pass_rate,
        reason=reason,
        advisory=is_advisory or (bool(case_verdicts) and not counted_cases),
        lesser_kinds=frozenset().union(*group_verdicts) - {kind, VerdictKind.PASS},
    )


def _case_verdict(
    case: CaseVerdict, allowed: Allowed, quarantines: Mapping[CaseKey, Quarantine]
) -> CaseVerdict:
    """The verdict with the reason why it does not block, if there is one."""
    quarantine = quarantines.get(case.key)
    # a quarantined case needs no other reason not to block
    nonblocking = None if quarantine else allowed.reason(case)
    if (nonblocking, quarantine) == (case.nonblocking, case.quarantine):
        return case
    return replace(case, nonblocking=nonblocking, quarantine=quarantine)


def _judge_cases(
    cases: Sequence[CaseVerdict], *, policy: Policy, allowed: Allowed, required: float
) -> dict[VerdictKind, Wording]:
    """The verdict kinds of cases that share one pass rate, the deciding kind first, with reasons;
    see `threshold.judge`."""
    # flaky crashes count neither as measured nor as missing
    remaining_cases = [
        case for case in cases if case.kind is VerdictKind.FAIL or allowed.reason(case) is None
    ]
    if cases and not remaining_cases:
        return {VerdictKind.PASS: ""}
    failures = {case.key for case in remaining_cases if case.kind is VerdictKind.FAIL}
    unconfirmed_failures = failures & allowed.open_failures
    allowed_failures = failures & allowed.flaky_cases
    # flaky failures never count; known failures do not count if no other failure exists
    if failures <= allowed_failures | unconfirmed_failures | allowed.known_failures:
        allowed_failures |= failures & allowed.known_failures
    kinds = threshold.judge(
        remaining_cases,
        required=required,
        min_measured=policy.min_measured,
        allowed=allowed_failures,
        unconfirmed=unconfirmed_failures,
    )
    if unconfirmed_failures and next(iter(kinds)) is VerdictKind.INCONCLUSIVE:
        # if a budget ended before the reruns, failures that they might have confirmed must not pass
        notice: dict[VerdictKind, Wording] = {
            VerdictKind.NOT_MEASURED: Sentence("suite_not_rerun", len(unconfirmed_failures))
        }
        return notice | kinds | notice  # this kind comes first, whatever else there is
    return kinds


def decide(
    run: Run,
    policy: Policy,
    *,
    comparison: Comparison | None,
    quarantines: Mapping[CaseKey, Quarantine] = NOT_QUARANTINED,
    book: Book | None = None,
    decided: Mapping[CaseKey, CaseVerdict] = NO_VERDICTS,
) -> Verdict:
    """Combine both gates: the more severe one counts.

    Without a comparison only the threshold gate decides. If the comparison has no base, the
    regression gate is not measured, except if no earlier agent exists. `quarantines`: cases that
    are shown and never decide. `book`: the bets of a run without a comparison; without a book every
    failure counts. `decided`: the verdicts on the cases without a comparison, if they exist
    already."""
    if (
        policy.fail_on
        and comparison is not None
        and _stopped_its_agent(run, comparison, advisory=policy.advisory)
    ):
        policy = policy.blocking()  # the change broke the agent; this is not an outage
    is_compared = comparison is not None and (comparison.base is not None or comparison.no_agent)
    if comparison is not None:
        book = comparison.book if comparison.base is not None else book
        decided = comparison.decided
    origins = _origins(comparison, book)
    allowed = _allowed(run, policy, comparison=comparison, book=book, origins=origins)
    uses = pairing.uses_by_case(run)
    # a budget that ended after the comparison changes the verdicts
    if run.truncated or decided.keys() != uses.keys():
        decided = pairing.case_verdicts(run, uses, policy=policy)
    verdicts = {
        **decided,
        **{
            key: replace(
                decided[key],
                kind=VerdictKind.NOT_MEASURED,
                second_kind=None,
                reason=Sentence("case_moved"),
            )
            for key in allowed.drifted_cases
        },
    }
    suites = tuple(
        _judge_suite(
            suite,
            verdicts,
            policy=policy,
            allowed=allowed,
            quarantines=quarantines,
            is_compared=is_compared,
        )
        for suite in run.suites
    )
    gates = [_threshold_gate(run, suites, policy)]
    if comparison is not None:
        regression = regression_gate(run, comparison, policy)
        gates += [] if regression is None else [regression]
    return Verdict(
        kind=min((gate.kind for gate in gates), key=SEVERITY.index),
        blocked_by=_worst(gate.blocked_by for gate in gates),
        suites=suites,
        gates=tuple(gates),
        book=book,
        origins=origins,
        open=allowed.open_failures,
    )


def _stopped_its_agent(run: Run, comparison: Comparison, *, advisory: Collection[str]) -> bool:
    """True if a suite's agent does not start, or has no valid credentials, on head although it runs
    on the base: the change caused it."""
    if comparison.base is None or comparison.origin.source is not BaseSource.RERUN:
        return False
    running_suites = {trial.key.suite for trial in comparison.base.trials if trial.failure is None}
    starting_suites = {
        trial.key.suite
        for trial in run.trials
        if trial.failure is None
        or trial.failure.kind not in {FailureKind.START, FailureKind.UNAUTHORIZED}
    }
    return bool(
        {trial.key.suite for trial in run.trials} & running_suites - starting_suites - set(advisory)
    )


def regression_gate(run: Run, comparison: Comparison, policy: Policy) -> GateVerdict | None:
    """The regression gate's verdict; None if the policy has no criterion that decides it."""
    if comparison.base is None:
        if comparison.no_agent:
            # a change that adds the first agent passes: nothing can have become worse
            return _gate({VerdictKind.PASS: GateCause.NO_AGENT}, policy)
        if comparison.base_failed:
            return _gate({VerdictKind.INCONCLUSIVE: GateCause.BASE_FAILED}, policy)
        return _gate({VerdictKind.NOT_MEASURED: GateCause.NO_BASE}, policy)
    if comparison.is_untouched(run):
        return _gate(
            {VerdictKind.PASS: GateCause.ONLY_CASES if comparison.edited else GateCause.UNTOUCHED},
            policy,
        )
    rows = [row for row in comparison.criteria if row.rule.gating]
    if not rows:
        is_unpaired = not comparison.criteria and any(
            case.suite not in policy.advisory for case in comparison.cases
        )
        return (
            _gate({VerdictKind.NOT_MEASURED: GateCause.UNPAIRED}, policy) if is_unpaired else None
        )
    truncated = run.truncated or comparison.base.truncated
    # a budget that ended with the last first run, or during reruns, removed nothing from the
    # comparison
    causes = _causes(
        rows, comparison, is_cut_short=bool(truncated) and any(row.cases.unpaired for row in rows)
    )
    # a budget that the base's usage would not have ended; a base that reports no tokens counts as 0
    is_of_tokens = any(unit in str(truncated) for unit in ("tokens", "$"))
    head_tokens, base_tokens, _ = run.tokens_beside(comparison.base)
    ate_budget = is_of_tokens and head_tokens > APPETITE * (base_tokens or 0)
    if ate_budget and VerdictKind.NOT_MEASURED not in causes:
        causes[VerdictKind.NOT_MEASURED] = GateCause.APPETITE
        causes.pop(VerdictKind.PASS, None)
    return _gate(causes, policy)


APPETITE = 2
"""If head takes more than this many times the base's tokens for the same runs, head caused the
budget to end."""


def _causes(
    rows: Sequence[CriterionComparison], comparison: Comparison, *, is_cut_short: bool
) -> dict[VerdictKind, GateCause]:
    """Each kind of the regression verdict, and its cause. A drop is reported whatever else is
    unknown. A run that its budget ended is inconclusive at best."""
    undecided = {row.lack for row in rows if row.change is Change.INCONCLUSIVE}
    causes: dict[VerdictKind, GateCause] = {}
    if comparison.book.is_worse:
        causes[VerdictKind.FAIL] = GateCause.WORSE
    lacks = {row.lack for row in rows}
    if lacks & {Lack.CLOCK, Lack.SCORES}:
        causes[VerdictKind.NOT_MEASURED] = GateCause.UNSCORED
    if (is_cut_short or undecided) and Lack.BASE_FAILED in lacks:
        causes[VerdictKind.INCONCLUSIVE] = GateCause.BASE_LACKS
    elif is_cut_short:
        causes[VerdictKind.INCONCLUSIVE] = GateCause.CUT_SHORT
    elif undecided:
        cause = GateCause.PAST if Lack.PAST in undecided else GateCause.UNDECIDED
        causes[VerdictKind.INCONCLUSIVE] = cause
    return causes or {VerdictKind.PASS: GateCause.NO_EVIDENCE}


def _gate(causes: Mapping[VerdictKind, GateCause], policy: Policy) -> GateVerdict:
    """The gate's verdict. The most severe kind is its kind, any kind may block, and the cause of
    the blocking kind comes first."""
    kind = min(causes, key=SEVERITY.index)
    blocked_by = _blocking(GateKind.REGRESSION, causes, policy)
    kinds = dict.fromkeys((blocked_by or kind, kind))
    return GateVerdict(
        gate=GateKind.REGRESSION,
        kind=kind,
        blocked_by=blocked_by,
        causes=tuple(causes[cause_kind] for cause_kind in kinds),
    )
