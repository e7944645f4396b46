"""What earlier runs at this place found: the newest results of each case, from the runs that were kept."""

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
from evalgate.results import file, kept
from evalgate.results.file import Stored, StoredOutcomes
from evalgate.results.labels import CaseLabel
from evalgate.results.output import RESULTS
from evalgate.text import plain, words
from evalgate.values import JsonObject

NEW = (FailureOrigin.NEW.value, FailureOrigin.UNKNOWN.value)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Known:
    """The newest results of one case; `origin`: whose failure it is, "" where that was not asked. `is_new`: the base
    does not have the case. `is_flaky`: reruns did not confirm its failure."""

    stored: Stored
    suite: Suite
    verdict: CaseVerdict
    trials: tuple[GradedTrial, ...]
    origin: str = ""
    is_new: bool = False
    is_flaky: bool = False

    @property
    def key(self) -> CaseKey:
        """Its suite and id."""
        return self.verdict.key


def newest(settings: Settings, results: Path | None = None) -> dict[CaseKey, Known]:
    """The newest results of each case, or those in one file. Raises NothingToDo where there are none, ConfigError where
    they cannot be read."""
    found: dict[CaseKey, Known] = {}
    if results is not None:
        return _of_file(results, settings, wanted=None)
    last = settings.root / settings.output / RESULTS
    runs = kept.runs(settings.root)
    for run in runs:
        wanted = run.about.keys() - found.keys()
        if wanted:
            found |= _of_file(run.results, settings, wanted=wanted)
        if run.about.complete and not run.about.selected:
            break
    if not runs and last.exists():
        return _of_file(last, settings, wanted=None)
    if not found:
        raise NothingToDo("there are no results yet", hint="Run `evalgate run` first.")
    return found


def select(known: Mapping[CaseKey, Known], names: Sequence[str]) -> list[Known]:
    """Those that are named by id, or by `file.evalset.json:id`; all where nothing is named. Raises ConfigError."""
    if not names:
        return list(known.values())
    chosen: list[Known] = []
    for name in names:
        found = [each for each in known.values() if name in (each.key[1], ":".join(each.key))]
        if not found:
            hint = words.did_you_mean(name, [case for _, case in known], otherwise="`evalgate list` shows the cases.")
            raise ConfigError(f"no results of a case {plain.label(name, 80)!r}", hint=hint)
        chosen += [each for each in found if each not in chosen]
    return chosen


def joined(known: Mapping[CaseKey, Known], suites: tuple[Suite, ...]) -> Stored:
    """The newest results of each case as those of one run, under the cases, criteria and thresholds that there are now.

    A score counts as long as the case and its criterion are what they were; else what the agent did is known, and how
    good it was is not. A run that holds all of them stays whole: its reruns, and what its agents were made of. Raises
    ConfigError.
    """
    now = fingerprints.CaseFingerprints().of_cases(suites)
    every = [known[key] for key in now if key in known]
    stored = list({id(each.stored): each.stored for each in every}.values())
    if len(stored) == 1 and now == stored[0].run.fingerprints and _has_all(stored[0], suites):
        return replace(stored[0], run=replace(stored[0].run, suites=suites))
    trials: list[GradedTrial] = []
    for suite in suites:
        for each in (each for case in suite.eval_set.cases if (each := known.get((suite.key, case.case_id)))):
            trials += _under(each, suite, is_same=now[each.key] == each.stored.run.fingerprints.get(each.key))
    found = ((trial.key, each.stored.outcomes.find_json(trial.key)) for each in every for trial in each.trials)
    raw = {key: outcome for key, outcome in found if outcome is not None}
    outcomes = StoredOutcomes(raw, {at: told for each in stored for at, told in each.outcomes.agents().items()})
    run = Run(
        suites=suites,
        trials=tuple(trials),
        transcripts=outcomes,
        seconds=sum(each.run.seconds for each in stored),
        agents={key: about for each in stored for key, about in each.run.agents.items()},
        fingerprints=now,
        **_origin(stored),
    )
    return _together(stored, run, outcomes)


def _origin(stored: Sequence[Stored]) -> JsonObject:
    """When the last of the runs began, and with which commit."""
    last = max((each.run for each in stored), key=lambda run: run.started_at, default=None)
    return {} if last is None else {"started_at": last.started_at, "commit": last.commit, "dirty": last.dirty}


def _together(stored: Sequence[Stored], run: Run, outcomes: StoredOutcomes) -> Stored:
    """What several files say of themselves, as one with this run: all of their criteria, else what the last says."""
    criteria = {key: told for each in stored for key, told in each.criteria.items()}
    if not stored:
        return Stored(run=run, outcomes=outcomes, version=__version__, criteria=criteria)
    last = max(stored, key=lambda each: each.run.started_at)
    return Stored(
        run=run,
        outcomes=outcomes,
        version=last.version,
        criteria=criteria,
        deviations=last.deviations,
    )


def _has_all(stored: Stored, suites: Iterable[Suite]) -> bool:
    """Whether every criterion of the suites is what it was in the run."""
    return all(len(_alike(stored, suite)) == len(suite.criteria) for suite in suites)


def _under(each: Known, suite: Suite, *, is_same: bool) -> Iterator[GradedTrial]:
    """The trials of a case by the criteria of today; those that it lacks are not measured."""
    changed = NotEvaluated(reason=Reason.SKIPPED, message="the case was changed since it ran: run it again")
    same = _alike(each.stored, suite)
    for trial in each.trials:
        grades = {name: trial.grades[name] for name in same if name in trial.grades}
        deciding = (use.name for use in suite.criteria if not use.informational)
        yield replace(trial, grades=grades if is_same else dict.fromkeys(deciding, changed))
    numbers = {trial.key.number for trial in each.trials if trial.key.is_first}
    for number in range(each.stored.run.repeats if each.trials else 0):
        if number not in numbers:
            key = TrialKey(suite=each.key[0], case_id=each.key[1], number=number)
            yield GradedTrial(key=key, failure=None, grades={})


def _alike(stored: Stored, suite: Suite) -> list[str]:
    """The criteria that score as those of a run did."""
    prints = {
        use.name: fingerprints.of_criterion(use, version=stored.version, deviations=stored.deviations)
        for use in suite.criteria
    }
    return [name for name, told in prints.items() if stored.criteria.get((suite.key, name)) == told]


def failed(settings: Settings) -> tuple[str, ...]:
    """The cases that did not pass when they last ran, as a selection of paths; without those that their files no longer
    have. Raises NothingToDo where none is left."""
    by_suite: dict[str, list[str]] = {}
    for (suite, case), each in newest(settings).items():
        if each.verdict.kind is not VerdictKind.PASS:
            by_suite.setdefault(suite, []).append(case)
    if not by_suite:
        raise NothingToDo("every case passed when it last ran")
    by_suite = {suite: left for suite, ids in by_suite.items() if (left := _there(settings.root, suite, ids))}
    if not by_suite:
        raise NothingToDo("the cases that failed when they last ran are no longer there")
    # an id with a comma cannot be named there: then all cases of its file are
    return tuple(
        suite if any("," in case for case in cases) else f"{suite}:{','.join(cases)}"
        for suite, cases in by_suite.items()
    )


def _there(root: Path, suite: str, cases: list[str]) -> list[str]:
    """Those of the cases that their file has now; all where it cannot be read as it is, which the run will tell."""
    path = root / suite
    if not path.is_file():
        return []
    try:
        found = eval_set.parse_eval_set(rewrite.read(path, shown_as=suite).text, file=suite).eval_set
    except (ConfigError, UnavailableError):
        return cases
    known = cases if found is None else {case.case_id for case in found.cases}
    return [case for case in cases if case in known]


def _of_file(path: Path, settings: Settings, *, wanted: Collection[CaseKey] | None) -> dict[CaseKey, Known]:
    stored = file.read_results(path)
    document = json.loads(path.read_bytes())
    compared = _by_key(document.get("comparison", {}).get("cases", []))
    labels = _by_key(
        {"suite": suite.get("suite"), **case} for suite in document.get("suites", []) for case in suite.get("cases", [])
    )
    run, policy = stored.run, load.policy_of(settings, stored.run.suites)
    trials: dict[CaseKey, list[GradedTrial]] = {}
    for trial in run.trials:
        trials.setdefault(trial.key.case, []).append(trial)
    found = {}
    for suite in run.suites:
        for case in suite.eval_set.cases:
            key = (suite.key, case.case_id)
            if wanted is not None and key not in wanted:
                continue
            told = compared.get(key, {})
            verdict = threshold.judge_case(
                key=(suite.key, case.case_id),
                criteria=suite.criteria_of(case),
                trials=trials.get(key, ()),
                repeats=run.repeats,
                deviations=policy.deviations,
                truncated=run.truncated,
            )
            found[key] = Known(
                stored=stored,
                suite=suite,
                verdict=verdict,
                trials=tuple(trials.get(key, ())),
                origin=str(told.get("origin") or ""),
                is_new=told.get("status") == CaseStatus.NEW.value,
                is_flaky=labels.get(key, {}).get("label") == CaseLabel.FLAKY.value,
            )
    return found


def _by_key(cases: Iterable[JsonObject]) -> dict[CaseKey, JsonObject]:
    """Entries of results.json by their case."""
    return {(str(case.get("suite")), str(case.get("case_id"))): case for case in cases}
