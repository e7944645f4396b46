"""Conversations of simulated users as cases that are replayed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from builders import build, led_scenarios
from builders.build import call

from evalgate import formats
from evalgate.errors import NothingToDo
from evalgate.gate import edit
from evalgate.model import (
    Content,
    Event,
    Invocation,
    Run,
    Text,
    Timings,
    Transcript,
    TrialKey,
    Usage,
)
from evalgate.results import file

SAID = Content(parts=(Text(text="hm", thought=True), Text(text="For two?")), role="model")
TURN = Invocation(
    user_content=build.text("A table.", role="user"),
    final_response=SAID,
    events=(
        Event(
            author="desk",
            content=Content(parts=(call("look", day="today"),)),
            usage=Usage(total_tokens=5),
        ),
        Event(author="desk", content=Content(parts=(Text(text="only a thought", thought=True),))),
        Event(author="desk", content=SAID),
    ),
    invocation_id="i-1",
    timings=Timings(total_s=1.0),
)


def run(*keys: str) -> Run:
    """Two files with a scenario `a` each, one with a written case; conversations of the named
    files."""
    one, two = (
        build.suite(led_scenarios.led("a", line=1), key=key) for key in ("one.json", "two.json")
    )
    three = build.suite(build.case("b", TURN), key="three.json")
    found = {TrialKey(suite=key, case_id="a"): Transcript(invocations=(TURN, TURN)) for key in keys}
    found |= {TrialKey(suite="three.json", case_id="b"): Transcript(invocations=(TURN,))}
    return Run(suites=(one, two, three), trials=(), transcripts=found.get, repeats=1)


def test_each_scenario_becomes_a_case_with_what_was_said_and_called() -> None:
    cases, left_out = edit.cases_of(run("one.json", "two.json"))
    assert ([case.case_id for case in cases], left_out) == (["a", "a_2"], 0)
    (turn, _) = cases[0].conversation or ()
    assert cases[0].scenario is None
    assert turn.user_content == TURN.user_content
    assert turn.final_response == Content(parts=(Text(text="For two?"),), role="model")
    assert [each.name for each in turn.tool_calls] == ["look"]
    assert (turn.invocation_id, turn.timings, len(turn.events or ())) == ("", None, 2)
    assert all(event.usage is None for event in turn.events or ())


def test_no_two_cases_have_one_name_and_thoughts_alone_are_no_answer() -> None:
    silent = dataclasses.replace(
        TURN, final_response=Content(parts=(Text(text="hm", thought=True),), role="model")
    )
    ids = {"one.json": "a", "two.json": "a", "three.json": "a_2"}
    found = {
        TrialKey(suite=key, case_id=case_id): Transcript(invocations=(silent,))
        for key, case_id in ids.items()
    }
    suites = tuple(
        build.suite(led_scenarios.led(case_id, line=1), key=key) for key, case_id in ids.items()
    )
    led = Run(suites=suites, trials=(), transcripts=found.get, repeats=1)
    cases, _ = edit.cases_of(led)
    assert [case.case_id for case in cases] == ["a", "a_2", "a_2_2"]
    assert [turn.final_response for case in cases for turn in case.conversation or ()] == [None] * 3


def test_a_scenario_without_a_conversation_is_counted() -> None:
    cases, left_out = edit.cases_of(run("two.json"))
    assert ([case.case_id for case in cases], left_out) == (["a"], 1)


def test_where_the_first_run_failed_the_next_one_counts() -> None:
    later = {
        TrialKey(suite="two.json", case_id="a", number=2): Transcript(invocations=(TURN, TURN))
    }
    repeated = dataclasses.replace(run(), transcripts=later.get, repeats=3)
    cases, left_out = edit.cases_of(repeated)
    assert ([len(case.conversation or ()) for case in cases], left_out) == ([2], 1)


def test_what_is_written_is_read_back_and_never_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = dataclasses.make_dataclass("Stored", ["run"])
    monkeypatch.setattr(file, "read_results", lambda _: stored(run("one.json")))
    path, holds = edit.record_simulated(
        tmp_path, results=tmp_path / "results.json", into="recorded"
    )
    assert holds == "1 conversation; 1 scenario had none"
    reading = formats.parse_eval_set(path.read_text(encoding="utf-8"), file=path.name)
    assert reading.eval_set is not None
    assert [problem for problem in reading.problems if problem.severity == "error"] == []
    (case,) = reading.eval_set.cases
    assert [build.text_of(turn) for turn in case.conversation or ()] == ["A table."] * 2
    assert json.loads(path.read_text())["eval_set_id"] == path.name.removesuffix(".evalset.json")
    with pytest.raises(Exception, match="exists already"):
        edit.record_simulated(tmp_path, results=tmp_path / "results.json", into="recorded")


def test_results_without_scenarios_are_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = dataclasses.make_dataclass("Stored", ["run"])
    monkeypatch.setattr(file, "read_results", lambda _: stored(run()))
    with pytest.raises(NothingToDo, match="no complete conversation"):
        edit.record_simulated(tmp_path, results=tmp_path / "results.json", into="recorded")
