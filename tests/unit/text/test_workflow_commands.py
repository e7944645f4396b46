"""Workflow commands: ours are whole, others' are none."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from evalgate.errors import Place, Problem, Severity
from evalgate.text import plain, workflow_commands


def runner_reads(line: str) -> tuple[str, dict[str, str], str] | None:
    """What a GitHub runner takes a line for (after its documentation)."""
    match = re.fullmatch(r"\s*::([a-z-]+)(?: (.*?))?::(.*)", line, re.DOTALL)
    if match is None:
        return None
    kind, properties, data = match[1], match[2] or "", match[3]
    unescape = [("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")]

    def plain(text: str, pairs: list[tuple[str, str]]) -> str:
        for escaped, character in pairs:
            text = text.replace(escaped, character)
        return text

    pairs = dict(each.split("=", 1) for each in properties.split(",") if each)
    return (
        kind,
        {name: plain(value, unescape) for name, value in pairs.items()},
        plain(data, unescape[:2] + unescape[4:]),
    )


def test_a_command() -> None:
    assert workflow_commands.render_command(
        "error", "50% of\nit", file="a,b:c.json", line=3, title=None
    ) == ("::error file=a%2Cb%3Ac.json,line=3::50%25 of%0Ait")
    assert workflow_commands.render_command("notice", "x") == "::notice::x"


@pytest.mark.parametrize(
    ("place", "line"),
    [
        # nowhere
        (None, "::warning::odd [not-written]"),
        # in the repository: beside the line
        (
            Place(file="a.json", line=3, column=4),
            "::warning file=a.json,line=3,col=4::odd [not-written]",
        ),
        # outside of it, where no annotation is shown: in words
        (Place(file="/out/a.json", line=3), "::warning::/out/a.json:3: odd [not-written]"),
    ],
)
def test_a_problem_says_where_it_is(place: Place | None, line: str) -> None:
    problem = Problem(severity=Severity.WARNING, code="not-written", message="odd", place=place)
    assert workflow_commands.render_problem(problem) == line


@given(message=st.text(max_size=50), title=st.text(min_size=1, max_size=50))
def test_a_command_is_one_line_and_reads_back(message: str, title: str) -> None:
    line = workflow_commands.render_command("error", message, title=title)
    assert len(line.splitlines()) == 1
    read = runner_reads(line)
    assert read is not None
    assert read[0] == "error"
    assert set(read[1]) == {"title"}


@pytest.mark.parametrize(
    "attack",
    [
        "::error::x",
        "  ::set-output name=a::b",
        "a\r::error::x",
        "x ##[error]y",
        "\x1b[0m::error::x",
        "\u2028::a::",
    ],
)
def test_others_commands_are_disarmed(attack: str) -> None:
    for line in plain.disarm(attack).splitlines():
        assert runner_reads(line) is None
        assert "##[" not in line


def test_harmless_text_stays() -> None:
    assert plain.disarm("a::b\n  c: d") == "a::b\n  c: d"
