"""`evalgate calibrate`: reads labels, gets the judge's verdicts on them, and computes the
agreement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    Suites,
)
from evalgate.model.deviations import Deviations
from evalgate.results import file
from evalgate.runner import session
from evalgate.text import plain, words
from evalgate.values import Environ, Log, frozen_dataclass, grouped
from . import agreement, labels
from .labels import LabelledItem, LabelledVerdict, LabelsReading

MAX_THREADS = 16
SEED = 0
UNUSED_SUITE = "labels"
"""Key of the suite of criteria that no suite of the repository uses."""


@frozen_dataclass
class JudgeAnswers:
    """The judge's verdicts on the labels."""

    verdicts: Sequence[LabelledVerdict]
    notes: Sequence[str]
    """For the reader of the calibration."""
    problems: tuple[Problem, ...]
    """Warnings about the labels."""
    judge_uses: Sequence[JudgeUse]
    """The cost of the judge."""


def calibrate(
    settings: Settings,
    labels_file: Path,
    *,
    conversations: Path,
    environ: Environ,
    cache: Path,
    say: Log,
) -> tuple[Calibration, JudgeAnswers]:
    """Compare the judge with the labels.

    `conversations`: the results file with the labeled conversations. `cache`: a folder. `say`:
    receives warnings.

    Raises ConfigError with every problem of the labels, NothingToDo without labels,
    UnavailableError if the judge decided nothing."""
    is_inside = labels_file.is_relative_to(settings.root)
    path = labels_file.relative_to(settings.root) if is_inside else labels_file
    display_path = path.as_posix()
    content = walk.read_user_file(labels_file, label=display_path)
    text = plain.decode(content, file=display_path)
    if isinstance(text, Problem):
        raise ConfigError.collected([text])
    reading = labels.parse_labels(text, file=display_path)
    if not reading.labels and not errors_in(reading.problems):
        unlabelled = words.counted(reading.unlabelled, "line has", "lines have")
        detail = f": {unlabelled} an empty `label`" if reading.unlabelled else ""
        raise NothingToDo(f"{display_path} has no labels{detail}")
    answers = _ask(
        settings, reading, conversations=conversations, environ=environ, cache=cache, say=say
    )
    # a judge's config is unhashable
    groups = grouped((repr(verdict.criterion_judge), verdict) for verdict in answers.verdicts)
    calibrations = [
        agreement.calibrate(group[0].criterion_judge, group, seed=SEED) for group in groups.values()
    ]
    if not any(criterion.matrix.total for criterion in calibrations):
        reason = next((verdict.message for verdict in answers.verdicts if verdict.message), "")
        raise UnavailableError(
            f"the judge decided none of {words.counted(len(answers.verdicts), 'label')}: {reason}"
        )
    calibration = Calibration(
        evalgate=__version__,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        labels_file=display_path,
        criteria=tuple(calibrations),
        seed=SEED,
        draws=agreement.DRAWS,
    )
    return calibration, answers


def _ask(
    settings: Settings,
    reading: LabelsReading,
    *,
    conversations: Path,
    environ: Environ,
    cache: Path,
    say: Log,
) -> JudgeAnswers:
    """The judge's verdicts on the labelled evidence. Raises ConfigError with all problems, and in a
    run for a change."""
    forks.refuse_change(environ, "evalgate calibrate")
    label_criteria = {label.line.criterion for label in reading.labels}
    suites, problems = settle_suites(settings, label_criteria)
    needs_results = any(label.evidence is None for label in reading.labels)
    stored = file.read_results(conversations) if needs_results and conversations.exists() else None
    pairs = grouped((use.name, (suite.key, use)) for suite in suites for use in suite.criteria)
    uses = {name: dict(uses_by_suite) for name, uses_by_suite in pairs.items()}
    items, item_problems = labels.find_items(
        reading.labels, uses=uses, stored=stored, deviations=settings.deviations
    )
    raise_errors([*problems, *reading.problems, *item_problems])
    uses_by_digest = {
        fingerprints.digest([item.use.name, dict(item.use.options)]): item.use for item in items
    }
    labelled_suite = _suite(uses_by_digest.values())
    raise_errors(judges.missing([labelled_suite], judges.defaults_of(settings), environ))
    with judges.open_panel(
        settings, [labelled_suite], environ=environ, cache=cache, say=say
    ) as panel:
        if panel is None:
            raise ConfigError(
                "`skip-judged` is set; calibration needs a judge",
                hint="Remove it from evalgate.yml.",
            )
        used_names = dict.fromkeys(
            use.name for suite in suites for use in suite.criteria if labels.labelled_spec(use.name)
        )
        notes = [
            f"`{name}` is used here and has no label"
            for name in used_names
            if name not in label_criteria
        ]
        if reading.unlabelled:
            lines = words.counted(reading.unlabelled, "line has", "lines have")
            notes.append(f"{lines} no label yet")
        return JudgeAnswers(
            verdicts=ask(items, panel, deviations=settings.deviations),
            notes=notes,
            problems=tuple(reading.problems),
            judge_uses=panel.uses(),
        )


def settle_suites(
    settings: Settings, criterion_names: Iterable[str]
) -> tuple[Suites, list[Problem]]:
    """The repository's suites with settled judges, and one suite for the named criteria that they
    do not use."""
    suites, discovery_problems = discover.suites_of_all(settings)
    problems = [
        *settings.problems,
        *(problem for problem in discovery_problems if problem.code not in agents.CODES),
    ]
    if errors_in(problems):
        return (), problems
    used_names = {use.name for suite in suites for use in suite.criteria}
    unused = [criteria.use_by_model(name) for name in sorted(set(criterion_names) - used_names)]
    extra_suites = [_suite(unused)] if unused else []
    return judges.settle_suites([*suites, *extra_suites], judges.defaults_of(settings)), problems


def _suite(uses: Iterable[CriterionUse]) -> Suite:
    return Suite(
        key=UNUSED_SUITE,
        eval_set=EvalSet(eval_set_id=UNUSED_SUITE, cases=()),
        criteria=tuple(uses),
        criteria_source=CriteriaSource(origin=ConfigOrigin.DEFAULTS),
        agent=AgentUse(driver=""),
    )


def ask(
    items: Sequence[LabelledItem], panel: VotingPanel, *, deviations: Deviations
) -> list[LabelledVerdict]:
    """The judge's verdicts in the order of the items. Equal questions are asked once. Ctrl-C does
    not wait for a judge."""
    services = CriterionServices(deviations=deviations, judge=panel)
    keys = []
    for item in items:
        texts = repr((item.evidence.actual, item.evidence.expected, item.evidence.case.rubrics))
        keys.append(fingerprints.digest([item.use.name, dict(item.use.options), texts]))
    with ThreadPoolExecutor(max_workers=MAX_THREADS, thread_name_prefix="calibrate") as pool:
        grades: dict[str, Future[Grade]] = {}
        try:
            for key, item in zip(keys, items, strict=True):
                if key not in grades:
                    criterion = criteria.build(item.use, services)
                    # as in a run, with its error handling
                    grades[key] = pool.submit(
                        session.grade_one, item.use.name, criterion, item.evidence
                    )
            futures.wait(grades.values())
        except BaseException:
            panel.end()  # leaving this block waits for all threads
            raise
    return [
        labels.verdict_of(item, grades[key].result()) for key, item in zip(keys, items, strict=True)
    ]


def raise_errors(problems: Sequence[Problem]) -> None:
    """Raise ConfigError with all problems if one is an error."""
    if errors_in(problems):
        raise ConfigError.collected(problems)
