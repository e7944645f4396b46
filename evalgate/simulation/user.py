"""The simulated users of a run, problems with their models, and the effect of their faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from evalgate import agents, errors
from evalgate.agents.base import AgentFailed
from evalgate.config.gate_file import JudgeRule, SimulatorRule
from evalgate.config.settings import Settings
from evalgate.errors import Problem
from evalgate.judges import models
from evalgate.judges.base import JudgeFailed, JudgePanel
from evalgate.judges.clients import Clients
from evalgate.model import (
    USER_SIMULATOR,
    Case,
    Content,
    ConversationScenario,
    CriterionUse,
    Ending,
    FailureKind,
    Invocation,
    Need,
    Purpose,
    SimulatorUse,
    Suite,
    TrialKey,
)
from evalgate.model.deviations import OURS, Deviations
from evalgate.text.templates import TemplateError
from evalgate.values import Environ, Json, JsonObject
from . import prompt
from .prompt import Script

UserSimulator: TypeAlias = Callable[[Sequence[Invocation]], Content | Ending | None]
"""One simulated user in one conversation: its message after the turns so far, or how the
conversation ends, None if its turns were fixed in the case.

Every call passes the same conversation with one more turn. Raises AgentFailed of the kind
SIMULATOR, which is not the agent's fault, if there is no message."""


class LlmUser:
    """See UserSimulator. At the turn limit the model is asked once more if it would end here, so
    that a finished conversation does not count as cut off; ADK cuts without asking."""

    def __init__(
        self,
        scenario: ConversationScenario,
        use: SimulatorUse,
        *,
        panel: JudgePanel,
        draw: int,
        deviations: Deviations,
    ) -> None:
        """Raises TemplateError."""
        self._scenario = scenario
        self._use = use
        self._panel = panel
        self._draw = draw
        self._deviations = deviations
        self._added_turns = 0
        self._script = Script(scenario, use)

    def __call__(self, history: Sequence[Invocation]) -> Content | Ending:
        """The starting prompt, if there is one, then the model's messages."""
        limits = [
            limit for limit in (self._scenario.max_turns, self._use.max_turns) if limit is not None
        ]
        is_at_limit = bool(limits) and len(history) >= min(limits)
        if is_at_limit and not (self._deviations.last_question and history):
            return Ending.TURN_LIMIT
        if not history and self._scenario.starting_prompt:
            return Content.of(self._scenario.starting_prompt, "user")
        if not is_at_limit:
            return self._ask(history)
        try:
            is_over = self._ask(history) is Ending.STOP_SIGNAL
        except AgentFailed:  # an outage ends nothing
            is_over = False
        return Ending.STOP_SIGNAL if is_over else Ending.TURN_LIMIT

    def _ask(self, history: Sequence[Invocation]) -> Content | Ending:
        for invocation in history[self._added_turns :]:
            self._script.add(invocation)
        self._added_turns = len(history)
        try:
            request = self._script.question().request(
                self._use.model, self._use.config, criterion=USER_SIMULATOR, sample=self._draw
            )
            reply = self._panel.ask(request)
        except JudgeFailed as failed:
            reason = f"{failed.failure.kind.value}: {failed.failure.message}"
            raise _failure(f"{self._use.model} {reason}") from failed
        except TemplateError as error:
            raise _failure(str(error)) from error
        text = reply.text.strip()
        if not text:
            raise _failure(f"{self._use.model} sent an empty response")
        if prompt.ends(
            text, stop_signal=self._use.stop_signal, as_adk=not self._deviations.quoted_signal
        ):
            return Ending.STOP_SIGNAL
        return Content.of(text, "user")


def _failure(reason: str) -> AgentFailed:
    return AgentFailed(FailureKind.SIMULATOR.failure(reason))


Simulate: TypeAlias = Callable[[Suite, Case, TrialKey], UserSimulator]
"""Makes the user of one trial."""


def begin(
    case: Case,
    use: SimulatorUse,
    *,
    panel: JudgePanel | None = None,
    draw: int = 0,
    deviations: Deviations = OURS,
) -> UserSimulator:
    """The user of one conversation: with fixed messages, or with a scenario.

    `panel` None: no model may be asked. `draw`: selects one of the replies to a question, by the
    run's seed and the repeat, so that repeats have different users and both sides of a comparison
    the same. Raises AgentFailed as the user does."""
    if case.scenario is None:
        turns = case.turns
        return lambda history: (
            turns[len(history)].user_content if len(history) < len(turns) else None
        )
    if panel is None:
        raise _failure("no model is available to play the user")
    try:
        return LlmUser(case.scenario, use, panel=panel, draw=draw, deviations=deviations)
    except TemplateError as error:
        raise _failure(f"the custom instructions cannot be used: {error}") from error


ENDED = "conversation_ended"
ADK_CONFIG: Json = {"thinking_config": {"include_thoughts": True, "thinking_budget": 10240}}
"""ADK's default `model_configuration`; only Gemini supports it."""

REPEATS = 10_000_000
"""More than the repeats of any run, so that each seed has its own draws."""


def has_scenarios(suite: Suite) -> bool:
    """True if evalgate's simulated user leads any case of a suite."""
    return suite.is_simulated and not agents.is_led(suite.agent)


def simulator_models(suites: Iterable[Suite]) -> tuple[str, ...]:
    """All models that play users in the settled suites, without repetition."""
    return tuple(dict.fromkeys(suite.simulator.model for suite in suites if has_scenarios(suite)))


def missing(suites: Iterable[Suite], defaults: JudgeRule, environ: Environ) -> list[Problem]:
    """A problem for each model that could not be asked to play a user. Makes no model calls."""
    clients = Clients(defaults=defaults, environment=environ)
    hint = "Fix its configuration, or use recorded replies (evalgate.yml: `judge: {replay: FILE}`)."
    return [
        errors.error("simulator-credentials", f"simulated user `{model}`: {reason}", hint=hint)
        for model, reason in clients.missing(simulator_models(suites)).items()
    ]


def simulate(
    suite: Suite, case: Case, key: TrialKey, *, panel: JudgePanel | None, settings: Settings
) -> UserSimulator:
    """The user of a trial. Without a panel, users of scenarios fail with a reason."""
    draw = (settings.seed * len(Purpose) + list(Purpose).index(key.purpose)) * REPEATS + key.number
    return begin(case, suite.simulator, panel=panel, draw=draw, deviations=settings.deviations)


def settle(suite: Suite, settings: Settings) -> Suite:
    """The suite, with the simulated user and the effect of its faults set if it has scenarios."""
    if not has_scenarios(suite):
        return suite
    rule = settings.gate_file.simulator
    simulator = _with_rule(suite.simulator, rule, client=settings.gate_file.judge.client)
    deviations = settings.deviations
    on_limit = rule.on_turn_limit if deviations.turn_limit else "pass"
    uses = list(suite.criteria)
    if not any(use.name == ENDED for use in uses):
        informational_index = next(
            (index for index, use in enumerate(uses) if use.informational), len(uses)
        )
        defaults = any(use.where_applicable for use in uses)
        ended_use = CriterionUse(
            name=ENDED, threshold=1.0, needs=frozenset({Need.SCENARIO}), where_applicable=defaults
        )
        uses.insert(informational_index, ended_use)

    def changes(use: CriterionUse) -> JsonObject:
        if use.name == ENDED and use.code is None:
            if on_limit == "pass":
                return {"threshold": None, "informational": True}
            return {"on_the_test": on_limit == "not_measured"}
        if Need.SCENARIO not in use.needs:
            return {}
        # judged with the user's stop signal; below its threshold the test was broken
        return {
            "options": {"stop_signal": simulator.stop_signal, **use.options},
            "on_the_test": deviations.poor_quality and rule.on_poor_quality == "not_measured",
        }

    return suite.with_criteria(uses, simulator).with_changes(changes)


def _with_rule(use: SimulatorUse, rule: SimulatorRule, *, client: str) -> SimulatorUse:
    model = rule.model or use.model
    client_name = client if client in ("gemini", "openai") else models.parse_name(model).client
    default = ADK_CONFIG if client_name == "gemini" else {}
    base_config = default if use.config is None else use.config
    turn_limit = rule.max_allowed_invocations
    max_turns = use.max_turns if turn_limit is None else None if turn_limit < 0 else turn_limit
    config = {**base_config, **(rule.config or {})}
    return replace(
        use, model=model, config=config, max_turns=max_turns, prompt_version=prompt.VERSION
    )
