"""What a metric of agents-cli is handed."""

from __future__ import annotations

import pytest

from evalgate.criteria import custom_metric
from evalgate.errors import Place, Severity
from evalgate.formats.json_source import Problems, Spot
from evalgate.model import (
    Content,
    CriterionUse,
    Event,
    Invocation,
    Reason,
    Text,
    ToolCall,
    TrialView,
)
from evalgate.wings.google_cloud import datasets


def said(*parts, role="model"):
    return Content(role=role, parts=parts)


def case_of(**fields):
    problems = Problems("", file="d.json")
    case = datasets.read_case(fields, Spot(problems), place=Place(file="d.json"))
    assert case is not None
    return case, problems.all()


PROMPT = {"role": "user", "parts": [{"text": "hi"}]}


def test_the_instance_has_the_case_as_written_and_the_run():
    case, _ = case_of(eval_case_id="a", prompt=PROMPT, topic="t", reference={"response": PROMPT})
    call = Event(author="bot", content=said(ToolCall(name="find", args={})))
    turn = Invocation(
        user_content=said(Text(text="hi"), role="user"),
        final_response=said(Text(text="ho")),
        events=(call,),
    )
    instance = datasets.instance_json(TrialView(case=case, actual=(turn,), expected=None))
    answer = {"role": "model", "parts": [{"text": "ho"}]}
    assert instance["prompt"] == PROMPT
    assert instance["response"] == answer
    assert (instance["eval_case_id"], instance["topic"]) == ("a", "t")
    assert instance["reference"] == {"response": PROMPT}
    (events,) = [turn["events"] for turn in instance["agent_data"]["turns"]]
    assert [event["author"] for event in events] == ["bot", "bot"]  # not the lone prompt
    assert events[-1]["content"] == answer


def test_without_a_text_there_is_no_response():
    case, _ = case_of(eval_case_id="a", prompt=PROMPT)
    call = Event(author="bot", content=said(ToolCall(name="find", args={})))
    turn = Invocation(user_content=said(Text(text="hi"), role="user"), events=(call,))
    view = TrialView(case=case, actual=(turn,), expected=None)
    assert datasets.response_of(turn) is None
    assert "response" not in datasets.instance_json(view)


def test_a_response_in_the_file_is_no_answer_of_the_run():
    case, problems = case_of(
        eval_case_id="a", prompt=PROMPT, response={"parts": [{"text": "ideal"}]}
    )
    assert [str(problem.message) for problem in problems] == [
        "`response` is replaced by the agent's answer; an expected one is a `reference`"
    ]
    assert case.extras == {}
    turn = Invocation(user_content=said(Text(text="hi"), role="user"))
    view = TrialView(case=case, actual=(turn,), expected=None)
    assert "response" not in datasets.instance_json(view)
    assert "response" not in datasets.service_instance(view)
    use = CriterionUse(name="m", threshold=1.0, options={"takes": "instance"}, code="m.evaluate")
    asked = []
    grade = custom_metric.grade(view, use=use, run_metric=lambda *question: asked.append(question))
    assert (grade.reason, asked) == (Reason.NOTHING_RECORDED, [])


@pytest.mark.parametrize(
    ("call", "args"),
    [
        ({"tool": "a", "arguments": '{"x": 1}'}, {"x": 1}),
        ({"function": {"name": "a", "arguments": '{"x": 1}'}}, {"x": 1}),
        ({"name": "a", "parms": {"x": 1}}, None),  # would be lost
        ({"name": "a", "args": 1}, None),
        ("", None),
    ],
)
def test_arguments_of_an_expected_call_are_read_or_an_error(call, args):
    problems = Problems("", file="d.json")
    fields = {"id": 7, "prompt": PROMPT, "expected_tool_use": [call]}
    case = datasets.read_case(fields, Spot(problems))
    errors = [
        (problem.code, problem.place.json_path if problem.place else "")
        for problem in problems.all()
        if problem.severity is Severity.ERROR
    ]
    read = None if case is None else case.turns[0].tool_calls[0].args
    wrong_call = ("wrong-type", "expected_tool_use[0]")
    assert (read, errors) == (args, [wrong_call] if args is None else [])


def test_expected_tool_use_is_expected_and_handed_over():
    calls = [{"tool_name": "a"}, {"name": "b", "args": {"x": 1}}, "c"]
    case, problems = case_of(id=7, prompt=PROMPT, expected_tool_use=calls)
    (turn,) = case.conversation
    (event,) = turn.events
    assert event.content.parts == (
        ToolCall(name="a"),
        ToolCall(name="b", args={"x": 1}),
        ToolCall(name="c"),
    )
    assert (case.case_id, case.extras["expected_tool_use"], problems) == ("7", calls, ())
