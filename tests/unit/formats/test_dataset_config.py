"""agents-cli's eval_config.yaml asserts nothing, and says so."""

from __future__ import annotations

import pytest

from evalgate import formats


@pytest.mark.parametrize(
    ("text", "code", "line", "words"),
    [
        ("metrics_to_run:\n- a\ncustom_metrics:\n- name: b\n", "asserts-nothing", 1, "`a` and `b`"),
        ("{}", "asserts-nothing", 1, "every answer would pass"),
        ("metrics_to_run: 3\ncustom_metrics: x\n", "asserts-nothing", 1, "every answer would pass"),
        ("- a\n", "not-a-config", 1, "a list"),
        ("", "not-a-config", 1, "null"),
        ("a: [1\nb: 2\n", "yaml-syntax", 2, "not valid YAML"),
        ("a: 'x\n", "yaml-syntax", 2, "not valid YAML"),
        ("a: \x00", "yaml-syntax", None, "not valid YAML"),
        ("a: !!python/object:os.system x", "yaml-syntax", 1, "not valid YAML"),
        ("a: 2024-99-99", "yaml-syntax", None, "not valid YAML"),
        ("[" * 1000, "yaml-too-deep", 1, "deep"),
        ("a: " + "x" * 1_000_001, "file-too-large", 1, "characters"),
    ],
)
def test_what_is_said(text, code, line, words):
    reading = formats.parse_dataset_config(text, file="eval_config.yaml")
    [problem] = reading.problems
    assert (problem.code, problem.place.line if problem.place else None) == (code, line)
    assert words in problem.message
    assert reading.criteria == ()


def test_the_json_form():
    assert (
        formats.parse_dataset_config('{"metrics_to_run": ["a"]}', file="e.json").problems[0].code
        == "asserts-nothing"
    )
    assert formats.parse_dataset_config('{"a": ', file="e.json").problems[0].code == "yaml-syntax"
