"""Taking over what a stored run knows: its transcripts where the agent was asked the same, its grades where the
criterion is the same too. What is taken over is as good as measured; the rest is measured or graded anew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from evalgate.model import Case, GradedTrial, Score, Standing, Trial, TrialKey
from evalgate.pipeline import fingerprints
from evalgate.pipeline.journal import Journal
from evalgate.pipeline.measure import Measuring
from evalgate.pipeline.stored import Stored
from evalgate.pipeline.trials import Task


@dataclass(slots=True, kw_only=True)
class TakenOver:
    """How many trials were taken over, and the cases that the stored run cannot be compared in."""

    trials: int = 0
    unpaired: dict[tuple[str, str], Standing] = field(default_factory=dict)


def take_over(stored: Stored, tasks: Iterable[Task], measuring: Measuring, journal: Journal) -> TakenOver:
    """Put the stored trials of these tasks into a side's journal, under the addresses where measuring looks for them.

    A trial in which the agent failed is not taken over: what was broken may work now.
    """
    cases = {(suite.key, case.case_id): case for suite in stored.run.suites for case in suite.eval_set.cases}
    graded = {trial.key: trial for trial in stored.run.trials}
    taken = TakenOver()
    for task in tasks:
        name = (task.suite.key, task.case.case_id)
        standing = _standing(cases.get(name), task.case)
        if standing is not Standing.PAIRED:
            taken.unpaired[name] = standing
            continue
        known = graded.get(task.key)
        if known is not None and known.failure is None and _keep(known, task, stored, measuring, journal):
            taken.trials += 1
    return taken


def _standing(before: Case | None, now: Case) -> Standing:
    if before is None:
        return Standing.NEW
    if now.scenario is not None:  # who plays the user is part of the question, and stands in no results.json
        return Standing.CHANGED
    same = fingerprints.of_task(before) == fingerprints.of_task(now)
    return Standing.PAIRED if same else Standing.CHANGED


def _keep(known: GradedTrial, task: Task, stored: Stored, measuring: Measuring, journal: Journal) -> bool:
    outcome = stored.outcomes.find(task.key)
    if outcome is None:
        return False
    addresses = measuring.addresses(task)
    if journal.knows(addresses.trial):
        return True
    trial = Trial(key=task.key, outcome=outcome, seconds=known.seconds, attempts=known.attempts)
    journal.add_trial(addresses.trial, trial)
    if _same_case(stored, task.key, measuring, task):
        for use in task.suite.criteria:
            grade = known.grades.get(use.name)
            if use.code is not None:  # a custom metric's own code may have changed: it is cheap to run again
                continue
            if isinstance(grade, Score) and stored.criteria.get((task.suite.key, use.name)) == measuring.setting(
                task, use.name
            ):
                journal.add_grade(addresses.grades[use.name], grade)
    return True


def _same_case(stored: Stored, key: TrialKey, measuring: Measuring, task: Task) -> bool:
    return stored.run.fingerprints.get((key.suite, key.case_id)) == measuring.fingerprint(task)
