"""An ADK case as a CES evaluation: the way back, by which the way there is tested for what it loses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalgate.ces import convert
from evalgate.ces.convert import Loss, _Report as Report
from evalgate.ces.shapes import (
    AgentTransfer,
    Blob,
    Chunk,
    Evaluation,
    EvaluationExpectation,
    Event,
    Golden,
    GoldenExpectation,
    GoldenTurn,
    Image,
    LlmCriteria,
    Message,
    Scenario,
    SessionInput,
    Step,
    ToolCall,
    ToolResponse,
    UserFact,
)  # fmt: skip
from evalgate.formats.json_source import Path
from evalgate.model import (
    Attachment,
    Case,
    Content,
    ConversationScenario,
    Event as AdkEvent,
    Invocation,
    SessionInput as AdkSession,
    Text,
    ToolCall as AdkCall,
    ToolResponse as AdkResponse,
)  # fmt: skip
from evalgate.values import Json


def to_ces(case: Case, *, app: str) -> tuple[Evaluation, tuple[EvaluationExpectation, ...], list[Loss]]:
    """The evaluation that asks and expects the same, the expectations that it names, and what it has no place for."""
    report = Report()
    session = case.session or AdkSession()
    for key, value in (("user_id", session.user_id), ("session_id", session.session_id)):
        if value and value != "user":
            report.dropped(("session_input", key), "CES makes its own sessions")
    texts, expectations = [], []
    for number, rubric in enumerate(case.rubrics):
        report.losses += [
            Loss(path=("rubrics", number, key), why="CES keeps the text alone")
            for key in ("description", "type")
            if getattr(rubric, key)
        ]
        if case.scenario is not None and convert._RUBRIC_ID.fullmatch(rubric.rubric_id):
            texts.append(rubric.text)
            continue
        expectations.append(
            EvaluationExpectation(
                name=f"{app}/evaluationExpectations/{rubric.rubric_id}",
                display_name=rubric.rubric_id,
                llm_criteria=LlmCriteria(prompt=rubric.text),
            )
        )
    named = tuple(each.name for each in expectations)
    if case.scenario is not None:
        scenario = _from_scenario(case.scenario, texts, named, session, report)
        if case.expects_state:
            report.dropped(("final_session_state",), "a CES scenario expects no variables")
        return Evaluation(display_name=case.case_id, scenario=scenario), tuple(expectations), report.losses
    turns = []
    listed = case.conversation or ()
    for number, turn in enumerate(listed):
        state = session.state if number == 0 else {}
        expected = case.expects_state if number == len(listed) - 1 else None
        turns.append(_from_turn(turn, ("conversation", number), report, app=app, state=state, expected=expected))
    golden = Golden(turns=tuple(turns), evaluation_expectations=named)
    return Evaluation(display_name=case.case_id, golden=golden), tuple(expectations), report.losses


def _from_scenario(
    scenario: ConversationScenario,
    rubrics: list[str],
    named: tuple[str, ...],
    session: AdkSession,
    report: Report,
) -> Scenario:
    task, lines = convert._from_plan(scenario.conversation_plan)
    if scenario.starting_prompt != convert.STARTING_PROMPT:
        why = "CES has no words to begin with; the task asks for them"
        report.note(("conversation_scenario", "starting_prompt"), why)
        task = f"Begin with: {scenario.starting_prompt}\n\n{task}"
    if scenario.persona is not None:
        report.dropped(("conversation_scenario", "user_persona"), "personas are the app's in CES")
    found = [match for line in lines if (match := convert._FACT.fullmatch(line))]
    return Scenario(
        task=task,
        user_facts=tuple(UserFact(name=match[1], value=match[2]) for match in found),
        rubrics=tuple(rubrics),
        variable_overrides=dict(session.state) or None,
        evaluation_expectations=named,
    )


def _from_turn(turn: Invocation, path: Path, report: Report, *, app: str, state: Json, expected: Any) -> GoldenTurn:
    said = _from_content(turn.user_content, (*path, "user_content"), report)
    inputs = [SessionInput(variables=dict(state))] if state else []
    for chunk in said:
        event = convert._EVENT.fullmatch(chunk.text or "")
        inputs.append(
            SessionInput(event=Event(event=event[1]))
            if event
            else SessionInput(text=chunk.text, image=chunk.image, blob=chunk.blob)
        )
    conditions: list[GoldenExpectation] = []
    for number, each in enumerate(turn.events or ()):
        where = (*path, "intermediate_data", "invocation_events", number)
        for key, value in (("usage_metadata", each.usage), ("grounding_metadata", each.grounding)):
            if value is not None:
                report.dropped((*where, key), "CES measures it in a run")
        conditions += _from_event(each, where, report, app=app)
    if turn.final_response is not None:
        chunks = _from_content(turn.final_response, (*path, "final_response"), report)
        conditions.append(GoldenExpectation(agent_response=Message(role=convert.AGENT, chunks=chunks)))
    if turn.events is not None and not turn.events:
        conditions.append(GoldenExpectation(no_tool_calls=True))
    if expected:
        conditions.append(GoldenExpectation(updated_variables=dict(expected)))
    for key, there in (("rubrics", turn.rubrics), ("app_details", turn.agents), ("duration", turn.timings)):
        if there:
            report.dropped((*path, key), "a CES turn has none")
    steps = (*(Step(user_input=each) for each in inputs), *(Step(expectation=each) for each in conditions))
    return GoldenTurn(steps=steps)


def _from_event(event: AdkEvent, path: Path, report: Report, *, app: str) -> list[GoldenExpectation]:
    made, texts = [], []
    for part in event.content.parts if event.content else ():
        match part:
            case AdkCall(name=name, args={"agent_name": str() as agent}, id=None) if name == convert.TRANSFER:
                transfer = AgentTransfer(target_agent=f"{app}/agents/{agent}")
                made.append(GoldenExpectation(agent_transfer=transfer))
            case AdkCall():
                args = None if part.args is None else dict(part.args)
                call = ToolCall(tool=f"{app}/tools/{part.name}", id=part.id or "", args=args)
                made.append(GoldenExpectation(tool_call=call))
            case AdkResponse():
                answer = dict(part.response or {})
                response = ToolResponse(tool=f"{app}/tools/{part.name}", id=part.id or "", response=answer)
                made.append(GoldenExpectation(tool_response=response))
            case _:
                texts.append(part)
    if texts or not made:
        chunks = _from_content(Content(parts=tuple(texts)), path, report)
        answer_of = Message(role=event.author or convert.AGENT, chunks=chunks)
        made.append(GoldenExpectation(agent_response=answer_of))
    return made


def _from_content(content: Content, path: Path, report: Report) -> tuple[Chunk, ...]:
    chunks = []
    for number, part in enumerate(content.parts):
        data = part.data.get("inline_data") or part.data.get("inlineData") if isinstance(part, Attachment) else None
        if isinstance(part, Text) and not part.thought:
            chunks.append(Chunk(text=part.text))
        elif isinstance(data, Mapping):
            mime, base64 = str(data.get("mime_type") or data.get("mimeType") or ""), str(data.get("data") or "")
            key, shape = ("image", Image) if mime.startswith("image/") else ("blob", Blob)
            chunks.append(Chunk.model_validate({key: shape(mime_type=mime, data=base64)}))
        else:
            report.dropped((*path, "parts", number), "CES has texts, images and data")
    return tuple(chunks)
