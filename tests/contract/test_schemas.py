"""The JSON schemas of the files that people write: valid, true to what we read, and strict where a
typo would hurt."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from evalgate import criteria, formats
from evalgate.config import load
from evalgate.text import plain

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "../shared/corpus/files"
NAMES = ("evalgate", "test_config", "evalset")


def schema(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((ROOT / "docs" / f"{name}.schema.json").read_text("utf-8"))
    return read


def faults(name: str, document: Any) -> list[str]:
    return [
        error.message
        for error in jsonschema.Draft202012Validator(schema(name)).iter_errors(document)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_a_schema(name: str) -> None:
    rules = jsonschema.Draft202012Validator(jsonschema.Draft202012Validator.META_SCHEMA)
    assert [error.message for error in rules.iter_errors(schema(name))] == []
    assert schema(name)["properties"]  # an empty one takes anything


CASE = {"eval_id": "a", "conversation": [{"user_content": {"parts": [{"text": "hi"}]}}]}
SCENARIO = {"starting_prompt": "hi", "conversation_plan": "ask"}


@pytest.mark.parametrize(
    ("name", "document", "valid"),
    [
        ("evalgate", {"runs": 3, "fail-on": "threshold", "max_drop": 0.1}, True),
        ("evalgate", {"runs": 2, "fail_on": ["threshold", "regression"], "env": "A, B"}, True),
        (
            "evalgate",
            {"agents": [{"driver": "adk", "path": "agents/x"}], "budget": {"usd": 2}},
            True,
        ),
        ("evalgate", {"run": 3}, False),  # a typo
        ("evalgate", {"alpha": 2}, False),  # out of range
        ("evalgate", {"threshold": "some"}, False),
        ("evalgate", {"suites": [{"criteria": {}}]}, False),  # of which files?
        ("test_config", {"criteria": {"response_match_score": 0.8, "my_metric": 0.5}}, True),
        (
            "test_config",
            {"criteria": {"tool_trajectory_avg_score": {"threshold": 1, "match_type": "IN_ORDER"}}},
            True,
        ),
        ("test_config", {"criteria": {"response_match_score": "0.8"}}, False),
        ("test_config", {"criteria": {"tool_trajectory_avg_score": {"match_type": "SOME"}}}, False),
        ("test_config", {}, False),
        ("evalset", {"eval_set_id": "x", "eval_cases": [CASE]}, True),
        (
            "evalset",
            {
                "eval_set_id": "x",
                "eval_cases": [{"eval_id": "a", "conversation_scenario": SCENARIO}],
            },
            True,
        ),
        ("evalset", {"eval_set_id": "x", "eval_cases": [{"eval_id": "a"}]}, False),  # nothing to do
        (
            "evalset",
            {"eval_set_id": "x", "eval_cases": [{**CASE, "conversation_scenario": SCENARIO}]},
            False,
        ),
        ("evalset", {"eval_cases": [CASE]}, False),
    ],
)
def test_it_takes_what_is_right(name: str, document: Any, *, valid: bool) -> None:
    assert (faults(name, document) == []) is valid


def test_every_criterion_is_in_it() -> None:
    assert set(schema("test_config")["properties"]["criteria"]["properties"]) == set(
        criteria.CRITERIA
    )


def test_evalgate_ymls_of_the_docs_are_valid() -> None:
    """Every example that begins as one does."""
    blocks = [
        block
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for block in re.findall(
            r"^```yaml\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
        )
        if block.startswith(("agents:\n", "suites:\n", "judge:\n", "budget:", "# evalgate.yml"))
    ]
    assert len(blocks) >= 10
    for block in blocks:
        assert not load.parse_gate_file(block, file="evalgate.yml").problems, block
        assert faults("evalgate", yaml.safe_load(block)) == [], block


@pytest.mark.skipif(
    not CORPUS.is_dir(), reason="needs the corpus: public evaluation files beside the repository"
)
def test_public_files_in_the_current_schema_are_valid() -> None:
    seen = 0
    for path in sorted(CORPUS.rglob("*.json")):
        text = plain.decode(path.read_bytes(), file=path.name)
        if (
            not isinstance(text, str)
            or formats.kind_of(text, file=path.name) is not formats.FileKind.EVAL_SET
        ):
            continue
        read = formats.parse_eval_set(text, file=path.name)
        if read.dialect is formats.Dialect.ADK and not read.problems:
            seen += 1
            assert faults("evalset", json.loads(text)) == [], path
    assert seen >= 20
