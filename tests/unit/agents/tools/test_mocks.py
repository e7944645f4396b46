"""The mock file: short forms, and every mistake with its line."""

from __future__ import annotations

import pytest

from evalgate.agents import toolbox

FULL = """\
tools:
  get_weather:
    - args: {city: Paris}
      response: {degrees: 21}
    - where: {city: {regex: "^Lon"}}
      error: {type: TimeoutError, message: the backend is down}
      latency: {seconds: 0.2, jitter: 0.1}
      times: 1
    - error: down for the day
      latency: 1
    - response: null
  calculator: run
"""


def test_everything_is_read() -> None:
    reading = toolbox.parse_mocks(FULL, file="tools.yml")
    assert reading.problems == ()
    first, second, third, fourth = reading.mocks.tools["get_weather"]
    assert (first.args, first.response) == ({"city": "Paris"}, {"degrees": 21})
    assert second.error is not None
    assert (second.error.type, second.error.message, second.times) == (
        "TimeoutError",
        "the backend is down",
        1,
    )
    assert third.error is not None
    assert (third.error.type, third.error.message, third.latency.seconds) == (
        "RuntimeError",
        "down for the day",
        1.0,
    )
    assert fourth.error is None
    assert reading.mocks.tools["calculator"][0].run
    assert reading.places["calculator"].line == 12


@pytest.mark.parametrize("text", ["", "tools: {}", '{"tools": {"t": [{"response": 1}]}}'])
def test_an_empty_file_and_json_are_files(text: str) -> None:
    assert toolbox.parse_mocks(text, file="t").problems == ()


@pytest.mark.parametrize(
    ("text", "line", "words", "hint"),
    [
        ("tools: [", 1, "not valid YAML", ""),
        ("- a", 1, "valid dictionary", ""),
        # a key that is nearly one
        (
            "tools:\n  t:\n    - arg: {a: 1}\n      response: 1\n",
            3,
            "tools.t.0.arg",
            "Did you mean `args`?",
        ),
        ("tool: {}\n", 1, "`tool`", "Did you mean `tools`?"),
        # no answer, or two
        (
            "tools:\n  t:\n    - args: {a: 1}\n",
            3,
            "exactly one of `response`, `error` and `run`, found 0",
            "",
        ),
        ("tools:\n  t:\n    - response: 1\n      run: true\n", 3, "found 2", ""),
        (
            "tools:\n  t:\n    - response: 1\n    - where: {a: {regex: '('}}\n      response: 1\n",
            4,
            "regular",
            "",
        ),
        ("tools:\n  t:\n    - {response: 1, probability: 2}\n", 3, "probability", ""),
        ("tools:\n  t:\n    - {response: 1, latency: -1}\n", 3, "latency", ""),
        ("tools:\n  t:\n    - {response: 1, times: 0}\n", 3, "times", ""),
        ("tools:\n  t: {response: 1}\n", 2, "tools.t", ""),
    ],
)
def test_a_mistake_has_its_line(text: str, line: int, words: str, hint: str) -> None:
    problem = toolbox.parse_mocks(text, file="tools.yml").problems[0]
    assert problem.place is not None
    assert (problem.place.file, problem.place.line, problem.code) == (
        "tools.yml",
        line,
        "tool-mocks",
    )
    assert words in problem.message
    assert problem.hint == hint
