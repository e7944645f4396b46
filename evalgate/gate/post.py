"""Results from a pull request's own run, posted by a trusted workflow that runs none of its code
(`mode: post`).

The API finds the pull request by the commit of the finished run. Only numbers and texts of the
artifact are used: the verdict is computed again, and every text is escaped as in any report."""

from __future__ import annotations

import datetime as dt

from evalgate import __version__, reports
from evalgate.baseline import failures, rules as baseline_rules
from evalgate.comparison import pairing
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, Problem, UnavailableError
from evalgate.github import artifacts, forks, publish
from evalgate.github.check_run import Conclusion, Output
from evalgate.github.client import Client, Pull
from evalgate.github.comment import Job
from evalgate.github.events import EventContext, FinishedRun
from evalgate.github.publish import Decided, Posting
from evalgate.model import Display, KnownFacts, Links, Report, RuleBook
from evalgate.results import file, run_parts
from evalgate.results.file import Stored
from evalgate.results.output import BASE_RESULTS, RESULTS
from evalgate.text import markdown
from evalgate.values import frozen_dataclass
from . import decision

NOT_RUN = frozenset({"skipped", "cancelled", "action_required", "stale"})
"""Conclusions of runs without measurements."""

MOST_PROBLEMS = 1_000
"""Of those that an unverified artifact lists; the others are left out."""

UNVERIFIED_NOTE = (
    "These results come from a run of the pull request's own code and workflow, without secrets. They are "
    "unverified: produced by the pull request's own workflow."
)
"""At the top of the summary and the comment for a fork's pull request."""


@frozen_dataclass
class PostOutcome:
    """The outcome of `mode: post`."""

    report: Report | None = None
    """None if nothing was posted."""
    reason: str = ""
    """Why nothing was posted."""
    problems: tuple[Problem, ...] = ()
    """One for each post that failed."""
    summary: str = ""
    """For the job's summary."""
    has_failed: bool = False
    """Every requested post failed."""


def post(
    settings: Settings, event: EventContext, client: Client, *, job: Job, links: Links
) -> PostOutcome:
    """Find the pull request and the artifact of the finished run, decide on its results, and post.

    `links`: to the commit and the finished run. Raises ConfigError if the artifact does not contain
    results of evalgate, UnavailableError if GitHub fails."""
    finished = event.run
    if finished is None or not event.head.sha:
        raise ConfigError("the event has no workflow run")
    if event.repository.lower() != client.repository.lower():
        raise ConfigError(
            f"the finished run belongs to {event.repository}, but this workflow to {client.repository}"
        )
    if finished.conclusion in NOT_RUN:
        return PostOutcome(
            reason=f"the finished run has no results: it was {finished.conclusion.replace('_', ' ')}"
        )
    pulls = forks.find_by_head(client, event)
    if not pulls:
        return PostOutcome(
            reason=f"no open pull request has the head commit {event.head.sha[:7]}: it was closed or updated"
        )
    if len(pulls) > 1:
        numbers = ", ".join(f"#{pull.number}" for pull in pulls)
        raise UnavailableError(
            f"several pull requests have the head commit {event.head.sha[:7]}: {numbers}; nothing is posted"
        )
    head, base = _fetch_results(settings, event, client, finished=finished)
    report = decide(settings, head, base, links=links)
    pull = pulls[0]
    lead_text = markdown.alert("IMPORTANT", UNVERIFIED_NOTE) if pull.is_fork else ""
    posting = Posting(
        client,
        job,
        settings,
        head_sha=pull.head.sha,
        number=pull.number,
        suffix=" (fork, unverified)" if pull.is_fork else "",
    )
    decided = publish.decided(report, comment_rule=settings.comment)
    problems = posting.post(_unverified(decided, pull, lead=lead_text))
    channel_count = (settings.comment != "off") + settings.check_run
    summary = "\n\n".join(part for part in (lead_text, reports.render_summary(report)) if part)
    return PostOutcome(
        report=report,
        problems=problems,
        summary=summary,
        has_failed=0 < channel_count <= len(problems),  # a problem for each channel
    )


def decide(settings: Settings, head: Stored, base: Stored | None, *, links: Links) -> Report:
    """The report on unverified results, by the settings' policy; their own verdicts are ignored."""
    run = head.with_run(commit=links.commit).run
    settings = settings.with_options(adk_compat=head.deviations.is_adk_compat)
    rules = baseline_rules.in_force(settings, run.suites, None)
    policy = rules.books_on(dt.datetime.now(dt.UTC).date())[0].policy
    base_run = None if base is None else base.run
    # the rules in the artifact are unverified, too; the settings' rules decide here
    comparison = head.comparison and failures.again(
        head.comparison, run, base_run, book=RuleBook(policy=policy)
    )
    scored_criteria = {
        (trial.key.suite, name)
        for trial in run.trials
        for name in trial.grades
        if pairing.value_of(trial, name) is not None
    }
    scored_uses = (
        use
        for suite in run.suites
        for use in suite.criteria
        if (suite.key, use.name) in scored_criteria
    )
    verdict, problems = decision.verdict_of(run, comparison, policy=policy)
    # only the base branch's history shows drift, not an unverified artifact
    stored_problems = (
        problem for problem in head.problems[:MOST_PROBLEMS] if problem.code != "provider-drift"
    )
    judges = decision.criterion_judges(scored_uses, is_stored=True)
    # one policy decided, that of the settings
    edits = head.edits.decided(by_base=False, decide=head.edits.decide)
    return Report(
        run=run,
        verdict=verdict,
        policy=policy,
        comparison=comparison,
        edits=edits,
        problems=(*problems, *stored_problems),
        facts=KnownFacts(criterion_judges=judges),
        display=Display(version=__version__, links=links),
    )


def _fetch_results(
    settings: Settings, event: EventContext, client: Client, *, finished: FinishedRun
) -> tuple[Stored, Stored | None]:
    """The results of head and of the base in the run's artifact. Raises UnavailableError without an
    artifact, ConfigError if it is of another commit or not ours."""
    name = settings.artifact
    candidates = artifacts.list_of_run(client, finished.id, name=name)
    artifact = next((candidate for candidate in candidates if not candidate.expired), None)
    if artifact is None:
        raise UnavailableError(
            f"the finished run has no artifact {name!r}",
            hint="It ended without a report (see its log), or lacks actions/upload-artifact with `if: always()`.",
        )
    sha = (artifact.head_sha or "").lower()
    if sha and sha != event.head.sha:
        raise ConfigError(
            f"the artifact is from commit {sha[:7]}, but the finished run from {event.head.sha[:7]}"
        )
    archive = artifacts.download(client, artifact)
    files = artifacts.extract(archive, names=(RESULTS, BASE_RESULTS))
    if RESULTS not in files:
        raise ConfigError(
            f"the artifact {name!r} has no {RESULTS} at its root",
            hint="It ended without results (see its log), or uploads more than `path: evalgate-report`.",
        )
    run = f"{client.repository}/actions/runs/{finished.id}/attempts/{finished.attempt}"
    results = file.read_untrusted(files[RESULTS], shown_as=RESULTS)
    head = run_parts.of_run(results, run=run, commit=event.head.sha)
    if BASE_RESULTS not in files or head.comparison is None:
        return head, None
    base_results = file.read_untrusted(files[BASE_RESULTS], shown_as=BASE_RESULTS)
    # any commit: the base's is not known here
    return head, run_parts.of_run(base_results, run=run, commit="")


def _unverified(decided: Decided, pull: Pull, *, lead: str) -> Decided:
    """A decision on unverified results. Those of a fork cannot turn a check run green. It has no
    annotations, because their lines are unverified, too."""
    conclusion, output = decided.conclusion, decided.output
    if pull.is_fork:
        conclusion = Conclusion.NEUTRAL if conclusion is Conclusion.SUCCESS else conclusion
        output = Output(
            title=f"unverified: {output.title}",
            summary=f"{lead}\n\n{output.summary}",
            text=output.text,
        )
    return Decided(conclusion=conclusion, output=output, create=decided.create)
