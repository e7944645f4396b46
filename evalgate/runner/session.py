"""Measure one side, or both sides together: run trials and grade them, or take both from the
journals, and make Runs of them."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from evalgate import __version__, agents
from evalgate.agents.base import Agent
from evalgate.comparison import pairing
from evalgate.comparison.purse import Rerun
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.criteria.base import Criterion
from evalgate.formats import fingerprints
from evalgate.judges.panel import VotingPanel
from evalgate.judges.rate_limit import RateLimiters, TrialLimiter
from evalgate.model import (
    INFRASTRUCTURE,
    AgentDescription,
    AgentFailure,
    CaseKey,
    FailureKind,
    Grade,
    GradedTrial,
    JudgeUse,
    NotEvaluated,
    PlanPart,
    Purpose,
    Reason,
    Run,
    Score,
    Suites,
    Trial,
    TrialKey,
    TrialView,
    VerdictKind,
    models_of,
    not_evaluated,
)
from evalgate.results.journal import Journal
from evalgate.simulation import user
from evalgate.system import inputs as system_inputs
from evalgate.text import words
from evalgate.values import Wording, frozen_dataclass, without
from evalgate.worker.inputs import EVERYTHING
from . import budget, trials
from .budget import Budget
from .inputs import SideInputs
from .trials import FairTasks, Outage, Round, Task, TrialRunner


def grade(
    trial: Trial,
    task: Task,
    criteria: Mapping[str, Criterion],
    *,
    stored_grades: Mapping[str, Grade],
) -> Mapping[str, Grade]:
    """The grades of a trial by criterion, in the order of `criteria`: stored ones, and new ones of
    the other criteria. If the agent failed, no criterion is evaluated."""
    outcome = trial.outcome
    if isinstance(outcome, AgentFailure):
        failed = not_evaluated(Reason.AGENT_FAILED, "agent_failed", outcome.message)
        if outcome.kind is FailureKind.SIMULATOR:
            failed = NotEvaluated(reason=Reason.SIMULATOR_FAILED, message=outcome.message)
        return dict.fromkeys(criteria, failed)
    view = TrialView.of(task.case, outcome, repeat=trial.key.repeat)
    new = without(criteria, stored_grades)
    arguments = (new.keys(), new.values(), itertools.repeat(view))
    if any(use.is_judged and use.name in new for use in task.suite.criteria):
        # criteria that ask a judge take only as long as the slowest
        with ThreadPoolExecutor(len(new), thread_name_prefix="grade") as pool:
            new_grades = [*pool.map(grade_one, *arguments)]
    else:
        new_grades = [*map(grade_one, *arguments)]
    grades = {**stored_grades, **dict(zip(new, new_grades, strict=True))}
    return {name: grades[name] for name in criteria}


def grade_one(name: str, criterion: Criterion, view: TrialView) -> Grade:
    """The grade of a criterion. One that fails is not evaluated."""
    try:
        grade = criterion(view)
    except Exception as error:  # noqa: BLE001 - the wall of one grade: a broken criterion is not a broken agent
        grade = not_evaluated(
            Reason.CRITERION_FAILED, "criterion_raised", name, type(error).__name__, str(error)
        )
    if isinstance(grade, Score) and not grade.is_number:
        grade = not_evaluated(Reason.CRITERION_FAILED, "score_invalid", name, grade.value)
    if grade.findings:
        return grade
    if isinstance(grade, NotEvaluated):
        return _plain(NotEvaluated, reason=grade.reason, message=grade.message, turns=grade.turns)
    if grade.breakdown or grade.lacking or grade.passed is not None:
        return grade
    return _plain(Score, value=grade.value, turns=grade.turns)


@lru_cache(maxsize=4096, typed=True)
def _plain(make: Callable[..., Grade], **fields: Any) -> Grade:
    """One shared object for equal grades that hold only a number or a reason: most of 10,000 cases
    have the same few."""
    return make(**fields)


MOST_FILES = 500
"""The most files of an agent that results.json lists."""


@frozen_dataclass
class Checkout:
    """The code of a side, and what it measures."""

    root: Path
    suites: Suites
    """With its own agents."""
    skipped: frozenset[CaseKey] = frozenset()
    """Cases that do not run in it."""
    commit: str = ""
    """"" if unknown."""
    dirty: bool | None = None
    """True if files differ from the commit; None if unknown."""
    part: PlanPart | None = None
    """The part of a plan in `suites`, with its own agents in the plan; None: the whole plan."""
    repeats: int | None = None
    """Of stored results that stand in for all runs; None: as many as are planned."""
    stored_agents: Mapping[str, tuple[Mapping[str, str], AgentDescription | None]] = field(
        default_factory=dict
    )
    """By `AgentUse.key`, what stored results know of agents that may not run: the environment and
    the description."""


class Side:
    """One side of a run: serves trials one by one, on any thread, and stores the results.

    `agents`: by `AgentUse.key`. `criteria`: of every suite, by name, in the suite's order. Grades
    that need no model are computed again and not stored in `journal`, which holds all other results
    of this side. `inputs`: the files and environments of its agents. `shared`: suites that it does
    not run, because it has the same agent as the side before it and uses that side's results."""

    def __init__(
        self,
        session: Session,
        checkout: Checkout,
        *,
        agents: Mapping[str, Agent],
        criteria: Mapping[str, Mapping[str, Criterion]],
        journal: Journal,
        inputs: SideInputs,
        shared: Collection[str] = (),
    ) -> None:
        self.checkout = checkout
        self.suites = checkout.suites
        self.agents = agents
        self.journal = journal
        self.shared = frozenset(shared)
        self.graded: dict[TrialKey, GradedTrial] = {}
        """Its own first runs and reruns."""
        self.again: frozenset[TrialKey] = frozenset()
        """Run again, even if the journal has them."""
        self.fingerprints: dict[CaseKey, str] = {}
        """Of the contents of cases; added as their trials are served."""
        self.models: set[str] = set()
        """Names of the models that took part in its trials."""
        self.inputs = inputs
        self.reused: dict[TrialKey, str] = {}
        """Trials of earlier runs, each with the start of its run (ISO 8601)."""
        self._session = session
        self._outages = {key: Outage() for key in agents}
        """By `AgentUse.key`."""
        self._criteria = criteria
        self.criterion_prints = {
            (suite.key, use.name): fingerprints.of_criterion(
                use, version=__version__, deviations=session.settings.deviations
            )
            + use.code_commit
            for suite in checkout.suites
            for use in suite.criteria
        }
        """By suite and criterion; a part of the addresses of stored grades."""

    @property
    def results(self) -> Mapping[TrialKey, GradedTrial]:
        """Its graded trials, with the first side's first runs of shared suites."""
        if not self.shared:
            return self.graded
        first_side = self._session.sides[0]
        shared_trials = {
            key: trial.shared()
            for key, trial in first_side.graded.items()
            if key.is_first and key.suite in self.shared
        }
        return self.graded | shared_trials

    @property
    def reused_since(self) -> str:
        """The start of the oldest reused run (ISO 8601); "" if nothing was reused."""
        return min(self.reused.values(), default="")

    def prints_of(self, task: Task) -> tuple[str, str]:
        """The fingerprints of a task's input and of its case, computed once for all sides."""
        prints = self._session.prints
        key = task.key.case
        if key not in prints:
            task_print = fingerprints.of_task(task.case, simulator=task.suite.simulator)
            prints[key] = task_print, fingerprints.of_case(task.case, task=task_print)
        return prints[key]

    def addresses(self, task: Task) -> tuple[str, Mapping[str, str]]:
        """The journal addresses of a task's trial and, by criterion name, of its stored grades."""
        task_print, case_print = self.prints_of(task)
        self.fingerprints[task.key.case] = case_print
        agent = task.suite.agent
        # the agent's files and environment are compared separately (`model.Inputs`)
        trial = fingerprints.digest(
            [
                fingerprints.VERSION,
                task.key.suite,
                task.key.case_id,
                task.key.repeat,
                task_print,
                agent.driver,
                dict(agent.options),
                self._session.settings.seed,
            ]
        )
        # other criteria ask no model and run only evalgate's code: they give the same grade at any
        # time, for free
        grades = {
            use.name: f"{trial}-{case_print}-{self.criterion_prints[task.suite.key, use.name]}"
            for use in task.suite.criteria
            if use.code is not None or use.is_judged
        }
        return trial, grades

    def about(self) -> dict[str, dict[str, str]]:
        """What the agents report about themselves, by `AgentUse.key`; else what stored results
        know."""
        reported = {key: dict(agent.about()) for key, agent in self.agents.items()}
        stored = {
            key: dict(environment)
            for key, (environment, _) in self.checkout.stored_agents.items()
            if environment and not reported.get(key)
        }
        return reported | stored

    def descriptions(self) -> dict[str, AgentDescription]:
        """The parts of the agents, as far as they are known, by `AgentUse.key`; those in stored
        results if the agent reports no packages."""
        descriptions = {}
        stored_agents = self.checkout.stored_agents
        for key in dict.fromkeys((*self.agents, *stored_agents)):
            agent = self.agents.get(key)
            parts = (agent and agent.description()) or AgentDescription()
            files = self._files_of(key) if agent else {}
            _, stored_parts = stored_agents.get(key, ({}, None))
            if stored_parts is not None and not parts.packages:
                parts = stored_parts
                files = files or parts.files
            description = AgentDescription(
                agents=parts.agents, packages=parts.packages, files=files
            )
            if description != AgentDescription():
                descriptions[key] = description
        return descriptions

    def _files_of(self, agent: str) -> Mapping[str, str]:
        """The files that an agent read on any side, with their contents on this side. The whole
        checkout if reads were not observed; empty if there are too many to list."""
        questions = {
            question
            for side in self._session.sides
            for question in side.journal.inputs_of(agent).answers
        }
        if not (self.shared or self.journal.inputs_of(agent).is_known):
            return {}
        if EVERYTHING in questions:
            questions = set(self.inputs.tree.contents())
        files = sorted(question for question in questions if question.startswith("file "))
        return (
            system_inputs.files_of(self.inputs.tree.answers(files))
            if len(files) <= MOST_FILES
            else {}
        )

    def runs(self, task: Task) -> bool:
        """True if this side has results of its own for the task."""
        return task.suite.key not in self.shared and task.key.case not in self.checkout.skipped

    def knows(self, task: Task) -> bool:
        """True if the task runs no agent: the trial is stored, or the agent is absent."""
        return task.suite.agent.is_absent or (
            bool(self.journal.trials) and self.journal.knows(self.addresses(task)[0])
        )

    def serve(self, task: Task) -> None:
        """Run a task, or look it up in the journal, and store its graded trial. Nothing is stored
        if the end of the run or of the budget interrupted it."""
        session = self._session
        journal = self.journal
        address, grade_addresses = self.addresses(task)
        is_again = task.key in self.again
        known_trial = None if is_again else journal.trial(address, task.key)
        trial = known_trial or self._run(task, address)
        if trial is None:
            return
        outcome = trial.outcome
        # judged criteria that do not apply to the case are skipped; free criteria are computed, and
        # results.json shows them
        idle_criteria = {
            use.name
            for use in task.suite.criteria
            if use.is_judged and not use.applies_to(task.case)
        }
        self.models |= models_of(outcome)
        stored_grades = {
            name: stored_grade
            for name, grade_address in grade_addresses.items()
            if (stored_grade := journal.grade(grade_address)) is not None
        }
        criteria = without(self._criteria[task.suite.key], idle_criteria)
        grades = grade(trial, task, criteria, stored_grades=stored_grades)
        # an interrupted judge may have left a partial score
        missing_names = grade_addresses.keys() - stored_grades.keys() - idle_criteria
        if session.stop.is_set() and missing_names:
            return
        # custom metrics that did not run with the base's code, which the addresses of scores name
        stray_names = {
            use.name
            for use in task.suite.criteria
            if use.code_commit and use.name in session.strays
        }
        for name in missing_names - stray_names:
            score = grades[name]
            # other grades are not stored: a resumed run may succeed
            if isinstance(score, Score):
                journal.add_grade(grade_addresses[name], score)
        graded_trial = GradedTrial(
            key=trial.key,
            failure=outcome if isinstance(outcome, AgentFailure) else None,
            grades={name: journal.without_secrets(grades[name]) for name in grades},
            seconds=trial.seconds,
            attempts=trial.attempts,
            tokens=budget.tokens_of(budget.calls_of(outcome)),
            reused=task.key in self.reused,
        )
        self.graded[task.key] = graded_trial
        if task.key.is_first:
            session.share(task, trial)
        self._report_progress(task, trial, graded_trial, is_known=known_trial is not None)

    def _run(self, task: Task, address: str) -> Trial | None:
        """The trial of a task, which goes to `address` of the journal; None if the end of the run
        or of the budget interrupted it. An agent whose services are down is not asked: 0
        attempts."""
        session = self._session
        agent = task.suite.agent.key
        outage = self._outages[agent]
        if failure := outage.failure:
            return Trial(key=task.key, outcome=failure, attempts=0)
        if not session.budget.begin():
            return None
        started_at = time.monotonic()
        trial = session.runner.run(task, self.agents)
        session.budget.spend(trial.outcome)
        has_failed = isinstance(trial.outcome, AgentFailure)
        if session.stop.is_set() and has_failed:
            return None
        self.journal.add_inputs(agent, self.inputs.of(agent))
        self.journal.add_trial(address, trial, agent=agent)
        # the journal has the failure without secrets
        trial = (has_failed and self.journal.trial(address, task.key)) or trial
        outage.note(trial.outcome, started_at=started_at)
        return trial

    def _report_progress(
        self, task: Task, trial: Trial, graded: GradedTrial, *, is_known: bool
    ) -> None:
        """Show a trial that was served; if a first run failed, the budget reserves reruns."""
        session = self._session
        uses = [use for use in task.suite.criteria_of(task.case) if use.name in graded.grades]
        kind = pairing.kind_of(graded, uses, session.settings.deviations)
        is_crash = graded.failure is not None and graded.failure.kind not in INFRASTRUCTURE
        if task.key.is_first and (kind is VerdictKind.FAIL or is_crash):
            session.budget.keep_back(session.confirming)
        session.watcher.trial_done(
            task.key,
            trial.outcome,
            trial.seconds,
            of_base=task.side > 0,
            kind=kind,
            is_known=is_known,
            judges_usd=math.fsum(use.cost_usd or 0.0 for use in session.judge_uses()),
        )


FEW = 0.25
"""If at most this share of the runs failed because of a provider, they run again."""


class Session:
    """Measures `sides` together: the same cases and criteria, with the trials of all sides
    interleaved.

    Add all sides before the first run. Trials and grades in a side's journal are not run or asked
    again. When `stop` is set (Ctrl-C), running trials end and the Runs are incomplete. When the
    budget is spent, no further trial begins and the Runs are truncated. `folder`: that of the
    settings, in its repository; see `Run.root`."""

    def __init__(
        self,
        settings: Settings,
        *,
        context: Context,
        panel: VotingPanel | None,
        limiters: RateLimiters,
        folder: str | None = None,
        part: PlanPart | None = None,
    ) -> None:
        """`part`: the part of the plan, which has a share of the budget."""
        self.settings = settings
        self.watcher = context.audience.watcher
        self.stop = threading.Event()
        self.budget = Budget(settings.budget, part)
        self.sides: list[Side] = []
        """Head's, then the base's if it is measured."""
        self.strays: dict[str, Wording] = {}
        """Custom metrics that do not run with the base's code, each with the reason."""
        self.prints: dict[CaseKey, tuple[str, str]] = {}
        """By case: the fingerprints of its input and of all of it; see `Side.prints_of`."""
        self._panel = panel
        self._asks = panel is not None
        """False: all trials are recorded, and no judge is asked."""
        self._limiters = limiters
        pace = TrialLimiter(limiters, trials_at_once=settings.concurrency, stop=self.stop)
        self.runner = TrialRunner(
            retries=settings.retries,
            stop=self.stop,
            say_once=cache(self.watcher.say),
            simulate=partial(user.simulate, panel=panel, settings=settings),
            pace=lambda agent, attempt: pace(agent, attempt) if self._asks else attempt(),
        )
        self._context = context
        self._folder = folder
        self._started = time.monotonic()
        """Monotonic."""
        self._repeats = 0
        """First runs of each case."""
        self.confirming = 0
        """The number of runs that the budget reserves after a failure."""
        self._cut_off = False
        """True once `stop` kept wanted trials from being served."""
        self._suspects: frozenset[CaseKey] = frozenset()
        """Cases that ran again so far."""

    def first(self, repeats: int) -> None:
        """Run every case `repeats` times. Raises UnavailableError if a journal cannot be written,
        because results that cannot be stored must not be paid for.

        The few trials that failed because of a provider run once more at the end, when the provider
        may have recovered: in a large run some trials nearly always fail, and one missing trial
        leaves its case not measured. Nothing reruns if most trials failed, which is an outage, or
        if the budget has no runs left."""
        self._repeats = repeats
        rounds = trials.first_rounds(repeats)
        self._carry_out(rounds, wants=lambda task: task.key not in self.sides[task.side].graded)
        for side in self.sides:
            side.again = frozenset(
                key
                for key, trial in side.graded.items()
                if key.is_first
                and key.suite not in side.shared
                and trial.failure is not None
                and trial.failure.kind in INFRASTRUCTURE
            )
        count = sum(len(side.again) for side in self.sides)
        is_few = 0 < count <= max(1, FEW * self._served())
        may_retry = is_few and self.settings.retries and not self.stop.is_set()
        if may_retry and self.budget.has_room(count):
            self._carry_out(
                rounds,
                wants=lambda task: task.key in self.sides[task.side].again,
                reason=f"trying {words.counted(count, 'run')} once more: lost to rate limits or lost connections",
            )
        self.budget.release()

    def probe(self, cases: Collection[CaseKey]) -> None:
        """Run these cases once on both sides, before the first runs of all cases."""
        self._repeats = 1
        self._carry_out(trials.first_rounds(1), wants=lambda task: task.key.case in cases)

    def share(self, task: Task, trial: Trial) -> None:
        """Store a trial of the first side in the journals of the sides that share its suite."""
        for side in self.sides[1:]:
            if task.suite.key in side.shared:
                suite = next(suite for suite in side.suites if suite.key == task.suite.key)
                address, _ = side.addresses(Task(key=task.key, suite=suite, case=task.case))
                if side.journal.trial(address, task.key) is None:
                    side.journal.add_trial(address, trial)

    def part_suites(self, suites: frozenset[str]) -> None:
        """No longer share suites: the second side has no results of them yet."""
        base = self.sides[1]
        base.again |= {key for key in base.results if key.suite in suites}
        base.shared -= suites
        base.graded = {key: trial for key, trial in base.graded.items() if key.suite not in suites}

    def rerun(self, reruns: Sequence[Rerun]) -> bool:
        """Run cases again, each as a pair or on head alone. These runs are in no mean. Returns True
        if any ended. Raises as `start`.

        The reruns of a case are numbered, pairs separately from single runs, so that a repeated run
        finds them again."""
        served_count = self._served()
        missing_keys: set[tuple[int, TrialKey]] = set()
        for rerun, count in Counter(reruns).items():
            suite, case_id = rerun.key
            purpose = Purpose.PAIR if rerun.is_pair else Purpose.SINGLE
            sides = self.sides[: 2 if rerun.is_pair else 1]
            keys = (
                TrialKey(suite=suite, case_id=case_id, purpose=purpose, number=number)
                for number in itertools.count()
            )
            # complete pairs in which one side is missing first
            open_keys = (key for key in keys if not all(key in side.graded for side in sides))
            for key in itertools.islice(open_keys, count):
                missing_keys |= {
                    (number, key) for number, side in enumerate(sides) if key not in side.graded
                }
        cases = {rerun.key for rerun in reruns}
        self._suspects |= cases
        self._carry_out(
            sorted({(key.purpose, key.number) for _, key in missing_keys}),
            reason=f"confirming {words.counted(len(self._suspects), 'failure')}",
            wants=lambda task: (task.side, task.key) in missing_keys,
            only=cases,
        )
        return self._served() > served_count

    def judge_uses(self) -> tuple[JudgeUse, ...]:
        """The use of judges so far."""
        return () if self._panel is None else self._panel.uses()

    def first_keys(self, side: Side) -> list[TrialKey]:
        """The first runs of a side, in the order of suites, cases and repeats."""
        return [
            TrialKey(suite=suite.key, case_id=case.case_id, number=number)
            for suite in side.suites
            for case in suite.cases
            if (suite.key, case.case_id) not in side.checkout.skipped
            for number in range(side.checkout.repeats or self._repeats)
        ]

    def run(self, side: Side, trials: Mapping[TrialKey, GradedTrial] | None = None) -> Run:
        """The results of a side so far. `trials`: its first runs and reruns, with the marks that
        only the gate knows; None: as they were graded."""
        graded = side.results if trials is None else trials
        keys = self.first_keys(side)
        return Run(
            suites=side.suites,
            trials=tuple(graded[key] for key in keys if key in graded),
            transcripts=side.journal.find,
            repeats=side.checkout.repeats or self._repeats,
            confirmations=tuple(graded[key] for key in sorted(graded) if not key.is_first),
            truncated=self.budget.truncated,
            seed=self.settings.seed,
            started_at=self._context.moment.isoformat(timespec="seconds"),
            seconds=time.monotonic() - self._started,
            complete=not self._cut_off,
            commit=side.checkout.commit,
            dirty=side.checkout.dirty,
            agents=side.about(),
            fingerprints=side.fingerprints,
            judges=self.judge_uses() if side is self.sides[0] else (),
            inputs={
                # "" if they are unknown
                key: fingerprints.digest(sorted(inputs.answers.items())) if inputs.is_known else ""
                for key, inputs in side.journal.inputs.items()
            },
            models=frozenset(side.models),
            descriptions=side.descriptions(),
            part=side.checkout.part,
            root=self._folder,
            workflow_run=self._context.workflow_run,
        )

    def _carry_out(
        self,
        rounds: Sequence[Round],
        *,
        wants: Callable[[Task], bool],
        only: Container[CaseKey] | None = None,
        reason: Wording = "",
    ) -> None:
        """Run the wanted trials of these rounds on all sides, in a fair order, except those that a
        side does not run. `only`: the cases of all wanted trials, if they are few. `reason`: shown
        to the user, for rounds after the first ones."""
        tasks = [
            task
            for task in trials.tasks([side.suites for side in self.sides], rounds, only=only)
            if wants(task) and self.sides[task.side].runs(task)
        ]
        served_count = self._served()
        if self.stop.is_set():
            self._cut_off |= bool(tasks)
            return
        # if all trials are recorded, threads would only compete for one interpreter and take half
        # as long again
        self._asks |= any(
            agents.is_asked(suite.agent) for side in self.sides for suite in side.suites
        )
        at_once = self.settings.concurrency if self._asks else 1
        for number, side in enumerate(self.sides):
            side.journal.expect(sum(task.side == number for task in tasks))
        self.watcher.begin(trials=len(tasks), reason=str(reason))
        known_keys = {(task.side, task.key) for task in tasks if self.sides[task.side].knows(task)}
        order = FairTasks(
            tasks,
            sides=len(self.sides),
            is_known=lambda task: (task.side, task.key) in known_keys,
            at_once=at_once,
            stop=self.stop,
        )

        def serve(task: Task) -> None:
            """Serve a task, and return it also after an error."""
            try:
                self.sides[task.side].serve(task)
            finally:
                order.done(task)

        try:
            trials.run_bounded(serve, order, threads=at_once, stop=self.stop, abort=self._close)
        except KeyboardInterrupt:
            self.stop.set()
            self.watcher.say("Interrupted. Completed runs are saved; continue with --resume")
        finally:
            self.watcher.end()
            is_cut_off = self._served() - served_count < len(tasks)
            self._cut_off |= self.stop.is_set() and is_cut_off

    def _served(self) -> int:
        """Graded trials of all sides."""
        return sum(len(side.graded) for side in self.sides)

    def _close(self) -> None:
        """End waits, judges and agents, so that running trials end soon."""
        self._limiters.clock.call_off()
        if self._panel is not None:
            self._panel.end()
        for side in self.sides:
            for agent in side.agents.values():
                agent.close()
