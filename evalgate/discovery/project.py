"""The preparation of a run, before it costs anything: find suites, check criteria, lint, and
validate the agents' options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pydantic import ValidationError

from evalgate import agents, errors
from evalgate.agents import toolbox
from evalgate.config.settings import Settings
from evalgate.criteria import judges as criteria_judges
from evalgate.errors import Place, Problem, Severity, errors_in
from evalgate.formats.base import FormatFiles
from evalgate.model import AgentUse, ConfigOrigin, CriteriaSource, EvalSet, Suite
from evalgate.simulation import user
from evalgate.text import words
from evalgate.values import Environ, frozen_dataclass
from . import agents as discovery_agents, discover, dotenv, lint, walk
from .walk import Tree


def unmeasured(key: str, source: CriteriaSource, reason: str) -> Suite:
    """The suite of a file that cannot be measured, with the reason."""
    return Suite(
        key=key,
        eval_set=EvalSet(eval_set_id="", cases=()),
        criteria=(),
        criteria_source=source,
        agent=AgentUse(driver=AgentUse.ABSENT, options={"why": reason}),
        problem=reason,
    )


@frozen_dataclass
class Project:
    """The suites of a run, and all problems of their discovery."""

    settings: Settings
    """Those of the checkout and the door."""
    suites: tuple[Suite, ...]
    problems: tuple[Problem, ...]
    of_files: tuple[Problem, ...] = ()
    """Problems in evaluation files and criteria files."""
    unread: tuple[Suite, ...] = ()
    """Files that cannot be read, with their criteria and agents and without cases."""
    libraries: tuple[FormatFiles, ...] = ()
    """Files of other formats; problems of files that are not run are not among `problems`."""
    commit: str = ""
    """The checked out commit."""
    dirty: bool | None = None
    """Files differ from the commit; None if unknown."""

    def stops(self, *, strict: bool) -> bool:
        """True if there is an error, or with `strict` a warning."""
        worst = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
        return any(problem.severity in worst for problem in self.all_problems())

    def with_problems(self, problems: Iterable[Problem]) -> Project:
        """The project with more problems, each once."""
        return replace(self, problems=tuple(dict.fromkeys((*self.problems, *problems))))

    def all_problems(self) -> tuple[Problem, ...]:
        """All problems, including those of files that are not run, each once."""
        of_libraries = (problem for library in self.libraries for problem in library.problems)
        return tuple(dict.fromkeys((*self.problems, *of_libraries)))

    def broken(self) -> dict[str, Problem]:
        """By evaluation file, its first error (of the file, its criteria or its agent) that
        concerns no other file."""
        return {
            key: problem for problem in reversed(self.problems) for key in self._concerned(problem)
        }

    def fatal(self) -> bool:
        """True if an error concerns the whole run."""
        return any(not self._concerned(problem) for problem in errors_in(self.problems))

    def sound(self) -> tuple[Suite, ...]:
        """The suites without their own errors."""
        broken_keys = self.broken()
        return tuple(suite for suite in self.suites if suite.key not in broken_keys)

    def refusals(self) -> tuple[Problem, ...]:
        """The errors for which a run refuses suites, or everything, even if all keys are set."""
        return tuple(
            problem for problem in errors_in(self.problems) if problem.code not in OF_ENVIRONMENT
        )

    def takes(self) -> tuple[Suite, ...]:
        """The suites that a run measures if all keys are set."""
        is_refused = any(not self._concerned(problem) for problem in self.refusals())
        return () if is_refused else self.sound()

    def set_apart(self) -> Project:
        """The project with each broken file as a suite without cases, with the reason."""
        suites_by_key = {suite.key: suite for suite in (*self.suites, *self.unread)}
        broken_files = self.broken()
        suites = {suite.key: suite for suite in self.sound()}
        for key, problem in broken_files.items():
            place = problem.place or Place(key)
            line = f"line {place.line}: " if place.line else ""
            reason = f"{line if place.file == key else f'{place}: '}{problem.message}"
            source = (
                suites_by_key[key].criteria_source
                if key in suites_by_key
                else CriteriaSource(origin=ConfigOrigin.DEFAULTS)
            )
            suites[key] = unmeasured(key, source, reason)
        return replace(self, suites=tuple(suites[key] for key in sorted(suites)))

    def _concerned(self, problem: Problem) -> set[str]:
        """The evaluation files of an error; empty if it is not an error, or concerns the run."""
        if (
            problem.severity is not Severity.ERROR
            or problem.place is None
            or problem.code in OF_THE_RUN
        ):
            return set()
        all_suites = (*self.suites, *self.unread)
        file = problem.place.file
        if problem.code == "no-agent":
            return {suite.key for suite in all_suites if suite.agent == discovery_agents.UNKNOWN}
        if file.endswith(walk.EVALUATION_ENDINGS) or file in {suite.key for suite in all_suites}:
            return {file}
        file_origins = {ConfigOrigin.BESIDE, ConfigOrigin.ABOVE, ConfigOrigin.EXPLICIT}
        sources = ((suite.key, suite.criteria_source) for suite in all_suites)
        return {
            key for key, source in sources if source.file == file and source.origin in file_origins
        }


OF_ENVIRONMENT = frozenset({"credentials-missing", "simulator-credentials"})
"""Codes of errors that the environment of a run can fix."""

OF_THE_RUN = frozenset({*discover.CODES, "credentials-missing"})
"""Codes of errors in a file that concern the whole run: an invalid selection, or missing
credentials."""


def prepare(
    settings: Settings, *, environ: Environ, tree: Tree | None = None, unrun_suffices: bool = False
) -> Project:
    """Find and check everything that a run needs. `tree`: the walk of the root, if it exists
    already. Raises NothingToDo if nothing matched. With `unrun_suffices`, files that are not run
    are enough."""
    discovery = discover.discover(settings, tree=tree, unrun_suffices=unrun_suffices)
    suites = tuple(
        user.settle(suite, settings) if suite.is_simulated else suite for suite in discovery.suites
    )
    lint_problems = (
        *lint.lint_rules(settings),
        *lint.lint(
            [suite for suite in suites if not suite.is_of_ces], deviations=settings.deviations
        ),
    )
    suites = tuple(suite for suite in suites if suite.cases) or suites
    discovery_problems = discovery.problems
    # an error in evalgate.yml may concern the agents, so missing agents mean nothing
    if any(
        not problem.place.json_path
        or problem.place.json_path.startswith("$.agents")
        or "`agents`" in str(problem.hint)
        for problem in errors_in(settings.problems)
        if problem.place is not None
    ):
        discovery_problems = tuple(
            problem for problem in discovery_problems if problem.code not in discovery_agents.CODES
        )
    uses = [suite.agent for suite in suites]
    places = None if settings.agent else settings.places
    problems = (
        *settings.problems,
        *discovery_problems,
        *lint_problems,
        *_option_problems(uses),
        *discovery_agents.problems(uses, root=discovery.tree.root, places=places),
        *toolbox.check(settings, suites),
    )
    unread = discovery.unread
    asks_models = any(suite.asks_models for suite in (*suites, *unread))
    if asks_models:
        defaults = criteria_judges.defaults_of(settings)
        suites = criteria_judges.settle_suites(suites, defaults)
        unread = criteria_judges.settle_suites(unread, defaults)
    project = Project(
        settings=settings,
        suites=suites,
        problems=tuple(dict.fromkeys(problems)),
        of_files=discovery.problems,
        unread=unread,
        libraries=discovery.libraries,
    )
    if not asks_models:
        return project
    measured_suites = project.suites if project.fatal() else project.sound()
    return project.with_problems(unready(settings, measured_suites, environ=environ))


def unready(
    settings: Settings, suites: Sequence[Suite], *, environ: Environ
) -> tuple[Problem, ...]:
    """Problems with the judges and simulated users of settled suites that cannot be asked."""
    defaults = criteria_judges.defaults_of(settings)
    judge_environment = dotenv.of_judges(settings, [suite.agent for suite in suites], environ)
    judges = (
        ()
        if settings.skip_judged
        else criteria_judges.missing(suites, defaults, judge_environment.environ)
    )
    problems = (*judges, *user.missing(suites, defaults, judge_environment.environ))
    return tuple(
        replace(problem, hint=" ".join((problem.hint, *judge_environment.unused)))
        for problem in problems
    )


def _option_problems(uses: Iterable[AgentUse]) -> Iterator[Problem]:
    for use in uses:
        driver = agents.DRIVERS.get(use.driver)
        if driver is None:
            hint = words.did_you_mean(
                use.driver, agents.DRIVERS, fallback=f"Drivers: {', '.join(agents.DRIVERS)}."
            )
            yield errors.error(
                "agent-options", f"`{use.driver}` is not a known agent driver", hint=hint
            )
            continue
        try:
            agents.options_of(use)
        except ValidationError as error:
            for finding in error.errors():
                path = ".".join(map(str, finding["loc"])) or "options"
                hint = ""
                if finding["type"] == "extra_forbidden":
                    fields = driver.options.model_fields
                    hint = words.did_you_mean(
                        str(finding["loc"][-1]),
                        fields,
                        fallback=f"The driver takes: {', '.join(fields)}.",
                    )
                message = f"agent with driver `{use.driver}`: `{path}`: {words.fault(finding)}"
                yield errors.error("agent-options", message, hint=hint)
