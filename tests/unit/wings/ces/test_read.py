"""CES files as people write them: what they are, and what is wrong with them, by place and
cause."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from evalgate import errors
from evalgate.errors import Severity
from evalgate.wings.ces import cxas, read, shapes
from evalgate.wings.ces.read import Kind

DATA = Path(__file__).parents[3] / "data/ces"
GOLDEN = json.loads((DATA / "golden_library_renewal.json").read_text())

CONVERSATIONS = """\
common_session_parameters: {account: "7"}
common_expectations: ["Is polite"]
conversations:
  - conversation: happy
    tags: [P0]
    expectations: ["Names the date"]
    turns:
      - agent: "Hello"
      - user: "Renew it"
        agent: ["Done", "# silent"]
        variables: [{name: loan, value: 3}]
        tool_calls:
          - action: renew
            args: {loan: {$matchType: semantic, $originalValue: x}}
            output: ok
          - {action: transfer_to_agent, agent: loans}
"""
SIMULATIONS = """\
evals:
  - name: billing
    tags: [P0]
    steps:
      - {goal: Ask, success_criteria: Told, response_guide: Be short, max_turns: 3}
      - {static_utterance: Bye, inject_variables: {a: 1}}
    expectations: ["Is polite"]
    session_parameters: {account: "7"}
"""
TOOL_TESTS = """\
tests:
  - name: lookup
    tool: find
    args: {id: "7"}
    expectations:
      response:
        - {path: $.result.status, operator: equals, value: ok}
"""

KINDS = [  # file, text, kind
    ("evaluations/a/a.json", json.dumps(GOLDEN), Kind.EVALUATION),
    ("anywhere.json", '{"display_name": "x", "scenario": {"task": "t"}}', Kind.EVALUATION),
    ("a.yaml", "displayName: x\ngolden:\n  turns: []\n", Kind.EVALUATION),
    # in an export's layout the folder decides, so that a misspelled key is told of
    ("app/evaluations/a/a.json", '{"displayName": "a", "goldn": {}}', Kind.EVALUATION),
    # also where it is so long that its name is out of sight
    (
        "evaluations/a/a.json",
        json.dumps({"golden": GOLDEN["golden"], "x": "y" * 70_000, "name": "n"}),
        Kind.EVALUATION,
    ),
    ("evaluationExpectations/a/a.json", '{"displayName": "a"}', Kind.EXPECTATION),
    ("evaluationDatasets/a.yaml", "displayName: a\n", Kind.DATASET),
    ("x.json", '{"displayName": "a", "llmCriteria": {"prompt": "p"}}', Kind.EXPECTATION),
    ("x.json", '{"displayName": "a", "evaluations": []}', Kind.DATASET),
    ("x.json", '{"displayName": "a", "personality": "p"}', Kind.PERSONA),
    ("x.json", '{"goldenResult": {}}', Kind.RESULT),
    ("x.json", '{"evaluationRunSummaries": {}}', Kind.RUN),
    ("some/app.json", '{"displayName": "a", "evaluationMetricsThresholds": {}}', Kind.APP),
    # YAML takes JSON
    ("some/app.yaml", '{"displayName": "a", "evaluationMetricsThresholds": {}}', Kind.APP),
    ("some/app.yaml", '"displayName": a\n"evaluationMetricsThresholds": {}\n', Kind.APP),
    ("evals/a.yaml", CONVERSATIONS, Kind.CONVERSATIONS),
    ("evals/a.yml", SIMULATIONS, Kind.SIMULATIONS),
    ("evals/a.yaml", TOOL_TESTS, Kind.TOOL_TESTS),
    ("some/app.yaml", "{displayName: a, evaluationMetricsThresholds: {}}", Kind.APP),
    ("x.yaml", "{name: a, golden: {\n  turns: [{steps: []}]}}", Kind.EVALUATION),
    # so deep that a reader of YAML takes minutes
    (
        "app/evaluations/a/a.yaml",
        "{displayName: a, golden: {turns: " + "{" * 60_000,
        Kind.EVALUATION,
    ),
    ("x.yaml", "{" * 60_000, None),
    ("app/evaluations/a/a.json", "{", Kind.EVALUATION),
    ("app/evaluations/a/a.yaml", "", Kind.EVALUATION),
    ("app/evaluations/a/b.json", "{", None),
    # others' files
    ("package.json", '{"name": "x", "scenario": "y"}', None),
    ("x.yaml", "tests:\n  - vars: {a: 1}\n", None),
    ("x.yaml", "conversations:\n  - id: 3\n", None),
    ("app.json", '{"displayName": "an Expo app"}', None),
    ("evaluations/data.json", '{"displayName": "x"}', None),
    ("x.json", "[1]", None),
    ("x.txt", CONVERSATIONS, None),
]


@pytest.mark.parametrize(("file", "text", "kind"), KINDS)
def test_kinds(file: str, text: str, kind: Kind | None) -> None:
    assert read.kind_of(text, file=file) is kind


def changed(*path: object, value: object) -> str:
    """The golden with another value at a path; `...` takes it out."""
    made = copy.deepcopy(GOLDEN)
    here = made
    for step in path[:-1]:
        here = here[step]
    if value is ...:
        del here[path[-1]]
    else:
        here[path[-1]] = value
    return json.dumps(made, indent=1)


TURNS = ("golden", "turns")
FIRST = (*TURNS, 0, "steps")
NO_CALLS = (*FIRST, 3, "expectation")
LEVEL, SHARE = "semanticSimilaritySuccessThreshold", "overallToolInvocationCorrectnessThreshold"
OVERRIDE = (*TURNS, 2, "turnLevelMetricsThresholdsOverride")
RESPONSE = (*TURNS, 2, "steps", 2, "expectation", "toolResponse")
MOCK = (*TURNS, 1, "steps", 3, "expectation", "mockToolResponse")
CALL = (*TURNS, 1, "steps", 2, "expectation", "toolCall")
TURN = "golden.turns[0]"

FAULTS = [  # the text, code, where, a part of the message or of the hint
    # unknown fields, by their message, with the nearest name
    (changed("tag", value=[]), "unknown-key", "tag", "in Evaluation"),
    (changed(*NO_CALLS, "comparisonTyp", value="EQUALS"), "unknown-key", "comparisonTyp", "comparisonType"),
    (changed(*CALL, "arg", value={}), "unknown-key", "arg", "ToolCall"),
    # the same field twice
    (changed("display_name", value="x"), "duplicate-key", "display_name", "same field"),
    # enums
    (changed(*FIRST, 2, "expectation", "comparisonType", value="EQUAL"), "wrong-value", "comparisonType", "`EQUALS`"),
    (changed(*FIRST, 2, "expectation", "comparisonType", value=9), "wrong-value", "comparisonType", "EQUALS"),
    # oneofs: two, and none
    (changed("scenario", value={"task": "t"}), "ces-oneof", "scenario", "only one of `golden` and `scenario`"),
    (changed("golden", value=...), "ces-oneof", "", "one of `golden` and `scenario` is missing"),
    (changed(*FIRST, 1, value={}), "ces-oneof", "steps[1]", "`userInput`, `agentTransfer`"),
    (changed(*FIRST, 1, "userInput", "text", value="x"), "ces-oneof", "userInput", "only one of"),
    (changed(*CALL, "tool", value=...), "ces-oneof", "toolCall", "`toolsetTool`"),
    # required
    (changed("displayName", value=...), "missing-key", "", "`displayName`"),
    (changed(*TURNS, value=[]), "missing-key", "golden", "`turns`"),
    (changed(*TURNS, 0, "steps", value=[]), "missing-key", TURN, "`steps`"),
    (changed(*RESPONSE, "response", value=...), "missing-key", "toolResponse", ""),
    # ranges
    (changed(*OVERRIDE, LEVEL, value=9), "wrong-value", LEVEL, "less than or equal to 4"),
    (changed(*OVERRIDE, SHARE, value=-1), "wrong-value", SHARE, "greater than or equal to 0"),
    (changed(*TURNS, value=[GOLDEN["golden"]["turns"][0]] * 101), "wrong-value", "golden.turns", "at most 100"),
    # types
    (changed("tags", value="P0"), "wrong-type", "tags", "expected a list"),
    (changed("tags", value=[1]), "wrong-type", "tags[0]", "expected text, found the number 1"),
    (changed("golden", value=[]), "wrong-type", "golden", "an object"),
    (changed(*CALL, "args", value=[]), "wrong-type", "args", "an object"),
    (changed("createTime", value="yesterday"), "wrong-value", "createTime", "a time such as"),
    # what a turn says
    (changed(*FIRST, 3, "expectation", "noToolCalls", value=False), "wrong-value", "noToolCalls", "only as `true`"),
    (changed(*MOCK[:-1], value={"noToolCalls": True}), "wrong-value", "noToolCalls", "always fails"),
    (changed(*CALL, "args", "title", "$matchType", value="regex"), "ces-match-type", "$matchType", "`regexp`"),
    (changed(*CALL, "args", "title", "$originalValue", value=...), "ces-match-type", "title", "nothing to compare"),
    # not JSON at all
    ('{"displayName": "x",}', "json-syntax", "", "comma"),
    ("[]", "wrong-type", "", "expected an object"),
    ("", "file-empty", "", "empty"),
]  # fmt: skip
WARNINGS = [
    (changed(*TURNS, 1, "steps", 4, value=...), "ces-turn", "golden.turns[1]", "unexpected response"),
    (changed(*TURNS, 1, "steps", 0, value=...), "ces-turn", "golden.turns[1]", "without user input"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "where", "said"), [*FAULTS, *WARNINGS])
def test_faults_are_told_with_place_and_cause(text: str, code: str, where: str, said: str) -> None:
    reading = read.parse(text, file="evaluations/a/a.json")
    told = [each for each in reading.problems if each.code == code]
    assert told, reading.problems
    problem = told[0]
    assert problem.place is not None
    assert problem.place.line
    assert where in problem.place.json_path
    assert said in f"{problem.message} {problem.hint}"
    assert (
        "is there instead" not in problem.hint or said not in problem.hint
    )  # what is empty is not its own nearest name
    is_error = (text, code, where, said) in FAULTS
    assert problem.severity is (Severity.ERROR if is_error else Severity.WARNING)
    assert bool(reading.resources) == (not is_error)
    # one fault is one error, whatever else it makes doubtful
    errors = [each for each in reading.problems if each.severity is Severity.ERROR]
    assert len(errors) == is_error, errors


@pytest.mark.parametrize("original", [5, None, ["P"]])
def test_a_regular_expression_that_is_no_text_is_searched_as_one(original: object) -> None:
    matcher = {"$matchType": "regexp", "$originalValue": original}
    reading = read.parse(
        changed(*CALL, "args", "title", value=matcher), file="evaluations/a/a.json"
    )
    assert not reading.problems
    assert reading.resources


def test_places_are_those_of_the_file() -> None:
    """In JSON and in YAML, in either spelling of the keys."""
    text = '{\n "display_name": "x",\n "golden": {\n  "turns": [\n   {"steps": [\n    {"user_input": {"txt": "a"}}]}]}}'
    place = read.parse(text, file="x.json").problems[0].place
    assert place is not None
    assert (place.line, place.column) == (6, 6)
    text = "display_name: x\ngolden:\n  turns:\n  - steps:\n    - user_input:\n        txt: a\n        when: 2027-02-01\n"
    places = [
        each.place
        for each in read.parse(text, file="x.yaml").problems
        if each.code == "unknown-key"
    ]
    assert [(each.line, each.column) for each in places if each] == [(6, 9), (7, 9)]


YAML_FAULTS = [
    ("displayName: [", "yaml-syntax", ""),
    ("displayName: x\ndisplayName: y\nscenario: {task: t}\n", "duplicate-key", "first on line 1"),
    # YAML's yes is not the word
    ("displayName: x\nscenario: {task: Yes}\n", "wrong-type", "found true"),
    ("displayName: x\nscenario: {task: t, 3: 4}\n", "wrong-type", "text as a key"),
    (
        "displayName: x\nscenario: {task: t, variableOverrides: {a: .nan}}\n",
        "wrong-value",
        "are finite",
    ),
    ("- 3\n", "wrong-type", "an object"),
    ("", "wrong-type", "empty"),
]


@pytest.mark.parametrize(("text", "code", "said"), YAML_FAULTS)
def test_faults_of_yaml(text: str, code: str, said: str) -> None:
    told = [each for each in read.parse(text, file="x.yaml").problems if each.code == code]
    assert told
    assert said in told[0].message


def test_a_file_that_cannot_be_read_is_one_of_its_folder() -> None:
    problem = errors.error("not-utf-8", "the file is not UTF-8")
    for file, kind in (("evaluationPersonas/a.json", Kind.PERSONA), ("x.json", Kind.EVALUATION)):
        library = read.library({file: problem})
        assert library.problems == (problem,)
        assert (library.readings[file].kind, library.readings[file].resources) == (kind, ())


def test_yaml_dates_stay_text() -> None:
    text = "displayName: x\ncreateTime: 2027-02-01T10:00:00Z\nscenario: {task: t, variableOverrides: {d: 2027-02-01}}\n"
    reading = read.parse(text, file="x.yaml")
    assert reading.problems == ()
    written = reading.resources[0].message.json()
    assert written["createTime"] == "2027-02-01T10:00:00Z"
    assert written["scenario"]["variableOverrides"] == {"d": "2027-02-01"}


def test_expectations_that_are_written_out_in_an_evaluation() -> None:
    raw = copy.deepcopy(GOLDEN)
    raw["golden"]["evaluationExpectations"] = [
        {"displayName": "polite", "llmCriteria": {"prompt": "Was it polite?"}}
    ]
    found = read.library({"evaluations/a/a.json": json.dumps(raw)})
    assert found.problems == ()
    (expectation,) = found.of(Kind.EXPECTATION)
    assert expectation.id == "polite"
    evaluation = found.of(Kind.EVALUATION)[0].message
    assert isinstance(evaluation, shapes.Evaluation)
    assert evaluation.golden is not None
    assert evaluation.golden.evaluation_expectations == ("polite",)


def test_an_app_has_thresholds_settings_and_personas() -> None:
    raw = {
        "displayName": "app",
        "rootAgent": {"anything": 1},
        "evaluationMetricsThresholds": {"goldenHallucinationMetricBehavior": "ENABLED"},
        "evaluationSettings": {"goldenRunMethod": "NAIVE"},
        "evaluationPersonas": [
            {"name": "a", "displayName": "Hurried", "personality": "Impatient."}
        ],
    }
    reading = read.parse(json.dumps(raw), file="app.json")
    assert reading.problems == ()
    app, persona = reading.resources
    assert app.content == {key: raw[key] for key in raw if key.startswith("evaluation")}
    assert persona.title == "Hurried"
    for key, value, where in (
        ("evaluationPersonas", [{"displayName": "x"}], "evaluationPersonas[0]"),
        ("evaluationPersonas", raw["evaluationPersonas"] * 31, "evaluationPersonas"),
        ("evaluationSettings", {"goldenRunMethod": "STABL"}, "evaluationSettings.goldenRunMethod"),
        # else its thresholds would not count
        ("evaluationMetricsTresholds", {}, "evaluationMetricsTresholds"),
    ):
        problems = read.parse(json.dumps({**raw, key: value}), file="app.json").problems
        assert any(each.place and each.place.json_path == where for each in problems), problems


def test_two_files_that_say_what_applies_to_one_app() -> None:
    settings = "evaluationSettings: {goldenRunMethod: NAIVE}\n"
    texts = {
        "a/app.json": '{"evaluationSettings": {}}',
        "a/app.yaml": settings,
        "b/app.yaml": settings,
    }
    problems = read.library(texts).problems
    assert [str(each).partition("\n")[0] for each in problems] == [
        "a/app.yaml: error: a/app.json says already what applies to the evaluations of this app [ces-duplicate-name]"
    ]


# --- what people write for cxas -------------------------------------------------------------------


def test_a_golden_for_cxas_is_the_evaluation_that_it_becomes() -> None:
    reading = read.parse(CONVERSATIONS, file="evals/a.yaml")
    assert reading.problems == ()
    app = shapes.LOCAL_APP
    expectations = [
        f"{app}/evaluationExpectations/{cxas.expectation_id(each)}"
        for each in ("Is polite", "Names the date")
    ]
    tool = f"{app}/tools/renew"
    call = {
        "id": "call-1",
        "tool": tool,
        "args": {"loan": {"$matchType": "semantic", "$originalValue": "x"}},
    }
    response = {"id": "call-1", "tool": tool, "response": {"output": "ok"}}
    answers = [
        {"agentResponse": {"role": "agent", "chunks": [{"text": text}]}}
        for text in ("Hello", "Done")
    ]
    assert reading.resources[0].message.json() == {
        "displayName": "happy",
        "tags": ["P0"],
        "golden": {
            "turns": [
                {
                    "steps": [
                        {"userInput": {"variables": {"account": "7"}}},
                        {"userInput": {"event": {"event": "welcome"}}},
                        {"expectation": answers[0]},
                    ]
                },
                {
                    "steps": [
                        {"userInput": {"variables": {"loan": 3}}},
                        {"userInput": {"text": "Renew it"}},
                        {"expectation": answers[1]},
                        {"expectation": {"toolCall": call}},
                        {"expectation": {"toolResponse": response}},
                        {"expectation": {"agentTransfer": {"targetAgent": f"{app}/agents/loans"}}},
                    ]
                },
            ],
            "evaluationExpectations": expectations,
        },
    }


CXAS_FAULTS = [  # what is written, what is written instead, code, place, hint or message
    (
        CONVERSATIONS,
        ("tool_calls:", "tools:"),
        "unknown-key",
        "conversations[0].turns[1].tools",
        "tool_calls",
    ),
    (CONVERSATIONS, ("action: renew", "tool: renew"), "unknown-key", "tool", "CalledTool"),
    (
        CONVERSATIONS,
        ('agent: "Hello"', "agent: {text: x}"),
        "wrong-type",
        "agent",
        "a list of texts",
    ),
    (
        CONVERSATIONS,
        ("semantic", "similar"),
        "ces-match-type",
        "conversations[0].turns[1]",
        "expected one of",
    ),
    (
        CONVERSATIONS,
        ("conversation: happy", "tags2: []"),
        "missing-key",
        "conversations[0]",
        "`conversation`",
    ),
    (
        SIMULATIONS,
        ("success_criteria", "succes_criteria"),
        "unknown-key",
        "succes_criteria",
        "success_criteria",
    ),
    (SIMULATIONS, ("max_turns: 3", "max_turns: x"), "wrong-type", "max_turns", "whole number"),
    (SIMULATIONS, ("max_turns: 3", "max_turns: -3"), "wrong-value", "max_turns", "-3"),
    (SIMULATIONS, ("goal: Ask, ", ""), "missing-key", "evals[0].steps[0]", "`goal`"),
    (TOOL_TESTS, ("args:", "agrs:"), "unknown-key", "agrs", "`args`"),
    (
        TOOL_TESTS,
        ("args:", "variables: {}\n    context: {}\n    args:"),
        "ces-oneof",
        "context",
        "only one of",
    ),
]


@pytest.mark.parametrize(("text", "swap", "code", "where", "said"), CXAS_FAULTS)
def test_faults_of_files_for_cxas(
    text: str, swap: tuple[str, str], code: str, where: str, said: str
) -> None:
    """The anchor reads each of these without a word and drops what is misspelled."""
    kind = read.kind_of(text, file="a.yaml")
    assert read.parse(text, file="a.yaml", kind=kind).problems == ()
    wrong = text.replace(*swap, 1)
    assert wrong != text
    told = [
        each for each in read.parse(wrong, file="a.yaml", kind=kind).problems if each.code == code
    ]
    assert told
    assert told[0].place is not None
    assert where in told[0].place.json_path
    assert told[0].place.line
    assert said in f"{told[0].message} {told[0].hint}"


# --- between files --------------------------------------------------------------------------------


def test_names_are_used_once_and_references_lead_somewhere() -> None:
    texts = {
        f"app/evaluations/{path.stem}/{path.stem}.json": path.read_text()
        for path in DATA.glob("[ges]*.json")
    }
    assert read.library(texts).problems == ()
    twice = {**texts, "app/evaluations/z/z.json": json.dumps({**GOLDEN, "name": ""})}
    assert [each.code for each in read.library(twice).problems] == ["ces-duplicate-name"]
    golden = "  - conversation: same\n    turns:\n    - user: Hi\n      agent: Hello\n"
    files = {f"{name}.yaml": f"conversations:\n{golden}{golden}" for name in ("a", "b")}
    # one in each file
    assert [each.code for each in read.library(files).problems] == ["ces-duplicate-name"] * 2
    # another app may use the same names
    other = {
        **texts,
        "other/evaluations/z/z.json": json.dumps(
            {**GOLDEN, "golden": {**GOLDEN["golden"], "evaluationExpectations": []}}
        ),
    }
    assert read.library(other).problems == ()
    wrong = json.dumps(GOLDEN).replace("one-question-at-a-time", "one-question-at-a-tim")
    texts["app/evaluations/golden_library_renewal/golden_library_renewal.json"] = wrong
    (problem,) = read.library(texts).problems
    assert (problem.code, problem.severity) == ("ces-reference", Severity.ERROR)
    assert "one-question-at-a-time" in problem.hint
    dataset = {
        "displayName": "d",
        "evaluations": ["projects/p/locations/l/apps/a/evaluations/lost"],
    }
    texts = {"app/evaluationDatasets/d/d.json": json.dumps(dataset)}
    # nothing else of the app is there to compare with
    assert [each.severity for each in read.library(texts).problems] == [Severity.WARNING]
