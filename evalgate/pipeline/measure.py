"""Measuring one side: trials and grades, from the journal where they are known, into a Run."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from evalgate.model import AgentFailure, AgentUse, GradedTrial, Run, Suite, TrialKey
from evalgate.pipeline import fingerprints, grading, trials
from evalgate.pipeline.grading import Remembered
from evalgate.pipeline.journal import Journal
from evalgate.pipeline.trials import Task, TrialRunner
from evalgate.plugins import Agent, Criterion, Watcher


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """All that measuring needs of the world.

    `agents` by `trials.agent_key`; `criteria` by suite key, each by name in the suite's order; `code_of` gives the
    fingerprint of an agent's own files; `criterion_version` stands in every grade's address.
    """

    agents: Mapping[str, Agent]
    criteria: Mapping[str, Mapping[str, Criterion]]
    code_of: Callable[[AgentUse], str]
    journal: Journal
    watcher: Watcher
    stop: threading.Event
    concurrency: int = 8
    retries: int = 2
    adk_compat: bool = False
    criterion_version: str = ""


def measure(suites: tuple[Suite, ...], bench: Bench, *, repeats: int, seed: int, now: datetime) -> Run:
    """Run and grade every trial of `suites`.

    Trials that the journal holds are not run again, grades that it holds are not asked for again. When `stop` is set
    (Ctrl-C), what is running ends and the Run is marked incomplete. Raises UnavailableError when the journal
    cannot be written: what cannot be kept must not be paid for.
    """
    started = time.monotonic()
    desk = _Desk(suites, bench, seed=seed)
    total = sum(len(suite.eval_set.cases) for suite in suites) * repeats
    bench.watcher.begin(trials=total, done=0)
    results = trials.map_bounded(
        desk.serve,
        trials.tasks(suites, repeats=repeats),
        threads=bench.concurrency,
        stop=bench.stop,
        abort=lambda: _close(bench.agents.values()),
    )
    try:
        with contextlib.closing(results):
            for _ in results:
                pass
    except KeyboardInterrupt:
        bench.watcher.say("interrupted: what is finished is kept; go on with --resume")
    finally:
        bench.watcher.end()
    graded = desk.graded
    ordered = tuple(
        graded[key]
        for suite in suites
        for case in suite.eval_set.cases
        for key in (TrialKey(suite=suite.key, case_id=case.case_id, repeat=repeat) for repeat in range(repeats))
        if key in graded
    )
    return Run(
        suites=suites,
        trials=ordered,
        transcripts=bench.journal,
        repeats=repeats,
        seed=seed,
        started_at=now.isoformat(timespec="seconds"),
        seconds=time.monotonic() - started,
        complete=len(graded) == total,
        agents={key: dict(agent.about()) for key, agent in bench.agents.items()},
    )


def _close(agents: Iterable[Agent]) -> None:
    for agent in agents:
        agent.close()


class _Desk:
    """Serves one task after another, on any thread."""

    def __init__(self, suites: tuple[Suite, ...], bench: Bench, *, seed: int) -> None:
        self._bench = bench
        self._seed = seed
        self.graded: dict[TrialKey, GradedTrial] = {}
        self._settings = {
            suite.key: {
                use.name: fingerprints.of_criterion(use, version=bench.criterion_version, adk_compat=bench.adk_compat)
                for use in suite.criteria
            }
            for suite in suites
        }
        self._codes = {trials.agent_key(suite.agent): bench.code_of(suite.agent) for suite in suites}
        self._runner = TrialRunner(agents=bench.agents, retries=bench.retries, stop=bench.stop, say=bench.watcher.say)

    def serve(self, task: Task) -> None:
        """Put the graded trial of a task into `graded`; none where the end of the run cut it off."""
        bench = self._bench
        address = fingerprints.of_trial(
            task.key,
            task=fingerprints.of_task(task.case),
            agent=task.suite.agent,
            code=self._codes[trials.agent_key(task.suite.agent)],
            seed=self._seed,
        )
        if bench.journal.knows(address):
            trial = bench.journal.trial(address, task.key)
        else:
            trial = self._runner.run(task)
            if bench.stop.is_set() and isinstance(trial.outcome, AgentFailure):
                return
            bench.journal.add_trial(address, trial)
        self.graded[task.key] = grading.grade(
            trial,
            task,
            criteria=bench.criteria[task.suite.key],
            remembered=self._remembered(task, address),
        )
        bench.watcher.trial_done(task.key, trial.outcome, trial.seconds)

    def _remembered(self, task: Task, trial_address: str) -> Remembered:
        journal = self._bench.journal
        settings = self._settings[task.suite.key]
        case_address = fingerprints.of_case(task.case)

        def address_of(name: str) -> str:
            return fingerprints.of_grade(trial=trial_address, case=case_address, criterion=settings[name])

        return Remembered(
            find=lambda name: journal.grade(address_of(name)),
            keep=lambda name, grade: journal.add_grade(address_of(name), grade),
        )
