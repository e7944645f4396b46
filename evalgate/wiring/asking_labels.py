"""Asking the judge about what people labelled: the repository's criteria, its judge, its cache and its budget."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from evalgate import criteria
from evalgate.errors import ConfigError, NothingToDo, Problem, Severity
from evalgate.model import (
    AgentUse,
    ConfigOrigin,
    CriteriaSource,
    CriterionUse,
    EvalSet,
    Grade,
    JudgeUse,
    Label,
    LabelledVerdict,
    Suite,
    Transcript,
    Trial,
    TrialKey,
)
from evalgate.pipeline import fingerprints, grading, stored
from evalgate.pipeline.grading import Remembered
from evalgate.pipeline.stored import Stored
from evalgate.pipeline.trials import Task
from evalgate.plugins import CriterionServices, Need, Panel
from evalgate.project import agent_choice, discovery
from evalgate.wire.labels import LabelsReading
from evalgate.wiring import judging, labelled
from evalgate.wiring.choosing import Choice
from evalgate.wiring.label_places import Asked

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


def ask(choice: Choice, read: LabelsReading, *, conversations: Path | None, desk: Desk) -> Judged:
    """The judge's verdicts on what was labelled. Raises ConfigError with every problem at once."""
    suites, problems = settled_suites(choice, {label.criterion for label in read.labels})
    recorded = _conversations(conversations, read.labels)
    finds = labelled.find_evidence(
        read.labels, uses=_uses(suites), stored=recorded, adk_compat=choice.settings.adk_compat
    )
    insist([*problems, *read.problems, *finds.problems])
    asked_of = _only(finds.asked)
    insist(judging.missing([asked_of], judging.defaults_of(choice), desk.environ))
    with judging.opened_panel(choice, [asked_of], environ=desk.environ, cache=desk.cache, say=desk.say) as panel:
        if panel is None:
            raise ConfigError("`skip-judged` is set; calibration needs a judge", hint="Remove it from evalgate.yml.")
        verdicts = _ask(finds.asked, panel, adk_compat=choice.settings.adk_compat)
        return Judged(verdicts=verdicts, notes=_unlabelled(suites, read.labels), took=panel.uses())


def settled_suites(choice: Choice, wanted: Iterable[str]) -> tuple[tuple[Suite, ...], list[Problem]]:
    """The repository's suites with the judges settled, and one more with the wanted criteria that none of them uses.

    Problems of agents do not count: none is run.
    """
    try:
        found = discovery.discover(
            choice.root,
            gate_file=choice.gate_file,
            places=choice.places,
            criteria_file=Path(choice.settings.criteria) if choice.settings.criteria else None,
            specs=criteria.CRITERIA,
        )
        suites, problems = found.suites, [each for each in found.problems if each.code not in agent_choice.CODES]
    except NothingToDo:
        suites, problems = (), []
    problems = [*choice.problems, *problems]
    if has_errors(problems):
        return (), problems
    used = {use.name for suite in suites for use in suite.criteria}
    unused = tuple(_default_use(name) for name in sorted(set(wanted) - used))
    nowhere = _suite(unused)
    return judging.settle([*suites, *([nowhere] if unused else [])], judging.defaults_of(choice)), problems


def _conversations(path: Path | None, labels: Iterable[Label]) -> Stored | None:
    """The results.json that labels refer to, where one of them does."""
    refers = any(label.evidence is None for label in labels)
    if not refers or path is None or not path.exists():
        return None
    return stored.read_results(path)


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
        agent=AgentUse(driver="replay"),
    )


def _only(asked: Iterable[Asked]) -> Suite:
    """A suite of the criteria that are asked, and of no other."""
    return _suite({fingerprints.digest([each.use.name, dict(each.use.options)]): each.use for each in asked}.values())


def _ask(asked: Sequence[Asked], panel: Panel, *, adk_compat: bool) -> list[tuple[Asked, LabelledVerdict]]:
    """The judge's verdicts in the labels' order; what is asked about several times is asked once."""
    groups: defaultdict[str, list[Asked]] = defaultdict(list)
    for each in asked:
        groups[_address(each)].append(each)
    services = CriterionServices(adk_compat=adk_compat, judge=panel)
    with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="calibrate") as pool:
        futures = {key: pool.submit(_grade, group[0], services) for key, group in groups.items()}
        grades = {key: future.result() for key, future in futures.items()}
    return [(each, labelled.verdict_of(each, grades[_address(each)])) for each in asked]


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
    graded = grading.grade(
        Trial(key=key, outcome=outcome),
        Task(suite=suite, case=case, key=key),
        criteria={use.name: criteria.build(use, services)},
        remembered=Remembered(find=lambda _: None, keep=lambda _name, _grade: None),
    )
    return graded.grades[use.name]


def _unlabelled(suites: Iterable[Suite], labels: Iterable[Label]) -> tuple[str, ...]:
    """A note on each criterion that the repository's judges grade and nobody labelled."""
    named = {label.criterion for label in labels}
    able = labelled.vocabularies()
    used = dict.fromkeys(use.name for suite in suites for use in suite.criteria)
    return tuple(f"`{name}` is used here and has no label" for name in used if name in able and name not in named)


def has_errors(problems: Iterable[Problem]) -> bool:
    """Whether one of them stops the work."""
    return any(problem.severity is Severity.ERROR for problem in problems)


def insist(problems: Sequence[Problem]) -> None:
    """Raises ConfigError with all of them where one is an error."""
    if has_errors(problems):
        raise ConfigError.collected(problems)
