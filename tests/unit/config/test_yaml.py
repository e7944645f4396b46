"""YAML documents: what cannot be read is a problem, what stands twice a warning."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from evalgate.agents import toolbox
from evalgate.config import load, yaml
from evalgate.errors import Problem, Severity

LAUGHS = "a0: &a0 [1, 1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
CIRCLE = "suites: [{match: ['**'], criteria: &a {response_match_score: *a}}]\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x: " + "[" * 1000, "yaml-too-deep"),
        ("x: " + "{a: " * 1000, "yaml-too-deep"),
        (CIRCLE, "yaml-too-deep"),  # a value within itself
        (LAUGHS, "yaml-too-deep"),  # few bytes, values beyond number
        ("x: 2024-13-45\n", "yaml-syntax"),
        ("x: [1\n", "yaml-syntax"),
        ("x: !!python/object:os.system {}\n", "yaml-syntax"),
        ("a: 1\n---\nb: 2\n", "yaml-syntax"),
    ],
)
def test_what_cannot_be_read_is_a_problem(text: str, code: str) -> None:
    found = yaml.load(text, file="f.yml")
    assert isinstance(found, Problem)
    assert (found.code, found.severity, found.place is not None) == (code, Severity.ERROR, True)
    (problem,) = load.parse_gate_file(text, file="f.yml").problems
    assert problem == found
    (problem,) = toolbox.parse_mocks(text, file="f.yml").problems
    assert (problem.code, problem.message) == ("tool-mocks", found.message)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("a: 1\nb: 2\na: 3\n", [(3, 1, "duplicate key `a` (first on line 1)")]),
        ("a: 1\na: 2\na: 3\n", [(2, 1, "first on line 1"), (3, 1, "first on line 2")]),
        ("x:\n- {b: 1, c: 2, b: 3}\n", [(2, 16, "duplicate key `b`")]),
        ("a: 1\n'a': 2\n", [(2, 1, "`a`")]),
        ("a: &m {k: 1, k: 2}\nb: *m\n", [(1, 14, "`k`")]),  # told once
        ("1: x\n'1': y\n", []),  # a number and a text
        ("a: {k: 1}\nb: {k: 1}\n", []),
        ("m: &m {k: 1}\na: {<<: *m, k: 2}\n", []),  # what is merged in is meant to be overridden
        ("? [a]\n: 1\n", None),  # a key that cannot be one
        ("- 1\n", []),
        ("", []),
    ],
)
def test_keys_that_stand_twice(text: str, places: list[tuple[int, int, str]] | None) -> None:
    found = yaml.load(text, file="f.yml")
    if places is None:
        assert isinstance(found, Problem)
        return
    assert not isinstance(found, Problem)
    told = [
        (each.place.line, each.place.column, each.message)
        for each in found.warnings
        if each.place is not None
    ]
    assert [(line, column) for line, column, _ in told] == [
        (line, column) for line, column, _ in places
    ]
    assert all(
        words in message for (_, _, words), (_, _, message) in zip(places, told, strict=True)
    )


def test_repeated_keys_are_told_from_the_top() -> None:
    document = yaml.load("a: 1\na: 2\nb: {c: 1, c: 2}\nd: {e: 1, e: 2}\nb: 3\n", file="f")
    assert isinstance(document, yaml.YamlDocument)
    lines = [warning.place.line for warning in document.warnings if warning.place is not None]
    assert lines == [2, 3, 4, 5]


def test_the_last_one_counts() -> None:
    reading = load.parse_gate_file(
        "fail-on: [threshold]\nruns: 2\nfail_on: [regression]\nruns: 3\n", file="f"
    )
    assert reading.raw_settings == {"fail_on": ["regression"], "runs": 3}
    told = [
        (each.code, each.severity, each.place.line)
        for each in reading.problems
        if each.place is not None
    ]
    assert told == [("duplicate-key", Severity.WARNING, 3), ("duplicate-key", Severity.WARNING, 4)]
    reading_of_mocks = toolbox.parse_mocks("tools:\n  a: run\n  a: run\n", file="m")
    assert [(each.code, each.severity) for each in reading_of_mocks.problems] == [
        ("duplicate-key", Severity.WARNING)
    ]
    assert list(reading_of_mocks.mocks.tools) == ["a"]


@given(st.text(alphabet="ab&*[]{}:, \n-?'<!1", max_size=40))
def test_no_text_crashes_the_reader(text: str) -> None:
    assert yaml.load(text, file="f") is not None
