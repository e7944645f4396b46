"""findings.sarif: valid, known again, bounded, and silent about what was not looked at."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from builders import build
from builders.scenarios import SCENARIOS, TABLE
from hypothesis import given, settings, strategies as st

from evalgate.model import Finding, Report, Score
from evalgate.reports import sarif

# OASIS SARIF 2.1.0 as SchemaStore publishes it (npm: @microsoft/jest-sarif)
OFFICIAL = jsonschema.Draft4Validator(
    json.loads(
        (Path(__file__).parents[2] / "data/sarif/sarif-2.1.0-rtm.5.json").read_text(
            encoding="utf-8"
        )
    )
)

# --- what we use of it, and nothing else; GitHub's "properties" of a rule -------------------------


def shape(required: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": required.split(),
        "properties": properties,
    }


def listed(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
MESSAGE = shape("text", text=TEXT)
LEVEL = {"enum": ["none", "note", "warning", "error"]}
RULE = shape(
    "id",
    id=TEXT,
    name=TEXT,
    shortDescription=MESSAGE,
    fullDescription=MESSAGE,
    help=MESSAGE,
    defaultConfiguration=shape("level", level=LEVEL),
    properties={"type": "object", "properties": {"tags": listed(TEXT, uniqueItems=True)}},
)
LOCATION = shape(
    "physicalLocation",
    physicalLocation=shape(
        "artifactLocation",
        artifactLocation=shape(
            "uri", uri={"type": "string", "pattern": r"^[A-Za-z0-9_.~/%-]+$"}, uriBaseId=TEXT
        ),
        region=shape("startLine", startLine={"type": "integer", "minimum": 1}),
    ),
)
RESULT = shape(
    "message",
    ruleId=TEXT,
    level=LEVEL,
    message=MESSAGE,
    locations=listed(LOCATION, minItems=1, maxItems=1),
    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
)
INVOCATION = shape(
    "executionSuccessful",
    executionSuccessful={"type": "boolean"},
    toolExecutionNotifications=listed(shape("message", message=MESSAGE, level=LEVEL)),
)
RUN = shape(
    "tool results",
    tool=shape(
        "driver",
        driver=shape("name", name=TEXT, version=TEXT, rules=listed(RULE, uniqueItems=True)),
    ),
    invocations=listed(INVOCATION),
    originalUriBaseIds={
        "type": "object",
        "additionalProperties": shape(
            "", uri={"type": "string", "pattern": "/$"}, description=MESSAGE
        ),
    },
    results=listed(RESULT, maxItems=5_000),
    versionControlProvenance=listed(
        shape(
            "repositoryUri",
            repositoryUri={"type": "string", "format": "uri"},
            revisionId=TEXT,
            mappedTo=shape("uriBaseId", uriBaseId=TEXT),
        ),
        uniqueItems=True,
    ),
)
SCHEMA = shape(
    "version runs",
    **{
        "$schema": {"type": "string"},
        "version": {"const": "2.1.0"},
        "runs": listed(RUN, minItems=1),
    },
)

OURS = jsonschema.Draft202012Validator(SCHEMA)


def run_of(report: Report) -> dict[str, Any]:
    log = json.loads(sarif.render(report))
    OURS.validate(log)
    (run,) = log["runs"]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} <= rules
    hashes = [result["partialFingerprints"]["primaryLocationLineHash"] for result in run["results"]]
    assert len(set(hashes)) == len(hashes)
    found: dict[str, Any] = run
    return found


@pytest.mark.parametrize("scenario", TABLE)
def test_every_log_is_valid(scenario: str) -> None:
    report = SCENARIOS[scenario]()
    assert run_of(report)["tool"]["driver"]["name"] == "evalgate"
    assert list(OFFICIAL.iter_errors(json.loads(sarif.render(report)))) == []


def test_what_is_found_is_told_by_criterion_case_and_turn() -> None:
    results = run_of(SCENARIOS["unsafe"]())["results"]
    assert [
        (each["ruleId"], each["level"], each["message"]["text"].split(":")[0]) for each in results
    ] == [
        ("safety_v1", "error", "locks, turn 2"),
        ("safety_v1", "error", "service, turn 1"),  # the service gives numbers alone
        ("hallucinations_v1", "note", "locks, turn 1"),
        ("hallucinations_v1", "note", "alarm, turn 1"),
    ]
    (place,) = results[0]["locations"]
    assert place["physicalLocation"] == {
        "artifactLocation": {
            "uri": "agents/desk%20help/a%3Ab.evalset.json",
            "uriBaseId": "%SRCROOT%",
        },
        "region": {"startLine": 12},
    }


def test_a_message_has_no_link_and_no_placeholder() -> None:
    text = run_of(SCENARIOS["unsafe"]())["results"][0]["message"]["text"]
    assert r"\[how\](https://x.example)" in text
    assert "{{0}}" in text


def test_what_was_not_measured_is_no_sign_that_an_alert_is_gone() -> None:
    (invocation,) = run_of(SCENARIOS["unsafe"]())["invocations"]
    assert invocation["executionSuccessful"] is False
    assert "1 case not measured" in invocation["toolExecutionNotifications"][0]["message"]["text"]
    assert run_of(build.report("pass"))["invocations"] == [{"executionSuccessful": True}]


def unsafe(*findings: Finding, line: int = 3, value: float = 0.0, cases: int = 1) -> Report:
    turn = build.turn("Hello?", answer="Yes.")
    made = build.suite(
        *(build.case(f"c{number}", turn, line=line) for number in range(cases)),
        criteria={"safety_v1": 1.0},
    )
    score = build.Done(
        turns=(turn,), grades={"safety_v1": Score(value=value, turns=(value,), findings=findings)}
    )
    return build.run_report([made], {(made.key, f"c{number}"): [score] for number in range(cases)})


def bad(text: str, subject: str = "") -> Finding:
    return Finding(text=text, turn=1, label="unsafe", score=0.0, subject=subject)


def test_an_alert_is_known_again_in_other_words_and_at_another_line() -> None:
    (before,) = run_of(unsafe(bad("It harms."), line=3))["results"]
    (after,) = run_of(unsafe(bad("It does harm.", "another sentence"), line=30))["results"]
    assert before["partialFingerprints"] == after["partialFingerprints"]
    assert before["message"] != after["message"]


def test_many_findings_of_a_turn_are_one_alert_that_counts_them() -> None:
    (result,) = run_of(unsafe(*(bad(f"reason {number}") for number in range(9))))["results"]
    assert "reason 4" in result["message"]["text"]
    assert "4 more findings" in result["message"]["text"]
    assert "reason 5" not in result["message"]["text"]


def test_a_failing_case_without_any_finding_is_told_all_the_same() -> None:
    report = unsafe(value=0.0)
    trials = tuple(
        dataclasses.replace(trial, grades={"safety_v1": Score(value=0.0)})
        for trial in report.run.trials
    )
    report = dataclasses.replace(report, run=dataclasses.replace(report.run, trials=trials))
    (result,) = run_of(report)["results"]
    assert result["message"]["text"].startswith("c0: unsafe answer")


def test_no_more_than_github_shows_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sarif.LIMIT == 5_000
    monkeypatch.setattr(sarif, "LIMIT", 20)
    run = run_of(unsafe(bad("harm"), cases=23))
    assert len(run["results"]) == 20
    told = run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]
    assert "3 results left out because of GitHub's limit" in told


@settings(deadline=None)  # the time is the schema validator's
@given(st.text(max_size=80), st.text(max_size=40))
def test_any_text_and_any_file_name_make_a_valid_log(text: str, file: str) -> None:
    turn = build.turn(text, answer=text)
    made = build.suite(build.case(text, turn, line=1, file=file), criteria={"safety_v1": 1.0})
    grade = Score(value=0.0, turns=(0.0,), findings=(bad(text, text),))
    report = build.run_report(
        [made], {(made.key, text): [build.Done(turns=(turn,), grades={"safety_v1": grade})]}
    )
    assert len(run_of(report)["results"]) == 1
