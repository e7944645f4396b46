"""findings.sarif: unsafe answers and hallucinations as code-scanning alerts, at the case's line in
its file."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from evalgate.model import CriterionVerdict, Finding, Links, Report, Score, VerdictKind
from evalgate.text import plain, words
from evalgate.values import JsonObject, digest_of, json_text
from . import view
from .cases import CaseView
from .phrases import phrase

LIMIT = 5_000
"""GitHub's limit of results per file."""

SUBJECT_LIMIT = 300
"""Characters of what a finding is about."""
REASON_LIMIT = 500
"""Characters of a judge's explanation."""
NAMED = 5
"""Findings in one result; more are counted."""


RULES = ("safety_v1", "hallucinations_v1")
"""The criteria whose failures are alerts: they find faults in an answer, whatever was expected."""


def render(report: Report) -> str:
    """A SARIF 2.1.0 log with one result per criterion, case and turn: `error` if the case fails the
    criterion, `note` if it passes all the same.

    A result is identified by criterion, file, case and turn, whatever the agent's words and the
    line are this time. Source: OASIS SARIF 2.1.0; GitHub's subset and limits."""
    case_views = view.view_of(report).cases
    links = report.display.links
    case_results = [
        result
        for case in case_views
        for verdict in case.verdict.criteria
        if verdict.name in RULES
        for result in _results(case, verdict, links)
    ]
    results = sorted(case_results, key=lambda result: result["level"] != "error")
    used_names = {use.name for suite in report.run.suites for use in suite.criteria}
    # an unmeasured case does not mean that an alert is gone
    unmeasured = sum(
        verdict.name in RULES and verdict.kind is VerdictKind.NOT_MEASURED
        for case in case_views
        for verdict in case.verdict.criteria
    )
    gaps = (("alerts_unmeasured", unmeasured), ("alerts_left", max(len(results) - LIMIT, 0)))
    invocation: JsonObject = {"executionSuccessful": report.run.complete and not unmeasured}
    messages = [phrase(name, count) for name, count in gaps if count]
    if messages:
        invocation["toolExecutionNotifications"] = [
            {"level": "warning", "message": {"text": text}} for text in messages
        ]
    run: JsonObject = {
        "tool": {
            "driver": {
                "name": "evalgate",
                "rules": [_rule(name) for name in RULES if name in used_names],
            }
        },
        "invocations": [invocation],
        "originalUriBaseIds": {
            "%SRCROOT%": {"description": {"text": "The root of the repository."}}
        },
        "results": results[:LIMIT],
    }
    if report.display.version:
        run["tool"]["driver"]["version"] = report.display.version
    revision = links.checkout or links.commit
    if links.repository and revision:
        provenance = {"repositoryUri": links.repository, "revisionId": revision}
        run["versionControlProvenance"] = [{**provenance, "mappedTo": {"uriBaseId": "%SRCROOT%"}}]
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json_text(log, indent=1)


def _results(case: CaseView, verdict: CriterionVerdict, links: Links) -> Iterator[JsonObject]:
    """The findings of one criterion against each turn of a case (None: the whole conversation),
    over all its runs."""
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
    uri = quote(links.place(case.place.file).lstrip("/"), safe="/")
    for turn in sorted(findings_by_turn, key=lambda turn: turn or 0):
        identity = [verdict.name, case.verdict.suite, case.case_id, turn]
        fingerprint = digest_of(json.dumps(identity), 16)
        yield {
            "ruleId": verdict.name,
            "level": "error" if has_failed else "note",
            "message": {"text": _message(case, verdict, turn, findings_by_turn[turn])},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": uri or ".", "uriBaseId": "%SRCROOT%"},
                        "region": {"startLine": max(case.place.line or 1, 1)},
                    }
                }
            ],
            # GitHub identifies alerts by this key alone; it ends in a counter of equal ones
            "partialFingerprints": {"primaryLocationLineHash": f"{fingerprint}:1"},
        }


def _message(
    case: CaseView, verdict: CriterionVerdict, turn: int | None, findings: Sequence[Finding]
) -> str:
    """Plain text, one line per finding, without anything that SARIF reads as a link or a
    placeholder."""
    is_met = verdict.kind is not VerdictKind.FAIL
    score = words.score_and_limit(verdict.value, verdict.threshold, met=is_met)
    lines = [phrase("alert", plain.label(case.case_id, 120), turn, verdict.name, score)]
    distinct = {(finding.subject, finding.text): finding for finding in findings}
    for finding in list(distinct.values())[:NAMED]:
        label = phrase("finding_label", verdict.name)
        if finding.label:
            label = plain.label(finding.label, 60)
        name = str(finding.subject).strip()
        subject = f"“{plain.label(name, SUBJECT_LIMIT)}”: " if name else ""
        reason = plain.one_line(plain.clip(str(finding.text), REASON_LIMIT))
        lines.append(f"{subject}{label}{f': {reason}' if reason else ''}")
    if len(distinct) > NAMED:
        lines.append(phrase("more_findings", len(distinct) - NAMED))
    text = re.sub(r"([\\\[\]])", r"\\\1", "\n".join(lines))
    return re.sub(r"\{(\d+)\}", r"{{\1}}", text)


def _rule(name: str) -> JsonObject:
    """The description of a criterion for GitHub's list of alerts."""
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
