"""Recorded conversations, from whatever tool they come."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest
from hypothesis import given, settings, strategies as st
from pydantic.alias_generators import to_camel

from evalgate.errors import Severity
from evalgate.formats.recordings import RecordingReading, parse_case, parse_recordings
from evalgate.model import Content, Invocation, Text, ToolCall
from evalgate.wings.replay import split_cases


def parse(value, *, file="r.json") -> RecordingReading:
    return parse_recordings(value if isinstance(value, str) else json.dumps(value), file=file)


def says(role, *texts):
    return {"role": role, "parts": [{"text": text} for text in texts]}


def text_of(content: Content | None) -> str | None:
    return (
        None
        if content is None
        else "".join(part.text for part in content.parts if isinstance(part, Text))
    )


def talk(reading: RecordingReading, index: int = 0) -> list[tuple[str | None, str | None]]:
    turns = reading.recordings[index].transcript.invocations
    return [(text_of(turn.user_content), text_of(turn.final_response)) for turn in turns]


def errors(reading: RecordingReading) -> list[str]:
    return [p.code for p in reading.problems if p.severity is Severity.ERROR]


TURN = {"user_content": says("user", "hi"), "final_response": says("model", "hello")}


def result(*turns, **more):
    case = {
        "eval_id": "c",
        "eval_metric_result_per_invocation": [{"actual_invocation": turn} for turn in turns],
    }
    return {"eval_set_result_id": "r", "eval_set_id": "s", "eval_case_results": [case | more]}


# --- ADK results ----------------------------------------------------------------------------------


def test_results_give_what_the_agent_did():
    state = {"session_details": {"state": {"k": 1}}}
    reading = parse(result(TURN, TURN, **state))
    [recording] = reading.recordings
    assert (recording.case_id, recording.eval_set_id, recording.transcript.final_state) == (
        "c",
        "s",
        {"k": 1},
    )
    assert (talk(reading), reading.problems) == ([("hi", "hello")] * 2, ())


def test_rubrics_that_a_recording_was_judged_by_are_no_part_of_it():
    rubric = {"rubric_id": "old", "rubric_content": {"text_property": "is polite"}}
    turn = {**TURN, "rubrics": [rubric]}
    result = {"eval_id": "a", "eval_metric_result_per_invocation": [{"actual_invocation": turn}]}
    for file in (
        {"eval_case_results": [result]},
        {"eval_cases": [{"eval_id": "a", "conversation": [turn]}]},
    ):
        (recording,) = parse(file).recordings
        assert [each.rubrics for each in recording.transcript.invocations] == [()]


def test_repeats_of_a_case_stay_apart_and_in_order():
    value = result(TURN)
    other = TURN | {"final_response": says("model", "bye")}
    value["eval_case_results"] += result(other)["eval_case_results"]
    reading = parse(value)
    assert [recording.case_id for recording in reading.recordings] == ["c", "c"]
    assert talk(reading, 1) == [("hi", "bye")]


def test_a_json_text_that_holds_json_is_read():
    reading = parse(json.dumps(json.dumps(result(TURN))))
    assert talk(reading) == [("hi", "hello")]
    assert errors(reading) == []


def test_other_tools_results_are_read():
    turn = {
        "userContent": {"role": "user", "content": "hi"},
        "finalResponse": {"role": "assistant", "content": "hello"},
        "tools": [{"id": "1", "name": "t", "arguments": {"a": 1}, "result": {"b": 2}}],
    }
    case = {
        "evalId": "c",
        "finalEvalStatus": "passed",
        "evalMetricResultPerInvocation": [{"actualInvocation": turn}],
    }
    reading = parse({"evalSetId": "s", "evalCaseResults": [case]})
    assert talk(reading) == [("hi", "hello")]
    assert reading.recordings[0].transcript.invocations[0].tool_calls == (
        ToolCall(name="t", args={"a": 1}, id="1"),
    )
    assert reading.recordings[0].eval_set_id == "s"


def test_a_case_that_failed_has_no_recording_and_is_told():
    reading = parse(
        {
            "eval_case_results": [
                {"eval_id": "c", "eval_metric_result_per_invocation": []},
                *result(TURN)["eval_case_results"],
            ]
        }
    )
    assert len(reading.recordings) == 1
    assert [(p.code, p.severity) for p in reading.problems] == [
        ("nothing-recorded", Severity.WARNING)
    ]


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ({"eval_metric_result_per_invocation": []}, "missing-key"),
        ({"eval_id": "c"}, "missing-key"),
        ("c", "missing-key"),
        ({"eval_id": "c", "eval_metric_result_per_invocation": [{}]}, "wrong-type"),
        ({"eval_id": "c", "eval_metric_result_per_invocation": [TURN]}, "wrong-type"),
    ],
)
def test_results_that_cannot_be_read(case, code):
    reading = parse({"eval_case_results": [case]})
    assert (reading.recordings, errors(reading)) == ((), [code])


def test_half_a_conversation_is_no_recording():
    reading = parse(result(TURN, {"user_content": 3}))
    assert (reading.recordings, errors(reading)) == ((), ["wrong-type"])


# --- ADK sessions ---------------------------------------------------------------------------------


def event(author, invocation, *parts, **more):
    return {
        "author": author,
        "invocationId": invocation,
        "content": {"role": author, "parts": list(parts)},
        **more,
    }


CALL = {"functionCall": {"name": "t", "args": {}}}
RESPONSE = {"functionResponse": {"name": "t", "response": {"r": 1}}}


def session(*events):
    return {"id": "s1", "appName": "a", "userId": "u", "state": {"k": 1}, "events": list(events)}


def test_a_session_is_grouped_by_invocation():
    reading = parse(
        session(
            event("user", "i1", {"text": "one"}),
            event("agent", "i1", CALL, usageMetadata={"promptTokenCount": 5}),
            event("agent", "i1", RESPONSE),
            event("agent", "i1", {"text": "first"}, modelVersion="m"),
            event("user", "i2", {"text": "two"}),
            event("agent", "i2", {"text": "second"}),
        )
    )
    [recording] = reading.recordings
    first, second = recording.transcript.invocations
    assert (recording.case_id, recording.transcript.final_state) == ("s1", {"k": 1})
    assert talk(reading) == [("one", "first"), ("two", "second")]
    assert (first.invocation_id, first.tool_calls) == ("i1", (ToolCall(name="t", args={}),))
    assert [event.content is None for event in first.events or ()] == [False, False, True]
    assert first.events is not None
    assert first.events[0].usage is not None
    assert (first.events[0].usage.prompt_tokens, first.events[2].model_version) == (5, "m")
    assert second.tool_calls == ()


@pytest.mark.parametrize(
    ("more", "parts", "answer"),
    [
        ({}, [{"text": "x"}], "x"),
        # a part of a streamed text is none
        ({"partial": True}, [{"text": "x"}], None),
        # neither is a text beside a call or a response ...
        ({}, [{"text": "x"}, CALL], None),
        ({}, [{"text": "x"}, RESPONSE], None),
        # ... unless the tool runs on, or its answer needs no summary
        ({"longRunningToolIds": ["1"]}, [{"text": "x"}, CALL], "x"),
        ({"actions": {"skipSummarization": True}}, [RESPONSE], ""),
        # code that ran last speaks for itself
        ({}, [{"text": "x"}, {"codeExecutionResult": {"outcome": "OUTCOME_OK"}}], None),
        # an error with words in it is an answer
        ({"errorCode": "MAX_TOKENS"}, [{"text": "x"}], "x"),
        ({"errorCode": "MAX_TOKENS", "partial": True}, [{"text": "x"}], None),
    ],
)
def test_which_event_is_final(more, parts, answer):
    reading = parse(session(event("user", "i", {"text": "q"}), event("agent", "i", *parts, **more)))
    assert talk(reading) == [("q", answer)]


def test_a_turn_of_the_user_alone_has_no_steps():
    [turn] = parse(session(event("user", "i", {"text": "q"}))).recordings[0].transcript.invocations
    assert turn == Invocation(user_content=turn.user_content, invocation_id="i")


def test_without_invocation_ids_each_message_of_the_user_begins_a_turn():
    events = [
        event("user", None, {"text": "one"}),
        event("agent", None, CALL),
        event("agent", None, RESPONSE),
    ]
    events += [event("agent", "", {"text": "first"}), event("user", "", {"text": "two"})]
    reading = parse(session(*events, event("agent", None, {"text": "second"})))
    assert talk(reading) == [("one", "first"), ("two", "second")]


def test_a_bare_list_of_events_is_a_session():
    reading = parse([event("user", "i", {"text": "q"}), event("agent", "i", {"text": "a"})])
    assert talk(reading) == [("q", "a")]


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({"id": "s", "events": {}}, "wrong-type"),
        (session({"author": 3}), "wrong-type"),
        (
            session(event("user", "i", {"nonsense": 1, "text": "x"}), event("a", "i", {"text": 3})),
            "wrong-type",
        ),
        (session(), "nothing-recorded"),
        ([], "nothing-recorded"),
        # a log of the agent protocol, whose messages are no events
        (
            [{"type": "start", "session": "s"}, event("user", "i", {"text": "q"})],
            "nothing-recorded",
        ),
        ([1], "wrong-type"),
    ],
)
def test_sessions_that_cannot_be_read(value, code):
    reading = parse(value)
    assert reading.recordings == ()
    assert code in errors(reading)


# --- evaluation sets ------------------------------------------------------------------------------


def eval_set(**case):
    return {"eval_set_id": "s", "eval_cases": [{"eval_id": "c", **case}]}


def test_an_evaluation_set_plays_what_it_expects():
    reading = parse(eval_set(conversation=[TURN], final_session_state={"k": 1}))
    assert (talk(reading), reading.recordings[0].eval_set_id) == ([("hi", "hello")], "s")
    assert reading.recordings[0].transcript.final_state == {"k": 1}


def test_an_actual_conversation_goes_before_the_expected_one():
    actual = [TURN | {"final_response": says("model", "really")}]
    assert talk(parse(eval_set(conversation=[TURN], actual_conversation=actual))) == [
        ("hi", "really")
    ]


def test_a_case_without_answers_cannot_be_replayed():
    reading = parse(eval_set(conversation=[{"user_content": says("user", "hi")}]))
    assert reading.recordings == ()
    assert {p.code for p in reading.problems} == {"nothing-recorded"}


def test_a_trace_of_agents_cli():
    case = {
        "eval_case_id": "c",
        "prompt": says("user", "hi"),
        "responses": [{"response": says("model", "yo")}],
    }
    assert talk(
        parse({"eval_cases": [case | {"reference": {"response": says("model", "no")}}]})
    ) == [("hi", "yo")]


def test_a_prompt_that_a_trace_repeats_is_one_turn():
    """Their events often name no role where the prompt does."""
    events = [
        {"author": author, "content": {"parts": [{"text": text}]}}
        for author, text in (("user", "hi"), ("a", "yo"))
    ]
    case = {
        "eval_case_id": "c",
        "prompt": says("user", "hi"),
        "agent_data": {"turns": [{"events": events}]},
    }
    assert talk(parse({"eval_cases": [case]})) == [("hi", "yo")]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "file-empty"),
        ('{"a": 1}', "not-a-recording"),
        ("3", "not-a-recording"),
        ('{"a":1}\n{"b":', "json-truncated"),
    ],
)
def test_files_without_recordings(text, code):
    assert code in errors(parse(text))


keys = st.sampled_from(
    [
        "events",
        "eval_cases",
        "evalCaseResults",
        "eval_id",
        "content",
        "parts",
        "text",
        "author",
        "type",
        "session",
        "eval_metric_result_per_invocation",
        "actual_invocation",
        "user_content",
        "prompt",
        "agent_data",
        "turns",
    ]
)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=30,
)


@settings(max_examples=40, deadline=None)
@given(junk)
def test_arbitrary_json_never_crashes(value):
    reading = parse(json.dumps(value))
    assert reading.recordings or errors(reading)


# --- one item of a large file, read without the rest ----------------------------------------------

STEPS = {
    "tool_uses": [{"name": "f", "args": {"n": 1, "x": True}}],
    "intermediate_responses": [["a", [{"text": "t"}]]],
}
SESSION = {"app_name": "a", "user_id": "u", "state": {}}
ITEMS = [
    (
        "eval_case_results",
        result(TURN, TURN | {"intermediate_data": STEPS})["eval_case_results"][0],
    ),
    ("evalCaseResults", result(TURN, session_details={"state": {"k": 1}})["eval_case_results"][0]),
    (
        "eval_cases",
        {
            "eval_id": "c",
            "conversation": [TURN | {"intermediate_data": STEPS}],
            "session_input": SESSION,
        },
    ),
    ("eval_cases", {"eval_id": "c", "conversation": [TURN], "actual_conversation": [TURN, TURN]}),
    (
        "eval_cases",
        {
            "eval_id": "c",
            "conversation_scenario": {"starting_prompt": "p", "conversation_plan": "q"},
        },
    ),
    (
        "evalCases",
        {
            "evalId": "c",
            "conversation": [{"userContent": says("user", "hi")}],
            "finalSessionState": {"k": 2},
        },
    ),
    (
        "eval_cases",
        {
            "eval_case_id": "c",
            "prompt": says("user", "hi"),
            "responses": [{"response": says("m", "x")}],
        },
    ),
    ("eval_cases", {"eval_id": "c", "conversation": []}),
]
ODD = [
    None,
    0,
    1.5,
    "",
    "text",
    [],
    {},
    [[]],
    {"parts": None},
    {"text": "x"},
    [TURN],
    "\ud800",
    float("nan"),
]


def places(value, path=()):
    """Every place in a JSON value, from the top down."""
    yield path
    for key, below in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        yield from places(below, (*path, key))


@st.composite
def items(draw):
    key, value = draw(st.sampled_from(ITEMS))
    value = json.loads(json.dumps(value))
    for _ in range(draw(st.integers(0, 2))):
        *above, last = draw(st.sampled_from([path for path in places(value) if path]))
        holder = value
        for step in above:
            holder = holder[step]
        match draw(st.sampled_from(["odd", "gone", "camel", "more"])):
            case "odd":
                holder[last] = deepcopy(draw(st.sampled_from(ODD)))
            case "gone":
                del holder[last]
            case "camel" if isinstance(last, str):
                holder[to_camel(last)] = holder.pop(last)
            case _ if isinstance(holder, dict):
                name = draw(st.sampled_from(["unknown", "thought", "invocation_events", "id"]))
                holder[name] = deepcopy(draw(st.sampled_from(ODD)))
    text = json.dumps(value, ensure_ascii=draw(st.booleans()))
    return key, text.replace('"text":', '"text": "first", "text":') if draw(st.booleans()) else text


@settings(max_examples=400)
@given(items())
def test_one_case_reads_as_in_a_file_of_its_own(item):
    key, text = item
    whole = f'{{"eval_set_id": "s", "{key}": [{text}]}}'
    alone = parse_recordings(whole, file="r.json")
    split = split_cases(whole)
    if split is None:
        return  # who reads it in whole has more to say
    key, eval_set_id, ((name, raw),) = split
    one = parse_case(raw, key=key, eval_set_id=eval_set_id, file="r.json")
    # in words, since NaN is not equal to itself
    assert repr(one.recordings) == repr(alone.recordings)
    assert [each.case_id for each in one.recordings] in ([], [name])


def test_of_one_case_problems_are_told_where_it_cannot_be_read():
    raw = {"eval_id": "c", "conversation": [{"user_content": 3}]}
    reading = parse_case(raw, key="eval_cases", eval_set_id=None, file="r")
    assert (reading.recordings, errors(reading)) == ((), ["wrong-type"])


def test_a_file_is_split_in_either_spelling_and_behind_a_byte_order_mark():
    found = split_cases(
        '\ufeff{"evalSetId":"s","evalCaseResults":[{"evalId":"a"} , {"evalId":"b"}]}\r\n'
    )
    cases = [("a", {"evalId": "a"}), ("b", {"evalId": "b"})]
    assert found == ("evalCaseResults", "s", cases)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",  # a list of turns or events
        '{"events": []}',  # a session
        '"{}"',  # JSON in a text
        '{"eval_cases": [{"eval_id": 1}]}',  # unusual: who reads it in whole has more to say
        '{"eval_cases": [{}]}',
        '{"eval_cases": {}}',
        '{"eval_cases": [], "eval_cases": []}',
        '{"eval_cases": [], "eval_case_results": []}',
        '{"eval_cases": []',
        '{"eval_cases": []} x',
        '{"eval_cases": [{"eval_id": "a", "x": NaN}]}',
        '{"eval_cases": [{"eval_id": "\\ud800"}]}',
        '{"author":"user"}\n{"author":"a"}',  # one event a line
    ],
)
def test_every_other_file_is_left_to_be_read_in_whole(text):
    assert split_cases(text) is None


def test_what_is_nested_too_deeply_to_be_kept_is_an_error_at_its_place():
    """pydantic, which reads any depth, writes 255 levels."""
    for levels, codes in ((90, []), (101, ["wrong-value"]), (190, ["wrong-value"])):
        data = json.loads("[" * levels + "]" * levels)
        turn = {**TURN, "user_content": {"parts": [{"inline_data": {"data": data}}]}}
        case = {"eval_id": "a", "eval_metric_result_per_invocation": [{"actual_invocation": turn}]}
        reading = parse({"eval_case_results": [case]})
        assert errors(reading) == codes, levels
        for problem in reading.problems:
            assert problem.message == "lists and objects are nested in more than 100 levels"
            assert problem.place is not None
            assert (problem.place.json_path or "").endswith("user_content.parts[0].inline_data")
