"""evalgate.yml: rules, settings, and every mistake with its line."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from evalgate.config import load

FULL = """\
agents:
  - suites: ["agents/weather/**"]
    path: agents/weather
  - driver: command
    command: node agent.mjs
suites:
  - match: ["evals/slow/*"]
    pass_rate: 0.9
    criteria: {tool_trajectory_avg_score: 1.0}
exclude: ["vendor/**"]
runs: 3
fail-on: [threshold]
turn_timeout: 20
"""


def test_everything_is_read() -> None:
    reading = load.parse_gate_file(FULL, file="evalgate.yml")
    assert reading.problems == []
    first, second = reading.gate_file.agents
    assert (first.driver, first.options) == ("", {"path": "agents/weather"})
    assert (second.driver, second.suites, second.options) == (
        "command",
        ["**"],
        {"command": "node agent.mjs"},
    )
    assert reading.gate_file.suites[0].pass_rate == 0.9
    assert reading.raw_settings == {"runs": 3, "fail_on": ["threshold"], "turn_timeout": 20}


@pytest.mark.parametrize(
    ("text", "code", "line", "words"),
    [
        ("runs: 3\nrunz: 4\n", "unknown-setting", 2, "Did you mean `runs`?"),
        ("runs: many\n", "bad-setting", 1, "'many'"),
        ("runs: 0\n", "bad-setting", 1, "must be greater than or equal to 1"),
        ("\n\nfail-on: [bad]\n", "bad-setting", 3, "'not_measured'"),
        (
            "resume: true\n",
            "unknown-setting",
            1,
            "cannot be set in evalgate.yml",
        ),  # not the repository's
        ("mode: post\n", "unknown-setting", 1, "Use the input `mode` of the action."),
        # a change would have itself kept as what others are compared with
        ("save_baseline: always\n", "unknown-setting", 1, "`--save-baseline` of the command"),
        (
            "suites:\n  - match: [a]\n    pass_rat: 1\n",
            "gate-file-shape",
            3,
            "Did you mean `pass_rate`?",
        ),
        ("suites:\n  - pass_rate: 1\n", "gate-file-shape", 2, "match"),
        (
            "suites:\n  - match: [a]\n    pass_rate: 7\n",
            "gate-file-shape",
            3,
            "less than or equal to 1",
        ),
        # a stranger's gate file would have the workflow's token sent to an address of its own
        (
            "judge:\n  api_key_env: INPUT_GITHUB-TOKEN\n",
            "gate-file-shape",
            2,
            "never sent to a judge",
        ),
        (
            "judge:\n  api_key_env: ACTIONS_RUNTIME_TOKEN\n",
            "gate-file-shape",
            2,
            "never sent to a judge",
        ),
        (
            "judge:\n  config:\n    temprature: 0\n",
            "gate-file-shape",
            3,
            "`temprature` of google.genai",
        ),
        (
            "judge:\n  criteria:\n    x:\n      config: {top_k: y}\n",
            "gate-file-shape",
            4,
            'must be a valid number, found "y"',
        ),
        (
            "simulator:\n  config:\n    temprature: 0\n",
            "gate-file-shape",
            3,
            "`temprature` of google.genai",
        ),
        ("a: [1\nb: 2\n", "yaml-syntax", 2, "not valid YAML"),
        ("- a\n- b\n", "gate-file-shape", 1, "a sequence"),
    ],
)
def test_mistakes_name_their_line(text: str, code: str, line: int, words: str) -> None:
    (problem,) = load.parse_gate_file(text, file="evalgate.yml").problems
    assert problem.code == code
    assert problem.place is not None
    assert problem.place.line == line
    assert words in f"{problem.message} {problem.hint}"


def test_all_mistakes_at_once() -> None:
    reading = load.parse_gate_file("runz: 1\nseed: -1\nexclude: 5\nruns: 2\n", file="f")
    assert sorted(problem.code for problem in reading.problems) == [
        "bad-setting",
        "gate-file-shape",
        "unknown-setting",
    ]
    assert reading.raw_settings == {"runs": 2}


@pytest.mark.parametrize(
    "wrong", ["exclude: evals/drafts", "judge: gpt-4", "suites: {a: 1}", "compare: {x: off}"]
)
def test_a_mistake_costs_its_own_key_alone(wrong: str) -> None:
    reading = load.parse_gate_file(
        f"agents: [{{driver: command, command: node a.mjs}}]\n{wrong}\n", file="f"
    )
    assert [problem.code for problem in reading.problems] == ["gate-file-shape"]
    assert [rule.driver for rule in reading.gate_file.agents] == ["command"]


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
def test_no_text_crashes_the_reader(text: str) -> None:
    reading = load.parse_gate_file(text, file="f")
    assert all(
        problem.place is not None and problem.place.file == "f" for problem in reading.problems
    )


def test_an_empty_file_says_nothing() -> None:
    assert load.parse_gate_file("# nothing yet\n", file="f") == load.GateFileReading()


TEXT = """\
suites:
  - match: [a]
    criteria:
      response_match_score: 0.5
      my.own.metric: {threshold: 1, "odd key": 2}
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("suites", 0, "criteria", "response_match_score"), 4),
        (("suites", 0, "criteria", "my.own.metric"), 5),  # a key may hold dots
        (("suites", 0, "criteria", "gone"), 3),  # what is not there is told where it would stand
        (("suites", 7, "criteria"), 1),
        ((), 1),
    ],
)
def test_a_path_has_a_line(path: tuple[str | int, ...], line: int) -> None:
    places = load.parse_gate_file(TEXT, file="gate.yml").places
    assert places is not None
    found = places(*path)
    assert (found.file, found.line) == ("gate.yml", line)
