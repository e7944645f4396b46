"""What people's labels allow a run to claim: the calibration that evalgate.yml names, before and after the run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import fmean

from pydantic import ValidationError

from evalgate import criteria
from evalgate.errors import ConfigError, Place, Problem, Severity
from evalgate.gate import calibrations, judge_bias, pairing
from evalgate.judged import identity
from evalgate.model import (
    AskedJudge,
    Calibration,
    CriterionUse,
    JudgedCriterion,
    JudgeIdentity,
    Report,
    Suite,
    SuiteVerdict,
)
from evalgate.pipeline.stored import Stored
from evalgate.plugins import Need
from evalgate.wiring import calibrating
from evalgate.wiring.choosing import Choice

LABELS = "labels.jsonl"
MOST_JUDGES = 200


def check(choice: Choice, suites: Iterable[Suite]) -> list[Problem]:
    """What keeps the settled suites' judges from being relied on: errors where `min_kappa` asks for a calibration,
    notices where one is only named. Nobody is asked where no judge is."""
    rule = choice.gate_file.judge
    if choice.settings.skip_judged or not (rule.calibration or rule.min_kappa is not None):
        return []
    if not rule.calibration:
        hint = f"Write `calibration: calibration.json` beside it, then {_repair(choice, None)}"
        message = f"`judge: min_kappa` is {rule.min_kappa:g}, and `judge: calibration` names no file"
        return [_problem("calibration-missing", message, severity=Severity.ERROR, hint=hint)]
    calibration, unreadable = _calibration_of(choice)
    if unreadable is not None:
        return [unreadable]
    problems = []
    seen: list[tuple[str, JudgeIdentity | None]] = []
    for _, use, judge in _judged_uses(suites, adk_compat=choice.settings.adk_compat):
        if (use.name, judge) not in seen:
            seen.append((use.name, judge))
            problems += _problems_of(choice, use, judge, calibration)
    return problems


def with_calibration(report: Report, choice: Choice) -> Report:
    """The report with each judged criterion's calibration and its corrected score, where evalgate.yml names one."""
    if not choice.gate_file.judge.calibration or choice.settings.skip_judged:
        return report
    calibration, _ = _calibration_of(choice)
    verdicts = {suite.suite: suite for suite in report.verdict.suites}
    judged = tuple(
        _judged(suite, use, judge, calibration, verdicts[suite.key])
        for suite, use, judge in _judged_uses(report.run.suites, adk_compat=report.policy.adk_compat)
        if judge is not None and suite.key in verdicts
    )
    return dataclasses.replace(report, judged=judged)


def asked(suites: Iterable[Suite], choice: Choice) -> tuple[AskedJudge, ...]:
    """Who judges each criterion of settled suites, once; nobody where no judge is asked."""
    if choice.settings.skip_judged:
        return ()
    found = [
        AskedJudge(criterion=use.name, judge=judge)
        for _, use, judge in _judged_uses(suites, adk_compat=choice.settings.adk_compat)
        if judge is not None
    ]
    return tuple(each for at, each in enumerate(found) if each not in found[:at])


def asked_then(stored: Stored) -> tuple[AskedJudge, ...]:
    """Who judged the criteria that have a score in results that were read, once; each with the version of its question
    that the file tells, "" where it does not. At most MOST_JUDGES: anybody may have written the file."""
    run, found = stored.run, list[AskedJudge]()
    scored = {
        (trial.key.suite, name)
        for trial in run.trials
        for name in trial.grades
        if pairing.value_of(trial, name) is not None
    }
    for suite in run.suites:
        for use in suite.criteria:
            judge = _judge_then(use, stored, suite=suite.key) if (suite.key, use.name) in scored else None
            asked = None if judge is None else AskedJudge(criterion=use.name, judge=judge)
            if asked is not None and asked not in found:
                found.append(asked)
            if len(found) == MOST_JUDGES:
                return tuple(found)
    return tuple(found)


def _judge_then(use: CriterionUse, stored: Stored, *, suite: str) -> JudgeIdentity | None:
    try:
        judge = identity.judge_of(use, criteria.pick(use.name, use.code), adk_compat=stored.adk_compat)
    except ValidationError:
        return None
    asked = stored.prompts.get((suite, use.name), "")
    return None if judge is None else dataclasses.replace(judge, prompt_version=asked)


def _judged(
    suite: Suite, use: CriterionUse, judge: JudgeIdentity, calibration: Calibration | None, verdict: SuiteVerdict
) -> JudgedCriterion:
    found = calibrations.of_judge(use.name, judge, calibration)
    values = [
        each.value
        for case in verdict.cases
        for each in case.criteria
        if each.name == use.name and each.value is not None
    ]
    corrected = None
    if found is not None and values:
        corrected = judge_bias.correct(fmean(values), cases=len(values), calibration=found)
    return JudgedCriterion(suite=suite.key, criterion=use.name, judge=judge, calibration=found, corrected=corrected)


def _judged_uses(
    suites: Iterable[Suite], *, adk_compat: bool
) -> Iterator[tuple[Suite, CriterionUse, JudgeIdentity | None]]:
    """Every criterion that asks a judge; None where that judge gives no yes or no."""
    for suite in suites:
        for use in suite.criteria:
            spec = criteria.pick(use.name, use.code)
            if spec is not None and not spec.needs.isdisjoint({Need.JUDGE, Need.VERTEX}):
                yield suite, use, identity.judge_of(use, spec, adk_compat=adk_compat)


def _problems_of(
    choice: Choice, use: CriterionUse, judge: JudgeIdentity | None, calibration: Calibration | None
) -> list[Problem]:
    rule = choice.gate_file.judge
    if judge is None:
        message = f"`{use.name}` gives no yes or no to label, so it cannot be calibrated"
        return [_problem("label-without-verdict", message, severity=Severity.NOTE, place=use.place)]
    fault = calibrations.fault_of(use.name, judge, calibration, min_kappa=rule.min_kappa)
    if fault is not None:
        severity = Severity.NOTE if rule.min_kappa is None else Severity.ERROR
        message, hint = f"`{use.name}`: {fault.message}", _repair(choice, calibration)
        return [_problem(fault.code, message, severity=severity, place=use.place, hint=hint)]
    found = calibrations.of_judge(use.name, judge, calibration)
    if found is None:
        return []
    doubts = calibrations.doubts(judge, found, min_kappa=rule.min_kappa)
    return [
        _problem("calibration-uncertain", f"`{use.name}`: {each}", severity=Severity.NOTE, place=use.place)
        for each in doubts
    ]


def _calibration_of(choice: Choice) -> tuple[Calibration | None, Problem | None]:
    """The calibration, None where the file is not there; and what is wrong with a file that is."""
    rule = choice.gate_file.judge
    path = Path(choice.root, rule.calibration)
    if not path.exists():
        return None, None
    try:
        return calibrating.read_calibration(path, shown=rule.calibration), None
    except ConfigError as error:
        severity = Severity.WARNING if rule.min_kappa is None else Severity.ERROR
        place = Place(file=rule.calibration)
        hint = _repair(choice, None)
        return None, _problem("calibration-unreadable", error.message, severity=severity, place=place, hint=hint)


def _repair(choice: Choice, calibration: Calibration | None) -> str:
    labels = calibration.labels_file if calibration is not None and calibration.labels_file else LABELS
    where = choice.gate_file.judge.calibration or "calibration.json"
    return f"Run `evalgate calibrate {labels}` and commit {where} (docs/calibration.md)."


def _problem(code: str, message: str, *, severity: Severity, place: Place | None = None, hint: str = "") -> Problem:
    return Problem(severity=severity, code=code, message=message, place=place, hint=hint)
