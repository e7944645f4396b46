"""`evalgate calibrate`: labels in, the judge's verdicts beside them, and what that says of the
judge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from evalgate import __version__, criteria
from evalgate.config.settings import Settings
from evalgate.criteria import judges
from evalgate.criteria.base import CriterionServices
from evalgate.discovery import agents, discover, walk
from evalgate.errors import ConfigError, NothingToDo, Problem, UnavailableError, errors_in
from evalgate.formats import fingerprints
from evalgate.github import forks
from evalgate.judges.panel import VotingPanel
from evalgate.model import (
    AgentUse,
    Calibration,
    ConfigOrigin,
    CriteriaSource,
    CriterionUse,
    EvalSet,
    Grade,
    JudgeUse,
    Suite,
    Transcript,
    Trial,
    TrialKey,
)
from evalgate.model.deviations import Deviations
from evalgate.results import file
from evalgate.runner import session
from evalgate.runner.trials import Task
from evalgate.text import plain, words
from evalgate.values import Environ, frozen_dataclass
from evalgate.wings.calibrate import agreement, evidence, labels
from evalgate.wings.calibrate.evidence import LabelledItem, LabelledVerdict
from evalgate.wings.calibrate.labels import LabelsReading

AT_ONCE = 16
SEED = 0
NOWHERE = "labels"
"""Key of the suite for criteria that no suite of the repository uses."""


@frozen_dataclass
class Judged:
    """The labels' verdicts, with what their reader must know, and what asking for them took."""

    verdicts: Sequence[LabelledVerdict]
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    took: tuple[JudgeUse, ...] = ()


def calibrate(
    settings: Settings,
    labels_file: Path,
    *,
    results: Path | None,
    conversations: Path,
    environ: Environ,
    cache: Path,
    say: Callable[[str], None],
) -> tuple[Calibration, Judged]:
    """Compare the judge with the labels, by the verdicts in `results`, else by asking it.

    `conversations`: has those that labels name. `cache`: a folder; `say`: receives warnings. Raises
    ConfigError with every problem of the labels, NothingToDo if nothing is labelled,
    UnavailableError if the judge decided nothing."""
    display_path = (
        labels_file.relative_to(settings.root)
        if labels_file.is_relative_to(settings.root)
        else labels_file
    )
    data = walk.read_user_file(labels_file, label=display_path.as_posix())
    text = plain.decode(data, file=display_path.as_posix())
    if isinstance(text, Problem):
        raise ConfigError.collected([text])
    read = labels.parse_labels(text, file=display_path.as_posix())
    if not read.labels and not errors_in(read.problems):
        waiting = f": {words.counted(read.unlabelled, 'line has', 'lines have')} an empty `label`"
        raise NothingToDo(f"{display_path} has no labels{waiting if read.unlabelled else ''}")
    if results:
        judged = _from_results(read, results)
    else:
        judged = _ask(
            settings, read, conversations=conversations, environ=environ, cache=cache, say=say
        )
    groups: defaultdict[str, list[LabelledVerdict]] = defaultdict(list)
    for verdict in judged.verdicts:
        groups[repr(verdict.criterion_judge)].append(verdict)
    calibrations = [
        agreement.calibrate(group[0].criterion_judge, group, seed=SEED) for group in groups.values()
    ]
    if not any(criterion.matrix.total for criterion in calibrations):
        reason = next((verdict.message for verdict in judged.verdicts if verdict.message), "")
        raise UnavailableError(
            f"the judge decided none of {words.counted(len(judged.verdicts), 'label')}: {reason}"
        )
    calibration = Calibration(
        evalgate=__version__,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        labels_file=display_path.as_posix(),
        source="results" if results else "asked",
        criteria=tuple(calibrations),
        seed=SEED,
        draws=agreement.DRAWS,
    )
    waiting = f"{words.counted(read.unlabelled, 'line has', 'lines have')} no label yet"
    notes = (*judged.notes, *([waiting] if read.unlabelled else []))
    problems = (*read.problems, *judged.problems)
    return calibration, Judged(
        verdicts=judged.verdicts, notes=notes, problems=problems, took=judged.took
    )


def _ask(
    settings: Settings,
    read: LabelsReading,
    *,
    conversations: Path,
    environ: Environ,
    cache: Path,
    say: Callable[[str], None],
) -> Judged:
    """The judge's verdicts on what was labelled. Raises ConfigError with every problem at once, and
    for a change."""
    forks.refuse_change(environ, "evalgate calibrate")
    suites, problems = settled_suites(settings, {label.line.criterion for label in read.labels})
    refers = any(label.evidence is None for label in read.labels)
    stored = file.read_results(conversations) if refers and conversations.exists() else None
    uses: defaultdict[str, dict[str, CriterionUse]] = defaultdict(dict)
    for suite in suites:
        for use in suite.criteria:
            uses[use.name][suite.key] = use
    items, item_problems = evidence.find_items(
        read.labels, uses=uses, stored=stored, deviations=settings.deviations
    )
    insist([*problems, *read.problems, *item_problems])
    uses_by_digest = {
        fingerprints.digest([target.use.name, dict(target.use.options)]): target.use
        for target in items
    }
    only = _suite(uses_by_digest.values())
    insist(judges.missing([only], judges.defaults_of(settings), environ))
    with judges.open_panel(settings, [only], environ=environ, cache=cache, say=say) as panel:
        if panel is None:
            raise ConfigError(
                "`skip-judged` is set; calibration needs a judge",
                hint="Remove it from evalgate.yml.",
            )
        label_criteria = {label.line.criterion for label in read.labels}
        used = dict.fromkeys(
            use.name for suite in suites for use in suite.criteria if labels.labelled_spec(use.name)
        )
        return Judged(
            verdicts=ask(items, panel, deviations=settings.deviations),
            notes=tuple(
                f"`{name}` is used here and has no label"
                for name in used
                if name not in label_criteria
            ),
            took=panel.uses(),
        )


def settled_suites(
    settings: Settings, criterion_names: Iterable[str]
) -> tuple[tuple[Suite, ...], list[Problem]]:
    """The repository's suites with the judges settled, and one more with wanted criteria that none
    of them uses."""
    suites, discovery_problems = discover.suites_of_all(settings, specs=criteria.CRITERIA)
    problems = [
        *settings.problems,
        *(problem for problem in discovery_problems if problem.code not in agents.CODES),
    ]
    if errors_in(problems):
        return (), problems
    used = {use.name for suite in suites for use in suite.criteria}
    unused = [criteria.use_by_model(name) for name in sorted(set(criterion_names) - used)]
    nowhere = [_suite(unused)] if unused else []
    return judges.settle_suites([*suites, *nowhere], judges.defaults_of(settings)), problems


def _suite(uses: Iterable[CriterionUse]) -> Suite:
    return Suite(
        key=NOWHERE,
        eval_set=EvalSet(eval_set_id=NOWHERE, cases=()),
        criteria=tuple(uses),
        criteria_source=CriteriaSource(origin=ConfigOrigin.DEFAULTS),
        agent=AgentUse(driver=""),
    )


def ask(
    items: Sequence[LabelledItem], panel: VotingPanel, *, deviations: Deviations
) -> list[LabelledVerdict]:
    """The judge's verdicts in the items' order; what is asked about several times is asked once.
    Ctrl-C waits for no judge."""
    services = CriterionServices(deviations=deviations, judge=panel)
    with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="calibrate") as pool:
        grades: dict[str, Future[Grade]] = {}
        try:
            for item in items:
                if _address(item) not in grades:
                    grades[_address(item)] = pool.submit(_grade, item, services)
            futures.wait(grades.values())
        except BaseException:
            panel.end()  # leaving this block waits for all threads
            raise
    return [evidence.verdict_of(item, grades[_address(item)].result()) for item in items]


def _address(item: LabelledItem) -> str:
    """Equal for labels that one grade answers."""
    view = item.evidence
    return fingerprints.digest(
        [
            item.use.name,
            dict(item.use.options),
            repr((view.actual, view.expected, view.case.rubrics)),
        ]
    )


def _grade(item: LabelledItem, services: CriterionServices) -> Grade:
    """The grade as a run would give it, behind the same wall."""
    view = item.evidence
    use = item.use
    key = TrialKey(suite=NOWHERE, case_id=view.case.case_id)
    outcome = Transcript(
        invocations=view.actual, final_state=view.final_state, ended_by=view.ended_by
    )
    task = Task(suite=_suite([use]), case=view.case, key=key)
    graded = session.grade(
        Trial(key=key, outcome=outcome), task, {use.name: criteria.build(use, services)}
    )
    return graded.grades[use.name]


def insist(problems: Sequence[Problem]) -> None:
    """Raise ConfigError with all problems if one is an error."""
    if errors_in(problems):
        raise ConfigError.collected(problems)


def _from_results(read: LabelsReading, path: Path) -> Judged:
    verdicts, problems = evidence.find_verdicts(read.labels, file.read_results(path))
    insist([*read.problems, *problems])
    notes = evidence.other_prompts(verdicts)
    elsewhere = sum(label.line.trial_key is None for label in read.labels)
    if elsewhere:
        lines = words.counted(elsewhere, "label has", "labels have")
        notes.insert(
            0, f"{lines} no `suite` and `case`: skipped; omit --results to ask the judge about them"
        )
    return Judged(verdicts=verdicts, notes=tuple(notes), problems=tuple(problems))
