"""findings.sarif: unsafe answers and hallucinations as code-scanning alerts, at the case's line in
its file."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from evalgate.model import CriterionVerdict, Finding, Report, Score, VerdictKind
from evalgate.reports import view
from evalgate.reports.cases import CaseView
from evalgate.reports.phrases import phrase
from evalgate.text import plain, words
from evalgate.values import JsonObject, frozen_dataclass

LIMIT = 5_000
"""GitHub's limit of results per file."""

SUBJECT_LIMIT = 300
REASON_LIMIT = 500
NAMED = 5


RULES: Final = ("safety_v1", "hallucinations_v1")


@frozen_dataclass
class Alert:
    """The findings of one criterion against one turn of a case (None: the whole conversation), over
    all its runs. `failed`: the case is below the criterion's threshold."""

    case: CaseView
    verdict: CriterionVerdict
    turn: int | None
    failed: bool
    findings: tuple[Finding, ...]


def render(report: Report) -> str:
    """A SARIF 2.1.0 log with one result per criterion, case and turn: `error` if the case fails the
    criterion, `note` if it passes all the same.

    A result is identified by criterion, file, case and turn, whatever the agent's words and the
    line are this time. Source: OASIS SARIF 2.1.0; GitHub's subset and limits."""
    pairs = (
        (case, verdict) for case in view.view_of(report).cases for verdict in case.verdict.criteria
    )
    rule_alerts = (
        alert
        for case, verdict in pairs
        if verdict.name in RULES
        for alert in _alerts(case, verdict)
    )
    alerts = sorted(rule_alerts, key=lambda alert: not alert.failed)
    used_names = {use.name for suite in report.run.suites for use in suite.criteria}
    run: JsonObject = {
        "tool": {
            "driver": {
                "name": "evalgate",
                "rules": [_rule(name) for name in RULES if name in used_names],
            }
        },
        "invocations": [_invocation(report, left_out=max(len(alerts) - LIMIT, 0))],
        "originalUriBaseIds": {
            "%SRCROOT%": {"description": {"text": "The root of the repository."}}
        },
        "results": [_result(alert, report) for alert in alerts[:LIMIT]],
    }
    if report.version:
        run["tool"]["driver"]["version"] = report.version
    if report.links.repository and report.links.commit:
        provenance = {"repositoryUri": report.links.repository, "revisionId": report.links.commit}
        run["versionControlProvenance"] = [{**provenance, "mappedTo": {"uriBaseId": "%SRCROOT%"}}]
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(log, indent=1, ensure_ascii=False) + "\n"


def _alerts(case: CaseView, verdict: CriterionVerdict) -> Iterator[Alert]:
    has_failed = verdict.kind is VerdictKind.FAIL
    findings_by_turn: defaultdict[int | None, list[Finding]] = defaultdict(list)
    for trial in case.trials:
        grade = trial.grades.get(verdict.name)
        for finding in grade.findings if grade is not None else ():
            if finding.score is not None and finding.score < 1.0:
                findings_by_turn[finding.turn].append(finding)
        for number, turn_score in enumerate(
            grade.turns if isinstance(grade, Score) else (), start=1
        ):
            # a service that gives numbers alone has no findings
            if turn_score is not None and turn_score < 1.0:
                findings_by_turn[number] += []
    if has_failed and not findings_by_turn:
        findings_by_turn[None] = []
    for turn in sorted(findings_by_turn, key=lambda turn: turn or 0):
        yield Alert(
            case=case,
            verdict=verdict,
            turn=turn,
            failed=has_failed,
            findings=tuple(findings_by_turn[turn]),
        )


def _result(alert: Alert, report: Report) -> JsonObject:
    uri = quote(report.links.place(alert.case.file).lstrip("/"), safe="/")
    identity = [alert.verdict.name, alert.case.verdict.suite, alert.case.case_id, alert.turn]
    fingerprint = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
    return {
        "ruleId": alert.verdict.name,
        "level": "error" if alert.failed else "note",
        "message": {"text": _message(alert)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": uri or ".", "uriBaseId": "%SRCROOT%"},
                    "region": {"startLine": max(alert.case.line or 1, 1)},
                }
            }
        ],
        # GitHub identifies alerts by this key alone; it ends in a counter of equal ones
        "partialFingerprints": {"primaryLocationLineHash": f"{fingerprint}:1"},
    }


def _message(alert: Alert) -> str:
    """Plain text, one line per finding, without anything that SARIF reads as a link or a
    placeholder."""
    verdict = alert.verdict
    score = words.score_and_limit(verdict.value, verdict.threshold, met=not alert.failed)
    lines = [phrase("alert", plain.label(alert.case.case_id, 120), alert.turn, verdict.name, score)]
    distinct = {(finding.subject, finding.text): finding for finding in alert.findings}
    lines += [_line(finding, verdict.name) for finding in list(distinct.values())[:NAMED]]
    if len(distinct) > NAMED:
        lines.append(phrase("more_findings", len(distinct) - NAMED))
    text = re.sub(r"([\\\[\]])", r"\\\1", "\n".join(lines))
    return re.sub(r"\{(\d+)\}", r"{{\1}}", text)


def _line(finding: Finding, criterion: str) -> str:
    label = plain.label(finding.label, 60) if finding.label else phrase("finding_label", criterion)
    name = str(finding.subject).strip()
    subject = f"“{plain.label(name, SUBJECT_LIMIT)}”: " if name else ""
    reason = plain.one_line(plain.clip(str(finding.text), REASON_LIMIT))
    return f"{subject}{label}{f': {reason}' if reason else ''}"


def _rule(name: str) -> JsonObject:
    title = phrase("finding_title", name)
    text = phrase("finding_text", name)
    return {
        "id": name,
        "name": "".join(word.capitalize() for word in title.split()),
        "shortDescription": {"text": title},
        "fullDescription": {"text": text},
        "help": {"text": phrase("finding_help", name)},
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["llm-agent", "evaluation"], "problem.severity": "error"},
    }


def _invocation(report: Report, *, left_out: int) -> JsonObject:
    """Show gaps in the run: an unmeasured case does not mean that an alert is gone."""
    unmeasured = sum(
        verdict.name in RULES and verdict.kind is VerdictKind.NOT_MEASURED
        for case in view.view_of(report).cases
        for verdict in case.verdict.criteria
    )
    messages = []
    if unmeasured:
        messages.append(phrase("alerts_unmeasured", unmeasured))
    if left_out:
        messages.append(phrase("alerts_left", left_out))
    invocation: JsonObject = {"executionSuccessful": report.run.complete and not unmeasured}
    if messages:
        invocation["toolExecutionNotifications"] = [
            {"level": "warning", "message": {"text": text}} for text in messages
        ]
    return invocation
