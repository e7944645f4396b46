"""Whose rules decide, and what happens to what head deleted or renamed."""

from __future__ import annotations

import dataclasses

import pytest

from evalgate.model import (
    AgentUse,
    BaseOrigin,
    BaseSource,
    Case,
    ConfigOrigin,
    ConversationScenario,
    CriteriaSource,
    CriterionUse,
    EvalSet,
    Policy,
    Suite,
)
from evalgate.settings import Settings
from evalgate.wiring import agent_pools, bars
from evalgate.wiring.bases import Base, Rules

ONE, TWO, THREE = (AgentUse(driver="command", options={"command": [name]}) for name in ("one", "two", "three"))


def suite(key: str, agent: AgentUse, *, threshold: float = 0.9, cases: str = "ab") -> Suite:
    return Suite(
        key=key,
        eval_set=EvalSet(eval_set_id=key, cases=tuple(Case(case_id=each, conversation=()) for each in cases)),
        criteria=(CriterionUse(name="m", threshold=threshold),),
        criteria_source=CriteriaSource(origin=ConfigOrigin.DEFAULTS, file=""),
        agent=agent,
    )


def base(*suites: Suite, settings: Settings | None = None, **options: object) -> Base:
    policy = Policy(suite_pass_rate={"old": 0.75}, advisory=frozenset({"new"}))
    rules = Rules(suites=suites, policy=policy)
    made = Base(origin=BaseOrigin(source=BaseSource.RERUN), rules=rules, settings=settings)
    return dataclasses.replace(made, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("agents", "of_the_deleted", "expected"),
    [
        ([ONE, TWO], TWO, TWO),  # the same agent is still there
        ([ONE], TWO, ONE),  # there is no other
        ([ONE, TWO], THREE, None),  # not clear: not measured rather than forgotten
    ],
)
def test_a_deleted_file_is_measured_or_said_to_be_unmeasurable(
    agents: list[AgentUse], of_the_deleted: AgentUse, expected: AgentUse | None
) -> None:
    head = tuple(suite(f"s{number}", agent) for number, agent in enumerate(agents))
    bar = bars.of(head, Policy(), base(*head, suite("gone", of_the_deleted)), by_base=True)
    restored = next(each for each in bar.suites if each.key == "gone")
    if expected is not None:
        assert restored.agent == expected
    else:
        assert restored.agent.driver == agent_pools.ABSENT
        assert not agent_pools.is_missing(restored.agent)
        assert "gone was deleted" in str(restored.agent.options["why"])


def test_a_renamed_file_keeps_the_bases_rules() -> None:
    head = (suite("new", ONE, threshold=0.1, cases="a"),)
    bar = bars.of(head, Policy(), base(suite("old", ONE), renamed={"new": "old"}), by_base=True)
    (made,) = bar.suites
    assert made.key == "new"
    assert [use.threshold for use in made.criteria] == [0.9]
    assert [case.case_id for case in made.eval_set.cases] == ["a", "b"]
    assert bar.policy.suite_pass_rate["new"] == 0.75
    assert bar.policy.advisory == frozenset()  # a name that the base lets off does not let this file off


def test_the_first_simulated_user_brings_its_criterion() -> None:
    """Without it a conversation that its limit cut short could pass by the base's criteria."""
    scenario = Case(case_id="c", scenario=ConversationScenario(starting_prompt="x", conversation_plan="y"))
    now = suite("s", ONE)
    ended = CriterionUse(name="conversation_ended", threshold=1.0)
    now = dataclasses.replace(
        now,
        eval_set=dataclasses.replace(now.eval_set, cases=(*now.eval_set.cases, scenario)),
        criteria=(ended, *now.criteria),
    )
    bar = bars.of((now,), Policy(), base(suite("s", ONE)), by_base=True)
    assert [use.name for use in bar.suites[0].criteria] == ["conversation_ended", "m"]


@pytest.mark.parametrize(
    ("theirs", "ours", "told"),
    [
        ({}, {}, []),
        ({"policy": "base"}, {}, ["policy"]),
        ({"runs": "5"}, {"runs": "2"}, ["runs"]),
        ({"runs": "2+3"}, {"runs": "3"}, ["runs"]),
        ({"runs": "2"}, {"runs": "2+3"}, []),
        ({}, {"skip_judged": True}, ["skip_judged"]),
        ({}, {"baseline": "file:x.json"}, ["baseline"]),
        ({"baseline": "none"}, {"baseline": "store"}, []),  # more than there was
    ],
)
def test_settings_that_weaken_the_gate_are_told(
    theirs: dict[str, object], ours: dict[str, object], told: list[str]
) -> None:
    settings = Settings.model_validate(ours)
    before = base(suite("s", ONE), settings=Settings.model_validate(theirs))
    before = dataclasses.replace(before, rules=Rules(suites=(suite("s", ONE),), policy=Policy()))
    bar = bars.of((suite("s", ONE),), Policy(), before, by_base=False, settings=settings)
    assert [each.subject for each in bar.loosened] == told
