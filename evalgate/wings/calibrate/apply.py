"""calibration.json, the agreement of a judge with people for later runs: reading and writing it,
and its problems before and after a run whose evalgate.yml names it. Its JSON schema is
published."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from evalgate import errors
from evalgate.config.settings import Settings
from evalgate.criteria import judges
from evalgate.discovery import walk
from evalgate.errors import Place, Problem
from evalgate.formats.base import Format
from evalgate.model import Calibration, CriterionUse, JudgedCriterion, JudgeIdentity, Suite
from evalgate.model.calibration import SCHEMA_VERSION
from evalgate.values import JsonObject
from . import agreement

LABELS = "labels.jsonl"
_FILE = TypeAdapter(Calibration)


def schema() -> JsonObject:
    """The JSON schema of calibration.json."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | _FILE.json_schema()


def render(calibration: Calibration) -> str:
    """The file's text, without nulls."""
    document = _FILE.dump_python(calibration, mode="json", exclude_none=True)
    return json.dumps(document, indent=1) + "\n"


def parse(text: str) -> Calibration:
    """Read a file of this or an earlier schema version. Raises ValueError with the reason for
    anything else."""
    try:
        calibration = _FILE.validate_json(text)
    except ValidationError as error:
        first_error = error.errors()[0]
        location = ".".join(str(step) for step in first_error["loc"]) or "the file"
        raise ValueError(f"`{location}`: {first_error['msg']}") from None
    if calibration.schema_version > SCHEMA_VERSION:
        raise ValueError(
            f"its schema version is {calibration.schema_version}, this evalgate reads {SCHEMA_VERSION}"
        )
    return calibration


def find_problems(settings: Settings, suites: Iterable[Suite]) -> list[Problem]:
    """Reasons not to rely on the judges of the settled suites. Errors if `min_kappa` requires a
    calibration, notices if one is only named. Nothing is required if no judge is used."""
    rule = settings.gate_file.judge
    if settings.skip_judged or not (rule.calibration or rule.min_kappa is not None):
        return []
    if not rule.calibration:
        hint = f"Write `calibration: calibration.json` beside it, then {_repair(settings, None)}"
        message = (
            f"`judge: min_kappa` is {rule.min_kappa:g}, and `judge: calibration` names no file"
        )
        return [errors.error("calibration-missing", message, hint=hint)]
    calibration, problem = _calibration_of(settings)
    if problem is not None:
        return [problem]
    problems = []
    pairs: list[tuple[str, JudgeIdentity | None]] = []
    for use in (use for suite in suites for use in suite.criteria if use.is_judged):
        judge = judges.judge_of(use)
        if (use.name, judge) not in pairs:
            pairs.append((use.name, judge))
            problems += _problems_of(settings, use, judge, calibration)
    return problems


def calibrations(settings: Settings, suites: Iterable[Suite]) -> tuple[JudgedCriterion, ...]:
    """The calibration of each judged criterion, if evalgate.yml names a file."""
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


def _problems_of(
    settings: Settings,
    use: CriterionUse,
    judge: JudgeIdentity | None,
    calibration: Calibration | None,
) -> list[Problem]:
    rule = settings.gate_file.judge
    if judge is None:
        message = f"`{use.name}` gives no yes or no to label, so it cannot be calibrated"
        return [errors.note("label-without-verdict", message, use.place)]
    report = errors.note if rule.min_kappa is None else errors.error
    doubts = agreement.doubts(use.name, judge, calibration, min_kappa=rule.min_kappa)
    return [
        errors.note(code, f"`{use.name}`: {message}", use.place)
        if code == agreement.UNCERTAIN
        else report(code, f"`{use.name}`: {message}", use.place, _repair(settings, calibration))
        for code, message in doubts
    ]


def _calibration_of(settings: Settings) -> tuple[Calibration | None, Problem | None]:
    """The calibration, or None if the file is missing, and the problem of an unreadable file."""
    rule = settings.gate_file.judge
    path = Path(settings.root, rule.calibration)
    if not path.exists():
        return None, None
    content = walk.read_user_file(path, label=rule.calibration)
    if isinstance(content, Problem):
        message = f"the calibration {str(content.message).removeprefix('the file ')}"
    else:
        try:
            return parse(content.decode("utf-8", "replace")), None
        except ValueError as error:
            message = f"{rule.calibration} is not a calibration: {error}"
    report = errors.warning if rule.min_kappa is None else errors.error
    return None, report(
        "calibration-unreadable", message, Place(rule.calibration), _repair(settings, None)
    )


def _repair(settings: Settings, calibration: Calibration | None) -> str:
    labels = (
        calibration.labels_file if calibration is not None and calibration.labels_file else LABELS
    )
    file_name = settings.gate_file.judge.calibration or "calibration.json"
    return f"Run `evalgate calibrate {labels}` and commit {file_name} (docs/calibration.md)."


class CalibrationFormat(Format):
    """calibration.json, which evalgate.yml names."""

    name = "calibration"
    find_problems = staticmethod(find_problems)
    calibrations = staticmethod(calibrations)


FORMAT = CalibrationFormat()
