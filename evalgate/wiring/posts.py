"""What a pull request is told: under which names, with which conclusion, in which words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evalgate.github import checks, layout, progress
from evalgate.github.checks import Annotation, Conclusion, Level, Output
from evalgate.github.layout import Section
from evalgate.model import Report, VerdictKind
from evalgate.reports import comment as comment_report
from evalgate.reports import view, wording
from evalgate.reports.view import Remark
from evalgate.settings import Settings
from evalgate.text import markdown, plain

WEIGHTS = {VerdictKind.PASS: 0, VerdictKind.INCONCLUSIVE: 1, VerdictKind.NOT_MEASURED: 2, VerdictKind.FAIL: 3}
NO_VERDICT = 4
"""The weight of a section that says why there is no verdict: nothing is more important."""
_TITLE_WIDTH = 200
_REASON_WIDTH = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Who speaks: the names by which several gates of one pull request are told apart, and this run of theirs."""

    name: str = ""
    workflow: str = ""
    job: str = ""
    run: int = 0
    address: str = ""
    revision: str = ""

    @property
    def key(self) -> str:
        """Its section in the comment. Jobs of a matrix have one name in a workflow: they need the setting `name`."""
        return layout.key_of(self.name) if self.name else layout.key_of(self.workflow, self.job)

    @property
    def title(self) -> str:
        """What stands above its section, where there are several."""
        return self.name or self.job or "evalgate"

    @property
    def check_name(self) -> str:
        """Its check run: what branch protection asks for."""
        return f"{checks.NAME}: {self.name}" if self.name else checks.NAME


def job_of(environ: Mapping[str, str], settings: Settings, *, address: str, head_sha: str) -> Job:
    """The job that a runner's environment describes."""
    run = environ.get("GITHUB_RUN_ID", "")
    return Job(
        name=settings.name,
        workflow=environ.get("GITHUB_WORKFLOW", ""),
        job=environ.get("GITHUB_JOB", ""),
        run=int(run) if run.isascii() and run.isdigit() else 0,
        address=address,
        revision=head_sha[:7],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A verdict, ready to be posted. `create`: whether a comment is to be made where there is none."""

    conclusion: Conclusion
    output: Output
    annotations: tuple[Annotation, ...]
    section: Section
    create: bool


def decided(job: Job, report: Report, *, comment: str) -> Decided:
    """What is posted of a report, rendered while its conversations can be read; `comment`: the setting."""
    head, rest = comment_report.render_head(report), comment_report.render_rest(report)
    headline = wording.headline(report.verdict) if report.run.complete else "cancelled"
    title = plain.one_line(f"{headline}: {report.verdict.reason}")
    return Decided(
        conclusion=conclusion_of(report),
        output=Output(title=plain.clip_end(title, _TITLE_WIDTH), summary=[head], text=[rest]),
        annotations=tuple(_annotation(each) for each in view.remarks(report)),
        section=_section(job, headline=head, details=rest, weight=WEIGHTS[report.verdict.kind]),
        create=is_worth_a_comment(report, comment),
    )


def begun() -> Output:
    """The check run before anything is known."""
    return Output(title="in progress", summary=["The gate is running."])


def under_way(done: int, total: int) -> Output:
    """The check run of a long run."""
    return Output(title=f"in progress, {done:,}/{total:,}", summary=[progress.render_progress(done, total)])


def undecided(reason: str) -> Output:
    """The check run of a run that came to no verdict."""
    return Output(title=plain.clip_end(plain.one_line(f"no verdict: {reason}"), _TITLE_WIDTH), summary=[_why(reason)])


def section_under_way(job: Job, done: int, total: int) -> Section:
    """The comment of a long run."""
    return _section(job, headline=progress.render_progress(done, total))


def section_undecided(job: Job, reason: str) -> Section:
    """The comment of a run that came to no verdict: what an earlier run said does not stand any more."""
    log = f" See the log of {markdown.link('this workflow run', job.address)}." if job.address else ""
    return _section(job, headline=_why(reason) + log, weight=NO_VERDICT)


def is_worth_a_comment(report: Report, when: str) -> bool:
    """Whether a comment is to be made where there is none; one that is there is always brought up to date.

    `changes`: something turned, failed or could not be measured, or the change lowers its own bar. A run that was
    cancelled makes none: mostly a newer push did that, and its own run will speak.
    """
    if not report.run.complete:
        return False
    failed = report.verdict.kind is not VerdictKind.PASS
    if when == "always":
        return True
    if when == "failures":
        return failed
    comparison = report.comparison
    turned = comparison is not None and (
        bool(comparison.loosened) or any(case.broken or case.fixed for case in comparison.cases)
    )
    return when == "changes" and (failed or turned)


def conclusion_of(report: Report) -> Conclusion:
    """How the check run ends: what the policy lets through never blocks a required check."""
    verdict = report.verdict
    if not report.run.complete:
        return Conclusion.CANCELLED
    if verdict.kind is VerdictKind.PASS:
        return Conclusion.SUCCESS
    if not verdict.blocks:
        return Conclusion.NEUTRAL
    return Conclusion.ACTION_REQUIRED if verdict.blocked_by is VerdictKind.NOT_MEASURED else Conclusion.FAILURE


def _section(job: Job, *, headline: str, details: str = "", weight: int = 0) -> Section:
    return Section(
        key=job.key,
        title=job.title,
        headline=headline,
        details=details,
        weight=weight,
        run=job.run,
        revision=job.revision,
    )


def _why(reason: str) -> str:
    said = markdown.prose(plain.clip_end(plain.one_line(reason), _REASON_WIDTH))
    return markdown.alert("CAUTION", f"**No verdict**: {said}")


def _annotation(remark: Remark) -> Annotation:
    level = Level.FAILURE if remark.level is view.Level.ERROR else Level.WARNING
    return Annotation(path=remark.file, line=remark.line or 1, message=remark.message, title=remark.title, level=level)
