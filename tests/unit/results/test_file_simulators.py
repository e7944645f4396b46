"""Who played the users of a run is read back from its results, and is not made up where they do not
tell."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from builders import build

from evalgate.model import Case, ConversationScenario, Report, SimulatorUse, Suite
from evalgate.reports import view
from evalgate.results import file
from evalgate.results.file import StoredOutcomes

SCENARIO = ConversationScenario(
    starting_prompt="Book a flight.", conversation_plan="Ask for a window seat."
)


def led(simulator: SimulatorUse) -> Report:
    report = build.report("pass")
    (suite,) = report.run.suites
    (case,) = suite.eval_set.cases
    cases = (Case(case_id=case.case_id, scenario=SCENARIO),)
    suite = dataclasses.replace(
        suite, eval_set=dataclasses.replace(suite.eval_set, cases=cases), simulator=simulator
    )
    return dataclasses.replace(report, run=dataclasses.replace(report.run, suites=(suite,)))


def again(report: Report, path: Path, **changes: Any) -> Suite:
    raw = json.loads("".join(file.render_results(report, outcomes=StoredOutcomes({}, {}))))
    raw["suites"][0] |= changes
    path.write_text(json.dumps(raw))
    return file.read_results(path).run.suites[0]


@pytest.mark.parametrize(
    "simulator",
    [
        SimulatorUse(),
        SimulatorUse(
            model="gemini-2.5-pro", max_turns=None, include_function_calls=True, stop_signal="bye"
        ),
        SimulatorUse(
            config={"thinking_config": {"budget": None}},
            custom_instructions="Be {{ persona }}",
            max_turns=3,
        ),
    ],
)
def test_it_is_read_back_as_it_was_used(simulator: SimulatorUse, tmp_path: Path) -> None:
    assert again(led(simulator), tmp_path / "results.json").simulator == simulator


def test_where_it_is_not_told_nobody_is_named(tmp_path: Path) -> None:
    report = led(SimulatorUse(model="gemini-2.5-pro"))
    suite = again(report, tmp_path / "results.json", simulator=None)
    known = dataclasses.replace(report, run=dataclasses.replace(report.run, suites=(suite,)))
    assert "simulated user" in {fact["name"] for fact in view.facts(report)}
    assert "simulated user" not in {fact["name"] for fact in view.facts(known)}


def test_a_suite_without_scenarios_has_none(tmp_path: Path) -> None:
    raw = "".join(file.render_results(build.report("pass"), outcomes=StoredOutcomes({}, {})))
    assert "simulator" not in json.loads(raw)["suites"][0]
