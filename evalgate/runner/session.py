"""Measuring one side, or both side by side: trials and grades, from the journals where they are known, into Runs."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from evalgate.agents.base import Agent
from evalgate.criteria.base import Criterion
from evalgate.formats import fingerprints
from evalgate.judges import rate_limit
from evalgate.judges.rate_limit import Pace
from evalgate.model import (
    FRESH,
    AgentFailure,
    AgentUse,
    Evidence,
    FailureKind,
    Grade,
    GradedTrial,
    NotEvaluated,
    Outcome,
    Reason,
    Run,
    Score,
    Suite,
    Transcript,
    Trial,
    TrialKey,
    Usage,
)
from evalgate.model.watcher import Watcher
from evalgate.results.journal import Journal
from evalgate.runner import trials
from evalgate.runner.budget import Budget, Limits
from evalgate.runner.trials import Abreast, Task, TrialRunner
from evalgate.simulation.user import Simulate

# -- Grading one trial with all criteria of its suite --


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """Grades that are known already: `find(name)` looks one up, `keep(name, grade)` remembers one."""

    find: Callable[[str], Grade | None]
    keep: Callable[[str, Grade], None]


def grade(trial: Trial, task: Task, *, criteria: Mapping[str, Criterion], remembered: Remembered) -> GradedTrial:
    """The grades of a trial. An agent that failed leaves every criterion not evaluated."""
    failure = trial.outcome if isinstance(trial.outcome, AgentFailure) else None
    return GradedTrial(
        key=trial.key,
        failure=failure,
        grades=_grades(trial.outcome, task, criteria=criteria, remembered=remembered),
        seconds=trial.seconds,
        attempts=trial.attempts,
        tokens=tokens_of(trial.outcome),
    )


def tokens_of(outcome: Outcome) -> int | None:
    """All tokens that the model calls of a trial reported, those before a failure included; None where none did."""
    invocations = outcome.partial if isinstance(outcome, AgentFailure) else outcome.invocations
    usages = [event.usage for each in invocations for event in each.events or () if event.usage is not None]
    said = [tokens for usage in usages if (tokens := _tokens(usage)) is not None]
    return sum(said) if said else None


def _tokens(usage: Usage) -> int | None:
    parts = (usage.prompt_tokens, usage.tool_use_prompt_tokens, usage.candidates_tokens, usage.thoughts_tokens)
    known = [part for part in parts if part is not None]
    return sum(known) or usage.total_tokens or 0 if known else usage.total_tokens


def _grades(
    outcome: Outcome, task: Task, *, criteria: Mapping[str, Criterion], remembered: Remembered
) -> dict[str, Grade]:
    match outcome:
        case AgentFailure():
            return dict.fromkeys(criteria, _unmeasured(outcome))
        case Transcript():
            evidence = Evidence(
                case=task.case,
                actual=outcome.invocations,
                expected=task.case.conversation,
                final_state=outcome.final_state,
                ended_by=outcome.ended_by,
            )
            return {name: _grade_one(name, criterion, evidence, remembered) for name, criterion in criteria.items()}


def _unmeasured(failure: AgentFailure) -> NotEvaluated:
    if failure.kind is FailureKind.SIMULATOR:
        return NotEvaluated(reason=Reason.SIMULATOR_FAILED, message=failure.message)
    return NotEvaluated(reason=Reason.AGENT_FAILED, message=f"the agent failed: {failure.message}")


def _grade_one(name: str, criterion: Criterion, evidence: Evidence, remembered: Remembered) -> Grade:
    known = remembered.find(name)
    if known is not None:
        return known
    try:
        found = criterion(evidence)
    except Exception as error:  # noqa: BLE001 - the wall of one grade: a broken criterion is not a broken agent
        found = NotEvaluated(reason=Reason.CRITERION_FAILED, message=f"{name} raised {type(error).__name__}: {error}")
    if isinstance(found, Score) and not found.is_number:
        found = NotEvaluated(reason=Reason.CRITERION_FAILED, message=f"{name} gave {found.value}, not a valid score")
    if isinstance(found, Score):  # why there was none may be cured when the run is resumed
        remembered.keep(name, found)
    return found


# -- One side's desk --


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side: its suites, its agents by `agent_key`, the criteria of every suite by name in the suite's order,
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
    simulate: Simulate = trials.written
    pace: Pace = rate_limit.at_once
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
        self.codes = {fingerprints.agent_key(suite.agent): side.code_of(suite.agent) for suite in side.suites}
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
            code=self.codes[fingerprints.agent_key(task.suite.agent)],
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
        graded = grade(trial, task, criteria=criteria, remembered=remembered)
        if self._bench.behaviours:
            graded = dataclasses.replace(graded, behavior=fingerprints.of_outcome(trial.outcome))
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


class Measuring:
    """Sides that are measured together: the same cases, the same criteria, trials of all sides interleaved.

    Trials that a side's journal holds are not run again, grades that it holds are not asked for again. When `stop` is
    set (Ctrl-C), what is running ends and the Runs are marked incomplete; when the budget is spent, no trial is begun
    any more and the Runs are marked truncated.
    """

    def __init__(self, sides: Sequence[Side], bench: Bench, *, seed: int, now: datetime) -> None:
        self._sides = tuple(sides)
        self._bench = bench
        self._seed = seed
        self._now = now
        self._started = time.monotonic()
        self._budget = Budget(bench.limits)
        self._desks = [Desk(side, bench, budget=self._budget, seed=seed) for side in self._sides]
        self._repeats = 0
        self._more = 0
        self._repeated: frozenset[tuple[str, str]] = frozenset()
        self._wanted = 0
        self._fresh = 0
        self._idle: frozenset[int] = frozenset()
        self._cut_off = False

    def first(self, repeats: int) -> None:
        """Run every case `repeats` times. Raises UnavailableError when a journal cannot be written: what cannot be
        kept must not be paid for."""
        self._repeats = repeats
        self._carry_out(range(repeats), only=None)

    def again(self, cases: Collection[tuple[str, str]], *, more: int) -> None:
        """Run these cases `more` times more on every side. Raises as `first` does."""
        self._more, self._repeated = more, frozenset(cases)
        self._carry_out(range(self._repeats, self._repeats + more), only=self._repeated)

    def confirm(self, cases: Collection[tuple[str, str]], *, side: int | None = None) -> None:
        """One fresh run of these cases on every side, or on one, which is in no mean. Raises as `first` does."""
        self._fresh += 1
        self._idle = frozenset() if side is None else frozenset(range(len(self._sides))) - {side}
        self._carry_out([FRESH + self._fresh - 1], only=frozenset(cases))
        self._idle = frozenset()

    @property
    def goes_on(self) -> bool:
        """Whether the budget lasts. What is asked for after Ctrl-C does not run, and makes the Runs incomplete."""
        return not self._budget.ended

    @property
    def unpriced(self) -> frozenset[str]:
        """Models whose price is not known: a budget in dollars cannot count them."""
        return frozenset(self._budget.unpriced)

    def knows(self, task: Task) -> bool:
        """Whether the side's journal has this trial."""
        return self._sides[task.side].journal.knows(self.addresses(task).trial)

    def addresses(self, task: Task) -> Addresses:
        """Where the side's journal keeps what comes of a task."""
        return self._desks[task.side].addresses(task)

    def keys(self, side: int) -> frozenset[TrialKey]:
        """The trials that a side has, fresh ones aside."""
        return frozenset(self._desks[side].graded)

    def setting(self, task: Task, criterion: str) -> str:
        """The fingerprint of a criterion's settings."""
        return self._desks[task.side].setting(task, criterion)

    def fingerprint(self, task: Task) -> str:
        """The fingerprint of the case, references and rubrics included."""
        return self._desks[task.side].fingerprint(
            task, asked=fingerprints.of_task(task.case, simulator=task.suite.simulator)
        )

    def run(self, side: int) -> Run:
        """What a side gave until now."""
        desk, of = self._desks[side], self._sides[side]
        keys = [
            TrialKey(suite=suite.key, case_id=case.case_id, repeat=repeat)
            for suite in of.suites
            for case in suite.eval_set.cases
            if (suite.key, case.case_id) not in of.skipped
            for repeat in self._repeats_of(suite.key, case.case_id)
        ]
        return Run(
            suites=of.suites,
            trials=tuple(desk.graded[key] for key in keys if key in desk.graded),
            transcripts=of.journal,
            repeats=self._repeats,
            more=self._more,
            repeated=self._repeated,
            confirmations=tuple(sorted(desk.fresh, key=lambda trial: trial.key)),
            truncated=self._budget.ended,
            seed=self._seed,
            started_at=self._now.isoformat(timespec="seconds"),
            seconds=time.monotonic() - self._started,
            complete=not self._cut_off,
            agents={key: dict(agent.about()) for key, agent in of.agents.items()},
            fingerprints=desk.fingerprints,
            codes=desk.codes,
            models=frozenset(desk.models),
        )

    def _is_skipped(self, task: Task) -> bool:
        return task.side in self._idle or (task.suite.key, task.case.case_id) in self._sides[task.side].skipped

    def _repeats_of(self, suite: str, case_id: str) -> range:
        return range(self._repeats + (self._more if (suite, case_id) in self._repeated else 0))

    def _carry_out(self, repeats: Sequence[int], *, only: Container[tuple[str, str]] | None) -> None:
        bench = self._bench
        cases = [
            (suite.key, case.case_id)
            for suite in self._sides[0].suites
            for case in suite.eval_set.cases
            if only is None or (suite.key, case.case_id) in only
        ]
        planned = [
            0 if at in self._idle else sum(case not in side.skipped for case in cases) * len(repeats)
            for at, side in enumerate(self._sides)
        ]
        wanted, before = sum(planned), self._served()
        if bench.stop.is_set():
            self._cut_off = self._cut_off or wanted > 0
            return
        bench.watcher.begin(trials=wanted, done=0)
        try:
            order = self._order(repeats, only=only, planned=planned) if len(self._sides) > 1 else None
            results = trials.map_bounded(
                lambda task: self._serve(task, order),
                order or self._tasks(repeats, only=only),
                threads=bench.concurrency,
                stop=bench.stop,
                abort=self._close,
            )
            with contextlib.closing(results):
                for _ in results:
                    pass
        except KeyboardInterrupt:
            bench.stop.set()
            bench.watcher.say("Interrupted. Completed runs are saved; continue with --resume")
        finally:
            bench.watcher.end()
            self._cut_off = self._cut_off or (bench.stop.is_set() and self._served() - before < wanted)

    def _tasks(self, repeats: Sequence[int], *, only: Container[tuple[str, str]] | None) -> Iterator[Task]:
        every = trials.tasks([side.suites for side in self._sides], repeats, only=only)
        return (task for task in every if not self._is_skipped(task))

    def _order(
        self, repeats: Sequence[int], *, only: Container[tuple[str, str]] | None, planned: Sequence[int]
    ) -> Abreast:
        """`planned`: how many trials each side is to have."""
        known: set[tuple[int, TrialKey]] = set()
        if any(side.journal.trials or side.absent for side in self._sides):
            known.update((task.side, task.key) for task in self._tasks(repeats, only=only) if self._is_quick(task))
        kept = Counter(side for side, _ in known)
        return Abreast(
            self._tasks(repeats, only=only),
            left=[number - kept[side] for side, number in enumerate(planned)],
            known=lambda task: (task.side, task.key) in known,
            at_once=self._bench.concurrency,
            stop=self._bench.stop,
        )

    def _is_quick(self, task: Task) -> bool:
        """Whether no agent is asked: the trial is known, or there is nobody to ask."""
        return task.suite.key in self._sides[task.side].absent or self.knows(task)

    def _serve(self, task: Task, order: Abreast | None) -> None:
        try:
            self._desks[task.side].serve(task)
        finally:
            if order is not None:
                order.done(task)

    def _served(self) -> int:
        return sum(len(desk.graded) + len(desk.fresh) for desk in self._desks)

    def _close(self) -> None:
        self._bench.call_off()
        for side in self._sides:
            for agent in side.agents.values():
                agent.close()
