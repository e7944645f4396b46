"""Measuring head and base together: first all cases, then those whose outcomes differ, then what looks newly broken."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalgate import agents, criteria, errors
from evalgate.agents import opening
from evalgate.agents.base import Agent
from evalgate.agents.pool import CommonStart
from evalgate.agents.tools import toolbox
from evalgate.baseline import base as baseline_base
from evalgate.baseline import failures, unchanged
from evalgate.baseline.base import Base
from evalgate.baseline.rules import Rules
from evalgate.comparison import compare, confirm
from evalgate.comparison import repeats as comparison_repeats
from evalgate.comparison.confirm import Confirmation
from evalgate.comparison.repeats import Stage
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.config.variables import AgentVariables
from evalgate.criteria import judges
from evalgate.criteria.base import Criterion, CriterionServices
from evalgate.discovery import agents as discovery_agents
from evalgate.errors import Problem
from evalgate.formats import fingerprints
from evalgate.gate import earlier as gate_earlier
from evalgate.gate import prepare
from evalgate.gate.earlier import Earlier
from evalgate.judges.base import JudgePanel
from evalgate.model import (
    BaseOrigin,
    BaseSource,
    CaseKey,
    Comparison,
    Evidence,
    Grade,
    GradedTrial,
    NotEvaluated,
    Policy,
    Reason,
    Run,
    Suite,
    ThresholdRule,
)
from evalgate.results import kept
from evalgate.results.journal import Journal
from evalgate.runner import reuse, trials
from evalgate.runner.session import Session, Side
from evalgate.runner.trials import Task
from evalgate.system import isolation
from evalgate.system.isolation import Isolation
from evalgate.text import words

HEAD, BASE = 0, 1


@contextlib.contextmanager
def opened(
    rules: Rules,
    base: Base | None,
    context: Context,
    journals: Sequence[Journal],
    *,
    asking: Mapping[str, str],
    judge_keys: Collection[str],
    tree: str = "",
) -> Iterator[Session]:
    """The agents of both sides and the judges, ready to be asked for as long as the block lasts.

    `journals`: head's, and the base's where anything of it is measured. `asking`: the environment of judges;
    `judge_keys`: see `AgentVariables`. `tree`: what git tracks at head, "" where nobody asks.
    """
    settings, watcher = rules.settings, context.watcher
    limiters = judges.limiters_of(settings)
    with contextlib.ExitStack() as stack:
        judging = judges.opened_panel(
            settings, rules.suites, environ=asking, cache=context.cache, say=context.say, limiters=limiters
        )
        panel = stack.enter_context(judging)
        session = Session(settings, watcher=watcher, now=context.now, panel=panel, limiters=limiters, shard=rules.shard)
        roots = [settings.root] if base is None or base.root is None else [settings.root, base.root]
        isolated_sides = stack.enter_context(isolated(settings, roots, context))
        sandboxes = (None, None) if isolated_sides is None else isolated_sides.sides
        open_agents = functools.partial(
            opening.opened, settings=settings, context=context, judge_keys=judge_keys, starting=CommonStart()
        )
        agents = stack.enter_context(open_agents(rules.suites, root=settings.root, sandboxes=sandboxes[HEAD]))
        root, suites = settings.root, rules.suites
        theirs: Mapping[str, Agent] = {}
        if base is not None and len(journals) > 1:
            root, suites = base.root or settings.root, baseline_base.with_agents(rules.suites, base)
            theirs = stack.enter_context(open_agents(suites, root=root, sandboxes=sandboxes[BASE]))
        by_base = rules.by_base and base is not None and base.root is not None
        built = _criteria(rules, agents, panel, theirs=theirs, suites=suites if by_base else (), scored=context.scored)
        environment = AgentVariables.of(settings, context, judge_keys).environment()
        surroundings = functools.partial(unchanged.surroundings, settings, environment=environment)

        def side(suites: tuple[Suite, ...], agents: Mapping[str, Agent], root: Path, tree: str, **more: Any) -> Side:
            code = discovery_agents.AgentCode(root, apart=discovery_agents.apart_of(settings))
            tools = toolbox.fingerprint(settings, root)
            return Side(
                session,
                suites,
                agents=agents,
                criteria=built,
                journal=journals[len(session.sides)],
                code_of=lambda use: code.fingerprint(use) + tools,
                files_of=code.files,
                surroundings_of=lambda about, made: surroundings(tree=tree, about=about, description=made),
                **more,
            )

        session.sides.append(side(rules.suites, agents, settings.root, tree))
        if base is not None and len(journals) > 1:
            skipped, before = baseline_base.new_cases(rules.suites, base), tree and base.tree()
            session.sides.append(side(suites, theirs, root, before, skipped=skipped, shared=base.unchanged))
        yield session


@contextlib.contextmanager
def isolated(settings: Settings, roots: Sequence[Path], context: Context) -> Iterator[Isolation | None]:
    """Other users for all that is not ours, where the door asks for it; None where it runs as we do."""
    if not context.isolate:
        yield None
        return
    private = [settings.root / each for each in (settings.output, settings.baseline_folder, kept.FOLDER) if each]
    opened = isolation.opened(roots, cache=context.cache, private=private, environ=context.environ, say=context.say)
    with opened as others:
        yield others


def _criteria(
    rules: Rules,
    agents: Mapping[str, Agent],
    panel: JudgePanel | None,
    *,
    theirs: Mapping[str, Agent],
    suites: Sequence[Suite],
    scored: Collection[str] | None,
) -> dict[str, dict[str, Criterion]]:
    """The criteria of both sides: the same judges, blind to the side; custom metrics by head's own code, or by the
    base's where its rules decide. `theirs`, `suites`: the agents and suites of which metrics are the base's; `scored`:
    the names of those that are scored, None: all."""
    metrics = {
        suite.key: theirs[fingerprints.agent_key(suite.agent)].run_metric
        for suite in suites
        if not suite.agent.is_absent
    }
    settings = rules.settings
    judge = None if settings.skip_judged else panel
    built = {}
    for suite in rules.suites:
        agent = agents[fingerprints.agent_key(suite.agent)]
        run_metric = metrics.get(suite.key, agent.run_metric)
        services = CriterionServices(adk_compat=settings.adk_compat, run_metric=run_metric, judge=judge)
        built[suite.key] = {
            use.name: _skipped if scored is not None and use.name not in scored else criteria.build(use, services)
            for use in suite.criteria
        }
    return built


def _skipped(evidence: Evidence) -> Grade:  # noqa: ARG001 - the shape of Criterion
    return NotEvaluated(reason=Reason.SKIPPED, message="it was not chosen for this run")


def confirmations(
    head: Run, comparison: Comparison | None, *, policy: Policy, unreliable: Collection[CaseKey] = ()
) -> tuple[Confirmation, ...]:
    """The failures of a run that reruns confirm, or not: those of agents that can be asked again."""
    recorded = {suite.key for suite in head.suites if not agents.is_asked(suite.agent)}
    return confirm.of(head, comparison, policy=policy, unreliable=unreliable, recorded=recorded)


def measure(
    session: Session, rules: Rules, base: Base | None, earlier: Earlier
) -> tuple[Run, Run | None, Comparison | None, tuple[Problem, ...]]:
    """Carry out all trials that the settings ask for: head, the base as far as it was measured, what the comparison
    says (None without a base), and what measuring could not keep to.

    Raises UnavailableError where a journal cannot be written.
    """
    measuring = _Measuring(session, rules, base, earlier)
    head, then, comparison = measuring.carry_out()
    return head, then, comparison, tuple(measuring.problems())


class _Measuring:
    """The phases of a run, and what they have found until now. `planned`: all that is measured, here or elsewhere;
    `cause`: what of the change may have made the base's agent fail; `ended`: what ended the runs of new cases;
    `pooled`: trials of as many further stored `results` of the base."""

    def __init__(self, session: Session, rules: Rules, base: Base | None, earlier: Earlier) -> None:
        self._session = session
        self._rules = rules
        self._base = base
        self._planned = rules.shard.plan if rules.shard else rules.suites
        self._earlier = earlier
        self._of_head, self._taken = reuse.TakenOver(), reuse.TakenOver()
        self._pooled: tuple[GradedTrial, ...] = ()
        self._results = 0
        self._cause = ""
        self._ended = ""

    def carry_out(self) -> tuple[Run, Run | None, Comparison | None]:
        """All phases, each only where the one before has left something open."""
        session, policy, runs = self._session, self._rules.policy, self._session.settings.runs
        known, sides = self._base, session.sides
        # what this pull request measured beside what is taken over comes first: it is of one time
        self._of_head, again = self._earlier.take(session, self._rules, known)
        if known is not None and known.stored is not None and len(sides) > 1:
            tasks = trials.tasks([side.suites for side in sides], range(runs.most))
            reusable = gate_earlier.as_stored(known, sides[BASE], say=session.watcher.say)
            own = [task for task in tasks if task.side == BASE and task.suite.key in reusable]
            self._taken = reuse.take_over(known.stored, own, sides[BASE], renamed=known.project.renamed)
            if not runs.more:
                self._pooled, self._results = reuse.pool(
                    known.pooled,
                    known.stored,
                    [suite for suite in sides[BASE].suites if suite.key in reusable],
                    sides[BASE],
                    taken=self._taken,
                    renamed=known.project.renamed,
                )
        self._taken.join(again)
        expected = prepare.tell_expected(self._open(runs.start), session.settings)
        if expected:
            session.watcher.say(expected)
        session.first(runs.start)
        head, base, comparison = self._of_today(Stage.FIRST if runs.more else Stage.ONLY)
        is_early = comparison is not None and comparison_repeats.early(comparison, policy=policy)
        if runs.more and not (self._rules.shard is None and is_early):
            cases = comparison_repeats.undecided(head, base, policy=policy)
            if cases:
                said = words.counted(len(cases), "case with mixed results", "cases with mixed results")
                if session.goes_on:
                    session.watcher.say(f"{said}: running each {words.counted(runs.more, 'more time')}")
                session.again(cases, more=runs.more)  # of a spent budget: what is lacking is known then
            head, base, comparison = self._of_today(Stage.LAST)
        return self._burned_in(*self._confirmed(head, base, comparison))

    def _open(self, repeats: int) -> Iterator[Task]:
        """The first trials of both sides, less those of which the results are here already."""
        sides = self._session.sides
        for task in trials.tasks([side.suites for side in sides], range(repeats)):
            side = sides[task.side]
            is_skipped = (task.suite.key, task.case.case_id) in side.skipped or task.suite.agent.is_absent
            is_skipped = is_skipped or task.suite.key in side.shared
            if not is_skipped and not (side.journal.trials and side.journal.knows(side.addresses(task).trial)):
                yield task

    def _head_run(self) -> Run:
        return reuse.marked(self._session.run(self._session.sides[HEAD]), self._of_head)

    def problems(self) -> Iterator[Problem]:
        """Results that are not of today; a budget in dollars that could not count everything, and what it had no room
        for."""
        yield from gate_earlier.told(self._of_head)
        if self._ended:
            message = f"not every new or changed case was run as often as `burn-in` says: {self._ended}"
            yield errors.warning("burn-in-cut-short", message, hint="Raise `budget`.")
        unpriced = sorted(self._session.budget.unpriced)
        if unpriced and self._session.settings.budget.usd is not None:
            message = f"`budget`: no price known for {words.listed(unpriced, limit=5)}; its calls count as free"
            hint = "Also limit `tokens` or `agent_calls`."
            yield errors.warning("price-unknown", message, hint=hint)
        told, known = self._session.budget.untold
        if known:
            message = f"the agent's events tell of {told:,} tokens, the answers of its models of {known:,}"
            hint = (
                "The larger number counts; agents that tools run, and callbacks that change answers, make them differ."
            )
            bounds = self._session.settings.budget
            if bounds.tokens is bounds.usd is None:  # nobody is deceived
                yield errors.note("tokens-understated", message, hint=hint)
            else:
                yield errors.warning("tokens-understated", message, hint=hint)

    def _confirmed(
        self, head: Run, base: Run | None, comparison: Comparison | None
    ) -> tuple[Run, Run | None, Comparison | None]:
        """Fresh runs of what fails, until each failure is confirmed or flaky. Once the gate fails for certain, at most
        as many more as there are cases, for the others' sake."""
        session, policy = self._session, self._rules.policy
        asked = confirmations(head, comparison, policy=policy, unreliable=self._rules.quarantined)
        left: int | None = None
        while session.goes_on and asked:
            wanted = asked[0].next_runs(asked[0].outcomes(head, base), is_failed=left is not None)
            count = sum(runs for side in wanted for runs in side.values())
            if not count or (left is not None and count > left):
                break
            if not head.confirmations:
                suspects = len({each.key for each in asked[0].suspects})
                they_last = "it lasts" if suspects == 1 else "they last"
                session.watcher.say(f"Rerunning {words.counted(suspects, 'failure')} to see whether {they_last}")
            before = len(head.confirmations) + len(base.confirmations if base else ())
            session.confirm(wanted[: len(session.sides)])
            head = self._head_run()
            base = base if base is None or self._base is None else self._base_run(self._base)
            if len(head.confirmations) + len(base.confirmations if base else ()) == before:  # cut off
                break
            if left is not None:
                left -= count
            elif confirm.is_failed(head, asked[0].confirmed(asked[0].outcomes(head, base)), policy=policy):
                left = sum(len(suite.eval_set.cases) for suite in head.suites)
        if comparison is not None and comparison.base is not None:
            comparison = dataclasses.replace(comparison, base=base)
        return head, base, comparison

    def _burned_in(
        self, head: Run, base: Run | None, comparison: Comparison | None
    ) -> tuple[Run, Run | None, Comparison | None]:
        """More runs of the cases that this change adds or changes, as far as failures did not ask for some already:
        mixed results show here, and not in somebody else's pull request."""
        session, rules = self._session, self._rules
        runs = rules.settings.burn_in - rules.settings.runs.start
        if runs <= 0 or rules.policy.threshold is ThresholdRule.ALL or rules.policy.deterministic:
            return head, base, comparison
        seen = {(trial.key.suite, trial.key.case_id) for trial in head.confirmations}
        cases = {
            (suite.key, case.case_id)
            for suite in rules.suites
            if agents.is_asked(suite.agent) and suite.key not in rules.policy.advisory
            for case in suite.eval_set.cases
        }
        cases &= rules.touched - seen - rules.quarantined.keys()
        if not cases or not session.goes_on or session.stop.is_set():
            return head, base, comparison
        said = words.counted(len(cases), "new or changed case")
        session.watcher.say(f"{said}: running each {words.counted(runs, 'more time')} (`burn-in`)")
        self._ended = session.burn_in(cases, runs=runs)
        return self._head_run(), base, comparison

    def _of_today(self, stage: Stage) -> tuple[Run, Run | None, Comparison | None]:
        """What the comparison says, of cases that are worse than stored results beside a base that ran today."""
        head, base, comparison = self._compared(stage)
        if comparison is None or comparison.base is None or base is None:
            return head, base, comparison
        worse = comparison_repeats.fallen(head, base, comparison)
        past = {
            key
            for key in self._taken.keys - self._of_head.keys
            if (key.suite, key.case_id) in worse and key in self._session.sides[BASE].graded
        }
        side = self._session.sides[BASE]
        is_asked = {suite.key for suite in side.suites if gate_earlier.can_run(suite)}
        before = {key: side.graded[key] for key in past if key.suite in is_asked}
        if before and self._session.goes_on:
            told = words.counted(len({(key.suite, key.case_id) for key in before}), "case")
            since = f" of {self._taken.since[:10]}" if self._taken.since else ""
            self._session.watcher.say(f"{told} worse than stored results{since}: running the base today")
            self._session.anew(BASE, before, why="of the base, whose results are stored")
        of_today = {key for key, trial in before.items() if side.graded[key] is not trial}
        self._taken.keys -= of_today
        cases = {(key.suite, key.case_id) for key in of_today}
        self._pooled = tuple(each for each in self._pooled if (each.key.suite, each.key.case_id) not in cases)
        return self._compared(stage, is_past=bool(past - of_today)) if past else (head, base, comparison)

    def _compared(self, stage: Stage, *, is_past: bool = False) -> tuple[Run, Run | None, Comparison | None]:
        session, known, rules = self._session, self._base, self._rules
        head = self._head_run()
        if known is None:
            return head, None, None
        if len(session.sides) == 1:
            comparison = Comparison(
                origin=known.origin,
                problem=known.problem,
                no_agent=known.no_agent,
                base_failed=known.base_failed,
                relaxed=rules.relaxed,
                by_base=rules.by_base,
            )
            return head, None, comparison
        base = self._base_run(known)
        # new cases, deleted ones, and what stored results cannot be compared in
        unpaired = baseline_base.unpaired(known, rules.suites, plan=self._planned)
        comparison = compare.compare(
            head,
            base,
            policy=rules.policy,
            origin=self._origin(known, head),
            unpaired=unpaired | self._taken.unpaired if known.root is None else unpaired,
            relaxed=rules.relaxed,
            stage=stage,
            unreliable=rules.quarantined,
            by_base=rules.by_base,
            unchanged=tuple(sorted(known.unchanged)),
            edited=baseline_base.edited(known, rules.suites),
            is_past=is_past,
        )
        if self._cause and comparison.problem:
            comparison = dataclasses.replace(
                comparison, problem=f"{comparison.problem}; the cause may be this change: {self._cause}"
            )
        return head, base, comparison

    def _base_run(self, base: Base) -> Run:
        """The base's run; where nothing of it could be run, with as many repeats as are stored."""
        run = reuse.marked(self._session.run(self._session.sides[BASE]), self._taken)
        run, self._cause = failures.marked(run, base, settings=self._rules.settings, suites=self._rules.suites)
        trials, repeats, more, repeated = run.trials, run.repeats, run.more, run.repeated
        if base.root is None and base.stored is not None and not base.unchanged >= {each.key for each in run.suites}:
            repeats, more, repeated = min(base.stored.run.repeats, repeats), 0, frozenset()
            trials = tuple(trial for trial in trials if trial.failure is None and trial.key.repeat < repeats)
        return dataclasses.replace(
            run,
            trials=trials,
            pooled=self._pooled,
            repeats=repeats,
            more=more,
            repeated=repeated,
            commit=base.origin.commit,
            agents=baseline_base.told(base, run),
            descriptions=baseline_base.descriptions(base, run),
            # it has its own agents in the plan that it is a part of
            shard=run.shard and dataclasses.replace(run.shard, plan=baseline_base.with_agents(run.shard.plan, base)),
        )

    def _origin(self, base: Base, head: Run) -> BaseOrigin:
        side = self._session.sides[BASE]
        reused = side.graded.keys() & self._taken.keys
        origin = base.origin if reused or base.rerun is None else base.rerun
        source, own = origin.source, sum(key.suite not in side.shared for key in side.graded)
        if base.root is not None and reused:
            source = BaseSource.STORE if len(reused) == own else BaseSource.MIXED
        suites = frozenset(key.suite for key in reused)
        stored = (*reused, *(trial.key for trial in self._pooled))
        per_case = Counter((key.suite, key.case_id) for key in stored).values() if self._pooled else ()
        notes = [*baseline_base.environments(base, head, self._session.run(side), reused=suites)]
        notes += [f"the base's agent failed, and the cause may be this change: {self._cause}"] if self._cause else []
        return dataclasses.replace(
            origin,
            source=source,
            results=self._results + 1 if per_case else 0,
            per_case=(min(per_case), max(per_case)) if per_case else (0, 0),
            reused=len(reused),
            run=0 if base.root is None else own - len(reused),
            notes=(*origin.notes, *notes),
        )
