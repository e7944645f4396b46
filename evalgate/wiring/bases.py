"""The base that a run is compared with: which commit, its code on disk, its rules, and what is stored of it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from evalgate import agents
from evalgate.agents import opening
from evalgate.baseline import checkout, commit
from evalgate.baseline.checkout import NoSuchFolder
from evalgate.baseline.commit import BaseCommit
from evalgate.baseline.store import Store
from evalgate.config import load
from evalgate.config.settings import Settings
from evalgate.errors import EvalgateError
from evalgate.model import AgentUse, BaseOrigin, BaseSource, Suite
from evalgate.pipeline import trials
from evalgate.results import file as results_file
from evalgate.system import git
from evalgate.system.git import Repository
from evalgate.text import words
from evalgate.wiring import agent_code, base_checkout, base_sought, comparisons, stores
from evalgate.wiring.agent_code import AgentCode
from evalgate.wiring.base_checkout import Rules
from evalgate.wiring.base_sought import Base, Search
from evalgate.wiring.stores import Found

__all__ = ["Base", "Rules", "Search", "opened"]

WHY_NOT_STORED = "the stored results have no comparable run of this case"


@contextlib.contextmanager
def opened(search: Search) -> Iterator[Base | None]:
    """The base, for as long as the block lasts; None where none is asked for.

    Never raises for what is wrong with the base: that is its `problem`.
    """
    with contextlib.ExitStack() as stack:
        yield _open(search, stack)


def _open(search: Search, stack: contextlib.ExitStack) -> Base | None:
    settings = search.settings
    named = bool(settings.base or search.event_base)
    wanted = settings.baseline
    if "baseline" not in search.settings.given and named and wanted != "auto":
        return _as_file_says(search, stack, wanted)
    if wanted == "none" or (wanted == "auto" and not named):
        return None
    return _wanted(search, stack, wanted)


def _as_file_says(search: Search, stack: contextlib.ExitStack, wanted: str) -> Base | None:
    """evalgate.yml is part of the change that it judges: the base's own word on `baseline` counts where it differs, or
    a change could switch the comparison off. Where it is not known, head's."""
    base = _from_git(search, stack, "rerun")
    theirs = base.settings.baseline if base.settings is not None else wanted
    if theirs == wanted == "rerun":
        return base
    if theirs == wanted:
        if base.settings is None and wanted == "none":
            search.say(f"the base's evalgate.yml is unknown ({base.problem}); using `baseline: none` from head")
        return None if wanted == "none" else _wanted(search, stack, wanted)
    search.say(f"`baseline` is {wanted} in this evalgate.yml and {theirs} in the base's, which applies")
    if theirs == "rerun":
        return base
    return None if theirs == "none" else _wanted(search, stack, theirs)


def _wanted(search: Search, stack: contextlib.ExitStack, wanted: str) -> Base:
    if wanted.startswith("file:"):
        return _from_file(search, wanted.removeprefix("file:"))
    return _from_git(search, stack, wanted)


def _from_file(search: Search, named: str) -> Base:
    """Results that somebody named. Raises ConfigError where they cannot be read: the user asked for this very file."""
    stored = results_file.read_results(search.settings.root / named, shown_as=named, of="the base")
    unknown = "`policy: base`: a results file does not contain all of the base's rules, so head's apply"
    origin = BaseOrigin(
        source=BaseSource.FILE,
        commit=stored.run.commit,
        measured_at=stored.run.started_at,
        notes=(unknown,) if search.settings.policy == "base" else (),
    )
    absent = opening.absent(WHY_NOT_STORED)
    return Base(
        origin=stores.aged(origin, settings=search.settings, now=search.now),
        agents={suite.key: absent for suite in search.suites},
        reusable=frozenset(suite.key for suite in search.suites),
        stored=stored,
    )


def _from_git(search: Search, stack: contextlib.ExitStack, wanted: str) -> Base:
    settings = search.settings
    source = BaseSource.STORE if wanted == "store" else BaseSource.RERUN
    said: list[str] = []
    try:
        under = search.cache / "bases"
        repo = stack.enter_context(
            git.open_repository(search.settings.root, environ=search.environ, token=search.token, under=under)
        )
        picked = commit.pick_base(
            repo, wanted=settings.base, event_base=search.event_base, head="", environ=search.environ
        )
        base = _checked_out(search, repo, picked, stack)
        if wanted == "auto" and (timed := _timed(search, base)):
            search.say(f"{words.listed(timed)} measures time: rerunning the base instead of using stored results")
            wanted = "rerun"
        kept = _where_kept(search.settings, base)
        named = stores.opened(kept, repo, root=search.settings.root, say=_both(search.say, said))
    except EvalgateError as error:
        named_base = f"`{settings.base}`: " if settings.base else ""
        return Base(origin=BaseOrigin(source=source), problem=f"{named_base}{_told(error)}")
    found = None if wanted == "rerun" else stores.find(named, repo, picked.sha, say=_both(search.say, said))
    if wanted == "store":
        return _only_stored(search, base, found, _nothing_stored(base, named, said))
    return base if found is None or base.problem else _with_stored(search, base, found)


def _timed(search: Search, base: Base) -> tuple[str, ...]:
    """What decides and cannot be compared with what was measured at another time, by the rules of either side."""
    rules = [load.policy_of(search.settings, search.suites), *([base.rules.policy] if base.rules else ())]
    return tuple(dict.fromkeys(name for policy in rules for name in comparisons.clocked(policy)))


def _where_kept(head: Settings, base: Base) -> Settings:
    """Head's settings; where the base's rules decide, with the base's stores: others may hold whatever the change
    likes to be compared with."""
    if base.settings is None or not base_sought.rules_of_base(head, base.settings):
        return head
    theirs = {name: getattr(base.settings, name) for name in base_sought.STORES}
    return head.model_copy(update=theirs)


def _both(say: Callable[[str], None], said: list[str]) -> Callable[[str], None]:
    def tell(line: str) -> None:
        said.append(line)
        say(line)

    return tell


def _nothing_stored(base: Base, named: Sequence[Store], said: Sequence[str]) -> str:
    unset = "nowhere: neither data-branch nor baseline-folder is set"
    where = words.listed(store.name for store in named) or ("" if said else unset)
    told = "; ".join([*([where] if where else ()), *said])
    return f"no stored results of {base.origin.commit[:7]} or its ancestors ({told})"


def _only_stored(search: Search, base: Base, found: Found | None, nothing: str) -> Base:
    """Nothing is run on the base side; its own rules are known where it could be checked out. Stored results mend no
    rules that cannot be read, and have nothing of what the base has not."""
    if found is None or _is_beyond_stores(search, base, found):
        origin = dataclasses.replace(base.origin, source=BaseSource.STORE)
        why = base.problem if found is not None or base.settings is None else nothing
        return dataclasses.replace(base, origin=origin, root=None, problem=why)
    absent = opening.absent(WHY_NOT_STORED)
    code = None if base.root is None else _code(search, base.root)
    changed = [
        suite.key for suite in search.suites if code is not None and _has_changed(search, found, base, suite, code)
    ]
    note = f"the agent has changed between the stored results and the base ({words.listed(changed, limit=3)})"
    origin = _stored_origin(search, base.origin, found)
    return Base(
        origin=dataclasses.replace(origin, notes=(*origin.notes, note)) if changed else origin,
        agents={suite.key: absent for suite in search.suites},
        reusable=frozenset(suite.key for suite in search.suites),
        rules=base.rules,
        settings=base.settings,
        renamed=base.renamed,
        stored=found.stored,
    )


def _is_beyond_stores(search: Search, base: Base, found: Found) -> bool:
    """Whether what is wrong with the base is wrong with its stored results just as well; those of an agent that is not
    among the base's files can be compared with."""
    if not base.problem or base.settings is None:  # or its evalgate.yml could not be read
        return bool(base.problem)
    no_case = base.rules is not None and base.rules.is_empty()
    return no_case or all(_then(found, base, suite) is None for suite in search.suites)


def _with_stored(search: Search, base: Base, found: Found) -> Base:
    """What is stored stands in where the agent's own files are still the same; the rest is run."""
    if base.root is None:
        return base
    code = _code(search, base.root)
    reusable = frozenset(suite.key for suite in search.suites if _same_agent(search, found, base, suite, code))
    if not reusable:
        search.say(f"Stored results of {found.commit[:7]} are outdated (agent changed): rerunning the base")
        return base
    origin = _stored_origin(search, base.origin, found)
    return dataclasses.replace(base, origin=origin, rerun=base.origin, reusable=reusable, stored=found.stored)


def _stored_origin(search: Search, origin: BaseOrigin, found: Found) -> BaseOrigin:
    measured = found.stored.run.started_at or found.saved_at
    known = dataclasses.replace(origin, source=BaseSource.STORE, measured_at=measured, distance=found.distance)
    return stores.aged(known, settings=search.settings, now=search.now)


def _code(search: Search, root: Path) -> AgentCode:
    return AgentCode(root, apart=agent_code.apart_of(search.settings))


def _same_agent(search: Search, found: Found, base: Base, suite: Suite, code: AgentCode) -> bool:
    """Whether the stored run ran this very agent: the same files, and the same answers of tools. What is behind a URL
    cannot be told, and cannot be run again either."""
    use, then = base.agents[suite.key], _then(found, base, suite)
    if then is None:
        return False
    if agents.is_remote(suite.agent):
        return _alike(then.agent, suite.agent)
    if use.driver == opening.ABSENT or not _alike(then.agent, use) or base.root is None:
        return False
    files = code.fingerprint(use)
    return bool(files) and found.stored.run.codes.get(trials.agent_key(then.agent)) == files + search.tools(base.root)


def _has_changed(search: Search, found: Found, base: Base, suite: Suite, code: AgentCode) -> bool:
    known = base.agents[suite.key].driver != opening.ABSENT and _then(found, base, suite) is not None
    return known and not _same_agent(search, found, base, suite, code)


def _then(found: Found, base: Base, suite: Suite) -> Suite | None:
    name = base.renamed.get(suite.key, suite.key)
    return next((each for each in found.stored.run.suites if each.key == name), None)


def _alike(then: AgentUse, now: AgentUse) -> bool:
    return then.driver == now.driver and dict(then.options) == dict(now.options)


def _checked_out(search: Search, repo: Repository, picked: BaseCommit, stack: contextlib.ExitStack) -> Base:
    """The base's code, its agents for head's suites, and its own rules."""
    notes = (picked.note,) if picked.note else ()
    origin = BaseOrigin(source=BaseSource.RERUN, commit=picked.sha, found_by=picked.how, notes=notes)
    try:
        there = stack.enter_context(checkout.checked_out(repo, picked.sha))
    except NoSuchFolder as error:
        return Base(origin=origin, problem=error.message, no_agent=True)
    except EvalgateError as error:
        return Base(origin=origin, problem=_told(error))
    origin = dataclasses.replace(origin, notes=(*notes, *there.notes))
    search.say(f"base {picked.sha[:7]} ({picked.how}) checked out")
    try:
        side = base_checkout.read(search.settings, there.root, search.suites, search.environ)
    except EvalgateError as error:
        return Base(origin=origin, problem=f"the base's own configuration cannot be read: {_told(error)}")
    known = Base(origin=origin, rules=side.rules, settings=side.settings, renamed=side.renamed)
    if side.rules is not None and side.rules.is_empty():
        return dataclasses.replace(known, problem="the base has none of the selected cases", no_agent=True)
    own = [side.agents[suite.key] for suite in search.suites]
    if all(opening.is_missing(use) for use in own):
        known = _without_agent(known, side.own_files())
    elif there.problem and any(use.driver != opening.ABSENT for use in own):
        known = dataclasses.replace(known, problem=there.problem)
    if known.problem:
        return known
    borrowed = opening.borrowed_pythons(own, root=there.root, lender=search.settings.root)
    lent = tuple(f"the base's agent ran in head's environment ({name}); it has none of its own" for name in borrowed)
    origin = dataclasses.replace(origin, notes=(*origin.notes, *lent))
    return dataclasses.replace(known, origin=origin, root=there.root, agents=side.agents)


def _without_agent(known: Base, own_files: Sequence[str]) -> Base:
    """A base with no agent for any of head's files. One that gates files of its own is not without an agent: else a
    change would be compared with nothing by giving all of its files other names and other questions."""
    if not own_files:
        problem = "the base has no agent for these evaluation files or its own"
        return dataclasses.replace(known, problem=problem, no_agent=True)
    problem = (
        f"the base has no agent for these evaluation files; its own are {words.listed(own_files)}. Rename the files "
        f"or change their questions in a separate pull request"
    )
    return dataclasses.replace(known, problem=problem)


def _told(error: EvalgateError) -> str:
    return f"{error.message} {error.hint}".strip() if error.hint else error.message
