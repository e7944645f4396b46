"""A whole run, from the settings to the report: the one place that tells the story."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from evalgate import __version__, reports
from evalgate.agents.tools import toolbox
from evalgate.baseline import base as baseline_base
from evalgate.baseline import rules as baseline_rules
from evalgate.baseline.rules import Rules
from evalgate.calibration import apply
from evalgate.comparison import verdict as comparison_verdict
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, ExitCode, Problem, Severity
from evalgate.formats import fingerprints
from evalgate.gate import measure, prepare
from evalgate.github import events
from evalgate.model import Comparison, Report, Run, Trend, Verdict, VerdictKind
from evalgate.results import file as results_file
from evalgate.results import history as results_history
from evalgate.results import output, shards
from evalgate.results.file import RawOutcomes
from evalgate.results.journal import Journal
from evalgate.results.output import BASE_RESULTS, RESULTS
from evalgate.text import words

JOURNAL, BASE_JOURNAL = "journal.jsonl", "base-journal.jsonl"


def run(settings: Settings, context: Context) -> Report:
    """Discover, measure, compare, decide, report.

    Raises ConfigError where the repository or the base's rules forbid a run, NothingToDo where there is nothing to
    evaluate, UnavailableError where a journal cannot be written: everything that was measured until then is in it.
    """
    project = prepare.insist(prepare.prepare(settings, environ=context.environ), strict=settings.strict)
    context.show(project.problems)
    with ExitStack() as stack:
        base = stack.enter_context(baseline_base.opened(settings, project.suites, context))
        rules = baseline_rules.of(settings, project.suites, base)
        insist(rules, context)
        shard = shards.of(rules.settings, rules.suites)
        suites = rules.suites if shard is None else shards.own(rules.suites, shard)
        # what is on the base branch already has its own stores
        stores = settings if context.on_base_branch else rules.settings
        renamed = None if base is None else base.project.renamed
        history = stack.enter_context(
            results_history.opened(stores, context, admission=rules.policy.admission, renamed=renamed)
        )
        # quarantined by the history as it was, before agents ran: regressions of these cases do not decide either
        quarantined = history.quarantined(fingerprints.of_cases(suites), rules.policy)
        rules = dataclasses.replace(rules, suites=suites, shard=shard, quarantined=quarantined)
        # where what is measured is kept as it comes: head's, and the base's where anything of it is measured
        names = (JOURNAL,) if base is None or base.problem else (JOURNAL, BASE_JOURNAL)
        journals = [stack.enter_context(_journal(name, rules.settings, context)) for name in names]
        with measure.opened(rules, base, context, journals) as session:
            head, then, comparison, problems = measure.measure(session, rules, base)
        known = (*project.problems, *rules.problems, *history.problems, *problems)
        trends = history.trends(head)
        report = conclude(head, then, comparison, rules, context, problems=known, trends=trends, outcomes=journals)
        context.present(report)
        return history.keep(report)


def insist(rules: Rules, context: Context) -> None:
    """Raises ConfigError where the base's rules decide and ask for what is not there: a judge's key, a calibration."""
    if not rules.by_base:
        return
    settings = rules.settings
    problems = (
        *prepare.unready(settings, rules.suites, environ=context.environ),
        *toolbox.check(settings, rules.suites),
    )
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        context.say("`policy: base`: a key or file required by the base's rules is missing")
        raise ConfigError.collected(errors)


def _journal(name: str, settings: Settings, context: Context) -> Journal:
    path = settings.root / settings.output / name
    if not settings.resume or not path.exists():
        return Journal.create(path, about={"evalgate": __version__})
    journal = Journal.reopen(path)
    if journal.damaged:
        context.say(f"{path}: {words.counted(journal.damaged, 'line')} cannot be read; those runs are repeated")
    return journal


def conclude(
    head: Run,
    base: Run | None,
    comparison: Comparison | None,
    rules: Rules,
    context: Context,
    *,
    problems: Sequence[Problem],
    trends: tuple[Trend, ...] = (),
    outcomes: Sequence[RawOutcomes] = (),
) -> Report:
    """Decide and write every report; what could not be written is among the report's problems.

    `outcomes`: where head's, and the base's, lie as they were written; without them there are results already, and none
    are written.
    """
    settings = rules.settings
    head = dataclasses.replace(
        head, commit=head.commit or context.commit, root=events.root_of(settings.root, context.links)
    )
    policy = rules.policy if rules.shard is None else dataclasses.replace(rules.policy, fail_on=frozenset())
    verdict = comparison_verdict.decide(head, policy, comparison=comparison, unreliable=rules.quarantined)
    report = Report(
        run=head,
        verdict=verdict,
        policy=policy,
        comparison=comparison,
        trends=trends,
        judged=apply.judged(head.suites, settings),
        asked=apply.asked(head.suites, settings),
        problems=tuple(problems) if rules.shard is None else (shards.note(rules.shard), *problems),
        links=context.links,
        reproduce=context.reproduce,
        version=__version__,
        exit_code=exit_code_of(head, verdict),
    )
    texts = [(row.name, row.file_name, iter([row.render(report)])) for row in reports.RENDERERS.values()]
    texts += _results(report, base, outcomes)
    files, late = output.write_all(texts, settings.root / settings.output)
    return dataclasses.replace(report, files=files, problems=(*report.problems, *late))


def _results(
    report: Report, base: Run | None, outcomes: Sequence[RawOutcomes]
) -> Iterator[tuple[str, str, Iterator[str]]]:
    """results.json, and the base's run in a file of its own, with the threshold gate's word on it."""
    if outcomes:
        yield "results", RESULTS, results_file.render_results(report, outcomes=outcomes[0])
    if base is not None and len(outcomes) > 1:
        verdict = comparison_verdict.decide(base, report.policy, comparison=None)
        own = Report(
            run=dataclasses.replace(base, root=report.run.root),
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
