"""The agent drivers: one row for each way to run an agent, and lookups by it."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from evalgate.config.gate_file import AgentRule
from evalgate.config.settings import Settings
from evalgate.extensions import Table
from evalgate.model import AgentUse
from evalgate.system import python_env
from evalgate.system.python_needs import Needs
from . import adk, command, python
from .base import AgentDriver
from .pool import PythonOptions, environment_request

DRIVERS = Table(
    "evalgate.drivers",
    AgentDriver,
    (
        adk.AdkDriver(),
        python.PythonDriver(),
        command.CommandDriver(),
    ),
)

DEFAULT = adk.AdkDriver.name
OF_FUNCTIONS = python.PythonDriver.name
"""The drivers of agents that evalgate finds in the repository, and of `agent: some/path`."""


def rule_use(rule: AgentRule) -> AgentUse:
    """The agent that a rule of evalgate.yml, or the setting `agent`, names: `driver:text`, or a
    bare path, which is an agent of the default driver."""
    if not rule.short_form:
        return AgentUse(driver=rule.driver or DEFAULT, options=rule.options)
    name, colon, text = rule.short_form.partition(":")
    if not colon or name not in DRIVERS:
        name = DEFAULT
        text = rule.short_form
    return AgentUse(driver=name, options=DRIVERS[name].of_short_form(text))


def with_defaults(use: AgentUse, settings: Settings) -> AgentUse:
    """The agent with the settings `python`, `requirements` and `on_platform`, if its driver has
    these options and the agent does not set them."""
    driver = DRIVERS.get(use.driver)
    if driver is None:
        return use
    defaults = {
        "python": "" if settings.python == python_env.AUTO else settings.python,
        "requirements": list(settings.requirements),
        "on_platform": bool(settings.on_platform),
    }
    fields = driver.options.model_fields
    options = {name: value for name, value in defaults.items() if value and name in fields}
    return use.with_options({**options, **use.options})


def options_of(use: AgentUse) -> BaseModel:
    """The validated options of an agent. Raises pydantic.ValidationError, KeyError for an unknown
    driver."""
    return DRIVERS[use.driver].options.model_validate(dict(use.options))


def needs_of(use: AgentUse, root: Path) -> Needs | None:
    """The requirements of the agent's environment in its checkout; None if nothing declares them,
    or if its driver starts no Python."""
    driver = DRIVERS.get(use.driver)
    if driver is None or not issubclass(driver.options, PythonOptions):
        return None
    return python_env.needs_of(environment_request(use.options, root))


def is_asked(use: AgentUse) -> bool:
    """True if the agent is a process or an endpoint to wait for, not a recording or a missing
    agent."""
    driver = DRIVERS.get(use.driver)
    return driver is not None and driver.is_asked


def is_led(use: AgentUse) -> bool:
    """True if the agent's platform leads the conversations."""
    driver = DRIVERS.get(use.driver)
    return driver is not None and driver.is_led(use.options)


def is_remote(use: AgentUse) -> bool:
    """True if the agent runs remotely, and no checkout defines it."""
    driver = DRIVERS.get(use.driver)
    return driver is not None and driver.is_remote(use.options)
