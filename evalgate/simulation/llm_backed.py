"""A user played by a model: it follows a scenario, and is asked through the same panel as every judge."""

from __future__ import annotations

from collections.abc import Sequence

from evalgate.judges.base import JudgeFailed, JudgePanel, JudgeRequest
from evalgate.model import USER_SIMULATOR, Case, Content, ConversationScenario, Ending, Invocation, SimulatorUse, Text
from evalgate.plugins import Message, SimulatorFailure, SimulatorServices, SimulatorSpec, Stop, UserSimulator
from evalgate.plugins.simulation import Said
from evalgate.prompts import simulated_user
from evalgate.prompts.simulated_user import Script
from evalgate.prompts.templates import TemplateError


class LlmUser:
    """See plugins.UserSimulator.

    At the turn limit it is asked once more whether it would end here, so that a conversation that is over is not taken
    for one that was cut; ADK cuts without asking (`adk_compat`).
    """

    def __init__(
        self, scenario: ConversationScenario, use: SimulatorUse, *, panel: JudgePanel, services: SimulatorServices
    ) -> None:
        """Raises TemplateError."""
        self._scenario = scenario
        self._use = use
        self._panel = panel
        self._services = services
        self._told = 0
        self._script = Script(
            plan=scenario.conversation_plan,
            stop_signal=use.stop_signal,
            persona=scenario.persona,
            include_calls=use.include_function_calls,
            template=use.custom_instructions,
        )

    def next_message(self, history: Sequence[Invocation]) -> Said:
        """The starting prompt, then what the model says."""
        at_limit = self._use.max_turns is not None and len(history) >= self._use.max_turns
        if at_limit and (self._services.adk_compat or not history):
            return Stop(ended_by=Ending.TURN_LIMIT)
        if not history:
            return _message(self._scenario.starting_prompt)
        said = self._ask(history)
        return Stop(ended_by=Ending.TURN_LIMIT) if at_limit and not isinstance(said, Stop) else said

    def _ask(self, history: Sequence[Invocation]) -> Said:
        for invocation in history[self._told :]:
            self._script.add(invocation)
        self._told = len(history)
        try:
            reply = self._panel.ask(self._request())
        except JudgeFailed as failed:
            return SimulatorFailure(message=f"{self._use.model} {failed.failure.kind.value}: {failed.failure.message}")
        except TemplateError as error:
            return SimulatorFailure(message=str(error))
        text = reply.text.strip()
        if not text:
            return SimulatorFailure(message=f"{self._use.model} sent an empty reply")
        if simulated_user.ends(text, stop_signal=self._use.stop_signal, as_adk=self._services.adk_compat):
            return Stop(ended_by=Ending.STOP_SIGNAL)
        return _message(text)

    def _request(self) -> JudgeRequest:
        question = self._script.question()
        return JudgeRequest(
            model=self._use.model,
            prompt=question.prompt,
            criterion=USER_SIMULATOR,
            version=question.version,
            system=question.system,
            config=self._use.config or {},
            sample=self._services.draw,
        )


class _Mute:
    """A user who cannot be played."""

    def __init__(self, why: str) -> None:
        self._why = why

    def next_message(self, history: Sequence[Invocation]) -> Said:  # noqa: ARG002 - the shape of UserSimulator
        return SimulatorFailure(message=self._why)


def begin(case: Case, use: SimulatorUse, services: SimulatorServices) -> UserSimulator:
    """The user of a case with a scenario."""
    if case.scenario is None:
        return _Mute("the case has no conversation scenario")
    if services.panel is None:
        return _Mute("no model is available to play the user")
    try:
        return LlmUser(case.scenario, use, panel=services.panel, services=services)
    except TemplateError as error:
        return _Mute(f"the custom instructions cannot be used: {error}")


def _message(text: str) -> Message:
    return Message(content=Content(parts=(Text(text=text),), role="user"))


SPEC = SimulatorSpec(name="llm_backed", summary="follows a scenario, played by a model", begin=begin)
