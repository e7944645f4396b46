"""The verdict in words: it chooses the sentence of each gate's answer and gives its values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from evalgate.comparison import verdict as comparison_verdict
from evalgate.model import (
    AgentFailure,
    CaseStatus,
    CaseVerdict,
    Change,
    Comparison,
    CriterionComparison,
    FailureOrigin,
    GateCause,
    GateKind,
    GateVerdict,
    Lack,
    Policy,
    Run,
    SuiteVerdict,
    Verdict,
    VerdictKind,
)
from evalgate.results import labels
from evalgate.text import words
from evalgate.values import frozen_dataclass
from .phrases import phrase


def with_reasons(
    verdict: Verdict, run: Run, comparison: Comparison | None, policy: Policy
) -> Verdict:
    """The verdict with its reason and those of its gates in words, the blocking gate first. The
    reason of a passing gate is in the verdict's reason only if all gates pass."""
    gates = tuple(
        replace(
            gate,
            reason=_threshold_sentence(gate, verdict, run, policy)
            if comparison is None or gate.gate is GateKind.THRESHOLD
            else " ".join(
                phrase(cause, _Regression(run, comparison, policy)) for cause in gate.causes
            ),
        )
        for gate in verdict.gates
    )
    severity = comparison_verdict.SEVERITY.index
    by_severity = sorted(
        gates, key=lambda gate: (not gate.blocks, severity(gate.blocked_by or gate.kind))
    )
    deciding_gates = [gate for gate in by_severity if gate.kind is not VerdictKind.PASS]
    if deciding_gates:  # the failures are not the agent's
        deciding_gates += [
            gate
            for gate in gates
            if gate.causes in ((GateCause.UNTOUCHED,), (GateCause.ONLY_CASES,))
        ]
    reason = " ".join(str(gate.reason) for gate in deciding_gates or by_severity)
    return replace(verdict, gates=gates, reason=reason)


def _threshold_sentence(gate: GateVerdict, verdict: Verdict, run: Run, policy: Policy) -> str:
    """The sentence for the kind that blocks, else for the gate's own kind."""
    has_listed = any(case.listing for case in verdict.cases)
    suites = [suite for suite in verdict.suites if not suite.advisory]
    if verdict.suites and not suites:
        is_severity = all(suite.suite in policy.advisory for suite in verdict.suites)
        return phrase("nonblocking_run", is_severity or not has_listed)
    deciding_cases = _DecidingCases(
        cases=[case for suite in suites for case in suite.cases if not case.listing],
        noun=phrase("deciding_case", has_listed or len(suites) < len(verdict.suites)),
    )
    kind = gate.blocked_by or gate.kind
    names = words.listed(
        (
            suite.suite
            for suite in suites
            if suite.cases and kind in (suite.kind, *suite.lesser_kinds)
        ),
        limit=3,
    )
    origins = _origin_counts(verdict, deciding_cases.failed)
    note = _compared_note(suites, run)
    broken_files = _broken_files(suites, run)
    match kind:
        case VerdictKind.PASS:
            sentence = phrase("threshold_pass", deciding_cases, origins)
            return f"{sentence} {note}" if note else sentence
        case VerdictKind.FAIL:
            return phrase("threshold_fail", deciding_cases, origins, names, broken_files)
        case VerdictKind.NOT_MEASURED if note and deciding_cases.passed == len(
            deciding_cases.cases
        ):
            return note
        case VerdictKind.NOT_MEASURED:
            partial_count = sum(
                gate.kind is VerdictKind.FAIL and case.partial and not case.exemption
                for case in deciding_cases.cases
            )
            return phrase(
                "threshold_not_measured",
                deciding_cases,
                names,
                broken_files,
                partial_count,
                sum(case.key in verdict.open for case in deciding_cases.failed),
                run.truncated,
            )
        case VerdictKind.INCONCLUSIVE:
            is_reported = deciding_cases.failed and (origins or gate.kind is not kind)
            return phrase(
                "threshold_inconclusive", deciding_cases, origins, is_reported, run.truncated
            )


def _compared_note(suites: Sequence[SuiteVerdict], run: Run) -> str:
    """The reason of the first suite whose criteria all lack a threshold; "" without one."""
    compared_keys = {
        suite.key
        for suite in run.suites
        if any(use.is_compared for use in suite.criteria)
        and all(use.informational or use.is_compared for use in suite.criteria)
    }
    notes = (
        suite.reason
        for suite in suites
        if suite.suite in compared_keys
        and suite.reason
        and all(case.kind is VerdictKind.PASS for case in suite.cases)
    )
    reason = str(next(notes, ""))
    return f"{reason.rstrip('.')}." if reason else ""


@frozen_dataclass
class _DecidingCases:
    """The deciding cases, counted by their outcome."""

    cases: Sequence[CaseVerdict]
    noun: str
    """The word for one of them."""

    @property
    def passed(self) -> int:
        return sum(case.kind is VerdictKind.PASS for case in self.cases)

    @property
    def flaky(self) -> int:
        return sum(case.is_flaky for case in self.cases)

    @property
    def failed(self) -> list[CaseVerdict]:
        return [case for case in self.cases if case.kind is VerdictKind.FAIL and not case.is_flaky]

    @property
    def unmeasured(self) -> int:
        return sum(
            case.kind is VerdictKind.NOT_MEASURED and case.exemption is None for case in self.cases
        )

    @property
    def doubtful(self) -> int:
        return sum(case.doubtful for case in self.cases)

    def share(self, count: int) -> str:
        """`2 of 3 cases`."""
        return words.share_of(count, len(self.cases), self.noun)


def _origin_counts(verdict: Verdict, failed: Sequence[CaseVerdict]) -> str:
    """`1 new, 2 pre-existing and 1 not confirmed`; empty without a base."""
    counts = Counter(verdict.origins[case.key] for case in failed if case.key in verdict.origins)
    return words.listed(
        phrase("label_count", labels.OF_ORIGIN[origin], counts[origin])
        for origin in FailureOrigin
        if counts[origin]
    )


def _broken_files(suites: Sequence[SuiteVerdict], run: Run) -> str:
    """The number of files that could not be evaluated, and the reason of the first; "" without
    any."""
    broken_keys = {suite.key for suite in run.suites if suite.problem}
    broken_suites = [suite for suite in suites if suite.suite in broken_keys]
    if not broken_suites:
        return ""
    return phrase(
        "broken_files",
        len(broken_suites),
        broken_suites[0].suite,
        str(broken_suites[0].reason).rstrip("."),
    )


class _Regression:
    """The values for the sentences of the regression gate. `rows`: the deciding criteria."""

    def __init__(self, run: Run, comparison: Comparison, policy: Policy) -> None:
        self.run = run
        self.comparison = comparison
        self.policy = policy
        self.rows = [row for row in comparison.criteria if row.rule.gating]
        self.truncated = run.truncated or (comparison.base.truncated if comparison.base else "")
        self.problem = str(comparison.problem or phrase("no_base_results")).rstrip(".")

    def rows_with(self, change: str) -> list[CriterionComparison]:
        """The criteria with this change, largest drop first."""
        return sorted((row for row in self.rows if row.change == change), key=_drop, reverse=True)

    @property
    def compared_cases(self) -> int:
        return max(row.cases.compared for row in self.rows)

    @property
    def short_rows(self) -> list[CriterionComparison]:
        """The criteria without enough scores, the one with the most missing scores first."""
        rows = [row for row in self.rows if row.change is Change.NOT_MEASURED]
        rows += [row for row in self.rows_with(Change.REGRESSED) if row.lack is Lack.SCORES]
        return sorted(rows, key=lambda row: row.cases.unpaired, reverse=True)

    @property
    def undecided_row(self) -> CriterionComparison:
        """The inconclusive criterion with the largest drop; compared criteria first."""
        return max(
            self.rows_with(Change.INCONCLUSIVE),
            key=lambda row: (row.cases.compared > 0, _drop(row)),
        )

    @property
    def past_row(self) -> CriterionComparison:
        """The criterion with the largest drop against stored results."""
        return next(row for row in self.rows_with(Change.INCONCLUSIVE) if row.lack is Lack.PAST)

    @property
    def unscored_base_row(self) -> CriterionComparison:
        """A criterion that the base's own failures leave without scores."""
        return next(row for row in self.rows if row.lack is Lack.BASE_FAILED)

    @property
    def base_failures(self) -> tuple[int, AgentFailure | None]:
        """How many cases the base's agent failed in, and its first failure."""
        assert self.comparison.base is not None
        trials = [trial for trial in self.comparison.base.trials if trial.own_failure]
        return len({trial.key.case for trial in trials}), trials[0].failure if trials else None

    @property
    def lost_cases(self) -> int:
        """How many cases only the base's agent completes."""
        assert self.comparison.base is not None
        head, base = (
            {trial.key.case for trial in run.all_trials if not trial.failure}
            for run in (self.run, self.comparison.base)
        )
        return len({trial.key.case for trial in self.run.trials} & base - head)

    @property
    def case_counts(self) -> dict[str, int]:
        """How many deciding cases have which status."""
        cases = [case for case in self.comparison.cases if case.suite not in self.policy.advisory]
        counts = Counter(case.status for case in cases)
        return {status.value: counts[status] for status in CaseStatus}

    @property
    def token_counts(self) -> tuple[int, int | None, int]:
        """Tokens of head and of the base, and over how many runs."""
        assert self.comparison.base is not None
        return self.run.tokens_beside(self.comparison.base)

    @property
    def run_cases(self) -> int:
        return len({trial.key.case for trial in self.run.trials})


def _drop(row: CriterionComparison) -> float:
    """The drop in units of the tolerated drop."""
    return (row.drop or 0.0) / max(row.rule.floor, 1e-9)
