"""A whole run, from the settings to the report: the one place that tells the story."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from evalgate import __version__, errors, reports
from evalgate.agents.tools import toolbox
from evalgate.baseline import base as baseline_base, quarantine, rules as baseline_rules, settings as baseline_settings
from evalgate.baseline.base import Base
from evalgate.baseline.rules import Rules
from evalgate.comparison import verdict as comparison_verdict
from evalgate.config import places
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.config.variables import AgentVariables
from evalgate.discovery import project as discovery_project
from evalgate.errors import ConfigError, ExitCode, Place, Problem, Severity, UnavailableError
from evalgate.formats import FORMATS, fingerprints
from evalgate.gate import earlier, judges, measure, prepare
from evalgate.github import events, forks
from evalgate.model import (
    BaseSource,
    Book,
    CaseKey,
    CaseVerdict,
    Comparison,
    Edits,
    PastCase,
    Policy,
    Report,
    RuleBook,
    Run,
    Trend,
    Verdict,
    VerdictKind,
)
from evalgate.reports import edits as reports_edits, sentences
from evalgate.results import (
    file as results_file,
    history as results_history,
    kept,
    output,
    shards,
)
from evalgate.results.file import RawOutcomes
from evalgate.results.history import History
from evalgate.results.journal import Journal
from evalgate.results.output import BASE_RESULTS, RESULTS
from evalgate.system import git, redact
from evalgate.text import words
from evalgate.values import frozen_dataclass

NAME_WIDTH = 80
"""Of a criterion that drifted."""
Write: TypeAlias = Callable[[Iterable[Any], Path, Report], tuple[dict[str, str], tuple[Problem, ...]]]


def run(settings: Settings, context: Context) -> Report:
    """Discover, measure, compare, decide, report.

    Raises ConfigError where the repository or the base's rules forbid a run, NothingToDo where there is nothing to
    evaluate, UnavailableError where a journal cannot be written: everything that was measured until then is in it.
    """
    forks.refuse_target(context.environ)
    keeps = _keeps(settings, context)
    is_own = context.keep and context.is_attended  # parts too: what is joined says what they are of
    commit, dirty = git.state_of(settings.root, context.environ) if is_own else (context.commit, None)
    project = prepare.insist(prepare.prepare(settings, environ=context.environ), strict=settings.strict)
    context.show(project.problems)
    with ExitStack() as stack:
        base, ruling = stack.enter_context(baseline_base.opened(settings, project.suites, context))
        rules = baseline_rules.of(settings, project.suites, ruling, context)
        insist(rules, settings, context)
        asking = discovery_project.asking(rules.settings, rules.suites, context.environ)
        keys = baseline_settings.judge_keys(
            settings, rules.settings, rules.suites, ruling, context, asked_with=asking.environ
        )
        seen = AgentVariables.of(rules.settings, context, keys)
        told = (
            *prepare.tell_keys(seen, asking),
            *prepare.tell_token(settings.root, context),
            *prepare.tell_isolation(context),
        )
        # what is on the base branch already has its own stores
        keeping = settings if context.on_base_branch else rules.settings
        history = stack.enter_context(results_history.opened(keeping, context))
        rules, held = _of_this_part(rules, settings, ruling, context, history)
        # where what is measured is kept as it comes: head's, and the base's where anything of it is measured
        names = earlier.JOURNALS[: 1 if base is None or base.problem else 2]
        take_out = redact.redactor_of_files({**context.environ, **asking.environ})
        prints = fingerprints.CaseFingerprints()
        moved = results_history.drifted_at(history.past)
        opening = earlier.opened(rules, base, context, is_fresh=history.is_wanted, moved=moved)
        known = stack.enter_context(opening)
        journals = [
            stack.enter_context(journal) for journal in _journals(names, rules.settings, context, take_out=take_out)
        ]
        opened = measure.opened(
            rules, base, context, journals, asking=asking.environ, judge_keys=keys, known=known, prints=prints
        )
        with opened as session, known.kept_after(session, context):
            head, then, comparisons, problems = measure.measure(
                session, rules, base, known, is_attended=context.is_attended
            )
        problems = (*told, *history.problems, *held, *problems)
        write = _keeper(settings, context, take_out) if keeps else None
        report = decided(
            replace(head, commit=commit, dirty=dirty),
            comparisons,
            rules,
            context,
            problems=(*drift_of(history, head, rules), *project.problems, *rules.problems, *problems),
            trends=history.trends(head),
            past={**history.of_cases(), **(kept.of_cases(settings.root) if keeps else {})},
        )
        report = conclude(report, then, rules, context, outcomes=journals, write=write)
        context.present(report)
        with suppress(UnavailableError):  # the reports are written: nothing is lost with this
            for journal in journals if head.complete else ():
                journal.finish()
        return history.keep(report)


def _of_this_part(
    rules: Rules, settings: Settings, ruling: Base | None, context: Context, history: History
) -> tuple[Rules, Sequence[Problem]]:
    """The rules for the suites of this shard, with the cases that are quarantined and those that the change touches;
    and what is wrong with a quarantine."""
    shard = shards.of(rules.settings, rules.suites)
    suites = rules.suites if shard is None else shards.own(rules.suites, shard)
    held = quarantine.in_force(settings, suites, ruling, context, past=history.past)
    touched = frozenset() if context.on_base_branch else quarantine.touched(suites, ruling)
    own = replace(rules, suites=suites, shard=shard, quarantined=held.cases, touched=touched)
    return own, held.problems


def drift_of(history: History, head: Run, rules: Rules) -> Iterator[Problem]:
    """That the provider's model moved, where the history of base runs shows it; every reader must know."""
    found = None if rules.shard is not None else history.drift(head, deviations=rules.settings.deviations)
    if found is None:
        return
    does = f"passes {words.percent(found.after)} instead of {words.percent(found.before)} of runs"
    message = (
        f"since {found.since[:10]} the unchanged agent of the base branch {does} ({words.evidence(found.evidence)})"
    )
    hint = "The model moved, or a judge or a service, and not this change. Results from before are not compared with."
    yield errors.warning("provider-drift", message, hint=hint)


def insist(rules: Rules, own: Settings, context: Context) -> None:
    """Raises ConfigError where other settings than head's `own` decide, and ask for what is not there: a judge's key, a
    calibration."""
    settings = rules.settings
    if settings is own:
        return
    problems = (
        *prepare.unready(settings, rules.suites, environ=context.environ),
        *toolbox.check(settings, rules.suites),
    )
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        context.say("a key or file that the base's rules need is missing")
        context.show(rules.problems)
        raise ConfigError.collected(errors)


def _keeps(settings: Settings, context: Context) -> bool:
    """Whether the run is kept, and continued where it was interrupted. A shard is a part of something else."""
    is_wanted = context.keep and context.is_attended and not settings.shard
    return is_wanted and not places.why_not(settings.root, kept.FOLDER, trusted=True)


def _keeper(settings: Settings, context: Context, take_out: Callable[[str], str]) -> Write:
    return partial(
        kept.write,
        root=settings.root,
        now=context.now,
        is_selected=bool(settings.paths or settings.grep),
        redact=lambda text: reports.without(text, take_out),
    )


def _journals(
    names: Sequence[str], settings: Settings, context: Context, *, take_out: Callable[[str], str]
) -> Iterator[Journal]:
    """Where what is measured is kept, as it comes. Raises UnavailableError."""
    for name in names:
        path = settings.root / settings.output / name
        why = places.why_not(settings.root, f"{settings.output}/{name}", trusted=True)
        if why or (path.is_symlink() and not path.resolve().is_relative_to(path.parent.resolve())):
            why = why or "is a symbolic link to another folder"
            raise UnavailableError(f"the journal {path} {why}", hint="Remove it, or give another folder as `output`.")
        about = {"evalgate": __version__, "started_at": context.now.isoformat(timespec="seconds")}
        run = {"workflow_run": context.workflow_run} if context.workflow_run else {}
        yield Journal.create(path, about={**about, **run}, redact=take_out)


def decided(
    head: Run,
    comparisons: Sequence[Comparison | None],
    rules: Rules,
    context: Context,
    *,
    problems: Sequence[Problem],
    trends: tuple[Trend, ...] = (),
    past: Mapping[CaseKey, tuple[PastCase, ...]] | None = None,
    was_run: bool = True,
) -> Report:
    """The report, of which nothing is written yet: by the change's rule book, or by the base's where the worse of both
    counts.

    `comparisons`: one for each book. `was_run`: by this command, which makes the reruns.
    """
    settings = rules.settings
    root = events.root_of(settings.root, context.links)
    head = replace(head, commit=head.commit or context.commit, root=root, workflow_run=context.workflow_run)
    decisions = [
        _decision(head, book, comparison, rules, was_run=was_run)
        for book, comparison in zip(rules.books, comparisons, strict=True)
    ]
    edits = _deciding(rules.edits, [decision.verdict for decision in decisions])
    decision = decisions[0]
    if rules.is_both and decisions[-1].severity < decision.severity:
        decision, edits = decisions[-1], replace(edits, by_base=True)
    relaxed = (reports_edits.problem(edits),) if edits.decide and not decision.verdict.blocks else ()
    # once each: the parts of a plan have told their own
    known = tuple(dict.fromkeys((*problems, *(() if was_run else decision.problems), *relaxed)))
    return Report(
        run=decision.run,
        verdict=decision.verdict,
        policy=decision.policy,
        comparison=decision.comparison,
        edits=edits,
        trends=trends,
        past=past or {},
        judged=tuple(judge for row in FORMATS.values() for judge in row.judged(settings, head.suites)),
        asked=judges.asked(head.suites, settings),
        problems=known if rules.shard is None else (shards.note(rules.shard), *known),
        links=context.links,
        reproduce=context.reproduce,
        version=__version__,
        exit_code=exit_code_of(head, decision.verdict),
        comment=settings.comment,
        check_run=settings.check_run,
    )


@frozen_dataclass
class _Decision:
    """What one rule book says."""

    run: Run
    policy: Policy
    comparison: Comparison | None
    verdict: Verdict
    problems: Sequence[Problem]

    @property
    def severity(self) -> int:
        """The smaller, the worse."""
        kinds = comparison_verdict.SEVERITY
        return kinds.index(self.verdict.blocked_by) if self.verdict.blocked_by else len(kinds)


def _decision(head: Run, book: RuleBook, comparison: Comparison | None, rules: Rules, *, was_run: bool) -> _Decision:
    run = book.applied(head)
    policy = book.policy if rules.shard is None else replace(book.policy, fail_on=frozenset())
    bets: Book | None = None
    decided: Mapping[CaseKey, CaseVerdict] = {}
    lacking: Sequence[Problem] = ()
    if not (was_run and comparison is not None and comparison.base is not None):  # else the comparison has them
        bets, decided, lacking = book_of(run, comparison, policy=policy, shown=rules.quarantined)
    verdict = comparison_verdict.decide(
        run, policy, comparison=comparison, unreliable=rules.quarantined, book=bets, decided=decided
    )
    verdict = sentences.told(verdict, run, comparison, policy)
    return _Decision(run=run, policy=policy, comparison=comparison, verdict=verdict, problems=lacking)


def _deciding(edits: Edits, verdicts: Sequence[Verdict]) -> Edits:
    """The edits, and whether by one rule book alone the change passes. What the base asks and nobody asked is no
    pass."""
    passes = [not verdict.blocks for verdict in verdicts]
    decide = len(set(passes)) > 1 or bool(edits.unasked and passes[0])
    return replace(edits, decide=decide or (len(verdicts) == 1 and edits.decide))


def book_of(
    head: Run, comparison: Comparison | None, *, policy: Policy, shown: Collection[CaseKey]
) -> tuple[Book, Mapping[CaseKey, CaseVerdict], Sequence[Problem]]:
    """The bets of a run, its cases, and a warning where files lack fresh runs that failures ask for."""
    compared = comparison if comparison is not None and comparison.base is not None else None
    sides = measure.sides_of(
        head,
        compared.base if compared else None,
        policy=policy,
        unpaired={case.key: case.status for case in compared.cases} if compared else {},
        shown=shown,
        unchanged=compared.unchanged if compared else (),
        is_together=compared is None or compared.origin.source is BaseSource.RERUN,
    )
    (found, reruns), verdicts = sides.settled, sides.both[0].verdicts
    lacking = {rerun.key for rerun in reruns}
    if not lacking:
        return found, verdicts, ()
    message = f"the results lack reruns of {words.counted(len(lacking), 'failure')}, so a flaky case may block"
    hint = "`evalgate run` makes them, `threshold: all` needs none."
    return found, verdicts, (errors.warning("fresh-runs-missing", message, hint=hint),)


def conclude(
    report: Report,
    base: Run | None,
    rules: Rules,
    context: Context,
    *,
    outcomes: Sequence[RawOutcomes] = (),
    write: Write | None = None,
) -> Report:
    """Write every report on what was `decided`; what could not be written is among the report's problems.

    `outcomes`: where head's, and the base's, lie as they were written; without them there are results already, and none
    are written. `write`: what else than `output.write_all` writes the files: it keeps a run.
    """
    settings = rules.settings
    rendered = {name: row.render(report) for name, row in reports.RENDERERS.items()}
    take_out = redact.redactor_of_files(context.environ)
    if write is None and take_out is not str:  # what is kept has its own way
        rendered = {name: reports.without(text, take_out) for name, text in rendered.items()}
    texts = [(name, reports.RENDERERS[name].file_name, iter([text])) for name, text in rendered.items() if text]
    texts += _results(report, base, outcomes)
    files: Mapping[str, str] = {}
    why = places.why_not(settings.root, settings.output, trusted=True)  # an agent may have put a link there meanwhile
    to = settings.root / settings.output
    if why:
        message = f"no report is written: the path {why}"
        unwritten: tuple[Problem, ...] = (errors.warning("not-written", message, Place(file=settings.output)),)
    else:
        files, unwritten = output.write_all(texts, to) if write is None else write(texts, to, report)
    problems = (*report.problems, *unwritten)
    return replace(report, files=files, summary=rendered["summary"], problems=problems)


def _results(
    report: Report, base: Run | None, outcomes: Sequence[RawOutcomes]
) -> Iterator[tuple[str, str, Iterator[str]]]:
    """results.json; and the base's run in a file of its own, with the threshold gate's word on it."""
    if outcomes:
        causes = reports.causes_of(report)
        yield "results", RESULTS, results_file.render_results(report, outcomes=outcomes[0], causes=causes)
    if base is not None and len(outcomes) > 1:
        known = report.comparison if report.comparison is not None and report.comparison.base is base else None
        decided = {} if known is None else known.base_decided
        verdict = comparison_verdict.decide(base, report.policy, comparison=None, decided=decided)
        verdict = sentences.told(verdict, base, None, report.policy)
        own = Report(
            run=replace(base, root=report.run.root, workflow_run=report.run.workflow_run),
            verdict=verdict,
            policy=report.policy,
            version=report.version,
            exit_code=exit_code_of(base, verdict),
        )
        yield "base", BASE_RESULTS, results_file.render_results(own, outcomes=outcomes[1])


def exit_code_of(run: Run, verdict: Verdict) -> ExitCode:
    """What the process says: 0 unless the policy blocks; 1 for a fail that blocks, 3 where what blocks is no
    verdict, also beside a fail that does not block; 130 for a run that was interrupted. A shard, which decides
    nothing, says 3 where its agent never ran at all."""
    if not run.complete:
        return ExitCode.INTERRUPTED
    if run.shard is not None and run.trials and all(trial.failure is not None for trial in run.trials):
        return ExitCode.NOT_MEASURED
    if not verdict.blocks:
        return ExitCode.PASS
    return ExitCode.FAIL if verdict.blocked_by is VerdictKind.FAIL else ExitCode.NOT_MEASURED
