"""What people's labels allow a run to claim: the calibration that evalgate.yml names, before and after the run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from evalgate.calibration import agreement, calibrate
from evalgate.comparison import pairing
from evalgate.config.settings import Settings
from evalgate.criteria import judges
from evalgate.errors import ConfigError, Place, Problem, Severity
from evalgate.model import AskedJudge, Calibration, CriterionUse, JudgedCriterion, JudgeIdentity, Suite
from evalgate.results.file import Stored

LABELS = "labels.jsonl"
MOST_JUDGES = 200


def check(settings: Settings, suites: Iterable[Suite]) -> list[Problem]:
    """What keeps the settled suites' judges from being relied on: errors where `min_kappa` asks for a calibration,
    notices where one is only named. Nobody is asked where no judge is."""
    rule = settings.gate_file.judge
    if settings.skip_judged or not (rule.calibration or rule.min_kappa is not None):
        return []
    if not rule.calibration:
        hint = f"Write `calibration: calibration.json` beside it, then {_repair(settings, None)}"
        message = f"`judge: min_kappa` is {rule.min_kappa:g}, and `judge: calibration` names no file"
        return [_problem("calibration-missing", message, severity=Severity.ERROR, hint=hint)]
    calibration, unreadable = _calibration_of(settings)
    if unreadable is not None:
        return [unreadable]
    problems = []
    seen: list[tuple[str, JudgeIdentity | None]] = []
    for use in (use for suite in suites for use in suite.criteria if use.is_judged):
        judge = judges.judge_of(use)
        if (use.name, judge) not in seen:
            seen.append((use.name, judge))
            problems += _problems_of(settings, use, judge, calibration)
    return problems


def judged(suites: Iterable[Suite], settings: Settings) -> tuple[JudgedCriterion, ...]:
    """Each judged criterion's calibration, where evalgate.yml names one."""
    if not settings.gate_file.judge.calibration or settings.skip_judged:
        return ()
    calibration, _ = _calibration_of(settings)
    return tuple(
        JudgedCriterion(
            suite=suite.key,
            criterion=use.name,
            judge=judge,
            calibration=agreement.of_judge(use.name, judge, calibration),
        )
        for suite in suites
        for use in suite.criteria
        if (judge := judges.judge_of(use)) is not None
    )


def asked(suites: Iterable[Suite], settings: Settings) -> tuple[AskedJudge, ...]:
    """Who judges each criterion of settled suites, once; nobody where no judge is asked."""
    if settings.skip_judged:
        return ()
    found = [
        AskedJudge(criterion=use.name, judge=judge)
        for suite in suites
        for use in suite.criteria
        if (judge := judges.judge_of(use)) is not None
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
            try:
                asked_with = stored.prompt_of(suite.key, use.name)
                judge = judges.judge_of(use, prompt_version=asked_with) if (suite.key, use.name) in scored else None
            except ValidationError:
                judge = None
            asked = None if judge is None else AskedJudge(criterion=use.name, judge=judge)
            if asked is not None and asked not in found:
                found.append(asked)
            if len(found) == MOST_JUDGES:
                return tuple(found)
    return tuple(found)


def _problems_of(
    settings: Settings, use: CriterionUse, judge: JudgeIdentity | None, calibration: Calibration | None
) -> list[Problem]:
    rule = settings.gate_file.judge
    if judge is None:
        message = f"`{use.name}` gives no yes or no to label, so it cannot be calibrated"
        return [_problem("label-without-verdict", message, severity=Severity.NOTE, place=use.place)]
    fault = agreement.fault_of(use.name, judge, calibration, min_kappa=rule.min_kappa)
    if fault is not None:
        code, message = fault
        severity, hint = Severity.NOTE if rule.min_kappa is None else Severity.ERROR, _repair(settings, calibration)
        return [_problem(code, f"`{use.name}`: {message}", severity=severity, place=use.place, hint=hint)]
    found = agreement.of_judge(use.name, judge, calibration)
    if found is None:
        return []
    doubts = agreement.doubts(judge, found, min_kappa=rule.min_kappa)
    return [
        _problem("calibration-uncertain", f"`{use.name}`: {each}", severity=Severity.NOTE, place=use.place)
        for each in doubts
    ]


def _calibration_of(settings: Settings) -> tuple[Calibration | None, Problem | None]:
    """The calibration, None where the file is not there; and what is wrong with a file that is."""
    rule = settings.gate_file.judge
    path = Path(settings.root, rule.calibration)
    if not path.exists():
        return None, None
    try:
        return calibrate.read_calibration(path, shown=rule.calibration), None
    except ConfigError as error:
        severity = Severity.WARNING if rule.min_kappa is None else Severity.ERROR
        place = Place(file=rule.calibration)
        hint = _repair(settings, None)
        return None, _problem("calibration-unreadable", error.message, severity=severity, place=place, hint=hint)


def _repair(settings: Settings, calibration: Calibration | None) -> str:
    labels = calibration.labels_file if calibration is not None and calibration.labels_file else LABELS
    where = settings.gate_file.judge.calibration or "calibration.json"
    return f"Run `evalgate calibrate {labels}` and commit {where} (docs/calibration.md)."


def _problem(code: str, message: str, *, severity: Severity, place: Place | None = None, hint: str = "") -> Problem:
    return Problem(severity=severity, code=code, message=message, place=place, hint=hint)
