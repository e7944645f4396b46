"""Before anything is spent: suites found, criteria checked, the vacuous gate linted, the agents' options read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from evalgate import agents, criteria, words
from evalgate.errors import ConfigError, Problem, Severity
from evalgate.model import AgentUse, Suite
from evalgate.project import agent_choice, agent_places, discovery, linter
from evalgate.project.linter import rules
from evalgate.settings import Settings
from evalgate.wiring import calibrated, judging, simulating, tooling
from evalgate.wiring.choosing import Choice

METRICLESS = frozenset(name for name, driver in agents.DRIVERS.items() if not driver.runs_metrics)
"""Drivers that run no custom metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What would run, and everything that was found on the way.

    `of_files`: those of the problems that lie in evaluation files and criteria files themselves. `unread`: evaluation
    files that cannot be read, with their criteria and agents and without cases.
    """

    suites: tuple[Suite, ...]
    problems: tuple[Problem, ...]
    of_files: tuple[Problem, ...] = ()
    unread: tuple[Suite, ...] = ()

    def stops(self, *, strict: bool) -> bool:
        """Whether the problems forbid a run: errors do, with `strict` warnings too."""
        worst = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
        return any(problem.severity in worst for problem in self.problems)


def prepare(choice: Choice, *, environ: Mapping[str, str]) -> Prepared:
    """Find and check all that a run needs. Raises NothingToDo where nothing matched."""
    settings = choice.settings
    found = discovery.discover(
        choice.root,
        selections=settings.paths,
        grep=settings.grep,
        gate_file=choice.gate_file,
        places=choice.places,
        criteria_file=Path(settings.criteria) if settings.criteria else None,
        specs=criteria.CRITERIA,
    )
    suites = tuple(dataclasses.replace(suite, agent=with_defaults(suite.agent, settings)) for suite in found.suites)
    suites = simulating.settle(suites, choice)
    linted = (
        *rules.lint_rules(settings, choice.gate_file.suites, given=choice.given, places=choice.places),
        *linter.lint(suites, specs=criteria.CRITERIA, metricless=METRICLESS, adk_compat=settings.adk_compat),
    )
    told = found.problems
    if _may_name_agents(choice.problems):
        told = tuple(each for each in told if each.code not in agent_choice.CODES)
    problems = (
        *choice.problems, *told, *linted, *_agent_problems(choice, suites), *tooling.check(choice, suites)
    )  # fmt: skip
    sound = not any(problem.severity is Severity.ERROR for problem in problems)
    defaults = judging.defaults_of(choice)
    suites = judging.settle(suites, defaults)
    if sound:
        problems = (*problems, *unready(choice, suites, environ=environ))
    elif not settings.skip_judged:
        problems = (*problems, *judging.missing(suites, defaults, environ))
    unread = tuple(dataclasses.replace(each, agent=with_defaults(each.agent, settings)) for each in found.unread)
    return Prepared(
        suites=suites,
        problems=tuple(dict.fromkeys(problems)),
        of_files=found.problems,
        unread=judging.settle(unread, defaults),
    )


def _may_name_agents(problems: Iterable[Problem]) -> bool:
    """Whether what is wrong in evalgate.yml may be what names the agents, so that not finding them says nothing."""
    for problem in problems:
        if problem.severity is Severity.ERROR and problem.place is not None:
            path = problem.place.json_path
            if not path or path.startswith("$.agents") or "`agents`" in problem.hint:
                return True
    return False


def unready(choice: Choice, suites: Iterable[Suite], *, environ: Mapping[str, str]) -> tuple[Problem, ...]:
    """What settled suites would not find: judges and simulated users that could not be asked, calibrations."""
    listed, defaults = tuple(suites), judging.defaults_of(choice)
    judges = () if choice.settings.skip_judged else judging.missing(listed, defaults, environ)
    return (*judges, *simulating.missing(listed, defaults, environ), *calibrated.check(choice, listed))


def insist(prepared: Prepared, *, strict: bool) -> None:
    """Raises ConfigError with every problem where the problems forbid a run."""
    if prepared.stops(strict=strict):
        raise ConfigError.collected(prepared.problems)


def with_defaults(use: AgentUse, settings: Settings) -> AgentUse:
    """The agent with the settings `python` and `requirements`, where its driver takes them and it names none."""
    driver = agents.DRIVERS.get(use.driver)
    if driver is None:
        return use
    fields = driver.options.model_fields
    defaults: dict[str, Any] = {}
    if settings.python != "auto":
        defaults["python"] = settings.python
    if settings.requirements:
        defaults["requirements"] = list(settings.requirements)
    options = {name: value for name, value in defaults.items() if name in fields} | dict(use.options)
    return dataclasses.replace(use, options=options)


def options_of(use: AgentUse) -> BaseModel:
    """The validated options of an agent. Raises pydantic.ValidationError, KeyError for an unknown driver."""
    return agents.DRIVERS[use.driver].options.model_validate(dict(use.options))


def _option_problems(suites: Iterable[Suite]) -> list[Problem]:
    problems: list[Problem] = []
    seen: list[AgentUse] = []
    for suite in suites:
        if suite.agent in seen:
            continue
        seen.append(suite.agent)
        if suite.agent.driver not in agents.DRIVERS:
            close = words.nearest(suite.agent.driver, agents.DRIVERS)
            hint = f"Did you mean `{close}`?" if close else f"Drivers: {', '.join(agents.DRIVERS)}."
            problems.append(_agent_problem(f"`{suite.agent.driver}` is not a known agent driver", hint))
            continue
        try:
            options_of(suite.agent)
        except ValidationError as error:
            fields = agents.DRIVERS[suite.agent.driver].options.model_fields
            problems.extend(_agent_problem(*_option_words(each, suite.agent, fields)) for each in error.errors())
    return problems


def _agent_problems(choice: Choice, suites: Sequence[Suite]) -> tuple[Problem, ...]:
    """What is wrong with the agents' options, and agents that are named and are not there."""
    places = None if choice.settings.agent else choice.places
    uses = [suite.agent for suite in suites]
    missing = agent_places.problems(uses, root=choice.root, places=places, drivers=agents.DRIVERS)
    return (*_option_problems(suites), *missing)


def _option_words(each: Any, use: AgentUse, fields: Mapping[str, Any]) -> tuple[str, str]:
    path = ".".join(str(step) for step in each["loc"]) or "options"
    hint = ""
    if each["type"] == "extra_forbidden":
        close = words.nearest(str(each["loc"][-1]), fields)
        hint = f"Did you mean `{close}`?" if close else f"The driver takes: {', '.join(fields)}."
    return f"agent with driver `{use.driver}`: `{path}`: {each['msg']}", hint


def _agent_problem(message: str, hint: str) -> Problem:
    return Problem(severity=Severity.ERROR, code="agent-options", message=message, hint=hint)
