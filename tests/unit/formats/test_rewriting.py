"""A value in a file is replaced, and every other character stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders.rewriting import puts

from evalgate.errors import ConfigError, UnavailableError
from evalgate.formats import expectations, parse_eval_set, rewrite
from evalgate.formats.json_source import Path as JsonPath
from evalgate.model import Content, Event, Rubric, ToolCall
from evalgate.wings.author import old_formats


@pytest.mark.parametrize(
    ("text", "path", "value", "wanted"),
    [
        ('{"a": 1, "b" : [ 2,3 ]}\n', ("b", 1), 4, '{"a": 1, "b" : [ 2,4 ]}\n'),
        # of a key that stands twice the last one counts
        ('{"a": 1, "a": 2}', ("a",), 3, '{"a": 1, "a": 3}'),
        # as the file is written: on lines, indented alike, with its line ends
        (
            '{\n\t"a": {\n\t\t"b": 1\n\t}\n}',
            ("a",),
            {"c": [1]},
            '{\n\t"a": {\n\t\t"c": [\n\t\t\t1\n\t\t]\n\t}\n}',
        ),
        (
            '{\r\n  "a": [\r\n    1\r\n  ]\r\n}',
            ("a",),
            [2, 3],
            '{\r\n  "a": [\r\n    2,\r\n    3\r\n  ]\r\n}',
        ),
        # on one line where the value was, without blanks where the file has none
        ('{\n  "a": {"b": 1}\n}', ("a",), {"c": 2}, '{\n  "a": {"c": 2}\n}'),
        ('{"a":{"b":1}}', ("a",), {"c": [1, 2]}, '{"a":{"c":[1,2]}}'),
        # escapes where the file has them
        ('{"a": "\\u00e9"}', ("a",), "\u00fc", '{"a": "\\u00fc"}'),
        ('{"a": "\u00e9"}', ("a",), "\u00fc", '{"a": "\u00fc"}'),
        # there is no such place
        ('{"a": 1}', ("b",), 1, None),
        ('{"a": [1]}', ("a", 1), 1, None),
        ('{"a": 1', ("a",), 1, None),
    ],
)
def test_a_value_is_replaced(text: str, path: JsonPath, value: Any, wanted: str | None) -> None:
    assert rewrite.replaced(text, path, value) == wanted


@pytest.mark.parametrize(
    ("text", "path", "wanted"),
    [
        ('{"a": {"b": 1}}', ("a", "new"), '{"a": {"b": 1, "new": 5}}'),
        ('{\n  "b": 1\n}', ("new",), '{\n  "b": 1,\n  "new": 5\n}'),
        ('{"a": {}}', ("a", "new"), '{"a": {"new": 5}}'),
        ('{"a": 1}', ("a",), None),
        ("[1]", ("a",), None),
    ],
)
def test_a_member_is_added_at_the_end(text: str, path: JsonPath, wanted: str | None) -> None:
    assert rewrite.inserted(text, path, 5) == wanted


@pytest.mark.parametrize(
    ("text", "path", "wanted"),
    [
        ('{"a": [1]}', ("a",), '{"a": [1, {"b": 5}]}'),
        ('{"a":[]}', ("a",), '{"a":[{"b":5}]}'),
        ('{\n  "a": []\n}', ("a",), '{\n  "a": [\n    {\n      "b": 5\n    }\n  ]\n}'),
        # indented as the item before
        (
            '[\r\n\t{\r\n\t\t"b": 1\r\n\t}\r\n]',
            (),
            '[\r\n\t{\r\n\t\t"b": 1\r\n\t},\r\n\t{\r\n\t\t"b": 5\r\n\t}\r\n]',
        ),
        ('{"a": 1}', ("a",), None),
        ('{"a": [1}', ("a",), None),
    ],
)
def test_an_item_is_added_at_the_end(text: str, path: JsonPath, wanted: str | None) -> None:
    assert rewrite.appended(text, path, {"b": 5}) == wanted


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_encoding_stays(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes('{"a": "\u00e9"}'.encode(encoding))
    source = rewrite.read(path, shown_as="a.json")
    text = rewrite.replaced(source.text, ("a",), "\u6771")
    assert text is not None
    rewrite.save(source, text)
    assert path.read_bytes() == '{"a": "\u6771"}'.encode(encoding)
    with pytest.raises(ConfigError, match="changed meanwhile"):
        rewrite.save(source, text)
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("1")
    (tmp_path / "link.json").symlink_to("a.json")
    rewrite.save(rewrite.read(tmp_path / "link.json", shown_as="link.json"), "2")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "a.json").read_text() == "2"


def test_a_read_only_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("1")
    (tmp_path / "a.json").chmod(0o444)
    with pytest.raises(UnavailableError, match="is read-only"):
        rewrite.save(rewrite.read(tmp_path / "a.json", shown_as="a.json"), "2")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a.json", "1")]


def adk(**turn: Any) -> str:
    asked = {"user_content": {"parts": [{"text": "hi"}]}, **turn}
    return json.dumps(
        {"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation": [asked]}]}
    )


CALLS = (ToolCall(name="find", args={"x": 2}),)
STEPS = (Event(author="agent", content=Content(parts=CALLS)),)
OLD = '[{"query": "hi", "reference": "old", "expected_tool_use": [{"tool_name": "find", "tool_input": {"x": 1}}]}]'


@pytest.mark.parametrize(
    ("text", "pointers"),
    [
        # the text of the answer alone, the arguments of a call of the same tool alone
        (
            adk(
                final_response={"parts": [{"text": "old"}], "role": "model"},
                intermediate_data={"tool_uses": [{"name": "find", "args": {"x": 1}, "id": "7"}]},
            ),
            [
                "conversation/0/final_response/parts/0/text",
                "conversation/0/intermediate_data/tool_uses/0/args",
            ],
        ),
        # another tool: the list
        (
            adk(finalResponse={"parts": []}, intermediateData={"toolUses": [{"name": "other"}]}),
            ["conversation/0/finalResponse", "conversation/0/intermediateData/toolUses"],
        ),
        # nothing was expected
        (adk(), ["conversation/0/final_response", "conversation/0/intermediate_data"]),
        (
            adk(final_response=None, intermediate_data={}),
            ["conversation/0/final_response", "conversation/0/intermediate_data/tool_uses"],
        ),
        # recorded as events
        (
            adk(
                final_response={"parts": [{"text": "a"}, {"text": "b"}]},
                intermediate_data={
                    "invocation_events": [{"author": "a", "content": {"parts": [{"text": "hm"}]}}]
                },
            ),
            ["conversation/0/final_response", "conversation/0/intermediate_data/invocation_events"],
        ),
    ],
)
def test_only_the_expectation_changes(text: str, pointers: list[str]) -> None:
    with puts() as paths:
        made = expectations.change(
            text, file="s.evalset.json", case_id="c", turn=0, answer="new", steps=STEPS
        )
    wanted = [f"/eval_cases/0/{pointer}" for pointer in pointers]
    found_pointers = ["".join(f"/{step}" for step in path) for path in paths]
    assert [pointer.removesuffix("/invocation_events") for pointer in found_pointers] == [
        pointer.removesuffix("/invocation_events") for pointer in wanted
    ]
    found = parse_eval_set(made, file="s.evalset.json").eval_set
    assert found is not None
    (turn,) = found.cases[0].conversation or ()
    assert [part.text for part in turn.final_response.parts] == ["new"]  # type: ignore[union-attr]
    assert [(call.name, call.args) for call in turn.tool_calls] == [("find", {"x": 2})]


@pytest.mark.parametrize(
    ("text", "case_id", "pointers"),
    [
        (OLD, "s", ["/0/reference", "/0/expected_tool_use/0/tool_input"]),
        (
            f'[{{"name": "n", "data": {OLD}}}]',
            "n",
            ["/0/data/0/reference", "/0/data/0/expected_tool_use/0/tool_input"],
        ),
    ],
)
def test_old_formats_are_changed_as_they_are(text: str, case_id: str, pointers: list[str]) -> None:
    with puts() as paths:
        made = expectations.change(
            text, file="s.test.json", case_id=case_id, turn=0, answer="new", steps=STEPS
        )
    assert ["".join(f"/{step}" for step in path) for path in paths] == pointers
    assert made == text.replace('"old"', '"new"').replace('"x": 1', '"x": 2')


@pytest.mark.parametrize(
    ("text", "case_id", "said"),
    [
        (adk(), "other", "has no turn 1"),
        # the expected calls stand beside the turns, where a change would change more
        (
            adk(expected_tool_use=[{"name": "find", "args": {"x": 1}}]),
            "c",
            "cannot be changed automatically",
        ),
        ("{}", "c", "eval_cases"),
    ],
)
def test_what_cannot_be_changed_is_left_alone(text: str, case_id: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        expectations.change(text, file="s.evalset.json", case_id=case_id, turn=0, steps=STEPS)
    assert (
        said in f"{caught.value.message} {[problem.message for problem in caught.value.problems]}"
    )


@pytest.mark.parametrize(
    "text", [OLD, f'[{{"name": "n", "data": {OLD}}}, {{"name": "m", "data": {OLD}}}]']
)
def test_old_formats_read_the_same_in_the_current_one(text: str) -> None:
    made = old_formats.migrated(
        text, file="s.test.json", session={"app_name": "a", "user_id": "u", "state": {"k": 1}}
    )
    reading = parse_eval_set(made, file="s.test.json")
    assert reading.problems == ()
    old = parse_eval_set(text, file="s.test.json").eval_set
    assert old is not None
    assert reading.eval_set is not None
    assert [case.conversation for case in reading.eval_set.cases] == [
        case.conversation for case in old.cases
    ]
    assert {case.session.user_id for case in reading.eval_set.cases if case.session} == {"u"}
    with pytest.raises(ConfigError, match="is not in one of ADK's old formats"):
        old_formats.migrated(made, file="s.test.json")


def test_an_initial_session_may_have_a_state_alone() -> None:
    made = old_formats.migrated(OLD, file="s.test.json", session={"state": {"k": 1}})
    [case] = json.loads(made)["eval_cases"]
    assert case["session_input"] == {"app_name": "", "user_id": "", "state": {"k": 1}}
    with pytest.raises(ConfigError, match="the initial session is not ADK's"):
        old_formats.migrated(OLD, file="s.test.json", session=[])


ON_LINES = '{\n  "a": [\n    {"x": 1},\n    {"x": 2}\n  ]\n}'


@pytest.mark.parametrize(
    ("text", "path", "wanted"),
    [
        ("[1, 2 ,3]", (0,), "[2 ,3]"),
        ("[1, 2 ,3]", (1,), "[1 ,3]"),
        ("[1, 2 ,3]", (2,), "[1, 2]"),
        (ON_LINES, ("a", 0), '{\n  "a": [\n    {"x": 2}\n  ]\n}'),
        (ON_LINES, ("a", 1), '{\n  "a": [\n    {"x": 1}\n  ]\n}'),
        ('{"a": [ 1 ]}', ("a", 0), '{"a": []}'),
        # no item: of an object, beyond the end, the document itself
        ('{"a": 1}', ("a",), None),
        ("[1]", (1,), None),
        ("[1]", (), None),
    ],
)
def test_an_item_is_removed(text: str, path: JsonPath, wanted: str | None) -> None:
    assert rewrite.removed(text, path) == wanted


SET = """{ "evalSetId": "s", "_note": "caf\\u00e9",
  "evalCases": [
    {"evalId": "a",   "conversation": [{"userContent": {"parts": [{"text": "hi"}]}}]},
    {"eval_id": "b", "conversation": [{"user_content": {"parts": [{"text": "ho"}]}}], "rubrics": []}
  ] }
"""


def test_cases_get_rubrics_and_are_deleted() -> None:
    rubrics = [Rubric(rubric_id="kind", text="It is kind.")]
    for case_id in ("a", "b"):
        made = expectations.set_rubrics(
            SET, file="s.evalset.json", case_id=case_id, rubrics=rubrics
        )
        found = parse_eval_set(made, file="s.evalset.json").eval_set
        assert found is not None
        assert {case.case_id: case.rubrics for case in found.cases}[case_id] == tuple(rubrics)
        assert made.startswith(SET[: SET.index('"evalId"')])
    assert '"evalId": "a"' not in expectations.delete_case(SET, file="s.evalset.json", case_id="a")


@pytest.mark.parametrize(
    ("text", "case_id", "said"),
    [
        (SET, "x", "there is no case 'x'"),
        (adk(), "c", "the only one of its file"),
        # a file of one case has no list of cases
        (
            f'[{{"name": "n", "data": {OLD}}}, {{"name": "o", "data": {OLD}}}]',
            "n",
            "cannot be changed automatically",
        ),
    ],
)
def test_a_case_that_cannot_be_deleted_is_told(text: str, case_id: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        expectations.delete_case(text, file="s.evalset.json", case_id=case_id)
