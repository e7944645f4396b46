"""Who plays the users of a suite, what evalgate.yml says above its criteria, and what a user's
faults mean."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from evalgate import criteria
from evalgate.agents.base import AgentFailed
from evalgate.config import load
from evalgate.config.gate_file import JudgeRule
from evalgate.formats import fingerprints
from evalgate.model import (
    AgentUse,
    Case,
    ConfigOrigin,
    ConversationScenario,
    CriteriaSource,
    CriterionUse,
    EvalSet,
    SimulatorUse,
    Suite,
    TrialKey,
)
from evalgate.simulation import user

SCENARIO = ConversationScenario(starting_prompt="Hello.", conversation_plan="Book.")
LED = Case(case_id="led", scenario=SCENARIO)
WRITTEN = Case(case_id="written", conversation=())
QUALITY = "per_turn_user_simulator_quality_v1"


def suite(*cases: Case, simulator: SimulatorUse | None = None, **options: object) -> Suite:
    uses = (
        criteria.with_facts(CriterionUse(name=QUALITY, threshold=0.8, options=options)),
        CriterionUse(name="token_usage_v1", threshold=None, informational=True),
    )
    return Suite(
        key="x",
        eval_set=EvalSet(eval_set_id="x", cases=cases),
        criteria=uses,
        criteria_source=CriteriaSource(origin=ConfigOrigin.BESIDE),
        agent=AgentUse(driver="adk"),
        simulator=simulator or SimulatorUse(),
    )


def settled(root: Path, given: Suite, gate_file: str = "", **settings: object) -> Suite:
    (root / "evalgate.yml").write_text(gate_file)
    choice = load.load_settings({"root": str(root), **settings})
    assert choice.problems == ()
    (found,) = user.settle([given], choice)
    return found


def test_a_suite_without_scenarios_stays_as_it_is(tmp_path):
    given = suite(WRITTEN)
    assert settled(tmp_path, given, "simulator: {model: gpt-4.1}") is given
    assert user.simulator_models([given]) == ()


@pytest.mark.parametrize(
    ("written", "gate_file", "model", "config"),
    [
        ({}, "", "gemini-2.5-flash", user.ADK_CONFIG),
        ({"config": {}}, "", "gemini-2.5-flash", {}),
        ({"model": "gpt-4.1"}, "", "gpt-4.1", {}),  # only Gemini takes ADK's thinking budget
        ({}, "judge: {client: openai, base_url: 'http://127.0.0.1:1/v1'}", "gemini-2.5-flash", {}),
        # as when it was recorded
        ({}, "judge: {replay: r.jsonl}", "gemini-2.5-flash", user.ADK_CONFIG),
        (
            {"model": "gpt-4.1"},
            "simulator: {model: gemini-2.5-pro}",
            "gemini-2.5-pro",
            user.ADK_CONFIG,
        ),
        (
            {"config": {"temperature": 0, "seed": 1}},
            "simulator: {config: {temperature: 1}}",
            "gemini-2.5-flash",
            {"temperature": 1, "seed": 1},
        ),
    ],
)
def test_who_plays_the_user(tmp_path, written, gate_file, model, config):
    found = settled(tmp_path, suite(LED, simulator=SimulatorUse(**written)), gate_file).simulator
    assert (found.model, found.config) == (model, config)


@pytest.mark.parametrize(("limit", "turns"), [("", 7), ("3", 3), ("-1", None)])
def test_the_turn_limit(tmp_path, limit, turns):
    gate_file = f"simulator: {{max_allowed_invocations: {limit}}}" if limit else ""
    assert (
        settled(
            tmp_path, suite(LED, simulator=SimulatorUse(max_turns=7)), gate_file
        ).simulator.max_turns
        == turns
    )


@pytest.mark.parametrize(
    ("gate_file", "compat", "poor", "ended"),
    [
        ("", False, True, (1.0, False, False)),
        ("simulator: {on_turn_limit: not_measured}", False, True, (1.0, False, True)),
        (
            "simulator: {on_turn_limit: pass, on_poor_quality: fail}",
            False,
            False,
            (None, True, False),
        ),
        (
            "simulator: {on_turn_limit: fail}",
            True,
            False,
            (None, True, False),
        ),  # ADK ends quietly, and blames the agent
    ],
)
def test_what_faults_mean(tmp_path, gate_file, compat, poor, ended):
    uses = settled(tmp_path, suite(LED, WRITTEN), gate_file, adk_compat=compat).criteria
    assert [use.name for use in uses] == [QUALITY, "conversation_ended", "token_usage_v1"]
    assert uses[0].on_the_test is poor
    assert (uses[1].threshold, uses[1].informational, uses[1].on_the_test) == ended


def test_the_quality_is_judged_by_the_users_own_stop_signal(tmp_path):
    simulator = SimulatorUse(stop_signal="END")
    assert (
        settled(tmp_path, suite(LED, simulator=simulator)).criteria[0].options["stop_signal"]
        == "END"
    )
    own = settled(tmp_path, suite(LED, simulator=simulator, stop_signal="STOP"))
    assert own.criteria[0].options["stop_signal"] == "STOP"


def test_a_threshold_of_its_own_is_kept(tmp_path):
    given = suite(LED)
    own = CriterionUse(name="conversation_ended", threshold=0.8)
    found = settled(tmp_path, dataclasses.replace(given, criteria=(own, *given.criteria)))
    assert (found.criteria[0].name, found.criteria[0].threshold) == ("conversation_ended", 0.8)
    assert len(found.criteria) == 3


def test_what_is_missing_names_the_model():
    (problem,) = user.missing([suite(LED), suite(LED)], JudgeRule(), {})
    assert problem.code == "simulator-credentials"
    assert "gemini-2.5-flash" in problem.message
    assert user.missing([suite(LED)], JudgeRule(), {"GOOGLE_API_KEY": "k"}) == []


def test_without_a_panel_a_scenario_cannot_be_played_and_a_written_case_can(tmp_path):
    settings = load.load_settings({"root": str(tmp_path)})
    key = TrialKey(suite="x", case_id="c")
    with pytest.raises(AgentFailed):
        user.simulate(suite(LED), LED, key, panel=None, settings=settings)
    user.simulate(suite(WRITTEN), WRITTEN, key, panel=None, settings=settings)([])


def test_another_user_is_another_task():
    """What the user is counts for the address of a trial, but only where there is one."""
    uses = [
        SimulatorUse(),
        SimulatorUse(model="m"),
        SimulatorUse(max_turns=3),
        SimulatorUse(stop_signal="END"),
    ]
    assert len({fingerprints.of_task(LED, simulator=use) for use in uses}) == len(uses)
    assert len({fingerprints.of_task(WRITTEN, simulator=use) for use in uses}) == 1
