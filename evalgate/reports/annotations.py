"""Remarks beside lines of files, the commands of a workflow that show them, and outputs for later
steps."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from evalgate.errors import Problem, Severity
from evalgate.model import Edits, Links, Report, VerdictKind, run as model_run
from evalgate.results.labels import CaseLabel
from evalgate.text import plain, workflow_commands
from evalgate.values import frozen_dataclass, grouped
from . import cases as reports_cases, edits, view, wording
from .cases import CaseView
from .phrases import phrase

REASON_LIMIT = 1_000
"""Characters of a reason in an output."""
MESSAGE_LIMIT = 1_000
"""Characters of a message; the log of the job has all of it."""
TITLE_LIMIT = 120
"""Characters of a name in a title."""
NAMES = 1_000
"""Criteria in an output; results may have any number of them."""
NAME_LIMIT = 100
"""GitHub takes 1 MB of outputs in all."""
PER_LEVEL = 10
"""GitHub shows ten errors, ten warnings and ten notices of one step."""


@frozen_dataclass
class Remark:
    """A message for a line of a file."""

    level: Severity
    file: str
    """As the repository names it."""
    line: int | None
    """From 1; None if it is unknown."""
    title: str
    """One line, shown above the message."""
    message: str
    """Several lines, limited in length."""


def remarks(report: Report) -> tuple[Remark, ...]:
    """Errors for failing cases, worst first; then warnings for unmeasured, pre-existing and
    non-blocking cases, and for relaxed rules whose line is known."""
    case_views = view.view_of(report).cases
    failing_cases = reports_cases.worst_first([case for case in case_views if _has_failed(case)])
    unmeasured_cases = [
        case
        for case in case_views
        if case.kind is not VerdictKind.PASS and not _has_failed(case) and not case.skipped
    ]
    case_remarks = [
        _case_remark(case, report.display.links) for case in (*unmeasured_cases, *failing_cases)
    ]
    rule_remarks = [
        Remark(
            level=Severity.WARNING,
            file=report.display.links.place(edit.place.file),
            line=edit.place.line,
            title=phrase("relaxed_title"),
            message=plain.clip(edits.sentence(Edits(edits=(edit,))), MESSAGE_LIMIT),
        )
        for edit in report.edits.rules()
        if report.is_relaxed and edit.place is not None
    ]
    return (
        *sorted(case_remarks, key=lambda remark: remark.level is not Severity.ERROR),
        *rule_remarks,
    )


def _has_failed(case: CaseView) -> bool:
    """True if a criterion of the case fails, not its agent."""
    return case.kind is VerdictKind.FAIL and not case.agent_failed


def _case_remark(case: CaseView, links: Links) -> Remark:
    """The remark on a case that does not pass: its missed criteria, or why it was not measured."""
    is_warning = case.label is CaseLabel.PRE_EXISTING or case.allowed is not None
    lines = [
        *case.misses(lambda name: plain.label(name, TITLE_LIMIT)),
        case.failure_origin,
    ]
    if not case.failing:
        lines = [case.unmeasured_reason, case.output]
    return Remark(
        level=Severity.WARNING if is_warning or not _has_failed(case) else Severity.ERROR,
        file=links.place(case.place.file),
        line=case.place.line,
        title=phrase("remark_title", case.word, plain.label(case.case_id, TITLE_LIMIT)),
        message=plain.clip("\n".join(line for line in lines if line), MESSAGE_LIMIT),
    )


def render(report: Report) -> tuple[str, ...]:
    """Workflow commands, one line each, worst first, cases before problems. One notice counts what
    exceeds GitHub's limits. Empty if there is nothing to report.

    A part reports only errors; the merge reports everything else once."""
    is_part = report.run.is_part
    line_remarks = () if is_part else remarks(report)
    problems = [
        problem.below(report.display.links.folder)
        for problem in report.problems
        if problem.severity is Severity.ERROR or not is_part
    ]
    unscored = "" if is_part else view.view_of(report).unscored
    # one notice is reserved for the counts
    limits = {
        Severity.ERROR: PER_LEVEL,
        Severity.WARNING: PER_LEVEL - bool(unscored),
        Severity.NOTE: PER_LEVEL - 1,
    }
    kinds = [_kind(line_remarks, problems, severity, limit) for severity, limit in limits.items()]
    # GitHub hides the others: cases and rules are in the reports, everything else is in the log
    overflow = phrase("annotations_left", *kinds)
    commands = [line for lines, _, _ in kinds for line in lines]
    if unscored:
        commands.insert(0, workflow_commands.render_command("warning", unscored, title="evalgate"))
    if overflow:
        commands.append(workflow_commands.render_command("notice", overflow, title="evalgate"))
    return tuple(commands)


def _kind(
    remarks: Sequence[Remark], problems: Sequence[Problem], severity: Severity, limit: int
) -> tuple[Sequence[str], int, int]:
    """The lines of one kind, and how many cases and problems are not among them."""
    case_commands = [
        workflow_commands.render_command(
            severity.value,
            remark.message,
            file=remark.file,
            line=remark.line,
            title=remark.title,
        )
        for remark in remarks
        if remark.level is severity
    ]
    problem_commands = [
        workflow_commands.render_problem(problem, limit=MESSAGE_LIMIT)  # the log has all of it
        for problem in problems
        if problem.severity is severity
    ]
    room = max(0, limit - len(case_commands))
    return (
        [*case_commands[:limit], *problem_commands[:room]],
        max(0, len(case_commands) - limit),
        max(0, len(problem_commands) - room),
    )


def render_outputs(report: Report) -> Mapping[str, str]:
    """Output values by name, as in action.yml. `scores`: the mean of each criterion over all cases
    that have a value, null without any; `delta`: head's mean minus base's, `{}` without a
    comparison; both are JSON objects. `evidence`: the worth of bets that head is worse, from 1.
    `relaxed`: the relaxed rules that alone let the change pass. `judge-cost-usd` is empty if the
    price of any call is unknown."""
    totals = view.view_of(report).counts
    counts = ((label.value, totals[label]) for label in wording.COUNTED)
    rows = report.compared.criteria[:NAMES]
    deltas = dict[str, float | None]()
    for row in rows:  # a criterion's first row is that of the cases that decide
        deltas.setdefault(plain.label(row.name, NAME_LIMIT), row.delta)
    values_by_name = grouped(
        (plain.label(verdict.name, NAME_LIMIT), verdict.value)
        for case in report.verdict.cases
        for verdict in case.criteria
    )
    means: dict[str, float | None] = {}
    for name, values in list(values_by_name.items())[:NAMES]:
        known_values = [value for value in values if value is not None and math.isfinite(value)]
        means[name] = fmean(known_values) if known_values else None
    judge_totals = model_run.total_of(report.run.judges)
    relaxed_rules = edits.rules(report.edits) if report.is_relaxed else ""
    cost = f"{judge_totals.cost_usd or 0.0:.6f}".rstrip("0").rstrip(".")
    return {
        "verdict": report.verdict.kind.value,
        "reason": plain.one_line(plain.clip(str(report.verdict.reason), REASON_LIMIT)),
        **{label.replace("_", "-"): str(number) for label, number in counts},
        "total": str(totals["total"]),
        "scores": json.dumps(means, separators=(",", ":")),
        "delta": json.dumps(deltas, separators=(",", ":")),
        "relaxed": plain.one_line(plain.clip(relaxed_rules, REASON_LIMIT)),
        "evidence": "" if report.verdict.book is None else f"{report.verdict.book.worse:.4g}",
        "judge-calls": str(judge_totals.calls),
        "judge-cost-usd": "" if judge_totals.unpriced else cost,
    }
