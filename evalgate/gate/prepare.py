"""Before anything is spent: the project, with everything that a run needs checked."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import platformdirs

from evalgate.calibration import apply
from evalgate.config import context as config_context
from evalgate.config import quarantine, variables
from evalgate.config.context import Context, Watcher
from evalgate.config.settings import Settings
from evalgate.config.variables import AgentVariables
from evalgate.discovery import project
from evalgate.discovery.dotenv import CREDENTIALS, Asking
from evalgate.discovery.project import Project
from evalgate.errors import ConfigError, Place, Problem, Severity
from evalgate.github import events, forks
from evalgate.model import Suite
from evalgate.system import git
from evalgate.text import words


def prepare(settings: Settings, *, environ: Mapping[str, str], ces_suffices: bool = False) -> Project:
    """Find and check all that a run needs. Raises NothingToDo where nothing matched; CES files that are
    not run count with `ces_suffices`."""
    found = project.prepare(settings, environ=environ, ces_suffices=ces_suffices)
    found = dataclasses.replace(found, problems=(*found.problems, *quarantine.read(settings.root).problems))
    if found.fatal():
        return found
    return dataclasses.replace(found, problems=(*found.problems, *apply.check(settings, found.sound())))


def unready(settings: Settings, suites: Iterable[Suite], *, environ: Mapping[str, str]) -> tuple[Problem, ...]:
    """What settled suites would not find: judges and simulated users that could not be asked, calibrations."""
    listed = tuple(suites)
    return (*project.unready(settings, listed, environ=environ), *apply.check(settings, listed))


def insist(found: Project, *, strict: bool) -> Project:
    """The project that is run: an evaluation file with errors of its own is a suite that says why it is not measured.

    Raises ConfigError with every problem where one concerns the whole run, where nothing sound is left, and where
    `strict` asks for more.
    """
    if found.fatal() or not found.sound() or (strict and found.stops(strict=True)):
        raise ConfigError.collected(found.problems)
    return found.set_apart()


def tell_keys(agents: AgentVariables, asking: Asking) -> Iterator[Problem]:
    """A notice for each of the judges' keys that `env` names for agents and that is no model provider's usual variable,
    for each that `env` has in a glob, which they do not get, and for each `.env` that judges are asked with."""
    for name in sorted(agents.judge_keys):
        if name in agents.environ and agents.passes(name):
            if agents.everything or name in variables.OF_MODELS or name == CREDENTIALS:
                continue  # goes without saying
            message = f"{name} is a judge's key, and the agent gets it as well"
            hint = "An agent that should not use it: give the judge a key under another name (`judge: api_key_env`)."
            yield Problem(severity=Severity.NOTE, code="key-of-both", message=message, hint=hint)
        elif name in agents.environ and variables.matches(name, agents.names):
            message = f"{name} is a judge's key, so it is not passed to the agent, though `env` has it in a glob"
            hint = f"If the agent needs it, name it in full: `env: {name}`."
            yield Problem(severity=Severity.NOTE, code="key-of-judge", message=message, hint=hint)
    for file, names in asking.used.items() if agents.judge_keys else ():
        message = f"judges are asked with {words.listed(names)} of `{file}`, as the agent is"
        yield Problem(severity=Severity.NOTE, code="key-of-file", message=message, place=Place(file=file))


def tell_token(root: Path, context: Context) -> Iterator[Problem]:
    """A warning where the checkout of a workflow keeps its token."""
    if not context.is_attended and forks.keeps_token(root):
        who = "the job's other steps" if context.isolate else "the agent"
        message = f"the checkout keeps the job's token in git's configuration, where {who} can read it"
        hint = "Set `persist-credentials: false` at actions/checkout: the action fetches the base by its own token."
        yield Problem(severity=Severity.WARNING, code="token-in-checkout", message=message, hint=hint)


def make_context(settings: Settings, *, environ: Mapping[str, str], watcher: Watcher, **more: Any) -> Context:
    """Where a run takes place, as a door knows it; `more`: the other fields of Context."""
    cache = cache_of(settings, environ, say=watcher.say)
    more.setdefault("isolate", settings.isolate)
    more = {"is_pull_request": events.is_of_change(environ), "workflow_run": config_context.run_of(environ), **more}
    return Context(environ=environ, watcher=watcher, cache=cache, **more)


def cache_of(settings: Settings, environ: Mapping[str, str], *, say: Callable[[str], None]) -> Path:
    """The absolute folder of the agents' environments and the judges' verdicts; the user's where the named one is part
    of the commit: a change could bring the verdicts on itself along."""
    own = platformdirs.user_cache_path("evalgate").absolute()
    named = Path(settings.cache).expanduser().absolute() if settings.cache else own
    if not git.first_committed([named], settings.root, environ):
        return named
    say(f"the cache {settings.cache or named} contains committed files and was ignored")
    return own if own != named else Path(tempfile.mkdtemp(prefix="evalgate-"))
