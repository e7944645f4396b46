"""Results of earlier runs, and the gate's decision on them; nothing runs.

Two results.json files are compared as far as they can be. Of the runs that are kept in a folder,
the newest results of each case count, under today's files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evalgate import __version__, agents
from evalgate.baseline import base as baseline_base, failures, rules as baseline_rules
from evalgate.baseline.base import Base, BaseProject, BaseRules
from evalgate.baseline.rules import Rules
from evalgate.comparison import compare as comparison_compare, pairing, threshold
from evalgate.config import load
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, NothingToDo, Place
from evalgate.formats import fingerprints
from evalgate.model import (
    BaseOrigin,
    BaseSource,
    CaseComparison,
    CaseKey,
    CaseStatus,
    CaseVerdict,
    Comparison,
    CriterionUse,
    Exemption,
    ExemptionKind,
    FailureOrigin,
    GradedTrial,
    Policy,
    Reason,
    Report,
    RuleBook,
    Run,
    Suite,
    TrialKey,
    VerdictKind,
    cases_of,
    not_evaluated,
)
from evalgate.reports import cases as reports_cases
from evalgate.reports.cases import CaseSide, CaseView
from evalgate.results import file, history, kept, labels as case_labels
from evalgate.results.file import PolicyEntry, Stored, StoredOutcomes
from evalgate.results.labels import CaseLabel
from evalgate.results.output import BASE_RESULTS, RESULTS
from evalgate.text import plain, words
from evalgate.values import Sentence, Wording, grouped
from . import decision, prepare
from .measure import Measurement

NOTHING = StoredOutcomes({}, {})
"""The outcomes of no run, for a merge of none."""


def compare(settings: Settings, context: Context, *, base: Path, head: Path) -> Report:
    """Compare head with the results of a base, decide, and write the reports; results.json stays
    unchanged.

    Relaxed rules are reported as far as the files show them: thresholds, criteria and cases. Raises
    ConfigError if a file cannot be read or holds a part of a run."""
    base_results = read_run(base, of="the base")
    head_results = read_run(head, of="the head")
    return _publish(settings, context, head_results, base_results)


def report(settings: Settings, context: Context, *, results: Path) -> Report:
    """Write the reports of results again, with the base's results if base.json lies beside them.
    Raises as `compare`."""
    base = results.with_name(BASE_RESULTS)
    if base.is_file():
        return compare(settings, context, base=base, head=results)
    return _publish(settings, context, read_decided(results, of=""), None)


def read_decided(path: Path, *, of: str) -> Stored:
    """`read_run`, with the run's verdicts on its cases, which hold without its base. Raises
    ConfigError."""
    stored = read_run(path, of=of)
    return stored.with_run(earlier_verdicts=verdicts_of(stored))


def verdicts_of(stored: Stored) -> dict[CaseKey, CaseVerdict]:
    """The verdicts of the stored run on its cases. It knew the base and the reruns."""
    trials = pairing.by_case(stored.run.trials)
    verdicts = {}
    for suite in stored.run.suites:
        for key, case in cases_of([suite]).items():
            verdict = case_verdict(stored, key, suite.criteria_of(case), trials.get(key, ()))
            entry = stored.entries[key]
            is_flaky = entry.label is CaseLabel.FLAKY
            verdicts[key] = CaseVerdict(
                suite=suite.key,
                case_id=case.case_id,
                kind=entry.verdict,
                criteria=verdict.criteria,
                reason=entry.reason or verdict.reason,
                second_kind=verdict.second_kind,
                exemption=Exemption(kind=ExemptionKind.FLAKY) if is_flaky else None,
            )
    return verdicts


def case_verdict(
    stored: Stored, key: CaseKey, criteria: Sequence[CriterionUse], trials: Sequence[GradedTrial]
) -> CaseVerdict:
    """The verdict on a case by the scores of its run and the thresholds of `criteria`."""
    return threshold.judge_case(key, criteria, trials, run=stored.run, deviations=stored.deviations)


def compare_stored(
    settings: Settings, context: Context, *, head: Stored, base: Stored | None
) -> Report:
    """The report on stored results and those of a base, as in `compare` and `report`; nothing is
    written."""
    return decision.decide(*_stored_measurement(settings, context, head, base), context)


def _publish(
    settings: Settings, context: Context, head_results: Stored, base_results: Stored | None
) -> Report:
    """Decide on stored results, and write and show the reports; results.json stays unchanged."""
    measurement, rules = _stored_measurement(settings, context, head_results, base_results)
    report = decision.decide(measurement, rules, context)
    report = decision.publish(report, measurement, rules, context)
    context.audience.present(report)
    return report


def _stored_measurement(
    settings: Settings, context: Context, head_results: Stored, base_results: Stored | None
) -> tuple[Measurement, Rules]:
    """The measurement in stored results, and the rules that decide on it. Without `base_results`,
    only head's rules decide."""
    settings = settings.with_options(adk_compat=head_results.deviations.is_adk_compat)
    head = head_results.run
    base = None if base_results is None else _base_of(base_results, head, settings)
    rules = baseline_rules.in_force(settings, head.suites, base)
    # one run of both sides knows what the base has, or why there is none; two runs do not
    comparison = head_results.comparison
    if comparison and not (
        _are_sides(base_results, head_results) if base_results else comparison.problem
    ):
        comparison = None
    books, edits = rules.books_on(context.moment.date()), rules.edits
    # one run knew the base's rules; it scores both sides by head's criteria, so the base's own are
    # not in its results
    if base is None or comparison is not None:
        books, edits = books[:1], head_results.edits
        if edits.both_decide:  # this checkout has only head's rules
            policy = books[0].policy
            fields = {
                name: getattr(
                    policy if name in settings.explicit_options else head_results.policy, name
                )
                for name in PolicyEntry.model_fields
            }
            policy = Policy(exemptions=policy.exemptions, deviations=policy.deviations, **fields)
            books = (RuleBook(policy=policy),)
    rules = replace(rules, books=books, edits=edits)
    head = head_results.with_run(suites=rules.suites).run
    if base is None or base_results is None:
        return Measurement(
            head=head, comparisons=[comparison], problems=head_results.problems
        ), rules
    base_run, notes = _base_to_compare(base_results, head_results, rules.suites, base.project)
    if base_results.version != head_results.version:
        notes.append(Sentence("other_version", base_results.version, head_results.version))
    comparison = comparison or Comparison(
        origin=history.aged(base.origin, settings, context, notes=notes),
        cases=_unpaired(head, base_run),
    )
    return Measurement(
        head=head,
        base=base_run,
        comparisons=[failures.again(comparison, head, base_run, book=book) for book in rules.books],
        problems=settings.problems,
    ), rules


def _base_of(stored: Stored, head: Run, settings: Settings) -> Base:
    """The base in a file, which stands for a checkout: its suites are the base's rules."""
    run = stored.run
    renamed = baseline_base.renames(run.suites, head.suites)
    rules = BaseRules(
        suites=baseline_base.under_head_names(run.suites, renamed),
        policy=load.policy_of(settings, head.suites),
    )
    return Base(
        origin=BaseOrigin(source=BaseSource.FILE, commit=run.commit, measured_at=run.started_at),
        project=BaseProject(rules=rules, renamed=renamed),
    )


def _are_sides(base: Stored, head: Stored) -> bool:
    """True if the files are the two sides of one run, wherever the base's conversations come
    from."""
    comparison = head.comparison
    is_same = head.run.started_at == base.run.started_at
    return is_same and comparison is not None and comparison.origin.commit == base.run.commit


def read_run(path: Path, *, of: str) -> Stored:
    """The results of a whole run; `of`: the side that they belong to. Raises ConfigError."""
    stored_run = file.read_results(path, of=of)
    run = stored_run.run
    if run.is_part:
        message = f"{of} is shard {run.part} of a run".lstrip()
        raise ConfigError(
            message, place=Place(str(path)), hint="Merge the shards: `evalgate merge`."
        )
    return stored_run


def _unpaired(head: Run, base: Run) -> tuple[CaseComparison, ...]:
    """The cases that are not equal on both sides."""
    head_contents, base_contents = (
        {
            key: run.fingerprints.get(key) or fingerprints.of_case(case)
            for key, case in cases_of(run.suites).items()
        }
        for run in (head, base)
    )
    keys = {key for key, _ in head_contents.items() ^ base_contents.items()}
    return comparison_compare.unpaired_cases(
        {
            key: CaseStatus.REMOVED
            if key not in head_contents
            else CaseStatus.CHANGED
            if key in base_contents
            else CaseStatus.NEW
            for key in sorted(keys)
        }
    )


def _base_to_compare(
    base: Stored, head: Stored, suites: Sequence[Suite], project: BaseProject
) -> tuple[Run, list[Wording]]:
    """The base's run under head's names of files, without the grades of criteria that differed
    there, and a note on each of these criteria.

    `suites`: head's suites with the criteria that decide. `project`: the base's."""
    run = base.run
    names = {base_key: head_key for head_key, base_key in project.renamed.items()}
    changes = dict(_changed_criteria(base, head, suites, project.suites))
    notes = dict.fromkeys(
        Sentence("criterion_not_compared", name, reason)
        for (_, name), reason in sorted(changes.items())
    )

    def trial(graded_trial: GradedTrial, changes: Mapping[tuple[str, str], Wording]) -> GradedTrial:
        """The trial under head's name of its file; a reason replaces each grade that `changes`
        names."""
        key = graded_trial.key.renamed(names)
        grades = {
            name: not_evaluated(
                Reason.NOT_APPLICABLE, "criterion_differs", changes[key.suite, name]
            )
            if (key.suite, name) in changes
            else grade
            for name, grade in graded_trial.grades.items()
        }
        return graded_trial.with_grades(grades, key=key)

    case_fingerprints = {
        (names.get(suite, suite), case): fingerprint
        for (suite, case), fingerprint in run.fingerprints.items()
    }
    trials = tuple(trial(graded_trial, changes) for graded_trial in run.trials)
    confirmations = tuple(trial(graded_trial, {}) for graded_trial in run.confirmations)
    base = base.with_run(
        suites=tuple(project.suites.values()),
        trials=trials,
        confirmations=confirmations,
        transcripts=lambda key: run.transcripts(key.renamed(project.renamed)),
        fingerprints=case_fingerprints,
    )
    return base.run, list(notes)


def _changed_criteria(
    base: Stored, head: Stored, suites: Sequence[Suite], base_suites: Mapping[str, Suite]
) -> Iterator[tuple[tuple[str, str], Wording]]:
    """The criteria, by suite key and name, that scored something else on the base, with the
    difference. `base_suites`: the base's suites under head's names."""
    head_prompts = {
        (suite.key, use.name): use.prompt_version
        for suite in head.run.suites
        for use in suite.criteria
    }
    for suite in suites:
        base_suite = base_suites.get(suite.key)
        uses = {use.name: use for use in base_suite.criteria} if base_suite else {}
        for use in suite.criteria:
            if base_suite is None or use.name not in uses:
                continue
            base_version = uses[use.name].prompt_version
            head_version = head_prompts.get((suite.key, use.name), "")
            if _settings(uses[use.name], base) != _settings(use, head):
                yield (suite.key, use.name), Sentence("other_options")
            elif base_version != head_version:
                yield (suite.key, use.name), Sentence("other_prompt", base_version, head_version)
            # head's code scores both sides of one run; else all that the agent read must be
            # equal, including a custom metric
            elif use.code is not None and not (
                _are_sides(base, head)
                or _inputs(base.run, base_suite) == _inputs(head.run, suite) != ""
            ):
                yield (suite.key, use.name), Sentence("other_code")


def _inputs(run: Run, suite: Suite) -> str:
    """The inputs that the suite's agent read; "" if only recordings count or nothing is known."""
    return run.inputs.get(suite.agent.key, "") if agents.is_asked(suite.agent) else ""


def _settings(use: CriterionUse, stored: Stored) -> str:
    """A fingerprint of the criterion's options, whichever version of evalgate scored it."""
    return fingerprints.of_criterion(use, version="", deviations=stored.deviations)


# --- the newest results of each case --------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredCase(CaseView):
    """The newest results of one case."""

    stored: Stored
    """The results that it is from."""
    is_of_change: bool
    """True if the base passed the case, did not have it, or has no known result of it."""


def newest(settings: Settings) -> dict[CaseKey, StoredCase]:
    """The newest results of each case, as they ran. Raises NothingToDo if there are no results,
    ConfigError if they cannot be read."""
    stored_cases: dict[CaseKey, StoredCase] = {}
    last_results = settings.root / settings.output / RESULTS
    runs = kept.runs(settings.root)
    for run in runs:
        case_keys = run.outcomes().keys() - stored_cases.keys()
        if case_keys:
            stored_cases |= of_file(run.results, case_keys=case_keys)
        if run.is_whole:
            break
    if not runs and last_results.exists():
        return of_file(last_results)
    if not stored_cases:
        raise NothingToDo("there are no results yet", hint="Run `evalgate run` first.")
    return stored_cases


def select(stored_cases: Mapping[CaseKey, StoredCase], names: Sequence[str]) -> list[StoredCase]:
    """The cases with these names, `id` or `file.evalset.json:id`; all if `names` is empty. Raises
    ConfigError."""
    if not names:
        return list(stored_cases.values())
    selection: dict[CaseKey, StoredCase] = {}
    for name in names:
        matches = {
            key: stored_case
            for key, stored_case in stored_cases.items()
            if name in (stored_case.case_id, ":".join(key))
        }
        if not matches:
            hint = words.did_you_mean(
                name,
                [case for _, case in stored_cases],
                fallback="`evalgate list` shows the cases.",
            )
            raise ConfigError(f"no results of a case {plain.label(name, 80)!r}", hint=hint)
        selection |= matches
    return list(selection.values())


def current(settings: Settings) -> tuple[Report, dict[CaseKey, StoredCase]]:
    """One report under today's files, and the newest results of each case with the words of the
    report. Raises NothingToDo if no case with results exists any more, ConfigError."""
    stored_cases = newest(settings)
    context = prepare.make_context(settings)
    head, base = together(settings, stored_cases)
    report = compare_stored(settings, context, head=head, base=base)
    present_cases = dict(_reported_cases(stored_cases, report))
    if not present_cases:
        raise NothingToDo("the cases that ran are no longer there", hint="Run `evalgate run`.")
    return report, present_cases


def _reported_cases(
    stored_cases: Mapping[CaseKey, StoredCase], report: Report
) -> Iterator[tuple[CaseKey, StoredCase]]:
    """The cases that still exist, with their verdicts and labels in the report."""
    reported_cases = {case.key: case for case in reports_cases.collect(report)}
    problems = {suite.key: suite.problem for suite in report.run.suites}
    for key, stored_case in stored_cases.items():
        if case := reported_cases.get(key):
            keys = {trial.key for trial in stored_case.trials}
            head = CaseSide(
                run=stored_case.head.run,
                trials=tuple(trial for trial in case.trials if trial.key in keys),
                confirmations=stored_case.head.confirmations,
            )
            reported_case = StoredCase(
                stored=stored_case.stored,
                is_of_change=stored_case.is_of_change,
                head=head,
                suite=case.suite,
                eval_case=case.eval_case,
                verdict=case.verdict,
                label=case.label,
            )
            yield key, reported_case
        elif problem := problems.get(key[0]):
            verdict = stored_case.verdict.unmeasured(problem)
            yield key, replace(stored_case, verdict=verdict, label=CaseLabel.NOT_MEASURED)


def together(
    settings: Settings, stored_cases: Mapping[CaseKey, StoredCase]
) -> tuple[Stored, Stored | None]:
    """The newest results of each case as one run of today's suites, with a base: the base of the
    only run, else of the newest run of all cases. Raises ConfigError."""
    head = joined(stored_cases, _suites(settings, stored_cases))
    files = {stored_case.stored.file for stored_case in stored_cases.values()}
    whole_runs = (str(run.results) for run in kept.runs(settings.root) if run.is_whole)
    file_name = files.pop() if len(files) == 1 else next(whole_runs, "")
    base = Path(file_name).with_name(BASE_RESULTS) if file_name else None
    return head, None if base is None or not base.is_file() else read_run(base, of="the base")


def _suites(settings: Settings, stored_cases: Mapping[CaseKey, StoredCase]) -> tuple[Suite, ...]:
    """The suites that a run would measure and, unless the user selects some, those with results
    that still exist. They are the suites of the results if the project cannot be read."""
    try:
        suites = _run_suites(settings)
        other_files = {suite for suite, _ in stored_cases} - {suite.key for suite in suites}
        present_files = tuple(
            sorted(name for name in other_files if (settings.root / name).is_file())
        )
        if present_files and not {"paths", "grep"} & settings.explicit_options.keys():
            others = settings.with_options(paths=present_files, grep="")
            suites += _run_suites(others)
    except ConfigError:
        return _stored_suites(stored_cases)
    return suites


def _run_suites(settings: Settings) -> tuple[Suite, ...]:
    """The suites of a run. Raises ConfigError if they cannot be read."""
    try:
        project = prepare.prepare(settings)
    except NothingToDo:
        return ()
    if project.fatal() and not project.suites:
        raise ConfigError.collected(project.problems)
    return project.suites if project.fatal() else project.set_apart().suites


def _stored_suites(stored_cases: Mapping[CaseKey, StoredCase]) -> tuple[Suite, ...]:
    """The suites as they ran, each with its cases that have results, all in their newest
    version."""
    suites = {id(case.suite): case.suite for case in stored_cases.values()}
    cases = cases_of(reversed(suites.values()))  # the newest counts
    by_file = grouped((key[0], cases[key]) for key in stored_cases)
    newest_suites = {suite.key: suite for suite in reversed(suites.values())}
    return tuple(suite.with_cases(tuple(by_file[suite.key])) for suite in newest_suites.values())


def joined(stored_cases: Mapping[CaseKey, StoredCase], suites: tuple[Suite, ...]) -> Stored:
    """The newest results of each case as one run with today's cases, criteria and thresholds.

    A score counts as long as the case and its criterion are unchanged; otherwise the agent's
    behavior is known and its score is not. A run's verdict on a case holds as long as today's
    thresholds give the same verdict for its scores. If one run has all of the results, it keeps its
    reruns and the inputs of its agents; several runs as one have the origin and the version of the
    newest. Raises ConfigError."""
    case_fingerprints = fingerprints.of_cases(suites)
    present_cases = [stored_cases[key] for key in case_fingerprints if key in stored_cases]
    stored_runs = list(
        {id(stored_case.stored): stored_case.stored for stored_case in present_cases}.values()
    )
    unchanged_criteria = {
        (id(stored_run), suite.key): _unchanged_criteria(stored_run, suite)
        for stored_run in stored_runs
        for suite in suites
    }
    cases = [
        _current_results(
            stored_case,
            suite,
            suite.criteria_of(case),
            case_fingerprints[stored_case.key],
            unchanged_criteria[id(stored_case.stored), suite.key],
        )
        for suite in suites
        for case in suite.cases
        if (stored_case := stored_cases.get((suite.key, case.case_id)))
    ]
    earlier_verdicts = {verdict.key: verdict for _, _, verdict in cases if verdict is not None}
    if (
        len(stored_runs) == 1
        and case_fingerprints == stored_runs[0].run.fingerprints
        and all(
            len(unchanged_criteria[id(stored_runs[0]), suite.key]) == len(suite.criteria)
            for suite in suites
        )
    ):
        return stored_runs[0].with_run(suites=suites, earlier_verdicts=earlier_verdicts)
    all_trials = tuple(trial for trials, _, _ in cases for trial in trials)
    confirmations = tuple(trial for _, reruns, _ in cases for trial in reruns)
    return _merged(
        present_cases,
        stored_runs,
        suites=suites,
        trials=all_trials,
        confirmations=confirmations,
        fingerprints=case_fingerprints,
        earlier_verdicts=earlier_verdicts,
    )


def _current_results(
    stored_case: StoredCase,
    suite: Suite,
    criteria: Sequence[CriterionUse],
    fingerprint: str,
    names: Sequence[str],
) -> tuple[Sequence[GradedTrial], Sequence[GradedTrial], CaseVerdict | None]:
    """The trials of a case, the reruns that count, and the verdict of its run if that holds.
    `criteria`: the case's criteria today; `names`: the suite's criteria whose scores still
    count."""
    stored = stored_case.stored
    is_same = fingerprint == stored.run.fingerprints.get(stored_case.key)
    trials = tuple(_current_trials(stored_case, suite, names if is_same else None))
    if not is_same or len(names) < len(suite.criteria):
        return trials, (), None
    verdict = case_verdict(stored, stored_case.key, criteria, stored_case.trials)
    kinds, stored_kinds = (
        [(criterion.name, criterion.kind) for criterion in case.criteria]
        for case in (verdict, stored_case.verdict)
    )
    return (
        trials,
        stored_case.head.confirmations,
        replace(stored_case.verdict, criteria=verdict.criteria) if kinds == stored_kinds else None,
    )


def _merged(
    stored_cases: Iterable[StoredCase], stored_runs: Sequence[Stored], **fields: Any
) -> Stored:
    """Several runs as one, with the origin and the version of the newest. `fields`: of the run."""
    nothing = Stored(
        run=Run(suites=(), trials=(), transcripts=NOTHING.find),
        outcomes=NOTHING,
        version=__version__,
        criteria={},
    )
    last = max(stored_runs, key=lambda stored_run: stored_run.run.started_at, default=nothing)
    all_runs = StoredOutcomes.joined([stored_run.outcomes for stored_run in stored_runs])
    documents = (
        (trial.key, stored_case.stored.outcomes.find_json(trial.key))
        for stored_case in stored_cases
        for trial in (*stored_case.trials, *stored_case.head.confirmations)
    )
    outcomes = StoredOutcomes(
        {key: document for key, document in documents if document is not None}, all_runs.agents()
    )
    run = Run(
        transcripts=outcomes.find,
        seconds=sum(stored_run.run.seconds for stored_run in stored_runs),
        agents=file.merge(stored_run.run.agents for stored_run in stored_runs),
        started_at=last.run.started_at,
        commit=last.run.commit,
        dirty=last.run.dirty,
        **fields,
    )
    return Stored(
        run=run,
        outcomes=outcomes,
        version=last.version,
        criteria=file.merge(stored_run.criteria for stored_run in stored_runs),
        deviations=last.deviations,
    )


def _current_trials(
    stored_case: StoredCase, suite: Suite, names: Sequence[str] | None
) -> Iterator[GradedTrial]:
    """The trials of a case under today's criteria. `names`: the criteria whose scores still count;
    None: the case was changed, so no score counts."""
    deciding_names = [use.name for use in suite.criteria if not use.informational]
    unmeasured = dict.fromkeys(deciding_names, not_evaluated(Reason.SKIPPED, "case_changed"))
    for trial in stored_case.trials:
        grades = {name: trial.grades[name] for name in names or () if name in trial.grades}
        yield trial.with_grades(unmeasured if names is None else grades)
    numbers = {trial.key.number for trial in stored_case.trials if trial.key.is_first}
    for number in range(stored_case.stored.run.repeats if stored_case.trials else 0):
        if number not in numbers:
            key = TrialKey(suite=stored_case.key[0], case_id=stored_case.key[1], number=number)
            yield GradedTrial(key=key, failure=None, grades={})


def _unchanged_criteria(stored: Stored, suite: Suite) -> list[str]:
    """The criteria that score as they did in a run."""
    return [
        use.name
        for use in suite.criteria
        if stored.criteria.get((suite.key, use.name))
        == fingerprints.of_criterion(use, version=stored.version, deviations=stored.deviations)
    ]


def failed(settings: Settings) -> tuple[tuple[str, ...], int]:
    """The cases that do not pass by their newest results, as a selection of paths, and the number
    of cases that pass. Cases that never ran, and cases that their files no longer have, are
    omitted. Raises NothingToDo if none remain."""
    _, stored_cases = current(settings)
    keys = [key for key, case in stored_cases.items() if case.kind is not VerdictKind.PASS]
    if not keys:
        raise NothingToDo("every case passed when it last ran")
    return selection(keys), len(stored_cases) - len(keys)


def selection(cases: Iterable[CaseKey]) -> tuple[str, ...]:
    """The cases as a selection of paths. It cannot name an id with a comma: then it has all cases
    of the file."""
    return tuple(
        suite if "," in "".join(ids) else f"{suite}:{','.join(ids)}"
        for suite, ids in grouped(cases).items()
    )


def of_file(
    path: Path, *, case_keys: Collection[CaseKey] | None = None
) -> dict[CaseKey, StoredCase]:
    """The cases of a results.json, or some of them. Raises ConfigError."""
    stored = file.read_results(path)
    verdicts = verdicts_of(stored)
    run = stored.run
    side = reports_cases.side_of(run)
    changed_keys = {
        case.key
        for case in (stored.comparison.cases if stored.comparison else ())
        if case.status is CaseStatus.NEW
        or case.origin in (FailureOrigin.NEW, FailureOrigin.UNKNOWN)
    }
    stored_cases: dict[CaseKey, StoredCase] = {}
    for suite in run.suites:
        for key, case in cases_of([suite]).items():
            if case_keys is None or key in case_keys:
                stored_cases[key] = StoredCase(
                    stored=stored,
                    is_of_change=key in changed_keys,
                    head=side(key),
                    suite=suite,
                    eval_case=case,
                    verdict=verdicts[key],
                    label=stored.entries[key].label or case_labels.label(verdicts[key]),
                )
    return stored_cases
