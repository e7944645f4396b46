"""Before anything is spent: the project, with everything that a run needs checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from evalgate.calibration import apply
from evalgate.config.settings import Settings
from evalgate.discovery import project
from evalgate.discovery.project import Project
from evalgate.errors import ConfigError, Problem, Severity
from evalgate.model import Suite


def prepare(settings: Settings, *, environ: Mapping[str, str]) -> Project:
    """Find and check all that a run needs. Raises NothingToDo where nothing matched."""
    found = project.prepare(settings, environ=environ)
    if any(problem.severity is Severity.ERROR for problem in found.problems):
        return found
    return dataclasses.replace(found, problems=(*found.problems, *apply.check(settings, found.suites)))


def unready(settings: Settings, suites: Iterable[Suite], *, environ: Mapping[str, str]) -> tuple[Problem, ...]:
    """What settled suites would not find: judges and simulated users that could not be asked, calibrations."""
    listed = tuple(suites)
    return (*project.unready(settings, listed, environ=environ), *apply.check(settings, listed))


def insist(found: Project, *, strict: bool) -> None:
    """Raises ConfigError with every problem where the problems forbid a run."""
    if found.stops(strict=strict):
        raise ConfigError.collected(found.problems)
