"""An open run of the gate: its rules, the results of earlier runs, and its journals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from evalgate import __version__, reports
from evalgate.agents.tools import toolbox
from evalgate.baseline import rules as baseline_rules
from evalgate.baseline.base import Base
from evalgate.baseline.rules import Rules
from evalgate.config import places
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.config.variables import AgentVariables
from evalgate.discovery import project as discovery_project
from evalgate.discovery.dotenv import JudgeEnvironment
from evalgate.discovery.project import Project
from evalgate.errors import ConfigError, Problem, UnavailableError, errors_in
from evalgate.model import Report
from evalgate.results import kept, shards
from evalgate.results.history import History
from evalgate.results.journal import Journal
from evalgate.system import redact
from evalgate.values import Redactor, frozen_dataclass
from . import prepare, store as gate_store
from .store import EarlierRuns

FileWriter: TypeAlias = Callable[
    [Iterable[Any], Path, Report], tuple[dict[str, str], tuple[Problem, ...]]
]
"""Writes the files of a report into a folder. Returns their paths by name, and a problem for each
failure."""


@frozen_dataclass
class GateSession:
    """A run of the gate without its agents, which `measure` opens."""

    project: Project
    rules: Rules  # for the suites of this part of the plan
    base: Base | None  # the base of the comparison
    judges: JudgeEnvironment
    history: History
    earlier: EarlierRuns
    journals: Sequence[Journal]  # head's, and the base's if it is measured
    write_files: FileWriter | None  # None: the run is not kept

    @property
    def is_paired(self) -> bool:
        """True if the base is measured, at least in part."""
        return len(self.journals) > 1

    def finish(self, report: Report) -> None:
        """Mark the journals of a complete run as finished: no run continues them."""
        with suppress(UnavailableError):  # the reports are written, so nothing is lost
            for journal in self.journals if report.run.complete else ():
                journal.finish()


@contextmanager
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
    _require_ready(rules, project.settings, context)
    judges = discovery_project.environment_of_judges(rules.settings, rules.suites, context.environ)
    keys = baseline_rules.judge_keys(
        project.settings,
        rules.settings,
        rules.suites,
        rule_base,
        context,
        environ=judges.environ,
    )
    key_notices = (
        *prepare.key_notes(AgentVariables.of(rules.settings, context, keys), judges),
        *prepare.isolation_problems(rules.settings, context),
    )
    part = shards.find_part(rules.settings, rules.suites)
    rules = replace(
        rules,
        suites=rules.suites if part is None else shards.suites_of(rules.suites, part),
        part=part,
        problems=(*rules.problems, *key_notices),
    )
    rules, history = baseline_rules.open_history(rules, project.settings, rule_base, context)
    with ExitStack() as stack:
        redact_text = redact.redactor_of_files({**context.environ, **judges.environ})
        earlier = gate_store.open_earlier_runs(rules, base, context, history)
        # results are stored as they arrive: head's, and the base's if it is measured
        names = gate_store.JOURNALS[: 1 if base is None or base.problem else 2]
        yield GateSession(
            project=project,
            rules=rules,
            base=base,
            judges=replace(judges, keys=keys),
            history=history,
            earlier=stack.enter_context(earlier),
            journals=[
                stack.enter_context(_journal(name, rules.settings, context, redact_text))
                for name in names
            ],
            write_files=_writer(project.settings, context, redact_text),
        )


def _require_ready(rules: Rules, head_settings: Settings, context: Context) -> None:
    """Raise ConfigError if the settings that decide are not head's, and a judge's key or a
    calibration that they need is missing."""
    settings = rules.settings
    if settings is head_settings:
        return
    problems = (
        *discovery_project.unready(settings, rules.suites, environ=context.environ),
        *prepare.format_problems(settings, rules.suites),
        *toolbox.check(settings, rules.suites),
    )
    if errors := errors_in(problems):
        context.say("a key or file that the base's rules need is missing")
        context.show(rules.problems)
        raise ConfigError.collected(errors)


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
    is_wanted = context.keep and context.is_attended and not settings.is_part
    if not is_wanted or places.refusal_reason(settings.root, kept.FOLDER, trusted=True):
        return None
    return partial(
        kept.write,
        root=settings.root,
        moment=context.moment,
        is_selected=bool(settings.paths or settings.grep),
        redact=lambda text: reports.rewrite_texts(text, redact_text),
    )
