"""Evaluation files: every spelling, every dialect, what is evidently meant, and what is said of the
rest."""

from __future__ import annotations

import json

import pytest

from evalgate import formats
from evalgate.errors import Severity
from evalgate.formats import Dialect, EvalSetReading
from evalgate.model import Content, Text, ToolCall, ToolResponse

TURN = {"user_content": {"role": "user", "parts": [{"text": "hi"}]}}
ANSWER = {"role": "model", "parts": [{"text": "hello"}]}


def parse(value, *, file="dir/my_set.evalset.json") -> EvalSetReading:
    text = value if isinstance(value, str) else json.dumps(value, indent=2)
    return formats.parse_eval_set(text, file=file)


def one_case(**fields) -> EvalSetReading:
    return parse({"eval_set_id": "s", "eval_cases": [{"eval_id": "c", **fields}]})


def one_turn(**fields) -> EvalSetReading:
    return one_case(conversation=[TURN | fields])


def codes(reading: EvalSetReading, severity: Severity | None = None) -> list[str]:
    return [p.code for p in reading.problems if severity is None or p.severity is severity]


def only_case(reading: EvalSetReading):
    assert reading.eval_set is not None, reading.problems
    assert len(reading.eval_set.cases) == 1
    return reading.eval_set.cases[0]


def only_turn(reading: EvalSetReading):
    conversation = only_case(reading).conversation
    assert conversation is not None
    return conversation[0]


def text_of(content: Content | None) -> str | None:
    return (
        None
        if content is None
        else "".join(part.text for part in content.parts if isinstance(part, Text))
    )


# --- what ADK reads -------------------------------------------------------------------------------


def test_adk_in_full_without_a_word():
    reading = one_case(
        conversation=[
            {
                "invocation_id": "i",
                **TURN,
                "final_response": ANSWER,
                "intermediate_data": {
                    "tool_uses": [{"name": "t", "args": {"a": 1}, "id": "x"}],
                    "tool_responses": [{"name": "t", "response": {"r": 1}, "id": "x"}],
                    "intermediate_responses": [["sub", [{"text": "working"}]]],
                },
                "rubrics": [{"rubric_id": "r", "rubric_content": {"text_property": "is kind"}}],
            }
        ],
        session_input={"app_name": "app", "user_id": "u", "session_id": "s1", "state": {"k": 1}},
        rubrics=[{"rubric_id": "q", "rubric_content": {"text_property": "is short"}, "type": "T"}],
        final_session_state={"done": True},
    )
    case = only_case(reading)
    turn = only_turn(reading)
    assert reading.problems == ()
    assert reading.dialect is Dialect.ADK
    assert case.session is not None
    assert (case.session.app_name, case.session.session_id, case.session.state) == (
        "app",
        "s1",
        {"k": 1},
    )
    assert (case.rubrics[0].text, turn.rubrics[0].text, case.expects_state) == (
        "is short",
        "is kind",
        {"done": True},
    )
    assert turn.tool_calls == (ToolCall(name="t", args={"a": 1}, id="x"),)
    assert turn.tool_responses == (ToolResponse(name="t", response={"r": 1}, id="x"),)
    assert not turn.itemized
    assert case.place is not None
    assert (case.place.file, case.place.line) == ("dir/my_set.evalset.json", 4)


@pytest.mark.parametrize(
    ("turn", "itemized", "recorded"),
    [
        # no steps recorded at all
        ({}, True, False),
        # ADK reads {} as the by-kind form
        ({"intermediate_data": {}}, False, True),
        ({"intermediate_data": {"invocation_events": []}}, True, True),
    ],
)
def test_what_is_known_of_the_steps(turn, itemized, recorded):
    read = only_turn(one_turn(**turn))
    assert (read.itemized, read.events is not None) == (itemized, recorded)


def test_args_absent_and_empty_stay_apart():
    reading = one_turn(intermediate_data={"tool_uses": [{"name": "t"}, {"name": "t", "args": {}}]})
    assert [call.args for call in only_turn(reading).tool_calls] == [None, {}]


def test_equal_calls_that_only_look_equal_stay_apart():
    uses = [{"name": "t", "args": {"a": value}} for value in (1, True, 1.0, 0, False, "1")]
    calls = only_turn(one_turn(intermediate_data={"tool_uses": uses})).tool_calls
    assert [type(call.args["a"]) for call in calls if call.args] == [
        int,
        bool,
        float,
        int,
        bool,
        str,
    ]


@pytest.mark.parametrize(
    ("state", "expected"), [({}, None), (None, None), ({"a": None}, {"a": None})]
)
def test_an_empty_final_state_expects_nothing(state, expected):
    assert only_case(one_case(conversation=[], final_session_state=state)).expects_state == expected


def test_an_empty_conversation_is_a_conversation():
    assert only_case(one_case(conversation=[])).conversation == ()


def test_a_scenario_with_a_built_in_persona():
    scenario = {"starting_prompt": "hi", "conversationPlan": "ask", "user_persona": "NOVICE"}
    case = only_case(one_case(conversation_scenario=scenario))
    assert case.conversation is None
    assert case.scenario is not None
    assert case.scenario.persona is not None
    assert (case.scenario.conversation_plan, case.scenario.persona.persona_id) == ("ask", "NOVICE")


def test_no_cases_is_an_empty_set():
    reading = parse({"eval_set_id": "s", "eval_cases": []})
    assert reading.eval_set is not None
    assert reading.eval_set.cases == ()


def camel(value):
    from pydantic.alias_generators import to_camel

    if isinstance(value, dict):
        return {to_camel(key): camel(inner) for key, inner in value.items()}
    return [camel(inner) for inner in value] if isinstance(value, list) else value


def test_spelling_does_not_matter():
    turn = TURN | {
        "final_response": ANSWER,
        "intermediate_data": {
            "invocation_events": [
                {
                    "author": "a",
                    "content": {"parts": [{"function_call": {"name": "t", "args": {"x": 1}}}]},
                    "usage_metadata": {"prompt_token_count": 3},
                }
            ]
        },
    }
    case = {
        "eval_id": "c",
        "conversation": [turn],
        "session_input": {"app_name": "a", "user_id": "u"},
    }
    snake = parse({"eval_set_id": "s", "eval_cases": [case]})
    other = parse({"eval_set_id": "s", "eval_cases": [camel(case)]})
    top = parse(camel({"eval_set_id": "s", "eval_cases": [case]}))
    assert only_turn(snake) == only_turn(other) == only_turn(top)
    assert (codes(other), top.dialect) == ([], Dialect.ADK)
    assert codes(top) == ["adk-rejects-spelling", "adk-rejects-spelling"]


# --- what is evidently meant ----------------------------------------------------------------------

CALLS = [{"name": "t", "args": {"a": 1}}]


@pytest.mark.parametrize(
    ("turn", "code"),
    [
        # the user's words as plain text, as {role, content}, as a list of parts, as {text}
        ({"user_content": "hi"}, "adk-rejects-shape"),
        ({"user_content": {"role": "user", "content": "hi"}}, "adk-rejects-name"),
        ({"user_content": [{"text": "hi"}]}, "adk-rejects-shape"),
        ({"user_content": {"text": "hi"}}, "adk-rejects-name"),
        ({"user_content": {"role": "user", "parts": ["hi"]}}, "adk-rejects-shape"),
        ({"user_content": {"role": "user", "parts": "hi"}}, "adk-rejects-shape"),
        # keys in places where ADK wants none
        (
            {"user_content": {"role": "user", "parts": [{"text": "hi", "role": "user"}]}},
            "adk-rejects-key",
        ),
        ({**TURN, "comment": "x"}, "adk-rejects-key"),
        ({**TURN, "toolMock": {}}, "adk-rejects-key"),
        # other names
        ({"query": "hi"}, "adk-rejects-name"),
        ({"user": "hi"}, "adk-rejects-name"),
        # another style of spelling
        ({"UserContent": {"parts": [{"text": "hi"}]}}, "adk-rejects-spelling"),
    ],
)
def test_the_users_words_are_understood(turn, code):
    reading = one_case(conversation=[turn])
    read = only_turn(reading)
    assert (text_of(read.user_content), read.user_content.role in ("user", None)) == ("hi", True)
    assert code in codes(reading, Severity.WARNING)
    assert all("ADK" in p.message and p.place and p.place.line for p in reading.problems)


@pytest.mark.parametrize(
    "fields",
    [
        {"expected_tool_use": [{"tool_name": "t", "tool_input": {"a": 1}}]},
        {"tools": [{"name": "t", "arguments": {"a": 1}}]},
        {"expectedToolCalls": [{"name": "t", "args": {"a": 1}}]},
        {
            "intermediateData": {
                "toolCalls": [
                    {"type": "function", "function": {"name": "t", "arguments": {"a": 1}}}
                ]
            }
        },
        {
            "intermediate_data": {
                "tool_calls": [{"function": {"name": "t", "arguments": '{"a": 1}'}}]
            }
        },
        {"intermediate_data": {"tool_uses": [{"name": "t", "input": {"a": 1}}]}},
        {"intermediate_data": {"tool_uses": [{"name": "t", "parameters": {"a": 1}}]}},
        {"intermediate_data": {"tools": [{"name": "t", "arguments": {"a": 1}}]}},
        {"intermediate_data": {"expected_tools": CALLS}},
        {"intermediate_data": {"expectedToolUse": [{"tool_name": "t", "tool_input": {"a": 1}}]}},
        {"intermediate_data": CALLS},
    ],
)
def test_tool_calls_are_understood(fields):
    reading = one_turn(**fields)
    assert only_turn(reading).tool_calls == (ToolCall(name="t", args={"a": 1}),)
    assert codes(reading, Severity.WARNING)


@pytest.mark.parametrize("is_inside", [False, True])
def test_results_beside_calls_are_responses(is_inside):
    calls = {"tools": [{"id": "1", "name": "t", "arguments": {}, "result": "42"}]}
    reading = one_turn(**({"intermediate_data": calls} if is_inside else calls))
    assert only_turn(reading).tool_responses == (
        ToolResponse(name="t", response={"result": "42"}, id="1"),
    )


@pytest.mark.parametrize("key", ["final_answer", "finalAnswer", "expected_final", "reference"])
def test_answers_are_understood(key):
    reading = one_turn(**{key: "hello"})
    assert text_of(only_turn(reading).final_response) == "hello"
    assert "adk-rejects-name" in codes(reading, Severity.WARNING)


@pytest.mark.parametrize(
    ("fields", "key", "meant"),
    [
        # calls within intermediate_data under names that are nobody's
        ({"intermediate_data": {"function_calls": CALLS}}, "function_calls", "tool_uses"),
        ({"intermediate_data": {"trajectory": CALLS}}, "trajectory", "tool_uses"),
        ({"intermediate_data": {"calls": [{"tool_name": "t"}]}}, "calls", "tool_uses"),
        ({"intermediate_data": {"plan": [{"function": {"name": "t"}}]}}, "plan", "tool_uses"),
        # bare names, where the key says of what
        ({"intermediate_data": {"tool_trajectory": ["t", "u"]}}, "tool_trajectory", "tool_uses"),
        # also beside calls that are read, since fewer would be expected
        ({"intermediate_data": {"tool_uses": CALLS, "tools": CALLS}}, "tools", "tool_uses"),
        # the same in the turn
        ({"trajectory": CALLS}, "trajectory", "intermediate_data"),
        ({"expected_steps": []}, "expected_steps", "final_response"),
        ({"final_response": ANSWER, "expected_steps": []}, "expected_steps", "intermediate_data"),
        # answers
        ({"model_answer": "hello"}, "model_answer", "final_response"),
        ({"goldenReply": {"parts": [{"text": "hello"}]}}, "goldenReply", "final_response"),
        ({"intermediate_data": {}, "expectation": "polite"}, "expectation", "final_response"),
        # arguments
        ({"intermediate_data": {"tool_uses": [{"name": "t", "with": {"a": 1}}]}}, "with", "args"),
    ],
)
def test_an_expectation_under_an_unknown_name_is_an_error(fields, key, meant):
    (problem,) = (
        found for found in one_turn(**fields).problems if found.severity is Severity.ERROR
    )
    assert (problem.code, problem.hint) == ("unknown-key", f"did you mean `{meant}`?")
    assert problem.place is not None
    assert problem.place.json_path.endswith(f".{key}")


@pytest.mark.parametrize(
    "fields",
    [
        # nothing is expected by these
        {"notes": ["a", "b"]},
        {"response_time": 1.5},
        {"model_answer": None},
        {"mock_tool_output": {"t": 1}},
        {"_expected": "a comment"},
        {"intermediate_data": {"notes": ["a", "b"], "latencies": [1, 2], "calls": []}},
        {"intermediate_data": {"tool_uses": [{"name": "t", "args": {"a": 1}, "meta": {"b": 2}}]}},
        # the turn has an answer and calls: it is known what they are
        {
            "final_response": ANSWER,
            "intermediate_data": {"tool_uses": CALLS},
            "expected_answer": "x",
        },
    ],
)
def test_other_unknown_keys_are_dropped_with_a_warning(fields):
    assert set(codes(one_turn(**fields))) == {"adk-rejects-key"}


@pytest.mark.parametrize(
    "steps",
    [
        {"tool_uses": None},
        {"tool_responses": None},
        {"invocation_events": None, "tool_uses": []},
        {"tool_responses": [{"name": "t", "response": "text"}]},
    ],
)
def test_steps_that_adk_rejects_for_a_null_or_a_bare_result_are_told(steps):
    reading = one_turn(intermediate_data=steps)
    assert only_turn(reading).events is not None
    assert {p.severity for p in reading.problems} == {Severity.WARNING}


def test_a_reference_of_null_is_an_answer_without_parts():
    turn = only_turn(parse([{"query": "q", "reference": None}]))
    assert turn.final_response == Content(parts=(), role="model")


def test_steps_that_stand_twice_are_read_once():
    events = [{"author": "a", "content": {"parts": [{"function_call": {"name": "e"}}]}}]
    reading = one_turn(
        intermediate_data={"invocation_events": events, "tool_uses": [{"name": "k"}]}
    )
    assert [call.name for call in only_turn(reading).tool_calls] == ["e"]
    assert codes(reading) == ["adk-rejects-shape"]


@pytest.mark.parametrize(
    ("value", "name", "code"),
    [
        ({"eval_cases": []}, "my_set", "missing-eval-set-id"),
        ({"eval_set_id": "", "eval_cases": []}, "my_set", "missing-eval-set-id"),
        ({"eval_set_id": 7, "eval_cases": []}, "7", "adk-rejects-type"),
        ({"eval_set_id": "s", "eval_cases": [], "description": 3}, "s", "adk-rejects-type"),
    ],
)
def test_sets_without_a_proper_id_are_called_after_their_file(value, name, code):
    reading = parse(value)
    assert reading.eval_set is not None
    assert (reading.eval_set.eval_set_id, codes(reading)) == (name, [code])


@pytest.mark.parametrize(
    ("case", "name", "code"),
    [
        ({"conversation": []}, "case_0", "missing-eval-id"),
        ({"id": "x", "conversation": []}, "x", "adk-rejects-name"),
        ({"eval_id": 12, "conversation": []}, "12", "adk-rejects-type"),
    ],
)
def test_cases_without_a_proper_id(case, name, code):
    reading = parse({"eval_set_id": "s", "eval_cases": [case]})
    assert (only_case(reading).case_id, codes(reading)) == (name, [code])


def test_a_session_without_app_or_user_is_left_to_the_driver():
    reading = one_case(conversation=[], session_input={"state": None})
    session = only_case(reading).session
    assert session is not None
    assert (session.app_name, session.user_id, session.state) == ("", "", {})
    assert codes(reading) == ["adk-rejects-missing"] * 2


@pytest.mark.parametrize(
    "rubric",
    ["is kind", {"id": "r", "content": {"text": "is kind"}}, {"id": "r", "text": "is kind"}],
)
def test_rubrics_are_understood(rubric):
    reading = one_case(conversation=[], rubrics=[rubric])
    assert only_case(reading).rubrics[0].text == "is kind"
    assert codes(reading, Severity.WARNING)


def test_keys_that_adk_keeps_and_nobody_reads_are_noted_once():
    cases = [{"eval_id": f"c{i}", "conversation": [], "tags": [], "_comment": ""} for i in range(3)]
    reading = parse({"eval_set_id": "s", "eval_cases": cases, "version": 1, "_about": 2})
    assert [(p.severity, p.code) for p in reading.problems] == [(Severity.NOTE, "unused-key")] * 2
    assert "2 more places" in reading.problems[0].message


def test_a_key_that_is_probably_a_slip_is_more_than_a_note():
    reading = one_case(conversation=[], rubric=[])
    assert [(p.severity, p.hint) for p in reading.problems] == [
        (Severity.WARNING, "did you mean `rubrics`?")
    ]


@pytest.mark.parametrize("text", ["\ufeff%s", "\r\n%s\r\n"])
def test_marks_and_line_ends_do_not_matter(text):
    inner = json.dumps(
        {"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation": [TURN]}]}, indent=1
    )
    reading = parse(text % inner.replace("\n", "\r\n"))
    case = only_case(reading)
    assert case.place is not None
    assert case.place.line == 4 + text.startswith("\r")


# --- what cannot be understood --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "code", "path", "words"),
    [
        ({}, "no-conversation", "eval_cases[0]", "neither"),
        (
            {
                "conversation": [],
                "conversation_scenario": {"starting_prompt": "a", "conversation_plan": "b"},
            },
            "two-conversations",
            "eval_cases[0]",
            "both",
        ),
        (
            {"conversation": {}},
            "wrong-type",
            "eval_cases[0].conversation",
            "expected a list, found an object",
        ),
        (
            {"conversation": ["hi"]},
            "wrong-type",
            "eval_cases[0].conversation[0]",
            "expected an object",
        ),
        (
            {"conversation": [{}]},
            "missing-key",
            "eval_cases[0].conversation[0].user_content",
            "`user_content`",
        ),
        (
            {"conversation": [{"user_content": 3}]},
            "wrong-type",
            "eval_cases[0].conversation[0].user_content",
            "found the number 3",
        ),
        (
            {"conversation": [TURN | {"final_respons": ANSWER}]},
            "unknown-key",
            "eval_cases[0].conversation[0].final_respons",
            "did you mean `final_response`?",
        ),
        (
            {"conversation": [TURN | {"intermediate_data": {"tool_uses": {}}}]},
            "wrong-type",
            "eval_cases[0].conversation[0].intermediate_data.tool_uses",
            "expected a list",
        ),
        (
            {
                "conversation": [
                    TURN | {"intermediate_data": {"tool_uses": [{"name": "t", "args": [1]}]}}
                ]
            },
            "wrong-type",
            "eval_cases[0].conversation[0].intermediate_data.tool_uses[0].args",
            "a list",
        ),
        (
            {
                "conversation_scenario": {
                    "starting_prompt": "a",
                    "conversation_plan": "b",
                    "user_persona": "Novice",
                }
            },
            "unknown-persona",
            "eval_cases[0].conversation_scenario.user_persona",
            "did you mean `NOVICE`?",
        ),
        (
            {"conversation": [], "rubrics": [{"rubric_id": "r"}]},
            "missing-key",
            "eval_cases[0].rubrics[0].rubric_content",
            "`rubric_content`",
        ),
        (
            {"conversation": [{"user_content": {"parts": [{"text": "\ud800"}]}}]},
            "broken-text",
            "eval_cases[0]",
            "unpaired surrogate",
        ),
        (
            {"conversation": [], "session_input": "s"},
            "wrong-type",
            "eval_cases[0].session_input",
            "an object",
        ),
    ],
)
def test_errors_name_the_cause_and_the_place(case, code, path, words):
    reading = one_case(**case)
    assert reading.eval_set is None
    [problem] = [p for p in reading.problems if p.severity is Severity.ERROR]
    assert (problem.code, problem.place.json_path if problem.place else "") == (code, path)
    assert words in f"{problem.message} {problem.hint}"
    assert problem.place is not None
    assert problem.place.line is not None
    assert problem.place.line >= 4


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"name": "x", "test_cases": []}, "`test_cases` looks similar"),
        ({"eval_case": [{"eval_id": "a"}]}, "Write `eval_cases` in place of `eval_case`."),
        ({}, "nothing"),
        ({"eval_cases": {"a": 1}}, "expected a list of cases, found an object"),
        ({"eval_cases": None}, "found null"),
        ({"eval_set_id": ["x"], "eval_cases": []}, "expected text"),
        (3, "expected an evaluation set"),
        ("null", "expected an evaluation set"),
        ([], "this list is empty"),
        ([1], "the number 1"),
        ([{"id": 1, "messages": []}], "`id` and `messages`"),
    ],
)
def test_other_files_are_refused_for_what_they_are(value, words):
    reading = parse(value)
    assert reading.eval_set is None
    assert any(
        words in f"{p.message} {p.hint}" for p in reading.problems if p.severity is Severity.ERROR
    )


def test_all_problems_of_all_cases_at_once():
    cases = [
        {"eval_id": "a"},
        {"eval_id": "b", "conversation": [TURN]},
        {"eval_id": "c", "conversation": 3},
    ]
    reading = parse({"eval_set_id": "s", "eval_cases": cases})
    assert reading.eval_set is None
    assert codes(reading) == ["no-conversation", "wrong-type"]


def test_a_fault_at_the_end_leaves_no_half_set():
    text = json.dumps({"eval_set_id": "s", "eval_cases": [{"eval_id": "a", "conversation": []}]})[
        :-2
    ]
    reading = parse(text)
    assert (reading.eval_set, codes(reading)) == (None, ["json-truncated"])


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        (["a", "a", "b", "a"], ["a", "a (2)", "b", "a (3)"]),
        # a name that is made is not another case's
        (["a (2)", "a", "a"], ["a (2)", "a", "a (3)"]),
        # nor taken by a later one
        (["a", "a", "a (2)"], ["a", "a (2)", "a (2) (2)"]),
    ],
)
def test_cases_of_one_id_are_told_and_kept_apart(given, ids):
    cases = [{"eval_id": name, "conversation": []} for name in given]
    reading = parse({"eval_set_id": "s", "eval_cases": cases})
    assert reading.eval_set is not None
    assert [case.case_id for case in reading.eval_set.cases] == ids
    assert set(codes(reading, Severity.WARNING)) == {"duplicate-case-id"}
    assert "(the first is at dir/my_set.evalset.json:" in reading.problems[0].message


def test_of_two_lists_of_cases_the_last_counts():
    one, two = (f'"eval_cases": [{{"eval_id": "{name}", "conversation": []}}]' for name in "ab")
    reading = parse(f'{{"eval_set_id": "s", {one}, {two}}}')
    assert only_case(reading).case_id == "b"
    assert "duplicate-key" in codes(reading)


# --- the old dialects -----------------------------------------------------------------------------

OLD_TURN = {
    "query": "roll",
    "reference": "rolled",
    "expected_tool_use": [{"tool_name": "roll_die", "tool_input": {"sides": 6}}],
    "expected_intermediate_agent_responses": [{"author": "sub", "text": "rolling"}],
}


def test_a_flat_list_is_one_case():
    reading = parse([OLD_TURN, {"query": "again"}], file="tests/roll_die.test.json")
    case = only_case(reading)
    assert (reading.dialect, reading.problems, case.case_id) == (Dialect.FLAT_LIST, (), "roll_die")
    assert case.conversation is not None
    first, second = case.conversation
    assert first.tool_calls == (ToolCall(name="roll_die", args={"sides": 6}),)
    assert [event.author for event in first.events or ()] == ["", "sub"]
    assert (text_of(first.user_content), text_of(first.final_response)) == ("roll", "rolled")
    # as in ADK: no reference is an empty answer, no calls are an expectation of none
    assert (text_of(second.final_response), second.events, second.itemized) == ("", (), False)


def test_a_named_list_is_many_cases():
    session = {"app_name": "dice", "user_id": "u", "state": {"n": 1}}
    value = [
        {"name": "a", "data": [OLD_TURN], "initial_session": session},
        {"name": "b", "data": [], "initial_session": {}},
    ]
    reading = parse(value)
    assert reading.dialect is Dialect.NAMED_LIST
    assert reading.eval_set is not None
    first, second = reading.eval_set.cases
    assert (first.case_id, first.session and first.session.state, second.session) == (
        "a",
        {"n": 1},
        None,
    )


@pytest.mark.parametrize(
    ("value", "code", "path"),
    [
        ([{"query": 1}], "wrong-type", "[0].query"),
        ([OLD_TURN, {"reference": "x"}], "missing-key", "[1].query"),
        ([OLD_TURN, "x"], "wrong-type", "[1]"),
        ([{"query": "x", "expected_tool_use": {}}], "wrong-type", "[0].expected_tool_use"),
        (
            [{"query": "x", "expected_tool_use": [{"tool_input": {}}]}],
            "missing-key",
            "[0].expected_tool_use[0]",
        ),
        (
            [{"query": "x", "expected_tool_use": [{"tool_name": 0, "tool_input": {}}]}],
            "missing-key",
            "[0].expected_tool_use[0]",
        ),
        ([{"query": "x", "refrence": "y"}], "unknown-key", "[0].refrence"),
        ([{"data": []}], "missing-key", "[0].name"),
        ([{"name": "a", "data": []}, {"name": "b"}], "missing-key", "[1]"),
        ([{"name": "a", "data": {}}], "wrong-type", "[0].data"),
        ([{"name": "a", "data": [{"reference": ""}]}], "missing-key", "[0].data[0].query"),
        ([{"name": "a", "data": [], "initial_session": []}], "wrong-type", "[0].initial_session"),
    ],
)
def test_errors_in_old_dialects_are_those_of_that_dialect(value, code, path):
    reading = parse(value)
    assert reading.eval_set is None
    assert [(p.code, p.place.json_path if p.place else "") for p in reading.problems] == [
        (code, path)
    ]


@pytest.mark.parametrize(
    ("session", "code"),
    [
        (None, "adk-rejects-missing"),
        ({"app_name": "a", "state": None}, "adk-rejects-missing"),
        ({"appName": "a"}, "adk-rejects-spelling"),
        ({"app_name": 7}, "wrong-type"),
        ({"app_name": "a", "state": []}, "wrong-type"),
    ],
)
def test_an_old_session_that_adk_refuses_is_told(session, code):
    assert codes(parse([{"name": "a", "data": [OLD_TURN], "initial_session": session}])) == [code]


def test_bare_tool_names_are_read_with_a_warning():
    reading = parse([{"query": "x", "expected_tool_use": ["a", "b"]}])
    assert only_turn(reading).tool_calls == (ToolCall(name="a"), ToolCall(name="b"))
    assert codes(reading) == ["adk-rejects-shape"]


def old_call(**keys) -> EvalSetReading:
    return parse([{"query": "x", "expected_tool_use": [keys]}])


@pytest.mark.parametrize(
    ("keys", "args", "code"),
    [
        ({"tool_name": "t", "tool_input": {"a": 1}}, {"a": 1}, None),
        ({"tool_name": "t", "tool_input": None}, None, None),  # ADK takes it
        ({"tool_name": "t"}, None, "adk-rejects-missing"),
        ({"tool_name": "t", "toolInput": {"a": 1}}, {"a": 1}, "adk-rejects-spelling"),
        ({"toolName": "t", "tool_input": {"a": 1}}, {"a": 1}, "adk-rejects-spelling"),
        ({"name": "t", "tool_input": {"a": 1}}, {"a": 1}, "adk-rejects-name"),
        ({"tool_name": "t", "args": {"a": 1}}, {"a": 1}, "adk-rejects-name"),
        ({"tool_name": "t", "arguments": '{"a": 1}'}, {"a": 1}, "adk-rejects-name"),
        ({"tool_name": "t", "tool_parameters": {"a": 1}}, {"a": 1}, "adk-rejects-name"),
        ({"tool_name": "t", "tool_input": {"a": 1}, "note": "mine"}, {"a": 1}, "unused-key"),
        ({"tool_name": "t", "tool_input": {"a": 1}, "toolInput": {"b": 2}}, {"a": 1}, "unused-key"),
        # ADK's own, of no use here
        ({"tool_name": "t", "tool_input": {}, "mock_tool_output": "x"}, {}, None),
    ],
)
def test_an_old_call_is_read_and_what_adk_refuses_is_told(keys, args, code):
    reading = old_call(**keys)
    assert only_turn(reading).tool_calls == (ToolCall(name="t", args=args),)
    assert codes(reading) == ([code] if code else [])


@pytest.mark.parametrize("key", ["tool_inputs", "toolInputs", "Tool_Inptu", "params"])
def test_arguments_of_an_old_call_under_another_name_are_never_dropped(key):
    reading = old_call(tool_name="t", **{key: {"a": 1}})
    assert reading.eval_set is None
    (problem,) = reading.problems
    assert (problem.code, problem.hint) == ("unknown-key", "did you mean `tool_input`?")
    assert problem.place is not None
    assert problem.place.json_path == f"[0].expected_tool_use[0].{key}"


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        # read as what it is elsewhere
        ("tools", [{"tool_name": "t", "tool_input": {}}], "adk-rejects-name"),
        ("expected_tools", [{"tool_name": "t", "tool_input": {}}], "adk-rejects-name"),
        ("final_answer", "hello", "adk-rejects-name"),
        ("expected_output", "hello", "adk-rejects-name"),
        # an error: ADK passes it over, and a test that is lost is none
        ("trajectory", ["t"], "unknown-key"),
        ("assertions", ["is polite"], "unknown-key"),
        ("expected_output", {"mood": "polite"}, "unknown-key"),
        ("notes", ["t"], "unused-key"),  # nothing is expected by it
        ("response", "hello", None),  # ADK's own: what the agent said once
    ],
)
def test_an_expectation_of_an_old_turn_under_another_name_is_read_or_an_error(key, value, code):
    reading = parse([{"query": "x", key: value}])
    assert [p.code for p in reading.problems] == ([code] if code else [])
    assert (reading.eval_set is None) is (code == "unknown-key")
    if code == "adk-rejects-name":
        (turn,) = only_case(reading).conversation or ()
        assert (
            turn.tool_calls == (ToolCall(name="t", args={}),)
            or text_of(turn.final_response) == "hello"
        )


SAID = {"parts": [{"text": "hi"}]}
HELLO = {"parts": [{"text": "hello"}]}
CALLS = [{"tool_name": "t", "tool_input": {"a": 1}}]
ASKED, ANSWERED = {"user_content": SAID}, {"user_content": SAID, "final_response": HELLO}


@pytest.mark.parametrize(
    ("case", "read"),
    [
        # beside one turn, or of the last: what it lacks
        ({"conversation": [ASKED], "expected_tool_use": CALLS}, ("", True)),
        (
            {"conversation": [ASKED], "expected_tools": CALLS, "expected_output": "hello"},
            ("hello", True),
        ),
        ({"conversation": [ASKED, ASKED], "reference": "hello"}, ("hello", False)),
        # the same once more
        ({"conversation": [ANSWERED], "reference": "hello", "prompt": "hi"}, ("hello", False)),
        # no conversation: one turn, or the turns of `data`
        ({"prompt": "hi", "reference": "hello", "expected_tools": CALLS}, ("hello", True)),
        (
            {"data": [{"query": "hi", "reference": "hello", "expected_tool_use": CALLS}]},
            ("hello", True),
        ),
    ],
)
def test_what_a_case_expects_beside_its_turns_is_read(case, read):
    reading = parse({"eval_set_id": "s", "eval_cases": [{"eval_id": "c", **case}]})
    last = (only_case(reading).conversation or ())[-1]
    assert (
        text_of(last.final_response) if last.final_response else "",
        bool(last.tool_calls),
    ) == read
    assert {p.severity for p in reading.problems} <= {Severity.WARNING}


SCENARIO = {"starting_prompt": "a", "conversation_plan": "b"}


@pytest.mark.parametrize(
    ("case", "key", "shown"),
    [
        (
            {"conversation": [ASKED, ASKED], "expected_tool_use": CALLS},
            "expected_tool_use",
            '[{"tool_name": "t"',
        ),
        ({"conversation": [ANSWERED], "reference": "another"}, "reference", '"another"'),
        ({"conversation": [ANSWERED], "assertions": ["is polite"]}, "assertions", '["is polite"]'),
        (
            {"conversation": [{**ANSWERED, "assertions": ["x"]}]},
            "conversation[0].assertions",
            '["x"]',
        ),
        ({"conversation": [ANSWERED], "data": {"table": 3}}, "data", '{"table": 3}'),
        ({"conversation": [ANSWERED], "prompt": "You are polite."}, "prompt", '"You are polite."'),
        ({"conversation_scenario": SCENARIO, "reference": "hello"}, "reference", '"hello"'),
        (
            {"conversation": [ASKED], "expected_behavior": "is polite"},
            "expected_behavior",
            '"is polite"',
        ),
    ],
)
def test_what_a_case_expects_and_nobody_reads_is_an_error_that_shows_it(case, key, shown):
    reading = parse({"eval_set_id": "s", "eval_cases": [{"eval_id": "c", **case}]})
    (problem,) = reading.problems
    assert (problem.severity, problem.code, problem.place.json_path) == (
        Severity.ERROR,
        "unknown-key",
        f"eval_cases[0].{key}",
    )
    name = key.rpartition(".")[2]
    assert problem.message.startswith(f"`{name}` is not read, so this would be lost: {shown}")


def test_an_answer_of_another_type_beside_a_reference_is_reported():
    turn = {"user_content": SAID, "final_response": {"parts": 5}}
    case = {"eval_id": "c", "conversation": [turn], "reference": "hello"}
    reading = parse({"eval_set_id": "s", "eval_cases": [case]})
    assert {str(p.message) for p in reading.problems} == {
        '`reference` is not read, so this would be lost: "hello"',
        "expected a list, found the number 5",
    }


@pytest.mark.parametrize(
    ("key", "value", "severity"),
    [
        # a remark: the turn expects something all the same
        ("expected_behavior", "is polite", Severity.WARNING),
        ("metadata", {"level": 1}, Severity.NOTE),
        ("tools", ["look_up"], Severity.NOTE),  # those that there are
        ("expected_turns", 3, Severity.NOTE),
        ("_assertions", ["is polite"], None),
        ("reference", None, Severity.NOTE),
    ],
)
def test_what_else_stands_beside_turns_is_no_error(key, value, severity):
    reading = parse(
        {
            "eval_set_id": "s",
            "eval_cases": [{"eval_id": "c", "conversation": [ANSWERED], key: value}],
        }
    )
    assert [p.severity for p in reading.problems] == ([] if severity is None else [severity])
    assert only_case(reading).case_id == "c"


def test_chat_messages_are_no_turns():
    messages = [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"text": "hello"}]},
    ]
    reading = parse(
        {"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation": messages}]}
    )
    assert {p.message for p in reading.problems} == {
        "found a chat message (`role`, `parts`), expected a turn"
    }
    assert reading.eval_set is None


def test_texts_of_other_agents_without_their_names():
    reading = parse([{"query": "x", "expected_intermediate_agent_responses": ["looking"]}])
    (event,) = (only_case(reading).conversation or ())[0].events or ()
    assert (event.author, text_of(event.content)) == ("", "looking")
    assert [(p.severity, p.code) for p in reading.problems] == [
        (Severity.WARNING, "adk-rejects-shape")
    ]


# --- agents-cli -----------------------------------------------------------------------------------


def dataset(**fields) -> EvalSetReading:
    case = {"eval_case_id": "c", **fields}
    return parse({"eval_cases": [case]}, file="tests/eval/datasets/basic-dataset.json")


def user(text):
    return {"role": "user", "parts": [{"text": text}]}


def test_a_prompt_and_its_reference():
    reading = dataset(prompt=user("hi"), reference={"response": ANSWER})
    turn = only_turn(reading)
    assert (reading.dialect, reading.problems) == (Dialect.AGENTS_CLI, ())
    assert reading.eval_set is not None
    assert reading.eval_set.eval_set_id == "basic"
    assert (text_of(turn.user_content), text_of(turn.final_response), turn.events) == (
        "hi",
        "hello",
        None,
    )


def test_turns_of_a_trace_and_the_prompt_that_follows():
    events = [
        {"author": "user", "content": user("one")},
        {"author": "app", "content": {"parts": [{"function_call": {"name": "t", "args": {}}}]}},
        {"author": "app", "content": {"role": "model", "parts": [{"text": "first"}]}},
    ]
    reading = dataset(
        agent_data={"turns": [{"turn_id": "t0", "events": events}]}, prompt=user("two")
    )
    conversation = only_case(reading).conversation
    assert conversation is not None
    assert [(text_of(t.user_content), text_of(t.final_response)) for t in conversation] == [
        ("one", "first"),
        ("two", None),
    ]
    assert conversation[0].tool_calls == (ToolCall(name="t", args={}),)


def test_a_trace_that_ends_with_the_user_waits_for_an_answer():
    turns = [{"events": [{"author": "user", "content": user("hi")}]}]
    turn = only_turn(dataset(agent_data={"turns": turns}, reference={"response": ANSWER}))
    assert (text_of(turn.user_content), turn.events, text_of(turn.final_response)) == (
        "hi",
        None,
        "hello",
    )


def test_the_text_of_an_event_may_stand_beside_its_author():
    turns = [{"events": [{"author": "user", "text": "hi"}]}]
    assert text_of(only_turn(dataset(agent_data={"turns": turns})).user_content) == "hi"


@pytest.mark.parametrize("other", ["x", 3, None, {"eval_id": "b"}, {"eval_id": "b", "messages": 3}])
def test_a_list_of_cases_names_what_is_no_case(other):
    reading = parse([{"eval_id": "a", "input": "hi"}, other], file="evals/datasets/x.json")
    assert reading.eval_set is None
    (path,) = {p.place.json_path for p in reading.problems if p.severity is Severity.ERROR}
    assert path.startswith("[1]")


def test_messages_of_a_chat_are_turns():
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "bye"},
    ]
    conversation = only_case(dataset(messages=messages)).conversation
    assert conversation is not None
    assert [(text_of(t.user_content), text_of(t.final_response)) for t in conversation] == [
        ("hi", "hello"),
        ("bye", None),
    ]


def test_an_object_in_place_of_a_message_is_sent_as_json():
    reading = parse({"eval_cases": [{"name": "a", "input": {"sku": "X"}}]}, file="x-dataset.json")
    assert text_of(only_turn(reading).user_content) == '{"sku": "X"}'


@pytest.mark.parametrize(
    "fields",
    [{"input": "hi"}, {"conversation": [{"user_content": {"parts": [{"text": "hi"}]}}]}],
)
def test_a_list_of_cases_is_a_dataset(fields):
    """Other keys of a case are passed to metrics, as in any dataset."""
    cases = [{"eval_id": name, "must_contain": ["x"], **fields} for name in "ab"]
    reading = parse(cases, file="evals/datasets/x.json")
    assert reading.eval_set is not None
    assert [case.case_id for case in reading.eval_set.cases] == ["a", "b"]
    for case in reading.eval_set.cases:
        assert text_of(case.conversation[0].user_content) == "hi"
        assert case.extras["must_contain"] == ["x"]


def test_history_scenarios_rubrics_and_sessions():
    history = [{"content": user("a")}, {"author": "app", "content": ANSWER}]
    rubric = {"rubric_id": "r", "content": {"property": {"description": "is kind"}}, "type": "T"}
    reading = dataset(
        conversation_history=history,
        prompt=user("b"),
        rubric_groups={"g": {"rubrics": [rubric]}},
        session_inputs={"app_name": "app", "state": {"k": "v"}},
    )
    case = only_case(reading)
    assert case.conversation is not None
    assert [text_of(turn.final_response) for turn in case.conversation] == ["hello", None]
    assert (case.rubrics[0].text, case.rubrics[0].type) == ("is kind", "T")
    assert case.session is not None
    assert (case.session.app_name, case.session.state) == ("app", {"k": "v"})
    scenario = only_case(
        dataset(user_scenario={"starting_prompt": "p", "conversation_plan": "q"})
    ).scenario
    assert scenario is not None
    assert scenario.starting_prompt == "p"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, "no-conversation"),
        ({"prompt": 3}, "wrong-type"),
        ({"agent_data": {"turns": 1}}, "wrong-type"),
        ({"agent_data": {"turns": [{}]}}, "missing-key"),
        ({"user_scenario": {"starting_prompt": "p"}}, "missing-key"),
    ],
)
def test_datasets_that_cannot_be_read(fields, code):
    reading = dataset(**fields)
    assert reading.eval_set is None
    assert codes(reading, Severity.ERROR) == [code]
