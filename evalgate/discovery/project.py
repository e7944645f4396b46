"""Before anything is spent: suites found, criteria checked, the vacuous gate linted, the agents' options read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from evalgate import agents, criteria, errors
from evalgate.agents.tools import toolbox
from evalgate.config.settings import Settings
from evalgate.criteria import judges as criteria_judges
from evalgate.discovery import agents as discovery_agents
from evalgate.discovery import discover, lint
from evalgate.discovery.walk import Tree
from evalgate.errors import Problem, Severity
from evalgate.model import AgentUse, Suite
from evalgate.simulation import user
from evalgate.text import words


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
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


def prepare(settings: Settings, *, environ: Mapping[str, str], tree: Tree | None = None) -> Project:
    """Find and check all that a run needs. `tree`: the walk of the root, where it is known. Raises NothingToDo where
    nothing matched."""
    found = discover.discover(settings, specs=criteria.CRITERIA, tree=tree)
    suites = user.settle(found.suites, settings)
    linted = (*lint.lint_rules(settings), *lint.lint(suites, adk_compat=settings.adk_compat))
    told = found.problems
    # what is wrong in evalgate.yml may be what names the agents, so that not finding them says nothing
    if any(
        not each.place.json_path or each.place.json_path.startswith("$.agents") or "`agents`" in each.hint
        for each in settings.problems
        if each.severity is Severity.ERROR and each.place is not None
    ):
        told = tuple(each for each in told if each.code not in discovery_agents.CODES)
    missing = discovery_agents.problems(
        [suite.agent for suite in suites], tree=found.tree, places=None if settings.agent else settings.places
    )
    tools = toolbox.check(settings, suites)
    problems = (*settings.problems, *told, *linted, *_option_problems(suites), *missing, *tools)
    sound = not any(problem.severity is Severity.ERROR for problem in problems)
    defaults = criteria_judges.defaults_of(settings)
    suites = criteria_judges.settle_suites(suites, defaults)
    if sound:
        problems = (*problems, *unready(settings, suites, environ=environ))
    elif not settings.skip_judged:
        problems = (*problems, *criteria_judges.missing(suites, defaults, environ))
    return Project(
        suites=suites,
        problems=tuple(dict.fromkeys(problems)),
        of_files=found.problems,
        unread=criteria_judges.settle_suites(found.unread, defaults),
    )


def unready(settings: Settings, suites: Iterable[Suite], *, environ: Mapping[str, str]) -> tuple[Problem, ...]:
    """What settled suites would not find: judges and simulated users that could not be asked."""
    listed, defaults = tuple(suites), criteria_judges.defaults_of(settings)
    judges = () if settings.skip_judged else criteria_judges.missing(listed, defaults, environ)
    return (*judges, *user.missing(listed, defaults, environ))


def _option_problems(suites: Iterable[Suite]) -> Iterator[Problem]:
    seen: list[AgentUse] = []
    for suite in suites:
        use = suite.agent
        if use in seen:
            continue
        seen.append(use)
        driver = agents.DRIVERS.get(use.driver)
        if driver is None:
            close = words.nearest(use.driver, agents.DRIVERS)
            hint = f"Did you mean `{close}`?" if close else f"Drivers: {', '.join(agents.DRIVERS)}."
            yield errors.error("agent-options", f"`{use.driver}` is not a known agent driver", hint=hint)
            continue
        try:
            agents.options_of(use)
        except ValidationError as error:
            for each in error.errors():
                path, hint = ".".join(str(step) for step in each["loc"]) or "options", ""
                if each["type"] == "extra_forbidden":
                    fields = driver.options.model_fields
                    close = words.nearest(str(each["loc"][-1]), fields)
                    hint = f"Did you mean `{close}`?" if close else f"The driver takes: {', '.join(fields)}."
                message = f"agent with driver `{use.driver}`: `{path}`: {words.fault(each)}"
                yield errors.error("agent-options", message, hint=hint)
