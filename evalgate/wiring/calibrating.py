"""`evalgate calibrate`: labels in, the judge's verdicts beside them, and what that says of the judge."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from evalgate import __version__, criteria, formats, words
from evalgate.errors import ConfigError, NothingToDo, Problem, Severity, UnavailableError
from evalgate.gate import agreement, calibrations
from evalgate.model import (
    Calibration,
    CriterionCalibration,
    Drift,
    JudgeUse,
    Label,
    LabelledVerdict,
)
from evalgate.pipeline import stored
from evalgate.project import reading
from evalgate.wire import calibration as calibration_files
from evalgate.wire import labels as label_files
from evalgate.wiring import asking_labels, labelled
from evalgate.wiring.asking_labels import Desk, Judged
from evalgate.wiring.choosing import Choice
from evalgate.wiring.label_places import Asked

SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is wanted. `results`: take the verdicts from there and ask nobody. `conversations`: a results.json that
    labels may refer to. `against`: an earlier calibration. Paths are absolute."""

    labels: Path
    results: Path | None = None
    conversations: Path | None = None
    against: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """The calibration, its drift from the earlier one, what else a reader must know, and what asking took."""

    calibration: Calibration
    drift: tuple[Drift, ...] = ()
    before: Calibration | None = None
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    took: tuple[JudgeUse, ...] = ()


def calibrate(choice: Choice, order: Order, desk: Desk) -> Calibrated:
    """Compare the judge with the labels. Raises ConfigError with every problem of the labels at once, NothingToDo
    where nothing is labelled, UnavailableError where the judge decided nothing."""
    shown = _shown(order.labels, choice.root)
    read = _read_labels(order.labels, shown)
    if not read.labels and not asking_labels.has_errors(read.problems):
        waiting = (
            f": {words.counted(read.unlabelled, 'line waits', 'lines wait')} for a label" if read.unlabelled else ""
        )
        raise NothingToDo(f"{shown} has no labels{waiting}")
    before = read_calibration(order.against, shown=_shown(order.against, choice.root)) if order.against else None
    judged = (
        _from_results(read, order.results)
        if order.results
        else asking_labels.ask(choice, read, conversations=order.conversations, desk=desk)
    )
    made = _calibrations(judged.verdicts)
    if not any(each.matrix.total for each in made):
        why = next((verdict.message for _, verdict in judged.verdicts if verdict.message), "")
        raise UnavailableError(f"the judge decided none of {words.counted(len(judged.verdicts), 'label')}: {why}")
    calibration = Calibration(
        evalgate=__version__,
        made_at=desk.now.isoformat(timespec="seconds"),
        labels_file=shown,
        source="results" if order.results else "asked",
        criteria=tuple(made),
        seed=SEED,
        draws=agreement.DRAWS,
    )
    waiting = f"{words.counted(read.unlabelled, 'line has', 'lines have')} no label yet"
    return Calibrated(
        calibration=calibration,
        before=before,
        drift=drift_of(calibration, before),
        notes=(*judged.notes, *([waiting] if read.unlabelled else [])),
        problems=(*read.problems, *judged.problems),
        took=judged.took,
    )


def drift_of(new: Calibration, before: Calibration | None) -> tuple[Drift, ...]:
    """Each criterion beside its earlier calibration: the one of the same judge, else the only one there is."""
    found = []
    for each in new.criteria:
        earlier = [old for old in (before.criteria if before else ()) if old.criterion == each.criterion]
        same = [old for old in earlier if agreement.same_judge(old.judge, each.judge)]
        chosen = (same or earlier)[:1] if same or len(earlier) == 1 else []
        found += [agreement.drift(each, old) for old in chosen]
    return tuple(found)


def read_calibration(path: Path, *, shown: str) -> Calibration:
    """Read a calibration. Raises ConfigError."""
    data = reading.read_named(path, shown=shown)
    if isinstance(data, Problem):
        raise ConfigError(f"the calibration {data.message.removeprefix('the file ')}", where=data.place)
    try:
        return calibration_files.parse(data.decode("utf-8", errors="replace"))
    except ValueError as error:
        hint = "Regenerate it with `evalgate calibrate`."
        raise ConfigError(f"{shown} is not a calibration: {error}", hint=hint) from error


# --- reading --------------------------------------------------------------------------------------


def _read_labels(path: Path, shown: str) -> label_files.LabelsReading:
    data = reading.read_named(path, shown=shown)
    text = data if isinstance(data, Problem) else formats.decode(data, file=shown)
    if isinstance(text, Problem):
        raise ConfigError.collected([text])
    known = labelled.vocabularies()
    others = [name for name, spec in criteria.CRITERIA.items() if name not in known and not spec.informational]
    read = label_files.parse_labels(text, file=shown, vocabularies=known, others=others)
    return dataclasses.replace(read, problems=(*read.problems, *_twice(read.labels)))


def _twice(labels: Iterable[Label]) -> list[Problem]:
    """Lines that label one and the same thing: an error where they contradict each other, else a warning."""
    first: dict[str, Label] = {}
    problems = []
    for label in labels:
        # repr of frozen values: evidence holds JSON, which cannot be hashed
        key = repr((label.criterion, label.where, label.turn, label.subject, label.answer, _asked_texts(label)))
        other = first.setdefault(key, label)
        if other is label:
            continue
        differ = other.human is not label.human
        severity = Severity.ERROR if differ else Severity.WARNING
        what = f"contradicts line {other.place.line}" if differ else f"says the same as line {other.place.line}"
        message = f"the label {what} on the same item"
        hint = "Keep the correct one, or neither." if differ else "Delete one: it counts twice."
        problems.append(Problem(severity=severity, code="label-twice", message=message, place=label.place, hint=hint))
    return problems


def _asked_texts(label: Label) -> object:
    evidence = label.evidence
    return None if evidence is None or label.where is not None else (evidence.actual, evidence.expected)


def _from_results(read: label_files.LabelsReading, path: Path) -> Judged:
    run = stored.read_results(path)
    finds, grades, elsewhere = labelled.find_grades(read.labels, run)
    asking_labels.insist([*read.problems, *finds.problems])
    verdicts = [(asked, labelled.verdict_of(asked, grade)) for asked, grade in zip(finds.asked, grades, strict=True)]
    notes = []
    if elsewhere:
        lines = words.counted(elsewhere, "label has", "labels have")
        notes.append(f"{lines} no `suite` and `case`: skipped; only asking the judge covers them")
    notes += labelled.other_prompts(finds.asked, adk_compat=run.adk_compat)
    return Judged(verdicts=verdicts, notes=tuple(notes), problems=tuple(finds.problems))


# --- all together ---------------------------------------------------------------------------------


def _calibrations(judged: Iterable[tuple[Asked, LabelledVerdict]]) -> list[CriterionCalibration]:
    """One for each criterion and judge, in the order of the labels."""
    groups: defaultdict[str, list[tuple[Asked, LabelledVerdict]]] = defaultdict(list)
    for asked, verdict in judged:
        groups[repr((asked.label.criterion, asked.judge))].append((asked, verdict))
    return [
        calibrations.calibrate(
            group[0][0].label.criterion, group[0][0].judge, [verdict for _, verdict in group], seed=SEED
        )
        for group in groups.values()
    ]


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
