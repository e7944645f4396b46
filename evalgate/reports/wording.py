"""Words that several reports share: the verdict, the next step, why a case could not be
evaluated."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from evalgate.model import (
    CaseStatus,
    CaseVerdict,
    Change,
    FailureOrigin,
    GateKind,
    Lack,
    Reason,
    Report,
    Score,
    ThresholdRule,
    VerdictKind,
)
from evalgate.results import labels
from evalgate.results.labels import CaseLabel
from evalgate.text import plain, words
from . import cases as reports_cases, edits
from .cases import CaseView
from .phrases import phrase

REASON_LIMIT = 600
CAUSE_LIMIT = 320
COMMAND_LIMIT = 4_000
LOOK_LIMIT = 300
Placement: TypeAlias = Literal["above", "below"]
SHA_WIDTH = 12
NAME_WIDTH = 80
HEX = frozenset("0123456789abcdef")
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
LABELS = frozenset(CaseLabel)


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


UNSCORED = frozenset(
    {
        Reason.JUDGE_UNAVAILABLE,
        Reason.JUDGE_NOT_RECORDED,
        Reason.JUDGE_UNREADABLE,
        Reason.CREDENTIALS_MISSING,
        Reason.CRITERION_FAILED,
    }
)
"""Reasons for which a criterion lacks a score that it should have."""


def passed_unscored(report: Report) -> str:
    """A sentence on cases that pass, as in ADK, although a criterion has no score or a partial one,
    and the reason of the first; "" without any."""
    passed_cases = {
        case.key: case for case in report.verdict.cases if case.kind is VerdictKind.PASS
    }
    unscored_gaps = [
        (key, verdict.name, reports_cases.unmeasured_sentence(verdict))
        for key, case in passed_cases.items()
        for verdict in case.criteria
        if verdict.kind is VerdictKind.NOT_MEASURED and verdict.reason in UNSCORED
    ]
    partial_gaps = [
        (trial.key.case, name, plain.bounded(grade.lacking, reports_cases.WHY_LIMIT))
        for trial in report.run.trials
        for name, grade in trial.grades.items()
        if isinstance(grade, Score) and grade.lacking and trial.key.case in passed_cases
    ]
    return " ".join(
        phrase(
            "passed_unscored",
            len({key for key, _, _ in gaps}),
            len(passed_cases),
            gaps is partial_gaps,
            words.listed(
                dict.fromkeys(f"`{plain.label(name, NAME_WIDTH)}`" for _, name, _ in gaps), limit=3
            ),
            plain.keep_advice(gaps[0][2], CAUSE_LIMIT).rstrip("."),
        )
        for gaps in (unscored_gaps, partial_gaps)
        if gaps
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


def _fail_step(report: Report, placement: Placement) -> str:
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
