"""The base that head is compared with: its commit, its checkout, what its own files say, its stored
results."""

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
from evalgate.results.stores import BaselineFolder, StoredMatch
from evalgate.simulation import user
from evalgate.system import git, python_env
from evalgate.system.git import Repository
from evalgate.text import words
from evalgate.text.phrases import phrase
from evalgate.values import Environ, frozen_dataclass


@frozen_dataclass
class BaseRules:
    """What the base's own files ask for: suites with their criteria and cases, and the policy."""

    suites: tuple[Suite, ...]
    policy: Policy
    # suites whose evaluation file cannot be read, so that cases are not known
    unread: frozenset[str] = frozenset()
    unruled: frozenset[str] = frozenset()  # those whose criteria cannot be read, or not all of them
    # those that have simulated users, though not in the selected cases
    simulated: frozenset[str] = frozenset()
    errors: tuple[Problem, ...] = ()  # what is wrong with these files

    def is_empty(self) -> bool:
        """True if the rules are known to have no case."""
        return not self.unread and not any(suite.eval_set.cases for suite in self.suites)


@frozen_dataclass
class BaseProject:
    """What the base's own files say, for the suites of head."""

    # from its evalgate.yml and the doors; None if unknown
    settings: Settings | None = None
    # by head's suite keys; may be absent ones
    agents: Mapping[str, AgentUse] = dataclasses.field(default_factory=dict)
    # its file names by head's, if they differ
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # None if they are unknown, or if it has no evaluation file
    rules: BaseRules | None = None

    def gated_files(self) -> tuple[str, ...]:
        """Its evaluation files that an agent of its own serves: what it gates."""
        if self.rules is None:
            return ()
        return tuple(
            sorted(suite.key for suite in self.rules.suites if not is_unknown(suite.agent))
        )


@frozen_dataclass
class Base:
    """The base, before anything of it was measured."""

    origin: BaseOrigin
    root: Path | None = None  # its code on disk; None where only results are at hand
    top: Path | None = None  # of its checkout
    project: BaseProject = BaseProject()
    stored: Stored | None = None  # results used for suites that cannot be rerun
    reusable: frozenset[str] = frozenset()  # these suites
    problem: str = ""  # why there is nothing to compare with
    # because it has no agent yet, or no case of those that are run, which is nobody's fault
    no_agent: bool = False
    base_failed: bool = False  # because of its own files, which is not the change's fault


@contextmanager
def open_bases(
    settings: Settings, suites: tuple[Suite, ...], context: Context
) -> Iterator[tuple[Base | None, Base | None]]:
    """What head's `suites` are compared with (None: nothing), and the base whose rules are known:
    that of a change is read whatever its results are compared with, since a change could else
    choose a comparison without rules. For as long as the block lasts.

    Never raises for what is wrong with the base: that is its `problem`. Raises ConfigError where
    results that somebody named cannot be read, or are part of the change."""
    has_base = bool(settings.base or context.event_base)
    baseline = settings.baseline
    with ExitStack() as stack:
        rule_base = None
        # evalgate.yml is part of the change: the base's own `baseline` counts, or a change could
        # switch the comparison off; head's counts if the base's is unknown
        is_asked = "baseline" not in settings.explicit_options and has_base and baseline != "auto"
        if is_asked or (
            (has_base or context.is_pull_request) and not _is_of_git(baseline, has_base=has_base)
        ):
            rule_base = _from_git(settings, suites, context, stack, baseline="rerun")
            baseline = _agreed(baseline, rule_base, context) if is_asked else baseline
        if baseline.startswith("file:"):
            base = _from_file(settings, suites, context, baseline.removeprefix("file:"), rule_base)
            yield base, rule_base or base
        elif not _is_of_git(baseline, has_base=has_base):
            yield None, rule_base
        elif rule_base is not None and baseline == "rerun":
            yield rule_base, rule_base
        else:
            base = _from_git(settings, suites, context, stack, baseline=baseline)
            yield base, base


def _is_of_git(baseline: str, *, has_base: bool) -> bool:
    """True if `baseline` requires the base's commit."""
    return baseline in ("rerun", "store") or (baseline == "auto" and has_base)


def _agreed(baseline: str, base: Base, context: Context) -> str:
    """The base's word on `baseline`."""
    base_settings = base.project.settings
    if base_settings is None:
        if baseline == "none":
            context.say(
                f"the base's evalgate.yml cannot be read ({base.problem}); using head's `baseline: none`"
            )
        return baseline
    if base_settings.baseline != baseline:
        context.say(
            f"`baseline` is {baseline} in this evalgate.yml and {base_settings.baseline} in the base's, which applies"
        )
    return base_settings.baseline


def _from_file(
    settings: Settings,
    suites: tuple[Suite, ...],
    context: Context,
    path: str,
    rule_base: Base | None,
) -> Base:
    """The base from a results file. `rule_base`: the base's commit, if known; its files are not
    run. Raises ConfigError if the file cannot be read, or is part of the commit in a pull request
    or if another CI names the base."""
    # it has no event to tell
    in_other_ci = not (context.is_attended or context.workflow_run) and rule_base is not None
    is_change = context.is_pull_request or in_other_ci
    if is_change and git.first_committed([settings.root / path], settings.root, context.environ):
        raise ConfigError(
            "is part of the commit, so a change is not compared with it",
            place=Place(file=path),
            hint="Download the results in an earlier step, or use `baseline: auto`.",
        )
    stored = file.read_results(settings.root / path, shown_as=path, of="the base")
    unknown = phrase("base_rules_incomplete")
    origin = BaseOrigin(
        source=BaseSource.FILE,
        commit=stored.run.commit,
        measured_at=stored.run.started_at,
        notes=(unknown,) if settings.policy == "both" and rule_base is None else (),
    )
    base_project = BaseProject() if rule_base is None else rule_base.project
    agents = dict.fromkeys(
        (suite.key for suite in suites), opening.absent(phrase("base_not_stored_case"))
    )
    return Base(
        origin=stores.aged(origin, settings=settings, current_moment=context.moment),
        project=dataclasses.replace(base_project, agents=agents),
        reusable=frozenset(suite.key for suite in suites),
        stored=stored,
    )


def _from_git(
    settings: Settings,
    suites: tuple[Suite, ...],
    context: Context,
    stack: ExitStack,
    *,
    baseline: str,
) -> Base:
    """`baseline`: store, rerun, or auto: a rerun, and what is stored of agents that cannot be run
    again."""
    source = BaseSource.STORE if baseline == "store" else BaseSource.RERUN
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        context.say(line)

    try:
        repo = stack.enter_context(
            git.open_repository(
                settings.root,
                environ=context.environ,
                token=context.token,
                under=context.cache / "bases",
            )
        )
        base = _checked_out(settings, suites, context, repo, stack, source=source)
        named_by = _settings_of_store(settings, base.project, of_change=context.is_pull_request)
        store = stores.open_store(named_by, repo, root=settings.root, say=say)
    except EvalgateError as error:
        prefix = f"`{settings.base}`: " if settings.base else ""
        return Base(origin=BaseOrigin(source=source), problem=f"{prefix}{_error_text(error)}")
    remote = frozenset(suite.key for suite in suites if agents_module.is_remote(suite.agent))
    if baseline == "rerun" or (baseline == "auto" and not remote):
        return base
    stored_baseline = None if store is None else _of_today(store, repo, base.origin.commit, say=say)
    if baseline == "store":
        unset = "" if lines else phrase("base_folder_unset")
        location = unset if store is None else store.name
        looked = "; ".join(part for part in (location, *lines) if part)
        nothing = phrase("base_not_stored", base.origin.commit[:7], looked)
        return _only_stored(settings, suites, context, base, stored_baseline, nothing=nothing)
    if stored_baseline is None or base.root is None:
        return base
    # what is behind a URL is the same on both sides
    return dataclasses.replace(
        base,
        origin=_stored_origin(settings, context, base.origin, stored_baseline),
        stored=stored_baseline.stored,
        reusable=frozenset(
            key
            for key in remote
            if _stored_suite(stored_baseline.stored, base.project, key) is not None
        ),
    )


def _of_today(
    store: BaselineFolder, repo: Repository, sha: str, *, say: Callable[[str], None]
) -> StoredMatch | None:
    """The stored results, but none from before the provider moved: another model gave them."""
    stored_baseline = stores.find(store, repo, sha, say=say)
    if stored_baseline is None:
        return None
    drift_time = None
    with suppress(EvalgateError):  # a history that cannot be read, which the run tells
        drift_time = history.drifted_at(history.read_history(store))
    if (
        drift_time is None
        or stores.moment(stored_baseline.stored.run.started_at or stored_baseline.saved_at)
        >= drift_time
    ):
        return stored_baseline
    say(
        f"the results of {stored_baseline.commit[:7]} were not used: "
        f"the provider's model moved after them, on {drift_time:%Y-%m-%d}"
    )
    return None


def clock_based(policies: Iterable[Policy], suites: Iterable[Suite]) -> tuple[str, ...]:
    """The criteria that are read from a clock and decide all the same, by any of the policies."""
    names = dict.fromkeys(
        use.name for suite in suites for use in suite.criteria if use.scale.clocked
    )
    gating_names = (
        name
        for policy in policies
        for name in names
        if policy.criteria.get(name, CriterionRule()).gating
    )
    return tuple(dict.fromkeys(gating_names))


def is_both(head: Settings, base: Settings | None) -> bool:
    """True if the worse of both rule books counts: either evalgate.yml asks for it, and head's
    cannot revoke the base's."""
    return head.policy == "both" or (base is not None and base.policy == "both")


def _settings_of_store(head: Settings, base: BaseProject, *, of_change: bool) -> Settings:
    """Head's settings; in a pull request, and if the base's rules decide, with the base's store:
    another may hold whatever the change likes to be compared with. If the base's is unknown, a pull
    request only has a door's."""
    if not of_change and (base.settings is None or not is_both(head, base.settings)):
        return head
    folder = (
        head.explicit_options.get("baseline_folder", "")
        if base.settings is None
        else base.settings.baseline_folder
    )
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
    """The base's code, its agents for head's suites, and its own rules. Raises GitFailed,
    UnavailableError where its commit is not known."""
    picked = commit.pick_base(
        repo, base=settings.base, event_base=context.event_base, head="", environ=context.environ
    )

    origin = functools.partial(BaseOrigin, source=source, commit=picked.sha, found_by=picked.how)
    notes = [picked.note] if picked.note else []
    try:
        there = stack.enter_context(commit.checked_out(repo, picked.sha))
    except EvalgateError as error:
        is_new = isinstance(error, NoSuchFolder)
        problem = error.message if is_new else _error_text(error)
        return Base(origin=origin(notes=tuple(notes)), problem=problem, no_agent=is_new)
    context.say(f"base {picked.sha[:7]} ({picked.how}) checked out")
    base_project = BaseProject()
    root = None
    no_agent = False
    base_failed = False
    notes += there.notes
    try:
        base_project = read(settings, there.root, suites, context.environ)
        problem, no_agent = _problem(base_project, suites, there)
        lost = (
            no_agent
            and settings.agent
            and base_project.settings is not None
            and not base_project.settings.agent
        )
        if lost and (edited := commit.edited_workflow(there.root, settings.root)):
            problem = phrase("base_agent_edited", settings.agent, edited)
            no_agent = False
    except EvalgateError as error:
        problem = phrase("base_unreadable", _error_text(error))
        # only the base says whose rules decide: if its own must, unknown rules block
        base_failed = settings.policy != "both"
    if not problem:
        root = there.root
        notes += _lend(settings, suites, context, base_project, root)
    return Base(
        origin=origin(notes=tuple(notes)),
        root=root,
        top=there.tree,
        project=base_project,
        problem=problem,
        no_agent=no_agent,
        base_failed=base_failed,
    )


def _lend(
    settings: Settings,
    suites: tuple[Suite, ...],
    context: Context,
    base_project: BaseProject,
    root: Path,
) -> list[str]:
    """Give the base in `root` what git does not keep of this checkout; what there is to remark
    about that."""
    uses = [base_project.agents[suite.key] for suite in suites]
    pairs = [(suite.agent, use) for suite, use in zip(suites, uses, strict=True)]
    for path in dotenv.lend(pairs, root=settings.root, base=root, environ=context.environ):
        context.say(f"the base's agent uses `{path}` of this checkout, since git does not keep it")
    pythons = opening.missing_pythons(
        uses, root=root, lender=settings.root, environ=context.environ
    )
    return [
        phrase("base_borrowed" if is_lent else "base_not_lent", name) for name, is_lent in pythons
    ]


def _problem(
    base_project: BaseProject, suites: tuple[Suite, ...], there: BaseCheckout
) -> tuple[str, bool]:
    """Why nothing of the base can be run, "" if it can; and True if that is not a fault.

    A base that gates files of its own is not without an agent: else a change could avoid the
    comparison by renaming all of its files and changing their questions."""
    if base_project.rules is not None and base_project.rules.is_empty():
        return phrase("base_no_cases"), True
    uses = [base_project.agents[suite.key] for suite in suites]
    if not all(opening.is_missing(use) for use in uses):
        return "" if all(use.is_absent for use in uses) else there.problem, False
    files = base_project.gated_files()
    return phrase("base_no_agent", files), not files


def _error_text(error: EvalgateError) -> str:
    return f"{error.message.rstrip('.')}. {error.hint}" if error.hint else error.message


def read(head: Settings, root: Path, suites: Sequence[Suite], environ: Environ) -> BaseProject:
    """What the base at `root` says. Raises ConfigError where its evalgate.yml cannot be read, or
    gives values that cannot be."""
    # head's doors with the base's own evalgate.yml; a named file that the base lacks is ignored
    raw_settings = {
        **head.explicit_options,
        "root": str(root),
        "paths": [_within(head.root, path) for path in head.paths],
    }
    config = raw_settings.get("config")
    if config and not (root / str(config)).is_file():
        del raw_settings["config"]
    if raw_settings.get("agent") and not _is_there(str(raw_settings["agent"]), root):
        # it was moved or is new: the base names its own agent
        del raw_settings["agent"]
    settings = load.load_settings(raw_settings)
    errors = [problem for problem in settings.problems if problem.severity is Severity.ERROR]
    if errors:
        raise ConfigError(first_of(errors))
    tree = walk.Tree(root, exclude=settings.gate_file.exclude)
    rules = _rules(settings, suites, environ, head=head.root, tree=tree)
    base_keys = {} if rules is None else renames(rules.suites, suites)
    sets = {suite.key: suite.eval_set for suite in suites}
    chosen, _ = discovery_agents.choose_agents(sets, gate_file=settings.gate_file, tree=tree)
    base_agents = {} if rules is None else {suite.key: suite.agent for suite in rules.suites}
    agents = {}
    for suite in suites:
        use = base_agents[base_keys[suite.key]] if suite.key in base_keys else chosen[suite.key]
        agents[suite.key] = _usable(agents_module.with_defaults(use, settings), beside=suite.agent)
    agents |= {key: _usable(use) for key, use in base_agents.items() if key not in agents}
    return BaseProject(settings=settings, agents=agents, rules=rules, renamed=base_keys)


def _is_there(agent: str, root: Path) -> bool:
    """True if an agent that a door names can be in this checkout."""
    use = agents_module.rule_use(AgentRule.of_short_form(agent))
    options = {name: value for name, value in use.options.items() if isinstance(value, str)}
    missing = agents_module.DRIVERS[use.driver].missing(
        options, discovery_agents.CheckoutView(root)
    )
    return missing is None or not missing.certain


def first_of(problems: Sequence[Problem]) -> str:
    """The first of several problems with its place, and how many more there are."""
    first = problems[0]
    return phrase("first_problem", first.place or "", first.message, len(problems))


def renames(base_suites: Sequence[Suite], head_suites: Sequence[Suite]) -> dict[str, str]:
    """The base's key of each of head's files that is one of the base's under another name: it asks
    at least half of that one's cases the same, and no file asks more of them."""
    old = {suite.key for suite in base_suites}
    new = {suite.key for suite in head_suites}
    gone = {
        suite.key: _questions(suite)
        for suite in base_suites
        if suite.key not in new and suite.eval_set.cases
    }
    base_keys: dict[str, str] = {}
    for suite in head_suites:
        if suite.key in old:
            continue
        questions = _questions(suite)
        shared = {key: len(questions & base_questions) for key, base_questions in gone.items()}
        best = max(shared, key=lambda key: shared[key], default="")
        if best and shared[best] * 2 >= len(gone[best]) > 0:
            base_keys[suite.key] = best
            del gone[best]
    return base_keys


def _questions(suite: Suite) -> set[tuple[str, str]]:
    return {(case.case_id, fingerprints.of_task(case)) for case in suite.eval_set.cases}


def _within(root: Path, path: str) -> str:
    """A selection as it can be made in another checkout: an absolute path from the top of this
    one."""
    name, colon, cases = path.partition(":")
    if not Path(name).is_absolute() or not Path(name).resolve().is_relative_to(root):
        return path
    return f"{Path(name).resolve().relative_to(root).as_posix()}{colon}{cases}"


def is_unknown(use: AgentUse) -> bool:
    """True if none was found."""
    return use.found_by == discovery_agents.UNKNOWN.found_by


def _usable(use: AgentUse, *, beside: AgentUse | None = None) -> AgentUse:
    """The agent, unless none was found, its options cannot be, or running it would be running
    head's (`beside`): an endpoint has no second side."""
    if is_unknown(use):
        return opening.missing()
    if use.is_absent:
        return use
    if beside is not None and agents_module.is_remote(use):
        driver = agents_module.DRIVERS[use.driver]
        if driver.is_same_place(use.options, beside.options):
            return opening.absent(phrase("base_one_endpoint", driver.label(use.options)))
    try:
        agents_module.options_of(use)
    except KeyError:
        return opening.unusable(phrase("base_unknown_driver", use.driver))
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(str(step) for step in first["loc"])
        problem = phrase("base_driver_options", use.driver, location, words.fault(first))
        return opening.unusable(problem)
    return use


def _rules(
    settings: Settings, head_suites: Sequence[Suite], environ: Environ, *, head: Path, tree: Tree
) -> BaseRules | None:
    """The rules of the base's files. A door may select cases; files without a selected case still
    give rules if the change asks other cases of them (`head_suites`) or moved them."""
    try:
        prepared = project.prepare(settings, environ=environ, tree=tree)
        prepared_suites = prepared.suites
        unread = prepared.unread
        problems = prepared.of_files
    except NothingToDo:
        prepared_suites = ()
        unread = ()
        problems = ()
    base_keys = {suite.key for suite in (*prepared_suites, *unread)}
    missing_suites = [suite for suite in head_suites if suite.key not in base_keys]
    unselected = (
        _unselected(settings, missing_suites, head=head, tree=tree)
        if settings.paths or settings.grep
        else None
    )
    if not base_keys and unselected is None:
        return None
    unselected_suites, simulated, more_problems = unselected or ((), frozenset(), ())
    # that they lack what head selects, or an agent, says nothing of the rules in them
    selection_codes = {*discover.CODES, *discovery_agents.CODES}
    errors = tuple(
        problem
        for problem in (*problems, *more_problems)
        if problem.severity is Severity.ERROR and problem.code not in selection_codes
    )
    faulty_files = {error.place.file for error in errors if error.place is not None}
    suites = tuple(
        sorted((*prepared_suites, *unread, *unselected_suites), key=lambda suite: suite.key)
    )
    return BaseRules(
        suites=suites,
        policy=load.policy_of(settings, suites),
        unread=frozenset(suite.key for suite in unread),
        unruled=frozenset(
            suite.key for suite in suites if suite.criteria_source.file in faulty_files
        ),
        simulated=simulated,
        errors=errors,
    )


def _unselected(
    settings: Settings, head_suites: Sequence[Suite], *, head: Path, tree: Tree
) -> tuple[tuple[Suite, ...], frozenset[str], tuple[Problem, ...]] | None:
    """The base's files for `head_suites`, those of them with simulated users, and problems of their
    criteria.

    Files of the same names come without cases and with the base's rules for head's; files that are
    gone from `head` and have another name there are included. None if there is no evaluation file
    at all, whatever is selected."""
    try:
        unselected = settings.model_copy(update={"paths": (), "grep": ""})
        discovery = discover.discover(unselected, specs=criteria.CRITERIA, tree=tree)
    except NothingToDo:
        return None
    eval_sets = {suite.key: suite.eval_set for suite in head_suites}
    gone = [
        suite
        for suite in discovery.suites
        if suite.key not in eval_sets and not (head / suite.key).exists()
    ]
    moved_keys = frozenset(renames(gone, head_suites).values())
    base_suites = [
        suite for suite in discovery.suites if suite.key in eval_sets or suite.key in moved_keys
    ]
    simulated = frozenset(suite.key for suite in base_suites if user.has_scenarios(suite))
    # what simulated users mean for the criteria counts where head's cases have some
    as_asked = [
        dataclasses.replace(
            suite,
            eval_set=eval_sets[suite.key]
            if suite.key in simulated - moved_keys
            else suite.eval_set,
            agent=agents_module.with_defaults(suite.agent, settings),
        )
        for suite in base_suites
    ]
    unselected_suites = tuple(
        suite if suite.key in moved_keys else suite.with_cases(())
        for suite in judges.settle_suites(
            user.settle(as_asked, settings), judges.defaults_of(settings)
        )
    )
    files = {suite.criteria_source.file for suite in unselected_suites}
    problems = tuple(
        problem
        for problem in discovery.problems
        if problem.place is not None and problem.place.file in files
    )
    return unselected_suites, simulated, problems


def _only_stored(
    settings: Settings,
    suites: tuple[Suite, ...],
    context: Context,
    base: Base,
    stored_baseline: StoredMatch | None,
    *,
    nothing: str,
) -> Base:
    """A base that is not run; its own rules are known if it could be checked out. Stored results do
    not repair rules that cannot be read, and have nothing that the base lacks."""
    base_project = base.project
    # whether what is wrong with the base is wrong with its stored results just as well; those of an
    # agent that is not among the base's files can be compared with
    is_beyond = stored_baseline is None or bool(base.problem and base_project.settings is None)
    if stored_baseline is not None and base.problem and not is_beyond:
        no_case = base_project.rules is not None and base_project.rules.is_empty()
        is_beyond = no_case or all(
            _stored_suite(stored_baseline.stored, base_project, suite.key) is None
            for suite in suites
        )
    if stored_baseline is None or is_beyond:
        return Base(
            origin=base.origin,
            project=base_project,
            problem=base.problem
            if stored_baseline is not None or base_project.settings is None
            else nothing,
            no_agent=base.no_agent,
            base_failed=base.base_failed and base_project.settings is None,
        )
    agents = dict.fromkeys(
        (suite.key for suite in suites), opening.absent(phrase("base_not_stored_case"))
    )
    return Base(
        origin=_stored_origin(settings, context, base.origin, stored_baseline),
        project=dataclasses.replace(base_project, agents=agents),
        reusable=frozenset(suite.key for suite in suites),
        stored=stored_baseline.stored,
        top=base.top,
    )


def _stored_origin(
    settings: Settings, context: Context, origin: BaseOrigin, stored_baseline: StoredMatch
) -> BaseOrigin:
    stored_origin = BaseOrigin(
        source=BaseSource.STORE,
        commit=origin.commit,
        found_by=origin.found_by,
        measured_at=stored_baseline.stored.run.started_at or stored_baseline.saved_at,
        distance=stored_baseline.distance,
        notes=origin.notes,
    )
    return stores.aged(stored_origin, settings=settings, current_moment=context.moment)


def is_same_use(suite: Suite, base: Base, settings: Settings) -> bool:
    """True if both sides name the same agent, in the same environment, with the same settings;
    never for an agent behind a URL."""
    head_agent = suite.agent
    base_agent = base.project.agents.get(suite.key)
    base_settings = base.project.settings
    if (
        base_agent is None
        or base_settings is None
        or base.top is None
        or head_agent.is_absent
        or agents_module.is_remote(head_agent)
    ):
        return False
    is_same = fingerprints.agent_key(head_agent) == fingerprints.agent_key(base_agent)
    return (
        is_same
        and of_agents(settings) == of_agents(base_settings)
        and _needs(head_agent, settings.root) == _needs(head_agent, base_settings.root)
    )


def _needs(use: AgentUse, root: Path) -> str:
    """What the agent's environment is made from."""
    needs = None
    if issubclass(agents_module.DRIVERS[use.driver].options, PythonOptions):
        needs = python_env.needs_of(python_process.environment_request(use.options, root))
    return "" if needs is None else f"{root if needs.is_local else ''}{needs.text}"


def _stored_suite(stored: Stored, base_project: BaseProject, suite: str) -> Suite | None:
    """The stored suite by head's name of it."""
    name = base_project.renamed.get(suite, suite)
    return next(
        (stored_suite for stored_suite in stored.run.suites if stored_suite.key == name), None
    )


def with_agents(suites: tuple[Suite, ...], base: Base) -> tuple[Suite, ...]:
    """Head's suites, to be run by the base's agents."""
    base_agents = base.project.agents
    none = opening.missing()
    return tuple(
        suite
        if suite.problem
        else dataclasses.replace(suite, agent=base_agents.get(suite.key, none))
        for suite in suites
    )


def under_new_names(
    policy: Policy, renamed: Mapping[str, str], *, new_policy: Policy | None = None
) -> Policy:
    """The base's policy, under head's names of evaluation files as well. `new_policy`: says what it
    does of other files."""
    rates = dict(new_policy.suite_pass_rate if new_policy else {})
    base_rates = policy.suite_pass_rate
    rates |= {
        head_key: base_rates[base_key]
        for head_key, base_key in renamed.items()
        if base_key in base_rates
    }
    advisory = {head_key for head_key, base_key in renamed.items() if base_key in policy.advisory}
    return dataclasses.replace(
        policy,
        suite_pass_rate={**base_rates, **rates},
        advisory=(policy.advisory - renamed.keys())
        | advisory
        | (new_policy.advisory if new_policy else set()),
    )


def new_cases(suites: tuple[Suite, ...], base: Base) -> list[CaseKey]:
    """Cases that cannot have become worse: the base's files do not have them, or it has no agent
    for their suite.

    If the base has no evaluation file at all, or its file cannot be read, its agent can still be
    asked: these cases are not included."""
    rules = base.project.rules
    base_cases = _base_cases(base)
    keys = {suite.key for suite in suites} | set(base.project.renamed.values())
    had = {key for key, _ in base_cases}
    case_keys = []
    for suite in suites:
        use = base.project.agents.get(suite.key)
        lacks_agent = base.root is not None and (use is None or opening.is_missing(use))
        # what cannot be read may be this suite, under its own name or under one that is not among
        # head's any more
        may_be_old = not base_cases
        if rules is not None:
            unread = suite.key in rules.unread or any(key not in keys for key in rules.unread)
            may_be_old = suite.key not in had and unread
        cases = [(suite.key, case.case_id) for case in suite.eval_set.cases]
        case_keys += [
            case for case in cases if lacks_agent or (case not in base_cases and not may_be_old)
        ]
    return case_keys


def _base_cases(base: Base) -> set[CaseKey]:
    """The base's cases under head's names of their files; empty if they are not known."""
    suites: tuple[Suite, ...] = ()
    if base.project.rules is not None:
        suites = base.project.rules.suites
    elif base.root is None and base.stored is not None:
        suites = base.stored.run.suites
    head_keys = {base_key: head_key for head_key, base_key in base.project.renamed.items()}
    return {
        (head_keys.get(suite.key, suite.key), case.case_id)
        for suite in suites
        for case in suite.eval_set.cases
    }


def unpaired(
    base: Base, suites: tuple[Suite, ...], *, plan: Sequence[Suite]
) -> dict[CaseKey, CaseStatus]:
    """New and deleted cases. `suites`: head's, of this machine; `plan`: all that are measured, here
    or elsewhere."""
    here = {(suite.key, case.case_id) for suite in plan for case in suite.eval_set.cases}
    unknown = {suite.key for suite in plan if suite.problem}
    gone = sorted(key for key in _base_cases(base) - here if key[0] not in unknown)
    return dict.fromkeys(gone, CaseStatus.REMOVED) | dict.fromkeys(
        new_cases(suites, base), CaseStatus.NEW
    )


def edited(
    base: Base, suites: tuple[Suite, ...], unchanged: Collection[str]
) -> tuple[CaseKey, ...]:
    """Cases of the suites `unchanged`, whose agent is the same on both sides, that the change adds
    or edits (the question, the expectation or a requirement)."""
    rules = base.project.rules
    base_suites = {} if rules is None else {suite.key: suite for suite in rules.suites}
    case_keys: list[CaseKey] = []
    for suite in suites:
        base_suite = base_suites.get(base.project.renamed.get(suite.key, suite.key))
        is_known = base_suite is not None and _required(base_suite) == _required(suite)
        case_fingerprints = (
            {case.case_id: fingerprints.of_case(case) for case in base_suite.eval_set.cases}
            if base_suite
            else {}
        )
        case_keys += [
            (suite.key, case.case_id)
            for case in (suite.eval_set.cases if suite.key in unchanged else ())
            if not is_known or case_fingerprints.get(case.case_id) != fingerprints.of_case(case)
        ]
    return tuple(case_keys)


def _required(suite: Suite) -> dict[str, tuple[str, float | None]]:
    return {
        use.name: (fingerprints.of_criterion(use, version="", deviations=OURS), use.threshold)
        for use in suite.criteria
    }


def environments(base: Base, head: Run, rerun: Run, *, reused: Container[str]) -> Iterator[str]:
    """A note for each agent that ran in another environment. Reruns: only if it is the same agent
    on both sides, since another one may have changed it. Stored results: always, since other things
    may have changed in the meantime. `reused`: the suites whose stored trials are used."""
    notes: list[str] = []
    stored_agents = _stored_agents(base)
    for head_suite, base_suite in zip(head.suites, rerun.suites, strict=True):
        inputs = head.inputs.get(fingerprints.agent_key(head_suite.agent))
        head_environment = head.agents.get(fingerprints.agent_key(head_suite.agent), {})
        key = fingerprints.agent_key(base_suite.agent)
        if inputs and rerun.inputs.get(key) == inputs:
            notes += _other_environment(rerun.agents.get(key, {}), head_environment, is_same=True)
        if head_suite.key in reused and head_suite.key in stored_agents:
            notes += _other_environment(
                stored_agents[head_suite.key][1], head_environment, is_same=False
            )
    yield from dict.fromkeys(notes)


def environments_of(base: Base, run: Run) -> dict[str, Mapping[str, str]]:
    """The environment that every agent of the base's run reported, by `agent_key`; the stored one
    if it did not run."""
    agent_environments = dict(run.agents)
    stored_agents = _stored_agents(base)
    for suite in run.suites:
        key, about = stored_agents.get(suite.key, ("", {}))
        for agent_key in (key, fingerprints.agent_key(suite.agent)):
            if agent_key and about and not agent_environments.get(agent_key):
                agent_environments[agent_key] = about
    return agent_environments


def descriptions(base: Base, run: Run) -> dict[str, AgentDescription]:
    """The description of every agent of the base's run by `agent_key`; its files are those of its
    checkout, if any."""
    agent_descriptions = dict(run.descriptions)
    stored_agents = _stored_agents(base)
    for suite in run.suites:
        key, _ = stored_agents.get(suite.key, ("", {}))
        stored = base.stored.run.descriptions.get(key) if base.stored is not None else None
        for agent_key in (key, fingerprints.agent_key(suite.agent)):
            description = agent_descriptions.get(agent_key, AgentDescription())
            if stored is not None and not description.packages:
                agent_descriptions[agent_key] = dataclasses.replace(
                    stored, files=description.files or stored.files
                )
    return agent_descriptions


def _stored_agents(base: Base) -> dict[str, tuple[str, Mapping[str, str]]]:
    """The key and the environment of each agent in the stored results, by head's name of a
    suite."""
    if base.stored is None:
        return {}
    stored = base.stored.run
    head_keys = {base_key: head_key for head_key, base_key in base.project.renamed.items()}
    keys = {
        head_keys.get(suite.key, suite.key): fingerprints.agent_key(suite.agent)
        for suite in stored.suites
    }
    return {
        suite: (key, stored.agents.get(key, {}))
        for suite, key in keys.items()
        if suite in base.reusable
    }


def _other_environment(
    base_environment: Mapping[str, str], head_environment: Mapping[str, str], *, is_same: bool
) -> Iterator[str]:
    for name in history.ENVIRONMENT:
        base_text = base_environment.get(name, "")
        head_text = head_environment.get(name, "")
        if base_text and head_text and base_text != head_text:
            yield phrase("other_environment", is_same, name, base_text, head_text)
