"""What a workflow hears: commands that put what is wrong beside the line of its file, and outputs
for later steps."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from evalgate.errors import Problem, Severity
from evalgate.model import Report, run as model_run
from evalgate.reports import edits, view, wording
from evalgate.reports.view import Remark
from evalgate.text import plain, workflow_commands
from evalgate.text.phrases import phrase
from evalgate.values import frozen_dataclass

REASON_LIMIT = 1_000
NAMES = 1_000
NAME_LIMIT = 100
"""GitHub takes 1 MB of outputs in all."""
PER_LEVEL = 10
"""GitHub shows ten errors, ten warnings and ten notices of one step."""


def render(report: Report) -> tuple[str, ...]:
    """Workflow commands, each one line, worst first, the cases before the report's problems; one
    notice counts what is more than GitHub shows. Empty where every case passed and nothing else is
    to be said.

    A part of a run tells its errors alone: what joins the parts tells the rest, once.
    """
    is_part = report.run.shard is not None
    remarks = () if is_part else view.remarks(report)
    problems = [
        problem.below(report.links.folder)
        for problem in report.problems
        if problem.severity is Severity.ERROR or not is_part
    ]
    unscored = "" if is_part else wording.passed_unscored(report)
    kinds = [
        _Kind.of(remarks, problems, severity=Severity.ERROR, limit=PER_LEVEL),
        _Kind.of(remarks, problems, severity=Severity.WARNING, limit=PER_LEVEL - bool(unscored)),
        # the last notice counts the rest
        _Kind.of(remarks, problems, severity=Severity.NOTE, limit=PER_LEVEL - 1),
    ]
    first = (
        [workflow_commands.render_command("warning", unscored, title="evalgate")]
        if unscored
        else []
    )
    return (*first, *(line for kind in kinds for line in kind.lines), *_overflow_notices(*kinds))


@frozen_dataclass
class _Kind:
    """The lines of one kind, and how many cases and problems are not among them."""

    lines: tuple[str, ...]
    cases_left: int
    problems_left: int

    @classmethod
    def of(
        cls,
        remarks: Sequence[Remark],
        problems: Sequence[Problem],
        *,
        severity: Severity,
        limit: int,
    ) -> _Kind:
        of_cases = [
            workflow_commands.render_command(
                remark.level.value,
                remark.message,
                file=remark.file,
                line=remark.line,
                title=remark.title,
            )
            for remark in remarks
            if remark.level is severity
        ]
        of_problems = [
            workflow_commands.render_problem(_short(problem))
            for problem in problems
            if problem.severity is severity
        ]
        room = max(0, limit - len(of_cases))
        return cls(
            lines=(*of_cases[:limit], *of_problems[:room]),
            cases_left=max(0, len(of_cases) - limit),
            problems_left=max(0, len(of_problems) - room),
        )


def _short(problem: Problem) -> Problem:
    """Clip a problem to the limit of cases; the log has it all."""
    message, hint = (
        plain.keep_advice(text, view.MESSAGE_LIMIT) for text in (problem.message, problem.hint)
    )
    return replace(problem, message=message, hint=hint)


def _overflow_notices(errors: _Kind, warnings: _Kind, notices: _Kind) -> list[str]:
    """A notice of what GitHub hides: cases and rules are in the reports, everything else in the
    log."""
    message = phrase("annotations_left", errors, warnings, notices)
    return (
        [workflow_commands.render_command("notice", message, title="evalgate")] if message else []
    )


def _relaxed(report: Report) -> str:
    is_relaxed = report.edits.decide and not report.verdict.blocks
    return edits.rules(report.edits) if is_relaxed else ""


def render_outputs(report: Report) -> Mapping[str, str]:
    """Name to value, as action.yml lists them. `scores`: the mean of each criterion over all cases
    that have a value, null without any; `delta`: head's mean minus base's, `{}` without a
    comparison; both JSON objects. `evidence`: what bets that head is worse made of 1. `relaxed`:
    the changed rules that alone let the change pass. `judge-cost-usd` is empty if the price of any
    call is unknown."""
    counts = view.of(report).totals.cases
    rows = report.comparison.criteria if report.comparison is not None else ()
    deltas = {plain.label(row.name, NAME_LIMIT): row.delta for row in rows[:NAMES]}
    judging = model_run.total_of(report.run.judges)
    cost = f"{judging.cost_usd or 0.0:.6f}".rstrip("0").rstrip(".")
    return {
        "verdict": report.verdict.kind.value,
        "reason": plain.one_line(plain.clip(report.verdict.reason, REASON_LIMIT)),
        "passed": str(counts.passed),
        "failed": str(counts.failed),
        "flaky": str(counts.flaky),
        "quarantined": str(counts.quarantined),
        "inconclusive": str(counts.inconclusive),
        "not-measured": str(counts.not_measured),
        "total": str(counts.total),
        "scores": _scores(report),
        "delta": json.dumps(deltas, separators=(",", ":")),
        "relaxed": plain.one_line(plain.clip(_relaxed(report), REASON_LIMIT)),
        "evidence": "" if report.verdict.book is None else f"{report.verdict.book.worse:.4g}",
        "judge-calls": str(judging.calls),
        "judge-cost-usd": "" if judging.unpriced else cost,
    }


def _scores(report: Report) -> str:
    values_by_name: defaultdict[str, list[float]] = defaultdict(list)
    for verdict in (verdict for case in report.verdict.cases for verdict in case.criteria):
        scores = (
            [verdict.value] if verdict.value is not None and math.isfinite(verdict.value) else []
        )
        values_by_name[plain.label(verdict.name, NAME_LIMIT)] += scores
    means = {
        name: fmean(values) if values else None
        for name, values in list(values_by_name.items())[:NAMES]
    }
    return json.dumps(means, separators=(",", ":"))
