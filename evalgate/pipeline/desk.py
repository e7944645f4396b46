"""One side's desk: serves one trial after another, run or from the journal, and its grades."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from evalgate.agents.base import Agent
from evalgate.criteria.base import Criterion
from evalgate.model import FRESH, AgentFailure, AgentUse, GradedTrial, Outcome, Suite, Trial, TrialKey
from evalgate.pipeline import behaviour, fingerprints, grading, pacing, talking, trials
from evalgate.pipeline.budget import Budget, Limits
from evalgate.pipeline.grading import Remembered
from evalgate.pipeline.pacing import Pace
from evalgate.pipeline.talking import Simulate
from evalgate.pipeline.trials import Task, TrialRunner
from evalgate.plugins import Watcher
from evalgate.results.journal import Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side: its suites, its agents by `trials.agent_key`, the criteria of every suite by name in the suite's order,
    the fingerprint of an agent's own files, and the journal that holds what is known of this side. `skipped`: cases
    (suite key, case id) that this side does not run. `computed`: by suite, criteria that only compute; their grades are
    computed again rather than kept. `absent`: suites without an agent to ask.
    """

    suites: tuple[Suite, ...]
    agents: Mapping[str, Agent]
    criteria: Mapping[str, Mapping[str, Criterion]]
    code_of: Callable[[AgentUse], str]
    journal: Journal
    skipped: frozenset[tuple[str, str]] = frozenset()
    computed: Mapping[str, Collection[str]] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What all sides share. `criterion_version` stands in every grade's address. `behaviours`: whether to tell trials
    that did the same from those that did not, which needs repeats to be of use. `simulate` makes the user of a trial.
    `pace` decides when a trial starts. `call_off` ends all waiting to ask a provider again, when a run is cut off.
    """

    watcher: Watcher
    stop: threading.Event
    concurrency: int = 8
    retries: int = 2
    adk_compat: bool = False
    criterion_version: str = ""
    limits: Limits = field(default_factory=Limits)
    behaviours: bool = False
    simulate: Simulate = talking.written
    pace: Pace = pacing.unpaced
    call_off: Callable[[], object] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where the journal of a side keeps a trial, and by criterion name those of its grades that are kept."""

    trial: str
    grades: Mapping[str, str]


class Desk:
    """Serves one task of a side after another, on any thread."""

    def __init__(self, side: Side, bench: Bench, *, budget: Budget, seed: int) -> None:
        self._side = side
        self._bench = bench
        self._budget = budget
        self._seed = seed
        self.graded: dict[TrialKey, GradedTrial] = {}
        self.fresh: list[GradedTrial] = []
        self.fingerprints: dict[tuple[str, str], str] = {}
        self.models: set[str] = set()
        self._settings = {
            suite.key: {
                use.name: fingerprints.of_criterion(use, version=bench.criterion_version, adk_compat=bench.adk_compat)
                for use in suite.criteria
            }
            for suite in side.suites
        }
        self._kept = {
            key: {name: setting for name, setting in settings.items() if name not in side.computed.get(key, ())}
            for key, settings in self._settings.items()
        }
        self.codes = {trials.agent_key(suite.agent): side.code_of(suite.agent) for suite in side.suites}
        self._runner = TrialRunner(
            agents=side.agents,
            retries=bench.retries,
            stop=bench.stop,
            say=bench.watcher.say,
            simulate=bench.simulate,
            pace=bench.pace,
        )

    def addresses(self, task: Task) -> Addresses:
        """Where the journal keeps what comes of a task."""
        asked = fingerprints.of_task(task.case, simulator=task.suite.simulator)
        trial = fingerprints.of_trial(
            task.key,
            task=asked,
            agent=task.suite.agent,
            code=self.codes[trials.agent_key(task.suite.agent)],
            seed=self._seed,
        )
        case = self.fingerprint(task, asked=asked)
        kept = self._kept[task.suite.key]
        grades = {
            name: fingerprints.of_grade(trial=trial, case=case, criterion=setting) for name, setting in kept.items()
        }
        return Addresses(trial=trial, grades=grades)

    def fingerprint(self, task: Task, *, asked: str) -> str:
        """Of the case, references and rubrics included; `asked`: of what the agent is asked."""
        name = (task.suite.key, task.case.case_id)
        found = self.fingerprints.get(name) or fingerprints.of_case(task.case, task=asked)
        self.fingerprints[name] = found
        return found

    def setting(self, task: Task, criterion: str) -> str:
        """The fingerprint of a criterion's settings."""
        return self._settings[task.suite.key][criterion]

    def serve(self, task: Task) -> None:
        """Keep the graded trial of a task; none where the end of the run or of the budget cut it off."""
        addresses = self.addresses(task)
        trial = self._trial(task, addresses)
        if trial is None:
            return
        journal = self._side.journal
        kept = addresses.grades
        remembered = Remembered(
            find=lambda name: journal.grade(kept[name]) if name in kept else None,
            keep=lambda name, grade: journal.add_grade(kept[name], grade) if name in kept else None,
        )
        self.models.update(_models(trial.outcome))
        criteria = self._side.criteria[task.suite.key]
        graded = grading.grade(trial, task, criteria=criteria, remembered=remembered)
        if self._bench.behaviours:
            graded = dataclasses.replace(graded, behavior=behaviour.of_outcome(trial.outcome))
        if task.key.repeat >= FRESH:
            self.fresh.append(graded)
        else:
            self.graded[task.key] = graded
        self._bench.watcher.trial_done(task.key, trial.outcome, trial.seconds)

    def _trial(self, task: Task, addresses: Addresses) -> Trial | None:
        journal = self._side.journal
        known = journal.trial(addresses.trial, task.key)
        if known is not None:
            return known
        if not self._budget.begin():
            return None
        trial = self._runner.run(task)
        self._budget.spend(trial.outcome)
        if self._bench.stop.is_set() and isinstance(trial.outcome, AgentFailure):
            return None
        journal.add_trial(addresses.trial, trial, grades=addresses.grades.values())
        return trial


def _models(outcome: Outcome) -> Iterator[str]:
    for turn in outcome.partial if isinstance(outcome, AgentFailure) else outcome.invocations:
        for event in turn.events or ():
            if event.model_version:
                yield event.model_version
