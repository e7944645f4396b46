"""What earlier runs of the very same agent gave, in place of running it again (docs/decisions/020-stored-heads.md)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from evalgate import agents, errors
from evalgate.agents.base import AgentFailed
from evalgate.baseline import base as baseline_base, unchanged
from evalgate.baseline.base import Base
from evalgate.baseline.rules import Rules
from evalgate.config import variables
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.errors import EvalgateError, Problem
from evalgate.formats import fingerprints
from evalgate.github import events
from evalgate.model import Suite
from evalgate.results import attempts, stores
from evalgate.results.attempts import Keeping, Kept
from evalgate.results.file import Stored
from evalgate.runner import reuse
from evalgate.runner.reuse import TakenOver
from evalgate.runner.session import Session, Side
from evalgate.runner.trials import Task
from evalgate.text import words
from evalgate.values import frozen_dataclass

HEAD, BASE = 0, 1


@frozen_dataclass
class Earlier:
    """`tree`: what git tracks at head (`unchanged.of_tree`), "" where nobody asks. `keeping`: where this run keeps what
    it measures; `kept`: what runs before it kept. `oldest`: from when on results of the base branch count. `is_fresh`:
    this run itself is to be one that others use, so it takes nothing over."""

    tree: str = ""
    keeping: Keeping | None = None
    kept: Sequence[Kept] = ()
    oldest: datetime | None = None
    is_fresh: bool = False

    @contextmanager
    def kept_after(self, session: Session, context: Context) -> Iterator[None]:
        """Keep what the sides measured, however the block ends."""
        try:
            yield
        finally:
            if self.keeping is not None and self.tree:
                told = [side.surroundings() for side in session.sides]
                try:
                    self.keeping.keep([side.journal for side in session.sides], told, now=context.now)
                except EvalgateError as error:
                    context.say(f"what was measured is not kept for later runs: {error.message}")

    def other_agents(self, session: Session) -> int:
        """How many other agents this pull request's runs measured before: each had its chance of a false alarm."""
        now = session.sides[HEAD].surroundings()
        earlier = [kept.agents_of_head() for kept in self.kept if self._is_own(kept)]
        return len({tuple(sorted(agents.items())) for agents in earlier if agents and agents != now})

    def take(self, session: Session, rules: Rules, base: Base | None) -> tuple[TakenOver, TakenOver]:
        """Put what is known into the journals of the sides; what was taken over, of head and of the base."""
        head, taken, theirs = session.sides[HEAD], TakenOver(), TakenOver()
        if self.is_fresh or not self.tree or baseline_base.clock_based([rules.policy], rules.suites):
            return taken, theirs
        same = frozenset[str]() if base is None else base.unchanged
        for suite in head.suites:
            found = self._of_head(suite, head, session.settings, base if suite.key in same else None)
            taken.join(found)
            if found.keys and len(session.sides) > BASE and suite.key not in same:
                # beside results of another time a base is no measure of today's
                cases = {key.case_id for key in found.keys}
                theirs.join(self._of_base(suite.key, session.sides[BASE], session.settings, cases))
        return taken, theirs

    def _of_head(self, suite: Suite, side: Side, settings: Settings, same: Base | None) -> TakenOver:
        """`same`: the base, where its agent is this very agent."""
        key = fingerprints.agent_key(suite.agent)
        own = [each for each in self.kept if each.surroundings(key)]
        if same is None:
            own = [each for each in own if self._is_own(each)]
        stored = self._stored_of(suite, same, side)
        if not (own or stored) or not _is_told(suite, side):
            return TakenOver()
        now = side.surroundings().get(key, "")
        found = reuse.take_kept(
            [each for each in own if now and each.surroundings(key) == now], [suite], side, repeats=settings.runs
        )
        if stored is not None and now and stored[1] == now:
            tasks, results, renamed = stored[0], stored[2], same.project.renamed if same else {}
            again = reuse.take_over(results, tasks, side, renamed=renamed)
            found.join(replace(again, unpaired={}))
        return found

    def _of_base(self, key: str, side: Side, settings: Settings, cases: Collection[str]) -> TakenOver:
        suite = next(each for each in side.suites if each.key == key)
        agent = fingerprints.agent_key(suite.agent)
        own = [each for each in self.kept if self._is_own(each) and each.surroundings(agent)]
        if not own or not _is_told(suite, side):
            return TakenOver()
        now = side.surroundings().get(agent, "")
        asked = suite.with_cases(tuple(case for case in suite.eval_set.cases if case.case_id in cases))
        matching = [each for each in own if now and each.surroundings(agent) == now]
        return reuse.take_kept(matching, [asked], side, repeats=settings.runs)

    def _is_own(self, each: Kept) -> bool:
        return self.keeping is not None and each.journal.about.get("scope") == self.keeping.scope

    def _stored_of(self, suite: Suite, base: Base | None, side: Side) -> tuple[list[Task], str, Stored] | None:
        """The stored trials of this very agent as tasks, what it ran in, and the results; None without any."""
        if base is None or base.earlier is None or self.oldest is None:
            return None
        stored = base.earlier
        name = base.project.renamed.get(suite.key, suite.key)
        then = next((each for each in stored.run.suites if each.key == name), None)
        key = fingerprints.agent_key(suite.agent)
        is_recent = stores.moment(stored.run.started_at) >= self.oldest
        if then is None or fingerprints.agent_key(then.agent) != key or not is_recent:
            return None
        code, told = stored.run.codes.get(key, ""), stored.run.surroundings.get(key, "")
        if not code or code != side.codes[key] or not told:
            return None
        cases = {case.case_id: case for case in suite.eval_set.cases}
        tasks = [
            Task(key=each.key.renamed({name: suite.key}), suite=suite, case=case)
            for each in (*stored.run.trials, *stored.run.confirmations)
            if each.key.suite == name and (case := cases.get(each.key.case_id)) is not None
        ]
        return tasks, told, stored


def as_stored(base: Base, side: Side, *, say: Callable[[str], None]) -> frozenset[str]:
    """The suites of which stored results of the base may stand in: those whose agent has today what it had then, its
    variables, settings and packages. What cannot be run again is taken as it is. `side`: the base's."""
    wanted = [suite for suite in side.suites if suite.key in base.reusable - base.unchanged]
    kept = frozenset(suite.key for suite in wanted if not can_run(suite) or _is_as_stored(suite, side, base))
    if lost := [suite.key for suite in wanted if suite.key not in kept]:
        say(f"Stored results of {words.listed(lost, limit=3)} are of other surroundings than today's: running the base")
    return kept


def can_run(suite: Suite) -> bool:
    """Whether an agent can be run again: not a recording, nothing behind a URL, which is head's as well."""
    return agents.is_asked(suite.agent) and not agents.is_remote(suite.agent) and not suite.agent.is_absent


def _is_as_stored(suite: Suite, side: Side, base: Base) -> bool:
    name = base.project.renamed.get(suite.key, suite.key)
    then = () if base.stored is None else (each for each in base.stored.run.suites if each.key == name)
    told = {base.stored.run.surroundings.get(fingerprints.agent_key(each.agent), "") for each in then if base.stored}
    now = side.surroundings().get(fingerprints.agent_key(suite.agent), "") if _is_told(suite, side) else ""
    return bool(now) and told == {now}


def _is_told(suite: Suite, side: Side) -> bool:
    """Whether the agent is one of which all is known once it has started, and it starts."""
    if not can_run(suite):
        return False
    try:
        side.agents[fingerprints.agent_key(suite.agent)].start()
    except AgentFailed:
        return False  # its trials say so
    return True


@contextmanager
def opened(
    rules: Rules,
    base: Base | None,
    context: Context,
    *,
    judge_keys: Collection[str],
    is_fresh: bool,
    moved: datetime | None = None,
) -> Iterator[Earlier]:
    """What is known from before. `is_fresh`: results of this run will be stored for others. `moved`: when the
    provider's model last did, before which nothing counts."""
    settings = rules.settings
    keeping = _keeping(context, judge_keys)
    named = bool(settings.baseline_folder or (base is not None and base.earlier))
    if not settings.reuse_days or not (keeping or named):
        yield Earlier()
        return
    tree = unchanged.of_checkout(settings.root, environ=context.environ, under=context.cache / "bases")
    oldest = max(filter(None, (context.now - timedelta(days=settings.reuse_days), moved)))
    # a scheduled run, or one that somebody starts by hand, asks how the agent is now
    is_asked_anew = context.workflow_run and not (context.is_pull_request or events.is_of_repository(context.environ))
    is_fresh = is_fresh or bool(is_asked_anew)
    known = Earlier(tree=tree, keeping=keeping, oldest=oldest, is_fresh=is_fresh)
    with ExitStack() as stack:
        if keeping is not None and tree and not is_fresh:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evalgate-kept-")))
            kept = keeping.opened(scratch, oldest=oldest, say=context.say)
            known = replace(known, kept=stack.enter_context(kept))
        yield known


def _keeping(context: Context, judge_keys: Collection[str]) -> Keeping | None:
    """In a workflow for a push or for a change from the same repository: whoever writes a fork's workflow could write
    what it keeps."""
    if not context.workflow_run or not events.is_of_repository(context.environ):
        return None
    return attempts.of_workflow(
        context.environ,
        context.cache,
        names={*variables.KEYS, *judge_keys},
        workflow_run=context.workflow_run,
        commit=context.commit,
    )


def told(taken: TakenOver) -> Iterator[Problem]:
    """That results are not of today."""
    if taken.keys:
        runs = words.counted(sum(key.is_first for key in taken.keys), "run")
        since = f", the oldest of {taken.since[:16].replace('T', ' ')} UTC" if taken.since else ""
        message = f"{runs} of head are earlier results{since}: the agent, its environment and the cases are unchanged"
        hint = "`reuse-days: 0` runs an unchanged agent again."
        yield errors.note("earlier-results", message, hint=hint)
