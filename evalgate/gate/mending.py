"""Other requirements, or a session state, for an agent that does not answer without."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

from evalgate import agents
from evalgate.agents.python_process import PythonOptions
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.model import AgentFailure, AgentUse, FailureKind
from evalgate.system import git, python_needs
from evalgate.system.python_needs import EXCLUDE_NEWER, OVERRIDE, NeedKind, Needs
from evalgate.values import Json, JsonObject

MOST_PACKAGES = 4
"""The number of packages that are added for one agent."""

SETTLED = timedelta(days=14)
"""The age of a commit from which its packages may have changed since."""

_PACKAGE = re.compile(
    r"[Aa]dd `(?P<named>[^`]+)` to the (?:agent's )?requirements|"
    r"pip install (?:-U |--upgrade )?['\"`]?(?P<advised>[A-Za-z][\w.-]*(?:\[[\w,-]+\])?)"
)
_GONE = re.compile(
    r"there is no version of ([\w.-]+)==|"
    r"(?:Because |Failed to build `)([\w.-]+)==\S+(?: has no wheels with a matching platform|`)"
)
_NEEDED = re.compile(r"which needs ([^:]+): ")
_CHANGED = re.compile(
    r"cannot be loaded: (?:ImportError|AttributeError|TypeError)|there is no module named|"
    r"is made for|^(?:ImportError|AttributeError)|unexpected keyword argument"
)
"""Failures that a package causes whose newer versions have lost or renamed something."""


def needs_of(use: AgentUse, settings: Settings) -> Needs | None:
    """The declared needs of an agent's environment; None if nothing declares them."""
    return agents.needs_of(agents.with_defaults(use, settings), settings.root)


def requirements_of(use: AgentUse, settings: Settings) -> list[str] | None:
    """The requirements of an agent, as the option of this name lists them; None if they cannot be
    extended: a lock decides, or a Python is named."""
    driver = agents.DRIVERS[use.driver]
    options = agents.with_defaults(use, settings).options
    if not issubclass(driver.options, PythonOptions) or options.get("python"):
        return None
    needs = needs_of(use, settings)
    if needs is None or needs.kind is NeedKind.NAMED:
        return [*options.get("requirements", ())]
    if needs.kind is NeedKind.POETRY and not Path(needs.folder, "poetry.lock").exists():
        return python_needs.poetry_requirements(Path(needs.folder))
    extensible = needs.kind in (NeedKind.REQUIREMENTS, NeedKind.PROJECT)
    return [os.path.relpath(file, settings.root) for file in needs.files] if extensible else None


def mended(
    use: AgentUse, state: Json, failure: AgentFailure, settings: Settings, context: Context
) -> tuple[AgentUse, Json] | None:
    """The agent with requirements, and the session's state with values, that may mend its failure;
    None if none are known."""
    values = made_up(failure.message)
    if values and state.keys().isdisjoint(values):
        return use, {**state, **values}
    requirements = requirements_of(use, settings)
    needs = needs_of(use, settings)
    if requirements is not None:
        addition = next(_additions(use, requirements, failure, settings, context), "")
        requirements = [*requirements, addition] if addition else None
    elif needs is not None and needs.kind is NeedKind.LOCK and "is made for" in failure.message:
        # the lock has a framework that is too old; the project may take a newer one
        requirements = [os.path.relpath(Path(needs.folder, "pyproject.toml"), settings.root)]
    options = {**use.options, "requirements": requirements}
    return None if requirements is None else (replace(use, options=options), state)


def made_up(message: str) -> JsonObject:
    """Values for the names that an agent's session state needs, by their types, from the message of
    a failure; empty if one of them is no plain value."""
    match = _NEEDED.search(message)
    values: JsonObject = {}
    for name, kind in re.findall(r"(?<!\w)(\w++) \(([^()]*+)\)", match[1]) if match else ():
        plain_kind = kind.partition("[")[0].lower()
        is_optional = plain_kind.endswith("optional") or "None" in kind
        if not is_optional and plain_kind not in PLAIN:
            return {}
        values[name] = None if is_optional else PLAIN[plain_kind]
        values[name] = name if values[name] == "" else values[name]
    return values


PLAIN: JsonObject = {
    "str": "",
    "int": 1,
    "float": 1.0,
    "bool": False,
    "list": [],
    "dict": {},
}
"""Values by their types; a text becomes its own name."""


def _additions(
    use: AgentUse,
    requirements: list[str],
    failure: AgentFailure,
    settings: Settings,
    context: Context,
) -> Iterator[str]:
    match = _PACKAGE.search(failure.message)
    package = (match["named"] or match["advised"]) if match else ""
    is_absent = "is not installed for" in failure.message
    driver = agents.DRIVERS[use.driver]
    framework = driver.package
    if (is_absent and framework not in requirements) or (
        not requirements and failure.kind is FailureKind.INSTALL
    ):
        package = framework
    if package and package not in requirements and len(requirements) <= MOST_PACKAGES:
        yield package
    for gone_name, foreign_name in _GONE.findall(failure.message):
        condition = "" if gone_name else f"; sys_platform != {sys.platform!r}"
        option = f"{OVERRIDE}{gone_name or foreign_name}{condition}"
        if requirements and option not in requirements:
            yield option
    is_dated = any(entry.startswith(EXCLUDE_NEWER) for entry in requirements)
    may_be_newer = failure.kind is not FailureKind.INSTALL and _CHANGED.search(failure.message)
    day = git.day_of(settings.root, context.environ)
    if may_be_newer and requirements and not is_dated and day:
        next_day = date.fromisoformat(day) + timedelta(days=1)
        if next_day < context.moment.date() - SETTLED:
            yield f"{EXCLUDE_NEWER}{next_day}"
    # the code is newer than the framework that it pins
    option = f"{OVERRIDE}{framework}"
    is_of_framework = any(f"from '{name}'" in failure.message for name in driver.modules)
    if is_dated and is_of_framework and option not in requirements:
        yield option
