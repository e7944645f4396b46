"""What kind of file it is."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings, strategies as st

from evalgate import formats
from evalgate.formats import FileKind

ADK = '{"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation": []}]}'
CAMEL = '{"evalSetId": "s", "evalCases": [{"evalId": "c", "conversation": []}]}'
DATASET = '{"eval_cases": [{"eval_case_id": "c", "prompt": {"parts": []}}]}'
FLAT = '[{"query": "q", "expected_tool_use": []}]'
NAMED = '[{"name": "n", "data": [{"query": "q"}]}]'
CONFIG = '{"criteria": {"response_match_score": 0.8}}'
RESULT = '{"eval_set_result_id": "r", "eval_case_results": []}'


@pytest.mark.parametrize(
    ("file", "text", "kind"),
    [
        ("a/x.evalset.json", ADK, FileKind.EVAL_SET),
        ("a/x.evalset.json", CAMEL, FileKind.EVAL_SET),
        ("a/x.evalset.json", "\ufeff" + ADK, FileKind.EVAL_SET),
        # a name of ADK's alone decides even where the content is broken or empty
        ("a/x.evalset.json", "{oops", FileKind.EVAL_SET),
        ("a/x.evalset.json", "", FileKind.EVAL_SET),
        ("a/x.evalset.json", '{"test_cases": []}', FileKind.EVAL_SET),
        # a dataset under ADK's name is read as what it is
        ("a/x.evalset.json", DATASET, FileKind.DATASET),
        # *.test.json needs ADK's content
        ("a/x.test.json", ADK, FileKind.EVAL_SET),
        ("a/x.test.json", FLAT, FileKind.EVAL_SET),
        ("a/x.test.json", NAMED, FileKind.EVAL_SET),
        ("a/x.test.json", '{"eval_set_id": "s"}', FileKind.EVAL_SET),
        ("a/x.test.json", ADK[:-3] + ",", FileKind.EVAL_SET),
        ("a/x.test.json", json.dumps(ADK), FileKind.EVAL_SET),
        # ... and shows it though it is broken
        (
            "a/x.test.json",
            f"<<<<<<< HEAD\n{ADK}\n=======\n{{}}\n>>>>>>> other\n",
            FileKind.EVAL_SET,
        ),
        ("a/x.test.json", f'<<<<<<< fix/"it"{{\r\n{ADK}', FileKind.EVAL_SET),
        ("a/x.test.json", f"<<<<<<< HEAD\n{NAMED}", FileKind.EVAL_SET),
        ("a/x.test.json", f"// by hand\n{FLAT}", FileKind.EVAL_SET),
        ("a/x.test.json", f"\ufffd\ufffd{ADK}", FileKind.EVAL_SET),
        # without a byte order mark
        ("a/x.test.json", ADK.encode("utf-16-le").decode(), FileKind.EVAL_SET),
        ("a/x.test.json", '<<<<<<< HEAD\n{"name": "left-pad"}', FileKind.OTHER),
        # ... and where it ends before it says whose it is
        ("a/x.test.json", "\0" * 10, FileKind.EVAL_SET),  # as a crash leaves a file
        ("a/x.test.json", "", FileKind.EVAL_SET),
        ("a/x.test.json", '{"name": "left-pad", "descr', FileKind.EVAL_SET),
        ("a/x.test.json", '{"compilerOptions": {', FileKind.OTHER),
        ("a/package.test.json", '{"name": "left-pad", "version": "1.0.0"}', FileKind.OTHER),
        ("a/fixture.test.json", '[{"id": 1, "name": "Ann"}]', FileKind.OTHER),
        ("a/fixture.test.json", "{}", FileKind.OTHER),
        ("a/fixture.test.json", '{"deep": {"eval_cases": []}}', FileKind.OTHER),
        # datasets
        ("tests/eval/datasets/basic-dataset.json", DATASET, FileKind.DATASET),
        ("any.json", ADK, FileKind.EVAL_SET),
        # without an id and without ADK's keys in its cases
        ("evals/x-dataset.json", '{"eval_cases": [{"name": "a", "input": 1}]}', FileKind.DATASET),
        # cases without `eval_cases` around them
        ("evals/datasets/x.json", '[{"eval_id": "a", "input": "hi"}]', FileKind.DATASET),
        ("evals/datasets/x.json", '[{"id": "a", "input": "hi"}]', FileKind.OTHER),
        ("any.json", '{"eval_set_id": "s", "score": 1}', FileKind.OTHER),
        # criteria of ADK, which names tell apart
        ("a/test_config.json", CONFIG, FileKind.OTHER),
        ("a/test_config.json", "{oops", FileKind.OTHER),
        ("a/test-config.json", '{"metrics": []}', FileKind.OTHER),
        ("a/eval_config.json", CONFIG, FileKind.OTHER),
        ("a/eval_config.json", '{"compilerOptions": {}}', FileKind.OTHER),
        ("a/config.json", CONFIG, FileKind.OTHER),
        ("a/tsconfig.json", '{"compilerOptions": {}}', FileKind.OTHER),
        ("a/eval_config.json", '{"metrics_to_run": []}', FileKind.DATASET_CONFIG),
        ("a/eval_config.yaml", "metrics_to_run:\n- x\n", FileKind.DATASET_CONFIG),
        ("a/eval_config.yaml", '{"custom_metrics": {}}', FileKind.DATASET_CONFIG),
        # metrics in words, and names or thresholds alone
        ("a/eval_config.yaml", "metrics:\n- description: x\n", FileKind.DATASET_CONFIG),
        ("a/eval_config.yaml", "metrics:\n- x\n", FileKind.OTHER),
        ("a/eval_config.yaml", "criteria:\n  safety_v1: 0.8\n", FileKind.OTHER),
        ("a/eval_config.yaml", "other: 1\n", FileKind.OTHER),
        ("a/other.yaml", "metrics_to_run:\n- x\n", FileKind.OTHER),
        # results, too
        ("h/a.evalset_result.json", "", FileKind.OTHER),
        ("h/a.json", RESULT, FileKind.OTHER),
        # nothing of ours
        ("a/readme.md", ADK, FileKind.OTHER),
        ("a\\b\\test_config.json", CONFIG, FileKind.OTHER),
    ],
)
def test_kinds(file, text, kind):
    assert formats.kind_of(text, file=file) is kind


def test_a_huge_file_costs_nothing():
    text = '{"eval_set_id": "s", "eval_cases": [' + '{"eval_id": "c"},' * 2_000_000
    began = time.perf_counter()
    assert formats.kind_of(text, file="x.test.json") is FileKind.EVAL_SET
    assert time.perf_counter() - began < 1


@settings(max_examples=40, deadline=None)
@given(
    st.text(max_size=200),
    st.sampled_from(["x.test.json", "x.evalset.json", "config.json", "eval_config.yaml", ""]),
)
def test_any_text_has_a_kind(text, file):
    assert formats.kind_of(text, file=file) in FileKind
