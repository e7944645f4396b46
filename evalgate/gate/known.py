"""What earlier runs at this place found: the newest results of each case, from the runs that were
kept, and what they say under today's files."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evalgate import __version__, reports
from evalgate.comparison import pairing
from evalgate.config.context import SilentWatcher
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, NothingToDo
from evalgate.formats import fingerprints
from evalgate.gate import compare_files, prepare
from evalgate.model import (
    Case,
    CaseKey,
    CaseStatus,
    CaseVerdict,
    CriterionUse,
    FailureOrigin,
    GradedTrial,
    NotEvaluated,
    Reason,
    Report,
    Run,
    Suite,
    TrialKey,
    VerdictKind,
)
from evalgate.results import file, kept, labels as case_labels
from evalgate.results.file import Stored, StoredOutcomes
from evalgate.results.labels import CaseLabel
from evalgate.results.output import BASE_RESULTS, RESULTS
from evalgate.text import plain, words
from evalgate.values import Environ, JsonObject

NEW = (FailureOrigin.NEW.value, FailureOrigin.UNKNOWN.value)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredCase:
    """The newest results of one case; `origin`: whose failure it is, "" if that is not known.
    `is_new`: the base does not have the case. `label`: the word that its run had for it.
    `reruns`: those that were to confirm its failure."""

    stored: Stored
    suite: Suite
    verdict: CaseVerdict
    trials: tuple[GradedTrial, ...]
    origin: str = ""
    is_new: bool = False
    label: CaseLabel = CaseLabel.NOT_MEASURED
    reruns: tuple[GradedTrial, ...] = ()

    @property
    def case(self) -> Case:
        """The case itself."""
        return next(case for case in self.suite.eval_set.cases if case.case_id == self.key[1])

    @property
    def word(self) -> str:
        """`pass`, `fail`, `flaky`, ...: the word of every report for it."""
        return reports.stored_word(self.verdict.kind, self.label)

    @property
    def key(self) -> CaseKey:
        """Its suite and id."""
        return self.verdict.key


def newest(settings: Settings) -> dict[CaseKey, StoredCase]:
    """The newest results of each case, as they ran. Raises NothingToDo if there are no results,
    ConfigError if they cannot be read."""
    stored_cases: dict[CaseKey, StoredCase] = {}
    last = settings.root / settings.output / RESULTS
    runs = kept.runs(settings.root)
    for run in runs:
        case_keys = run.about.keys() - stored_cases.keys()
        if case_keys:
            stored_cases |= of_file(run.results, case_keys=case_keys)
        if run.about.complete and not run.about.selected:
            break
    if not runs and last.exists():
        return of_file(last)
    if not stored_cases:
        raise NothingToDo("there are no results yet", hint="Run `evalgate run` first.")
    return stored_cases


def select(stored_cases: Mapping[CaseKey, StoredCase], names: Sequence[str]) -> list[StoredCase]:
    """The cases named by id, or by `file.evalset.json:id`; all if `names` is empty. Raises
    ConfigError."""
    if not names:
        return list(stored_cases.values())
    chosen: list[StoredCase] = []
    for name in names:
        matches = [
            stored_case
            for stored_case in stored_cases.values()
            if name in (stored_case.key[1], ":".join(stored_case.key))
        ]
        if not matches:
            hint = words.did_you_mean(
                name,
                [case for _, case in stored_cases],
                fallback="`evalgate list` shows the cases.",
            )
            raise ConfigError(f"no results of a case {plain.label(name, 80)!r}", hint=hint)
        chosen += [stored_case for stored_case in matches if stored_case not in chosen]
    return chosen


def current(settings: Settings, environ: Environ) -> tuple[Report, dict[CaseKey, StoredCase]]:
    """All that is known under today's files: one report, and the newest results of each case with
    its words. Raises NothingToDo if there are no results of cases that are there, ConfigError."""
    stored_cases = newest(settings)
    context = prepare.make_context(settings, environ=environ, watcher=SilentWatcher())
    head, base = together(settings, environ, stored_cases)
    report = compare_files.beside(settings, context, head=head, base=base)
    present_cases = dict(_as_reported(stored_cases, report))
    if not present_cases:
        raise NothingToDo("the cases that ran are no longer there", hint="Run `evalgate run`.")
    return report, present_cases


def _as_reported(
    stored_cases: Mapping[CaseKey, StoredCase], report: Report
) -> Iterator[tuple[CaseKey, StoredCase]]:
    """The cases that are still there, with what the report says of them."""
    verdicts = {verdict.key: verdict for verdict in report.verdict.cases}
    reported_labels = case_labels.of(report.verdict, report.comparison)
    suites = {suite.key: suite for suite in report.run.suites}
    trials = pairing.by_case(report.run.trials)
    for key, stored_case in stored_cases.items():
        suite = suites.get(key[0])
        if suite is not None and key in verdicts:
            keys = {trial.key for trial in stored_case.trials}
            yield (
                key,
                replace(
                    stored_case,
                    suite=suite,
                    verdict=verdicts[key],
                    label=reported_labels[key],
                    trials=tuple(trial for trial in trials.get(key, ()) if trial.key in keys),
                ),
            )
        elif suite is not None and suite.problem:
            verdict = replace(
                stored_case.verdict, kind=VerdictKind.NOT_MEASURED, reason=suite.problem
            )
            yield key, replace(stored_case, verdict=verdict, label=CaseLabel.NOT_MEASURED)


def together(
    settings: Settings, environ: Environ, stored_cases: Mapping[CaseKey, StoredCase]
) -> tuple[Stored, Stored | None]:
    """The newest results of each case as one run of today's suites, and the base beside the only
    run, else beside the newest of all cases. Raises ConfigError."""
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
    """What a run would measure, and unless that is chosen, what ran and is still there; as it ran
    if that cannot be found out."""
    try:
        suites = _prepared(settings, environ)
        other_files = {suite for suite, _ in stored_cases} - {suite.key for suite in suites}
        present_files = tuple(
            sorted(name for name in other_files if (settings.root / name).is_file())
        )
        if present_files and not {"paths", "grep"} & settings.explicit_options.keys():
            others = settings.model_copy(update={"paths": present_files, "grep": ""})
            suites += _prepared(others, environ)
    except ConfigError:
        return _as_they_ran(stored_cases)
    return suites


def _prepared(settings: Settings, environ: Environ) -> tuple[Suite, ...]:
    """The suites of a run. Raises ConfigError if that is not known."""
    try:
        project = prepare.prepare(settings, environ=environ)
    except NothingToDo:
        return ()
    if project.fatal() and not project.suites:
        raise ConfigError.collected(project.problems)
    return project.suites if project.fatal() else project.set_apart().suites


def _as_they_ran(stored_cases: Mapping[CaseKey, StoredCase]) -> tuple[Suite, ...]:
    suites = {id(case.suite): case.suite for case in stored_cases.values()}
    cases = {
        (suite.key, case.case_id): case
        for suite in reversed(suites.values())  # the newest counts
        for case in suite.eval_set.cases
    }
    by_file: dict[str, list[Case]] = {}
    for key in stored_cases:
        by_file.setdefault(key[0], []).append(cases[key])
    newest_suites = {suite.key: suite for suite in reversed(suites.values())}
    return tuple(
        replace(suite, eval_set=replace(suite.eval_set, cases=tuple(by_file[suite.key])))
        for suite in newest_suites.values()
    )


def joined(stored_cases: Mapping[CaseKey, StoredCase], suites: tuple[Suite, ...]) -> Stored:
    """The newest results of each case as those of one run, under the cases, criteria and thresholds
    that there are now.

    A score counts as long as the case and its criterion are what they were; else what the agent did
    is known, and how good it was is not. What a run decided of a case holds as long as today's
    thresholds say the same of its scores. A run that holds all of them stays whole: its reruns, and
    what its agents were made of. Raises ConfigError."""
    case_fingerprints = fingerprints.CaseFingerprints().of_cases(suites)
    every = [stored_cases[key] for key in case_fingerprints if key in stored_cases]
    stored = list({id(stored_case.stored): stored_case.stored for stored_case in every}.values())
    alike = {(id(part), suite.key): _alike(part, suite) for part in stored for suite in suites}
    cases = [
        _today(
            stored_case,
            suite,
            suite.criteria_of(case),
            case_fingerprints[stored_case.key],
            alike[id(stored_case.stored), suite.key],
        )
        for suite in suites
        for case in suite.eval_set.cases
        if (stored_case := stored_cases.get((suite.key, case.case_id)))
    ]
    earlier_verdicts = {verdict.key: verdict for _, _, verdict in cases if verdict is not None}
    if (
        len(stored) == 1
        and case_fingerprints == stored[0].run.fingerprints
        and all(len(alike[id(stored[0]), suite.key]) == len(suite.criteria) for suite in suites)
    ):
        run = replace(stored[0].run, suites=suites, earlier_verdicts=earlier_verdicts)
        return replace(stored[0], run=run)
    outcomes = _outcomes(every, stored)
    run = Run(
        suites=suites,
        trials=tuple(trial for trials, _, _ in cases for trial in trials),
        confirmations=tuple(trial for _, reruns, _ in cases for trial in reruns),
        transcripts=outcomes,
        seconds=sum(part.run.seconds for part in stored),
        agents={key: about for part in stored for key, about in part.run.agents.items()},
        fingerprints=case_fingerprints,
        earlier_verdicts=earlier_verdicts,
        **_origin(stored),
    )
    return _together(stored, run, outcomes)


def _today(
    stored_case: StoredCase,
    suite: Suite,
    criteria: Sequence[CriterionUse],
    fingerprint: str,
    names: Sequence[str],
) -> tuple[Sequence[GradedTrial], Sequence[GradedTrial], CaseVerdict | None]:
    """The trials of a case, those of its reruns that count, and what its run decided, if that
    holds. `criteria`: of the case today; `names`: those of the suite that score as they did."""
    stored = stored_case.stored
    is_same = fingerprint == stored.run.fingerprints.get(stored_case.key)
    trials = tuple(_under(stored_case, suite, names if is_same else None))
    if not is_same or len(names) < len(suite.criteria):
        return trials, (), None
    verdict = compare_files.judged(stored, stored_case.key, criteria, stored_case.trials)
    today, then = (
        [(criterion.name, criterion.kind) for criterion in case.criteria]
        for case in (verdict, stored_case.verdict)
    )
    standing = replace(stored_case.verdict, criteria=verdict.criteria) if today == then else None
    return trials, stored_case.reruns, standing


def _outcomes(stored_cases: Iterable[StoredCase], stored: Iterable[Stored]) -> StoredOutcomes:
    """What the agents did in these cases."""
    pairs = (
        (trial.key, stored_case.stored.outcomes.find_json(trial.key))
        for stored_case in stored_cases
        for trial in (*stored_case.trials, *stored_case.reruns)
    )
    raw = {key: outcome for key, outcome in pairs if outcome is not None}
    return StoredOutcomes(
        raw, {at: agent for part in stored for at, agent in part.outcomes.agents().items()}
    )


def _origin(stored: Sequence[Stored]) -> JsonObject:
    """When the last of the runs began, and with which commit."""
    last = max((part.run for part in stored), key=lambda run: run.started_at, default=None)
    return (
        {}
        if last is None
        else {"started_at": last.started_at, "commit": last.commit, "dirty": last.dirty}
    )


def _together(stored: Sequence[Stored], run: Run, outcomes: StoredOutcomes) -> Stored:
    """What several files say of themselves, as one with this run: all of their criteria, else what
    the last says."""
    criteria = {key: fingerprint for part in stored for key, fingerprint in part.criteria.items()}
    if not stored:
        return Stored(run=run, outcomes=outcomes, version=__version__, criteria=criteria)
    last = max(stored, key=lambda part: part.run.started_at)
    return Stored(
        run=run,
        outcomes=outcomes,
        version=last.version,
        criteria=criteria,
        deviations=last.deviations,
    )


def _under(
    stored_case: StoredCase, suite: Suite, names: Sequence[str] | None
) -> Iterator[GradedTrial]:
    """The trials of a case by the criteria of today: those of `names` score as they did; None: the
    case was changed, and nothing of it is measured."""
    changed = NotEvaluated(
        reason=Reason.SKIPPED, message="the case was changed since it ran: run it again"
    )
    for trial in stored_case.trials:
        deciding = (use.name for use in suite.criteria if not use.informational)
        grades = (
            dict.fromkeys(deciding, changed)
            if names is None
            else {name: trial.grades[name] for name in names if name in trial.grades}
        )
        yield replace(trial, grades=grades)
    numbers = {trial.key.number for trial in stored_case.trials if trial.key.is_first}
    for number in range(stored_case.stored.run.repeats if stored_case.trials else 0):
        if number not in numbers:
            key = TrialKey(suite=stored_case.key[0], case_id=stored_case.key[1], number=number)
            yield GradedTrial(key=key, failure=None, grades={})


def _alike(stored: Stored, suite: Suite) -> list[str]:
    """The criteria that score as those of a run did."""
    prints = {
        use.name: fingerprints.of_criterion(
            use, version=stored.version, deviations=stored.deviations
        )
        for use in suite.criteria
    }
    return [
        name
        for name, fingerprint in prints.items()
        if stored.criteria.get((suite.key, name)) == fingerprint
    ]


def failed(settings: Settings, environ: Environ) -> tuple[tuple[str, ...], int]:
    """The cases that do not pass by what is known of them, as a selection of paths, and how many
    others pass. Cases that never ran, and those that their files no longer have, are omitted.
    Raises NothingToDo if none remain."""
    by_suite: dict[str, list[str]] = {}
    passed_count = 0
    _, stored_cases = current(settings, environ)
    for (suite, case_id), stored_case in stored_cases.items():
        if stored_case.verdict.kind is VerdictKind.PASS:
            passed_count += 1
        else:
            by_suite.setdefault(suite, []).append(case_id)
    if not by_suite:
        raise NothingToDo("every case passed when it last ran")
    # an id with a comma cannot be named there: then all cases of its file are
    paths = tuple(
        suite if any("," in case_id for case_id in cases) else f"{suite}:{','.join(cases)}"
        for suite, cases in by_suite.items()
    )
    return paths, passed_count


def of_file(
    path: Path, *, case_keys: Collection[CaseKey] | None = None
) -> dict[CaseKey, StoredCase]:
    """The cases of a results.json, or some of them. Raises ConfigError."""
    stored = file.read_results(path)
    document = json.loads(path.read_bytes())
    compared = _by_key(document.get("comparison", {}).get("cases", []))
    verdicts = compare_files.verdicts_of(stored)
    run = stored.run
    trials: dict[CaseKey, list[GradedTrial]] = {}
    for trial in (*run.trials, *run.confirmations):
        trials.setdefault(trial.key.case, []).append(trial)
    stored_cases = {}
    for suite in run.suites:
        for case in suite.eval_set.cases:
            key = (suite.key, case.case_id)
            if case_keys is not None and key not in case_keys:
                continue
            comparison = compared.get(key, {})
            first_trials = tuple(trial for trial in trials.get(key, ()) if trial.key.is_first)
            reruns = tuple(trial for trial in trials.get(key, ()) if not trial.key.is_first)
            stored_cases[key] = StoredCase(
                stored=stored,
                suite=suite,
                verdict=verdicts[key],
                trials=first_trials,
                reruns=reruns,
                origin=str(comparison.get("origin") or ""),
                is_new=comparison.get("status") == CaseStatus.NEW.value,
                label=stored.entries[key].label or case_labels.label(verdicts[key]),
            )
    return stored_cases


def _by_key(cases: Iterable[JsonObject]) -> dict[CaseKey, JsonObject]:
    """Entries of a comparison by their case."""
    return {(str(case.get("suite")), str(case.get("case_id"))): case for case in cases}
