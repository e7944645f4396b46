"""Reuse an earlier run: its transcripts if the agent received the same input, its grades if the
criterion is the same too. Reused results count like new ones; everything else is run or graded
again."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from evalgate.formats import fingerprints
from evalgate.model import (
    AgentFailure,
    Case,
    CaseKey,
    CaseStatus,
    GradedTrial,
    Inputs,
    Purpose,
    Score,
    Suite,
    Trial,
    TrialKey,
    cases_of,
)
from evalgate.results.file import Stored
from evalgate.results.store import EarlierSide
from evalgate.runner.session import Side
from evalgate.runner.trials import Task


def take_results(
    stored: Stored, tasks: Iterable[Task], side: Side, *, renamed: Mapping[str, str] | None = None
) -> dict[CaseKey, CaseStatus]:
    """Put the trials of results.json for these tasks into the side's journal, at the addresses that
    the side looks up. Returns the cases in which the stored run cannot be compared.

    Trials in which the agent failed are not reused, because the agent may work now. `renamed`: for
    each evaluation file with another name in the stored run, its name there."""
    cases = cases_of(stored.run.suites)
    stored_trials = {trial.key: trial for trial in (*stored.run.trials, *stored.run.confirmations)}
    unpaired: dict[CaseKey, CaseStatus] = {}
    for task in tasks:
        stored_key = task.key.renamed(renamed or {})
        stored_case = cases.get(stored_key.case)
        stored_trial = stored_trials.get(stored_key)
        stored_print = stored.run.fingerprints.get(stored_key.case)
        is_same = stored_print == side.prints.find(task.suite, task.case)[1]
        if stored_case is None:
            unpaired[task.key.case] = CaseStatus.NEW
        elif not (is_same or _is_same_input(stored_case, task.case)):
            unpaired[task.key.case] = CaseStatus.CHANGED
        elif (
            stored_trial is not None
            and stored_trial.failure is None
            and _keep(stored_trial, task, stored, side, with_grades=is_same)
        ):
            side.reused[task.key] = stored.run.started_at
    return unpaired


def _is_same_input(stored_case: Case, case: Case) -> bool:
    # the simulated user is part of the input, which only the fingerprint of the case includes
    return case.scenario is None and fingerprints.of_task(stored_case) == fingerprints.of_task(case)


def take(entries: Sequence[EarlierSide], suite: Suite, side: Side, *, repeats: int) -> None:
    """Put earlier trials of the suite's agent into the side's journal, if its inputs are the same:
    the first runs of every case, and its reruns up to the first missing one. Other cases or seeds
    have other addresses. Trials in which the agent failed run again."""
    agent = fingerprints.agent_key(suite.agent)
    no_inputs = Inputs()
    entries = [
        entry
        for entry in entries
        if side.inputs.stands(
            agent, entry.journal.inputs.get(agent, no_inputs), is_continued=entry.is_continued
        )
    ]
    for case in suite.cases if entries else ():
        for purpose in Purpose:
            for number in range(repeats) if purpose is Purpose.FIRST else itertools.count():
                key = TrialKey(
                    suite=suite.key, case_id=case.case_id, purpose=purpose, number=number
                )
                is_reused = _take(entries, Task(key=key, suite=suite, case=case), side)
                if not (is_reused or key.is_first):
                    break


def _take(entries: Sequence[EarlierSide], task: Task, side: Side) -> bool:
    addresses = side.addresses(task)
    if side.journal.knows(addresses.trial):
        return False
    for entry in entries:
        journal = entry.journal
        trial = journal.trial(addresses.trial, task.key)
        if trial is None or isinstance(trial.outcome, AgentFailure):
            continue
        measured_at = journal.measured_at(addresses.trial)
        if not entry.is_recent(measured_at):
            continue
        agent = fingerprints.agent_key(task.suite.agent)
        side.journal.add_inputs(agent, journal.inputs.get(agent, Inputs()))
        side.journal.add_trial(addresses.trial, trial, agent=agent, measured_at=measured_at)
        for address in addresses.grades.values():
            grade = journal.grade(address)
            if isinstance(grade, Score):
                side.journal.add_grade(address, grade)
        side.reused[task.key] = measured_at
        return True
    return False


def _keep(
    stored_trial: GradedTrial, task: Task, stored: Stored, side: Side, *, with_grades: bool
) -> bool:
    """Put a stored trial and its grades into the journal; True if it is usable. `stored_trial`:
    under the stored run's own key."""
    outcome = stored.outcomes.find(stored_trial.key)
    if outcome is None or outcome.redacted:
        return False
    addresses = side.addresses(task)
    if side.journal.knows(addresses.trial):
        return True
    trial = Trial(
        key=task.key, outcome=outcome, seconds=stored_trial.seconds, attempts=stored_trial.attempts
    )
    side.journal.add_trial(addresses.trial, trial, measured_at=stored.run.started_at)
    for use in task.suite.criteria if with_grades else ():
        # rerun criteria that only compute, and custom metrics whose code may have changed: they
        # are cheap
        if use.name not in addresses.grades or use.code is not None:
            continue
        grade = stored_trial.grades.get(use.name)
        setting = stored.criteria.get((stored_trial.key.suite, use.name))
        is_same_criterion = setting == side.criterion_prints[task.suite.key, use.name]
        if isinstance(grade, Score) and is_same_criterion:
            side.journal.add_grade(addresses.grades[use.name], grade)
    return True
