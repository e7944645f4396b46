"""The decision on a measurement: the verdict by each rule book, the report, and its files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest

from pydantic import ValidationError

from evalgate import __version__, errors, reports
from evalgate.baseline import failures
from evalgate.baseline.rules import Rules
from evalgate.comparison import verdict as comparison_verdict
from evalgate.comparison.book import Sides
from evalgate.config import places
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.criteria import judges
from evalgate.errors import Place, Problem
from evalgate.formats import FORMATS
from evalgate.model import (
    Book,
    CaseKey,
    CaseVerdict,
    Comparison,
    CriterionJudge,
    CriterionUse,
    Display,
    Edits,
    KnownFacts,
    Policy,
    PostSettings,
    Report,
    RuleBook,
    Run,
    Verdict,
    cases_of,
)
from evalgate.reports import edits as reports_edits, view, wording
from evalgate.results import file as results_file, output, run_parts
from evalgate.results.file import RawOutcomes
from evalgate.results.history import History
from evalgate.results.output import BASE_RESULTS, RESULTS
from evalgate.system import process, redact
from evalgate.values import Sentence
from .measure import FileWriter, Measurement

BLOCKING = (*comparison_verdict.SEVERITY, None)
"""What a verdict may block by, the worst first."""


@process.no_garbage_search()
def decide(
    measurement: Measurement,
    rules: Rules,
    context: Context,
    *,
    history: History | None = None,
) -> Report:
    """The report, not written yet: by the change's rule book, or by the base's if `policy: both`
    and the base's is stricter."""
    settings = rules.settings
    head = measurement.head
    results = zip_longest(measurement.comparisons, measurement.sides)
    decisions = [
        _by_book(head, book, comparison, sides)
        for book, (comparison, sides) in zip(rules.books, results, strict=True)
    ]
    verdicts = [verdict for _, verdict, _ in decisions]
    ranks = [BLOCKING.index(verdict.blocked_by) for verdict in verdicts]
    by_base = rules.both_decide and ranks[-1] < ranks[0]
    number = -1 if by_base else 0
    policy, verdict, lacking = decisions[number]
    edits = _edits(rules.edits, verdicts, by_base=by_base)
    problems = (
        *([run_parts.note(head.part)] if head.part and head.is_part else []),
        *(_drift(history, head, rules) if history and history.past and not head.is_part else ()),
        *measurement.problems,
        *lacking,
        *([reports_edits.problem(edits)] if edits.decide and not verdict.blocks else []),
    )
    display = Display(
        version=__version__,
        links=context.trigger.links,
        reproduce=context.audience.reproduce,
        channels=PostSettings(comment=settings.comment, check_run=settings.check_run),
    )
    return Report(
        run=rules.books[number].applied(head),
        verdict=verdict,
        policy=policy,
        comparison=measurement.comparisons[number],
        edits=edits,
        # once each: parts repeat them
        problems=tuple(dict.fromkeys(problems)),
        facts=_facts(settings, head, history),
        display=display,
    )


def _facts(settings: Settings, head: Run, history: History | None) -> KnownFacts:
    """What the report knows beyond this run: its history, and the judges with their
    calibrations."""
    suites = head.suites
    rows = FORMATS.values() if settings.gate_file.judge.calibration else ()
    uses = [use for suite in suites for use in suite.criteria if use.is_judged]
    return KnownFacts(
        trends=history.trends(head) if history and history.past else (),
        past=history.of_cases() if history else {},
        criterion_judges=criterion_judges(uses) if uses and not settings.skip_judged else (),
        judged=tuple(judge for row in rows for judge in row.calibrations(settings, suites)),
    )


def _edits(edits: Edits, verdicts: Sequence[Verdict], *, by_base: bool) -> Edits:
    """The edits, marked if only one rule book lets the change pass; an unmet demand of the base is
    not a pass."""
    passes = [not verdict.blocks for verdict in verdicts]
    is_decisive = len(set(passes)) > 1 or bool(edits.unasked and passes[0])
    is_decisive = is_decisive or (len(verdicts) == 1 and edits.decide)
    return replace(edits, decide=is_decisive, by_base=by_base or edits.by_base)


def _drift(history: History, head: Run, rules: Rules) -> Iterator[Problem]:
    """A warning if the history of base runs shows that the provider's model changed."""
    drift = history.drift(head, deviations=rules.settings.deviations)
    if drift is not None:
        message = Sentence("drift", drift)
        yield errors.warning("provider-drift", message, hint=Sentence("drift_hint"))


def _by_book(
    head: Run, book: RuleBook, comparison: Comparison | None, measured: Sides | None
) -> tuple[Policy, Verdict, tuple[Problem, ...]]:
    """The policy of a rule book, and its verdict with problems. A part of a plan fails no job.
    `measured`: see `verdict_of`."""
    policy = replace(book.policy, fail_on=frozenset()) if head.is_part else book.policy
    return policy, *verdict_of(book.applied(head), comparison, policy=policy, measured=measured)


MOST_JUDGES = 200
"""The most judges that are read from a file."""


def criterion_judges(
    uses: Iterable[CriterionUse], *, is_stored: bool = False
) -> tuple[CriterionJudge, ...]:
    """The judge of each criterion, once. `is_stored`: the criteria come from an untrusted file; a
    judge has the prompt version that the file names, "" if it names none."""
    all_judges: list[CriterionJudge] = []
    for use in uses:
        judge = None
        with suppress(ValidationError):
            judge = judges.judge_of(use, prompt_version=use.prompt_version if is_stored else None)
        criterion_judge = judge and CriterionJudge(criterion=use.name, judge=judge)
        if criterion_judge and criterion_judge not in all_judges:
            all_judges.append(criterion_judge)
        if is_stored and len(all_judges) == MOST_JUDGES:
            break
    return tuple(all_judges)


def verdict_of(
    run: Run,
    comparison: Comparison | None,
    *,
    policy: Policy,
    measured: Sides | None = None,
) -> tuple[Verdict, tuple[Problem, ...]]:
    """The verdict in words, and a warning if files lack reruns that failures need. `measured`: the
    sides that this command ran, with their reruns."""
    has_base = comparison is not None and comparison.base is not None
    book: Book | None = None
    cases: Mapping[CaseKey, CaseVerdict] = {}
    missing_reruns = 0
    if not (has_base and measured):  # otherwise the comparison has them
        sides = measured
        if sides is None or sides.base is not None or sides.policy != policy:
            sides = failures.sides_of(
                run,
                comparison.base if comparison else None,
                comparison if has_base else None,
                policy=policy,
            )
        book, reruns = sides.book_and_reruns
        cases = sides.scored_sides[0].verdicts
        missing_reruns = 0 if measured else len({rerun.key for rerun in reruns})
    verdict = comparison_verdict.decide(
        run, policy, comparison=comparison, book=book, decided=cases
    )
    verdict = wording.with_reasons(verdict, run, comparison, policy)
    if not missing_reruns:
        return verdict, ()
    message = Sentence("reruns_missing", missing_reruns)
    hint = Sentence("reruns_missing_hint")
    return verdict, (errors.warning("fresh-runs-missing", message, hint=hint),)


@process.no_garbage_search()
def publish(
    report: Report,
    measurement: Measurement,
    rules: Rules,
    context: Context,
    *,
    outcomes: Sequence[RawOutcomes] = (),
    write: FileWriter | None = None,
) -> Report:
    """Write every report on a decision. Files that could not be written are among the report's
    problems, and no run passes without them.

    `outcomes`: the sources of head's and the base's outcomes; without them the results exist
    already and are not written. `write`: see `GateSession.write`."""
    settings = rules.settings
    runs = filter(None, (report.run, report.compared.base))
    has_ces = any(case.ces is not None for run in runs for case in cases_of(run.suites).values())
    rendered = {
        name: row.render(report)
        for name, row in reports.RENDERERS.items()
        if has_ces or not row.is_of_ces
    }
    redact_text = redact.redactor_of_files(context.environ)
    if write is None and redact_text is not str:  # `write` redacts stored runs
        rendered = {
            name: reports.rewrite_texts(text, redact_text) for name, text in rendered.items()
        }
    texts = [
        (name, reports.RENDERERS[name].file_name, iter([text]))
        for name, text in rendered.items()
        if text
    ]
    texts += _results(report, measurement.base, outcomes)
    files: Mapping[str, str] = {}
    # an agent may have made a link there
    reason = places.refusal_reason(settings.root, settings.output, trusted=True)
    folder = settings.root / settings.output
    if reason:
        message = f"no report is written: the path {reason}"
        problem = errors.warning("not-written", message, Place(settings.output))
        unwritten: tuple[Problem, ...] = (problem,)
    elif write is None:
        files, unwritten = output.write_all(texts, folder)
    else:
        files, unwritten = write(texts, folder, report)
    display = replace(
        report.display,
        summary=rendered["summary"],
        files=files,
        lacks_files=bool(unwritten),
    )
    problems = (*report.problems, *unwritten)
    return replace(report, problems=problems, display=display)


def _results(
    report: Report, base: Run | None, outcomes: Sequence[RawOutcomes]
) -> Iterator[tuple[str, str, Iterator[str]]]:
    """results.json; and the base's run in its own file, with its threshold verdict."""
    if outcomes:
        causes = view.causes_of(view.view_of(report).cases)
        texts = results_file.render_results(report, outcomes=outcomes[0], causes=causes)
        yield "results", RESULTS, texts
    if base is not None and len(outcomes) > 1:
        comparison = report.comparison
        is_compared = comparison is not None and comparison.base is base
        decided = comparison.base_decided if comparison and is_compared else {}
        policy = report.policy.with_exemptions({})  # every case of the base counts
        verdict = comparison_verdict.decide(base, policy, comparison=None, decided=decided)
        verdict = wording.with_reasons(verdict, base, None, report.policy)
        base_report = Report(
            run=base,
            verdict=verdict,
            policy=report.policy,
            display=Display(version=report.display.version),
        )
        yield "base", BASE_RESULTS, results_file.render_results(base_report, outcomes=outcomes[1])
