"""The platform's outcomes of the evaluations that it ran, alongside evalgate's outcomes for the
same conversations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from evalgate.model import Report, Run
from evalgate.reports import Renderer
from evalgate.text import markdown, plain
from evalgate.values import frozen_dataclass
from . import outcomes, results
from .outcomes import Check
from .shapes import EvaluationResult, Outcome

MOST = 50
"""The most differences in the list."""
_EVALUATION = "evaluations"
_ROWS = {
    outcomes.EXPECTATIONS: "calls, transfers, variables, literal answers",
    outcomes.SIMILARITY: "answers by meaning",
    outcomes.HALLUCINATION: "claims of a turn",
    outcomes.NAMED: "evaluation expectations",
    outcomes.GOAL: "goals of users",
}
_AGREE = ("both pass", "both fail")
_DIFFER = ("only CES passes", "only evalgate passes")
_OPEN = "undecided"
_COLUMNS = {
    (Outcome.PASS, Outcome.PASS): _AGREE[0],
    (Outcome.FAIL, Outcome.FAIL): _AGREE[1],
    (Outcome.PASS, Outcome.FAIL): _DIFFER[0],
    (Outcome.FAIL, Outcome.PASS): _DIFFER[1],
}


@frozen_dataclass
class OutcomePair:
    """The outcomes of the platform and of evalgate for one check. `row`, `column`: in the table;
    `where`: the trial, turn and subject; `reasons`: in the order of the sides."""

    row: str
    where: str
    column: str
    reasons: tuple[str, str] = ("", "")


def pairs(run: Run) -> Iterator[OutcomePair]:
    """The outcomes of one side, without evaluations that the platform did not finish."""
    for trial, transcript, measured in results.measured_trials(run):
        if transcript is None or transcript.platform is None:
            continue
        result = EvaluationResult.model_validate(transcript.platform)
        sides = (result.evaluation_status, measured.status or outcomes.UNKNOWN)
        column = _COLUMNS.get(sides, _OPEN)
        yield OutcomePair(
            row=_EVALUATION, where=str(trial.key), column=column, reasons=("", measured.reason)
        )
        parts = result.golden_result or result.scenario_result
        if parts is None or measured.result is None or not transcript.invocations:
            continue
        own_checks = _by_subject(outcomes.checks(measured.plan, measured.result))
        for key, check in _by_subject(outcomes.checks(measured.plan, parts)).items():
            if key in own_checks:
                own = own_checks[key]
                yield OutcomePair(
                    row=_ROWS[check.criterion],
                    where=f"{trial.key}, turn {check.turn or 'any'}: {check.subject}",
                    column=_COLUMNS.get((check.outcome, own.outcome), _OPEN),
                    reasons=(check.explanation, own.explanation),
                )


def _by_subject(checks: list[Check]) -> dict[tuple[str, int | None, str, int], Check]:
    """The checks by their subject; equal subjects get a number."""
    counts: Counter[tuple[str, int | None, str]] = Counter()
    by_subject = {}
    for check in checks:
        key = (check.criterion, check.turn, str(check.subject))
        by_subject[*key, counts[key]] = check
        counts[key] += 1
    return by_subject


def render(report: Report) -> str:
    """The table of outcomes and the list of differences; "" if the platform judged nothing."""
    base = report.base
    head_pairs = [("head", pair) for pair in pairs(report.run)]
    all_pairs = [*head_pairs, *(("base", pair) for pair in (pairs(base) if base else ()))]
    if not all_pairs:
        return ""
    columns = (*_AGREE, *_DIFFER, _OPEN)
    lines = ["", f"| CES and evalgate | {' | '.join(columns)} | agree |", "| --- |" + " ---: |" * 6]
    for row in (_EVALUATION, *_ROWS.values()):
        counts = Counter(pair.column for _, pair in all_pairs if pair.row == row)
        if counts:
            cells = [str(counts[column]) for column in columns]
            agreeing = sum(counts[column] for column in _AGREE)
            decided_count = counts.total() - counts[_OPEN]
            share = f"{agreeing / decided_count:.0%}" if decided_count else ""
            lines.append(f"| {' | '.join((row, *cells, share))} |")
    differing = [(side, pair) for side, pair in all_pairs if pair.column in _DIFFER]
    lines.append("")
    for side, pair in differing[:MOST]:
        reasons = [
            f"{who}: {plain.clip(plain.one_line(reason), 200)}"
            for who, reason in zip(("CES", "evalgate"), pair.reasons, strict=True)
            if reason
        ]
        where = markdown.code(plain.clip(plain.one_line(pair.where), 200))
        lines.append(f"- {side} {where}: {markdown.prose('. '.join([pair.column, *reasons]))}")
    if len(differing) > MOST:
        lines.append(f"- and {len(differing) - MOST} more")
    return "\n".join(lines).rstrip() + "\n"


RENDERER = Renderer(
    name="ces-agreement",
    file_name="ces-agreement.md",
    summary="outcomes of CES's platform beside evalgate's, of evaluations that it ran",
    render=render,
)
RENDERERS = (results.RENDERER, RENDERER)
