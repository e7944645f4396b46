"""The verdict in words: its reasons, the counts, the next step and the next commands."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

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
    Report,
    Run,
    SuiteVerdict,
    ThresholdRule,
    Verdict,
    VerdictKind,
)
from evalgate.results import labels
from evalgate.results.labels import CaseLabel
from evalgate.text import plain, words
from . import cases as reports_cases, edits
from .cases import CaseView
from .phrases import phrase

REASON_LIMIT = 600
"""Characters of a gate's reason."""
COMMAND_LIMIT = 4_000
"""Characters: longer commands are shown as they were given."""
LOOK_LIMIT = 300
"""Characters of a command that is worth a line."""
Placement: TypeAlias = Literal["above", "below"]
"""Where the cases are, seen from a sentence about them."""
SHA_WIDTH = 12
"""Digits of a commit in a command."""
NAME_WIDTH = 80
HEX = frozenset("0123456789abcdef")
"""Digits of a commit: any other text is no commit, and in no command."""
COUNTED = (
    CaseLabel.PASSED,
    CaseLabel.FAILED,
    CaseLabel.FLAKY,
    CaseLabel.LISTED,
    CaseLabel.INCONCLUSIVE,
    CaseLabel.NOT_MEASURED,
)
"""The counts that add up to all cases."""
ALWAYS_COUNTED = (CaseLabel.PASSED, CaseLabel.FAILED, CaseLabel.NOT_MEASURED)
"""Counted even if there are none."""


def counts(cases: Mapping[str, int]) -> tuple[tuple[str, int, str], ...]:
    """Rows of word, number of cases and details; the numbers add up to all cases. Rare words
    without cases are left out."""
    parts = {CaseLabel.PASSED: (CaseLabel.FIXED,), CaseLabel.FAILED: labels.FAILURES[:-1]}
    rows: list[tuple[str, int, str]] = []
    for label in COUNTED:
        count = cases[label]
        if count or label in ALWAYS_COUNTED:
            details = ", ".join(
                phrase("label_count", part, cases[part])
                for part in parts.get(label, ())
                if cases[part]
            )
            rows.append((phrase("label_word", label), count, details))
    return tuple(rows)


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
    suites = [suite for suite in verdict.suites if not suite.advisory]
    if verdict.suites and not suites:
        is_severity = all(suite.suite in policy.advisory for suite in verdict.suites)
        has_listed = any(case.listing for case in verdict.cases)
        return phrase("nonblocking_run", is_severity or not has_listed)
    kind = gate.blocked_by or gate.kind
    view = _Threshold(verdict, suites, run, kind)
    # the reason of the first suite whose criteria all lack a threshold
    compared_keys = {
        suite.key
        for suite in run.suites
        if any(use.is_compared for use in suite.criteria)
        and all(use.informational or use.is_compared for use in suite.criteria)
    }
    reasons = (
        str(suite.reason)
        for suite in suites
        if suite.suite in compared_keys
        and suite.reason
        and all(case.kind is VerdictKind.PASS for case in suite.cases)
    )
    note = next((f"{reason.rstrip('.')}." for reason in reasons), "")
    match kind:
        case VerdictKind.PASS:
            sentence = phrase("threshold_pass", view)
            return f"{sentence} {note}" if note else sentence
        case VerdictKind.FAIL:
            return phrase("threshold_fail", view)
        case VerdictKind.NOT_MEASURED if note and view.passed == len(view.cases):
            return note
        case VerdictKind.NOT_MEASURED:
            partial_count = sum(
                gate.kind is VerdictKind.FAIL and case.partial and not case.exemption
                for case in view.cases
            )
            suspect_count = sum(case.key in verdict.open for case in view.failed)
            return phrase(
                "threshold_not_measured", view, partial_count, suspect_count, run.truncated
            )
        case VerdictKind.INCONCLUSIVE:
            is_reported = view.failed and (view.origins or gate.kind is not kind)
            return phrase("threshold_inconclusive", view, is_reported, run.truncated)


class _Threshold:
    """The values for the sentences of the threshold gate: the deciding cases by their outcome, and
    the names of the `suites` with this kind."""

    def __init__(
        self, verdict: Verdict, suites: Sequence[SuiteVerdict], run: Run, kind: VerdictKind
    ) -> None:
        """`suites`: those that decide. `kind`: that of the sentence."""
        has_listed = any(case.listing for case in verdict.cases)
        cases = [case for suite in suites for case in suite.cases if not case.listing]
        self.cases = cases
        """Of the deciding suites, without listed ones."""
        self.noun = phrase("deciding_case", has_listed or len(suites) < len(verdict.suites))
        """The word for them, another one if there are cases that do not decide."""
        self.passed = sum(case.kind is VerdictKind.PASS for case in cases)
        self.flaky = sum(case.is_flaky for case in cases)
        self.failed = [
            case for case in cases if case.kind is VerdictKind.FAIL and not case.is_flaky
        ]
        self.unmeasured = sum(
            case.kind is VerdictKind.NOT_MEASURED and case.exemption is None for case in cases
        )
        """Their number, without those that reruns or the list excuse."""
        self.doubtful = sum(case.doubtful for case in cases)
        # empty without a base
        counts = Counter(
            verdict.origins[case.key] for case in self.failed if case.key in verdict.origins
        )
        self.origins = words.listed(
            phrase("label_count", labels.OF_ORIGIN[origin], counts[origin])
            for origin in FailureOrigin
            if counts[origin]
        )
        """The failures by origin, in words; empty without a base."""
        self.suites = [
            suite.suite
            for suite in suites
            if suite.cases and kind in (suite.kind, *suite.lesser_kinds)
        ]
        """The names of those with this kind."""
        broken_keys = {suite.key for suite in run.suites if suite.problem}
        self.broken = [suite for suite in suites if suite.suite in broken_keys]
        """Those whose file could not be measured."""

    def share(self, count: int) -> str:
        """`2 of 3 cases`."""
        return words.share_of(count, len(self.cases), self.noun)


class _Regression:
    """The values for the sentences of the regression gate."""

    def __init__(self, run: Run, comparison: Comparison, policy: Policy) -> None:
        self.run = run
        self.comparison = comparison
        self.policy = policy
        self.rows = [row for row in comparison.criteria if row.rule.gating]
        """The deciding criteria."""
        self.truncated = run.truncated or (comparison.base.truncated if comparison.base else "")
        """The budget that ended a side's run, in words; "" if none did."""
        self.problem = str(comparison.problem or phrase("no_base_results")).rstrip(".")
        """Why there are no results of the base, without a full stop."""

    def rows_with(self, change: str) -> list[CriterionComparison]:
        """The criteria with this change, largest drop first."""
        return sorted(
            (row for row in self.rows if row.change == change),
            key=lambda row: reports_cases.relative_drop(row, row.drop),
            reverse=True,
        )

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
            key=lambda row: (row.cases.compared > 0, reports_cases.relative_drop(row, row.drop)),
        )

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


def headline(report: Report) -> str:
    """The verdict in two or three words. It shows a failure that does not block, and a pass that
    only relaxed rules allow."""
    verdict = report.verdict
    is_shown = not verdict.blocks and verdict.kind is not VerdictKind.PASS
    return phrase("headline", verdict.kind, report.is_relaxed, is_shown, report.lacks_files)


def answers(report: Report) -> tuple[tuple[str, VerdictKind | None, str], ...]:
    """The gates' answers if there are two, the blocking one first; () for one gate, whose answer is
    the verdict's reason. Each has the question, the kind (None: it passes because there was nothing
    to compare), and the reason on one line."""
    gates = report.verdict.gates
    if len(gates) < 2:
        return ()
    return tuple(
        (
            phrase("question", gate.gate),
            None if gate.gate is GateKind.REGRESSION and report.compared.no_agent else gate.kind,
            plain.bounded(gate.reason, REASON_LIMIT),
        )
        for gate in sorted(gates, key=lambda gate: not gate.blocks)
    )


def next_step(report: Report, *, placement: Placement = "below") -> str:
    """What the reader can do about the verdict, names between backticks; "" for a clean pass.
    `placement`: the position of the cases, seen from this sentence."""
    if report.lacks_files:
        return phrase("step_unwritten")
    if report.is_relaxed:
        return phrase("relaxed_hint")
    match report.verdict.blocked_by or report.verdict.kind:
        case VerdictKind.PASS:
            return _pass_step(report, placement)
        case VerdictKind.FAIL:
            return _fail_step(report, placement)
        case VerdictKind.INCONCLUSIVE:
            return _inconclusive_step(report, placement)
        case VerdictKind.NOT_MEASURED:
            return _not_measured_step(report, placement)


DRIFT = "provider-drift"
"""The code of the warning about a drift, see `Drift`."""
NOTICE_NAMES = 5
"""How many cases a notice names."""


def notices(report: Report, cases: Sequence[CaseView]) -> Iterator[tuple[str, str]]:
    """Messages for every reader, beside the verdict, each with a title: of a provider's change, and
    of listed cases and their results. Names are between backticks."""
    for problem in report.problems:
        if problem.code == DRIFT:
            yield phrase("drift_title"), f"{problem.message}. {problem.hint}"
    listed_cases = [
        (case, case.verdict.listing) for case in cases if case.verdict.listing is not None
    ]
    if listed_cases:
        names = (
            phrase(
                "listed_case",
                plain.quoted(case.case_id),
                case.kind,
                plain.quoted(exemption.owner),
                exemption.expires,
            )
            for case, exemption in listed_cases
        )
        title = phrase("listed_title", len(listed_cases))
        yield title, f"{words.listed(names, limit=NOTICE_NAMES)}."
    messages = [problem.message for problem in report.problems if problem.code in labels.LIST_CODES]
    if messages:
        text = phrase("list_problems", messages[:NOTICE_NAMES], len(messages) - NOTICE_NAMES)
        yield phrase("list_title"), text


def _inconclusive_step(report: Report, placement: Placement) -> str:
    """The next step if the data cannot decide; "" if the base's own failures do not block."""
    if report.run.truncated:
        return phrase("step_cut_short")
    comparison = report.compared
    # the base's own failures leave nothing, or too little, to compare with
    if comparison.base_failed or any(row.lack is Lack.BASE_FAILED for row in comparison.criteria):
        return phrase("step_failed_base") if report.verdict.blocks else ""
    failures = _failures(report)
    are_flaky = all(case.is_flaky for case in failures)
    if failures and are_flaky and not report.verdict.blocks:
        return phrase("step_flaky", placement)
    return phrase("step_past" if comparison.is_past else "step_unscored")


def _failures(report: Report) -> list[CaseVerdict]:
    """The cases that failed, or crashed by accident."""
    return [case for case in report.verdict.cases if case.kind is VerdictKind.FAIL or case.is_flaky]


def _pass_step(report: Report, placement: Placement) -> str:
    """The next step after a pass with failures; "" for a clean one."""
    failures = _failures(report)
    if not failures:
        return phrase("step_no_baseline") if report.compared.no_agent else ""
    deciding_failures = [case for case in failures if report.policy.blocks(case.key)]
    confirmed_keys = {case.key for case in deciding_failures if not case.is_flaky}
    if not deciding_failures:
        return phrase("step_nonblocking_failures", placement)
    if not confirmed_keys:
        return phrase("step_flaky", placement)
    # the base is known to have these failures, or chance alone made them
    old_keys = {
        case.key
        for case in report.compared.cases
        if case.status is CaseStatus.PAIRED and case.origin in OLD_ORIGINS
    }
    is_old = report.policy.threshold is ThresholdRule.NEW and confirmed_keys <= old_keys
    return phrase("step_allowed", len(failures) > len(confirmed_keys), placement, is_old)


OLD_ORIGINS = frozenset({FailureOrigin.KNOWN, FailureOrigin.MIXED, FailureOrigin.FLAKY})
"""Failures that the base has too, or that chance made."""


def _fail_step(report: Report, placement: Placement) -> str:
    """The next step after a failure, by what caused it."""
    comparison = report.compared
    if report.edits.decide and not report.edits.by_base:
        return phrase("step_stricter", edits.rules(report.edits, mark=plain.quoted))
    if comparison.is_untouched(report.run):
        failed_keys = {case.key for case in report.verdict.cases if case.kind is VerdictKind.FAIL}
        is_edited = not failed_keys.isdisjoint(comparison.edited)
        return phrase("step_edited_cases" if is_edited else "step_untouched")
    kinds = {gate.gate: gate.kind for gate in report.verdict.gates}
    threshold = kinds.get(GateKind.THRESHOLD)
    if threshold is not VerdictKind.FAIL:
        has_fallen = any(row.change is Change.REGRESSED for row in comparison.criteria)
        is_unmeasured = threshold is VerdictKind.NOT_MEASURED
        return phrase("step_regression", has_fallen, is_unmeasured, placement)
    origins = {case.origin for case in comparison.cases if case.origin}
    if kinds.get(GateKind.REGRESSION) is VerdictKind.PASS and origins == {FailureOrigin.KNOWN}:
        return phrase("step_pre_existing")
    if FailureOrigin.NEW not in origins and any(
        problem.code == DRIFT for problem in report.problems
    ):
        return phrase("step_drift")
    return phrase("step_fail", origins >= {FailureOrigin.NEW, FailureOrigin.KNOWN})


def _not_measured_step(report: Report, placement: Placement) -> str:
    """The next step if something could not be evaluated: the most specific one."""
    suites = report.verdict.suites
    if suites and all(suite.advisory for suite in suites) and not report.verdict.blocks:
        if any(case.listing for case in report.verdict.cases):
            return phrase("step_all_listed")
        return phrase("step_advisory", placement)
    is_unmeasured = any(
        gate.gate is GateKind.THRESHOLD and VerdictKind.NOT_MEASURED in (gate.kind, gate.blocked_by)
        for gate in report.verdict.gates
    )
    is_whole = all(case.kind is not VerdictKind.NOT_MEASURED for case in report.verdict.cases)
    if report.run.truncated and (is_whole or (report.compared.problem and not is_unmeasured)):
        return phrase("step_cut_short")
    if suites and is_whole and report.comparison is None:
        return phrase("step_no_base")
    if is_unmeasured or report.comparison is None:
        return phrase("step_errors", placement)
    return phrase("step_base_problem" if report.compared.problem else "step_not_measured")


def reproduce(report: Report) -> str:
    """The command that shows the same locally: if there is a base, with the very commit that was
    compared with. "" if no command is known. A command that cannot be split into words is returned
    as it is."""
    command = report.display.reproduce.strip()
    base = report.compared.origin.commit
    is_commit = len(base) >= SHA_WIDTH and set(base) <= HEX
    if not command.startswith("evalgate run") or len(command) > COMMAND_LIMIT or not is_commit:
        return command
    try:
        command_words = shlex.split(command)
    except ValueError:
        return command
    arguments = [
        word
        for previous_word, word in zip(["", *command_words], command_words, strict=False)
        if "--base" not in (previous_word, word) and not word.startswith("--base=")
    ]
    return shlex.join([*arguments, "--base", base[:SHA_WIDTH]])


SAFE_NAME = re.compile(r"[\w.][\w.:/-]{0,79}")
"""Case ids that a shell command may contain unquoted; others are not named."""


def commands(
    report: Report, cases: Sequence[CaseView], *, is_local: bool = False
) -> tuple[tuple[str, str], ...]:
    """The next commands, each with its purpose; () if every case passed. `is_local`: the results
    are on this machine."""
    broken_cases = [case for case in cases if case.kind is not VerdictKind.PASS]
    if not broken_cases:
        return ()
    failed_cases = reports_cases.worst_first(
        [case for case in broken_cases if case.group == "fail"]
    )
    # `accept` could replace what a turn of these expects
    wrong_ids = [
        case.case_id
        for case in failed_cases
        if not case.agent_failed
        and (
            not case.eval_case.conversation
            or any(
                turn.final_response is not None or turn.events is not None
                for turn in case.eval_case.conversation
            )
        )
    ]
    ids = [case.case_id for case in (*failed_cases, *broken_cases)]
    look_command = reproduce(report)
    if is_local:
        name = next(filter(SAFE_NAME.fullmatch, ids), "")
        look_command = f"evalgate show {name}".rstrip()
    rows = [("evalgate run --failed", phrase("purpose_rerun"))]
    if 0 < len(look_command) <= LOOK_LIMIT:
        rows.insert(0, (look_command, phrase("purpose_look", is_local)))
    if wrong_ids:
        wrong_name = wrong_ids[0] if SAFE_NAME.fullmatch(wrong_ids[0]) else "--failed"
        rows.append((f"evalgate accept {wrong_name}", phrase("purpose_accept")))
    return tuple(rows)
