"""The base that head is compared with: its commit, its checkout, what its own files say, its stored results."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from evalgate import agents as agents_module, criteria
from evalgate.agents import opening, python_process
from evalgate.agents.python_process import PythonOptions
from evalgate.baseline import commit
from evalgate.baseline.commit import BaseCheckout, NoSuchFolder
from evalgate.config import load
from evalgate.config.context import Context
from evalgate.config.gate_file import AgentRule
from evalgate.config.settings import Settings, of_agents
from evalgate.criteria import judges
from evalgate.discovery import agents as discovery_agents, discover, dotenv, project, walk
from evalgate.discovery.walk import Tree
from evalgate.errors import ConfigError, EvalgateError, NothingToDo, Place, Problem, Severity
from evalgate.formats import fingerprints
from evalgate.model import (
    AgentDescription,
    AgentUse,
    BaseOrigin,
    BaseSource,
    CaseKey,
    CaseStatus,
    CriterionRule,
    Policy,
    Run,
    Suite,
)
from evalgate.model.deviations import OURS
from evalgate.results import file, history, stores
from evalgate.results.file import Stored
from evalgate.results.stores import BaselineFolder, Found
from evalgate.simulation import user
from evalgate.system import git, python_env
from evalgate.system.git import Repository
from evalgate.text import words
from evalgate.values import Environ, frozen_dataclass

ONE_ENDPOINT = (
    "the agent behind {url} is the same on both sides, so the base cannot be rerun; compare with stored results "
    "(baseline-folder), or set `baseline: none`"
)
WHY_NOT_STORED = "the stored results have no comparable run of this case"
BORROWED = "the base's agent ran in head's environment ({}); it has none of its own"
NOT_LENT = "head's environment ({}) is part of its commit, so the base's agent does not run in it"


@frozen_dataclass
class BaseRules:
    """What the base's own files ask for: suites with their criteria and cases, and the policy."""

    suites: tuple[Suite, ...]
    policy: Policy
    unread: frozenset[str] = frozenset()  # suites whose evaluation file cannot be read, so that cases are not known
    unruled: frozenset[str] = frozenset()  # those whose criteria cannot be read, or not all of them
    simulated: frozenset[str] = frozenset()  # those that have simulated users, though not in the selected cases
    errors: tuple[Problem, ...] = ()  # what is wrong with these files

    def is_empty(self) -> bool:
        """Whether it is known that there is no case among them."""
        return not self.unread and not any(suite.eval_set.cases for suite in self.suites)


@frozen_dataclass
class BaseProject:
    """What the base's own files say, for the suites of head."""

    settings: Settings | None = None  # of its evalgate.yml and the doors; None where that is not known
    agents: Mapping[str, AgentUse] = dataclasses.field(default_factory=dict)  # by head's suite keys; may be absent ones
    renamed: Mapping[str, str] = dataclasses.field(
        default_factory=dict
    )  # its name of a file by head's, where they differ
    rules: BaseRules | None = None  # None where they are not known, or it has no evaluation file at all

    def own_files(self) -> tuple[str, ...]:
        """Its evaluation files that an agent of its own serves: what it gates."""
        if self.rules is None:
            return ()
        return tuple(sorted(suite.key for suite in self.rules.suites if not is_unknown(suite.agent)))


@frozen_dataclass
class Base:
    """The base, before anything of it was measured."""

    origin: BaseOrigin
    root: Path | None = None  # its code on disk; None where only results are at hand
    top: Path | None = None  # of its checkout
    project: BaseProject = BaseProject()
    stored: Stored | None = None  # results that stand in for suites that cannot be run again
    reusable: frozenset[str] = frozenset()  # these suites
    problem: str = ""  # why there is nothing to compare with
    no_agent: bool = False  # because it has no agent yet, or no case of those that are run, which is nobody's fault
    base_failed: bool = False  # because of its own files, which is not the change's fault


@contextmanager
def opened(
    settings: Settings, suites: tuple[Suite, ...], context: Context
) -> Iterator[tuple[Base | None, Base | None]]:
    """What head's `suites` are compared with (None: nothing), and the base whose rules are known: that of a change is
    read whatever its results are compared with, since a change could else choose a comparison without rules. For as
    long as the block lasts.

    Never raises for what is wrong with the base: that is its `problem`. Raises ConfigError where results that somebody
    named cannot be read, or are part of the change.
    """
    named, wanted = bool(settings.base or context.event_base), settings.baseline
    with ExitStack() as stack:
        ruling = None
        # evalgate.yml is part of the change that it judges: the base's own word on `baseline` counts, or a change
        # could switch the comparison off; where it is not known, head's
        is_asked = "baseline" not in settings.given and named and wanted != "auto"
        if is_asked or ((named or context.is_pull_request) and not _is_of_git(wanted, named=named)):
            ruling = _from_git(settings, suites, context, stack, wanted="rerun")
            wanted = _agreed(wanted, ruling, context) if is_asked else wanted
        if wanted.startswith("file:"):
            base = _from_file(settings, suites, context, wanted.removeprefix("file:"), ruling)
            yield base, ruling or base
        elif not _is_of_git(wanted, named=named):
            yield None, ruling
        elif ruling is not None and wanted == "rerun":
            yield ruling, ruling
        else:
            base = _from_git(settings, suites, context, stack, wanted=wanted)
            yield base, base


def _is_of_git(wanted: str, *, named: bool) -> bool:
    """Whether what `baseline` asks for begins with the base's commit."""
    return wanted in ("rerun", "store") or (wanted == "auto" and named)


def _agreed(wanted: str, base: Base, context: Context) -> str:
    """The base's word on `baseline`."""
    theirs = base.project.settings
    if theirs is None:
        if wanted == "none":
            context.say(f"the base's evalgate.yml cannot be read ({base.problem}); using head's `baseline: none`")
        return wanted
    if theirs.baseline != wanted:
        context.say(f"`baseline` is {wanted} in this evalgate.yml and {theirs.baseline} in the base's, which applies")
    return theirs.baseline


def _from_file(
    settings: Settings, suites: tuple[Suite, ...], context: Context, named: str, ruling: Base | None
) -> Base:
    """`ruling`: the base's commit, where it is known; of its files nothing is run. Raises ConfigError for a file that
    cannot be read, and for one that is part of the commit in a pull request, or where another CI names the base."""
    in_other_ci = not (context.is_attended or context.workflow_run) and ruling is not None  # it has no event to tell
    is_change = context.is_pull_request or in_other_ci
    if is_change and git.first_committed([settings.root / named], settings.root, context.environ):
        raise ConfigError(
            "is part of the commit, so a change is not compared with it",
            where=Place(file=named),
            hint="Download the results in an earlier step, or use `baseline: auto`.",
        )
    stored = file.read_results(settings.root / named, shown_as=named, of="the base")
    unknown = "`policy: both`: a results file does not contain all of the base's rules, so head's apply"
    origin = BaseOrigin(
        source=BaseSource.FILE,
        commit=stored.run.commit,
        measured_at=stored.run.started_at,
        notes=(unknown,) if settings.policy == "both" and ruling is None else (),
    )
    theirs = BaseProject() if ruling is None else ruling.project
    agents = dict.fromkeys((suite.key for suite in suites), opening.absent(WHY_NOT_STORED))
    return Base(
        origin=stores.aged(origin, settings=settings, now=context.now),
        project=dataclasses.replace(theirs, agents=agents),
        reusable=frozenset(suite.key for suite in suites),
        stored=stored,
    )


def _from_git(
    settings: Settings, suites: tuple[Suite, ...], context: Context, stack: ExitStack, *, wanted: str
) -> Base:
    """`wanted`: store, rerun, or auto: a rerun, and what is stored of agents that cannot be run again."""
    source = BaseSource.STORE if wanted == "store" else BaseSource.RERUN
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        context.say(line)

    try:
        repo = stack.enter_context(
            git.open_repository(
                settings.root, environ=context.environ, token=context.token, under=context.cache / "bases"
            )
        )
        base = _checked_out(settings, suites, context, repo, stack, source=source)
        named_by = _settings_of_store(settings, base.project, of_change=context.is_pull_request)
        store = stores.opened(named_by, repo, root=settings.root, say=say)
    except EvalgateError as error:
        named = f"`{settings.base}`: " if settings.base else ""
        return Base(origin=BaseOrigin(source=source), problem=f"{named}{_told(error)}")
    remote = frozenset(suite.key for suite in suites if agents_module.is_remote(suite.agent))
    if wanted == "rerun" or (wanted == "auto" and not remote):
        return base
    found = None if store is None else _of_today(store, repo, base.origin.commit, say=say)
    if wanted == "store":
        unset = "" if said else "nowhere: baseline-folder is not set"
        where = unset if store is None else store.name
        looked = "; ".join(each for each in (where, *said) if each)
        nothing = f"no stored results of {base.origin.commit[:7]} or its ancestors ({looked})"
        return _only_stored(settings, suites, context, base, found, nothing=nothing)
    if found is None or base.root is None:
        return base
    # what is behind a URL is the same on both sides
    return dataclasses.replace(
        base,
        origin=_stored_origin(settings, context, base.origin, found),
        stored=found.stored,
        reusable=frozenset(key for key in remote if _then(found.stored, base.project, key) is not None),
    )


def _of_today(store: BaselineFolder, repo: Repository, sha: str, *, say: Callable[[str], None]) -> Found | None:
    """The stored results, but none from before the provider moved: another model gave them."""
    found = stores.find(store, repo, sha, say=say)
    if found is None:
        return None
    moved = None
    with suppress(EvalgateError):  # a history that cannot be read, which the run tells
        moved = history.drifted_at(history.read_history(store))
    if moved is None or stores.moment(found.stored.run.started_at or found.saved_at) >= moved:
        return found
    say(f"the results of {found.commit[:7]} were not used: the provider's model moved after them, on {moved:%Y-%m-%d}")
    return None


def clock_based(policies: Iterable[Policy], suites: Iterable[Suite]) -> tuple[str, ...]:
    """The criteria that are read from a clock and decide all the same, by any of the policies."""
    named = dict.fromkeys(use.name for suite in suites for use in suite.criteria if use.scale.clocked)
    found = (name for policy in policies for name in named if policy.criteria.get(name, CriterionRule()).gating)
    return tuple(dict.fromkeys(found))


def is_both(head: Settings, base: Settings | None) -> bool:
    """Whether the worse of both rule books counts: one of both evalgate.yml says so, and head's cannot take back the
    base's."""
    return head.policy == "both" or (base is not None and base.policy == "both")


def _settings_of_store(head: Settings, base: BaseProject, *, of_change: bool) -> Settings:
    """Head's settings; in a pull request and where the base's rules decide, with the base's store: another may hold
    whatever the change likes to be compared with. Where the base's is not known, a pull request has a door's alone."""
    if not of_change and (base.settings is None or not is_both(head, base.settings)):
        return head
    folder = head.given.get("baseline_folder", "") if base.settings is None else base.settings.baseline_folder
    return head.model_copy(update={"baseline_folder": folder})


def _checked_out(
    settings: Settings,
    suites: tuple[Suite, ...],
    context: Context,
    repo: Repository,
    stack: ExitStack,
    *,
    source: BaseSource,
) -> Base:
    """The base's code, its agents for head's suites, and its own rules. Raises GitFailed, UnavailableError where its
    commit is not known."""
    picked = commit.pick_base(
        repo, wanted=settings.base, event_base=context.event_base, head="", environ=context.environ
    )

    origin = functools.partial(BaseOrigin, source=source, commit=picked.sha, found_by=picked.how)
    notes = [picked.note] if picked.note else []
    try:
        there = stack.enter_context(commit.checked_out(repo, picked.sha))
    except EvalgateError as error:
        is_new = isinstance(error, NoSuchFolder)
        problem = error.message if is_new else _told(error)
        return Base(origin=origin(notes=tuple(notes)), problem=problem, no_agent=is_new)
    context.say(f"base {picked.sha[:7]} ({picked.how}) checked out")
    theirs, root, no_agent, base_failed = BaseProject(), None, False, False
    notes += there.notes
    try:
        theirs = read(settings, there.root, suites, context.environ)
        problem, no_agent = _problem(theirs, suites, there)
        lost = no_agent and settings.agent and theirs.settings is not None and not theirs.settings.agent
        if lost and (edited := commit.edited_workflow(there.root, settings.root)):
            problem = f"the base has no agent at `{settings.agent}`, which may come from {edited}, which this change "
            problem += "edits. Name the agent in evalgate.yml, where each side has its own"
            no_agent = False
    except EvalgateError as error:
        problem = f"the base's own configuration cannot be read: {_told(error)}"
        # whose rules were to decide is known there alone: where they must, that they are unknown blocks
        base_failed = settings.policy != "both"
    if not problem:
        root = there.root
        notes += _lend(settings, suites, context, theirs, root)
    return Base(
        origin=origin(notes=tuple(notes)),
        root=root,
        top=there.tree,
        project=theirs,
        problem=problem,
        no_agent=no_agent,
        base_failed=base_failed,
    )


def _lend(
    settings: Settings, suites: tuple[Suite, ...], context: Context, theirs: BaseProject, root: Path
) -> list[str]:
    """Give the base in `root` what git does not keep of this checkout; what there is to remark about that."""
    uses = [theirs.agents[suite.key] for suite in suites]
    pairs = [(suite.agent, use) for suite, use in zip(suites, uses, strict=True)]
    for path in dotenv.lend(pairs, root=settings.root, base=root, environ=context.environ):
        context.say(f"the base's agent uses `{path}` of this checkout, since git does not keep it")
    wanted = opening.wanted_pythons(uses, root=root, lender=settings.root, environ=context.environ)
    return [(BORROWED if is_lent else NOT_LENT).format(name) for name, is_lent in wanted]


def _problem(theirs: BaseProject, suites: tuple[Suite, ...], there: BaseCheckout) -> tuple[str, bool]:
    """Why nothing of the base can be run, "" where it can; and whether that is nobody's fault.

    A base that gates files of its own is not without an agent: else a change would be compared with nothing by giving
    all of its files other names and other questions.
    """
    if theirs.rules is not None and theirs.rules.is_empty():
        return "the base has none of the selected cases", True
    own = [theirs.agents[suite.key] for suite in suites]
    if not all(opening.is_missing(use) for use in own):
        return "" if all(use.is_absent for use in own) else there.problem, False
    files = theirs.own_files()
    if not files:
        return "the base has no agent for these evaluation files or its own", True
    return (
        f"the base has no agent for these evaluation files; its own are {words.listed(files)}. Rename the files "
        f"or change their questions in a separate pull request"
    ), False


def _told(error: EvalgateError) -> str:
    return f"{error.message.rstrip('.')}. {error.hint}" if error.hint else error.message


def read(head: Settings, root: Path, suites: Sequence[Suite], environ: Environ) -> BaseProject:
    """What the base at `root` says. Raises ConfigError where its evalgate.yml cannot be read, or gives values that
    cannot be."""
    # head's doors with the base's own evalgate.yml; a file that a door names and the base lacks is none
    given = {**head.given, "root": str(root), "paths": [_within(head.root, path) for path in head.paths]}
    config = given.get("config")
    if config and not (root / str(config)).is_file():
        del given["config"]
    if given.get("agent") and not _is_there(str(given["agent"]), root):
        del given["agent"]  # it was moved, or is new: where the base has one is its own affair
    settings = load.load_settings(given)
    errors = [problem for problem in settings.problems if problem.severity is Severity.ERROR]
    if errors:
        raise ConfigError(first_of(errors))
    tree = walk.Tree(root, exclude=settings.gate_file.exclude)
    rules = _rules(settings, suites, environ, head=head.root, tree=tree)
    renamed = {} if rules is None else renames(rules.suites, suites)
    sets = {suite.key: suite.eval_set for suite in suites}
    chosen, _ = discovery_agents.choose_agents(sets, gate_file=settings.gate_file, tree=tree)
    own = {} if rules is None else {suite.key: suite.agent for suite in rules.suites}
    agents = {}
    for suite in suites:
        use = own[renamed[suite.key]] if suite.key in renamed else chosen[suite.key]
        agents[suite.key] = _usable(agents_module.with_defaults(use, settings), beside=suite.agent)
    agents |= {key: _usable(use) for key, use in own.items() if key not in agents}
    return BaseProject(settings=settings, agents=agents, rules=rules, renamed=renamed)


def _is_there(agent: str, root: Path) -> bool:
    """Whether an agent that a door names can be in this checkout."""
    use = agents_module.rule_use(AgentRule.of_short_form(agent))
    options = {name: value for name, value in use.options.items() if isinstance(value, str)}
    missing = agents_module.DRIVERS[use.driver].missing(options, discovery_agents.SeenCheckout(root))
    return missing is None or not missing.certain


def first_of(problems: Sequence[Problem]) -> str:
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


def _within(root: Path, path: str) -> str:
    """A selection as it can be made in another checkout: an absolute path from the top of this one."""
    name, colon, cases = path.partition(":")
    if not Path(name).is_absolute() or not Path(name).resolve().is_relative_to(root):
        return path
    return f"{Path(name).resolve().relative_to(root).as_posix()}{colon}{cases}"


def is_unknown(use: AgentUse) -> bool:
    """Whether none was found."""
    return use.found_by == discovery_agents.UNKNOWN.found_by


def _usable(use: AgentUse, *, beside: AgentUse | None = None) -> AgentUse:
    """The agent, unless none was found, its options cannot be, or running it would be running head's (`beside`): an
    endpoint has no second side."""
    if is_unknown(use):
        return opening.missing()
    if use.is_absent:
        return use
    if beside is not None and agents_module.is_remote(use):
        driver = agents_module.DRIVERS[use.driver]
        if driver.is_same_place(use.options, beside.options):
            return opening.absent(ONE_ENDPOINT.format(url=driver.label(use.options)))
    try:
        agents_module.options_of(use)
    except KeyError:
        return opening.unusable(f"the base's evalgate.yml names a driver that does not exist: {use.driver}")
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        option = f"agent with driver {use.driver}: {where}"
        return opening.unusable(f"the base's evalgate.yml: {option}: {words.fault(first)}")
    return use


def _rules(settings: Settings, ours: Sequence[Suite], environ: Environ, *, head: Path, tree: Tree) -> BaseRules | None:
    """The rules of its own files, of which a door may select cases: those that it has none of are rules all the same,
    where the change asks other cases of them (`ours`) or has moved them."""
    try:
        prepared = project.prepare(settings, environ=environ, tree=tree)
        found, unread, problems = prepared.suites, prepared.unread, prepared.of_files
    except NothingToDo:
        found, unread, problems = (), (), ()
    known = {suite.key for suite in (*found, *unread)}
    asked = [suite for suite in ours if suite.key not in known]
    beside = _unselected(settings, asked, head=head, tree=tree) if settings.paths or settings.grep else None
    if not known and beside is None:
        return None
    others, simulated, theirs = beside or ((), frozenset(), ())
    # that they lack what head selects, or an agent, says nothing of the rules in them
    others_than = {*discover.CODES, *discovery_agents.CODES}
    errors = tuple(
        each for each in (*problems, *theirs) if each.severity is Severity.ERROR and each.code not in others_than
    )
    wrong = {error.place.file for error in errors if error.place is not None}
    suites = tuple(sorted((*found, *unread, *others), key=lambda suite: suite.key))
    return BaseRules(
        suites=suites,
        policy=load.policy_of(settings, suites),
        unread=frozenset(suite.key for suite in unread),
        unruled=frozenset(suite.key for suite in suites if suite.criteria_source.file in wrong),
        simulated=simulated,
        errors=errors,
    )


def _unselected(
    settings: Settings, ours: Sequence[Suite], *, head: Path, tree: Tree
) -> tuple[tuple[Suite, ...], frozenset[str], tuple[Problem, ...]] | None:
    """The base's files that are `ours`: those of the same names, without cases and by the base's rules for those cases,
    and those that are gone from `head` and stand there under another name; which of them have simulated users, and
    what is wrong with their criteria. None where there is no evaluation file at all, whatever is selected."""
    try:
        unselected = settings.model_copy(update={"paths": (), "grep": ""})
        whole = discover.discover(unselected, specs=criteria.CRITERIA, tree=tree)
    except NothingToDo:
        return None
    asked = {suite.key: suite.eval_set for suite in ours}
    gone = [suite for suite in whole.suites if suite.key not in asked and not (head / suite.key).exists()]
    moved = frozenset(renames(gone, ours).values())
    theirs = [suite for suite in whole.suites if suite.key in asked or suite.key in moved]
    simulated = frozenset(suite.key for suite in theirs if user.has_scenarios(suite))
    # what simulated users mean for the criteria counts where head's cases have some
    as_asked = [
        dataclasses.replace(
            each,
            eval_set=asked[each.key] if each.key in simulated - moved else each.eval_set,
            agent=agents_module.with_defaults(each.agent, settings),
        )
        for each in theirs
    ]
    found = tuple(
        suite if suite.key in moved else suite.with_cases(())
        for suite in judges.settle_suites(user.settle(as_asked, settings), judges.defaults_of(settings))
    )
    files = {suite.criteria_source.file for suite in found}
    problems = tuple(each for each in whole.problems if each.place is not None and each.place.file in files)
    return found, simulated, problems


def _only_stored(
    settings: Settings, suites: tuple[Suite, ...], context: Context, base: Base, found: Found | None, *, nothing: str
) -> Base:
    """Nothing is run on the base side; its own rules are known where it could be checked out. Stored results mend no
    rules that cannot be read, and have nothing of what the base has not."""
    theirs = base.project
    # whether what is wrong with the base is wrong with its stored results just as well; those of an agent that is not
    # among the base's files can be compared with
    is_beyond = found is None or bool(base.problem and theirs.settings is None)
    if found is not None and base.problem and not is_beyond:
        no_case = theirs.rules is not None and theirs.rules.is_empty()
        is_beyond = no_case or all(_then(found.stored, theirs, suite.key) is None for suite in suites)
    if found is None or is_beyond:
        return Base(
            origin=base.origin,
            project=theirs,
            problem=base.problem if found is not None or theirs.settings is None else nothing,
            no_agent=base.no_agent,
            base_failed=base.base_failed and theirs.settings is None,
        )
    agents = dict.fromkeys((suite.key for suite in suites), opening.absent(WHY_NOT_STORED))
    return Base(
        origin=_stored_origin(settings, context, base.origin, found),
        project=dataclasses.replace(theirs, agents=agents),
        reusable=frozenset(suite.key for suite in suites),
        stored=found.stored,
        top=base.top,
    )


def _stored_origin(settings: Settings, context: Context, origin: BaseOrigin, found: Found) -> BaseOrigin:
    known = BaseOrigin(
        source=BaseSource.STORE,
        commit=origin.commit,
        found_by=origin.found_by,
        measured_at=found.stored.run.started_at or found.saved_at,
        distance=found.distance,
        notes=origin.notes,
    )
    return stores.aged(known, settings=settings, now=context.now)


def is_same_use(suite: Suite, base: Base, settings: Settings) -> bool:
    """Whether both sides name the same agent, in the same environment, and give it the same settings; never of what is
    behind a URL."""
    ours, theirs, own = suite.agent, base.project.agents.get(suite.key), base.project.settings
    if theirs is None or own is None or base.top is None or ours.is_absent or agents_module.is_remote(ours):
        return False
    is_same = fingerprints.agent_key(ours) == fingerprints.agent_key(theirs)
    return is_same and of_agents(settings) == of_agents(own) and _needs(ours, settings.root) == _needs(ours, own.root)


def _needs(use: AgentUse, root: Path) -> str:
    """What the agent's environment is made from."""
    needs = None
    if issubclass(agents_module.DRIVERS[use.driver].options, PythonOptions):
        needs = python_env.needs_of(python_process.wanted_of(use.options, root))
    return "" if needs is None else f"{root if needs.is_local else ''}{needs.text}"


def _then(stored: Stored, theirs: BaseProject, suite: str) -> Suite | None:
    """The stored suite by head's name of it."""
    name = theirs.renamed.get(suite, suite)
    return next((each for each in stored.run.suites if each.key == name), None)


def with_agents(suites: tuple[Suite, ...], base: Base) -> tuple[Suite, ...]:
    """Head's suites, to be run by the base's agents."""
    own, none = base.project.agents, opening.missing()
    return tuple(
        suite if suite.problem else dataclasses.replace(suite, agent=own.get(suite.key, none)) for suite in suites
    )


def under_new_names(policy: Policy, renamed: Mapping[str, str], *, own: Policy | None = None) -> Policy:
    """The base's policy, under head's names of evaluation files as well. `own`: says what it does of other files."""
    rates, known = dict(own.suite_pass_rate if own else {}), policy.suite_pass_rate
    rates |= {ours: known[theirs] for ours, theirs in renamed.items() if theirs in known}
    advisory = {ours for ours, theirs in renamed.items() if theirs in policy.advisory}
    return dataclasses.replace(
        policy,
        suite_pass_rate={**known, **rates},
        advisory=(policy.advisory - renamed.keys()) | advisory | (own.advisory if own else set()),
    )


def new_cases(suites: tuple[Suite, ...], base: Base) -> list[CaseKey]:
    """Cases that cannot have become worse: the base's files do not have them, or it has no agent for their suite.

    Where the base has no evaluation file at all, or its file of them cannot be read, its agent can be asked all the
    same: these are none."""
    rules, before = base.project.rules, _own_cases(base)
    keys = {suite.key for suite in suites} | set(base.project.renamed.values())
    had = {key for key, _ in before}
    found = []
    for suite in suites:
        use = base.project.agents.get(suite.key)
        lacks_agent = base.root is not None and (use is None or opening.is_missing(use))
        # what cannot be read may be this suite, under its own name or under one that is not among head's any more
        may_be_old = not before
        if rules is not None:
            unread = suite.key in rules.unread or any(key not in keys for key in rules.unread)
            may_be_old = suite.key not in had and unread
        cases = [(suite.key, case.case_id) for case in suite.eval_set.cases]
        found += [case for case in cases if lacks_agent or (case not in before and not may_be_old)]
    return found


def _own_cases(base: Base) -> set[CaseKey]:
    """The base's cases under head's names of their files; none where they are not known."""
    suites: tuple[Suite, ...] = ()
    if base.project.rules is not None:
        suites = base.project.rules.suites
    elif base.root is None and base.stored is not None:
        suites = base.stored.run.suites
    ours = {theirs: ours for ours, theirs in base.project.renamed.items()}
    return {(ours.get(suite.key, suite.key), case.case_id) for suite in suites for case in suite.eval_set.cases}


def unpaired(base: Base, suites: tuple[Suite, ...], *, plan: Sequence[Suite]) -> dict[CaseKey, CaseStatus]:
    """New and deleted cases. `suites`: head's, of this machine; `plan`: all that are measured, here or elsewhere."""
    here = {(suite.key, case.case_id) for suite in plan for case in suite.eval_set.cases}
    unknown = {suite.key for suite in plan if suite.problem}
    gone = sorted(key for key in _own_cases(base) - here if key[0] not in unknown)
    return dict.fromkeys(gone, CaseStatus.REMOVED) | dict.fromkeys(new_cases(suites, base), CaseStatus.NEW)


def edited(base: Base, suites: tuple[Suite, ...], unchanged: Collection[str]) -> tuple[CaseKey, ...]:
    """Cases of the suites `unchanged`, whose agent is the same on both sides, which the change adds, or of which it
    changes what is asked, expected or required."""
    rules = base.project.rules
    then = {} if rules is None else {suite.key: suite for suite in rules.suites}
    found: list[CaseKey] = []
    for suite in suites:
        before = then.get(base.project.renamed.get(suite.key, suite.key))
        is_known = before is not None and _required(before) == _required(suite)
        known = {case.case_id: fingerprints.of_case(case) for case in before.eval_set.cases} if before else {}
        found += [
            (suite.key, case.case_id)
            for case in (suite.eval_set.cases if suite.key in unchanged else ())
            if not is_known or known.get(case.case_id) != fingerprints.of_case(case)
        ]
    return tuple(found)


def _required(suite: Suite) -> dict[str, tuple[str, float | None]]:
    return {
        use.name: (fingerprints.of_criterion(use, version="", deviations=OURS), use.threshold) for use in suite.criteria
    }


def environments(base: Base, head: Run, rerun: Run, *, reused: Container[str]) -> Iterator[str]:
    """A note for each agent that ran in another environment: of one that was rerun, if it is the same agent on both
    sides, since another one may have changed it; of stored results always, since nobody knows what the time between
    has changed as well. `reused`: the suites of which stored trials are used."""
    notes: list[str] = []
    then = _stored_agents(base)
    for ours, theirs in zip(head.suites, rerun.suites, strict=True):
        inputs = head.inputs.get(fingerprints.agent_key(ours.agent))
        now = head.agents.get(fingerprints.agent_key(ours.agent), {})
        key = fingerprints.agent_key(theirs.agent)
        if inputs and rerun.inputs.get(key) == inputs:
            notes += _other_environment("the same agent ran", rerun.agents.get(key, {}), now)
        if ours.key in reused and ours.key in then:
            notes += _other_environment("the agent ran", then[ours.key][1], now)
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


def descriptions(base: Base, run: Run) -> dict[str, AgentDescription]:
    """What every agent of the base's run is made of, as `told`; its files are those of the checkout, where there is
    one."""
    found, then = dict(run.descriptions), _stored_agents(base)
    for suite in run.suites:
        key, _ = then.get(suite.key, ("", {}))
        stored = base.stored.run.descriptions.get(key) if base.stored is not None else None
        for each in (key, fingerprints.agent_key(suite.agent)):
            own = found.get(each, AgentDescription())
            if stored is not None and not own.packages:
                found[each] = dataclasses.replace(stored, files=own.files or stored.files)
    return found


def _stored_agents(base: Base) -> dict[str, tuple[str, Mapping[str, str]]]:
    """By head's name of a suite, what its agent is called in the stored results, and told when they were measured."""
    if base.stored is None:
        return {}
    stored, ours = base.stored.run, {theirs: ours for ours, theirs in base.project.renamed.items()}
    keys = {ours.get(suite.key, suite.key): fingerprints.agent_key(suite.agent) for suite in stored.suites}
    return {suite: (key, stored.agents.get(key, {})) for suite, key in keys.items() if suite in base.reusable}


def _other_environment(what: str, then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in history.ENVIRONMENT:
        before, after = then.get(name, ""), now.get(name, "")
        if before and after and before != after:
            said = name.replace("_", " ")
            yield f"{what} with a different {said} on the base ({before}) than on head ({after})"
