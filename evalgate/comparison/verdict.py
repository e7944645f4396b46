"""The verdict: is head good enough, and is it worse than the base? Its words:
`reports.wording`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from evalgate.model import (
    BaseSource,
    Book,
    CaseComparison,
    CaseKey,
    CaseStatus,
    CaseVerdict,
    Change,
    Comparison,
    Confirmation,
    Exemption,
    ExemptionKind,
    FailOn,
    FailureKind,
    FailureOrigin,
    GateCause,
    GateKind,
    GateVerdict,
    Lack,
    Policy,
    Run,
    Suite,
    SuiteVerdict,
    ThresholdRule,
    Verdict,
    VerdictKind,
)
from evalgate.values import Sentence, Wording, grouped
from . import pairing, threshold
from .book import ScoredSide
from .compare import OF_RERUNS

SEVERITY = (VerdictKind.FAIL, VerdictKind.NOT_MEASURED, VerdictKind.INCONCLUSIVE, VerdictKind.PASS)
"""The most severe first. The most severe kind of the suites is the verdict's kind."""
OF_BASE = (FailureOrigin.KNOWN, FailureOrigin.MIXED)
"""The base fails too; never for new cases and those without a base result."""
APPETITE = 2
"""If head takes more than this many times the base's tokens for the same runs, head caused the
budget to end."""


def decide(
    run: Run,
    policy: Policy,
    *,
    comparison: Comparison | None,
    book: Book | None = None,
    decided: Mapping[CaseKey, CaseVerdict] | None = None,
) -> Verdict:
    """Combine both gates: the more severe one counts.

    Without a comparison only the threshold gate decides. If the comparison has no base, the
    regression gate is not measured, except if no earlier agent exists. `book`: the bets of a run
    without a comparison; without a book every failure counts. `decided`: the verdicts on the cases
    without a comparison, if they exist already."""
    compared = None if comparison is None or comparison.base is None else comparison
    if compared is not None:
        book = compared.book
        decided = compared.decided
        if (
            policy.fail_on
            and FailOn.NOT_MEASURED not in policy.fail_on
            and _stopped_its_agent(run, compared, advisory=policy.advisory)
        ):
            policy = policy.blocking()  # the change broke the agent; this is not an outage
    threshold_gate = _ThresholdGate(
        run=run,
        policy=policy,
        base=None if compared is None else compared.base,
        cases=compared.cases if compared else (),
        is_compared=compared is not None or (comparison is not None and comparison.no_agent),
        book=book or Book(),
        decided=decided or {},
    )
    suites = [threshold_gate.suite_verdict(suite) for suite in run.suites]
    gates = [threshold_gate.verdict(suites)]
    causes = {} if comparison is None else _causes(run, comparison, policy)
    if causes:
        kind = min(causes, key=SEVERITY.index)
        blocked_by = _blocking(GateKind.REGRESSION, causes, policy)
        # any kind may block; the cause of the blocking kind comes first
        kinds = dict.fromkeys((blocked_by or kind, kind))
        reasons = tuple(causes[cause_kind] for cause_kind in kinds)
        gates.append(
            GateVerdict(gate=GateKind.REGRESSION, kind=kind, blocked_by=blocked_by, causes=reasons)
        )
    return Verdict(
        kind=min((gate.kind for gate in gates), key=SEVERITY.index),
        blocked_by=_worst(gate.blocked_by for gate in gates),
        suites=tuple(suites),
        gates=tuple(gates),
        book=book,
        origins=threshold_gate.origins,
        open=threshold_gate.open_failures,
    )


def _worst(kinds: Iterable[VerdictKind | None]) -> VerdictKind | None:
    """The most severe kind; None if there is none."""
    return min(filter(None, kinds), key=SEVERITY.index, default=None)


def _blocking(gate: GateKind, kinds: Collection[VerdictKind], policy: Policy) -> VerdictKind | None:
    """The most severe kind of a gate's verdict that fails the job; None if none does."""
    # `fail-on` has the names of the gates, for their failures, and of the other kinds
    names = {kind: gate.value if kind is VerdictKind.FAIL else kind.value for kind in kinds}
    return _worst(kind for kind, name in names.items() if name in policy.fail_on)


@dataclass(frozen=True, kw_only=True, eq=False)
class _ThresholdGate:
    """Is head good enough? Most fields are arguments of `decide`."""

    run: Run
    policy: Policy
    base: Run | None
    cases: Sequence[CaseComparison]
    """Compared with `base`."""
    is_compared: bool
    """The comparison decides criteria without a threshold."""
    book: Book
    decided: Mapping[CaseKey, CaseVerdict]

    @cached_property
    def origins(self) -> Mapping[CaseKey, FailureOrigin]:
        """The origin of each failure: from the comparison with a base, else from the reruns."""
        if self.base is not None:
            return {case.key: case.origin for case in self.cases if case.origin is not None}
        return {
            key: OF_RERUNS[confirmation]
            for key, confirmation in self.book.confirmations.items()
            if confirmation in OF_RERUNS
        }

    def _is_allowed(self, key: CaseKey) -> bool:
        return self.policy.threshold is ThresholdRule.NEW and self.origins.get(key) in OF_BASE

    @cached_property
    def open_failures(self) -> frozenset[CaseKey]:
        """Failures whose reruns could not be measured, or were prevented by a budget."""
        is_cut_short = any(run is not None and run.truncated for run in (self.run, self.base))
        return frozenset(
            key
            for key, confirmation in self.book.confirmations.items()
            if confirmation is Confirmation.LOST
            or (is_cut_short and confirmation is Confirmation.OPEN and not self._is_allowed(key))
        )

    @cached_property
    def verdicts(self) -> Mapping[CaseKey, CaseVerdict]:
        """The verdicts on the cases, with the reasons why some do not block."""
        uses = pairing.uses_by_case(self.run)
        # a budget that ended after the comparison changes the verdicts
        is_known = not self.run.truncated and self.decided.keys() == uses.keys()
        side = ScoredSide(run=self.run, uses=uses, policy=self.policy)
        verdicts = self.decided if is_known else side.verdicts
        # cases that the base passed in an earlier run, and that fail on both sides today
        trials = self.base.trials if self.base else ()
        keys = {trial.key.case for trial in trials if trial.apart} & self.book.on_both
        drifted_keys = {
            case.key
            for case in self.cases
            if case.key in keys
            and case.origin in OF_BASE
            and case.base
            and case.base.passed > case.base.failed
        }
        exempted_cases = {}
        for key, verdict in verdicts.items():
            is_drifted = key in drifted_keys
            case = verdict.unmeasured(Sentence("case_moved")) if is_drifted else verdict
            is_advisory = case.suite in self.policy.advisory
            exemption = None if is_advisory else self.policy.exemptions.get(key)
            is_flaky = self.book.confirmations.get(key) is Confirmation.FLAKY
            if exemption is not None:
                pass  # it needs no other reason not to block
            elif is_flaky and case.kind in (VerdictKind.FAIL, VerdictKind.NOT_MEASURED):
                exemption = Exemption(kind=ExemptionKind.FLAKY)
            elif case.kind is VerdictKind.FAIL and self._is_allowed(key):
                exemption = Exemption(kind=ExemptionKind.ALLOWED)
            exempted_cases[key] = replace(case, exemption=exemption)
        return exempted_cases

    @cached_property
    def new_cases(self) -> frozenset[CaseKey]:
        """The cases that are not on the base."""
        return frozenset(case.key for case in self.cases if case.status is CaseStatus.NEW)

    def suite_verdict(self, suite: Suite) -> SuiteVerdict:
        """The verdict on a suite by its own pass rate. Every case counts, including cases that did
        not run, except listed ones and those that do not block."""
        policy = self.policy
        is_advisory = suite.key in policy.advisory
        if problem := suite.problem:
            kind = VerdictKind.NOT_MEASURED
            return SuiteVerdict(
                suite=suite.key, kind=kind, cases=(), reason=problem, advisory=is_advisory
            )
        case_verdicts = [self.verdicts[suite.key, case.case_id] for case in suite.cases]
        counted_cases = [case for case in case_verdicts if case.key not in policy.exemptions]
        required = policy.suite_pass_rate.get(suite.key, policy.pass_rate)
        # old and new cases have a pass rate each: otherwise new cases could make up for failures
        groups = grouped(
            (required < 1 and case.key in self.new_cases, case) for case in counted_cases
        )
        group_verdicts = [
            self._group_kinds(case_group, required)
            for _, case_group in sorted(groups.items()) or [(False, [])]
        ]
        group_verdicts.sort(key=lambda kinds: SEVERITY.index(next(iter(kinds))))
        kind, reason = next(iter(group_verdicts[0].items()))
        names = [use.name for use in suite.criteria if use.is_compared]
        has_threshold = len(names) < len(pairing.deciding(suite.criteria))
        if kind is VerdictKind.PASS and names and not has_threshold:
            kind = kind if self.is_compared else VerdictKind.NOT_MEASURED
            reason = Sentence("suite_without_threshold", names, self.is_compared)
        return SuiteVerdict(
            suite=suite.key,
            kind=kind,
            cases=tuple(case_verdicts),
            required_pass_rate=required,
            reason=reason,
            advisory=is_advisory or (bool(case_verdicts) and not counted_cases),
            lesser_kinds=frozenset().union(*group_verdicts) - {kind, VerdictKind.PASS},
        )

    def _group_kinds(
        self, cases: Sequence[CaseVerdict], required: float
    ) -> dict[VerdictKind, Wording]:
        """The verdict kinds of cases that share one pass rate, the deciding kind first, with
        reasons; see `threshold.judge`."""
        # flaky crashes count neither as measured nor as missing
        remaining_cases = [
            case for case in cases if case.kind is VerdictKind.FAIL or case.exemption is None
        ]
        if cases and not remaining_cases:
            return {VerdictKind.PASS: ""}
        failures = [case for case in remaining_cases if case.kind is VerdictKind.FAIL]
        unconfirmed_failures = {case.key for case in failures} & self.open_failures
        # flaky failures never count; known failures do not count if no other failure exists
        is_excused = all(case.exemption or case.key in unconfirmed_failures for case in failures)
        kinds = threshold.judge(
            remaining_cases,
            required=required,
            min_measured=self.policy.min_measured,
            allowed={
                case.key for case in failures if case.is_flaky or (case.exemption and is_excused)
            },
            unconfirmed=unconfirmed_failures,
        )
        if unconfirmed_failures and next(iter(kinds)) is VerdictKind.INCONCLUSIVE:
            # if a budget ended before the reruns, failures that they might have confirmed must not
            # pass; this kind comes first, whatever else there is
            notice = Sentence("suite_not_rerun", len(unconfirmed_failures))
            kinds.pop(VerdictKind.NOT_MEASURED, None)
            return {VerdictKind.NOT_MEASURED: notice, **kinds}
        return kinds

    def verdict(self, suites: Sequence[SuiteVerdict]) -> GateVerdict:
        """The gate's verdict.

        Every suite counts, except advisory ones; if all are advisory, nothing blocks. A run without
        cases is not measured. If its budget ended a run, the verdict is inconclusive at best."""
        run = self.run
        deciding_suites = [suite for suite in suites if not suite.advisory]
        kind = _worst(suite.kind for suite in deciding_suites) or VerdictKind.NOT_MEASURED
        if kind is VerdictKind.PASS and not run.complete:
            kind = VerdictKind.NOT_MEASURED
        elif kind is VerdictKind.PASS and run.truncated:
            kind = VerdictKind.INCONCLUSIVE
        # including kinds that a more severe kind hides: the policy may block on them
        kinds = {kind, *([VerdictKind.INCONCLUSIVE] if run.truncated else ())}
        for suite in deciding_suites:
            kinds |= {suite.kind, *suite.lesser_kinds}
        is_advisory_only = bool(suites) and not deciding_suites
        blocked_by = None if is_advisory_only else _blocking(GateKind.THRESHOLD, kinds, self.policy)
        return GateVerdict(gate=GateKind.THRESHOLD, kind=kind, blocked_by=blocked_by)


def _stopped_its_agent(run: Run, comparison: Comparison, *, advisory: Collection[str]) -> bool:
    """True if a suite's agent does not start, or has no valid credentials, on head although it runs
    on the base: the change caused it."""
    if comparison.base is None or comparison.origin.source is not BaseSource.RERUN:
        return False
    running_suites = {trial.key.suite for trial in comparison.base.trials if trial.failure is None}
    kinds_by_suite = grouped(
        (trial.key.suite, trial.failure and trial.failure.kind) for trial in run.trials
    )
    return any(
        suite not in advisory and {*kinds} <= {FailureKind.START, FailureKind.UNAUTHORIZED}
        for suite, kinds in kinds_by_suite.items()
        if suite in running_suites
    )


def _causes(run: Run, comparison: Comparison, policy: Policy) -> Mapping[VerdictKind, GateCause]:
    """Each kind of the regression gate's verdict, and its cause; empty if the policy has no
    criterion that decides it. A drop is reported whatever else is unknown. A run that its budget
    ended is inconclusive at best."""
    if comparison.base is None:
        if comparison.no_agent:
            # a change that adds the first agent passes: nothing can have become worse
            return {VerdictKind.PASS: GateCause.NO_AGENT}
        if comparison.base_failed:
            return {VerdictKind.INCONCLUSIVE: GateCause.BASE_FAILED}
        return {VerdictKind.NOT_MEASURED: GateCause.NO_BASE}
    if comparison.is_untouched(run):
        cause = GateCause.ONLY_CASES if comparison.edited else GateCause.UNTOUCHED
        return {VerdictKind.PASS: cause}
    rows = [row for row in comparison.criteria if row.rule.gating]
    if not rows:
        is_unpaired = not comparison.criteria and any(
            case.suite not in policy.advisory for case in comparison.cases
        )
        return {VerdictKind.NOT_MEASURED: GateCause.UNPAIRED} if is_unpaired else {}
    truncated = run.truncated or comparison.base.truncated
    # a budget that ended with the last first run, or during reruns, removed nothing from the
    # comparison
    is_cut_short = bool(truncated) and any(row.cases.unpaired for row in rows)
    undecided = {row.lack for row in rows if row.change is Change.INCONCLUSIVE}
    lacks = {row.lack for row in rows}
    causes: dict[VerdictKind, GateCause] = {}
    if comparison.book.is_worse:
        causes[VerdictKind.FAIL] = GateCause.WORSE
    if lacks & {Lack.CLOCK, Lack.SCORES}:
        causes[VerdictKind.NOT_MEASURED] = GateCause.UNSCORED
    if (is_cut_short or undecided) and Lack.BASE_FAILED in lacks:
        causes[VerdictKind.INCONCLUSIVE] = GateCause.BASE_LACKS
    elif is_cut_short:
        causes[VerdictKind.INCONCLUSIVE] = GateCause.CUT_SHORT
    elif undecided:
        cause = GateCause.PAST if Lack.PAST in undecided else GateCause.UNDECIDED
        causes[VerdictKind.INCONCLUSIVE] = cause
    # a budget that the base's usage would not have ended; a base that reports no tokens counts as 0
    is_of_tokens = any(unit in str(truncated) for unit in ("tokens", "$"))
    usage = run.tokens_beside(comparison.base) if is_of_tokens else (0, 0, 0)
    head_tokens, base_tokens, _ = usage
    if head_tokens > APPETITE * (base_tokens or 0):
        causes.setdefault(VerdictKind.NOT_MEASURED, GateCause.APPETITE)
    return causes or {VerdictKind.PASS: GateCause.NO_EVIDENCE}
