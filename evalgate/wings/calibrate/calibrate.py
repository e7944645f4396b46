"""`evalgate calibrate`: judge-human agreement, locally or in a scheduled workflow. Reads labels,
asks the judge about the same texts, and computes the agreement."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

from evalgate import __version__, cli, criteria
from evalgate.cli import commands
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.criteria import judges
from evalgate.criteria.base import CriterionServices
from evalgate.discovery import agents, discover, walk
from evalgate.errors import (
    ConfigError,
    ExitCode,
    NothingToDo,
    Problem,
    UnavailableError,
    errors_in,
)
from evalgate.formats import fingerprints
from evalgate.github import forks
from evalgate.judges.panel import VotingPanel
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
    Suite,
    Suites,
)
from evalgate.model.deviations import Deviations
from evalgate.model.run import total_of
from evalgate.results import file, output
from evalgate.runner import session
from evalgate.text import plain, words
from evalgate.values import grouped
from . import agreement, labels
from .labels import LabelledItem, LabelledVerdict, LabelsReading

MAX_THREADS = 16
SEED = 0
UNUSED_SUITE = "labels"
"""Key of the suite of criteria that no suite of the repository uses."""
FILE_NAME = "calibration.json"
RESULTS = "results.json"
SETTINGS = ("root", "config", "criteria", "adk_compat", "output", "cache", "debug")


@click.command("calibrate")
@commands.options(*SETTINGS)
@click.option(
    "--conversations",
    metavar="FILE",
    help="The results.json that the labels refer to. [default: the last run's]",
)
@click.option(
    "--write",
    "written",
    metavar="FILE",
    help=f"Where to write the calibration. [default: `judge: calibration` of evalgate.yml, else {FILE_NAME}]",
)
@click.option(
    "--fail-under-kappa",
    type=click.FloatRange(-1, 1),
    metavar="NUMBER",
    help="Exit with code 1 below this kappa.",
)
@click.option(
    "--draft",
    is_flag=True,
    help="Write LABELS as a template to fill in, from the run in --conversations, without the judge's verdicts.",
)
@click.option(
    "--most",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Lines per criterion in a template.",
)
@click.argument("labels_path", metavar="LABELS")
@cli.ends
def command(labels_path: str, **values: Any) -> int:
    """Compare the judge's verdicts with the human labels in LABELS, one JSON object per line
    (docs/calibration.md)."""
    settings = commands.settings_of(values)
    results = _path(values["conversations"]) or settings.root / settings.output / RESULTS
    if values["draft"]:
        return _draft(Path(labels_path), results, most=values["most"], seed=settings.seed)
    output_path = _path(values["written"]) or settings.root / (
        settings.gate_file.judge.calibration or FILE_NAME
    )
    context = commands.context_of(settings)
    labels_file = Path(labels_path).absolute()
    is_inside = labels_file.is_relative_to(settings.root)
    shown_file = labels_file.relative_to(settings.root) if is_inside else labels_file
    reading = read_labels(labels_file, shown_as=shown_file.as_posix())
    verdicts, notes, judge_uses = _ask(settings, context, reading, results)
    calibration = Calibration(
        evalgate=__version__,
        made_at=context.moment.isoformat(timespec="seconds"),
        labels_file=shown_file.as_posix(),
        criteria=calibrations_of(verdicts),
        seed=SEED,
        draws=agreement.DRAWS,
    )
    cli.show_problems(tuple(reading.problems))
    click.echo(agreement.render(calibration, notes=notes), nl=False)
    if judge_uses:
        total = total_of(judge_uses)
        calls = words.counted(total.calls, "judge call")
        cost = "" if total.cost_usd is None else f", ${total.cost_usd:.4f}"
        click.echo(f"\n{calls}, {total.cached:,} read from the cache{cost}")
    output.save(output_path, [agreement.render_file(calibration)], shown_as=str(output_path))
    click.echo(f"wrote {os.path.relpath(output_path)}")
    min_kappa = values["fail_under_kappa"]
    if min_kappa is None:
        return ExitCode.PASS
    exit_code = ExitCode.PASS
    for criterion in calibration.criteria:
        kappa = criterion.kappa
        if kappa is not None and kappa.value >= min_kappa:
            continue
        exit_code = ExitCode.FAIL
        score = kappa and f"is {words.score(kappa.value, beside=min_kappa)}"
        name = plain.label(criterion.criterion, 80)
        minimum = f"at least {words.threshold(min_kappa)} is required"
        message = f"{name}: kappa {score or 'cannot be computed'}; {minimum}"
        click.secho(message, fg="red", err=True)
    return exit_code


def _path(name: str | None) -> Path | None:
    return Path(name).absolute() if name else None


def _draft(path: Path, results: Path, *, most: int, seed: int) -> ExitCode:
    """Write a template for labels of a run."""
    if path.exists():
        raise ConfigError(f"{path} exists already", hint="Choose another file name.")
    lines = labels.draft(file.read_results(results), most=most, seed=seed)
    if not lines:
        raise NothingToDo(f"{os.path.relpath(results)} has no verdicts to label")
    output.save(path, [f"{line}\n" for line in lines], shown_as=str(path))
    click.echo(
        f"wrote {words.counted(len(lines), 'line')}: fill in each `label`, then `evalgate calibrate {path}`"
    )
    return ExitCode.PASS


def read_labels(path: Path, *, shown_as: str) -> LabelsReading:
    """Read a file of labels. Raises ConfigError if it cannot be read, NothingToDo without
    labels."""
    text = plain.decode(walk.read_user_file(path, label=shown_as), file=shown_as)
    if isinstance(text, Problem):
        raise ConfigError.collected([text])
    reading = labels.parse_labels(text, file=shown_as)
    if not reading.labels and not errors_in(reading.problems):
        unlabelled = words.counted(reading.unlabelled, "line has", "lines have")
        detail = f": {unlabelled} an empty `label`" if reading.unlabelled else ""
        raise NothingToDo(f"{shown_as} has no labels{detail}")
    return reading


def calibrations_of(verdicts: Sequence[LabelledVerdict]) -> tuple[CriterionCalibration, ...]:
    """The agreement for each judge of a criterion. Raises UnavailableError if the judge decided
    nothing."""
    # a judge's config is unhashable
    groups = grouped((repr(verdict.criterion_judge), verdict) for verdict in verdicts)
    calibrations = [
        agreement.calibrate(group[0].criterion_judge, group, seed=SEED) for group in groups.values()
    ]
    if not any(criterion.matrix.total for criterion in calibrations):
        reason = next((verdict.message for verdict in verdicts if verdict.message), "")
        raise UnavailableError(
            f"the judge decided none of {words.counted(len(verdicts), 'label')}: {reason}"
        )
    return tuple(calibrations)


def _ask(
    settings: Settings, context: Context, reading: LabelsReading, conversations: Path
) -> tuple[list[LabelledVerdict], list[str], Sequence[JudgeUse]]:
    """The judge's verdicts on the labelled evidence, notes for the reader of the calibration, and
    the cost of the judge. Raises ConfigError with all problems, and in a
    run for a change."""
    forks.refuse_change(context.environ, "evalgate calibrate")
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
    labelled_suites = [_suite(uses_by_digest.values())]
    environ = context.environ
    raise_errors(judges.missing(labelled_suites, judges.defaults_of(settings), environ))
    with judges.open_panel(
        settings, labelled_suites, environ=environ, cache=context.cache, say=context.say
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
        return ask(items, panel, deviations=settings.deviations), notes, panel.uses()


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
