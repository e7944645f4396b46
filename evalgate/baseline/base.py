"""What the base has of head's suites: their agents, which cases are new or gone, in which environment it ran."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from evalgate import agents as agents_module
from evalgate import criteria
from evalgate.agents import opening
from evalgate.baseline import checkout, commit
from evalgate.baseline.checkout import NoSuchFolder
from evalgate.baseline.commit import BaseCommit
from evalgate.comparison import compare
from evalgate.config import load
from evalgate.config.settings import Settings
from evalgate.criteria import judges
from evalgate.discovery import agents as discovery_agents
from evalgate.discovery import discover, project, walk
from evalgate.discovery.agents import AgentCode
from evalgate.errors import ConfigError, EvalgateError, NothingToDo, Problem, Severity
from evalgate.formats import fingerprints
from evalgate.model import AgentUse, BaseOrigin, BaseSource, CaseKey, CaseStatus, Policy, Run, Suite
from evalgate.results import file, stores
from evalgate.results.file import Stored
from evalgate.results.stores import Found, Store
from evalgate.simulation import user
from evalgate.system import git
from evalgate.system.git import Repository
from evalgate.text import words

# -- The base's own checkout --

ONE_ENDPOINT = (
    "the agent behind {url} is the same on both sides, so the base's cannot be run beside it; compare with results of "
    "the base branch that were kept (data-branch, baseline-folder), or set `baseline: none`"
)


OF_SELECTIONS = frozenset({"unknown-case", "selection-unmatched"})
"""Codes of problems of what a door selects, not of files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRules:
    """What a side's own files ask for: its suites with their criteria and cases, and its policy.

    `unread`: suites whose evaluation file cannot be read, so that their cases are not known; `unruled`: those whose
    criteria cannot, or not all of them; `led`: those that have simulated users, though none is among the selected
    cases; `faults`: what is wrong with these files.
    """

    suites: tuple[Suite, ...]
    policy: Policy
    unread: frozenset[str] = frozenset()
    unruled: frozenset[str] = frozenset()
    led: frozenset[str] = frozenset()
    faults: tuple[Problem, ...] = ()

    def is_empty(self) -> bool:
        """Whether it is known that there is no case among them."""
        return not self.unread and not any(suite.eval_set.cases for suite in self.suites)

    def may_have(self, suite: str, *, among: Collection[str]) -> bool:
        """Whether what cannot be read may be this suite of head's, under its own name or under one that is not
        `among` head's any more."""
        return suite in self.unread or any(key not in among for key in self.unread)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseSide:
    """What the base's files say, for the suites of head.

    `settings`: what its own evalgate.yml and the doors ask for. `agents`: by head's suite keys. `renamed`: the base's
    name of an evaluation file by head's, where they differ. `rules`: None where it has no evaluation file at all.
    """

    settings: Settings
    agents: Mapping[str, AgentUse]
    rules: BaseRules | None = None
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def own_files(self) -> tuple[str, ...]:
        """Its evaluation files that an agent of its own serves, and those that cannot be read: what it gates."""
        if self.rules is None:
            return ()
        served = {suite.key for suite in self.rules.suites if not is_unknown(suite.agent)}
        return tuple(sorted(served | self.rules.unread))


def read(head: Settings, root: Path, suites: Sequence[Suite], environ: Mapping[str, str]) -> BaseSide:
    """What the base at `root` says. Raises ConfigError where its evalgate.yml cannot be read, or gives values that
    cannot be."""
    settings = _settings(head, root)
    errors = [problem for problem in settings.problems if problem.severity is Severity.ERROR]
    if errors:
        raise ConfigError(told_of(errors))
    rules = _rules(settings, suites, environ, head=head.root)
    renamed = {} if rules is None else renames(rules.suites, suites)
    found = _chosen(settings, suites)
    before = {} if rules is None else {suite.key: _known(suite.agent) for suite in rules.suites}
    agents = {}
    for suite in suites:
        use = before[renamed[suite.key]] if suite.key in renamed else found[suite.key]
        agents[suite.key] = _usable(use, suite)
    agents |= {key: _checked(use) for key, use in before.items() if key not in agents}
    return BaseSide(settings=settings, agents=agents, rules=rules, renamed=renamed)


def told_of(problems: Sequence[Problem]) -> str:
    """The first of several problems with its place, and how many more there are."""
    first = problems[0]
    where = f"{first.place}: " if first.place is not None else ""
    more = f" (and {len(problems) - 1:,} more)" if len(problems) > 1 else ""
    return f"{where}{first.message}{more}"


def renames(before: Sequence[Suite], now: Sequence[Suite]) -> dict[str, str]:
    """The base's key of each of head's files that is one of the base's under another name: it asks at least half of
    that one's cases the same, and no file asks more of them."""
    old, new = {suite.key for suite in before}, {suite.key for suite in now}
    gone = {suite.key: _questions(suite) for suite in before if suite.key not in new and suite.eval_set.cases}
    found: dict[str, str] = {}
    for suite in now:
        if suite.key in old:
            continue
        asked = _questions(suite)
        shared = {key: len(asked & theirs) for key, theirs in gone.items()}
        best = max(shared, key=lambda key: shared[key], default="")
        if best and shared[best] * 2 >= len(gone[best]) > 0:
            found[suite.key] = best
            del gone[best]
    return found


def _questions(suite: Suite) -> set[tuple[str, str]]:
    return {(case.case_id, fingerprints.of_task(case)) for case in suite.eval_set.cases}


def _settings(head: Settings, root: Path) -> Settings:
    """Head's doors with the base's own evalgate.yml; a file that a door names and the base lacks is none."""
    given = {**head.given, "root": str(root)}
    given["paths"] = [_within(head.root, path) for path in head.paths]
    config = given.get("config")
    if config and not (root / str(config)).is_file():
        given = {name: value for name, value in given.items() if name != "config"}
    return load.load_settings(given)


def _within(root: Path, path: str) -> str:
    """A selection as it can be made in another checkout: an absolute path from the top of this one."""
    name, colon, cases = path.partition(":")
    if not Path(name).is_absolute() or not Path(name).resolve().is_relative_to(root):
        return path
    return f"{Path(name).resolve().relative_to(root).as_posix()}{colon}{cases}"


def _chosen(settings: Settings, suites: Sequence[Suite]) -> dict[str, AgentUse]:
    """The base's agent for every suite of head's: as the base's evalgate.yml says, else as found in its tree."""
    seen = walk.walk(settings.root, exclude=settings.gate_file.exclude)
    chosen = discovery_agents.choose_agents(
        {suite.key: suite.eval_set for suite in suites},
        gate_file=settings.gate_file,
        files=seen.agent_files,
        read=lambda path: walk.read_source(settings.root, path),
    )
    return {key: _known(agents_module.with_defaults(use, settings)) for key, use in chosen.by_key.items()}


def is_unknown(use: AgentUse) -> bool:
    """Whether none was found."""
    return use.found_by == discovery_agents.UNKNOWN.found_by


def _known(use: AgentUse) -> AgentUse:
    return opening.missing() if is_unknown(use) else use


def _usable(use: AgentUse, suite: Suite) -> AgentUse:
    """The agent, unless running it would be running head's: an endpoint has no second side."""
    if agents_module.is_remote(use) and agents_module.DRIVERS[use.driver].is_same_place(
        use.options, suite.agent.options
    ):
        return opening.absent(ONE_ENDPOINT.format(url=agents_module.DRIVERS[use.driver].label(use.options)))
    return _checked(use)


def _checked(use: AgentUse) -> AgentUse:
    if use.is_absent:
        return use
    try:
        agents_module.options_of(use)
    except KeyError:
        return opening.absent(f"the base's evalgate.yml names a driver that does not exist: {use.driver}")
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        return opening.absent(f"the base's evalgate.yml: agent with driver {use.driver}: {where}: {first['msg']}")
    return use


def _rules(settings: Settings, ours: Sequence[Suite], environ: Mapping[str, str], *, head: Path) -> BaseRules | None:
    """The rules of its own files, of which a door may select cases: those that it has none of are rules all the same,
    where the change asks other cases of them (`ours`) or has moved them."""
    try:
        prepared = project.prepare(settings, environ=environ)
        found, unread, problems = prepared.suites, prepared.unread, prepared.of_files
    except NothingToDo:
        found, unread, problems = (), (), ()
    known = {suite.key for suite in (*found, *unread)}
    beside = _unselected(settings, [suite for suite in ours if suite.key not in known], head=head)
    if not known and beside is None:
        return None
    others, led, theirs = beside or ((), frozenset(), ())
    faults = tuple(each for each in (*problems, *theirs) if _is_fault(each))
    wrong = {fault.place.file for fault in faults if fault.place is not None}
    suites = tuple(sorted((*found, *unread, *others), key=lambda suite: suite.key))
    return BaseRules(
        suites=suites,
        policy=load.policy_of(settings, suites),
        unread=frozenset(suite.key for suite in unread),
        unruled=frozenset(suite.key for suite in suites if suite.criteria_source.file in wrong),
        led=led,
        faults=faults,
    )


def _is_fault(problem: Problem) -> bool:
    """Whether it is wrong with the base's files; that they lack what head selects is not."""
    return problem.severity is Severity.ERROR and problem.code not in OF_SELECTIONS


def _unselected(
    settings: Settings, ours: Sequence[Suite], *, head: Path
) -> tuple[tuple[Suite, ...], frozenset[str], tuple[Problem, ...]] | None:
    """The base's files that are `ours`: those of the same names, without cases and by the base's rules for those cases,
    and those that are gone from `head` and stand there under another name; which of them have simulated users, and
    what is wrong with their criteria. None where there is no evaluation file at all, whatever is selected."""
    if not settings.paths and not settings.grep:
        return None
    try:
        whole = discover.discover(
            settings.root,
            gate_file=settings.gate_file,
            places=settings.places,
            criteria_file=Path(settings.criteria) if settings.criteria else None,
            specs=criteria.CRITERIA,
        )
    except NothingToDo:
        return None
    asked = {suite.key: suite.eval_set for suite in ours}
    gone = [suite for suite in whole.suites if suite.key not in asked and not (head / suite.key).exists()]
    moved = frozenset(renames(gone, ours).values())
    theirs = [suite for suite in whole.suites if suite.key in asked or suite.key in moved]
    led = frozenset(suite.key for suite in theirs if user.has_scenarios(suite))
    # what simulated users mean for the criteria counts where head's cases have some
    as_asked = [
        dataclasses.replace(each, eval_set=asked[each.key]) if each.key in led - moved else each for each in theirs
    ]
    settled = judges.settle_suites(user.settle(as_asked, settings), judges.defaults_of(settings))
    found = tuple(
        dataclasses.replace(
            suite,
            eval_set=suite.eval_set if suite.key in moved else dataclasses.replace(suite.eval_set, cases=()),
            agent=agents_module.with_defaults(suite.agent, settings),
        )
        for suite in settled
    )
    files = {suite.criteria_source.file for suite in found}
    problems = tuple(each for each in whole.problems if each.place is not None and each.place.file in files)
    return found, led, problems


# -- What is known of a base before anything of it is measured, and what finding one needs --

STORES = ("data_branch", "baseline_folder")
"""Settings that name where results and the history of base runs are kept."""


def rules_of_base(head: Settings, theirs: Settings | None) -> bool:
    """Whether the base's rules decide: one of both evalgate.yml says so, and head's cannot take back the base's."""
    return head.policy == "base" or (theirs is not None and theirs.policy == "base")


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The base, before anything of it was measured.

    `root`: its code on disk, None where only results are at hand. `agents`: of every suite of head's, by its key; a
    suite without one has an absent agent. `reusable`: suites whose stored trials may stand in. `rules`, `settings`: the
    base's own, None where they are not known. `renamed`: the base's name of an evaluation file by head's, where they
    differ. `rerun`: the origin if nothing that is stored stands in, after all. `problem`: why there is nothing to
    compare with; `no_agent`: because the base has no agent yet, or no case of those that are run, which is nobody's
    fault.
    """

    origin: BaseOrigin
    root: Path | None = None
    reusable: frozenset[str] = frozenset()
    agents: Mapping[str, AgentUse] = dataclasses.field(default_factory=dict)
    rules: BaseRules | None = None
    settings: Settings | None = None
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    stored: Stored | None = None
    rerun: BaseOrigin | None = None
    problem: str = ""
    no_agent: bool = False

    def lacks_agent(self, suite: str) -> bool:
        """Whether its code is here and has no agent for this suite."""
        use = self.agents.get(suite)
        return self.root is not None and (use is None or opening.is_missing(use))


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What finding a base needs: `event_base`: the SHA that the event names, "" at a desk. `tools`: the fingerprint
    of what answers tool calls in the agents' stead, by a side's checkout.
    """

    settings: Settings
    suites: tuple[Suite, ...]
    environ: Mapping[str, str]
    cache: Path
    say: Callable[[str], None]
    now: datetime
    event_base: str = ""
    token: str | None = None
    tools: Callable[[Path], str] = lambda _: ""


# -- The base that a run is compared with --


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
    stored = file.read_results(search.settings.root / named, shown_as=named, of="the base")
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
    return tuple(dict.fromkeys(name for policy in rules for name in compare.clock_based(policy, search.suites)))


def _where_kept(head: Settings, base: Base) -> Settings:
    """Head's settings; where the base's rules decide, with the base's stores: others may hold whatever the change
    likes to be compared with."""
    if base.settings is None or not rules_of_base(head, base.settings):
        return head
    theirs = {name: getattr(base.settings, name) for name in STORES}
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
    return AgentCode(root, apart=discovery_agents.apart_of(search.settings))


def _same_agent(search: Search, found: Found, base: Base, suite: Suite, code: AgentCode) -> bool:
    """Whether the stored run ran this very agent: the same files, and the same answers of tools. What is behind a URL
    cannot be told, and cannot be run again either."""
    use, then = base.agents[suite.key], _then(found, base, suite)
    if then is None:
        return False
    if agents_module.is_remote(suite.agent):
        return _alike(then.agent, suite.agent)
    if use.is_absent or not _alike(then.agent, use) or base.root is None:
        return False
    files = code.fingerprint(use)
    return bool(files) and found.stored.run.codes.get(fingerprints.agent_key(then.agent)) == files + search.tools(
        base.root
    )


def _has_changed(search: Search, found: Found, base: Base, suite: Suite, code: AgentCode) -> bool:
    known = not base.agents[suite.key].is_absent and _then(found, base, suite) is not None
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
        side = read(search.settings, there.root, search.suites, search.environ)
    except EvalgateError as error:
        return Base(origin=origin, problem=f"the base's own configuration cannot be read: {_told(error)}")
    known = Base(origin=origin, rules=side.rules, settings=side.settings, renamed=side.renamed)
    if side.rules is not None and side.rules.is_empty():
        return dataclasses.replace(known, problem="the base has none of the selected cases", no_agent=True)
    own = [side.agents[suite.key] for suite in search.suites]
    if all(opening.is_missing(use) for use in own):
        known = _without_agent(known, side.own_files())
    elif there.problem and any(not use.is_absent for use in own):
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


ENVIRONMENT = ("framework_version", "python", "requirements")
"""What workers tell of their environment that may change what an agent does though its files are the same."""


def unpaired(base: Base, suites: tuple[Suite, ...], *, plan: Sequence[Suite]) -> dict[CaseKey, CaseStatus]:
    """New and deleted cases. `suites`: head's, of this machine; `plan`: all that are measured, here or elsewhere."""
    here = {(suite.key, case.case_id) for suite in plan for case in suite.eval_set.cases}
    gone = sorted(_own_cases(base) - here)
    return dict.fromkeys(gone, CaseStatus.REMOVED) | dict.fromkeys(new_cases(suites, base), CaseStatus.NEW)


def environments(base: Base, head: Run, rerun: Run, *, reused: Container[str]) -> Iterator[str]:
    """A note for each agent that ran in another environment: of one that was rerun, if it is the same agent on both
    sides, since another one may have changed it; of stored results always, since nobody knows what the time between
    has changed as well. `reused`: the suites of which stored trials are used."""
    notes: list[str] = []
    then = _stored_agents(base)
    for ours, theirs in zip(head.suites, rerun.suites, strict=True):
        code = head.codes.get(fingerprints.agent_key(ours.agent))
        now = head.agents.get(fingerprints.agent_key(ours.agent), {})
        key = fingerprints.agent_key(theirs.agent)
        if code and rerun.codes.get(key) == code:
            notes += _differences("the same agent ran", rerun.agents.get(key, {}), now)
        if ours.key in reused and ours.key in then:
            notes += _differences("the agent ran", then[ours.key][1], now)
    yield from dict.fromkeys(notes)


def told(base: Base, run: Run) -> dict[str, Mapping[str, str]]:
    """What every agent of the base's run told of its environment, by `agent_key`; what did not run, as it was
    stored."""
    found = dict(run.agents)
    then = _stored_agents(base)
    for suite in run.suites:
        key, about = then.get(suite.key, ("", {}))
        for each in (key, fingerprints.agent_key(suite.agent)):
            if each and about and not found.get(each):
                found[each] = about
    return found


def _stored_agents(base: Base) -> dict[str, tuple[str, Mapping[str, str]]]:
    """By head's name of a suite, what its agent is called in the stored results, and told when they were measured."""
    if base.stored is None:
        return {}
    stored, ours = base.stored.run, {theirs: ours for ours, theirs in base.renamed.items()}
    keys = {ours.get(suite.key, suite.key): fingerprints.agent_key(suite.agent) for suite in stored.suites}
    return {suite: (key, stored.agents.get(key, {})) for suite, key in keys.items() if suite in base.reusable}


def _differences(what: str, then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in ENVIRONMENT:
        before, after = then.get(name, ""), now.get(name, "")
        if before and after and before != after:
            said = name.replace("_", " ")
            yield f"{what} with another {said} on the base ({before}) than on head ({after})"


def with_agents(suites: tuple[Suite, ...], base: Base) -> tuple[Suite, ...]:
    """Head's suites, to be run by the base's agents."""
    none = opening.missing()
    return tuple(dataclasses.replace(suite, agent=base.agents.get(suite.key, none)) for suite in suites)


def _own_suites(base: Base) -> tuple[Suite, ...]:
    """The suites as the base has them; none where that is not known."""
    if base.rules is not None:
        return base.rules.suites
    return base.stored.run.suites if base.root is None and base.stored is not None else ()


def _own_cases(base: Base) -> set[CaseKey]:
    """The base's cases, under head's names of their files."""
    ours = {theirs: ours for ours, theirs in base.renamed.items()}
    return {
        (ours.get(suite.key, suite.key), case.case_id) for suite in _own_suites(base) for case in suite.eval_set.cases
    }


def new_cases(suites: tuple[Suite, ...], base: Base) -> list[CaseKey]:
    """Cases that cannot have become worse: the base's files do not have them, or it has no agent for their suite.

    Where the base has no evaluation file at all, or its file of them cannot be read, its agent can be asked all the
    same: these are none."""
    before = _own_cases(base)
    keys = {suite.key for suite in suites} | set(base.renamed.values())
    had = {key for key, _ in before}

    def may_be_old(suite: str) -> bool:
        if base.rules is None:
            return not before
        return suite not in had and base.rules.may_have(suite, among=keys)

    return [
        (suite.key, case.case_id)
        for suite in suites
        for case in suite.eval_set.cases
        if base.lacks_agent(suite.key) or ((suite.key, case.case_id) not in before and not may_be_old(suite.key))
    ]
