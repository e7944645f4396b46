"""A CES evaluation as an ADK case, with a report of everything that ADK has no place for.

Equivalences, which are no loss: the role `agent` of an answer is implied; variables at the very beginning are one step;
`<event>NAME</event>` as text is the event, as the console and `cxas` write it.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from evalgate.ces import shapes
from evalgate.ces.cxas import Simulation
from evalgate.ces.shapes import (
    Blob,
    Chunk,
    Evaluation,
    Golden,
    GoldenExpectation,
    GoldenTurn,
    Handling,
    Message,
    Proto,
    Scenario,
    SessionInput,
    Step,
    ToolCall,
    ToolResponse,
)
from evalgate.formats.json_source import Path, path_text
from evalgate.model import (
    Attachment,
    Case,
    Content,
    ConversationScenario,
    Event as AdkEvent,
    Invocation,
    Part,
    Rubric,
    SessionInput as AdkSession,
    Text,
    ToolCall as AdkCall,
    ToolResponse as AdkResponse,
)
from evalgate.values import Json, JsonObject, frozen_dataclass

STARTING_PROMPT: Final = "Hello."
"""What a simulated user of ADK begins with; CES lets it find its own words."""

TRANSFER: Final = "transfer_to_agent"
AGENT: Final = "agent"
_FACTS: Final = "\n\nWhat the user knows:\n"
_FACT = re.compile(r"- ([^:\n]+): ([^\n]*)")
_EVENT = re.compile(r"<event>([^<>\n]+)</event>")
_RUBRIC_ID = re.compile(r"rubric_\d+")


class Effect(enum.StrEnum):
    """What becomes of a value that the other side has no place for."""

    DROPPED = "dropped"
    BECOMES = "changed"
    ORDER = "reordered"
    NOTE = "note"


@frozen_dataclass
class Loss:
    """A value of the source, and what is not the same in the result. `becomes`: the value that it comes back as;
    `order`: the items of a list in the order in which they come back, by their places in the source."""

    path: Path
    why: str
    effect: Effect = Effect.DROPPED
    becomes: Any = None
    order: tuple[int, ...] = ()

    def __str__(self) -> str:
        where = f"`{path_text(self.path)}`" if self.path else "it"
        return f"{where}: {self.why}" if self.effect is Effect.NOTE else f"{where} is {self.effect}: {self.why}"


@dataclass(slots=True)
class _Report:
    losses: list[Loss] = field(default_factory=list)

    def dropped(self, path: Path, why: str) -> None:
        self.losses.append(Loss(path=path, why=why))

    def becomes(self, path: Path, value: Any, why: str) -> None:
        self.losses.append(Loss(path=path, why=why, effect=Effect.BECOMES, becomes=value))

    def note(self, path: Path, why: str) -> None:
        self.losses.append(Loss(path=path, why=why, effect=Effect.NOTE))

    def fields(self, message: Proto, path: Path, kept: Iterable[str], whys: Mapping[str, str]) -> None:
        """Every field of a message that says something and is not `kept` is dropped; output-only ones say nothing."""
        shape = type(message)
        for name, own in shape.model_fields.items():
            says = getattr(message, name) != own.get_default(call_default_factory=True)
            if says and name not in kept and shapes.handling_of(shape, name) is not Handling.OUTPUT:
                self.dropped((*path, shapes.key_of(shape, name)), whys.get(name, "ADK has no such field"))


# --- CES -> ADK ---------------------------------------------------------------------------------------

_OF_EVALUATION: Final = {
    "name": "ADK knows cases by their id alone",
    "evaluation_metrics_threshold_override": "ADK keeps thresholds in test_config.json",
    "evaluation_metrics_config_override": "ADK keeps criteria in test_config.json",
}
_OF_SCENARIO: Final = {
    "max_turns": "ADK keeps it in test_config.json: `user_simulator_config.max_allowed_invocations`",
    "scenario_expectations": "ADK's scenarios expect no calls and no answers; rubrics can ask for them",
    "user_goal_behavior": "ADK's simulated user always wants its goal met",
    "task_completion_behavior": "ADK's simulated user always wants its goal met",
}
_OF_EXPECTATION: Final = {
    "comparison_type": "ADK compares by the criteria of test_config.json",
    "expectation_level_metrics_thresholds_override": "ADK keeps thresholds in test_config.json",
}


def to_adk(evaluation: Evaluation, *, app: str, prompts: Mapping[str, str]) -> tuple[Case, list[Loss]]:
    """The case that asks and expects the same, and what it has no place for. `prompts`: the expectations' by id."""
    report = _Report()
    report.fields(evaluation, (), ("display_name", "golden", "scenario"), _OF_EVALUATION)
    scenario, golden = evaluation.scenario, evaluation.golden or Golden()
    if scenario is not None:
        named, path = scenario.evaluation_expectations, "scenario"
        rubrics = [Rubric(rubric_id=f"rubric_{i + 1}", text=text) for i, text in enumerate(scenario.rubrics)]
    else:
        named, path, rubrics = golden.evaluation_expectations, "golden", []
    rubrics += _rubrics(named, (path, "evaluationExpectations"), report, app=app, prompts=prompts, told=bool(scenario))
    if scenario is not None:
        state = _scenario_state(scenario, report)
        case = Case(case_id=evaluation.display_name, scenario=_to_scenario(scenario, report), rubrics=tuple(rubrics))
    else:
        state, variables = _first_variables(golden)
        turns, last = [], len(golden.turns) - 1
        expected: JsonObject | None = None
        for number, turn in enumerate(golden.turns):
            made = _Turn(turn, ("golden", "turns", number), report, app=app, skip=variables if number == 0 else 0)
            turns.append(made.invocation(is_last=number == last))
            expected = made.state
        case = Case(
            case_id=evaluation.display_name,
            conversation=tuple(turns),
            rubrics=tuple(rubrics),
            expects_state=expected,
        )
    return replace(case, session=_session(state, app)), report.losses


def _session(state: Json, app: str) -> AdkSession | None:
    return AdkSession(app_name=app.rpartition("/")[2], user_id="user", state=state) if state else None


def simulation_to_adk(simulation: Simulation, *, app: str) -> tuple[Case, list[Loss]]:
    """A simulation for `cxas` as a conversation scenario: its goals, in order, are the plan."""
    report = _Report()
    kept = ("name", "steps", "expectations", "session_parameters")
    limit = {"max_turns": _OF_SCENARIO["max_turns"]}
    report.fields(simulation, (), kept, limit)
    goals, first = [], simulation.steps[0].static_utterance if simulation.steps else ""
    for number, step in enumerate(simulation.steps):
        report.fields(
            step, ("steps", number), ("goal", "success_criteria", "response_guide", "static_utterance"), limit
        )
        said = (step.static_utterance and f"Say exactly: {step.static_utterance}", step.goal, step.response_guide)
        done = f"Done when: {step.success_criteria}" if step.success_criteria else ""
        goals.append(f"{number + 1}. " + " ".join(text for text in (*said, done) if text))
    plan = "Follow these goals in order, one after another:\n" + "\n".join(goals)
    report.note(("steps",), "the goals are one plan: no goal is scored of its own")
    rubrics = tuple(Rubric(rubric_id=f"rubric_{i + 1}", text=text) for i, text in enumerate(simulation.expectations))
    scenario = ConversationScenario(starting_prompt=first or STARTING_PROMPT, conversation_plan=plan)
    session = _session(simulation.session_parameters, app)
    return Case(case_id=simulation.name, scenario=scenario, rubrics=rubrics, session=session), report.losses


def _rubrics(
    named: Sequence[str], path: Path, report: _Report, *, app: str, prompts: Mapping[str, str], told: bool
) -> list[Rubric]:
    made = []
    for number, name in enumerate(named):
        last = name.rpartition("/")[2]
        if last not in prompts:
            report.dropped((*path, number), f"the prompt of {last!r} is not known")
        elif told and _RUBRIC_ID.fullmatch(last):
            report.dropped((*path, number), "the id is that of a rubric")
        else:
            made.append(Rubric(rubric_id=last, text=prompts[last]))
            if name != (whole := f"{app}/evaluationExpectations/{last}"):
                report.becomes((*path, number), whole, "ADK keeps the last part of a name")
    return made


def _to_scenario(scenario: Scenario, report: _Report) -> ConversationScenario:
    kept = ("task", "user_facts", "rubrics", "variable_overrides", "evaluation_expectations")
    report.fields(scenario, ("scenario",), kept, _OF_SCENARIO)
    report.note(("scenario", "task"), f"ADK's simulated user begins with {STARTING_PROMPT!r}")
    facts = []
    for number, fact in enumerate(scenario.user_facts):
        line = _FACT.fullmatch(f"- {fact.name}: {fact.value}")
        if line is not None and line.groups() == (fact.name, fact.value):
            facts.append(line[0])
        else:
            report.dropped(("scenario", "userFacts", number), "a fact in ADK's plan is one line, `name: value`")
    plan = scenario.task + (_FACTS + "\n".join(facts) if facts else "")
    if _from_plan(plan) != (scenario.task, tuple(facts)):
        report.becomes(("scenario", "task"), _from_plan(plan)[0], "its end reads as a list of facts")
    return ConversationScenario(starting_prompt=STARTING_PROMPT, conversation_plan=plan)


def _from_plan(plan: str) -> tuple[str, tuple[str, ...]]:
    """A task and its facts, each as it stands in the plan."""
    task, mark, rest = plan.rpartition(_FACTS)
    lines = tuple(rest.split("\n"))
    return (task, lines) if mark and all(_FACT.fullmatch(line) for line in lines) else (plan, ())


def _scenario_state(scenario: Scenario, report: _Report) -> Json:
    if scenario.variable_overrides is not None and not scenario.variable_overrides:
        report.dropped(("scenario", "variableOverrides"), "an empty state is none in ADK")
    return scenario.variable_overrides or {}


def _first_variables(golden: Golden) -> tuple[JsonObject, int]:
    """The variables that a golden begins with, and in how many steps."""
    state: JsonObject = {}
    steps = golden.turns[0].steps if golden.turns else ()
    for number, step in enumerate(steps):
        if step.user_input is None or not step.user_input.variables:
            return state, number
        state |= step.user_input.variables
    return state, len(steps)


class _Turn:
    """One turn of a golden on its way to an invocation; `state`: what the session should hold at its end."""

    def __init__(self, turn: GoldenTurn, path: Path, report: _Report, *, app: str, skip: int) -> None:
        self.state: JsonObject | None = None
        self._turn, self._path, self._report, self._app = turn, path, report, app
        self._skip = skip
        self._said: list[Part] = []
        self._events: list[AdkEvent] = []
        self._order: dict[str, list[int]] = {key: list(range(skip)) if key == "said" else [] for key in _ORDER}
        answers = [n for n, step in enumerate(turn.steps) if step.expectation and step.expectation.agent_response]
        spoken = [n for n in answers if self._is_evaluated(turn.steps[n]) and self._is_sayable(turn.steps[n])]
        self._final = spoken[-1] if spoken else None
        self._answer: Content | None = None
        self._forbids_calls = False

    @staticmethod
    def _is_evaluated(step: Step) -> bool:
        return step.expectation is not None and not step.expectation.skip_evaluation

    @staticmethod
    def _is_sayable(step: Step) -> bool:
        answer = step.expectation.agent_response if step.expectation else None
        chunks = answer.chunks if answer else ()
        return not chunks or any(each.text is not None or each.image or each.blob for each in chunks)

    def invocation(self, *, is_last: bool) -> Invocation:
        """The turn as an invocation; what it has no place for is reported."""
        whys = {"hallucination_metric_behavior_override": "ADK switches it by the criteria of test_config.json"}
        self._report.fields(self._turn, self._path, ("steps",), whys)
        for number, step in enumerate(self._turn.steps):
            if number < self._skip:
                self._input_fields(step, (*self._path, "steps", number))
                continue
            self._step(step, number, is_last=is_last)
        if not self._said:
            self._report.note(self._path, "nothing is left that is said to the agent in this turn")
        events = tuple(self._events) if self._events or self._forbids_calls else None
        order = tuple(number for key in _ORDER for number in self._order[key])
        if list(order) != sorted(order):
            why = "in ADK a turn is what the user says, the steps, the answer, the state"
            path = (*self._path, "steps")
            self._report.losses.append(Loss(path=path, why=why, effect=Effect.ORDER, order=order))
        said = Content(parts=tuple(self._said), role="user")
        return Invocation(user_content=said, final_response=self._answer, events=events)

    def _step(self, step: Step, number: int, *, is_last: bool) -> None:
        path = (*self._path, "steps", number)
        if step.user_input is not None:
            self._input(step, number, path)
        elif step.agent_transfer is not None:
            self._report.dropped(path, "an ADK conversation cannot be moved to another agent by the test")
        elif step.expectation is not None and step.expectation.skip_evaluation:
            self._report.dropped(path, "ADK evaluates all that is expected; this is not to be evaluated")
        elif step.expectation is not None:
            self._expectation(step.expectation, number, (*path, "expectation"), is_last=is_last)

    def _input_fields(self, step: Step, path: Path) -> None:
        if step.user_input is not None:
            kept = ("text", "event", "image", "blob", "variables")
            self._report.fields(step.user_input, (*path, "userInput"), kept, {})

    def _input(self, step: Step, number: int, path: Path) -> None:
        given = step.user_input or SessionInput()
        part: Part
        if given.text is not None:
            part = Text(text=given.text)
        elif given.event is not None:
            part = Text(text=f"<event>{given.event.event}</event>")
            if not _EVENT.fullmatch(part.text):
                self._report.dropped(path, "the name of the event cannot be written as text")
                return
        elif given.image is not None or given.blob is not None:
            part = self._attachment(given, (*path, "userInput"))
        else:
            whys = {"variables": "ADK sets state before the first turn only"}
            name = shapes.given_of(given)
            self._report.dropped(path, whys.get(name, f"ADK's user has no {name}"))
            return
        self._input_fields(step, path)
        self._said.append(part)
        self._order["said"].append(number)

    def _attachment(self, holder: SessionInput | Chunk, path: Path) -> Attachment:
        found = holder.image or holder.blob or Blob()
        key, other = ("image", "blob") if holder.image else ("blob", "image")
        if (key == "image") != found.mime_type.startswith("image/"):
            self._report.dropped((*path, key), f"ADK tells by the type of the data, which is that of an {other}")
            self._report.becomes((*path, other), found.json(), "as its type says")
        return Attachment(data={"inline_data": {"mime_type": found.mime_type, "data": found.data}})

    def _expectation(self, expected: GoldenExpectation, number: int, path: Path, *, is_last: bool) -> None:
        said = shapes.given_of(expected)
        if said == "mock_tool_response":
            self._report.dropped(path[:-1], "ADK's file has no mocks; evalgate has them in `tools`")
            return
        if said == "no_tool_calls":
            has_events = any(
                self._is_evaluated(step) and self._makes_event(step, n) for n, step in enumerate(self._turn.steps)
            )
            if has_events or self._forbids_calls:
                self._report.dropped(path[:-1], "in ADK only a turn without any steps says that no tool is called")
                return
            self._forbids_calls = True
            self._order["none"].append(number)
        elif said == "updated_variables":
            if not is_last or self.state is not None or not expected.updated_variables:
                self._report.dropped(path[:-1], "ADK expects one state, at the end of the case")
                return
            self.state = expected.updated_variables
            self._order["state"].append(number)
        elif said == "agent_response":
            if not self._says(expected.agent_response or Message(), number, (*path, "agentResponse")):
                return
        else:
            part, author = self._of_tools(expected, path)
            role = "user" if isinstance(part, AdkResponse) else "model"
            self._events.append(AdkEvent(author=author, content=Content(parts=(part,), role=role)))
            self._order["steps"].append(number)
        self._report.fields(expected, path, (said,), _OF_EXPECTATION)

    def _makes_event(self, step: Step, number: int) -> bool:
        each = step.expectation or GoldenExpectation()
        says = each.agent_response is not None and number != self._final and self._is_sayable(step)
        return says or bool(each.tool_call or each.tool_response or each.agent_transfer)

    def _of_tools(self, expected: GoldenExpectation, path: Path) -> tuple[Part, str]:
        if expected.agent_transfer is not None:
            name = self._short(expected.agent_transfer.target_agent, "agents", (*path, "agentTransfer", "targetAgent"))
            return AdkCall(name=TRANSFER, args={"agent_name": name}), AGENT
        if expected.tool_call is not None:
            call, where = expected.tool_call, (*path, "toolCall")
            name, args = self._tool(call, where), call.args
            if args is not None:
                args = {key: self._matched(value, (*where, "args", key)) for key, value in args.items()}
                args = {key: value for key, value in args.items() if value is not _IGNORED}
            if name == TRANSFER:
                name = f"{TRANSFER}_tool"
                self._report.becomes((*where, "tool"), f"{self._app}/tools/{name}", "the name means a transfer in ADK")
            return AdkCall(name=name, args=args, id=call.id or None), AGENT
        response = expected.tool_response or ToolResponse()
        named = self._tool(response, (*path, "toolResponse"))
        return AdkResponse(name=named, response=response.response, id=response.id or None), AGENT

    def _matched(self, value: Any, path: Path) -> Any:
        if not isinstance(value, dict) or "$matchType" not in value:
            return value
        if value["$matchType"] == "ignore" or "$originalValue" not in value:
            self._report.dropped(path, "ADK compares all arguments that are written")
            return _IGNORED
        self._report.becomes(path, value["$originalValue"], f"ADK has no {value['$matchType']!r} match for an argument")
        return value["$originalValue"]

    def _tool(self, holder: ToolCall | ToolResponse, path: Path) -> str:
        if holder.toolset_tool is None:
            return self._short(holder.tool or "", "tools", (*path, "tool"))
        name = holder.toolset_tool.tool_id or holder.toolset_tool.toolset.rpartition("/")[2]
        self._report.dropped((*path, "toolsetTool"), "ADK names a tool without its toolset")
        self._report.becomes((*path, "tool"), f"{self._app}/tools/{name}", "its name alone is left")
        return name

    def _short(self, name: str, collection: str, path: Path) -> str:
        last = name.rpartition("/")[2]
        if name != (whole := f"{self._app}/{collection}/{last}"):
            self._report.becomes(path, whole, "ADK keeps the last part of a name")
        return last

    def _says(self, message: Message, number: int, path: Path) -> bool:
        """Whether an answer that is expected has a place in the invocation."""
        parts: list[Part] = []
        if message.chunks and not self._is_sayable(self._turn.steps[number]):
            self._report.dropped(path[:-2], "ADK's answers are texts, images and data")
            return False
        for index, chunk in enumerate(message.chunks):
            if chunk.text is not None:
                parts.append(Text(text=chunk.text))
            elif chunk.image or chunk.blob:
                parts.append(self._attachment(chunk, (*path, "chunks", index)))
            else:
                self._report.dropped((*path, "chunks", index), "ADK's answers are texts, images and data")
        self._report.fields(message, path, ("role", "chunks"), {})
        content = Content(parts=tuple(parts), role="model")
        if number == self._final:
            if message.role not in ("", AGENT):
                self._report.dropped((*path, "role"), "the last answer of a turn has no author in ADK")
            self._answer = content
            self._order["answer"].append(number)
            return True
        author = message.role or AGENT
        if author == "user":
            self._report.dropped((*path, "role"), "in ADK the user's own events are no steps")
            author = AGENT
        self._events.append(AdkEvent(author=author, content=content))
        self._order["steps"].append(number)
        return True


_ORDER: Final = ("said", "steps", "answer", "none", "state")
_IGNORED: Final = object()
