"""A change that lowers its own bar is seen, whichever way it takes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from evalgate.baseline import rules as baseline_rules
from evalgate.baseline.base import BaseRules
from evalgate.model import (
    AgentUse,
    Case,
    ConfigOrigin,
    ConversationScenario,
    CriteriaSource,
    CriterionRule,
    CriterionUse,
    EvalSet,
    FailOn,
    Policy,
    SimulatorUse,
    Suite,
    ThresholdRule,
)

TOOLS = CriterionUse(name="tools", threshold=1.0, options={"match_type": "EXACT"})
WORDS = CriterionUse(name="words", threshold=0.8)
SECONDS = CriterionUse(name="seconds", threshold=9.0, lower_is_better=True)
COUNT = CriterionUse(name="count", threshold=None, informational=True)


JUDGED = CriterionUse(
    name="judged", threshold=0.5, options={"judge_model_options": {"judge_model": "a", "num_samples": 5}}
)


def suite(
    *criteria: CriterionUse, key: str = "a.json", cases: str = "one two", driver: str = "adk", **options: Any
) -> Suite:
    """`one two*`: a star is other content."""
    return Suite(
        key=key,
        eval_set=EvalSet(
            eval_set_id="set",
            cases=tuple(
                Case(case_id=word.rstrip("*"), conversation=(), expects_state={"x": 1} if "*" in word else None)
                for word in cases.split()
            ),
        ),
        criteria=criteria,
        criteria_source=CriteriaSource(origin=ConfigOrigin.BESIDE),
        agent=AgentUse(driver=driver, options=options),
    )


def told(
    base: tuple[Suite, ...],
    head: tuple[Suite, ...],
    *,
    theirs: Policy | None = None,
    ours: Policy | None = None,
    renamed: dict[str, str] | None = None,
) -> list[str]:
    rules = BaseRules(suites=base, policy=theirs or Policy())
    listed = baseline_rules.of_rules(rules, head, ours or Policy(), renamed=renamed or {})
    return [f"{each.kind.value} {each.subject}: {each.base} > {each.head}" for each in listed]


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"),
    [
        ({}, {}, []),
        ({"model": ""}, {"model": "b", "max_turns": 5}, []),  # results that do not tell it
        ({"model": "a"}, {"model": "b"}, ["model of a.json: a > b"]),
        ({"max_turns": 20}, {"max_turns": 5}, ["max_turns of a.json: 20 > 5"]),
        ({"max_turns": 20}, {"max_turns": None}, ["max_turns of a.json: 20 > unset"]),
        ({"config": {"temperature": 0}}, {"config": {"temperature": 1}}, ["config.temperature of a.json: 0 > 1"]),
        ({"stop_signal": "x"}, {"stop_signal": "y"}, ["stop_signal of a.json: x > y"]),
    ],
)
def test_whoever_plays_the_user_otherwise_is_told(
    theirs: dict[str, object], ours: dict[str, object], expected: list[str]
) -> None:
    scenario = Case(case_id="c", scenario=ConversationScenario(starting_prompt="x", conversation_plan="y"))
    with_user = EvalSet(eval_set_id="set", cases=(scenario,))
    sides = [
        dataclasses.replace(suite(TOOLS), eval_set=with_user, simulator=SimulatorUse(**each))  # type: ignore[arg-type]
        for each in (theirs, ours)
    ]
    assert told((sides[0],), (sides[1],)) == [f"policy simulator {each}" for each in expected]
    base, head = (dataclasses.replace(each, eval_set=suite().eval_set) for each in sides)
    assert told((base,), (head,)) == []  # nobody is played


def with_threshold(use: CriterionUse, threshold: float) -> CriterionUse:
    return dataclasses.replace(use, threshold=threshold)


@pytest.mark.parametrize(
    ("base", "head", "expected"),
    [
        (suite(TOOLS, WORDS), suite(TOOLS, WORDS), []),
        (suite(TOOLS), suite(TOOLS, WORDS, cases="one two three"), []),  # more is not less
        (suite(WORDS), suite(with_threshold(WORDS, 0.9)), []),  # stricter
        (suite(WORDS), suite(with_threshold(WORDS, 0.75)), ["threshold words: 0.80 > 0.75"]),
        (suite(SECONDS), suite(with_threshold(SECONDS, 8.0)), []),  # lower is better: stricter
        (suite(SECONDS), suite(with_threshold(SECONDS, 12.0)), ["threshold seconds: 9.00 > 12.00"]),
        (suite(TOOLS, WORDS), suite(TOOLS), ["criterion_removed words: 0.80 > "]),
        (suite(COUNT), suite(), []),  # it decided nothing
        (
            suite(WORDS),
            suite(dataclasses.replace(WORDS, threshold=None, informational=True)),
            ["criterion_changed words: 0.80 > informational"],
        ),
        (
            suite(TOOLS),
            suite(dataclasses.replace(TOOLS, options={"match_type": "ANY_ORDER"})),
            ["criterion_changed tools: match_type EXACT > match_type ANY_ORDER"],
        ),
        (
            suite(SECONDS),
            suite(dataclasses.replace(SECONDS, lower_is_better=False)),
            ["criterion_changed seconds: lower is better > higher is better"],
        ),
        (
            suite(WORDS),
            suite(dataclasses.replace(WORDS, code="mine.always_one")),
            ["criterion_changed words: built in > mine.always_one"],
        ),
        (
            suite(JUDGED),
            suite(dataclasses.replace(JUDGED, options={"judge_model_options": {"judge_model": "b", "num_samples": 5}})),
            [
                "criterion_changed judged: judge_model_options.judge_model a > judge_model_options.judge_model b",
            ],
        ),  # deep down
        (
            suite(
                dataclasses.replace(
                    JUDGED, options={"rubrics": [{"id": "a"}, {"id": "b", "text": "Says " + "x" * 90 + " is"}]}
                )
            ),
            suite(
                dataclasses.replace(
                    JUDGED, options={"rubrics": [{"id": "a"}, {"id": "b", "text": "Says " + "x" * 90 + " was"}]}
                )
            ),
            [
                "criterion_changed judged: rubrics[1].text ..."
                + "x" * 19
                + " is > rubrics[1].text ..."
                + "x" * 19
                + " was"
            ],
        ),  # at the end of a long text
        (
            suite(dataclasses.replace(JUDGED, options={"rubrics": [{"id": "a"}]})),
            suite(dataclasses.replace(JUDGED, options={})),
            ["criterion_changed judged: rubrics [{'id': 'a'}] > rubrics unset"],
        ),
        (
            suite(WORDS),
            suite(dataclasses.replace(WORDS, on_the_test=True)),
            ["criterion_changed words: failing it fails the case > failing it makes the case not measured"],
        ),
        (suite(dataclasses.replace(WORDS, on_the_test=True)), suite(WORDS), []),
        # the config is gone: what was chosen is a default, which decides less
        (
            suite(WORDS),
            suite(dataclasses.replace(WORDS, where_applicable=True)),
            ["criterion_changed words: decides every case > decides cases with a reference"],
        ),
        (suite(WORDS), suite(WORDS, driver="replay"), ["policy agent of a.json: adk > replay"]),
        (suite(WORDS, driver="replay"), suite(WORDS), ["policy agent of a.json: replay > adk"]),  # a reader can tell
        (
            suite(WORDS, driver="command", command=["python3", "agent.py"]),
            suite(WORDS, driver="command", command=["python3", "tests/stub.py"]),  # what passes in its place
            ["policy agent of a.json: command python3 agent.py > command python3 tests/stub.py"],
        ),
        (
            suite(WORDS, path="desk", python="3.12", requirements=["a"]),
            suite(WORDS, path="desk", python="3.13", requirements=["b"]),  # the same one, elsewhere
            [],
        ),
        (
            suite(WORDS, driver="http", url="https://a"),
            suite(WORDS, driver="http", url="https://b"),
            ["policy agent of a.json: http https://a > http https://b"],
        ),
        (
            suite(WORDS, driver="ces", app="a"),
            suite(WORDS, driver="ces", app="a", tool_fakes=True),  # what its tools answer is written down
            ["policy tool_fakes of a.json: unset > true"],
        ),
        (suite(WORDS, driver="ces", app="a", tool_fakes=True), suite(WORDS, driver="ces", app="a"), []),
        (suite(WORDS, driver=""), suite(WORDS, path="desk"), []),  # the base has none yet
        (suite(WORDS, driver="replay"), suite(WORDS, driver="replay"), []),
        (suite(TOOLS), suite(TOOLS, cases="one"), ["case_removed two:  > "]),
        (suite(TOOLS), suite(TOOLS, cases="one two*"), ["case_changed two:  > "]),
        (suite(TOOLS), suite(TOOLS, key="b.json"), ["suite_removed a.json: 2 cases > "]),  # another file
    ],
)
def test_suites(base: Suite, head: Suite, expected: list[str]) -> None:
    assert told((base,), (head,)) == expected


@pytest.mark.parametrize(
    ("base", "head", "expected"),
    [
        ({}, {}, []),
        (
            {},
            {"fail_on": frozenset({FailOn.THRESHOLD, FailOn.REGRESSION})},
            ["fail_on: with not_measured > without not_measured"],
        ),
        ({"pass_rate": 0.9}, {"pass_rate": 0.8}, ["pass_rate: 0.90 > 0.80"]),
        ({"pass_rate": 0.8}, {"pass_rate": 0.9}, []),
        ({"suite_pass_rate": {"a": 0.5}}, {}, []),
        ({}, {"min_measured": 0.5}, ["min_measured: 1.00 > 0.50"]),
        ({}, {"alpha": 0.01}, ["alpha: 0.05 > 0.01"]),
        ({}, {"alpha": 0.1}, []),
        ({}, {"max_drop": 0.2}, ["max_drop: 0.05 > 0.20"]),
        ({}, {"threshold": ThresholdRule.NEW}, ["threshold: confirmed > new"]),
        ({"threshold": ThresholdRule.ALL}, {}, ["threshold: all > confirmed"]),
        ({"threshold": ThresholdRule.NEW}, {}, []),
        ({}, {"adk_compat": True}, ["adk_compat: false > true"]),
        ({}, {"criteria": {"m": CriterionRule(gating=False)}}, ["gating of m: unset > false"]),
        ({"criteria": {"m": CriterionRule(gating=True)}}, {}, ["gating of m: true > unset"]),
        ({}, {"criteria": {"m": CriterionRule(max_drop=0.5)}}, ["max_drop of m: 0.05 > 0.50"]),
        ({"criteria": {"m": CriterionRule(max_drop=0.01)}}, {}, ["max_drop of m: 0.01 > 0.05"]),
        ({}, {"criteria": {"m": CriterionRule(lower_is_better=True)}}, ["lower_is_better of m: unset > true"]),
    ],
)
def test_policies(base: dict[str, object], head: dict[str, object], expected: list[str]) -> None:
    policies = Policy(**base), Policy(**head)  # type: ignore[arg-type]
    assert told((), (), theirs=policies[0], ours=policies[1]) == [f"policy {each}" for each in expected]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (suite(TOOLS, WORDS, key="b.json"), []),
        (
            suite(TOOLS, with_threshold(WORDS, 0.1), key="b.json", cases="one two*"),
            ["threshold words: 0.80 > 0.10", "case_changed two:  > "],
        ),
        (suite(TOOLS, WORDS, key="b.json", cases="one"), ["case_removed two:  > "]),
    ],
)
def test_a_renamed_file_is_compared_under_its_new_name(head: Suite, expected: list[str]) -> None:
    assert told((suite(TOOLS, WORDS),), (head,), renamed={"b.json": "a.json"}) == expected


def test_no_number_of_cases_stands_before_a_rule() -> None:
    """Who edits each case of the first file hides no threshold of the second."""
    first, second = suite(TOOLS), suite(WORDS, key="b.json")
    edited, lowered = suite(TOOLS, cases="one*"), suite(with_threshold(WORDS, 0.1), key="b.json", cases="")
    kinds = [each.partition(" ")[0] for each in told((first, second), (edited, lowered))]
    assert kinds == ["threshold", "case_changed", *["case_removed"] * 3]


LOWER = Policy(suite_pass_rate={"a.json": 0.5}, advisory=frozenset({"a.json"}))
LOWERED = ["policy pass_rate of a.json: 1.00 > 0.50", "policy severity of a.json: gating > advisory"]


@pytest.mark.parametrize(
    ("base", "renamed", "theirs", "expected"),
    [
        (suite(TOOLS), {}, Policy(), LOWERED),
        (suite(TOOLS), {}, LOWER, []),  # as it was
        (suite(TOOLS, key="b.json"), {}, Policy(), []),  # a new file can lower nothing
        (suite(TOOLS, key="b.json"), {"a.json": "b.json"}, Policy(), LOWERED),
        (  # advisory under its old name, too
            suite(TOOLS, key="b.json"),
            {"a.json": "b.json"},
            Policy(suite_pass_rate={"b.json": 0.5}, advisory=frozenset({"b.json"})),
            [],
        ),
    ],
)
def test_what_may_be_lowered_of_a_file(
    base: Suite, renamed: dict[str, str], theirs: Policy, expected: list[str]
) -> None:
    head = (suite(TOOLS), dataclasses.replace(base, key="b.json"))
    assert told((base,), head, theirs=theirs, ours=LOWER, renamed=renamed) == expected


def test_a_shown_criterion_that_decides_about_drops_is_no_less_a_bar() -> None:
    """`compare: {count: {gating: true}}`: without the criterion no drop of it can fail the gate any more."""
    policy = Policy(criteria={COUNT.name: CriterionRule(gating=True)})

    def found(head: Suite) -> list[str]:
        return told((suite(COUNT),), (head,), theirs=policy, ours=policy)

    assert found(suite(COUNT)) == []
    assert found(suite()) == [f"criterion_removed {COUNT.name}: informational > "]
    assert found(suite(dataclasses.replace(COUNT, threshold=0.5, informational=False))) == []
    changed = dataclasses.replace(COUNT, options={"a": 1})
    assert found(suite(changed)) == [f"criterion_changed {COUNT.name}: a unset > a 1"]


@pytest.mark.parametrize(
    ("base", "head", "rule", "expected"),
    [
        # the base fails by the new bar as well, so that a broken answer is nothing new
        (
            0.7,
            1.0,
            ThresholdRule.NEW,
            ["criterion_changed words: 0.70 > 1.00 (failures on both sides are tolerated)"],
        ),
        (0.7, 1.0, ThresholdRule.ALL, []),
        (0.7, 0.7, ThresholdRule.NEW, []),
        (0.7, 0.5, ThresholdRule.NEW, ["threshold words: 0.70 > 0.50"]),
    ],
)
def test_a_stricter_bar_that_lets_more_pass(base: float, head: float, rule: ThresholdRule, expected: list[str]) -> None:
    policy = Policy(threshold=rule)
    then, now = (suite(dataclasses.replace(WORDS, threshold=each)) for each in (base, head))
    assert told((then,), (now,), theirs=policy, ours=policy) == expected
