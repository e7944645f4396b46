"""What people write for `cxas` in YAML: goldens, simulations and tool tests; and a golden as the
Evaluation it becomes.

The anchor drops keys that it does not know; here they are errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from evalgate.values import JsonObject, digest_of, is_list_of
from .shapes import (
    LOCAL_APP,
    MOST_TURNS,
    AgentTransfer,
    Chunk,
    Evaluation,
    Event,
    Golden,
    GoldenExpectation,
    GoldenTurn,
    Int32,
    Message,
    Proto,
    Scenario,
    SessionInput,
    Step,
    Struct,
    ToolCall,
    ToolResponse,
    UserGoalBehavior,
)

SILENT = "# silent"
"""In an expected answer: nothing is expected."""
TRANSFER = "transfer_to_agent"


def _variables(value: Any) -> Any:
    """Session variables in any of the anchor's four shapes: an object, a list of `{name, value}` or
    of objects, a list of names (their values are looked up in a run: null), or JSON text of one of
    these."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise PydanticCustomError(
                "wrong_type", "expected an object of variables, or JSON text of one"
            ) from None
    if not isinstance(value, list):
        return value
    variables: JsonObject = {}
    for entry in value:
        if isinstance(entry, dict) and "name" in entry:
            variables[str(entry["name"])] = entry.get("value")
        elif isinstance(entry, dict):
            variables |= entry
        elif isinstance(entry, str):
            variables[entry] = None
        else:
            raise PydanticCustomError(
                "wrong_type", "expected a variable: `{name, value}`, or its name"
            )
    return variables


def _texts(value: Any) -> Any:
    """One text or a list of them."""
    listed = [value] if isinstance(value, str) else value
    if not is_list_of(listed, str):
        raise PydanticCustomError("wrong_type", "expected text or a list of texts")
    return tuple(listed)


def _object_or(kind: type, noun: str) -> BeforeValidator:
    """A check of a value that may be an object or something else."""

    def check(value: Any) -> Any:
        if not isinstance(value, dict | kind | None):
            raise PydanticCustomError("wrong_type", "expected an object or {noun}", {"noun": noun})
        return value

    return BeforeValidator(check)


Variables = Annotated[Struct, BeforeValidator(_variables)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
MaxTurns = Annotated[Int32, Field(ge=0)]
"""0: no limit of its own."""


class Cxas(Proto):
    """A mapping of such a file: keys have one spelling."""

    model_config = ConfigDict(alias_generator=None)


class CalledTool(Cxas):
    """A tool call that is expected, with what the tool then answers."""

    required: ClassVar = ("action",)

    action: str = ""
    args: Struct = Field(default_factory=dict)
    output: Annotated[JsonObject | str | None, _object_or(str, "text")] = None
    agent: str | None = None


class WrittenTurn(Cxas):
    """What the user says, what the agent should do and answer; without `user` the event
    `welcome`."""

    user: str | None = None
    agent: Texts = ()
    tool_calls: tuple[CalledTool, ...] = ()
    variables: Variables = Field(default_factory=dict)


class Conversation(Cxas):
    """One golden."""

    required: ClassVar = ("conversation", "turns")

    conversation: str = ""
    expectations: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    session_parameters: Variables = Field(default_factory=dict)
    turns: tuple[WrittenTurn, ...] = ()


class Conversations(Cxas):
    """A file of goldens."""

    required: ClassVar = ("conversations",)

    common_session_parameters: Struct = Field(default_factory=dict)
    common_expectations: tuple[str, ...] = ()
    conversations: tuple[Conversation, ...] = ()


class Goal(Cxas):
    """A step of a simulation: a goal of the simulated user, or words that are said as they are."""

    goal: str = ""
    success_criteria: str = ""
    response_guide: str = ""
    max_turns: MaxTurns = 0
    static_utterance: str = ""
    inject_variables: Variables = Field(default_factory=dict)


class SimulationNames(Cxas):
    """What people call a simulation."""

    name: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()


class Simulation(SimulationNames):
    """A conversation with goals in order."""

    required: ClassVar = ("name", "steps")

    steps: tuple[Goal, ...] = ()
    expectations: tuple[str, ...] = ()
    audio_expectations: tuple[str, ...] = ()
    session_parameters: Variables = Field(default_factory=dict)
    max_turns: MaxTurns = 0
    voice_config: Struct | None = None
    naturalness_metric: Annotated[JsonObject | bool | None, _object_or(bool, "true or false")] = (
        None
    )


class Simulations(Cxas):
    """A file of simulations."""

    required: ClassVar = ("evals",)

    evals: tuple[Simulation, ...] = ()


class ToolTest(Cxas):
    """One call of a tool, and what is expected of its answer, which only cxas checks."""

    required: ClassVar = ("name", "tool")
    oneofs: ClassVar = {"session": ("variables", "context")}

    name: str = ""
    tool: str = ""
    args: Struct = Field(default_factory=dict)
    variables: Variables | None = None
    context: Variables | None = None
    expectations: Struct | None = None


class ToolTests(Cxas):
    """A file of tool tests."""

    required: ClassVar = ("tests",)

    tests: tuple[ToolTest, ...] = ()


# --- as resources ---------------------------------------------------------------------------------


def expectation_id(prompt: str) -> str:
    """The id of an expectation whose text is its prompt: its first words, and a hash that makes it
    unique."""
    slug = re.sub(r"[^a-z0-9]+", "-", prompt.lower())[:24].strip("-") or "expectation"
    return f"{slug}-{digest_of(prompt, 8)}"


def golden_of(written: Conversation, common: Conversations) -> Evaluation:
    """The Evaluation that `cxas push-eval` makes of a conversation.

    Session parameters are set in the first turn, `variables` in each turn that has them: the run
    method STABLE carries nothing from turn to turn."""
    staged = {**common.common_session_parameters, **written.session_parameters}
    turns = []
    for turn in written.turns:
        turns.append(_turn(turn, {**staged, **turn.variables}))
        staged = {}
    prompts = (*common.common_expectations, *written.expectations)
    return Evaluation(
        display_name=written.conversation,
        tags=written.tags,
        golden=Golden(turns=tuple(turns), evaluation_expectations=_names(prompts)),
    )


def _names(prompts: Iterable[str]) -> tuple[str, ...]:
    return tuple(
        f"{LOCAL_APP}/evaluationExpectations/{expectation_id(prompt)}" for prompt in prompts
    )


def _turn(turn: WrittenTurn, variables: JsonObject) -> GoldenTurn:
    steps = [Step(user_input=SessionInput(variables=variables))] if variables else []
    user_input = (
        SessionInput(event=Event(event="welcome"))
        if turn.user is None
        else SessionInput(text=turn.user)
    )
    steps.append(Step(user_input=user_input))
    expected = [
        GoldenExpectation(agent_response=Message(role="agent", chunks=(Chunk(text=text),)))
        for text in turn.agent
        if SILENT not in text
    ]
    for number, call in enumerate(turn.tool_calls, start=1):
        agent = call.args.get("agent") or call.agent
        if call.action == TRANSFER and isinstance(agent, str) and agent:
            target_agent = agent if agent.startswith("projects/") else f"{LOCAL_APP}/agents/{agent}"
            expected.append(
                GoldenExpectation(agent_transfer=AgentTransfer(target_agent=target_agent))
            )
            continue
        tool = (
            call.action
            if call.action.startswith("projects/")
            else f"{LOCAL_APP}/tools/{call.action}"
        )
        expected_call = ToolCall(tool=tool, id=f"call-{number}", args=call.args)
        expected.append(GoldenExpectation(tool_call=expected_call))
        if call.output is not None:
            answer = call.output if isinstance(call.output, dict) else {"output": call.output}
            response = ToolResponse(tool=tool, id=expected_call.id, response=answer)
            expected.append(GoldenExpectation(tool_response=response))
    return GoldenTurn(steps=(*steps, *(Step(expectation=expectation) for expectation in expected)))


def scenario_of(simulation: Simulation) -> Evaluation:
    """A simulation as a scenario whose task is its steps in order. `inject_variables` of the first
    step are set from the start; those of later steps have no effect."""
    steps = simulation.steps
    turns = simulation.max_turns or sum(step.max_turns for step in steps)
    task = "Follow these goals in order, one after another:"
    for number, step in enumerate(steps, start=1):
        utterance = f"Say exactly: {step.static_utterance}" if step.static_utterance else ""
        done = f"Done when: {step.success_criteria}" if step.success_criteria else ""
        texts = (f"\n{number}.", utterance, step.goal, step.response_guide, done)
        task += " ".join(filter(None, texts))
    return Evaluation(
        display_name=simulation.name,
        scenario=Scenario(
            task=task,
            max_turns=min(turns, MOST_TURNS),
            variable_overrides={**simulation.session_parameters, **steps[0].inject_variables},
            user_goal_behavior=UserGoalBehavior.USER_GOAL_IGNORED,
            evaluation_expectations=_names(simulation.expectations),
        ),
    )


def goal_texts(simulation: Simulation) -> tuple[str, ...]:
    """The goals of a simulation in order, as properties of its conversation."""
    texts = []
    for number, step in enumerate(simulation.steps, start=1):
        criteria = step.success_criteria
        done = f" It counts as reached when: {criteria}" if criteria else ""
        order = f" Goal {number - 1} was reached before it." if number > 1 else ""
        texts += [f"Goal {number} was reached: {step.goal}{done}{order}"] if step.goal else []
    return tuple(texts)
