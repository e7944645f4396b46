"""The base of the comparison: its commit, its checkout, its own files, and its stored results."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import field, replace
from pathlib import Path

from pydantic import ValidationError

from evalgate import agents as agents_module
from evalgate.agents import opening
from evalgate.config import load, places
from evalgate.config.context import Context
from evalgate.config.gate_file import AgentRule
from evalgate.config.settings import Settings, of_agents
from evalgate.criteria import judges
from evalgate.discovery import agents as discovery_agents, discover, dotenv, project
from evalgate.discovery.project import Project
from evalgate.discovery.walk import Tree
from evalgate.errors import (
    ConfigError,
    EvalgateError,
    NothingToDo,
    Place,
    Problem,
    UnavailableError,
    errors_in,
)
from evalgate.formats import fingerprints
from evalgate.model import (
    AgentDescription,
    AgentUse,
    BaseOrigin,
    BaseSource,
    CaseKey,
    CaseStatus,
    Policy,
    Suite,
    Suites,
    cases_of,
)
from evalgate.model.deviations import OURS
from evalgate.results import file, history
from evalgate.results.file import Stored
from evalgate.results.history import BaselineFolder
from evalgate.simulation import user
from evalgate.system import git
from evalgate.system.git import Complaint, GitFailed, Repository
from evalgate.text import words
from evalgate.values import Environ, Log, Sentence, Wording, frozen_dataclass


@frozen_dataclass
class BaseRules:
    """The requirements in the base's own files: suites with their criteria and cases, and the
    policy."""

    suites: Suites
    """Under head's names of their files."""
    policy: Policy
    """That of its evalgate.yml and the door."""
    unread: frozenset[str] = frozenset()
    """Suites with unreadable evaluation files, so their cases are unknown."""
    unruled: frozenset[str] = frozenset()
    """Suites whose criteria cannot be read completely."""
    errors: tuple[Problem, ...] = ()
    """In these files."""

    def is_empty(self) -> bool:
        """True if the rules are known to have no case."""
        return not self.unread and not any(suite.cases for suite in self.suites)


@frozen_dataclass
class BaseProject:
    """The content of the base's own files, by head's names of evaluation files."""

    settings: Settings | None = None
    """From its evalgate.yml and the door; None if unknown."""
    agents: Mapping[str, AgentUse] = field(default_factory=dict)
    """By suite; some are absent agents."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Its names of files by head's, if they differ."""
    rules: BaseRules | None = None
    """None if unknown, or if it has no evaluation file."""

    @property
    def suites(self) -> Mapping[str, Suite]:
        """Its suites by name; empty if unknown."""
        return {} if self.rules is None else {suite.key: suite for suite in self.rules.suites}

    def name_of(self, suite: str) -> str:
        """The base's own name of a suite."""
        return self.renamed.get(suite, suite)


@frozen_dataclass
class Base:
    """The base, before any measurement."""

    origin: BaseOrigin
    """Its source, its commit, and how that was found."""
    root: Path | None = None
    """Its code on disk; None if only results exist."""
    top: Path | None = None
    """The top of its checkout."""
    project: BaseProject = BaseProject()
    """Empty if its files are not known."""
    stored: Stored | None = None
    """Results, which stand in for runs; see `reused_suites`."""
    problem: Wording = ""
    """Why nothing can be compared."""
    no_agent: bool = False
    """True if it has no agent yet, or none of the cases that are run; this is not an error."""
    base_failed: bool = False
    """True if its own files are wrong; this is not the change's fault."""

    def with_results(self, stored: Stored, origin: BaseOrigin, *, root: Path | None) -> Base:
        """The base with stored results; its code runs if it has a `root`."""
        return Base(origin=origin, root=root, top=self.top, project=self.project, stored=stored)

    def agent_of(self, suite: str) -> AgentUse:
        """Its agent for a suite, by head's name; an absent one if it has none or is not run."""
        if self.root is None and self.stored is not None:
            return opening.absent(str(Sentence("base_not_stored_case")))
        return self.project.agents.get(suite) or opening.missing()

    def reused_suites(self, suites: Suites) -> frozenset[str]:
        """Of head's suites, those with stored results in place of runs: all of them if the base is
        not run, else those of agents behind a URL, which are the same on both sides."""
        if self.stored is None:
            return frozenset()
        stored_keys = {suite.key for suite in self.stored.run.suites}
        return frozenset(
            suite.key
            for suite in suites
            if self.root is None
            or (
                agents_module.is_remote(suite.agent)
                and self.project.name_of(suite.key) in stored_keys
            )
        )


@contextmanager
def open_bases(
    settings: Settings, suites: Suites, context: Context
) -> Iterator[tuple[Base | None, Base | None]]:
    """The base for comparing head's `suites` (None: no comparison), and the base with known rules.
    The rules of a pull request's base are always read: otherwise a change could choose a comparison
    without rules. A context manager.

    Errors of the base never raise; they are its `problem`. Raises ConfigError if results that the
    user named cannot be read, or are part of the change."""
    has_base = bool(settings.base or context.trigger.base)
    baseline = settings.baseline
    with ExitStack() as stack:
        rule_base = None
        # evalgate.yml is part of the change: the base's own `baseline` applies, or a change could
        # disable the comparison; head's applies if the base's is unknown
        is_shared = "baseline" not in settings.explicit_options and has_base and baseline != "auto"
        if is_shared or (
            (has_base or context.trigger.is_pull_request)
            and not _is_of_git(baseline, has_base=has_base)
        ):
            rule_base = _from_git(settings, suites, context, stack, baseline="rerun")
            baseline = _agreed(baseline, rule_base, context) if is_shared else baseline
        if baseline.startswith("file:"):
            base = _from_file(settings, context, baseline.removeprefix("file:"), rule_base)
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
    """The `baseline` that applies: the base's, if it is known."""
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


def _from_file(settings: Settings, context: Context, path: str, rule_base: Base | None) -> Base:
    """The base from a results file. `rule_base`: the base's commit, if known; its files are not
    run. Raises ConfigError if the file cannot be read, or if it is part of the commit in a pull
    request or in another CI that names the base."""
    # another CI has no event
    is_other_ci = not (context.is_attended or context.workflow_run) and rule_base is not None
    is_change = context.trigger.is_pull_request or is_other_ci
    if is_change and git.first_committed([settings.root / path], settings.root, context.environ):
        raise ConfigError(
            "is part of the commit, so a change cannot be compared with it",
            place=Place(path),
            hint="Download the results in an earlier step, or use `baseline: auto`.",
        )
    stored = file.read_results(settings.root / path, shown_as=path, of="the base")
    is_incomplete = settings.policy == "both" and rule_base is None
    origin = BaseOrigin(
        source=BaseSource.FILE,
        commit=stored.run.commit,
        measured_at=stored.run.started_at,
        notes=(Sentence("base_rules_incomplete"),) if is_incomplete else (),
    )
    return Base(
        origin=history.aged(origin, settings, context),
        project=BaseProject() if rule_base is None else rule_base.project,
        stored=stored,
    )


def _from_git(
    settings: Settings,
    suites: Suites,
    context: Context,
    stack: ExitStack,
    *,
    baseline: str,
) -> Base:
    """The base of a commit. `baseline`: store, rerun, or auto: a rerun, with stored results of
    agents that cannot be run again."""
    lines: list[str] = []

    def say(line: str) -> None:
        """Log a line, and keep it: the problem of results that are not stored quotes it."""
        lines.append(line)
        context.say(line)

    try:
        repo = stack.enter_context(
            git.open_repository(
                settings.root,
                environ=context.environ,
                token=context.trigger.token,
                under=context.cache / "bases",
            )
        )
        base = _checked_out(settings, suites, context, repo, stack)
        named_by = _settings_of_store(
            settings, base.project, of_change=context.trigger.is_pull_request
        )
        store = history.open_store(named_by, repo, say=say) if named_by.baseline_folder else None
    except EvalgateError as error:
        prefix = f"`{settings.base}`: " if settings.base else ""
        source = BaseSource.STORE if baseline == "store" else BaseSource.RERUN
        return Base(origin=BaseOrigin(source=source), problem=f"{prefix}{error.advice}")
    # agents behind a URL are the same on both sides
    has_remote = any(agents_module.is_remote(suite.agent) for suite in suites)
    if baseline == "rerun" or (baseline == "auto" and not has_remote):
        return base
    stored_side = (
        None if store is None else _of_today(settings, context, store, repo, base.origin, say=say)
    )
    if baseline == "store":
        unset_text = "" if lines else str(Sentence("base_folder_unset"))
        texts = (unset_text if store is None else store.name, *lines)
        searched_text = "; ".join(filter(None, texts))
        not_stored = Sentence("base_not_stored", base.origin.commit[:7], searched_text)
        return _only_stored(suites, base, stored_side, not_stored=not_stored)
    if stored_side is None or base.root is None:
        return base
    return base.with_results(*stored_side, root=base.root)


def _of_today(
    settings: Settings,
    context: Context,
    store: BaselineFolder,
    repo: Repository,
    origin: BaseOrigin,
    *,
    say: Log,
) -> tuple[Stored, BaseOrigin] | None:
    """The stored results of the commit of `origin`, and their origin; None if they are older than
    the last change of the provider, because another model produced them."""
    nearest = history.find(store, repo, origin.commit, say=say)
    if nearest is None:
        return None
    distance, stored_run, stored = nearest
    measured_at = stored.run.started_at or stored_run.saved_at
    drift_time = None
    with suppress(EvalgateError):  # the run reports a history that cannot be read
        drift_time = history.drifted_at(history.read_history(store))
    if drift_time is not None and history.moment(measured_at) < drift_time:
        say(
            f"the results of {stored_run.commit[:7]} were not used: "
            f"the provider's model changed after them, on {drift_time:%Y-%m-%d}"
        )
        return None
    stored_origin = origin.of_store(measured_at=measured_at, distance=distance)
    return stored, history.aged(stored_origin, settings, context)


def both_decide(head: Settings, base: Settings | None) -> bool:
    """True if the worse of both rule books counts: if either evalgate.yml sets it. Head's cannot
    revoke the base's."""
    return head.policy == "both" or (base is not None and base.policy == "both")


def _settings_of_store(head: Settings, base: BaseProject, *, of_change: bool) -> Settings:
    """Head's settings; in a pull request, and if the base's rules decide, with the base's store,
    because a change could prepare another one. If the base's is unknown, a pull request has only
    the store of its door."""
    if base.settings is None:
        folder = head.explicit_options.get("baseline_folder", "")
        return head.model_copy(update={"baseline_folder": folder}) if of_change else head
    if not (of_change or both_decide(head, base.settings)):
        return head
    return head.model_copy(update={"baseline_folder": base.settings.baseline_folder})


def _checked_out(
    settings: Settings,
    suites: Suites,
    context: Context,
    repo: Repository,
    stack: ExitStack,
) -> Base:
    """The base's code, its agents for head's suites, and its own rules. Raises GitFailed,
    UnavailableError if its commit is unknown."""
    origin = pick_base(
        repo, base=settings.base, event_base=context.trigger.base, environ=context.environ
    )
    try:
        checkout = stack.enter_context(checked_out(repo, origin.commit))
    except EvalgateError as error:
        is_new = isinstance(error, NoSuchFolder)
        problem: Wording = error.message if is_new else error.advice
        return Base(origin=origin, problem=problem, no_agent=is_new)
    context.say(f"base {origin.commit[:7]} ({origin.found_by}) checked out")
    origin = origin.with_notes(checkout.notes)
    try:
        base_project = read(settings, checkout.root, suites, context.environ)
        problem, no_agent = _problem(base_project, suites, checkout)
        is_agent_lost = (
            no_agent
            and settings.agent
            and base_project.settings is not None
            and not base_project.settings.agent
        )
        if is_agent_lost and (workflow := edited_workflow(checkout.root, settings.root)):
            problem = Sentence("base_agent_edited", settings.agent, workflow)
            no_agent = False
    except EvalgateError as error:
        return Base(
            origin=origin,
            top=checkout.tree,
            problem=Sentence("base_unreadable", error.advice),
            # only the base knows whose rules decide: if its own must, unknown rules block
            base_failed=settings.policy != "both",
        )
    if not problem:
        pairs = [(suite.agent, base_project.agents[suite.key]) for suite in suites]
        root, environ = checkout.root, context.environ
        for path in dotenv.lend(pairs, root=settings.root, base=root, environ=environ):
            context.say(
                f"the base's agent uses `{path}` of this checkout, because git does not track it"
            )
        pythons = opening.missing_pythons(
            (use for _, use in pairs), root=root, lender=settings.root, environ=environ
        )
        origin = origin.with_notes(
            Sentence("base_borrowed" if is_lent else "base_not_lent", name)
            for name, is_lent in pythons
        )
    return Base(
        origin=origin,
        root=None if problem else checkout.root,
        top=checkout.tree,
        project=base_project,
        problem=problem,
        no_agent=no_agent,
    )


def _problem(
    base_project: BaseProject, suites: Suites, checkout: BaseCheckout
) -> tuple[Wording, bool]:
    """Why the base cannot run, "" if it can; and True if that is not an error.

    A base that gates its own files does have an agent: otherwise a change could avoid the
    comparison by renaming all of its files and changing their questions."""
    if base_project.rules is not None and base_project.rules.is_empty():
        return Sentence("base_no_cases"), True
    uses = [base_project.agents[suite.key] for suite in suites]
    if not all(opening.is_missing(use) for use in uses):
        return "" if all(use.is_absent for use in uses) else checkout.problem, False
    files = tuple(key for key, suite in base_project.suites.items() if not is_unknown(suite.agent))
    return Sentence("base_no_agent", files), not files


def read(head: Settings, root: Path, suites: Sequence[Suite], environ: Environ) -> BaseProject:
    """The content of the base's files at `root`. Raises ConfigError if its evalgate.yml cannot be
    read, or has invalid values."""
    # head's door with the base's own evalgate.yml; a named file that the base lacks is ignored
    raw_settings = {
        **head.explicit_options,
        "root": str(root),
        "paths": [_within(head.root, path) for path in head.paths],
    }
    config = raw_settings.get("config")
    if config and not (root / str(config)).is_file():
        del raw_settings["config"]
    if agent := raw_settings.get("agent"):
        use = agents_module.rule_use(AgentRule.of_short_form(str(agent)))
        missing = discovery_agents.missing_of(use, root)
        if missing is not None:
            # the agent was moved or is new: the base names its own
            del raw_settings["agent"]
    settings = load.load_settings(raw_settings)
    if errors := errors_in(settings.problems):
        raise ConfigError(str(first_of(errors)))
    tree = Tree(root, exclude=settings.gate_file.exclude, is_base=True)
    rules, base_keys = _rules(settings, suites, environ, head=head.root, tree=tree)
    sets = {suite.key: suite.eval_set for suite in suites}
    choices, _ = discovery_agents.choose_agents(sets, gate_file=settings.gate_file, tree=tree)
    base_agents = {} if rules is None else {suite.key: suite.agent for suite in rules.suites}
    agents = {key: _usable(use) for key, use in base_agents.items()}
    for suite in suites:
        use = (base_agents if suite.key in base_keys else choices)[suite.key]
        agents[suite.key] = _usable(
            agents_module.with_defaults(use, settings), head_use=suite.agent
        )
    return BaseProject(settings=settings, agents=agents, rules=rules, renamed=base_keys)


def first_of(problems: Sequence[Problem]) -> Wording:
    """The first problem with its place, and the number of the others."""
    first_problem = problems[0]
    return Sentence(
        "first_problem", first_problem.place or "", first_problem.message, len(problems)
    )


def renames(base_suites: Sequence[Suite], head_suites: Sequence[Suite]) -> dict[str, str]:
    """The base's key for each of head's files that is a renamed file of the base: at least half of
    the base file's cases ask the same in it, and no other file shares more of them. Files of the
    same agent come first, then those whose agent has another name."""
    base_files, head_files = (
        {suite.key: suite for suite in suites} for suites in (base_suites, head_suites)
    )
    removed_files = {
        key: _questions(suite)
        for key, suite in base_files.items()
        if key not in head_files and suite.cases
    }
    base_keys: dict[str, str] = {}
    for is_of_agent in (True, False):
        for head_key, suite in head_files.items():
            if head_key in base_files or head_key in base_keys:
                continue
            questions = _questions(suite)
            overlaps = {
                key: len(questions & removed_questions)
                for key, removed_questions in removed_files.items()
                if not is_of_agent or base_files[key].agent.key == suite.agent.key
            }
            best_key = max(overlaps, key=overlaps.__getitem__, default="")
            if best_key and overlaps[best_key] * 2 >= len(removed_files[best_key]):
                base_keys[head_key] = best_key
                del removed_files[best_key]
    return base_keys


def under_head_names(suites: Iterable[Suite], renamed: Mapping[str, str]) -> Suites:
    """The base's suites by head's names of their files. `renamed`: see `BaseProject`."""
    names = {base_key: head_key for head_key, base_key in renamed.items()}
    return tuple(
        replace(suite, key=names[suite.key]) if suite.key in names else suite for suite in suites
    )


def _questions(suite: Suite) -> set[tuple[str, str]]:
    """The id and the question of each case, by which a renamed file is recognized."""
    return {(case.case_id, fingerprints.of_task(case, of_any_agent=True)) for case in suite.cases}


def _within(root: Path, path: str) -> str:
    """A selection for another checkout: an absolute path as relative to the top of this one."""
    name, colon, cases = path.partition(":")
    if not Path(name).is_absolute() or not Path(name).resolve().is_relative_to(root):
        return path
    return f"{Path(name).resolve().relative_to(root).as_posix()}{colon}{cases}"


def is_unknown(use: AgentUse) -> bool:
    """True if no agent was found."""
    return use.found_by == discovery_agents.UNKNOWN.found_by


def _usable(use: AgentUse, *, head_use: AgentUse | None = None) -> AgentUse:
    """The agent; an absent one if none was found, its options are invalid, or it is head's own
    (`head_use`): an endpoint has no second side."""
    if is_unknown(use):
        return opening.missing()
    if use.is_absent:
        return use
    if head_use is not None and agents_module.is_remote(use):
        driver = agents_module.DRIVERS[use.driver]
        if driver.is_same_place(use.options, head_use.options):
            return opening.absent(str(Sentence("base_one_endpoint", driver.label(use.options))))
    try:
        agents_module.options_of(use)
    except KeyError:
        return opening.absent(str(Sentence("base_unknown_driver", use.driver)), unusable=True)
    except ValidationError as error:
        first_error = error.errors()[0]
        location = ".".join(str(step) for step in first_error["loc"])
        problem = Sentence("base_driver_options", use.driver, location, words.fault(first_error))
        return opening.absent(str(problem), unusable=True)
    return use


def _rules(
    settings: Settings, head_suites: Sequence[Suite], environ: Environ, *, head: Path, tree: Tree
) -> tuple[BaseRules | None, Mapping[str, str]]:
    """The rules in the base's files, and the base's names of renamed files by head's.

    A door may select cases; files without a selected case still have rules if the change has other
    cases in them (`head_suites`) or moved them."""
    try:
        prepared = project.prepare(settings, environ=environ, tree=tree)
    except NothingToDo:
        prepared = Project(settings=settings, suites=(), problems=())
    prepared_suites = (*prepared.suites, *prepared.unread)
    base_keys = {suite.key for suite in prepared_suites}
    missing_suites = [suite for suite in head_suites if suite.key not in base_keys]
    unselected = (
        _unselected(settings, missing_suites, head=head, tree=tree)
        if settings.paths or settings.grep
        else None
    )
    if not base_keys and unselected is None:
        return None, {}
    unselected_suites, more_problems = unselected or ((), ())
    # errors about head's selection, or about agents, do not concern the rules in the files
    selection_codes = {*discover.CODES, *discovery_agents.CODES}
    errors = tuple(
        problem
        for problem in errors_in((*prepared.of_files, *more_problems))
        if problem.code not in selection_codes
    )
    faulty_files = {error.place.file for error in errors if error.place is not None}
    suites = sorted((*prepared_suites, *unselected_suites), key=lambda suite: suite.key)
    renamed = renames(suites, head_suites) if missing_suites else {}
    head_named_suites = under_head_names(suites, renamed) if renamed else tuple(suites)
    unruled_keys = frozenset(
        suite.key for suite in head_named_suites if suite.criteria_source.file in faulty_files
    )
    rules = BaseRules(
        suites=head_named_suites,
        policy=load.policy_of(settings, head_named_suites, renamed=renamed),
        unread=frozenset(suite.key for suite in prepared.unread),
        unruled=unruled_keys,
        errors=errors,
    )
    return rules, renamed


def _unselected(
    settings: Settings, head_suites: Sequence[Suite], *, head: Path, tree: Tree
) -> tuple[Suites, tuple[Problem, ...]] | None:
    """The base's files for `head_suites`, and problems of their criteria.

    Files with the same names have no cases, and the base's rules for head's. Files that are missing
    at `head`, and have another name there, are included. None if there is no evaluation file at
    all."""
    try:
        unselected = settings.with_options(paths=(), grep="")
        discovery = discover.discover(unselected, tree=tree)
    except NothingToDo:
        return None
    eval_sets = {suite.key: suite.eval_set for suite in head_suites}
    removed_suites = [
        suite
        for suite in discovery.suites
        if suite.key not in eval_sets and not (head / suite.key).exists()
    ]
    moved_keys = frozenset(renames(removed_suites, head_suites).values())
    # the effect of simulated users on criteria counts if head's cases have some
    requested_suites: list[Suite] = []
    for suite in discovery.suites:
        if suite.key in eval_sets or suite.key in moved_keys:
            base_suite = suite.with_agent(agents_module.with_defaults(suite.agent, settings))
            if user.has_scenarios(suite) and suite.key in eval_sets:
                base_suite = base_suite.with_cases(eval_sets[suite.key].cases)
            requested_suites.append(user.settle(base_suite, settings))
    settled_suites = judges.settle_suites(requested_suites, judges.defaults_of(settings))
    unselected_suites = tuple(
        suite.with_cases(()) if suite.key in eval_sets else suite for suite in settled_suites
    )
    files = {suite.criteria_source.file for suite in unselected_suites}
    problems = tuple(
        problem
        for problem in discovery.problems
        if problem.place is not None and problem.place.file in files
    )
    return unselected_suites, problems


def _only_stored(
    suites: Suites,
    base: Base,
    stored_side: tuple[Stored, BaseOrigin] | None,
    *,
    not_stored: Wording,
) -> Base:
    """A base that is not run; its own rules are known if it was checked out. Stored results do not
    replace unreadable rules, and do not have cases that the base lacks."""
    project = base.project
    is_unread = project.settings is None
    # an error of the base also concerns its stored results; results of an agent that is not among
    # the base's files can still be compared
    if stored_side is not None and not (base.problem and is_unread):
        stored, origin = stored_side
        is_empty = project.rules is not None and project.rules.is_empty()
        stored_keys = {suite.key for suite in stored.run.suites}
        has_results = any(project.name_of(suite.key) in stored_keys for suite in suites)
        if not base.problem or (has_results and not is_empty):
            return base.with_results(stored, origin, root=None)
    return Base(
        origin=base.origin.of_store(),
        project=project,
        problem=base.problem if stored_side is not None or is_unread else not_stored,
        no_agent=base.no_agent,
        base_failed=base.base_failed and is_unread,
    )


def is_same_use(suite: Suite, base: Base, settings: Settings) -> bool:
    """True if both sides name the same agent, in the same environment, with the same settings;
    never for an agent behind a URL."""
    head_agent = suite.agent
    base_settings = base.project.settings
    if (
        base_settings is None
        or base.top is None
        or head_agent.is_absent
        or agents_module.is_remote(head_agent)
    ):
        return False
    return (
        head_agent.key == base.agent_of(suite.key).key
        and of_agents(settings) == of_agents(base_settings)
        and _needs(head_agent, settings.root) == _needs(head_agent, base_settings.root)
    )


def _needs(use: AgentUse, root: Path) -> str:
    """The requirements of the agent's environment, as text."""
    needs = agents_module.needs_of(use, root)
    return "" if needs is None else f"{root if needs.is_local else ''}{needs.text}"


def with_agents(suites: Suites, base: Base) -> Suites:
    """Head's suites, with the base's agents."""
    return tuple(
        suite if suite.problem else suite.with_agent(base.agent_of(suite.key)) for suite in suites
    )


def new_cases(suites: Suites, base: Base) -> list[CaseKey]:
    """Cases that cannot have become worse: the base's files do not have them, or it has no agent
    for their suite.

    If the base has no evaluation file at all, or an unreadable one, its agent can still run these
    cases, so they are not included."""
    rules = base.project.rules
    base_cases = _base_cases(base)
    keys = {suite.key for suite in suites}
    unknown_keys: Collection[str] = () if base_cases else keys
    if rules is not None:
        # an unreadable file may be the suite of its own name or, if head no longer has it, any
        is_lost = not rules.unread <= keys
        unread_keys = keys if is_lost else rules.unread
        unknown_keys = unread_keys - {key for key, _ in base_cases}
    lacking_keys = {
        key for key in keys if base.root is not None and opening.is_missing(base.agent_of(key))
    }
    return [
        case
        for case in cases_of(suites)
        if case[0] in lacking_keys or (case not in base_cases and case[0] not in unknown_keys)
    ]


def _base_cases(base: Base) -> set[CaseKey]:
    """The base's cases under head's names of their files; empty if unknown."""
    if base.project.rules is not None or base.root is not None:
        return {*cases_of(base.project.suites.values())}
    suites = () if base.stored is None else base.stored.run.suites
    return {*cases_of(under_head_names(suites, base.project.renamed))}


def unpaired(base: Base, suites: Suites, *, plan: Sequence[Suite]) -> dict[CaseKey, CaseStatus]:
    """New and removed cases. `suites`: head's, on this machine; `plan`: all measured suites, here
    or elsewhere."""
    unreadable_suites = {suite.key for suite in plan if suite.problem}
    removed_cases = sorted(
        key for key in _base_cases(base) - cases_of(plan).keys() if key[0] not in unreadable_suites
    )
    return dict.fromkeys(removed_cases, CaseStatus.REMOVED) | dict.fromkeys(
        new_cases(suites, base), CaseStatus.NEW
    )


def edited(base: Base, suites: Suites, unchanged: Collection[str]) -> tuple[CaseKey, ...]:
    """Cases in the suites `unchanged`, whose agent is the same on both sides, that the change adds
    or edits (the question, the expectation or a requirement)."""
    case_keys: list[CaseKey] = []
    for suite in (suite for suite in suites if suite.key in unchanged):
        base_suite = base.project.suites.get(suite.key)
        contents = {}
        if base_suite is not None and _required(base_suite) == _required(suite):
            contents = {case.case_id: fingerprints.of_case(case) for case in base_suite.cases}
        case_keys += [
            (suite.key, case.case_id)
            for case in suite.cases
            if contents.get(case.case_id) != fingerprints.of_case(case)
        ]
    return tuple(case_keys)


def _required(suite: Suite) -> dict[str, tuple[str, float | None]]:
    """By criterion: a fingerprint of its options, and its threshold."""
    return {
        use.name: (fingerprints.of_criterion(use, version="", deviations=OURS), use.threshold)
        for use in suite.criteria
    }


def stored_agents(
    base: Base, suites: Suites
) -> Mapping[str, tuple[Mapping[str, str], AgentDescription | None]]:
    """The environments and the descriptions of agents in the stored results, as far as these stand
    in for runs of head's `suites`: by the key of the stored agent, and by that of the base's."""
    if base.stored is None:
        return {}
    run = base.stored.run
    stored_keys = {
        suite.key: suite.agent.key for suite in under_head_names(run.suites, base.project.renamed)
    }
    reused_keys = base.reused_suites(suites)
    agents: dict[str, tuple[Mapping[str, str], AgentDescription | None]] = {}
    for key in (suite.key for suite in suites if suite.key in reused_keys & stored_keys.keys()):
        environment = run.agents.get(stored_keys[key], {})
        description = run.descriptions.get(stored_keys[key])
        # all suites of a base that is not run have one absent agent: the first that is known counts
        for agent_key in (stored_keys[key], base.agent_of(key).key):
            known_environment, known = agents.get(agent_key, ({}, None))
            agents[agent_key] = (known_environment or environment, known or description)
    return agents


# --- its commit -----------------------------------------------------------------------------------
# it is fetched if the repository lacks it, and checked out in a private folder, outside the user's
# working tree, until the block ends


DEEPENING = (50, 500, 5000)
"""Numbers of commits that are fetched, step by step, until base and head have a common ancestor."""


def pick_base(repo: Repository, *, base: str, event_base: str, environ: Environ) -> BaseOrigin:
    """The base of the checked out commit, fetched if the repository lacks it. It is found by
    `merge-base` of the base branch and head, `base` (the tip of the base branch, if there is no
    merge base; a note has the reason), or `given` (a commit or tag that the user named).

    `base`: a SHA or tag, used directly, or a branch, whose merge base with it is used. Otherwise,
    if it is GitHub's test merge, its first parent. Otherwise the merge base with `event_base`, a
    SHA of the event, or locally with the remote's default branch. The text of a commit never
    decides, because its author could choose the base. Raises GitFailed, UnavailableError."""
    head_sha = repo.resolve(repo.head) if repo.head else None
    if head_sha is None:
        raise UnavailableError("the repository has no commit yet", hint="Make a first commit.")
    if base:
        return _base_commit(repo, base, head=head_sha)
    # zeros: the push created the branch
    event_base = event_base if git.is_full_sha(event_base) else ""
    # the real parents, even if a shallow clone lacks them
    parents = parents_in(repo.run_bytes("cat-file", "commit", head_sha))
    # the runner reports if head is GitHub's test merge
    is_merge_ref = re.fullmatch(r"refs/pull/\d+/merge", environ.get("GITHUB_REF", "")) is not None
    is_tested = is_merge_ref and environ.get("GITHUB_SHA") == head_sha and len(parents) == 2
    if is_tested or event_base in parents:
        base_parent = parents[0] if is_tested else event_base
        _ensure(repo, base_parent)
        return _origin(base_parent, "merge-base")
    if event_base:
        _ensure_of_event(repo, event_base)
        return _merge_base(repo, event_base, head=head_sha)
    name = _default_branch(repo)
    tip = _local_branch(repo, name, head=head_sha) or _fetched(repo, f"refs/heads/{name}")
    if tip is None:
        raise GitFailed(
            command="git fetch",
            words=f"the remote has no branch {name!r}",
            complaint=Complaint.MISSING,
        )
    return _merge_base(repo, tip, head=head_sha)


def parents_in(content: bytes) -> tuple[str, ...]:
    """The parents in a commit object."""
    head = content.decode("utf-8", "replace").partition("\n\n")[0]
    return tuple(
        line.removeprefix("parent ") for line in head.splitlines() if line.startswith("parent ")
    )


def _base_commit(repo: Repository, base: str, *, head: str) -> BaseOrigin:
    """The base that the user names: a branch, else a commit, else the remote's branch or tag.
    Raises GitFailed."""
    branch = _local_branch(repo, base, head=head)
    if branch:
        return _merge_base(repo, branch, head=head)
    sha = repo.resolve(base)
    if sha:
        return _origin(sha, "given")
    if git.is_full_sha(base):
        _ensure(repo, base)
        return _origin(base, "given")
    if tip := _fetched(repo, f"refs/heads/{base}"):
        return _merge_base(repo, tip, head=head)
    if tip := _fetched(repo, f"refs/tags/{base}"):
        return _origin(tip, "given")
    raise GitFailed(
        command="git fetch",
        words=f"neither the checkout nor the remote has a branch, tag or commit {base!r}",
        complaint=Complaint.MISSING,
        hint="Set `base` to a branch, a tag or a full commit SHA.",
    )


def _local_branch(repo: Repository, name: str, *, head: str) -> str | None:
    """The tip of a branch that this repository knows: the remote's, except if the local one shares
    more with `head`, as with commits that were not pushed."""
    remote = repo.remote.name or "origin"
    branch = name.removeprefix(f"{remote}/")
    if branch != name:
        return repo.resolve(f"refs/remotes/{remote}/{branch}")
    tips = [repo.resolve(f"refs/{place}/{name}") for place in (f"remotes/{remote}", "heads")]
    if tips[0] and tips[1] and tips[0] != tips[1]:
        remote_commit, local_commit = (_find_merge_base(repo, tip, head) for tip in tips if tip)
        if (
            remote_commit
            and local_commit
            and remote_commit != local_commit
            and _find_merge_base(repo, remote_commit, local_commit) == remote_commit
        ):
            return tips[1]
    return tips[0] or tips[1]


def _default_branch(repo: Repository) -> str:
    """The remote's default branch: by the refs of the clone, else from the remote, else the usual
    name."""
    remote = repo.remote.name
    if not remote:
        for name in ("main", "master"):
            if repo.resolve(f"refs/heads/{name}"):
                return name
        raise UnavailableError(
            "nothing to compare with: no base commit is set, and the repository has no remote",
            hint="Set `base`: a branch, a tag or a commit.",
        )
    pointer = repo.source.common_dir / "refs" / "remotes" / remote / "HEAD"
    if pointer.is_file():
        text = pointer.read_text(encoding="utf-8", errors="replace").strip()
        prefix = f"ref: refs/remotes/{remote}/"
        if text.startswith(prefix):
            return text.removeprefix(prefix)
    output = repo.run_with_remote("ls-remote", "--symref", "origin", "HEAD").decode(
        "utf-8", "replace"
    )
    match = re.search(r"^ref: refs/heads/(\S+)\tHEAD$", output, re.MULTILINE)
    return match[1] if match else "main"


def _merge_base(repo: Repository, tip: str, *, head: str) -> BaseOrigin:
    """The merge base of `head` and `tip`, which the repository has, with history fetched as needed;
    `tip` with a note if none is found."""
    merge_base = _find_merge_base(repo, tip, head)
    fetched_depth = 0
    error_text = ""
    for depth in DEEPENING:
        if merge_base or not repo.is_shallow:
            break
        try:
            _fetch_history(repo, tip, head, depth)
        except GitFailed as error:
            error_text = error.words.splitlines()[-1]
            break
        merge_base = _find_merge_base(repo, tip, head)
        fetched_depth = depth
    if merge_base:
        return _origin(merge_base, "merge-base")
    return _origin(tip, "base", Sentence("base_tip", fetched_depth, error_text))


def _origin(commit: str, found_by: str, *notes: Wording) -> BaseOrigin:
    """The base at a commit; it is in the repository, and can be checked out."""
    return BaseOrigin(source=BaseSource.RERUN, commit=commit, found_by=found_by, notes=notes)


def _find_merge_base(repo: Repository, tip: str, head: str) -> str | None:
    """By the history that the repository has; None if it shows none. Raises GitFailed if git is
    missing or too slow."""
    try:
        return repo.run("merge-base", tip, head) or None
    except GitFailed as error:
        if error.complaint in {Complaint.TIMEOUT, Complaint.NO_GIT}:
            raise
        return None


def _fetch_history(repo: Repository, tip: str, head: str, depth: int) -> None:
    """Fetch `depth` commits of both; of `tip` alone if the remote does not know `head`. Raises
    GitFailed."""
    try:
        repo.fetch(tip, head, depth=depth)
    except GitFailed as error:
        if error.complaint is not Complaint.MISSING:
            raise
        repo.fetch(tip, deepen=depth)  # head was never pushed


def _ensure(repo: Repository, sha: str) -> None:
    """Fetch the commit if the repository lacks it. Raises GitFailed."""
    if not git.is_full_sha(sha) or repo.resolve(sha) != sha:
        repo.fetch(sha, depth=1 if repo.is_shallow else None)


def _ensure_of_event(repo: Repository, sha: str) -> None:
    """Fetch the commit of an event, which a force push may have removed. Raises GitFailed."""
    try:
        _ensure(repo, sha)
    except GitFailed as error:
        if error.complaint is not Complaint.MISSING or not repo.remote.url:
            raise
        raise GitFailed(
            command="git fetch",
            words=f"the remote no longer has {sha[:12]}, the base commit of the event: history was rewritten",
            complaint=Complaint.MISSING,
            hint="Set `base` to a branch; the next push or pull request has a base again.",
        ) from error


def _fetched(repo: Repository, name: str) -> str | None:
    """Fetch the commit of a ref of the remote; None if the remote has no such ref. Raises
    GitFailed."""
    try:
        repo.fetch(name, depth=1 if repo.is_shallow else None)
    except GitFailed as error:
        if error.complaint is Complaint.MISSING and "couldn't find remote ref" in error.words:
            return None
        raise
    return repo.resolve(f"refs/evalgate/fetched/{name.removeprefix('refs/')}")


# --- its checkout --------------------------------------------------------------------------------


LONGEST_POINTER = 1024
"""In bytes, by the specification of Git LFS."""
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:[0-9a-f]{64}\nsize \d+\n"
)
"""The beginning of a pointer; lines of extensions may stand before its hash."""
_LINK = "120000"
"""The mode of a symbolic link in git's index."""
_SUBMODULE = "160000"
"""The mode of a submodule in git's index."""


@frozen_dataclass
class BaseCheckout:
    """A commit on disk."""

    tree: Path
    """Its top."""
    root: Path
    """The folder in it that corresponds to evalgate's root."""
    notes: tuple[Wording, ...]
    """Missing parts and differences from the user's checkout (submodules, LFS files, links that
    lead outside), one sentence each."""
    problem: Wording
    """Why an agent here cannot be compared with one in the user's checkout; "" if it can."""


class NoSuchFolder(UnavailableError):  # noqa: N818 - named after the problem
    """The commit does not have the folder that is evalgate's root."""


@contextmanager
def checked_out(repo: Repository, sha: str) -> Iterator[BaseCheckout]:
    """The tree of `sha`. A context manager. Raises GitFailed, NoSuchFolder.

    Untracked files (`.env`, `node_modules`), submodules and LFS files are missing."""
    tree = Path(tempfile.mkdtemp(prefix="tree-", dir=repo.folder))
    try:
        # a partial clone fetches contents on demand
        run = repo.run_with_remote if repo.remote.partial else repo.run
        run("worktree", "add", "--quiet", "--detach", "--force", str(tree), sha)
        root = tree / repo.prefix
        if not root.is_dir():
            raise NoSuchFolder(
                f"the base commit {sha[:12]} has no folder {repo.prefix}",
                hint="The base cannot run; only thresholds apply.",
            )
        entries = [
            (entry[:6], entry.partition("\t")[2]) for entry in _listed(repo, tree, "--stage")
        ]
        links = [name for mode, name in entries if mode == _LINK]
        # the empty folders of submodules; submodules outside a sparse checkout have none
        submodules = [
            name for mode, name in entries if mode == _SUBMODULE and (tree / name).is_dir()
        ]
        # the files that are Git LFS pointers in the checkout; no LFS filter runs
        files = [
            name
            for name in _listed(repo, tree, "--", ":(attr:filter=lfs)")
            if is_pointer(tree / name)
        ]
        missing_files = [
            name for name in (*submodules, *files) if _is_filled(repo.source.working_tree / name)
        ]
        notes = (
            Sentence("base_lacks_files", "submodule", submodules),
            Sentence("base_lacks_files", "Git LFS file", files),
            Sentence("base_links_out", sorted(_links_out(tree, links)) if links else []),
        )
        yield BaseCheckout(
            tree=tree,
            root=root,
            notes=tuple(note for note in notes if note.facts[-1]),
            problem=Sentence("base_checkout_differs", missing_files) if missing_files else "",
        )
    finally:
        git.remove_folder(tree)
        with suppress(GitFailed):
            repo.run("worktree", "prune")


@contextmanager
def with_files(tree: Path, root: Path, head: Path, names: Iterable[str]) -> Iterator[Path]:
    """A copy of the checkout at `tree`, with the files `names` of `head`, which corresponds to
    `root` in it. Yields the copy of `root`. A context manager. Raises OSError.

    A file behind a link of the change is not copied."""
    copy = Path(tempfile.mkdtemp(prefix="tree-", dir=tree.parent))
    try:
        shutil.copytree(tree, copy, symlinks=True, dirs_exist_ok=True)
        copied_root = copy / root.relative_to(tree)
        for name in names:
            target = copied_root / name
            is_outside = not target.parent.resolve().is_relative_to(copy.resolve())
            if (
                is_outside
                or places.refusal_reason(head, name, trusted=True)
                or not (head / name).is_file()
            ):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            shutil.copyfile(head / name, target)
        yield copied_root
    finally:
        git.remove_folder(copy)


def edited_workflow(root: Path, head: Path) -> str:
    """A workflow of the base that runs evalgate and that head edits or removes; "" if there is
    none.

    `root`, `head`: the same folder of both checkouts. Workflows set inputs, so the change may have
    chosen their values."""
    base_top = next(
        (parent for parent in (root, *root.parents) if (parent / ".git").exists()), root
    )
    top = head.joinpath(*[".."] * len(root.relative_to(base_top).parts))
    for path in sorted((base_top / ".github" / "workflows").glob("*.y*ml")):
        name = path.relative_to(base_top).as_posix()
        if b"evalgate" in path.read_bytes() and differs(name, base_top, top):
            return name
    return ""


def differs(path: str, root: Path, head: Path) -> bool:
    """True if two checkouts do not both have the same file."""
    base_file = root / path
    head_file = head / path
    return not (
        base_file.is_file()
        and head_file.is_file()
        and base_file.read_bytes() == head_file.read_bytes()
    )


def _listed(repo: Repository, tree: Path, *arguments: str) -> list[str]:
    """Lines of `git ls-files` for a checkout; `-z`, as git quotes odd names otherwise."""
    output = repo.git.run("ls-files", "-z", *arguments, cwd=str(tree))
    return [entry for entry in output.decode("utf-8", "surrogateescape").split("\0") if entry]


def is_pointer(path: Path) -> bool:
    """True if the file is a Git LFS pointer, which replaces the file itself."""
    try:
        return (
            not path.is_symlink()
            and path.stat().st_size <= LONGEST_POINTER
            and _POINTER.match(path.read_bytes()) is not None
        )
    except OSError:
        return False


def _is_filled(path: Path) -> bool:
    """True if the user's checkout has the content at `path` that the base's lacks."""
    try:
        return any(path.iterdir()) if path.is_dir() else path.is_file() and not is_pointer(path)
    except OSError:
        return False


def _links_out(tree: Path, links: Iterable[str]) -> Iterator[str]:
    """The symbolic links that point out of `tree`, and so not to the base's files."""
    top = os.path.realpath(tree)
    for name in links:
        path = Path(top, name)
        if path.is_symlink():
            target = os.path.normpath(path.parent / path.readlink())
            if target != top and not target.startswith(top + os.sep):
                yield name
