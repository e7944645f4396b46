"""A whole run, from the settings to the report: the one place that tells the story."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from evalgate import __version__, errors, reports
from evalgate.agents.tools import toolbox
from evalgate.baseline import base as baseline_base
from evalgate.baseline import guarded
from evalgate.baseline import rules as baseline_rules
from evalgate.baseline.rules import Rules
from evalgate.calibration import apply
from evalgate.comparison import confirm
from evalgate.comparison import verdict as comparison_verdict
from evalgate.config import places
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.config.variables import AgentVariables
from evalgate.discovery import project as discovery_project
from evalgate.errors import ConfigError, ExitCode, Place, Problem, Severity, UnavailableError
from evalgate.formats import fingerprints
from evalgate.gate import earlier, measure, prepare
from evalgate.github import events, forks
from evalgate.model import Comparison, Report, Run, Shard, Trend, Verdict, VerdictKind
from evalgate.reports import view
from evalgate.results import file as results_file
from evalgate.results import history as results_history
from evalgate.results import output, shards
from evalgate.results.file import RawOutcomes
from evalgate.results.journal import Journal
from evalgate.results.output import BASE_RESULTS, RESULTS
from evalgate.system import committed
from evalgate.text import plain, words

NAME_WIDTH, NAMED = 80, 5
"""Of a rule: how much of a name is shown, and how many of the cases."""
JOURNAL, BASE_JOURNAL = "journal.jsonl", "base-journal.jsonl"


def run(settings: Settings, context: Context) -> Report:
    """Discover, measure, compare, decide, report.

    Raises ConfigError where the repository or the base's rules forbid a run, NothingToDo where there is nothing to
    evaluate, UnavailableError where a journal cannot be written: everything that was measured until then is in it.
    """
    forks.refuse_target(context.environ)
    project = prepare.insist(prepare.prepare(settings, environ=context.environ), strict=settings.strict)
    context.show(project.problems)
    with ExitStack() as stack:
        base, ruling = stack.enter_context(baseline_base.opened(settings, project.suites, context))
        rules = guarded.applied(baseline_rules.of(settings, project.suites, ruling), ruling, context)
        insist(rules, settings, context)
        asking = discovery_project.asking(rules.settings, rules.suites, context.environ)
        keys = guarded.judge_keys(settings, rules, ruling, context, asked_with=asking.environ)
        told = (
            *prepare.tell_keys(AgentVariables.of(rules.settings, context, keys), asking),
            *prepare.tell_token(settings.root, context),
        )
        shard = shards.of(rules.settings, rules.suites)
        suites = rules.suites if shard is None else shards.own(rules.suites, shard)
        # what is on the base branch already has its own stores
        keeping = settings if context.on_base_branch else rules.settings
        renamed = None if ruling is None else ruling.project.renamed
        history = stack.enter_context(
            results_history.opened(keeping, context, admission=rules.policy.admission, renamed=renamed)
        )
        # quarantined by the history as it was, before agents ran: regressions of these cases do not decide either
        quarantined = history.quarantined(fingerprints.of_cases(suites), rules.policy)
        rules = dataclasses.replace(rules, suites=suites, shard=shard, quarantined=quarantined)
        # where what is measured is kept as it comes: head's, and the base's where anything of it is measured
        names = (JOURNAL,) if base is None or base.problem else (JOURNAL, BASE_JOURNAL)
        journals = [stack.enter_context(_journal(name, rules.settings, context)) for name in names]
        known = stack.enter_context(earlier.opened(rules, base, context, judge_keys=keys, is_fresh=history.is_wanted))
        opened = measure.opened(rules, base, context, journals, asking=asking.environ, judge_keys=keys, tree=known.tree)
        with opened as session, known.kept_after(session, context):
            head, then, comparison, problems = measure.measure(session, rules, base, known)
        problems = (*project.problems, *rules.problems, *told, *history.problems, *problems)
        trends = history.trends(head)
        report = conclude(head, then, comparison, rules, context, problems=problems, trends=trends, outcomes=journals)
        context.present(report)
        return history.keep(report)


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
        by_base = "`policy: base`: a key or file required by the base's rules is missing"
        context.say(by_base if rules.by_base else "a key that the base's evalgate.yml names is missing")
        context.show(rules.problems)
        raise ConfigError.collected(errors)


def _journal(name: str, settings: Settings, context: Context) -> Journal:
    """Raises ConfigError where `resume` would continue what a commit brought along."""
    path = settings.root / settings.output / name
    why = places.why_not(settings.root, f"{settings.output}/{name}", trusted=True)
    if why or (path.is_symlink() and not path.resolve().is_relative_to(path.parent.resolve())):
        why = why or "is a symbolic link to another folder"
        raise UnavailableError(f"the journal {path} {why}", hint="Remove it, or give another folder as `output`.")
    if not settings.resume or not path.exists():
        run = {"workflow_run": context.workflow_run} if context.workflow_run else {}
        return Journal.create(path, about={"evalgate": __version__, **run})
    if not context.is_attended and committed.first_found([path], settings.root, context.environ):
        raise _not_continued(path, "is part of the commit", settings)
    journal = Journal.reopen(path)
    repository = context.workflow_run.partition("/actions/")[0]
    if repository and str(journal.about.get("workflow_run", "")).partition("/actions/")[0] != repository:
        journal.close()
        raise _not_continued(path, f"was not written by a workflow run of {repository}", settings)
    if journal.damaged:
        context.say(f"{path}: {words.counted(journal.damaged, 'line')} cannot be read; those runs are repeated")
    return journal


def _not_continued(path: Path, why: str, settings: Settings) -> ConfigError:
    return ConfigError(
        f"{why}, so --resume does not continue from it",
        where=Place(file=os.path.relpath(path, settings.root)),
        hint=f"Delete it, and add `{settings.output}/` to .gitignore.",
    )


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
    plan: Shard | None = None,
    was_run: bool = True,
) -> Report:
    """Decide and write every report; what could not be written is among the report's problems.

    `outcomes`: where head's, and the base's, lie as they were written; without them there are results already, and none
    are written. `plan`: that of the shards that were joined. `was_run`: by this command, which makes the reruns.
    """
    settings = rules.settings
    root = events.root_of(settings.root, context.links)
    head = dataclasses.replace(head, commit=head.commit or context.commit, root=root, workflow_run=context.workflow_run)
    policy = rules.policy if rules.shard is None else dataclasses.replace(rules.policy, fail_on=frozenset())
    asked = measure.confirmations(head, comparison, policy=policy, unreliable=rules.quarantined, shard=plan)
    if comparison is not None:
        comparison = confirm.settle(comparison, asked, head=head)
    verdict = comparison_verdict.decide(head, policy, comparison=comparison, unreliable=rules.quarantined, asked=asked)
    if not was_run:
        problems = (*problems, *confirm.not_run(asked, head=head, base=base))
    # once each: the parts of a plan have told their own
    known = tuple(dict.fromkeys((*problems, *(_apart(rules) if comparison is None else ()))))
    report = Report(
        run=head,
        verdict=verdict,
        policy=policy,
        comparison=comparison,
        trends=trends,
        judged=apply.judged(head.suites, settings),
        asked=apply.asked(head.suites, settings),
        problems=known if rules.shard is None else (shards.note(rules.shard), *known),
        links=context.links,
        reproduce=context.reproduce,
        version=__version__,
        exit_code=exit_code_of(head, verdict),
    )
    rendered = {name: row.render(report) for name, row in reports.RENDERERS.items()}
    texts = [(name, reports.RENDERERS[name].file_name, iter([text])) for name, text in rendered.items()]
    texts += _results(report, base, outcomes)
    why = places.why_not(settings.root, settings.output, trusted=True)  # an agent may have put a link there meanwhile
    files, unwritten = output.write_all(texts if not why else (), settings.root / settings.output)
    if why:
        unwritten = (
            errors.warning("not-written", f"no report is written: the path {why}", Place(file=settings.output)),
        )
    told = (*report.problems, *unwritten)
    return dataclasses.replace(report, files=files, summary=rendered["summary"], problems=told)


def _apart(rules: Rules) -> Iterator[Problem]:
    """What reports show of the rules beside the base's results, where there are none to be compared with."""
    if rules.by_base:
        message = "the base branch's rules apply (`policy: base`), not this change's"
        yield Problem(severity=Severity.NOTE, code="rules-of-base", message=message)
    lines = view.relaxed_lines(rules.relaxed, mark=lambda text: f"`{plain.label(text, NAME_WIDTH)}`", named=NAMED)
    for line in lines:
        yield Problem(severity=Severity.WARNING, code="relaxed-rule", message=f"relaxed rule: {line.text}")


def _results(
    report: Report, base: Run | None, outcomes: Sequence[RawOutcomes]
) -> Iterator[tuple[str, str, Iterator[str]]]:
    """results.json, and the base's run in a file of its own, with the threshold gate's word on it."""
    if outcomes:
        yield "results", RESULTS, results_file.render_results(report, outcomes=outcomes[0])
    if base is not None and len(outcomes) > 1:
        known = report.comparison if report.comparison is not None and report.comparison.base is base else None
        decided = {} if known is None else known.base_decided
        verdict = comparison_verdict.decide(base, report.policy, comparison=None, decided=decided)
        own = Report(
            run=dataclasses.replace(base, root=report.run.root, workflow_run=report.run.workflow_run),
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
