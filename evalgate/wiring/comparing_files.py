"""Two results.json beside each other: what can be compared of them, and the gate's word on it; nothing is run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from evalgate.errors import ConfigError, Place
from evalgate.gate import confirmation
from evalgate.gate.pairing import CaseKey
from evalgate.gate.two_stage import Stage
from evalgate.model import (
    BaseOrigin,
    BaseSource,
    Comparison,
    GradedTrial,
    Links,
    NotEvaluated,
    Policy,
    Reason,
    Run,
    Standing,
    ThresholdRule,
)
from evalgate.pipeline import fingerprints, stored
from evalgate.pipeline.stored import Stored
from evalgate.wiring import bars, comparisons, concluding, confirming, policies, stores
from evalgate.wiring.bases import Base, Rules
from evalgate.wiring.choosing import Choice
from evalgate.wiring.concluding import Ending, Gated
from evalgate.wiring.measuring import Measured

OTHER_SETTINGS = "the base was graded by other settings of this criterion"


def compare(choice: Choice, *, base: Path, head: Path, reproduce: str) -> Gated:
    """Decide on head with the results of a base at hand, and write the reports; results.json stays as it is.

    What head loosens is told as far as the files show it: thresholds, criteria and cases. Raises ConfigError where a
    file cannot be read or holds a part of a plan.
    """
    theirs, ours = _whole(base), _whole(head)
    origin = stores.aged(
        BaseOrigin(source=BaseSource.FILE, commit=theirs.run.commit, measured_at=theirs.run.started_at),
        settings=choice.settings,
        now=datetime.now(UTC),
    )
    policy = dataclasses.replace(policies.policy_of(choice, ours.run.suites), adk_compat=ours.adk_compat)
    known = Base(origin=origin, rules=Rules(suites=theirs.run.suites, policy=policy))
    bar = bars.of(choice, ours.run.suites, policy, known)
    head_run = dataclasses.replace(ours.run, suites=bar.suites)
    base_run, notes = _comparable(theirs, head_run, adk_compat=ours.adk_compat)
    if theirs.version != ours.version:
        notes.append(f"the base was measured by evalgate {theirs.version}, head by {ours.version}")
    comparison = comparisons.compare(
        head_run,
        base_run,
        policy=bar.policy,
        origin=dataclasses.replace(origin, notes=(*origin.notes, *notes)),
        unpaired=_unpaired(head_run, theirs.run),
        loosened=bar.loosened,
        stage=Stage.LAST if head_run.more or base_run.more else Stage.ONLY,
        beside=_are_one_run(theirs, ours),
    )
    settled = _settled(comparison, head_run, base_run, bar.policy)
    found = Measured(head=head_run, base=base_run, comparison=settled)
    problems = (*choice.problems, *confirming.not_run(settled))
    ending = Ending(choice=choice, problems=problems, links=Links(), reproduce=reproduce)
    return concluding.conclude(found, bar.policy, ending, None, unreliable=frozenset())


def _are_one_run(base: Stored, head: Stored) -> bool:
    """Whether the files are the two sides of one run, which ran all of the base beside the head."""
    told = (head.comparison or {}).get("origin")
    return (
        isinstance(told, Mapping)
        and told.get("source") == BaseSource.RERUN
        and told.get("commit") == base.run.commit
        and head.run.started_at == base.run.started_at
    )


def _whole(path: Path) -> Stored:
    read = stored.read_results(path)
    if read.run.shard is not None:
        raise ConfigError(
            f"is part {read.run.shard} of a run", where=Place(file=str(path)), hint="Join the parts: `evalgate merge`."
        )
    return read


def _unpaired(head: Run, base: Run) -> dict[CaseKey, Standing]:
    ours, theirs = _contents(head), _contents(base)
    unpaired = dict.fromkeys(sorted(theirs.keys() - ours.keys()), Standing.REMOVED)
    for key, content in ours.items():
        if key not in theirs:
            unpaired[key] = Standing.NEW
        elif theirs[key] != content:
            unpaired[key] = Standing.CHANGED
    return unpaired


def _contents(run: Run) -> dict[CaseKey, str]:
    """The fingerprint of every case, all that a criterion may see of it included."""
    return {
        (suite.key, case.case_id): run.fingerprints.get((suite.key, case.case_id)) or fingerprints.of_case(case)
        for suite in run.suites
        for case in suite.eval_set.cases
    }


def _comparable(base: Stored, head: Run, *, adk_compat: bool) -> tuple[Run, list[str]]:
    """The base's run without the grades of criteria that were set otherwise there, and a note on each of these."""
    ours, theirs = _settings(head, adk_compat=adk_compat), _settings(base.run, adk_compat=base.adk_compat)
    other = {name for name, setting in ours.items() if theirs.get(name, setting) != setting}
    if not other:
        return base.run, []
    trials = tuple(_without(trial, other) for trial in base.run.trials)
    names = sorted({name for _, name in other})
    notes = [f"{name} was set otherwise on the base: its scores are not compared" for name in names]
    return dataclasses.replace(base.run, trials=trials), notes


def _settings(run: Run, *, adk_compat: bool) -> Mapping[tuple[str, str], str]:
    return {
        (suite.key, use.name): fingerprints.of_criterion(use, version="", adk_compat=adk_compat)
        for suite in run.suites
        for use in suite.criteria
    }


def _without(trial: GradedTrial, other: set[tuple[str, str]]) -> GradedTrial:
    unknown = NotEvaluated(reason=Reason.NOT_APPLICABLE, message=OTHER_SETTINGS)
    grades = {name: unknown if (trial.key.suite, name) in other else grade for name, grade in trial.grades.items()}
    return dataclasses.replace(trial, grades=grades)


def _settled(comparison: Comparison, head: Run, base: Run, policy: Policy) -> Comparison:
    """New failures by the fresh runs that stand in the files; by head's alone where the base's has none of a case."""
    if policy.threshold is not ThresholdRule.NEW or comparison.problem:
        return comparison
    candidates = confirmation.candidates(comparison, policy=policy, unreliable=frozenset())
    asked = confirming.ask(candidates, head.suites, base, repeats=head.repeats, policy=policy)
    seen = {(trial.key.suite, trial.key.case_id) for trial in base.confirmations}
    asked = dataclasses.replace(asked, alone=asked.cases - seen)
    return asked.settle(comparison, head=head, base=base)
