"""Before anything is spent: the project, with everything that a run needs checked."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import platformdirs

from evalgate.calibration import apply
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.discovery import project
from evalgate.discovery.project import Project
from evalgate.errors import ConfigError, Problem
from evalgate.model import Suite
from evalgate.model.watcher import Watcher
from evalgate.results import stores


def prepare(settings: Settings, *, environ: Mapping[str, str]) -> Project:
    """Find and check all that a run needs. Raises NothingToDo where nothing matched."""
    found = project.prepare(settings, environ=environ)
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


def make_context(settings: Settings, *, environ: Mapping[str, str], watcher: Watcher, **more: Any) -> Context:
    """Where a run takes place, as a door knows it; `more`: the other fields of Context."""
    cache = cache_of(settings, environ, say=watcher.say)
    return Context(environ=environ, watcher=watcher, cache=cache, **more)


def cache_of(settings: Settings, environ: Mapping[str, str], *, say: Callable[[str], None]) -> Path:
    """The absolute folder of the agents' environments and the judges' verdicts; the user's where the named one is part
    of the commit: a change could bring the verdicts on itself along."""
    own = platformdirs.user_cache_path("evalgate").absolute()
    named = Path(settings.cache).expanduser().absolute() if settings.cache else own
    if not stores.found_in(named, settings.root, environ):
        return named
    say(f"the cache {settings.cache or named} contains committed files and was ignored")
    return own if own != named else Path(tempfile.mkdtemp(prefix="evalgate-"))
