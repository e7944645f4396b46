"""Other requirements for an agent that does not start with those of its repository."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta

from evalgate import agents
from evalgate.agents import python_process
from evalgate.agents.python_process import PythonOptions
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.model import AgentFailure, AgentUse, FailureKind
from evalgate.system import git, python_needs
from evalgate.system.python_needs import EXCLUDE_NEWER, NeedKind

MOST_PACKAGES = 4
"""The number of packages that are added for one agent."""

SETTLED = timedelta(days=14)
"""The age of a commit from which its packages may have changed since."""

_PACKAGE = re.compile(
    r"[Aa]dd `(?P<named>[^`]+)` to the (?:agent's )?requirements|"
    r"pip install (?:-U |--upgrade )?['\"`]?(?P<advised>[A-Za-z][\w.-]*(?:\[[\w,-]+\])?)"
)
_CHANGED = re.compile(
    r"cannot be loaded: (?:ImportError|AttributeError|TypeError)|there is no module named '\w+\.|"
    r"is made for|^(?:ImportError|AttributeError)|unexpected keyword argument"
)
"""Failures that a package causes whose newer versions have lost or renamed something."""


def requirements_of(use: AgentUse, settings: Settings) -> list[str] | None:
    """The requirements of an agent, as the option of this name lists them; None if they cannot be
    extended: a lock decides, or a Python is named."""
    driver = agents.DRIVERS[use.driver]
    options = agents.with_defaults(use, settings).options
    if not issubclass(driver.options, PythonOptions) or options.get("python"):
        return None
    if listed := options.get("requirements"):
        return [*listed]
    request = python_process.environment_request(options, settings.root)
    needs = python_needs.nearest_needs(request.folder, request.root)
    if needs is None:
        return []
    extensible = needs.kind in (NeedKind.REQUIREMENTS, NeedKind.PROJECT)
    return [os.path.relpath(file, settings.root) for file in needs.files] if extensible else None


def mended(
    use: AgentUse, failure: AgentFailure, settings: Settings, context: Context
) -> AgentUse | None:
    """The agent with requirements that may mend its failure; None if none are known."""
    requirements = requirements_of(use, settings)
    if requirements is None:
        return None
    addition = next(_additions(use, requirements, failure, settings, context), "")
    added = [*requirements, addition]
    return replace(use, options={**use.options, "requirements": added}) if addition else None


def _additions(
    use: AgentUse,
    requirements: list[str],
    failure: AgentFailure,
    settings: Settings,
    context: Context,
) -> Iterator[str]:
    match = _PACKAGE.search(failure.message)
    package = (match["named"] or match["advised"]) if match else ""
    if not requirements and failure.kind is FailureKind.INSTALL:
        package = agents.DRIVERS[use.driver].package
    if package and package not in requirements and len(requirements) <= MOST_PACKAGES:
        yield package
    is_dated = any(entry.startswith(EXCLUDE_NEWER) for entry in requirements)
    may_be_newer = failure.kind is not FailureKind.INSTALL and _CHANGED.search(failure.message)
    day = git.day_of(settings.root, context.environ)
    if may_be_newer and requirements and not is_dated and day:
        next_day = date.fromisoformat(day) + timedelta(days=1)
        if next_day < context.moment.date() - SETTLED:
            yield f"{EXCLUDE_NEWER}{next_day}"
