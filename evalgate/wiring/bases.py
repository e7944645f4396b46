"""The base that a run is compared with: which commit, its code on disk, its rules, and what is stored of it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from evalgate import words
from evalgate.baseline import commits, repository, worktree
from evalgate.baseline.commits import BaseCommit
from evalgate.baseline.repository import Repository
from evalgate.baseline.store import Store
from evalgate.errors import EvalgateError
from evalgate.model import AgentUse, BaseOrigin, BaseSource, Policy, Suite
from evalgate.pipeline import stored as stored_results
from evalgate.pipeline import trials
from evalgate.pipeline.stored import Stored
from evalgate.project import agent_choice, reading, tree
from evalgate.wiring import agent_code, agent_pools, choosing, policies, preparing, stores
from evalgate.wiring.choosing import Choice
from evalgate.wiring.stores import Found

WHY_NOT_STORED = "the stored results have no run of this case that could be compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a side's own files ask for: its suites with their criteria and cases, and its policy."""

    suites: tuple[Suite, ...]
    policy: Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The base, before anything of it was measured.

    `root`: its code on disk, None where only results are at hand. `agents`: of every suite of head's, by its key; a
    suite without one has an absent agent. `reusable`: suites whose stored trials may stand in. `rules`: None where they
    are not known. `problem`: why there is nothing to compare with; `no_agent`: because the base has no agent yet, which
    is nobody's fault.
    """

    origin: BaseOrigin
    root: Path | None = None
    reusable: frozenset[str] = frozenset()
    agents: Mapping[str, AgentUse] = dataclasses.field(default_factory=dict)
    rules: Rules | None = None
    stored: Stored | None = None
    problem: str = ""
    no_agent: bool = False

    def lacks_agent(self, suite: str) -> bool:
        """Whether its code is here and has no agent for this suite."""
        use = self.agents.get(suite)
        return self.root is not None and (use is None or use.driver == agent_pools.ABSENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What finding a base needs: `event_base`: the SHA that the event names, "" at a desk. `tools`: the fingerprint
    of what answers tool calls in the agents' stead, by a side's checkout.
    """

    choice: Choice
    suites: tuple[Suite, ...]
    environ: Mapping[str, str]
    cache: Path
    say: Callable[[str], None]
    now: datetime
    event_base: str = ""
    token: str | None = None
    tools: Callable[[Path], str] = lambda _: ""


@contextlib.contextmanager
def opened(search: Search) -> Iterator[Base | None]:
    """The base, for as long as the block lasts; None where none is asked for.

    Never raises for what is wrong with the base: that is its `problem`.
    """
    settings = search.choice.settings
    wanted = settings.baseline
    if wanted == "none" or (wanted == "auto" and not (settings.base or search.event_base)):
        yield None
        return
    if wanted.startswith("file:"):
        yield _from_file(search, wanted.removeprefix("file:"))
        return
    with contextlib.ExitStack() as stack:
        yield _from_git(search, stack)


def _from_file(search: Search, named: str) -> Base:
    """Results that somebody named. Raises ConfigError where they cannot be read: the user asked for this very file."""
    stored = stored_results.read_results(search.choice.root / named, shown_as=named)
    origin = BaseOrigin(source=BaseSource.FILE, commit=stored.run.commit, measured_at=stored.run.started_at)
    absent = agent_pools.absent(WHY_NOT_STORED)
    return Base(
        origin=stores.aged(origin, settings=search.choice.settings, now=search.now),
        agents={suite.key: absent for suite in search.suites},
        reusable=frozenset(suite.key for suite in search.suites),
        stored=stored,
    )


def _from_git(search: Search, stack: contextlib.ExitStack) -> Base:
    settings = search.choice.settings
    source = BaseSource.STORE if settings.baseline == "store" else BaseSource.RERUN
    try:
        under = search.cache / "bases"
        repo = stack.enter_context(
            repository.opened(search.choice.root, environ=search.environ, token=search.token, under=under)
        )
        picked = commits.pick_base(
            repo, wanted=settings.base, event_base=search.event_base, head="", environ=search.environ
        )
        named = stores.opened(settings, repo, root=search.choice.root, say=search.say)
    except EvalgateError as error:
        named_base = f"`{settings.base}`: " if settings.base else ""
        return Base(origin=BaseOrigin(source=source), problem=f"{named_base}{_told(error)}")
    found = None if settings.baseline == "rerun" else stores.find(named, repo, picked.sha, say=search.say)
    base = _checked_out(search, repo, picked, stack)
    if settings.baseline == "store":
        return _only_stored(search, base, found, named)
    return base if found is None or base.problem else _with_stored(search, base, found)


def _only_stored(search: Search, base: Base, found: Found | None, named: Sequence[Store]) -> Base:
    """Nothing is run on the base side; its own rules are known where it could be checked out."""
    if found is None:
        where = words.listed(store.name for store in named) or "nowhere: neither data-branch nor baseline-folder is set"
        problem = f"there are no stored results of {base.origin.commit[:7]} or its ancestors ({where})"
        return Base(origin=dataclasses.replace(base.origin, source=BaseSource.STORE), problem=problem)
    absent = agent_pools.absent(WHY_NOT_STORED)
    return Base(
        origin=_stored_origin(search, base.origin, found),
        agents={suite.key: absent for suite in search.suites},
        reusable=frozenset(suite.key for suite in search.suites),
        rules=base.rules,
        stored=found.stored,
    )


def _with_stored(search: Search, base: Base, found: Found) -> Base:
    """What is stored stands in where the agent's own files are still the same; the rest is run."""
    root = base.root
    if root is None:
        return base
    reusable = frozenset(
        suite.key for suite in search.suites if _same_agent(search, found, base.agents[suite.key], suite, root)
    )
    if not reusable:
        search.say(f"results of {found.commit[:7]} are stored, but the agent has changed since: it is run")
        return base
    origin = _stored_origin(search, base.origin, found)
    return dataclasses.replace(base, origin=origin, reusable=reusable, stored=found.stored)


def _stored_origin(search: Search, origin: BaseOrigin, found: Found) -> BaseOrigin:
    measured = found.stored.run.started_at or found.saved_at
    known = dataclasses.replace(origin, source=BaseSource.STORE, measured_at=measured, distance=found.distance)
    return stores.aged(known, settings=search.choice.settings, now=search.now)


def _same_agent(search: Search, found: Found, use: AgentUse, suite: Suite, root: Path) -> bool:
    """Whether the stored run ran this very agent: the same commit, or the same files of the agent."""
    then = next((each for each in found.stored.run.suites if each.key == suite.key), None)
    if then is None or use.driver == agent_pools.ABSENT or not _alike(then.agent, use):
        return False
    tools = search.tools(root)
    if found.distance == 0 and not tools:
        return True
    files = agent_code.fingerprint(root, use, apart=root / search.choice.settings.output)
    return bool(files) and found.stored.run.codes.get(trials.agent_key(then.agent)) == files + tools


def _alike(then: AgentUse, now: AgentUse) -> bool:
    return then.driver == now.driver and dict(then.options) == dict(now.options)


def _checked_out(search: Search, repo: Repository, picked: BaseCommit, stack: contextlib.ExitStack) -> Base:
    """The base's code, its agents for head's suites, and its own rules."""
    notes = (picked.note,) if picked.note else ()
    origin = BaseOrigin(source=BaseSource.RERUN, commit=picked.sha, found_by=picked.how, notes=notes)
    try:
        checkout = stack.enter_context(worktree.checked_out(repo, picked.sha))
    except EvalgateError as error:
        return Base(origin=origin, problem=_told(error))
    origin = dataclasses.replace(origin, notes=(*notes, *checkout.notes))
    search.say(f"base {picked.sha[:7]} ({picked.how}) checked out")
    try:
        choice = choosing.choose({**search.choice.given, "root": str(checkout.root)})
        agents = _agents(choice, search.suites)
    except EvalgateError as error:
        return Base(origin=origin, problem=f"the base's own evalgate.yml: {_told(error)}")
    if all(use.driver == agent_pools.ABSENT for use in agents.values()):
        return Base(origin=origin, problem="the base has no agent for any of these suites", no_agent=True)
    return Base(origin=origin, root=checkout.root, agents=agents, rules=_rules(choice, search.environ))


def _agents(choice: Choice, suites: Sequence[Suite]) -> dict[str, AgentUse]:
    """The base's agent for every suite of head's: as the base's evalgate.yml says, else as found in its tree."""
    seen = tree.walk(choice.root, exclude=choice.gate_file.exclude)
    chosen = agent_choice.choose_agents(
        {suite.key: suite.eval_set for suite in suites},
        gate_file=choice.gate_file,
        files=seen.agent_files,
        read=lambda path: reading.read_source(choice.root, path),
    )
    found = {}
    for suite in suites:
        use = chosen.by_key[suite.key]
        if use is agent_choice.UNKNOWN:
            found[suite.key] = agent_pools.absent("the base has no agent for this suite")
        else:
            found[suite.key] = preparing.with_defaults(use, choice.settings)
    return found


def _rules(choice: Choice, environ: Mapping[str, str]) -> Rules | None:
    """What the base's own evaluation files ask for; None where they cannot be read or there are none."""
    try:
        prepared = preparing.prepare(choice, environ=environ)
    except EvalgateError:
        return None
    return Rules(suites=prepared.suites, policy=policies.policy_of(choice, prepared.suites))


def _told(error: EvalgateError) -> str:
    return f"{error.message} {error.hint}".strip() if error.hint else error.message
