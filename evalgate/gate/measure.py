"""Measuring head and base together: first all cases, then those whose outcomes differ, then what looks newly broken."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from evalgate import __version__, criteria
from evalgate import agents as agents_module
from evalgate.agents.base import Agent
from evalgate.baseline import base as baseline_base
from evalgate.baseline.base import Base
from evalgate.comparison import compare
from evalgate.comparison import repeats as comparison_repeats
from evalgate.comparison.repeats import Stage
from evalgate.config.settings import Settings
from evalgate.criteria.base import Criterion, CriterionServices
from evalgate.discovery import agents as discovery_agents
from evalgate.errors import Problem, Severity
from evalgate.formats import fingerprints
from evalgate.judges import rate_limit
from evalgate.judges.base import JudgePanel
from evalgate.judges.rate_limit import RateLimiters, TrialLimiter
from evalgate.model import (
    BaseOrigin,
    BaseSource,
    CaseKey,
    Comparison,
    Loosening,
    Policy,
    Run,
    Shard,
    Standing,
    Suite,
    ThresholdRule,
)
from evalgate.model.watcher import Watcher
from evalgate.results.journal import Journal
from evalgate.runner import reuse, trials
from evalgate.runner.budget import Limits
from evalgate.runner.session import Bench, Measuring, Side
from evalgate.simulation import user
from evalgate.text import words

# -- What all sides of a run share --


def bench_of(
    settings: Settings,
    *,
    shard: Shard | None,
    panel: JudgePanel | None,
    watcher: Watcher,
    limiters: RateLimiters,
    asks: bool,
) -> Bench:
    """The bench of a run. `asks`: whether an agent or a judge is asked; where all is recorded, there is no provider
    whose pace there is to mind, and threads would only take turns at one interpreter, which costs half as much again.
    """
    budget, stop = settings.budget, threading.Event()
    limits = Limits(agent_calls=budget.agent_calls, tokens=budget.tokens, usd=budget.usd)
    return Bench(
        watcher=watcher,
        stop=stop,
        concurrency=settings.concurrency if asks else 1,
        retries=settings.retries,
        adk_compat=settings.adk_compat,
        criterion_version=__version__,
        limits=limits if shard is None else limits.share(shard.index, shard.of),
        behaviours=settings.runs.most > 1,
        simulate=user.simulation_of(panel, settings),
        pace=TrialLimiter(limiters, trials_at_once=settings.concurrency, stop=stop) if asks else rate_limit.at_once,
        call_off=limiters.clock.call_off,
    )


HEAD, BASE = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bout:
    """All that measuring needs: head's suites, opened agents of both sides, the judges, where results are kept.

    `base` None: there is none, or nothing of it can be measured. `tools`: the fingerprint of what answers tool calls in
    the agents' stead, by a side's checkout. `apart`: what is no part of an agent (`agent_code.apart_of`). `shard`: the
    part of a plan that `suites` are; None: all of it. `unreliable`: cases that are shown and never decide.
    """

    settings: Settings
    root: Path
    suites: tuple[Suite, ...]
    policy: Policy
    agents: Mapping[str, Agent]
    panel: JudgePanel | None
    journal: Journal
    watcher: Watcher
    limiters: RateLimiters  # of the providers that agents and judges share
    now: datetime
    apart: tuple[str, ...]
    base: Base | None = None
    base_agents: Mapping[str, Agent] = dataclasses.field(default_factory=dict)
    base_journal: Journal | None = None
    loosened: tuple[Loosening, ...] = ()
    unreliable: frozenset[CaseKey] = frozenset()
    shard: Shard | None = None
    tools: Callable[[Path], str] = lambda _: ""

    @property
    def can_run_base(self) -> bool:
        """Whether the base's code is at hand, and not only results of it."""
        return self.base is not None and self.base.root is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Both sides as measured, and what their comparison says; no comparison without a base. `problems`: what measuring
    could not keep to."""

    head: Run
    base: Run | None = None
    comparison: Comparison | None = None
    problems: tuple[Problem, ...] = ()


def measure(bout: Bout) -> Measured:
    """Carry out all trials that the settings ask for. Raises UnavailableError where a journal cannot be written."""
    ring = _Ring(bout)
    return dataclasses.replace(ring.carry_out(), problems=ring.problems())


class _Ring:
    """One bout under way."""

    def __init__(self, bout: Bout) -> None:
        self._bout = bout
        sides = [self._side(bout.root, bout.suites, bout.agents, bout.journal)]
        self._taken = reuse.TakenOver()
        if bout.base is not None and bout.base_journal is not None:
            root = bout.base.root or bout.root
            suites = baseline_base.with_agents(bout.suites, bout.base)
            side = self._side(root, suites, bout.base_agents, bout.base_journal)
            sides.append(dataclasses.replace(side, skipped=frozenset(baseline_base.new_cases(bout.suites, bout.base))))
        self._sides = sides
        bench = bench_of(
            bout.settings,
            shard=bout.shard,
            panel=bout.panel,
            watcher=bout.watcher,
            limiters=bout.limiters,
            asks=bout.panel is not None
            or any(agents_module.is_asked(suite.agent) for side in sides for suite in side.suites),
        )
        self._measuring = Measuring(sides, bench, seed=bout.settings.seed, now=bout.now)

    def carry_out(self) -> Measured:
        """All phases, each only where the one before has left something open."""
        bout, runs = self._bout, self._bout.settings.runs
        self._take_over()
        self._measuring.first(runs.start)
        found = self._found(Stage.FIRST if runs.more else Stage.ONLY)
        if runs.more and self._measuring.goes_on and not (bout.shard is None and _is_early(found, bout.policy)):
            cases = comparison_repeats.undecided(
                found.head, found.base, policy=bout.policy, scales=compare.scales(found.head.suites)
            )
            if cases:
                said = words.counted(len(cases), "flaky case")
                bout.watcher.say(f"{said}: running {'it' if len(cases) == 1 else 'each'} {runs.more} more times")
                self._measuring.again(cases, more=runs.more)
            found = self._found(Stage.LAST)
        if bout.policy.threshold is ThresholdRule.NEW and found.comparison is not None:
            found = self._confirmed(found, found.comparison)
        return found

    def problems(self) -> tuple[Problem, ...]:
        """A budget in dollars that could not count everything; a base that cannot confirm new failures."""
        return (*self._unpriced(), *self._unconfirmable())

    def _unconfirmable(self) -> tuple[Problem, ...]:
        """Where stored results stand in for an agent of the base that is not here, or is behind a URL."""
        stored = {key.suite for key in self._taken.keys}
        absent = {suite.key for suite in self._sides[-1].suites if suite.agent.is_absent}
        return comparison_repeats.without_base(self._bout.policy, stored & absent, is_at_hand=self._bout.can_run_base)

    def _unpriced(self) -> tuple[Problem, ...]:
        unpriced = sorted(self._measuring.unpriced)
        if not unpriced or self._bout.settings.budget.usd is None:
            return ()
        message = f"`budget`: no price known for {words.listed(unpriced, limit=5)}; its calls count as free"
        hint = "Also limit `tokens` or `agent_calls`."
        return (Problem(severity=Severity.WARNING, code="price-unknown", message=message, hint=hint),)

    def _take_over(self) -> None:
        base, journal = self._bout.base, self._bout.base_journal
        if base is None or base.stored is None or journal is None:
            return
        tasks = trials.tasks([side.suites for side in self._sides], range(self._bout.settings.runs.most))
        own = [task for task in tasks if task.side == BASE and task.suite.key in base.reusable]
        self._taken = reuse.take_over(base.stored, own, self._measuring, journal, renamed=base.renamed)

    def _confirmed(self, found: Measured, comparison: Comparison) -> Measured:
        """Fresh runs of what looks newly broken, of head alone where the base cannot be run, until enough agree or one
        does not."""
        bout = self._bout
        if found.base is None:
            return found
        asked = comparison_repeats.ask(
            comparison_repeats.new_failures(comparison, policy=bout.policy, unreliable=bout.unreliable),
            self._planned(),
            found.base,
            repeats=bout.settings.runs.start,
            policy=bout.policy,
            parts=bout.shard.of if bout.shard else 1,
        )
        head, base, open_ones = found.head, found.base, asked.cases
        settled = asked.settle(comparison, head=head, base=base)
        for done in asked.rounds:
            if not open_ones or not self._measuring.goes_on:
                break
            which = f"rerun {done} of {asked.pairs}" if done <= asked.pairs else "again because a run failed"
            before = len(head.confirmations)
            self._confirm(open_ones - asked.alone, which=which, side=None)
            self._confirm(open_ones & asked.alone, which=which, side=HEAD)
            head, base = self._measuring.run(HEAD), self._as_stored(self._measuring.run(BASE))
            settled = asked.settle(comparison, head=head, base=base)
            open_ones = comparison_repeats.unsettled(settled)
            if len(head.confirmations) == before:  # cut off
                break
        return dataclasses.replace(found, head=head, base=base, comparison=settled)

    def _confirm(self, cases: frozenset[CaseKey], *, which: str, side: int | None) -> None:
        """One fresh run of these cases on both sides, or on one."""
        if not cases:
            return
        said = words.counted(len(cases), "new failure")
        alone = "" if side is None else " on head only"
        self._bout.watcher.say(f"Confirming {said}{alone} ({which})")
        self._measuring.confirm(cases, side=side)

    def _found(self, stage: Stage) -> Measured:
        bout = self._bout
        head = self._measuring.run(HEAD)
        if bout.base is None:
            return Measured(head=head)
        origin = self._origin(bout.base)
        if len(self._sides) == 1:
            problem = bout.base.problem
            return Measured(
                head=head,
                comparison=Comparison(
                    origin=origin, problem=problem, no_agent=bout.base.no_agent, loosened=bout.loosened
                ),
            )
        base = self._as_stored(self._measuring.run(BASE))
        comparison = compare.compare(
            head,
            base,
            policy=bout.policy,
            origin=origin,
            unpaired=self._unpaired(bout.base),
            loosened=bout.loosened,
            stage=stage,
            unreliable=bout.unreliable,
        )
        return Measured(head=head, base=base, comparison=comparison)

    def _as_stored(self, run: Run) -> Run:
        """The base's run; where nothing of it could be run, with as many repeats as are stored."""
        base = self._bout.base
        if base is None:
            return run
        run = reuse.marked(run, self._taken)
        run = dataclasses.replace(run, commit=base.origin.commit, agents=baseline_base.told(base, run))
        if base.root is not None or base.stored is None:
            return run
        kept = tuple(trial for trial in run.trials if trial.failure is None)
        repeats = min(base.stored.run.repeats, run.repeats)
        return dataclasses.replace(run, trials=kept, repeats=repeats, more=0, repeated=frozenset())

    def _origin(self, base: Base) -> BaseOrigin:
        if len(self._sides) == 1:
            return base.origin
        trials_had = self._measuring.keys(BASE)
        own, reused = len(trials_had), len(trials_had & self._taken.keys)
        origin = base.origin if reused or base.rerun is None else base.rerun
        source = origin.source
        if base.root is not None and reused:
            source = BaseSource.STORE if reused == own else BaseSource.MIXED
        measured = (self._measuring.run(HEAD), self._measuring.run(BASE))
        suites = frozenset(key.suite for key in trials_had & self._taken.keys)
        return dataclasses.replace(
            origin,
            source=source,
            reused=reused,
            run=0 if base.root is None else own - reused,
            notes=(*origin.notes, *baseline_base.environments(base, *measured, reused=suites)),
        )

    def _unpaired(self, base: Base) -> dict[CaseKey, Standing]:
        """Cases to leave out: new ones, deleted ones, and what stored results cannot be compared in."""
        unpaired = baseline_base.unpaired(base, self._bout.suites, plan=self._planned())
        return unpaired | self._taken.unpaired if base.root is None else unpaired

    def _planned(self) -> tuple[Suite, ...]:
        """All that is measured, here or elsewhere."""
        return self._bout.shard.plan if self._bout.shard else self._bout.suites

    def _side(self, root: Path, suites: tuple[Suite, ...], agents: Mapping[str, Agent], journal: Journal) -> Side:
        tools = self._bout.tools(root)
        code = discovery_agents.AgentCode(root, apart=self._bout.apart)
        return Side(
            suites=suites,
            agents=agents,
            criteria=self._criteria(),
            code_of=lambda use: code.fingerprint(use) + tools,
            journal=journal,
            absent=frozenset(suite.key for suite in suites if suite.agent.is_absent),
            computed={suite.key: [use.name for use in suite.criteria if use.is_computed] for suite in suites},
        )

    def _criteria(self) -> dict[str, dict[str, Criterion]]:
        """Head's criteria for both sides: the same judges, blind to the side; custom metrics by head's own code."""
        bout = self._bout
        judge = None if bout.settings.skip_judged else bout.panel
        built = {}
        for suite in bout.suites:
            agent = bout.agents[fingerprints.agent_key(suite.agent)]
            services = CriterionServices(adk_compat=bout.settings.adk_compat, run_metric=agent.run_metric, judge=judge)
            built[suite.key] = {use.name: criteria.build(use, services) for use in suite.criteria}
        return built


def _is_early(found: Measured, policy: Policy) -> bool:
    return (
        found.comparison is not None
        and found.base is not None
        and comparison_repeats.early(found.comparison, policy=policy)
    )
