"""Head compared with the base, and the cause of failures of the base's agent: its own, or possibly
the change.

Failures that the change may have caused are not measured, and block: otherwise a change could end
the comparison by breaking the base. The change can cause failures of the base's agent if it edits
its environment, its limits or its questions."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from evalgate import agents, config
from evalgate.agents import opening, toolbox, worker_process
from evalgate.agents.base import ToolMode, folder_of
from evalgate.comparison import compare as comparison_compare, pairing
from evalgate.comparison.book import Sides
from evalgate.config import Trait, settings as config_settings
from evalgate.config.settings import Settings
from evalgate.discovery import agents as discovery_agents
from evalgate.formats import fingerprints
from evalgate.model import (
    AgentFailure,
    AgentUse,
    BaseOrigin,
    BaseSource,
    CaseKey,
    CaseStatus,
    Comparison,
    FailureKind,
    GradedTrial,
    Policy,
    RuleBook,
    Run,
    Suite,
    Suites,
    TrialKey,
)
from evalgate.values import Sentence, Wording
from . import base as baseline_base
from .base import Base, BaseProject

STARTING = frozenset({FailureKind.INSTALL, FailureKind.START})
"""Failures before any question."""
ANSWERING = frozenset({
    FailureKind.RAISED, FailureKind.MODEL_ERROR, FailureKind.UNAUTHORIZED, FailureKind.TIMEOUT, FailureKind.EXITED,
    FailureKind.FLOODED, FailureKind.PROTOCOL,
})  # fmt: skip
"""Failures with a question. All others come from a provider, a recording, a simulated user or a
signal, and may have any cause."""

REACHING = config.names_with(Settings, Trait.AGENT)
"""Settings that affect an agent. A door's values are the same on both sides."""

_SHARED = re.compile(
    r"Errno (?:11|12|24|28|98)\b|Address already in use|No space left|MemoryError|can't start new thread",
    re.IGNORECASE,
)
"""Errors of resources that both sides share: ports, the disk, memory, processes."""

DEPENDENCIES = re.compile(
    r"(requirements|constraints)[^/]*\.(txt|in)|pyproject\.toml|setup\.(py|cfg)|Pipfile|[^/]*[.-]lock(\.json|b)?|"
    r"environment\.ya?ml|package\.json|pnpm-lock\.yaml|go\.(mod|sum)|Cargo\.toml|Gemfile|Dockerfile[^/]*"
)
"""Names of files that list dependencies."""

_PACKAGE = re.compile(r"pyproject\.toml|setup\.(py|cfg)")
"""Names of files at the top of a package that can be installed."""


def causes_of(
    trials: Iterable[GradedTrial],
    base: Base,
    *,
    settings: Settings,
    suites: Suites,
    base_suites: Suites,
) -> Mapping[TrialKey, Wording | None]:
    """For each failed trial of the base, the part of the change that may have caused the failure:
    "" if it is the base agent's own, None if it is unknown. `settings`: of both sides; `suites`:
    head's; `base_suites`: the base's, with its agents."""
    failures = {trial.key: trial.failure for trial in trials if trial.failure is not None}
    root = base.root
    if root is None or base.project.settings is None or not failures:
        return {}
    causes = _Causes(
        root, base.project, base.project.settings, settings, head=suites, base_suites=base_suites
    )
    return {key: causes.of(failure, key) for key, failure in failures.items()}


class _Causes:
    """Parts of the change that may have made the base's agent fail, in words. `base_suites`: the
    base's suites with its agents."""

    def __init__(
        self,
        root: Path,
        project: BaseProject,
        base_settings: Settings,
        settings: Settings,
        *,
        head: Suites,
        base_suites: Suites,
    ) -> None:
        """Looks for an edited workflow once; environments are compared when a failure asks for
        it. `root`: of the base's checkout; `settings`: of both sides."""
        self._root = root
        self._project = project
        self._base_settings = base_settings
        self._settings = settings
        self._head, self._own = (
            {suite.key: suite for suite in suites} for suites in (head, base_suites)
        )
        self._environments: dict[tuple[str, str], Wording] = {}
        """By the keys of the base's and head's agents: the difference of their environments, if
        any."""
        self._workflow = baseline_base.edited_workflow(root, settings.root)
        """A workflow that the change edits, and that may set inputs; empty if there is none."""

    def of(self, failure: AgentFailure, key: TrialKey) -> Wording | None:
        """The cause of one failure: "" if it is the base's own, None if it is unknown."""
        suite = self._own[key.suite]
        if suite.agent.is_absent:
            return "" if suite.agent.options.get("unusable") else None
        if failure.kind not in STARTING | ANSWERING or _SHARED.search(
            f"{failure.message}\n{failure.detail}"
        ):
            return None
        head = self._head.get(key.suite)
        head_agent = None if head is None else head.agent
        agent_keys = (suite.agent.key, "" if head_agent is None else head_agent.key)
        if agent_keys not in self._environments:
            self._environments[agent_keys] = self._environment(suite.agent, head_agent)
        if environment := self._environments[agent_keys]:
            return environment
        if failure.kind in ANSWERING and not self._is_own_question(suite, key.case_id):
            return Sentence("cause_questions")
        inputs = [
            config_settings.input_name(name)
            for name in REACHING
            if name in self._settings.explicit_options
        ]
        if inputs and self._workflow:
            return Sentence("cause_workflow", inputs, self._workflow)
        return next(self._narrowed(failure), "")

    def _is_own_question(self, suite: Suite, case_id: str) -> bool:
        """True if the base's own file has the same question; also if it has no file, or an
        unreadable one, because then the change cannot have replaced the question."""
        rules = self._project.rules
        if rules is None or suite.key in rules.unread:
            return True
        base_suite = self._project.suites.get(suite.key)
        if base_suite is None:
            return False
        run_tasks, base_tasks = (
            [
                fingerprints.of_task(case, simulator=side.simulator)
                for case in side.cases
                if case.case_id == case_id
            ]
            for side in (suite, base_suite)
        )
        return run_tasks == base_tasks

    def _narrowed(self, failure: AgentFailure) -> Iterator[Wording]:
        """The settings of this change that may have caused the failure, each in words."""
        head_settings = self._settings
        base_settings = self._base_settings
        failure_text = f"{failure.message}\n{failure.detail}"
        lost_names = [name for name in base_settings.env if name not in head_settings.env]
        if lost_names:
            yield Sentence("cause_variables", lost_names)
        is_timeout = failure.kind is FailureKind.TIMEOUT
        is_possible = {
            "turn_timeout": is_timeout,
            "case_timeout": is_timeout,
            "start_timeout": worker_process.NOT_READY in failure.message,
            "max_output": failure.kind is FailureKind.FLOODED,
            "memory": "memory" in failure_text.lower() or failure.kind is FailureKind.EXITED,
            "isolation": failure.kind in ANSWERING,
            "concurrency": is_timeout,
        }
        for name in (name for name, possible in is_possible.items() if possible):
            head_value = getattr(head_settings, name)
            base_value = getattr(base_settings, name)
            if name == "isolation":
                is_tighter = head_value != base_value
            elif name == "concurrency":
                is_tighter = head_value > base_value
            else:
                is_tighter = head_value and (head_value < base_value or not base_value)
            if is_tighter:
                texts = [
                    f"{setting:g}" if isinstance(setting, int | float) else setting
                    for setting in (head_value, base_value or "")
                ]
                yield Sentence("cause_limit", config_settings.input_name(name), *texts)
        if failure.kind in ANSWERING or "`tools: " in failure_text:
            rule = head_settings.gate_file.tools
            files = list(filter(None, (rule.mocks, rule.cassettes)))
            digests = {toolbox.digest(root, files) for root in (self._root, head_settings.root)}
            if rule != base_settings.gate_file.tools or (
                toolbox.mode_of(head_settings) is not ToolMode.LIVE and len(digests) > 1
            ):
                yield Sentence("cause_tools")

    def _environment(self, use: AgentUse, head_agent: AgentUse | None) -> Wording:
        """The part of the base agent's environment that may be head's; "" if it has its own.
        `head_agent`: head's agent."""
        root = self._root
        lender = self._settings.root
        if interpreter := opening.missing_python(use, root=root, lender=lender):
            return Sentence("cause_environment", interpreter.relative_to(lender))
        if agents.needs_of(use, root):  # its checkout builds its environment
            return ""
        is_shared = head_agent is None or not agents.needs_of(head_agent, lender)
        changed_file = next(
            _changed(root, lender, base_folders=_import_folders(use, root), is_shared=is_shared), ""
        )
        return Sentence("cause_shared", changed_file) if changed_file else ""


def _import_folders(use: AgentUse, root: Path) -> frozenset[str]:
    """The folders that an agent's Python, and its program, search before installed packages; "" is
    the root."""
    folders = [root, folder_of(use.options, root)]
    command = use.options.get("command", ())
    for word in shlex.split(command) if isinstance(command, str) else command:
        program = Path(os.path.normpath(root / str(use.options.get("cwd", ".")) / str(word)))
        folders += [program.parent] if program.is_file() and program.is_relative_to(root) else []
    return frozenset(
        f"{folder.relative_to(root).as_posix()}/".removeprefix("./") for folder in folders
    )


def _changed(
    root: Path, head: Path, *, base_folders: Collection[str], is_shared: bool
) -> Iterator[str]:
    """Files that decide the content of a common environment, and that differ between the sides.

    Files that list dependencies come first, then the code of packages in the checkout, because
    head's packages may be installed there.

    `base_folders`: folders in which the base's agent finds modules of its checkout. `is_shared`:
    head's agent runs in that environment too. A change that adds the first list of dependencies
    breaks nothing."""
    base_files, head_files = (
        dict.fromkeys(discovery_agents.code_files(checkout)) for checkout in (root, head)
    )
    dependency_files = requirements_in(base_files)
    yield from (path for path in dependency_files if baseline_base.differs(path, root, head))
    if not is_shared:
        return
    if dependency_files:
        yield from requirements_in(path for path in head_files if path not in base_files)
    package_files = (path.rpartition("/") for path in dependency_files)
    tops = sorted({folder for folder, _, name in package_files if _PACKAGE.fullmatch(name)})
    for top in (f"{name}/".removeprefix("/") for name in tops):
        folder = f"{top}src/" if (root / top / "src").is_dir() else top
        if any(base_folder.startswith(folder) for base_folder in base_folders):
            continue
        for path in {**base_files, **head_files}:
            if path.startswith(folder) and baseline_base.differs(path, root, head):
                yield path


def requirements_in(paths: Iterable[str]) -> list[str]:
    """The files that list dependencies."""
    return [path for path in paths if DEPENDENCIES.fullmatch(path.rpartition("/")[2])]


# --- head beside base -----------------------------------------------------------------------------


def recorded_of(head: Run) -> frozenset[str]:
    """The suites whose agent is a recording, so that outcomes are exact."""
    return frozenset(suite.key for suite in head.suites if not agents.is_asked(suite.agent))


def sides_of(
    head: Run,
    base: Run | None,
    comparison: Comparison | None,
    *,
    policy: Policy,
) -> Sides:
    """The sides of results. `comparison`: that of their run, if it had a base."""
    unpaired = {
        case.key: case.status
        for case in (comparison.cases if comparison else ())
        if case.status is not CaseStatus.PAIRED
    }
    return Sides(
        head=head,
        base=base,
        policy=policy,
        recorded=recorded_of(head),
        unpaired=unpaired,
        unchanged=comparison.unchanged if comparison else (),
        is_together=comparison is None or comparison.origin.source is BaseSource.RERUN,
    )


def compare(
    sides: Sides,
    *,
    origin: BaseOrigin,
    edited: tuple[CaseKey, ...] = (),
    unread: tuple[str, ...] = (),
    cause: Wording = "",
    known_problem: Wording = "",
) -> Comparison:
    """Compare head with the base: measured now, merged from parts, or read from files. If nothing
    of the base could be measured, the comparison has the reason. `edited`, `unread`: see
    `Comparison`. `cause`: the part of the change that may have made the base's agent fail.
    `known_problem`: why the run that measured the base could not compare, if it did not fail by
    itself."""
    head = sides.head
    base = sides.base
    assert base is not None
    problem, base_failed = _base_problem(head, base, sides.unpaired)
    if not problem:
        notes = _other_models(head, base, is_together=sides.is_together)
        return comparison_compare.comparison_of(
            sides, origin=origin.with_notes(notes), edited=edited, unread=unread
        )
    if known_problem and not base_failed:
        problem = known_problem  # that run knew more about the cause
    elif cause:
        problem = Sentence("with_cause", problem, cause)
    return Comparison(
        origin=origin,
        problem=problem,
        base_failed=base_failed,
        cases=comparison_compare.unpaired_cases(sides.unpaired),
        unread=unread,
    )


def again(
    comparison: Comparison,
    head: Run,
    base: Run | None,
    *,
    book: RuleBook,
) -> Comparison:
    """Recompute a comparison of results from both runs, by a rule book."""
    if base is None:
        return Comparison(
            origin=comparison.origin,
            problem=comparison.problem or Sentence("no_base_results"),
            no_agent=comparison.no_agent,
            base_failed=comparison.base_failed,
        )
    return compare(
        sides_of(book.applied(head), book.applied(base), comparison, policy=book.policy),
        origin=comparison.origin,
        edited=comparison.edited,
        known_problem=comparison.problem,
    )


def _base_problem(
    head: Run, base: Run, unpaired: Mapping[CaseKey, CaseStatus]
) -> tuple[Wording, bool]:
    """Why no trial of the base can be used, and True if only the base's own failures are the
    reason. "" if a trial can be used, or if every case is new or changed, so that nothing could be
    compared anyway."""
    keys = pairing.uses_by_case(head)
    if keys and keys.keys() <= unpaired.keys():
        return "", False
    case_keys = [{trial.key.case for trial in run.trials} for run in (head, base)]
    if not base.trials or (head.truncated and not case_keys[0] & case_keys[1]):
        return Sentence("base_without_results"), False
    failures = [
        (trial.own_failure, trial.failure) for trial in base.trials if trial.failure is not None
    ]
    if len(failures) < len(base.trials):
        return "", False
    for is_own, failure in failures:
        if not is_own:
            return Sentence("base_did_not_run", failure.summary), False
    _, failure = failures[0]
    return Sentence("base_broken", failure.kind, failure.summary), True


def _other_models(head: Run, base: Run, *, is_together: bool) -> tuple[Wording, ...]:
    """A note if other models answered, either although the agent is the same, or at another time,
    when a provider may have changed. In these cases the difference may not be due to the change."""
    is_same_agent = head.inputs == base.inputs and all(head.inputs.values())
    if (
        not head.models
        or not base.models
        or head.models == base.models
        or (is_together and not is_same_agent)
    ):
        return ()
    base_models, head_models = (", ".join(sorted(run.models)) for run in (base, head))
    return (Sentence("other_models", is_same_agent, base_models, head_models),)
