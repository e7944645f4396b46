"""What `tools` needs, checked before anything runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from builders import build

from evalgate.agents import toolbox
from evalgate.agents.base import ToolMode
from evalgate.config import load
from evalgate.config.settings import Settings
from evalgate.errors import Problem, Severity
from evalgate.model import AgentUse, Invocation, Suite

CASSETTE = '{"evalgate_cassette": 1, "calls": []}'


def chosen(root: Path, gate_file: str = "", **given: Any) -> Settings:
    (root / "evalgate.yml").write_text(gate_file)
    return load.load_settings({"root": str(root), **given})


def checked(choice: Settings, suites: list[Suite]) -> list[Problem]:
    return toolbox.check(choice, suites)


def suite(driver: str = "command", *turns: Invocation) -> Suite:
    return dataclasses.replace(build.suite(build.case("c", *turns)), agent=AgentUse(driver=driver))


@pytest.mark.parametrize(
    ("gate_file", "given", "mode"),
    [
        ("", {}, "live"),
        ("tools: replay", {}, "replay"),
        ("tools: {mode: mock, mocks: m.yml}", {}, "mock"),
        # the door wins over the file
        ("tools: replay", {"tools": "live"}, "live"),
        ("", {"tools": "record"}, "record"),
    ],
)
def test_the_mode(tmp_path: Path, gate_file: str, given: dict[str, str], mode: str) -> None:
    choice = chosen(tmp_path, gate_file, **given)
    assert choice.problems == ()
    assert toolbox.mode_of(choice) is ToolMode(mode)


@pytest.mark.parametrize(
    ("gate_file", "words", "hint"),
    [
        ("tools: {mod: replay}", "tools.mod", "Did you mean `mode`?"),
        ("tools: repaly", "tools.mode", ""),
        ("tools: {mode: replay, cassettes: ''}", "tools.cassettes", ""),
    ],
)
def test_a_rule_that_cannot_be_read(tmp_path: Path, gate_file: str, words: str, hint: str) -> None:
    (problem,) = chosen(tmp_path, gate_file).problems
    assert words in problem.message
    assert problem.hint == hint
    assert problem.place is not None
    assert problem.place.line == 1


@pytest.mark.parametrize(
    ("gate_file", "driver", "files", "code", "words"),
    [
        # where the tools run nobody can ask: never silently live
        (
            "tools: replay",
            "http",
            ["tool-cassettes/x"],
            "tools-unseen",
            "is not possible with the driver `http`",
        ),
        ("tools: record", "http", [], "tools-unseen", "`tools: record`"),
        ("tools: {mode: mock, mocks: m.yml}", "http", ["m.yml"], "tools-unseen", "`http`"),
        # nothing to answer from
        (
            "tools: replay",
            "command",
            [],
            "tool-cassette",
            "the cassette folder `tool-cassettes` does not exist",
        ),
        ("tools: mock", "command", [], "tool-mocks", "needs a file of rules"),
        (
            "tools: {mode: mock, mocks: tolls.yml}",
            "command",
            ["tools.yml"],
            "tool-mocks",
            "no file `tolls.yml`",
        ),
        # outside the repository
        ("tools: {mode: replay, cassettes: ../x}", "command", [], "tools-place", "`../x`"),
        ("tools: {mode: mock, mocks: /etc/passwd}", "command", [], "tools-place", "`/etc/passwd`"),
        (
            "tools: {mode: mock, mocks: .git/config}",
            "command",
            [],
            "tools-place",
            "`.git/config` leads into `.git`",
        ),
    ],
)
def test_what_stops_a_run(
    tmp_path: Path, gate_file: str, driver: str, files: list[str], code: str, words: str
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    problems = checked(chosen(tmp_path, gate_file), [suite(driver)])
    assert [(problem.code, problem.severity) for problem in problems] == [(code, Severity.ERROR)]
    assert words in problems[0].message


@pytest.mark.parametrize(
    ("gate_file", "driver"),
    [
        ("tools: live", "http"),
        ("", "http"),
        # recorded conversations run no tools at all
        ("tools: replay", "replay"),
        ("tools: {mode: mock, mocks: m.yml}", "replay"),
        # rules may answer all there is
        ("tools: {mode: replay, mocks: m.yml}", "command"),
        ("tools: record", "adk"),
    ],
)
def test_what_does_not(tmp_path: Path, gate_file: str, driver: str) -> None:
    (tmp_path / "m.yml").write_text("")
    assert checked(chosen(tmp_path, gate_file), [suite(driver)]) == []


def test_rules_for_a_tool_that_is_nearly_expected_are_a_warning(tmp_path: Path) -> None:
    (tmp_path / "m.yml").write_text(
        "tools:\n  get_wether: run\n  quite_different: run\n  get_weather: run\n"
    )
    listed = suite("command", build.turn("hi", build.call("get_weather")))
    (problem,) = checked(chosen(tmp_path, "tools: {mode: mock, mocks: m.yml}"), [listed])
    assert (problem.severity, problem.code, problem.hint) == (
        Severity.WARNING, "unknown-tool", "Did you mean `get_weather`?",
    )  # fmt: skip
    assert problem.place is not None
    assert problem.place.line == 2


def test_the_fingerprint_follows_the_mode_and_what_answers(tmp_path: Path) -> None:
    (tmp_path / "m.yml").write_text("tools: {t: run}")
    (tmp_path / "tool-cassettes").mkdir()
    cassette = tmp_path / "tool-cassettes" / "c.json"
    cassette.write_text(CASSETTE)

    def of(**rule: str) -> str:
        choice = chosen(tmp_path, f"tools: {rule}" if rule else "")
        return toolbox.fingerprint(choice, tmp_path)

    seen = [
        of(),
        of(mode="record"),
        of(mode="replay"),
        of(mode="mock", mocks="m.yml"),
        of(mode="replay", mocks="m.yml"),
    ]
    assert seen[0] == ""
    assert len(set(seen)) == len(seen)
    cassette.write_text(CASSETTE + "\n")
    assert of(mode="replay") != seen[2]
    assert of(mode="record") == seen[1]  # what is being written does not count
    (tmp_path / "m.yml").write_text("tools: {}")
    assert of(mode="mock", mocks="m.yml") != seen[3]


def test_a_base_is_answered_by_its_own_cassettes_first_and_never_records(tmp_path: Path) -> None:
    base = tmp_path / "base"
    (base / "tool-cassettes").mkdir(parents=True)
    replay, record = (chosen(tmp_path, tools=mode) for mode in ("replay", "record"))
    assert toolbox.source(record, checkout=base, environment={}) is None
    before = toolbox.fingerprint(replay, base)
    (base / "tool-cassettes" / "c.json").write_text(CASSETTE)
    assert toolbox.fingerprint(replay, base) != before
    assert toolbox.source(replay, checkout=base, environment={}) is not None


def test_a_live_run_has_no_source(tmp_path: Path) -> None:
    choice = chosen(tmp_path)
    assert toolbox.source(choice, checkout=tmp_path, environment={}) is None
