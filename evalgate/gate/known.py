"""What earlier runs at this place found: the newest results of each case, from the runs that were
kept."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evalgate import __version__
from evalgate.comparison import threshold
from evalgate.config import load
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, NothingToDo, UnavailableError
from evalgate.formats import eval_set, fingerprints, rewrite
from evalgate.model import (
    CaseKey,
    CaseStatus,
    CaseVerdict,
    FailureOrigin,
    GradedTrial,
    NotEvaluated,
    Reason,
    Run,
    Suite,
    TrialKey,
    VerdictKind,
)
from evalgate.results import file, kept, labels as case_labels
from evalgate.results.file import Stored, StoredOutcomes
from evalgate.results.labels import CaseLabel
from evalgate.results.output import RESULTS
from evalgate.text import plain, words
from evalgate.values import JsonObject

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
    def is_flaky(self) -> bool:
        """True if reruns did not confirm its failure."""
        return self.label is CaseLabel.FLAKY

    @property
    def key(self) -> CaseKey:
        """Its suite and id."""
        return self.verdict.key


def newest(settings: Settings, results: Path | None = None) -> dict[CaseKey, StoredCase]:
    """The newest results of each case, or those in one file. Raises NothingToDo if there are no
    results, ConfigError if they cannot be read."""
    stored_cases: dict[CaseKey, StoredCase] = {}
    if results is not None:
        return _of_file(results, settings, case_keys=None)
    last = settings.root / settings.output / RESULTS
    runs = kept.runs(settings.root)
    for run in runs:
        case_keys = run.about.keys() - stored_cases.keys()
        if case_keys:
            stored_cases |= _of_file(run.results, settings, case_keys=case_keys)
        if run.about.complete and not run.about.selected:
            break
    if not runs and last.exists():
        return _of_file(last, settings, case_keys=None)
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


def joined(stored_cases: Mapping[CaseKey, StoredCase], suites: tuple[Suite, ...]) -> Stored:
    """The newest results of each case as those of one run, under the cases, criteria and thresholds
    that there are now.

    A score counts as long as the case and its criterion are what they were; else what the agent did
    is known, and how good it was is not. A run that holds all of them stays whole: its reruns, and
    what its agents were made of. Raises ConfigError."""
    case_fingerprints = fingerprints.CaseFingerprints().of_cases(suites)
    every = [stored_cases[key] for key in case_fingerprints if key in stored_cases]
    stored = list({id(stored_case.stored): stored_case.stored for stored_case in every}.values())
    if (
        len(stored) == 1
        and case_fingerprints == stored[0].run.fingerprints
        and _has_all(stored[0], suites)
    ):
        return replace(stored[0], run=replace(stored[0].run, suites=suites))
    trials: list[GradedTrial] = []
    reruns: list[GradedTrial] = []
    for suite in suites:
        for stored_case in (
            stored_case
            for case in suite.eval_set.cases
            if (stored_case := stored_cases.get((suite.key, case.case_id)))
        ):
            is_same = case_fingerprints[stored_case.key] == stored_case.stored.run.fingerprints.get(
                stored_case.key
            )
            trials += _under(stored_case, suite, is_same=is_same)
            if is_same and len(_alike(stored_case.stored, suite)) == len(suite.criteria):
                reruns += stored_case.reruns
    outcome_pairs = (
        (trial.key, stored_case.stored.outcomes.find_json(trial.key))
        for stored_case in every
        for trial in (*stored_case.trials, *stored_case.reruns)
    )
    raw = {key: outcome for key, outcome in outcome_pairs if outcome is not None}
    outcomes = StoredOutcomes(
        raw, {at: agent for part in stored for at, agent in part.outcomes.agents().items()}
    )
    run = Run(
        suites=suites,
        trials=tuple(trials),
        confirmations=tuple(reruns),
        transcripts=outcomes,
        seconds=sum(part.run.seconds for part in stored),
        agents={key: about for part in stored for key, about in part.run.agents.items()},
        fingerprints=case_fingerprints,
        **_origin(stored),
    )
    return _together(stored, run, outcomes)


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


def _has_all(stored: Stored, suites: Iterable[Suite]) -> bool:
    """True if every criterion of the suites is the same as in the run."""
    return all(len(_alike(stored, suite)) == len(suite.criteria) for suite in suites)


def _under(stored_case: StoredCase, suite: Suite, *, is_same: bool) -> Iterator[GradedTrial]:
    """The trials of a case by the criteria of today; those that it lacks are not measured."""
    changed = NotEvaluated(
        reason=Reason.SKIPPED, message="the case was changed since it ran: run it again"
    )
    same = _alike(stored_case.stored, suite)
    for trial in stored_case.trials:
        grades = {name: trial.grades[name] for name in same if name in trial.grades}
        deciding = (use.name for use in suite.criteria if not use.informational)
        yield replace(trial, grades=grades if is_same else dict.fromkeys(deciding, changed))
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


def failed(settings: Settings) -> tuple[tuple[str, ...], int]:
    """The cases that did not pass when they last ran, as a selection of paths, and how many others
    passed. Cases that their files no longer have are omitted. Raises NothingToDo if none remain."""
    by_suite: dict[str, list[str]] = {}
    passed_count = 0
    for (suite, case_id), stored_case in newest(settings).items():
        if stored_case.verdict.kind is VerdictKind.PASS:
            passed_count += 1
        else:
            by_suite.setdefault(suite, []).append(case_id)
    if not by_suite:
        raise NothingToDo("every case passed when it last ran")
    by_suite = {
        suite: remaining_cases
        for suite, ids in by_suite.items()
        if (remaining_cases := _there(settings.root, suite, ids))
    }
    if not by_suite:
        raise NothingToDo("the cases that failed when they last ran are no longer there")
    # an id with a comma cannot be named there: then all cases of its file are
    paths = tuple(
        suite if any("," in case_id for case_id in cases) else f"{suite}:{','.join(cases)}"
        for suite, cases in by_suite.items()
    )
    return paths, passed_count


def _there(root: Path, suite: str, cases: list[str]) -> list[str]:
    """Those of the cases that their file has now; all if it cannot be read, which the run will
    report."""
    path = root / suite
    if not path.is_file():
        return []
    try:
        evaluation_set = eval_set.parse_eval_set(
            rewrite.read(path, shown_as=suite).text, file=suite
        ).eval_set
    except (ConfigError, UnavailableError):
        return cases
    case_ids = cases if evaluation_set is None else {case.case_id for case in evaluation_set.cases}
    return [case for case in cases if case in case_ids]


def _of_file(
    path: Path, settings: Settings, *, case_keys: Collection[CaseKey] | None
) -> dict[CaseKey, StoredCase]:
    stored = file.read_results(path)
    document = json.loads(path.read_bytes())
    compared = _by_key(document.get("comparison", {}).get("cases", []))
    label_entries = _by_key(
        {"suite": suite.get("suite"), **case}
        for suite in document.get("suites", [])
        for case in suite.get("cases", [])
    )
    run = stored.run
    policy = load.policy_of(settings, stored.run.suites)
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
            verdict = threshold.judge_case(
                key=(suite.key, case.case_id),
                criteria=suite.criteria_of(case),
                trials=first_trials,
                repeats=run.repeats,
                deviations=policy.deviations,
                truncated=run.truncated,
            )
            stored_cases[key] = StoredCase(
                stored=stored,
                suite=suite,
                verdict=verdict,
                trials=first_trials,
                reruns=reruns,
                origin=str(comparison.get("origin") or ""),
                is_new=comparison.get("status") == CaseStatus.NEW.value,
                label=CaseLabel(
                    label_entries.get(key, {}).get("label") or case_labels.label(verdict)
                ),
            )
    return stored_cases


def _by_key(cases: Iterable[JsonObject]) -> dict[CaseKey, JsonObject]:
    """Entries of results.json by their case."""
    return {(str(case.get("suite")), str(case.get("case_id"))): case for case in cases}
