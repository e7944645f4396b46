"""`evalgate calibrate`: labels in, the judge's verdicts beside them, and what that says of the judge."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from evalgate import __version__, criteria
from evalgate.calibration import agreement
from evalgate.calibration import evidence as calibration_evidence
from evalgate.calibration import labels as calibration_labels
from evalgate.calibration.evidence import Asked
from evalgate.calibration.labels import LabelsReading
from evalgate.config.settings import Settings
from evalgate.criteria import judges
from evalgate.criteria.base import CriterionServices
from evalgate.discovery import agents, discover, walk
from evalgate.errors import ConfigError, NothingToDo, Problem, Severity, UnavailableError
from evalgate.formats import fingerprints
from evalgate.judges.base import JudgePanel
from evalgate.model import (
    AgentUse,
    Calibration,
    ConfigOrigin,
    CriteriaSource,
    CriterionCalibration,
    CriterionUse,
    EvalSet,
    Grade,
    JudgeUse,
    Label,
    LabelledVerdict,
    Need,
    Suite,
    Transcript,
    Trial,
    TrialKey,
)
from evalgate.results import calibration_file, file
from evalgate.results.file import Stored
from evalgate.runner import session
from evalgate.runner.trials import Task
from evalgate.text import decoding, words

AT_ONCE = 16
NOWHERE = "labels"
"""Key of the suite that stands for criteria which no suite of the repository uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What calibrating needs of the world. `now`: when the calibration is made; `say`: where warnings go."""

    environ: Mapping[str, str]
    cache: Path
    now: datetime
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Labels with their verdicts, by the criterion and judge they are of."""

    verdicts: Sequence[tuple[Asked, LabelledVerdict]]
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    took: tuple[JudgeUse, ...] = ()


def ask(settings: Settings, read: LabelsReading, *, conversations: Path | None, desk: Desk) -> Judged:
    """The judge's verdicts on what was labelled. Raises ConfigError with every problem at once."""
    suites, problems = settled_suites(settings, {label.criterion for label in read.labels})
    recorded = _conversations(conversations, read.labels)
    finds = calibration_evidence.find_evidence(
        read.labels, uses=_uses(suites), stored=recorded, adk_compat=settings.adk_compat
    )
    insist([*problems, *read.problems, *finds.problems])
    asked_of = _only(finds.asked)
    insist(judges.missing([asked_of], judges.defaults_of(settings), desk.environ))
    with judges.opened_panel(settings, [asked_of], environ=desk.environ, cache=desk.cache, say=desk.say) as panel:
        if panel is None:
            raise ConfigError("`skip-judged` is set; calibration needs a judge", hint="Remove it from evalgate.yml.")
        verdicts = _ask(finds.asked, panel, adk_compat=settings.adk_compat)
        return Judged(verdicts=verdicts, notes=_unlabelled(suites, read.labels), took=panel.uses())


def settled_suites(settings: Settings, wanted: Iterable[str]) -> tuple[tuple[Suite, ...], list[Problem]]:
    """The repository's suites with the judges settled, and one more with the wanted criteria that none of them uses.

    Problems of agents do not count: none is run.
    """
    try:
        whole = settings.model_copy(update={"paths": (), "grep": ""})
        found = discover.discover(whole, specs=criteria.CRITERIA)
        suites, problems = found.suites, [each for each in found.problems if each.code not in agents.CODES]
    except NothingToDo:
        suites, problems = (), []
    problems = [*settings.problems, *problems]
    if has_errors(problems):
        return (), problems
    used = {use.name for suite in suites for use in suite.criteria}
    unused = tuple(_default_use(name) for name in sorted(set(wanted) - used))
    nowhere = _suite(unused)
    return judges.settle_suites([*suites, *([nowhere] if unused else [])], judges.defaults_of(settings)), problems


def _conversations(path: Path | None, labels: Iterable[Label]) -> Stored | None:
    """The results.json that labels refer to, where one of them does."""
    refers = any(label.evidence is None for label in labels)
    if not refers or path is None or not path.exists():
        return None
    return file.read_results(path)


def _uses(suites: Iterable[Suite]) -> dict[str, dict[str, CriterionUse]]:
    uses: defaultdict[str, dict[str, CriterionUse]] = defaultdict(dict)
    for suite in suites:
        for use in suite.criteria:
            uses[use.name][suite.key] = use
    return uses


def _default_use(name: str) -> CriterionUse:
    by_model = {"judge": "llm"} if Need.VERTEX in criteria.CRITERIA[name].needs else {}
    return CriterionUse(name=name, threshold=None, options=by_model)


def _suite(uses: Iterable[CriterionUse]) -> Suite:
    return Suite(
        key=NOWHERE,
        eval_set=EvalSet(eval_set_id=NOWHERE, cases=()),
        criteria=tuple(uses),
        criteria_source=CriteriaSource(origin=ConfigOrigin.DEFAULTS),
        agent=AgentUse(driver=""),
    )


def _only(asked: Iterable[Asked]) -> Suite:
    """A suite of the criteria that are asked, and of no other."""
    return _suite({fingerprints.digest([each.use.name, dict(each.use.options)]): each.use for each in asked}.values())


def _ask(asked: Sequence[Asked], panel: JudgePanel, *, adk_compat: bool) -> list[tuple[Asked, LabelledVerdict]]:
    """The judge's verdicts in the labels' order; what is asked about several times is asked once."""
    groups: defaultdict[str, list[Asked]] = defaultdict(list)
    for each in asked:
        groups[_address(each)].append(each)
    services = CriterionServices(adk_compat=adk_compat, judge=panel)
    with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="calibrate") as pool:
        futures = {key: pool.submit(_grade, group[0], services) for key, group in groups.items()}
        grades = {key: future.result() for key, future in futures.items()}
    return [(each, calibration_evidence.verdict_of(each, grades[_address(each)])) for each in asked]


def _address(each: Asked) -> str:
    """Equal for labels that one grade answers."""
    evidence = each.evidence
    return fingerprints.digest(
        [each.use.name, dict(each.use.options), repr((evidence.actual, evidence.expected, evidence.case.rubrics))]
    )


def _grade(asked: Asked, services: CriterionServices) -> Grade:
    """The grade as a run would give it, behind the same wall."""
    evidence, use = asked.evidence, asked.use
    case = dataclasses.replace(evidence.case, conversation=evidence.expected)
    suite = _suite([use])
    key = TrialKey(suite=suite.key, case_id=case.case_id)
    outcome = Transcript(invocations=evidence.actual, final_state=evidence.final_state, ended_by=evidence.ended_by)
    graded = session.grade(
        Trial(key=key, outcome=outcome),
        Task(suite=suite, case=case, key=key),
        {use.name: criteria.build(use, services)},
    )
    return graded.grades[use.name]


def _unlabelled(suites: Iterable[Suite], labels: Iterable[Label]) -> tuple[str, ...]:
    """A note on each criterion that the repository's judges grade and nobody labelled."""
    named = {label.criterion for label in labels}
    able = calibration_evidence.vocabularies()
    used = dict.fromkeys(use.name for suite in suites for use in suite.criteria)
    return tuple(f"`{name}` is used here and has no label" for name in used if name in able and name not in named)


def has_errors(problems: Iterable[Problem]) -> bool:
    """Whether one of them stops the work."""
    return any(problem.severity is Severity.ERROR for problem in problems)


def insist(problems: Sequence[Problem]) -> None:
    """Raises ConfigError with all of them where one is an error."""
    if has_errors(problems):
        raise ConfigError.collected(problems)


SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is wanted. `results`: take the verdicts from there and ask nobody. `conversations`: a results.json that
    labels may refer to. Paths are absolute."""

    labels: Path
    results: Path | None = None
    conversations: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """The calibration, what else a reader must know, and what asking took."""

    calibration: Calibration
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    took: tuple[JudgeUse, ...] = ()


def calibrate(settings: Settings, order: Order, desk: Desk) -> Calibrated:
    """Compare the judge with the labels. Raises ConfigError with every problem of the labels at once, NothingToDo
    where nothing is labelled, UnavailableError where the judge decided nothing."""
    shown = _shown(order.labels, settings.root)
    read = _read_labels(order.labels, shown)
    if not read.labels and not has_errors(read.problems):
        waiting = (
            f": {words.counted(read.unlabelled, 'line waits', 'lines wait')} for a label" if read.unlabelled else ""
        )
        raise NothingToDo(f"{shown} has no labels{waiting}")
    judged = (
        _from_results(read, order.results)
        if order.results
        else ask(settings, read, conversations=order.conversations, desk=desk)
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
        notes=(*judged.notes, *([waiting] if read.unlabelled else [])),
        problems=(*read.problems, *judged.problems),
        took=judged.took,
    )


def read_calibration(path: Path, *, shown: str) -> Calibration:
    """Read a calibration. Raises ConfigError."""
    data = walk.read_named(path, shown=shown)
    if isinstance(data, Problem):
        raise ConfigError(f"the calibration {data.message.removeprefix('the file ')}", where=data.place)
    try:
        return calibration_file.parse(data.decode("utf-8", errors="replace"))
    except ValueError as error:
        hint = "Regenerate it with `evalgate calibrate`."
        raise ConfigError(f"{shown} is not a calibration: {error}", hint=hint) from error


# --- reading --------------------------------------------------------------------------------------


def _read_labels(path: Path, shown: str) -> calibration_labels.LabelsReading:
    data = walk.read_named(path, shown=shown)
    text = data if isinstance(data, Problem) else decoding.decode(data, file=shown)
    if isinstance(text, Problem):
        raise ConfigError.collected([text])
    known = calibration_evidence.vocabularies()
    others = [name for name, spec in criteria.CRITERIA.items() if name not in known and not spec.informational]
    read = calibration_labels.parse_labels(text, file=shown, vocabularies=known, others=others)
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


def _from_results(read: calibration_labels.LabelsReading, path: Path) -> Judged:
    run = file.read_results(path)
    finds, grades, elsewhere = calibration_evidence.find_grades(read.labels, run)
    insist([*read.problems, *finds.problems])
    verdicts = [
        (asked, calibration_evidence.verdict_of(asked, grade)) for asked, grade in zip(finds.asked, grades, strict=True)
    ]
    notes = []
    if elsewhere:
        lines = words.counted(elsewhere, "label has", "labels have")
        notes.append(f"{lines} no `suite` and `case`: skipped; only asking the judge covers them")
    notes += calibration_evidence.other_prompts(finds.asked)
    return Judged(verdicts=verdicts, notes=tuple(notes), problems=tuple(finds.problems))


# --- all together ---------------------------------------------------------------------------------


def _calibrations(judged: Iterable[tuple[Asked, LabelledVerdict]]) -> list[CriterionCalibration]:
    """One for each criterion and judge, in the order of the labels."""
    groups: defaultdict[str, list[tuple[Asked, LabelledVerdict]]] = defaultdict(list)
    for asked, verdict in judged:
        groups[repr((asked.label.criterion, asked.judge))].append((asked, verdict))
    return [
        agreement.calibrate(
            group[0][0].label.criterion, group[0][0].judge, [verdict for _, verdict in group], seed=SEED
        )
        for group in groups.values()
    ]


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
