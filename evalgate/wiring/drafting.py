"""A labels file to fill in: one line for each verdict of a stored run, without what the judge said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from evalgate import criteria
from evalgate.judged import identity
from evalgate.model import Evidence, Finding, Grade, GradedTrial, Invocation, Score, Suite, Text
from evalgate.plugins import Need, Verdicts
from evalgate.prompts import shown
from evalgate.results.file import Stored
from evalgate.wire import writing

TEXTS_ARE_ALL = frozenset({"final_response_match_v2", "safety_v1"})
"""Criteria that judge the words of user, agent and reference, and nothing else."""


def draft(stored: Stored, *, most: int, seed: int) -> list[str]:
    """Lines of a labels file with empty labels, at most `most` of each criterion, drawn at random.

    What the judge said is left out: who sees it agrees with it. Nor does it weigh in the draw: a sample that favours
    what the judge rejects distorts TPR and TNR.
    """
    random = Random(seed)  # noqa: S311 - which verdicts to label, no secret
    by_criterion: dict[str, list[dict[str, Any]]] = {}
    suites = {suite.key: suite for suite in stored.run.suites}
    for trial in stored.run.trials:
        for line in _lines(trial, suites[trial.key.suite], stored):
            by_criterion.setdefault(line["criterion"], []).append(line)
    chosen = [line for lines in by_criterion.values() for line in random.sample(lines, min(most, len(lines)))]
    return [json.dumps(line, ensure_ascii=False) for line in chosen]


def _lines(trial: GradedTrial, suite: Suite, stored: Stored) -> Iterator[dict[str, Any]]:
    transcript = stored.outcomes.find(trial.key)
    case = next((case for case in suite.eval_set.cases if case.case_id == trial.key.case_id), None)
    if transcript is None or case is None:
        return
    evidence = Evidence(case=case, actual=transcript.invocations, expected=case.conversation)
    for use in suite.criteria:
        spec = criteria.CRITERIA.get(use.name)
        grade = trial.grades.get(use.name)
        if spec is None or spec.verdicts is None or not isinstance(grade, Score):
            continue
        if identity.judge_of(use, spec, adk_compat=stored.adk_compat) is None:
            continue
        for finding in _findings(grade, spec.verdicts):
            turn = finding.turn if finding.turn is not None and not spec.verdicts.whole else None
            subject = {spec.verdicts.unit: finding.subject} if spec.verdicts.unit else {}
            yield {"label": "", "criterion": use.name, **subject, **_about(trial, use.name, evidence, turn)}


def _findings(grade: Grade, verdicts: Verdicts) -> list[Finding]:
    """The verdicts that a line can name: with the subject that its unit is, or with none."""
    return [each for each in grade.findings if each.score is not None and bool(each.subject) is bool(verdicts.unit)]


def _about(trial: GradedTrial, criterion: str, evidence: Evidence, turn: int | None) -> dict[str, Any]:
    """The texts that a person reads first, then where they come from, then what else the judge sees."""
    at = len(evidence.actual) if turn is None else turn
    judged = evidence.actual[at - 1]
    line: dict[str, Any] = {"user": shown.text_of(judged.user_content), "answer": shown.answer(judged)}
    expected = evidence.expected[at - 1] if evidence.expected and at <= len(evidence.expected) else None
    if expected is not None and shown.answer(expected).strip():
        line["reference"] = shown.answer(expected)
    line |= {"suite": trial.key.suite, "case": trial.key.case_id, "repeat": trial.key.repeat, "turn": at}
    if Need.SCENARIO in criteria.CRITERIA[criterion].needs:
        return line
    if criterion not in TEXTS_ARE_ALL or not _is_plain(judged):
        line |= _whole(evidence)
    return line


def _whole(evidence: Evidence) -> dict[str, Any]:
    written: dict[str, Any] = {"conversation": [writing.invocation_json(each) for each in evidence.actual]}
    if evidence.expected is not None:
        written["expected"] = [writing.invocation_json(each) for each in evidence.expected]
    if evidence.case.rubrics:
        written["rubrics"] = [writing.rubric_json(each) for each in evidence.case.rubrics]
    return written


def _is_plain(invocation: Invocation) -> bool:
    """Whether the texts are all there is to the turn's two messages."""
    final = invocation.final_response.parts if invocation.final_response else ()
    return all(isinstance(part, Text) for part in (*invocation.user_content.parts, *final))
