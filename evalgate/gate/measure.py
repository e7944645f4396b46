"""An open run of the gate: its rules, the results of earlier runs, and its journals; and measuring
head and base together: one case of each agent that no earlier run knows, then all cases, then the
reruns that the purse requests."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from evalgate import __version__, agents, criteria, errors, reports
from evalgate.agents import opening, toolbox
from evalgate.agents.base import Agent
from evalgate.agents.pool import CommonStart
from evalgate.baseline import (
    base as baseline_base,
    failures,
    rules as baseline_rules,
)
from evalgate.baseline.base import Base
from evalgate.baseline.rules import Rules
from evalgate.comparison.book import Sides
from evalgate.comparison.purse import PAIRS_TO_CONFIRM, RUNS_TO_CONFIRM, Rerun
from evalgate.config import places
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.config.variables import AgentVariables
from evalgate.criteria import judges
from evalgate.criteria.base import Criterion, CriterionServices
from evalgate.discovery import (
    agents as discovery_agents,
    dotenv,
    project as discovery_project,
)
from evalgate.discovery.dotenv import JudgeEnvironment
from evalgate.discovery.project import Project
from evalgate.errors import ConfigError, Problem, UnavailableError, errors_in
from evalgate.judges import rate_limit
from evalgate.judges.base import JudgePanel
from evalgate.model import (
    BaseOrigin,
    BaseSource,
    CaseKey,
    CaseStatus,
    Comparison,
    CriterionUse,
    Grade,
    NotEvaluated,
    Reason,
    Report,
    Run,
    Suite,
    ThresholdRule,
    TrialView,
    not_evaluated,
)
from evalgate.results import kept, run_parts
from evalgate.results.history import History
from evalgate.results.journal import Journal
from evalgate.runner import inputs as runner_inputs, trials
from evalgate.runner.inputs import SideInputs
from evalgate.runner.session import Checkout, Session, Side
from evalgate.runner.trials import Task
from evalgate.system import inputs, isolation, redact
from evalgate.system.inputs import Snapshot
from evalgate.system.isolation import Isolation
from evalgate.system.watching import Watch
from evalgate.text import words
from evalgate.values import Redactor, Sentence, Wording, frozen_dataclass
from . import prepare, store as gate_store
from .store import BASE, HEAD, EarlierRuns

FileWriter: TypeAlias = Callable[
    [Iterable[Any], Path, Report], tuple[dict[str, str], tuple[Problem, ...]]
]
"""Writes the files of a report into a folder. Returns their paths by name, and a problem for each
failure."""


@frozen_dataclass
class GateSession:
    """A run of the gate without its agents, which `measure` opens."""

    project: Project
    """Head's, with the suites of all parts."""
    rules: Rules
    """For the suites of this part of the plan."""
    base: Base | None
    """That of the comparison."""
    judges: JudgeEnvironment
    """The variables that judges get, and the names of their keys."""
    history: History
    """Of runs of the base branch."""
    earlier: EarlierRuns
    """Results that may replace trials of this run."""
    journals: Sequence[Journal]
    """Head's, and the base's if it is measured."""
    write_files: FileWriter | None
    """None: the run is not kept."""

    @property
    def is_paired(self) -> bool:
        """True if the base is measured, at least in part."""
        return len(self.journals) > 1

    def finish(self, report: Report) -> None:
        """Mark the journals of a complete run as finished: no run continues them."""
        with contextlib.suppress(UnavailableError):  # the reports are written, so nothing is lost
            for journal in self.journals if report.run.complete else ():
                journal.finish()


@contextlib.contextmanager
def open_gate_session(
    project: Project, base: Base | None, rule_base: Base | None, context: Context
) -> Iterator[GateSession]:
    """Open a session for the block. `base`: the base to compare with; `rule_base`: the base whose
    rules count; see `baseline.base.open_bases`.

    Raises ConfigError if the base's rules forbid a run, UnavailableError if a journal cannot be
    written."""
    rules = baseline_rules.in_force(
        project.settings, project.suites, rule_base, context, compared=base
    )
    if rules.settings is not project.settings:
        _require_ready(rules, context)
    uses = [suite.agent for suite in rules.suites]
    judges = dotenv.of_judges(rules.settings, uses, context.environ)
    keys = baseline_rules.judge_keys(
        project.settings,
        rules.settings,
        rules.suites,
        rule_base,
        context,
        environ=judges.environ,
    )
    key_notices = [*prepare.isolation_problems(rules.settings, context)]
    if keys:
        variables = AgentVariables.of(rules.settings, context, keys)
        key_notices += prepare.key_notes(variables, judges)
    rules, history = baseline_rules.open_history(
        rules,
        project.settings,
        rule_base,
        context,
        part=run_parts.find_part(rules.settings, rules.suites) if rules.settings.shard else None,
        notices=key_notices,
    )
    with contextlib.ExitStack() as stack:
        redact_text = redact.redactor_of_files({**context.environ, **judges.environ})
        earlier_runs = gate_store.open_earlier_runs(rules, base, context, history)
        earlier = stack.enter_context(earlier_runs)
        # results are stored as they arrive: head's, and the base's if it is measured
        names = gate_store.JOURNALS[: 1 if base is None or base.problem else 2]
        journals = [
            stack.enter_context(_journal(name, rules.settings, context, redact_text))
            for name in names
        ]
        yield GateSession(
            project=project,
            rules=rules,
            base=base,
            judges=replace(judges, keys=keys),
            history=history,
            earlier=earlier,
            journals=journals,
            write_files=_writer(project.settings, context, redact_text),
        )


def _require_ready(rules: Rules, context: Context) -> None:
    """Raise ConfigError if a judge's key or a calibration is missing that the settings that decide
    need, which are not head's."""
    settings = rules.settings
    problems = (
        *discovery_project.unready(settings, rules.suites, environ=context.environ),
        *prepare.format_problems(settings, rules.suites),
        *toolbox.check(settings, rules.suites),
    )
    if faults := errors_in(problems):
        context.say("a key or file that the base's rules need is missing")
        context.audience.show(rules.problems)
        raise ConfigError.collected(faults)


def _journal(name: str, settings: Settings, context: Context, redact_text: Redactor) -> Journal:
    """Create a journal in the output folder. Raises UnavailableError."""
    path = settings.root / settings.output / name
    reason = places.refusal_reason(settings.root, f"{settings.output}/{name}", trusted=True)
    if (
        not reason
        and path.is_symlink()
        and not path.resolve().is_relative_to(path.parent.resolve())
    ):
        reason = "is a symbolic link to another folder"
    if reason:
        raise UnavailableError(
            f"the journal {path} {reason}", hint="Remove it, or give another folder as `output`."
        )
    about = {
        "evalgate": __version__,
        "started_at": context.moment.isoformat(timespec="seconds"),
        **({"workflow_run": context.workflow_run} if context.workflow_run else {}),
    }
    return Journal.create(path, about=about, redact=redact_text)


def _writer(settings: Settings, context: Context, redact_text: Redactor) -> FileWriter | None:
    """The writer of a run that is kept and can be continued; None for other runs, such as
    parts."""
    is_wanted = context.keep and context.is_attended and not settings.shard
    if not is_wanted or places.refusal_reason(settings.root, kept.FOLDER, trusted=True):
        return None
    return partial(
        kept.write,
        root=settings.root,
        moment=context.moment,
        is_selected=bool(settings.paths or settings.grep),
        redact=lambda text: reports.rewrite_texts(text, redact_text),
    )


# --- its agents and judges ------------------------------------------------------------------------


MOST_UNREAD = 50
"""The most changed files that a comparison names because no agent opened them."""
MOST_AGENTS = 3
"""The most other agents of a pull request that raise the evidence that blocks: beyond 160 : 1, a
broken case would be missed too often."""
NO_METRIC_PROCESS = frozenset({Reason.AGENT_FAILED, Reason.NOT_APPLICABLE})
"""Reasons of grades from an agent without a process for custom metrics."""


@frozen_dataclass
class Measurement:
    """The runs of both sides, with their comparisons."""

    head: Run
    base: Run | None = None
    """The part that was measured."""
    comparisons: Sequence[Comparison | None]
    """By each rule book; None without a base."""
    problems: Sequence[Problem] = ()
    """All problems until then."""
    sides: Sequence[Sides] = ()
    """By each rule book, if they have just been measured, with their reruns."""


@contextlib.contextmanager
def open_session(session: GateSession, context: Context) -> Iterator[Session]:
    """Open the judges and the agents of both sides for the block."""
    rules = session.rules
    trees = session.earlier.trees
    settings = rules.settings
    checkouts = list(_checkouts(session))
    limiters = rate_limit.limiters_for(settings.gate_file.judge, rate_limit.Clock())
    with contextlib.ExitStack() as stack:
        panel = None
        if any(suite.asks_models for suite in rules.suites):
            panel_context = judges.open_panel(
                settings,
                rules.suites,
                environ=session.judges.environ,
                cache=context.cache,
                say=context.say,
                moment=context.moment,
                limiters=limiters,
            )
            panel = stack.enter_context(panel_context)
        watches = defaultdict[Path, list[Watch]](list)
        watch_stack = stack.enter_context(contextlib.ExitStack())
        places = (*checkouts, *_metric_checkouts(session, stack))
        roots = list(dict.fromkeys(place.root for place in places))
        hidden_paths = _hidden_paths(session) if context.opening.isolate else ()
        isolating = open_isolation(settings, roots, context, hidden_paths=hidden_paths)
        side_isolation = stack.enter_context(isolating)
        pools = _open_agents(session, context, places, side_isolation, stack, sides=len(checkouts))
        runner_session = Session(
            settings,
            context=context,
            panel=panel,
            limiters=limiters,
            folder=gate_store.root_of(settings.root, context.trigger.links),
            part=rules.part,
        )
        criteria_by_suite = _criteria(
            rules,
            [place.suites for place in places],
            pools,
            panel,
            side_count=len(checkouts),
            scored=context.scored,
            strays=runner_session.strays,
        )
        for number, checkout in enumerate(checkouts):
            # the base reads head's tree if it has none of its own
            tree = trees[HEAD if number == HEAD else -1]
            side_inputs = _inputs(
                session, context, checkout, pools[number], watches=watches, tree=tree
            )
            runner_session.sides.append(
                Side(
                    runner_session,
                    checkout,
                    agents=pools[number],
                    criteria=criteria_by_suite,
                    journal=session.journals[number],
                    inputs=side_inputs,
                    shared=() if number == HEAD else session.earlier.unchanged,
                )
            )
        _begin_watches(places, trees, side_isolation, watches, watch_stack)
        yield runner_session


def _begin_watches(
    places: Iterable[Checkout],
    trees: Sequence[Snapshot],
    side_isolation: Isolation | None,
    watches: Mapping[Path, list[Watch]],
    stack: contextlib.ExitStack,
) -> None:
    """Watch the checkouts of these trees now, or each copy of them when it is made: before the
    first process of an agent in any language. `watches`: of each checkout, one, or one per copy
    that agents and metrics see; they end with `stack`."""
    if not any(agents.is_asked(suite.agent) for place in places for suite in place.suites):
        return

    def begin(top: Path, copy: Path) -> None:
        """Watch `copy`: the checkout at `top`, or a copy of it."""
        for tree in trees:
            if tree.top == top:
                watch = Watch(copy, {*tree.apart, *tree.environments})
                watches[top].append(stack.enter_context(watch))

    if side_isolation is None:
        for tree in trees:
            begin(tree.top, tree.top)
    else:
        for sandbox in (side_isolation.head, side_isolation.base, side_isolation.metrics):
            sandbox.ready.append(begin)


def _open_agents(
    session: GateSession,
    context: Context,
    places: Sequence[Checkout],
    isolation: Isolation | None,
    stack: contextlib.ExitStack,
    *,
    sides: int,
) -> list[dict[str, Agent]]:
    """The agents in these checkouts, of which `sides` are measured, opened for `stack`."""
    side_sandboxes = (None, None) if isolation is None else isolation.sides
    # the packages of edited metrics are the change's, so head's installer installs them
    sandboxes = (*side_sandboxes[:sides], side_sandboxes[HEAD])
    starting = CommonStart()
    pools: list[dict[str, Agent]] = []
    for place, sandbox in zip(places, sandboxes, strict=False):
        pool = opening.open_agents(
            place.suites,
            session.rules.settings,
            context,
            root=place.root,
            judge_keys=session.judges.keys,
            starting=starting,
            sandboxes=sandbox,
        )
        pools.append(stack.enter_context(pool))
    return pools


def _inputs(
    session: GateSession,
    context: Context,
    checkout: Checkout,
    agents: Mapping[str, Agent],
    *,
    watches: Mapping[Path, Sequence[Watch]],
    tree: Snapshot,
) -> SideInputs:
    """The inputs and environment of the agents in a checkout."""
    settings = session.rules.settings
    variables = AgentVariables.of(settings, context, session.judges.keys)
    environment_of = partial(
        runner_inputs.environment_of,
        settings=settings.model_copy(update={"isolate": context.opening.isolate}),
        environment=variables.environment(),
        tools=toolbox.fingerprint(settings, checkout.root),
        key=context.store_key,
    )
    return SideInputs(
        tree=tree,
        uses={suite.agent.key: suite.agent for suite in checkout.suites},
        agents=agents,
        environment_of=environment_of,
        watches=lambda: watches[tree.top],
        depends_on=settings.depends_on,
        trusts_workers=context.is_attended,
    )


def _checkouts(session: GateSession) -> Iterator[Checkout]:
    """Those of the measured sides."""
    base = session.base
    part = session.rules.part
    suites = session.rules.suites
    root = session.rules.settings.root
    project = session.project
    yield Checkout(root=root, suites=suites, commit=project.commit, dirty=project.dirty, part=part)
    if base is not None and session.is_paired:
        repeats = None
        if base.stored is not None and base.root is None:
            repeats = min(base.stored.run.repeats, session.rules.settings.runs)
        base_part = part and replace(part, plan=baseline_base.with_agents(part.plan, base))
        yield Checkout(
            root=base.root or root,
            suites=baseline_base.with_agents(suites, base),
            skipped=frozenset(baseline_base.new_cases(suites, base)),
            commit=base.origin.commit,
            part=base_part,
            repeats=repeats,
            stored_agents=baseline_base.stored_agents(base, suites),
        )


def _metric_checkouts(session: GateSession, stack: contextlib.ExitStack) -> Sequence[Checkout]:
    """If the change edits custom metrics: the base's checkout with the change's version of their
    files and of the lists of dependencies, and the suites with the base's agents."""
    base = session.base
    rules = session.rules
    uses = [use for suite in rules.suites for use in suite.criteria]
    if base is None or base.root is None or not any(use.is_code_edited for use in uses):
        return ()
    head = rules.settings.root
    names = baseline_rules.room_files(rules.suites, head)
    # no space, or a folder of the base where the change has a file: the metric is a stray
    with contextlib.suppress(OSError):
        copy = baseline_base.with_files(base.top or base.root, base.root, head, names)
        root = stack.enter_context(copy)
        return (Checkout(root=root, suites=baseline_base.with_agents(rules.suites, base)),)
    return ()


def _hidden_paths(session: GateSession) -> frozenset[str]:
    """What shows agents how they are judged, in the checkouts of both sides."""
    project = session.project
    paths = baseline_rules.measurement_paths(project.settings, (*project.suites, *project.unread))
    base = None if session.base is None else session.base.project
    if base is not None and base.settings is not None:
        paths |= baseline_rules.measurement_paths(
            base.settings, base.suites.values(), name_of=base.name_of
        )
    return paths


def open_isolation(
    settings: Settings,
    roots: Sequence[Path],
    context: Context,
    *,
    hidden_paths: Collection[str],
) -> AbstractContextManager[Isolation | None]:
    """Other users for code that is not ours, if `context` asks for them; None if it runs with our
    rights. Unless they need them, agents get no evaluation files and none of `hidden_paths`."""
    if not context.opening.isolate:
        return contextlib.nullcontext()
    private_folders = [
        settings.root / folder
        for folder in (settings.output, settings.baseline_folder, kept.FOLDER)
        if folder
    ]

    def is_hidden(path: str) -> bool:
        """True if agents do not get a path, because it shows how they are judged."""
        return not settings.needs_evaluation_files and (
            path in hidden_paths or discovery_agents.holds_expectations(path)
        )

    return isolation.open_sandboxes(
        roots,
        cache=context.cache,
        private_folders=private_folders,
        is_hidden=is_hidden,
        environ=context.environ,
        say=context.say,
    )


def _criteria(
    rules: Rules,
    places: Sequence[Sequence[Suite]],
    pools: Sequence[Mapping[str, Agent]],
    panel: JudgePanel | None,
    *,
    side_count: int,
    scored: Collection[str] | None,
    strays: dict[str, Wording],
) -> dict[str, dict[str, Criterion]]:
    """The criteria of both sides: the same judges, blind to the side, and the same code of custom
    metrics: the base's if the change does not edit it, or if the base's rule book asks for it.
    `places`: the suites of each side (`side_count`), then those of the room for metrics that the
    change edits, if there is one; `pools`: their agents. `scored`: the names of criteria to score,
    None: all. `strays` gets the metrics that run the change's code."""
    settings = rules.settings
    judge = None if settings.skip_judged else panel

    def services(use: CriterionUse, agents: Sequence[Agent | None]) -> CriterionServices:
        """The judge for a criterion, and the processes that may run its code; notes a stray
        metric."""
        head = agents[HEAD]
        base = agents[BASE] if side_count > 1 else None
        room = next(iter(agents[side_count:]), None) if use.is_code_edited else base
        choices = [base] if use.metric else [room, head] if use.code_commit else [head]
        rooms = [agent for agent in choices if agent is not None]
        if use.code and rooms == [head]:
            strays[use.name] = Sentence("metric_of_change")
        run_metric = partial(_run_metric, rooms, strays) if rooms else None
        return CriterionServices(deviations=settings.deviations, run_metric=run_metric, judge=judge)

    criteria_by_suite = {}
    for suites in zip(*places, strict=True):
        agents = [pool.get(suite.agent.key) for suite, pool in zip(suites, pools, strict=True)]
        criteria_by_suite[suites[HEAD].key] = {
            use.name: (lambda _: not_evaluated(Reason.SKIPPED, "criterion_not_chosen"))
            if scored is not None and use.name not in scored
            else criteria.build(use, services(use, agents))
            for use in suites[HEAD].criteria
        }
    return criteria_by_suite


def _run_metric(
    rooms: Sequence[Agent],
    strays: dict[str, Wording],
    code: str,
    use: CriterionUse,
    evidence: TrialView,
) -> Grade:
    """A custom metric's grade in the environment of the first of these agents that has one.
    `strays` gets the reason if another's gives the score.

    A metric that the change edits may need more of the change than its room has: it then runs as
    the change's."""
    *first_rooms, last_room = rooms
    lacking = NO_METRIC_PROCESS | ({Reason.CRITERION_FAILED} if use.is_code_edited else set())
    reasons = dict[str, Wording]()
    for room in first_rooms:
        grade = room.run_metric(code, use, evidence)
        if not (isinstance(grade, NotEvaluated) and grade.reason in lacking):
            return grade
        reasons[use.name] = grade.message
    grade = last_room.run_metric(code, use, evidence)
    if not isinstance(grade, NotEvaluated):
        strays.update(reasons)
    elif grade.reason is Reason.AGENT_FAILED:
        return NotEvaluated(reason=Reason.CRITERION_FAILED, message=grade.message)
    return grade


def measure(session: GateSession, context: Context) -> Measurement:
    """Run all trials that the settings request, and compare their results by each rule book.

    Raises UnavailableError if a journal cannot be written."""
    with (
        open_session(session, context) as runner_session,
        session.earlier.keep_journals(runner_session, context),
    ):
        return _Measuring(session, runner_session, context).carry_out()


class _Measuring:
    """The phases of a run, and their results so far. `planned`: all cases of the plan, also of
    other parts; `cause`: the part of the change that may have made the base's agent fail."""

    def __init__(self, session: GateSession, runner_session: Session, context: Context) -> None:
        """`_base` is the base to compare with, `_measured_base` the same if it is measured at
        all."""
        self._gate = session
        self._session = runner_session
        self._is_attended = context.is_attended
        self._is_rerun = (
            session.base is not None or not context.is_attended or session.rules.settings.confirm
        )
        """False at a terminal without a base: failures are not rerun there."""
        self._is_of_change = context.trigger.is_pull_request
        """The run is for a pull request: stray metrics are reported without a base, too."""
        self._rules = session.rules
        self._base = session.base
        self._measured_base = session.base if session.is_paired else None
        self._planned = session.rules.part.plan if session.rules.part else session.rules.suites
        self._unpaired: Mapping[CaseKey, CaseStatus] = {}
        """Cases that the base's stored results do not have, or have with another content."""
        self._cause: Wording = ""
        self._others = 0
        """Agents that this pull request's earlier runs measured, at most MOST_AGENTS."""
        self._probed = frozenset[str]()
        """Suites that are shared since the probe, as their agent has read nothing of the change
        yet."""
        self._late = frozenset[str]()
        """Suites whose first runs on the base came later than head's, and are not their pairs."""
        self._is_settled = False
        """True once no rerun could change the verdict."""

    def carry_out(self) -> Measurement:
        """The first runs, then the reruns that the purse requests."""
        session = self._session
        runs = self._rules.settings.runs
        base = self._measured_base
        sides = session.sides
        earlier = self._gate.earlier
        if earlier.entries:
            earlier.take(session, self._rules)
        if self._is_attended and sides[HEAD].reused:
            count = words.counted(len(sides[HEAD].reused), "run")
            session.watcher.say(
                f"{count} reused from earlier runs (`--fresh` runs the agent again)"
            )
        first_tasks = [*trials.tasks([side.suites for side in sides], trials.first_rounds(runs))]
        if base is not None and base.stored is not None:
            reused_suites = base.reused_suites(self._rules.suites)
            stored_tasks = [
                task
                for task in first_tasks
                if task.side == BASE and task.suite.key in reused_suites
            ]
            self._unpaired = gate_store.take_results(
                base.stored, stored_tasks, sides[BASE], renamed=base.project.renamed
            )
        self._tell_expected(first_tasks)
        if self._is_rerun and any(
            book.policy.threshold is not ThresholdRule.ALL for book in self._rules.books
        ):
            session.confirming = RUNS_TO_CONFIRM if base is None else PAIRS_TO_CONFIRM * len(sides)
        self._probe()
        session.first(runs)
        self._share_unchanged()
        if self._late:
            session.first(runs)
        if earlier.entries:
            self._others = min(earlier.other_agents(session), MOST_AGENTS)
        all_sides = self._rerun()
        return Measurement(
            head=all_sides[0].head,
            base=all_sides[0].base,
            comparisons=self._comparisons(all_sides),
            problems=(
                *self._gate.project.problems,
                *self._rules.problems,
                *self._problems(all_sides[0]),
            ),
            sides=all_sides,
        )

    def _tell_expected(self, first_tasks: Sequence[Task]) -> None:
        """Show the expected calls and cost, if a model is called."""
        sides = self._session.sides
        tasks = [
            task
            for task in first_tasks
            if sides[task.side].runs(task) and not sides[task.side].knows(task)
        ]
        unread = self._gate.earlier.unread
        certain_tasks = [
            task for task in tasks if task.side == HEAD or task.suite.key not in unread
        ]
        estimate_text = prepare.tell_expected(certain_tasks, self._session.settings)
        more = len(tasks) - len(certain_tasks)
        more_text = f"{words.counted(more, 'more run')} of the base if the agent opens what the change edits"
        texts = (
            estimate_text,
            more_text if more else "",
            prepare.reruns(self._rules.policy, has_base=len(sides) > 1) if self._is_rerun else "",
        )
        if estimate_text:
            self._session.watcher.say("; ".join(filter(None, texts)))

    def _share_unchanged(self) -> None:
        """Share suites if head's agent read nothing that differs on the base. Both sides then have
        one agent: any difference is chance, and head's runs count for both. A suite that was
        shared after the probe is parted if its agent has read more since."""
        base = self._measured_base
        if base is None:
            return
        head, side = self._session.sides
        for suite in head.suites:
            key = suite.agent.key
            is_same = suite.key in self._probed or (
                suite.key not in side.shared
                and baseline_base.is_same_use(suite, base, self._session.settings)
            )
            if is_same and side.inputs.stands(key, head.inputs.of(key)):
                side.shared |= {suite.key}
            elif suite.key in side.shared & self._probed:
                self._late |= {suite.key}
        if self._late:
            self._session.part_suites(self._late)

    def _probe(self) -> None:
        """Run a case of each agent of which no earlier run knows what it reads. If it reads nothing
        of the change, its other cases run on one side only."""
        if self._measured_base is None:
            return
        suites = [
            suite
            for suite in self._session.sides[HEAD].suites
            if suite.key in self._gate.earlier.unread and suite.cases
        ]
        cases = {suite.agent.key: (suite.key, suite.cases[0].case_id) for suite in reversed(suites)}
        if sum(len(suite.cases) for suite in suites) > len(cases):
            self._session.probe({*cases.values()})
            self._share_unchanged()
            self._probed = self._session.sides[BASE].shared & {suite.key for suite in suites}

    def _rerun(self) -> list[Sides]:
        """Rerun as the purse requests, until no run could change the verdict. Returns both sides in
        the end, by each rule book."""
        all_sides = self._sides()
        while self._is_rerun and not self._session.stop.is_set():
            reruns = Counter[Rerun]()
            for sides in all_sides:
                reruns |= Counter(sides.book_and_reruns[1])  # one run is a bet in every book
            if not reruns:
                self._is_settled = True
                break
            has_served = self._session.rerun([*reruns.elements()])
            all_sides = self._sides()
            if not has_served:  # the run was cut short
                break
        return all_sides

    def _problems(self, sides: Sides) -> Iterator[Problem]:
        """Problems: reused results, agents tried before, unpriced models, and token counts that
        differ. `sides`: in the end, by the change's rule book."""
        head = self._session.sides[HEAD]
        if head.reused:
            count = sum(key.is_first for key in head.reused)
            message = Sentence("earlier_results", count, head.reused_since)
            hint = Sentence("earlier_results_hint", self._is_attended)
            yield errors.note("earlier-results", message, hint=hint)
        if self._others and self._is_settled:
            message = Sentence("agents_tried", self._others, sides.book_and_reruns[0].needed)
            yield errors.note("agents-tried", message, hint=Sentence("agents_tried_hint"))
        trials = [
            trial
            for side in self._session.sides
            for key, trial in side.results.items()
            if key.is_first
        ]
        if unasked := [trial for trial in trials if trial.failure and not trial.attempts]:
            message = Sentence("agent_down", len(unasked), len(trials), unasked[0].failure)
            yield errors.warning("agent-down", message, hint=Sentence("agent_down_hint"))
        strays = self._session.strays if self._base or self._is_of_change else {}
        for name, reason in strays.items():
            message = Sentence("metric_stray", name, reason)
            yield errors.note("metric-of-change", message, hint=Sentence("metric_stray_hint"))
        unpriced = sorted(self._session.budget.unpriced)
        if unpriced and self._session.settings.budget.usd is not None:
            message = Sentence("price_unknown", unpriced)
            yield errors.warning("price-unknown", message, hint=Sentence("price_unknown_hint"))
        event_tokens, answer_tokens = self._session.budget.missed_tokens
        if answer_tokens:
            message = Sentence("tokens_understated", event_tokens, answer_tokens)
            limits = self._session.settings.budget
            # a note if no limit depends on it
            report = errors.note if limits.tokens is limits.usd is None else errors.warning
            yield report("tokens-understated", message, hint=Sentence("tokens_understated_hint"))

    def _sides(self) -> list[Sides]:
        """Both sides in their current state, by each rule book."""
        base = self._measured_base
        rules = self._rules
        head_run = self._session.run(self._session.sides[HEAD])
        base_run = None
        unpaired: Mapping[CaseKey, CaseStatus] = {}
        shared = frozenset[str]()
        is_together = True
        if base is not None:
            base_run = self._base_run(base)
            shared = self._session.sides[BASE].shared
            is_together = self._origin(base).source is BaseSource.RERUN
            # new cases, deleted cases, and cases that stored results cannot be compared with
            unpaired = baseline_base.unpaired(base, rules.suites, plan=self._planned)
            unpaired |= self._unpaired if base.root is None else {}
        books = [book.divided(2**self._others) for book in rules.books]
        return [
            Sides(
                head=book.applied(head_run),
                base=base_run and book.applied(base_run),
                policy=book.policy,
                recorded=failures.recorded_of(head_run),
                unpaired=unpaired,
                unchanged=shared,
                is_together=is_together,
            )
            for book in books
        ]

    def _comparisons(self, all_sides: Sequence[Sides]) -> Sequence[Comparison | None]:
        """By each rule book; None without a base, without cases if the base is not measured."""
        base = self._base
        if base is None:
            return (None,) * len(all_sides)
        if self._measured_base is None:
            comparison = Comparison(
                origin=base.origin,
                problem=base.problem,
                no_agent=base.no_agent,
                base_failed=base.base_failed,
            )
            return (comparison,) * len(all_sides)
        shared = self._session.sides[BASE].shared
        origin = self._origin(base)
        edited = baseline_base.edited(base, self._rules.suites, shared) if shared else ()
        unread = self._unread(shared) if shared else ()
        return [
            failures.compare(sides, origin=origin, edited=edited, unread=unread, cause=self._cause)
            for sides in all_sides
        ]

    def _unread(self, suites: Collection[str]) -> tuple[str, ...]:
        """The files that the change edits and that the agents of these suites did not open, without
        evaluation files."""
        head, base = self._session.sides
        keys = {suite.agent.key for suite in self._planned if suite.key in suites}
        opened_names = {
            name
            for key in keys & head.journal.inputs.keys()
            for name in head.journal.inputs[key].answers
        }
        paths = (
            path
            for path in head.inputs.tree.differing(base.inputs.tree)
            if inputs.question("file", path) not in opened_names
            and not discovery_agents.is_evaluation_file(path)
        )
        return tuple(itertools.islice(paths, MOST_UNREAD))

    def _base_run(self, base: Base) -> Run:
        """The base's run, with its agents' own failures, and with the trials that did not run
        together with head's. If only stored results exist, it lacks what they lack."""
        session = self._session
        head, side = session.sides
        keys = session.first_keys(side)
        trials = dict(side.results)
        causes = failures.causes_of(
            [trials[key] for key in keys if key in trials],
            base,
            settings=self._rules.settings,
            suites=self._rules.suites,
            base_suites=side.suites,
        )
        self._cause = next((cause for cause in causes.values() if cause), "")
        if side.checkout.repeats is not None:
            trials = {
                key: trial for key, trial in trials.items() if not (key.is_first and trial.failure)
            }
        for key, trial in trials.items():
            is_late = key.is_first and key.suite in self._late
            is_beside = (
                head.reused.get(key, "") == side.reused.get(key, "") or key.suite in side.shared
            )
            is_apart = is_late or not is_beside
            is_own = causes.get(key) == ""
            if is_apart or is_own:
                trials[key] = replace(trial, apart=is_apart, own_failure=is_own)
        return session.run(side, trials)

    def _origin(self, base: Base) -> BaseOrigin:
        """The base's origin, with the numbers of its reused and its new trials."""
        side = self._session.sides[BASE]
        keys = {key for key in side.results if key.is_first}
        reused = keys & side.reused.keys()
        origin = base.origin
        source = origin.source
        trial_count = sum(key.suite not in side.shared for key in keys)
        if base.root is not None and reused:
            source = BaseSource.STORE if len(reused) == trial_count else BaseSource.MIXED
        cause_notes = [Sentence("base_cause", self._cause)] if self._cause else []
        return replace(
            origin,
            source=source,
            measured_at=origin.measured_at or (side.reused_since if reused else ""),
            reused=len(reused),
            run=0 if base.root is None else trial_count - len(reused),
            notes=(*origin.notes, *cause_notes),
        )
