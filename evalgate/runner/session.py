"""Measuring one side, or both side by side: trials and grades, from the journals where they are known, into Runs."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from evalgate import __version__, agents
from evalgate.agents.base import Agent
from evalgate.config.settings import Settings
from evalgate.criteria.base import Criterion
from evalgate.formats import fingerprints
from evalgate.judges.panel import VotingPanel
from evalgate.judges.rate_limit import RateLimiters, TrialLimiter
from evalgate.model import (
    FRESH,
    AgentFailure,
    AgentUse,
    CaseKey,
    Evidence,
    FailureKind,
    Grade,
    GradedTrial,
    JudgeUse,
    NotEvaluated,
    Outcome,
    Reason,
    Run,
    Score,
    Shard,
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
from evalgate.simulation import user

Find: TypeAlias = Callable[[str], Grade | None]
"""Looks up the grade of a criterion that is known already."""
Keep: TypeAlias = Callable[[str, Score], None]
"""Remembers the score of a criterion."""


def grade(
    trial: Trial,
    task: Task,
    criteria: Mapping[str, Criterion],
    *,
    find: Find = lambda _: None,
    keep: Keep = lambda _name, _score: None,
) -> GradedTrial:
    """The grades of a trial. An agent that failed leaves every criterion not evaluated."""
    failure = trial.outcome if isinstance(trial.outcome, AgentFailure) else None
    return GradedTrial(
        key=trial.key,
        failure=failure,
        grades=_grades(trial.outcome, task, criteria, find=find, keep=keep),
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
    outcome: Outcome, task: Task, criteria: Mapping[str, Criterion], *, find: Find, keep: Keep
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
            return {
                name: find(name) or _grade_one(name, criterion, evidence, keep) for name, criterion in criteria.items()
            }


def _unmeasured(failure: AgentFailure) -> NotEvaluated:
    if failure.kind is FailureKind.SIMULATOR:
        return NotEvaluated(reason=Reason.SIMULATOR_FAILED, message=failure.message)
    return NotEvaluated(reason=Reason.AGENT_FAILED, message=f"the agent failed: {failure.message}")


def _grade_one(name: str, criterion: Criterion, evidence: Evidence, keep: Keep) -> Grade:
    try:
        found = criterion(evidence)
    except Exception as error:  # noqa: BLE001 - the wall of one grade: a broken criterion is not a broken agent
        found = NotEvaluated(reason=Reason.CRITERION_FAILED, message=f"{name} raised {type(error).__name__}: {error}")
    if isinstance(found, Score) and not found.is_number:
        found = NotEvaluated(reason=Reason.CRITERION_FAILED, message=f"{name} gave {found.value}, not a valid score")
    if isinstance(found, Score):  # why there was none may be cured when the run is resumed
        keep(name, found)
    if found.findings or (isinstance(found, Score) and (found.breakdown or found.passed is not None)):
        return found
    if isinstance(found, Score):
        return _plain(Score, value=found.value, turns=found.turns)
    return _plain(NotEvaluated, reason=found.reason, message=found.message, turns=found.turns)


@functools.lru_cache(maxsize=4096, typed=True)
def _plain(make: Callable[..., Grade], **fields: Any) -> Grade:
    """One value for equal plain grades: most of 10,000 cases have the same few."""
    return make(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where the journal of a side keeps a trial, and by criterion name those of its grades that are kept."""

    trial: str
    grades: Mapping[str, str]


class Side:
    """One side of a run: serves one trial after another, on any thread, and keeps what came of it.

    `agents`: by `AgentUse.key`. `criteria`: of every suite, by name, in the suite's order; grades of those that only
    compute are computed again rather than kept in `journal`, which holds what is known of this side. `code_of`: the
    fingerprint of an agent's own files. `skipped`: cases (suite key, case id) that this side does not run.
    """

    def __init__(
        self,
        session: Session,
        suites: tuple[Suite, ...],
        *,
        agents: Mapping[str, Agent],
        criteria: Mapping[str, Mapping[str, Criterion]],
        journal: Journal,
        code_of: Callable[[AgentUse], str],
        skipped: Collection[CaseKey] = (),
    ) -> None:
        self.suites = suites
        self.agents = agents
        self.journal = journal
        self.skipped = frozenset(skipped)
        self.graded: dict[TrialKey, GradedTrial] = {}
        self.fresh: list[GradedTrial] = []
        self.fingerprints: dict[CaseKey, str] = {}
        self.models: set[str] = set()
        self.codes = {fingerprints.agent_key(suite.agent): code_of(suite.agent) for suite in suites}
        self._session = session
        self._criteria = criteria
        self._criterion_prints = {
            (suite.key, use.name): fingerprints.of_criterion(
                use, version=__version__, adk_compat=session.settings.adk_compat
            )
            for suite in suites
            for use in suite.criteria
        }
        self._kept = {suite.key: [use.name for use in suite.criteria if not use.is_computed] for suite in suites}

    @property
    def is_asked(self) -> bool:
        """Whether any of its agents is a process or an endpoint to wait for, and no recording."""
        return any(agents.is_asked(suite.agent) for suite in self.suites)

    @property
    def has_absent(self) -> bool:
        """Whether a suite has no agent to ask."""
        return any(suite.agent.is_absent for suite in self.suites)

    def is_quick(self, task: Task) -> bool:
        """Whether no agent is asked: the trial is known, or there is nobody to ask."""
        return task.suite.agent.is_absent or self.journal.knows(self.addresses(task).trial)

    def addresses(self, task: Task) -> Addresses:
        """Where the journal keeps what comes of a task."""
        asked = fingerprints.of_task(task.case, simulator=task.suite.simulator)
        trial = fingerprints.of_trial(
            task.key,
            task=asked,
            agent=task.suite.agent,
            code=self.codes[fingerprints.agent_key(task.suite.agent)],
            seed=self._session.settings.seed,
        )
        case = self._fingerprint(task, asked=asked)
        grades = {
            name: fingerprints.of_grade(trial=trial, case=case, criterion=self.criterion_print(task, name))
            for name in self._kept[task.suite.key]
        }
        return Addresses(trial=trial, grades=grades)

    def fingerprint(self, task: Task) -> str:
        """The fingerprint of the case, references and rubrics included."""
        return self._fingerprint(task, asked=fingerprints.of_task(task.case, simulator=task.suite.simulator))

    def _fingerprint(self, task: Task, *, asked: str) -> str:
        name = (task.suite.key, task.case.case_id)
        found = self.fingerprints.get(name) or fingerprints.of_case(task.case, task=asked)
        self.fingerprints[name] = found
        return found

    def criterion_print(self, task: Task, criterion: str) -> str:
        """The fingerprint of a criterion's settings."""
        return self._criterion_prints[task.suite.key, criterion]

    def serve(self, task: Task) -> None:
        """Keep the graded trial of a task; none where the end of the run or of the budget cut it off."""
        addresses = self.addresses(task)
        trial = self._trial(task, addresses)
        if trial is None:
            return
        journal, kept = self.journal, addresses.grades
        self.models.update(_models(trial.outcome))
        graded = grade(
            trial,
            task,
            self._criteria[task.suite.key],
            find=lambda name: journal.grade(kept[name]) if name in kept else None,
            keep=lambda name, score: journal.add_grade(kept[name], score) if name in kept else None,
        )
        if self._session.settings.runs.most > 1:  # else there is nothing to tell apart
            graded = dataclasses.replace(graded, behavior=fingerprints.of_outcome(trial.outcome))
        if task.key.repeat >= FRESH:
            self.fresh.append(graded)
        else:
            self.graded[task.key] = graded
        self._session.watcher.trial_done(task.key, trial.outcome, trial.seconds)

    def _trial(self, task: Task, addresses: Addresses) -> Trial | None:
        session = self._session
        known = self.journal.trial(addresses.trial, task.key)
        if known is not None:
            return known
        if not session.budget.begin():
            return None
        trial = session.runner.run(task, self.agents)
        session.budget.spend(trial.outcome)
        if session.stop.is_set() and isinstance(trial.outcome, AgentFailure):
            return None
        self.journal.add_trial(addresses.trial, trial, grades=addresses.grades.values())
        return trial


def _models(outcome: Outcome) -> Iterator[str]:
    for turn in outcome.partial if isinstance(outcome, AgentFailure) else outcome.invocations:
        for event in turn.events or ():
            if event.model_version:
                yield event.model_version


class Session:
    """Sides that are measured together: the same cases, the same criteria, trials of all sides interleaved.

    Trials that a side's journal holds are not run again, grades that it holds are not asked for again. When `stop` is
    set (Ctrl-C), what is running ends and the Runs are marked incomplete; when the budget is spent, no trial is begun
    any more and the Runs are marked truncated.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        watcher: Watcher,
        now: datetime,
        panel: VotingPanel | None,
        limiters: RateLimiters,
        shard: Shard | None = None,
    ) -> None:
        budget = settings.budget
        limits = Limits(agent_calls=budget.agent_calls, tokens=budget.tokens, usd=budget.usd)
        self.settings = settings
        self.watcher = watcher
        self.stop = threading.Event()
        self.budget = Budget(limits if shard is None else limits.share(shard.index, shard.of))
        self.sides: list[Side] = []
        self._panel = panel
        self._asks = panel is not None
        self._limiters = limiters
        self._pace = TrialLimiter(limiters, trials_at_once=settings.concurrency, stop=self.stop)
        self.runner = TrialRunner(
            retries=settings.retries,
            stop=self.stop,
            say=watcher.say,
            simulate=user.simulation_of(panel, settings),
            pace=self._paced,
        )
        self._now = now
        self._started = time.monotonic()
        self._repeats = 0
        self._more = 0
        self._repeated: frozenset[CaseKey] = frozenset()
        self._fresh = 0
        self._idle: Side | None = None
        self._cut_off = False

    def add(
        self,
        suites: tuple[Suite, ...],
        *,
        agents: Mapping[str, Agent],
        criteria: Mapping[str, Mapping[str, Criterion]],
        journal: Journal,
        code_of: Callable[[AgentUse], str],
        skipped: Collection[CaseKey] = (),
    ) -> Side:
        """A further side, before the first run; its parameters are those of `Side`."""
        side = Side(self, suites, agents=agents, criteria=criteria, journal=journal, code_of=code_of, skipped=skipped)
        self.sides.append(side)
        return side

    def first(self, repeats: int) -> None:
        """Run every case `repeats` times. Raises UnavailableError when a journal cannot be written: what cannot be
        kept must not be paid for."""
        self._repeats = repeats
        self._carry_out(range(repeats), only=None)

    def again(self, cases: Collection[CaseKey], *, more: int) -> None:
        """Run these cases `more` times more on every side. Raises as `first` does."""
        self._more, self._repeated = more, frozenset(cases)
        self._carry_out(range(self._repeats, self._repeats + more), only=self._repeated)

    def confirm(self, cases: Collection[CaseKey], *, idle: Side | None = None) -> None:
        """One fresh run of these cases on every side but the `idle` one, which is in no mean. Raises as `first`."""
        self._fresh += 1
        self._idle = idle
        self._carry_out([FRESH + self._fresh - 1], only=frozenset(cases))
        self._idle = None

    def judge_uses(self) -> tuple[JudgeUse, ...]:
        """What judging has taken until now."""
        return () if self._panel is None else self._panel.uses()

    @property
    def goes_on(self) -> bool:
        """Whether the budget lasts. What is asked for after Ctrl-C does not run, and makes the Runs incomplete."""
        return not self.budget.ended

    def run(self, side: Side) -> Run:
        """What a side gave until now."""
        keys = [
            TrialKey(suite=suite.key, case_id=case.case_id, repeat=repeat)
            for suite in side.suites
            for case in suite.eval_set.cases
            if (suite.key, case.case_id) not in side.skipped
            for repeat in self._repeats_of(suite.key, case.case_id)
        ]
        return Run(
            suites=side.suites,
            trials=tuple(side.graded[key] for key in keys if key in side.graded),
            transcripts=side.journal,
            repeats=self._repeats,
            more=self._more,
            repeated=self._repeated,
            confirmations=tuple(sorted(side.fresh, key=lambda trial: trial.key)),
            truncated=self.budget.ended,
            seed=self.settings.seed,
            started_at=self._now.isoformat(timespec="seconds"),
            seconds=time.monotonic() - self._started,
            complete=not self._cut_off,
            agents={key: dict(agent.about()) for key, agent in side.agents.items()},
            fingerprints=side.fingerprints,
            codes=side.codes,
            models=frozenset(side.models),
        )

    def tasks(self, repeats: Iterable[int], *, only: Container[CaseKey] | None = None) -> Iterator[Task]:
        """The trials of all sides, in a fair order, but for those that a side does not run."""
        every = trials.tasks([side.suites for side in self.sides], repeats, only=only)
        return (task for task in every if not self._is_skipped(task))

    def _is_skipped(self, task: Task) -> bool:
        side = self.sides[task.side]
        return side is self._idle or (task.suite.key, task.case.case_id) in side.skipped

    def _repeats_of(self, suite: str, case_id: str) -> range:
        return range(self._repeats + (self._more if (suite, case_id) in self._repeated else 0))

    def _planned(self, runs: int, *, only: Container[CaseKey] | None) -> list[int]:
        """How many trials each side is to have."""
        cases = [
            (suite.key, case.case_id)
            for suite in self.sides[0].suites
            for case in suite.eval_set.cases
            if only is None or (suite.key, case.case_id) in only
        ]
        return [
            0 if side is self._idle else sum(case not in side.skipped for case in cases) * runs for side in self.sides
        ]

    def _carry_out(self, repeats: Sequence[int], *, only: Container[CaseKey] | None) -> None:
        planned = self._planned(len(repeats), only=only)
        wanted, before = sum(planned), self._served()
        if self.stop.is_set():
            self._cut_off = self._cut_off or wanted > 0
            return
        # where all is recorded, threads would only take turns at one interpreter, which costs half as much again
        self._asks = self._asks or any(side.is_asked for side in self.sides)
        at_once = self.settings.concurrency if self._asks else 1
        self.watcher.begin(trials=wanted, done=0)
        try:
            order = None
            if len(self.sides) > 1:
                order = self._order(repeats, only=only, planned=planned, at_once=at_once)
            results = trials.map_bounded(
                lambda task: self._serve(task, order),
                order or self.tasks(repeats, only=only),
                threads=at_once,
                stop=self.stop,
                abort=self._close,
            )
            with contextlib.closing(results):
                for _ in results:
                    pass
        except KeyboardInterrupt:
            self.stop.set()
            self.watcher.say("Interrupted. Completed runs are saved; continue with --resume")
        finally:
            self.watcher.end()
            self._cut_off = self._cut_off or (self.stop.is_set() and self._served() - before < wanted)

    def _order(
        self, repeats: Sequence[int], *, only: Container[CaseKey] | None, planned: Sequence[int], at_once: int
    ) -> Abreast:
        """`planned`: how many trials each side is to have."""
        known: set[tuple[int, TrialKey]] = set()
        if any(side.journal.trials or side.has_absent for side in self.sides):
            every = self.tasks(repeats, only=only)
            known.update((task.side, task.key) for task in every if self.sides[task.side].is_quick(task))
        kept = Counter(side for side, _ in known)
        return Abreast(
            self.tasks(repeats, only=only),
            left=[number - kept[side] for side, number in enumerate(planned)],
            known=lambda task: (task.side, task.key) in known,
            at_once=at_once,
            stop=self.stop,
        )

    def _paced(self, agent: str, attempt: Callable[[], Outcome]) -> Outcome:
        return self._pace(agent, attempt) if self._asks else attempt()

    def _serve(self, task: Task, order: Abreast | None) -> None:
        try:
            self.sides[task.side].serve(task)
        finally:
            if order is not None:
                order.done(task)

    def _served(self) -> int:
        return sum(len(side.graded) + len(side.fresh) for side in self.sides)

    def _close(self) -> None:
        self._limiters.clock.call_off()
        for side in self.sides:
            for agent in side.agents.values():
                agent.close()
