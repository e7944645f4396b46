"""The results of earlier runs in this folder: the newest results of each case from the kept runs,
and their verdicts under today's files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evalgate import __version__
from evalgate.comparison import pairing
from evalgate.config.context import SilentWatcher
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, NothingToDo
from evalgate.formats import fingerprints
from evalgate.gate import compare_files, prepare
from evalgate.model import (
    CaseKey,
    CaseStatus,
    CaseVerdict,
    CriterionUse,
    FailureOrigin,
    GradedTrial,
    Reason,
    Report,
    Run,
    Suite,
    TrialKey,
    VerdictKind,
    cases_of,
    not_evaluated,
)
from evalgate.reports import cases as reports_cases
from evalgate.reports.cases import CaseSide, CaseView
from evalgate.results import file, kept, labels as case_labels
from evalgate.results.file import Stored, StoredOutcomes
from evalgate.results.labels import CaseLabel
from evalgate.results.output import BASE_RESULTS, RESULTS
from evalgate.text import plain, words
from evalgate.values import Environ, grouped

NOTHING = StoredOutcomes({}, {})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredCase(CaseView):
    """The newest results of one case."""

    stored: Stored

    @property
    def is_of_change(self) -> bool:
        """True if the base passed the case, did not have it, or has no known result of it."""
        compared = self.stored.compared.get(self.key)
        return compared is not None and (
            compared.status is CaseStatus.NEW
            or compared.origin in (FailureOrigin.NEW, FailureOrigin.UNKNOWN)
        )


def newest(settings: Settings) -> dict[CaseKey, StoredCase]:
    """The newest results of each case, as they ran. Raises NothingToDo if there are no results,
    ConfigError if they cannot be read."""
    stored_cases: dict[CaseKey, StoredCase] = {}
    last_results = settings.root / settings.output / RESULTS
    runs = kept.runs(settings.root)
    for run in runs:
        case_keys = run.about.keys() - stored_cases.keys()
        if case_keys:
            stored_cases |= of_file(run.results, case_keys=case_keys)
        if run.about.complete and not run.about.selected:
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
    selection: list[StoredCase] = []
    for name in names:
        matches = [
            stored_case
            for stored_case in stored_cases.values()
            if name in (stored_case.case_id, ":".join(stored_case.key))
        ]
        if not matches:
            hint = words.did_you_mean(
                name,
                [case for _, case in stored_cases],
                fallback="`evalgate list` shows the cases.",
            )
            raise ConfigError(f"no results of a case {plain.label(name, 80)!r}", hint=hint)
        selection += [stored_case for stored_case in matches if stored_case not in selection]
    return selection


def current(settings: Settings, environ: Environ) -> tuple[Report, dict[CaseKey, StoredCase]]:
    """One report under today's files, and the newest results of each case with the words of the
    report. Raises NothingToDo if no case with results exists any more, ConfigError."""
    stored_cases = newest(settings)
    context = prepare.make_context(settings, environ=environ, watcher=SilentWatcher())
    head, base = together(settings, environ, stored_cases)
    report = compare_files.compare_stored(settings, context, head=head, base=base)
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
        if key in reported_cases:
            case = reported_cases[key]
            keys = {trial.key for trial in stored_case.trials}
            yield (
                key,
                replace(
                    stored_case.with_trials(trial for trial in case.trials if trial.key in keys),
                    suite=case.suite,
                    eval_case=case.eval_case,
                    verdict=case.verdict,
                    label=case.label,
                ),
            )
        elif problem := problems.get(key[0]):
            verdict = replace(stored_case.verdict, kind=VerdictKind.NOT_MEASURED, reason=problem)
            yield key, replace(stored_case, verdict=verdict, label=CaseLabel.NOT_MEASURED)


def together(
    settings: Settings, environ: Environ, stored_cases: Mapping[CaseKey, StoredCase]
) -> tuple[Stored, Stored | None]:
    """The newest results of each case as one run of today's suites, with a base: the base of the
    only run, else of the newest run of all cases. Raises ConfigError."""
    head = joined(stored_cases, _suites(settings, environ, stored_cases))
    files = {stored_case.stored.file for stored_case in stored_cases.values()}
    whole_runs = (
        str(run.results)
        for run in kept.runs(settings.root)
        if run.about.complete and not run.about.selected
    )
    file_name = files.pop() if len(files) == 1 else next(whole_runs, "")
    base = Path(file_name).with_name(BASE_RESULTS) if file_name else None
    return head, None if base is None or not base.is_file() else compare_files.read_run(
        base, of="the base"
    )


def _suites(
    settings: Settings, environ: Environ, stored_cases: Mapping[CaseKey, StoredCase]
) -> tuple[Suite, ...]:
    """The suites that a run would measure and, unless the user selects some, those with results
    that still exist. They are the suites of the results if the project cannot be read."""
    try:
        suites = _run_suites(settings, environ)
        other_files = {suite for suite, _ in stored_cases} - {suite.key for suite in suites}
        present_files = tuple(
            sorted(name for name in other_files if (settings.root / name).is_file())
        )
        if present_files and not {"paths", "grep"} & settings.explicit_options.keys():
            others = settings.model_copy(update={"paths": present_files, "grep": ""})
            suites += _run_suites(others, environ)
    except ConfigError:
        return _stored_suites(stored_cases)
    return suites


def _run_suites(settings: Settings, environ: Environ) -> tuple[Suite, ...]:
    """The suites of a run. Raises ConfigError if they cannot be read."""
    try:
        project = prepare.prepare(settings, environ=environ)
    except NothingToDo:
        return ()
    if project.fatal() and not project.suites:
        raise ConfigError.collected(project.problems)
    return project.suites if project.fatal() else project.set_apart().suites


def _stored_suites(stored_cases: Mapping[CaseKey, StoredCase]) -> tuple[Suite, ...]:
    suites = {id(case.suite): case.suite for case in stored_cases.values()}
    cases = cases_of(reversed(suites.values()))  # the newest counts
    by_file = grouped((key[0], cases[key]) for key in stored_cases)
    newest_suites = {suite.key: suite for suite in reversed(suites.values())}
    return tuple(
        replace(suite, eval_set=replace(suite.eval_set, cases=tuple(by_file[suite.key])))
        for suite in newest_suites.values()
    )


def joined(stored_cases: Mapping[CaseKey, StoredCase], suites: tuple[Suite, ...]) -> Stored:
    """The newest results of each case as one run with today's cases, criteria and thresholds.

    A score counts as long as the case and its criterion are unchanged; otherwise the agent's
    behavior is known and its score is not. A run's verdict on a case holds as long as today's
    thresholds give the same verdict for its scores. If one run has all of the results, it keeps its
    reruns and the inputs of its agents; several runs as one have the origin and the version of the
    newest. Raises ConfigError."""
    case_fingerprints = fingerprints.CaseFingerprints().of_cases(suites)
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
        return replace(
            stored_runs[0],
            run=replace(stored_runs[0].run, suites=suites, earlier_verdicts=earlier_verdicts),
        )
    return _merged(
        present_cases,
        stored_runs,
        suites=suites,
        trials=tuple(trial for trials, _, _ in cases for trial in trials),
        confirmations=tuple(trial for _, reruns, _ in cases for trial in reruns),
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
    verdict = compare_files.case_verdict(stored, stored_case.key, criteria, stored_case.trials)
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
    unmeasured = not_evaluated(Reason.SKIPPED, "case_changed")
    for trial in stored_case.trials:
        deciding_names = (use.name for use in suite.criteria if not use.informational)
        grades = (
            dict.fromkeys(deciding_names, unmeasured)
            if names is None
            else {name: trial.grades[name] for name in names if name in trial.grades}
        )
        yield replace(trial, grades=grades)
    numbers = {trial.key.number for trial in stored_case.trials if trial.key.is_first}
    for number in range(stored_case.stored.run.repeats if stored_case.trials else 0):
        if number not in numbers:
            key = TrialKey(suite=stored_case.key[0], case_id=stored_case.key[1], number=number)
            yield GradedTrial(key=key, failure=None, grades={})


def _unchanged_criteria(stored: Stored, suite: Suite) -> list[str]:
    """The criteria that score as they did in a run."""
    current_fingerprints = {
        use.name: fingerprints.of_criterion(
            use, version=stored.version, deviations=stored.deviations
        )
        for use in suite.criteria
    }
    return [
        name
        for name, fingerprint in current_fingerprints.items()
        if stored.criteria.get((suite.key, name)) == fingerprint
    ]


def failed(settings: Settings, environ: Environ) -> tuple[tuple[str, ...], int]:
    """The cases that do not pass by their newest results, as a selection of paths, and the number
    of cases that pass. Cases that never ran, and cases that their files no longer have, are
    omitted. Raises NothingToDo if none remain."""
    _, stored_cases = current(settings, environ)
    keys = [key for key, case in stored_cases.items() if case.kind is not VerdictKind.PASS]
    if not keys:
        raise NothingToDo("every case passed when it last ran")
    return selection(keys), len(stored_cases) - len(keys)


def selection(cases: Iterable[CaseKey]) -> tuple[str, ...]:
    """The cases as a selection of paths. It cannot name an id with a comma: then it has all cases
    of the file."""
    by_suite = grouped(cases)
    return tuple(
        suite if "," in "".join(ids) else f"{suite}:{','.join(ids)}"
        for suite, ids in by_suite.items()
    )


def of_file(
    path: Path, *, case_keys: Collection[CaseKey] | None = None
) -> dict[CaseKey, StoredCase]:
    """The cases of a results.json, or some of them. Raises ConfigError."""
    stored = file.read_results(path)
    verdicts = compare_files.verdicts_of(stored)
    run = stored.run
    trials, confirmations = map(pairing.by_case, (run.trials, run.confirmations))
    stored_cases = {}
    for suite in run.suites:
        for case in suite.cases:
            key = (suite.key, case.case_id)
            if case_keys is not None and key not in case_keys:
                continue
            stored_cases[key] = StoredCase(
                stored=stored,
                head=CaseSide(
                    run=run,
                    trials=tuple(trials.get(key, ())),
                    confirmations=tuple(confirmations.get(key, ())),
                ),
                suite=suite,
                eval_case=case,
                verdict=verdicts[key],
                label=stored.entries[key].label or case_labels.label(verdicts[key]),
            )
    return stored_cases
