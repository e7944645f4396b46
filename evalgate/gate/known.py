"""What earlier runs at this place found: the newest results of each case, from the runs that were kept."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalgate.comparison import threshold
from evalgate.config import load
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, NothingToDo
from evalgate.model import CaseKey, CaseStatus, CaseVerdict, FailureOrigin, GradedTrial, Suite, VerdictKind
from evalgate.results import file, kept
from evalgate.results.file import Stored
from evalgate.results.output import RESULTS
from evalgate.text import plain, words

NEW = (FailureOrigin.NEW.value, FailureOrigin.UNKNOWN.value)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Known:
    """The newest results of one case; `origin`: whose failure it is, "" where that was not asked. `is_new`: the base
    does not have the case."""

    stored: Stored
    suite: Suite
    verdict: CaseVerdict
    trials: tuple[GradedTrial, ...]
    origin: str = ""
    is_new: bool = False

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
            near = words.nearest(name, [case for _, case in known])
            hint = f"Did you mean `{near}`?" if near else "`evalgate list` shows the cases."
            raise ConfigError(f"no results of a case {plain.label(name, 80)!r}", hint=hint)
        chosen += [each for each in found if each not in chosen]
    return chosen


def failed(settings: Settings) -> tuple[str, ...]:
    """The cases that did not pass when they last ran, as a selection of paths. Raises NothingToDo where all passed."""
    by_suite: dict[str, list[str]] = {}
    for (suite, case), each in newest(settings).items():
        if each.verdict.kind is not VerdictKind.PASS:
            by_suite.setdefault(suite, []).append(case)
    if not by_suite:
        raise NothingToDo("every case passed when it last ran")
    # an id with a comma cannot be named there: then all cases of its file are
    return tuple(
        suite if any("," in case for case in cases) else f"{suite}:{','.join(cases)}"
        for suite, cases in by_suite.items()
    )


def _of_file(path: Path, settings: Settings, *, wanted: Collection[CaseKey] | None) -> dict[CaseKey, Known]:
    stored = file.read_results(path)
    compared = _compared(path) if stored.comparison is not None else {}
    run, policy = stored.run, load.policy_of(settings, stored.run.suites)
    trials: dict[CaseKey, list[GradedTrial]] = {}
    for trial in run.trials:
        trials.setdefault((trial.key.suite, trial.key.case_id), []).append(trial)
    found = {}
    for suite in run.suites:
        for case in suite.eval_set.cases:
            key = (suite.key, case.case_id)
            if wanted is not None and key not in wanted:
                continue
            told = compared.get(key, {})
            verdict = threshold.judge_case(
                suite=suite.key,
                case_id=case.case_id,
                criteria=suite.criteria_of(case),
                trials=trials.get(key, ()),
                repeats=run.expected(*key),
                adk_compat=policy.adk_compat,
                truncated=run.truncated,
            )
            found[key] = Known(
                stored=stored,
                suite=suite,
                verdict=verdict,
                trials=tuple(trials.get(key, ())),
                origin=str(told.get("origin") or ""),
                is_new=told.get("status") == CaseStatus.NEW.value,
            )
    return found


def _compared(path: Path) -> dict[CaseKey, dict[str, Any]]:
    """What results.json says of its cases beside the base."""
    cases = json.loads(path.read_bytes()).get("comparison", {}).get("cases", [])
    return {(str(case.get("suite")), str(case.get("case_id"))): case for case in cases}
