"""Cases, evaluation sets, criteria as configured, and the suites that they form."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, TypeAlias

from evalgate.errors import Place
from evalgate.values import Json, digest, frozen_dataclass
from .conversation import Invocation, Rubric

TRAJECTORY = "tool_trajectory_avg_score"
"""The only criterion that compares tool calls."""


@frozen_dataclass
class SessionInput:
    """The initial session of a case."""

    app_name: str = ""
    """As the file has it; the agent's own driver may use another one."""
    user_id: str = ""
    session_id: str | None = None
    """None for a new one."""
    state: Json = field(default_factory=dict)
    """The session variables at the beginning."""


@frozen_dataclass
class PersonaBehavior:
    """One habit of a simulated user, and signs of its violation; named as in ADK's UserBehavior."""

    name: str
    description: str
    behavior_instructions: tuple[str, ...]
    """How a user of this habit behaves."""
    violation_rubrics: tuple[str, ...]
    """Signs that the simulated user does not behave so."""


@frozen_dataclass
class Persona:
    """The character of a simulated user. A built-in persona has only an id."""

    persona_id: str
    description: str = ""
    behaviors: tuple[PersonaBehavior, ...] = ()
    """Empty for a built-in persona."""


@frozen_dataclass
class ConversationScenario:
    """A conversation led by a simulated user, who also opens it if `starting_prompt` is empty."""

    starting_prompt: str
    """The first message, as written."""
    conversation_plan: str
    """What the user wants, in words."""
    persona: Persona | None = None
    """None for a user without a special character."""
    max_turns: int | None = None
    """None for the limit of the suite's simulator."""


@frozen_dataclass
class TurnSetup:
    """Additions to the user's message in a turn, from CES evaluations."""

    state: Json = field(default_factory=dict)
    """Session variables."""
    agent: str = ""
    """The agent that takes the turn."""
    tools: Mapping[str, tuple[Json, ...]] = field(default_factory=dict)
    """The answers of the agent's tools by name, as rules of a mock file."""
    mocks: bool = False
    """True if the case requires these answers."""
    fakes: bool = False
    """True if no real tool may run."""


@frozen_dataclass
class AdkCase:
    """ADK's EvalCase. Exactly one of `conversation` (may be empty) and `scenario` is not None."""

    case_id: str
    """Unique in its file."""
    conversation: tuple[Invocation, ...] | None = None
    """The expected turns."""
    scenario: ConversationScenario | None = None
    """The plan of a simulated user."""
    session: SessionInput | None = None
    """None: a new session without state."""
    rubrics: tuple[Rubric, ...] = ()
    """Rubrics for all of its turns."""
    expects_state: Json | None = None
    """The expected session state at the end; None if the file does not set it."""
    place: Place | None = field(default=None, compare=False)
    """Not compared: cases are equal wherever they are."""


@frozen_dataclass
class Case(AdkCase):
    """A case with what evaluations of CES and of agents-cli add to ADK's."""

    setups: tuple[TurnSetup, ...] = ()
    """Additions by turn; a scenario has one for all of its turns."""
    isolated: bool = False
    """True if each turn has its own session, after the expected turns before it."""
    history: tuple[Invocation, ...] = ()
    """The turns before it, in the case for a session of one turn."""
    criteria: frozenset[str] | None = None
    """Of CES evaluations: the criteria that decide the case; None: all of its suite."""
    ces: Json | None = None
    """Of CES evaluations: the evaluation and the settings that apply to it."""
    extras: Json = field(default_factory=dict)
    """What agents-cli passes to metrics of the case, as written."""
    fingerprint: str = ""
    """Of a case that a results file names without its content."""

    @property
    def turns(self) -> tuple[Invocation, ...]:
        """The turns of its conversation; empty for a scenario."""
        return self.conversation or ()

    @property
    def turn_count(self) -> int:
        """The number of its turns; a scenario counts as one."""
        return 1 if self.conversation is None else len(self.conversation)

    def setup_of(self, number: int) -> TurnSetup:
        """The additions to a turn, counted from 0."""
        if self.scenario is not None and self.setups:
            return self.setups[0]
        return self.setups[number] if number < len(self.setups) else TurnSetup()


@frozen_dataclass
class EvalSet:
    """ADK's EvalSet: the cases of one file."""

    eval_set_id: str
    """As the file has it, which need not be unique among files."""
    cases: tuple[Case, ...]
    name: str | None = None
    description: str | None = None

    def with_cases(self, cases: tuple[Case, ...]) -> EvalSet:
        """The set with other cases."""
        return replace(self, cases=cases)


class Need(enum.StrEnum):
    """A requirement of a criterion. The linter checks requirements before a run costs anything."""

    REFERENCE = "reference"
    """Expected invocations."""
    SCENARIO = "scenario"
    """A conversation scenario."""
    RUBRICS = "rubrics"
    """Rubrics on the criterion, the case or an invocation."""
    JUDGE = "judge"
    """A model."""
    VERTEX = "vertex"
    """Google Cloud's evaluation service."""


JUDGED = frozenset({Need.JUDGE, Need.VERTEX})
"""A criterion with one of these needs has a judge."""


@frozen_dataclass
class Scale:
    """The ends of a criterion's scale; None if open."""

    lowest: float | None = 0.0
    """None: there is no lower end."""
    highest: float | None = 1.0
    """None: there is no upper end."""
    resolution: float = 0.0
    """The largest difference that measuring itself may cause."""
    clocked: bool = False
    """True if it is read from a clock, so only sides that ran together can be compared."""


OPEN = Scale(lowest=None, highest=None)
"""The scale of a criterion without one."""


@frozen_dataclass
class CriterionSetup:
    """A criterion as the user configured it."""

    name: str
    """As the file of criteria writes it; unique in a suite."""
    threshold: float | None
    """None for informational criteria, and if only the base decides."""
    options: Json = field(default_factory=dict)
    """Everything except the threshold, as the criterion validated it."""
    informational: bool = False
    """True if it is shown and never decides."""
    lower_is_better: bool = False
    """True if a value at or below the threshold passes."""
    code: str | None = None
    """The dotted path of a custom metric."""
    on_the_test: bool = False
    """True if it measures the test, not the agent: a case below its threshold is not measured."""
    endpoint: str = ""
    """The address of its judge, if not the model's own provider."""


@frozen_dataclass
class CriterionUse(CriterionSetup):
    """A criterion of a suite, with what its row in the table of criteria says of it, and its
    origin."""

    scale: Scale = field(default_factory=Scale)
    """Of its scores."""
    needs: frozenset[Need] = frozenset()
    """What a case must have for it."""
    prompt_version: str = ""
    """Of the judge's question."""
    where_applicable: bool = False
    """True if it is a default, and decides only cases that meet its needs."""
    metric: str = ""
    """Its name in the table of criteria, if `name` differs (else "")."""
    code_commit: str = ""
    """The base's commit, if the code of its custom metric scores both sides (else ""); with a `+`
    and a digest if the change edits that code."""
    place: Place | None = None
    """Where it is configured; None for defaults."""

    @property
    def is_code_edited(self) -> bool:
        """True if its custom metric runs with the change's version of the metric's files."""
        return "+" in self.code_commit

    @property
    def is_compared(self) -> bool:
        """True if it has no threshold and only the comparison with the base decides."""
        return self.threshold is None and not self.informational

    @property
    def is_judged(self) -> bool:
        """True if a judge scores it."""
        return not self.needs.isdisjoint(JUDGED)

    @property
    def is_partial(self) -> bool:
        """True if it decides only the cases that meet its needs: a default, or a comparison with a
        threshold that every score passes, so that nothing is unknown without an expectation. A
        case that says nothing about tools expects none."""
        return self.where_applicable or (
            Need.REFERENCE in self.needs
            and self.name != TRAJECTORY
            and self.threshold is not None
            and self.threshold == self.scale.lowest
        )

    @property
    def is_of_ces(self) -> bool:
        """True if it scores CES evaluations."""
        return self.name.startswith("ces_") and self.code is None

    def applies_to(self, case: Case) -> bool:
        """True if it decides the case. A partial one that compares needs an expectation in it: tool
        calls, even an empty list, or an answer with text. Other defaults are for conversation
        scenarios."""
        if case.criteria is not None:
            return self.name in case.criteria
        if not self.is_partial:
            return True
        if Need.REFERENCE not in self.needs:
            return case.scenario is not None
        turns = case.turns
        if self.name == TRAJECTORY:
            return any(turn.events is not None for turn in turns)
        answers = (turn.final_response for turn in turns if turn.final_response is not None)
        return any(answer.text(with_thoughts=True).strip() for answer in answers)


@frozen_dataclass
class SimulatorUse:
    """The simulated user of a suite's scenarios: ADK's user_simulator_config, with ADK's
    defaults."""

    model: str = "gemini-2.5-flash"
    config: Json | None = None
    """ADK's `model_configuration`; None if not set."""
    max_turns: int | None = 20
    """ADK's `max_allowed_invocations`, including the starting prompt; None: no limit."""
    custom_instructions: str | None = None
    """A Jinja template that replaces evalgate's prompt."""
    include_function_calls: bool = False
    """True if the user also sees tool calls and their results."""
    stop_signal: str = "</finished>"
    """The text with which the user ends the conversation."""
    prompt_version: str = ""
    """The version of evalgate's prompt; "" until the user is settled."""
    endpoint: str = ""
    """As `CriterionUse.endpoint`."""


class ConfigOrigin(enum.StrEnum):
    """The source of a suite's criteria."""

    EXPLICIT = "explicit"
    """Named by the user."""
    BESIDE = "beside"
    """In test_config.json in the file's own folder."""
    ABOVE = "above"
    """In the nearest test_config.json above the file's folder."""
    EMBEDDED = "embedded"
    """In the gate file (evalgate.yml)."""
    EVALUATION = "evaluation"
    """In the evaluation itself, and its app's settings (CES)."""
    DEFAULTS = "defaults"
    """ADK's defaults: no config was found."""


@frozen_dataclass
class CriteriaSource:
    """The source of a suite's criteria."""

    origin: ConfigOrigin
    file: str = ""
    """Repository-relative; "" for defaults."""


@dataclass(frozen=True, kw_only=True)
class AgentUse:
    """The agent of a suite: a driver of `evalgate.agents` and its options.

    Equal values are one agent: their suites share its workers."""

    ABSENT: ClassVar[str] = "absent"
    """The driver of a missing agent: a base without this agent, or a base with only stored
    results."""

    driver: str
    """Its name in the table of `evalgate.agents`."""
    options: Json = field(default_factory=dict)
    """As the driver defines them."""
    found_by: str = ""
    """How the agent was found, in words; "" if it was named."""

    @cached_property
    def key(self) -> str:
        """Equal for equal agents."""
        return digest([self.driver, dict(self.options)])

    @property
    def is_absent(self) -> bool:
        """True if there is no agent to run."""
        return self.driver == self.ABSENT

    def with_options(self, options: Json) -> AgentUse:
        """The agent with other options."""
        return replace(self, options=options)


@frozen_dataclass
class Suite:
    """One evaluation file with its criteria and its agent."""

    key: str
    """Its repository-relative POSIX path."""
    eval_set: EvalSet
    criteria: tuple[CriterionUse, ...]
    criteria_source: CriteriaSource
    """The file with its criteria, and how it was found."""
    agent: AgentUse
    """Who answers the user."""
    simulator: SimulatorUse = SimulatorUse()
    """Who speaks for the user in scenarios."""
    simulator_place: Place | None = None
    """Where the simulated user is configured; None for ADK's defaults."""
    problem: str = ""
    """Why the suite cannot be measured, an error of this file only; the suite then has no cases."""

    @property
    def is_of_ces(self) -> bool:
        """True if it holds CES evaluations, which define their own scoring."""
        return self.criteria_source.origin is ConfigOrigin.EVALUATION

    @property
    def is_simulated(self) -> bool:
        """True if a simulated user speaks in any of its cases."""
        return any(case.scenario is not None for case in self.eval_set.cases)

    @property
    def asks_models(self) -> bool:
        """True if a judge scores it, or a simulated user speaks in it."""
        return self.is_simulated or any(use.is_judged for use in self.criteria)

    @property
    def cases(self) -> tuple[Case, ...]:
        """The cases of its file."""
        return self.eval_set.cases

    def with_cases(self, cases: tuple[Case, ...]) -> Suite:
        """The suite with other cases."""
        return replace(self, eval_set=self.eval_set.with_cases(cases))

    def with_agent(self, agent: AgentUse) -> Suite:
        """The suite with another agent."""
        return replace(self, agent=agent)

    def with_criteria(
        self, criteria: Iterable[CriterionUse], simulator: SimulatorUse | None = None
    ) -> Suite:
        """The suite with other criteria, and with another simulated user if there is one."""
        return replace(self, criteria=tuple(criteria), simulator=simulator or self.simulator)

    def criteria_of(self, case: Case) -> tuple[CriterionUse, ...]:
        """The criteria that decide one of its cases, and the informational ones."""
        return tuple(use for use in self.criteria if use.applies_to(case))


Suites: TypeAlias = tuple[Suite, ...]
"""The suites of a project, a plan or a side."""


def cases_of(suites: Iterable[Suite]) -> dict[tuple[str, str], Case]:
    """The cases of suites, by suite and id."""
    return {(suite.key, case.case_id): case for suite in suites for case in suite.cases}
