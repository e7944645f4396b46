"""Which options google-adk refuses, and which it takes and never reads: an error here, a warning
there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from parity.adk_child import AdkChild

from evalgate import criteria as criteria_module
from evalgate.discovery import criteria
from evalgate.errors import Severity
from evalgate.formats import criteria_file

pytestmark = pytest.mark.parity

TOOLS, WORDS, MATCH = "tool_trajectory_avg_score", "response_match_score", "final_response_match_v2"
RUBRICS = "rubric_based_final_response_quality_v1"
RUBRIC = {"rubric_id": "r", "rubric_content": {"text_property": "It rhymes."}}
OPTIONS: list[tuple[str, dict[str, Any], Severity | None]] = [
    (TOOLS, {"match_type": "IN_ORDER"}, None),
    # everybody's, without effect here
    (TOOLS, {"include_intermediate_responses_in_final": True}, None),
    (TOOLS, {"includeIntermediateResponsesInFinal": False}, None),
    (TOOLS, {"include_intermediate_responses_in_final": "perhaps"}, Severity.ERROR),
    (TOOLS, {"match_typ": "IN_ORDER"}, Severity.WARNING),  # taken, and read by nobody
    # other spellings than ADK's two are other names
    (TOOLS, {"match-type": "SOMEHOW"}, Severity.WARNING),
    (TOOLS, {"Match_Type": "SOMEHOW"}, Severity.WARNING),
    (TOOLS, {"MATCH_TYPE": "SOMEHOW"}, Severity.WARNING),
    (TOOLS, {"MatchType": "SOMEHOW"}, Severity.WARNING),
    (TOOLS, {"matchType": "SOMEHOW"}, Severity.ERROR),
    (TOOLS, {"matchType": "EXACT", "match_type": "SOMEHOW"}, Severity.WARNING),  # the alias is read
    (TOOLS, {"match_type": "EXACT", "matchType": "SOMEHOW"}, Severity.ERROR),
    (MATCH, {"judge-model-options": {"num_samples": 0}}, Severity.WARNING),
    (MATCH, {"judge_model_options": {"num-samples": 3}}, Severity.ERROR),
    (TOOLS, {"match_type": "SOMEHOW"}, Severity.ERROR),
    (TOOLS, {"ignore_args": "perhaps"}, Severity.ERROR),
    (WORDS, {"weight": 0.3}, Severity.WARNING),
    (WORDS, {"informational": True}, None),  # ours alone: ADK takes it, and reads it not
    # ours alone as well, and absurd where scores have a best end
    (WORDS, {"lower_is_better": True}, Severity.WARNING),
    (TOOLS, {"args_match": "subset", "forbidden_tools": ["x"], "matchers": {}}, None),
    (MATCH, {"judge_model_options": {"num_samples": 3}}, None),
    # nested options are strict
    (MATCH, {"judge_model_options": {"num_sample": 3}}, Severity.ERROR),
    (MATCH, {"judge_model_options": {"num_samples": 0}}, Severity.ERROR),
    (MATCH, {"judge_model_options": {"judge_model_config": {"temperature": 0, "topP": 0.5}}}, None),
    (MATCH, {"judge_model_options": {"judge_model_config": {"temprature": 0}}}, Severity.ERROR),
    (
        MATCH,
        {"judge_model_options": {"judge_model_config": {"temperature": "hot"}}},
        Severity.ERROR,
    ),
    (
        MATCH,
        {"judge_model_options": {"judge_model_config": {"thinking_config": {"budget": 1}}}},
        Severity.ERROR,
    ),
    (MATCH, {"judge_model": "gemini-2.5-flash"}, Severity.WARNING),  # one level too high
    (RUBRICS, {"rubrics": [RUBRIC]}, None),
    (RUBRICS, {"rubrics": [{**RUBRIC, "weight": 2}]}, Severity.ERROR),
]


@pytest.fixture(scope="module")
def refusals(adk: AdkChild) -> list[str | None]:
    configs = [{"criteria": {name: {"threshold": 0.5, **options}}} for name, options, _ in OPTIONS]
    return [answer["refused"] for answer in adk.ask("options.py", configs)]


def worst(name: str, options: dict[str, Any]) -> Severity | None:
    text = json.dumps({"criteria": {name: {"threshold": 0.5, **options}}})
    read = criteria_file.parse_criteria(text, file="test_config.json")
    _, found = criteria.check(read.criteria)
    severities = [problem.severity for problem in (*read.problems, *found)]
    return next((each for each in (Severity.ERROR, Severity.WARNING) if each in severities), None)


@pytest.mark.parametrize(
    "number", range(len(OPTIONS)), ids=lambda number: json.dumps(OPTIONS[number][1])
)
def test_an_error_where_adk_refuses_and_only_there(number: int, refusals: list[str | None]) -> None:
    name, options, severity = OPTIONS[number]
    assert worst(name, options) is severity
    assert (refusals[number] is not None) == (severity is Severity.ERROR), refusals[number]


def test_the_page_names_what_is_ours_alone() -> None:
    page = (
        (Path(__file__).parents[2] / "docs/adk-parity.md")
        .read_text("utf-8")
        .split("## Only in evalgate")[1]
    )
    own = list(criteria_module.CRITERIA[TOOLS].options.model_fields)
    named = [
        *criteria_file.OWN_FLAGS,
        *own[own.index("args_match") :],
        "exhaustive",
        "stop_signal",
        "final_session_state",
    ]
    assert [name for name in named if not re.search(rf"`{name}\b", page)] == []
