"""Whose rules decide, and what happens to what head deleted or renamed."""

from __future__ import annotations

import dataclasses

import pytest

from evalgate.agents import opening
from evalgate.baseline import rules as baseline_rules
from evalgate.baseline.base import Base, BaseProject, BaseRules
from evalgate.config.gate_file import GateFile
from evalgate.config.settings import Settings
from evalgate.config.yaml import Locator
from evalgate.discovery import agents as discovery_agents
from evalgate.errors import Place, Problem, Severity
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
    FailOn,
    Policy,
    SimulatorUse,
    Suite,
)

ONE, TWO, THREE = (AgentUse(driver="command", options={"command": [name]}) for name in ("one", "two", "three"))


def suite(key: str, agent: AgentUse, *, threshold: float = 0.9, cases: str = "ab") -> Suite:
    return Suite(
        key=key,
        eval_set=EvalSet(eval_set_id=key, cases=tuple(Case(case_id=each, conversation=()) for each in cases)),
        criteria=(CriterionUse(name="m", threshold=threshold),),
        criteria_source=CriteriaSource(origin=ConfigOrigin.DEFAULTS, file=""),
        agent=agent,
    )


def chosen(*, judge: dict[str, object] | None = None, **given: object) -> Settings:
    rules = GateFile.model_validate({"judge": judge or {}})
    return Settings.model_validate({**given, "gate_file": rules})


BY_BASE = chosen(policy="base")


def base(*suites: Suite, settings: Settings | None = None, renamed: dict[str, str] | None = None) -> Base:
    policy = Policy(suite_pass_rate={"old": 0.75}, advisory=frozenset({"new"}))
    rules = BaseRules(suites=suites, policy=policy)
    project = BaseProject(rules=rules, settings=settings, renamed=renamed or {})
    return Base(origin=BaseOrigin(source=BaseSource.RERUN), project=project)


def with_rules(made: Base, **rules: object) -> Base:
    assert made.project.rules is not None
    changed = dataclasses.replace(made.project.rules, **rules)  # type: ignore[arg-type]
    return dataclasses.replace(made, project=dataclasses.replace(made.project, rules=changed))


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
    found = baseline_rules.of(BY_BASE, head, base(*head, suite("gone", of_the_deleted)))
    restored = next(each for each in found.suites if each.key == "gone")
    if expected is not None:
        assert restored.agent == expected
    else:
        assert restored.agent.is_absent
        assert not opening.is_missing(restored.agent)
        assert "gone was deleted" in str(restored.agent.options["why"])


def test_a_renamed_file_keeps_the_bases_rules() -> None:
    head = (suite("new", ONE, threshold=0.1, cases="a"),)
    found = baseline_rules.of(BY_BASE, head, base(suite("old", ONE), renamed={"new": "old"}))
    (made,) = found.suites
    assert made.key == "new"
    assert [use.threshold for use in made.criteria] == [0.9]
    assert [case.case_id for case in made.eval_set.cases] == ["a", "b"]
    assert found.policy.suite_pass_rate["new"] == 0.75
    assert found.policy.advisory == frozenset()  # a name that the base lets off does not let this file off


def test_a_new_file_stands_under_the_bases_own_globs() -> None:
    """Neither is it let off more than the base says of such files, nor does a trial of theirs decide of a sudden."""
    rules = [{"match": ["critical/*"], "pass_rate": 1.0}, {"match": ["trial/*"], "severity": "advisory"}]
    gate_file = GateFile.model_validate({"suites": rules})
    theirs = chosen(policy="base", pass_rate=0.5).model_copy(update={"gate_file": gate_file})
    head = tuple(suite(key, ONE) for key in ("critical/new", "trial/new", "old"))
    found = baseline_rules.of(BY_BASE, head, base(suite("old", ONE), settings=theirs))
    assert found.policy.suite_pass_rate == {"old": 0.75, "critical/new": 1.0}
    assert "trial/new" in found.policy.advisory


def led(made: Suite, *, model: str) -> Suite:
    scenario = Case(case_id="c", scenario=ConversationScenario(starting_prompt="x", conversation_plan="y"))
    cases = (*made.eval_set.cases, scenario)
    return dataclasses.replace(
        made,
        eval_set=dataclasses.replace(made.eval_set, cases=cases),
        criteria=(CriterionUse(name="conversation_ended", threshold=1.0), *made.criteria),
        simulator=SimulatorUse(model=model),
    )


def test_the_first_simulated_user_brings_its_criterion() -> None:
    """Without it a conversation that its limit cut short could pass by the base's criteria."""
    found = baseline_rules.of(BY_BASE, (led(suite("s", ONE), model="mine"),), base(suite("s", ONE)))
    assert {use.name for use in found.suites[0].criteria} == {"conversation_ended", "m"}
    assert found.suites[0].simulator.model == "mine"


def test_the_bases_simulated_user_stays() -> None:
    head, then = (led(suite("s", ONE), model=model) for model in ("an easy one", "a strict one"))
    found = baseline_rules.of(BY_BASE, (head,), base(then))
    assert found.suites[0].simulator.model == "a strict one"
    found = baseline_rules.of(chosen(), (head,), base(then))
    assert found.suites[0].simulator.model == "an easy one"
    told = [(each.subject, each.base, each.head) for each in found.relaxed if each.subject.startswith("simulator")]
    assert told == [("simulator model of s", "a strict one", "an easy one")]


@pytest.mark.parametrize(
    ("ours", "theirs", "ruling"),
    [
        ({"runs": 1, "skip_judged": True}, {"runs": 3}, (1, True, "mine")),
        ({"runs": 1, "skip_judged": True, "policy": "base"}, {"runs": 3}, (3, False, "theirs")),
        # head cannot take back what the base says
        ({"runs": 1, "skip_judged": True}, {"runs": 3, "policy": "base"}, (3, False, "theirs")),
        # with nothing of the base's own known there is nothing to put in
        ({"runs": 1, "policy": "base"}, None, (1, False, "mine")),
    ],
)
def test_by_whose_settings_and_judges_it_is_measured(
    ours: dict[str, object], theirs: dict[str, object] | None, ruling: tuple[int, bool, str]
) -> None:
    head = chosen(judge={"base_url": "mine", "min_kappa": 0.1}, output="here", **ours)
    then = None if theirs is None else chosen(judge={"base_url": "theirs", "min_kappa": 0.6}, output="there", **theirs)
    found = baseline_rules.of(head, (suite("s", ONE),), base(suite("s", ONE), settings=then))
    settings, judge = found.settings, found.settings.gate_file.judge
    assert (settings.runs, settings.skip_judged, judge.base_url) == ruling
    assert judge.min_kappa == (0.6 if judge.base_url == "theirs" else 0.1)
    assert settings.output == "here"
    told = {each.subject for each in found.relaxed}
    assert ({"runs", "skip_judged", "judge.min_kappa", "judge.base_url"} <= told) is (then is not None), "shown anyway"


@pytest.mark.parametrize(("known", "model"), [(frozenset({"s"}), "a strict one"), (frozenset(), "an easy one")])
def test_of_a_file_of_which_only_new_cases_run_the_bases_rules_stay(known: frozenset[str], model: str) -> None:
    """Its threshold, and who plays the users where any of its other cases has one."""
    head, then = led(suite("s", ONE, threshold=0.1), model="an easy one"), led(suite("s", ONE), model="a strict one")
    none_of_them = dataclasses.replace(then, eval_set=dataclasses.replace(then.eval_set, cases=()))
    made = base(none_of_them)
    found = baseline_rules.of(BY_BASE, (head,), with_rules(made, simulated=known))
    assert {use.name: use.threshold for use in found.suites[0].criteria} == {"conversation_ended": 1.0, "m": 0.9}
    assert [case.case_id for case in found.suites[0].eval_set.cases] == ["a", "b", "c"]
    assert found.suites[0].simulator.model == model
    assert "m" in {each.subject for each in found.relaxed}


NOT_THERE = Base(origin=BaseOrigin(source=BaseSource.RERUN, commit="c"))
BROKEN = dataclasses.replace(NOT_THERE, problem="its evalgate.yml cannot be read")
FIRST = dataclasses.replace(NOT_THERE, problem="it has no agent", no_agent=True)


@pytest.mark.parametrize(
    ("choice", "then", "codes", "blocks"),
    [
        (BY_BASE, NOT_THERE, ["base-rules-unknown"], False),  # no evaluation file of its own
        (chosen(), NOT_THERE, [], False),
        (BY_BASE, BROKEN, ["base-rules-unknown"], True),  # head's policy cannot wave that through
        (chosen(), BROKEN, ["base-rules-unchecked"], False),
        (BY_BASE, FIRST, [], False),
        (chosen(), None, [], False),
    ],
)
def test_a_base_whose_rules_are_not_known_is_said(
    choice: Settings, then: Base | None, codes: list[str], blocks: bool
) -> None:
    found = baseline_rules.of(choice.model_copy(update={"fail_on": ()}), (), then)
    assert [problem.code for problem in found.problems] == codes
    assert (found.policy.fail_on == {FailOn.NOT_MEASURED}) is blocks
    assert not found.by_base


BROKEN_FILE = dataclasses.replace(suite("s", ONE, cases=""), problem="line 3: is not JSON")
ADVISORY = dataclasses.replace(BROKEN_FILE, key="new")


@pytest.mark.parametrize("policy", ["base", "head"])
@pytest.mark.parametrize(
    ("head", "then", "fail_on", "blocks"),
    [
        ((BROKEN_FILE,), base(suite("s", ONE)), "threshold", True),  # the base has it, and can read it
        ((suite("s", ONE),), base(suite("s", ONE)), "threshold", False),
        ((BROKEN_FILE,), base(suite("other", ONE)), "threshold", False),  # new
        # what the base could not measure either
        ((BROKEN_FILE,), with_rules(base(suite("s", ONE, cases="")), unread=frozenset({"s"})), "threshold", False),
        ((BROKEN_FILE,), with_rules(base(suite("s", ONE)), unruled=frozenset({"s"})), "threshold", False),
        ((BROKEN_FILE,), base(suite("s", discovery_agents.UNKNOWN)), "threshold", False),
        ((ADVISORY,), base(suite("new", ONE)), "threshold", False),  # it never decides
        ((BROKEN_FILE,), base(suite("s", ONE)), None, False),  # nothing is to block
    ],
)
def test_a_file_that_the_change_broke_blocks_whatever_fail_on_says(
    policy: str, head: tuple[Suite, ...], then: Base, fail_on: str | None, blocks: bool
) -> None:
    words = (fail_on,) if fail_on else ()
    assert then.project.rules is not None
    own = dataclasses.replace(then.project.rules.policy, fail_on=frozenset(map(FailOn, words)))
    rules = GateFile.model_validate({"suites": [{"match": ["new"], "severity": "advisory"}]})
    settings = chosen(policy=policy, fail_on=words).model_copy(update={"gate_file": rules})
    found = baseline_rules.of(settings, head, with_rules(then, policy=own))
    assert (FailOn.NOT_MEASURED in found.policy.fail_on) is blocks


def test_a_deleted_file_whose_agent_is_not_known_blocks_whatever_fail_on_says() -> None:
    lax = Policy(fail_on=frozenset({FailOn.THRESHOLD}))
    then = with_rules(base(suite("s", ONE), suite("gone", THREE, cases="xy")), policy=lax)
    for agents, blocks in (((ONE, TWO), True), ((ONE,), False)):  # one agent: it is that one, and it is run
        head = tuple(suite(key, agent) for key, agent in zip("st", agents, strict=False))
        found = baseline_rules.of(BY_BASE, head, then)
        assert (FailOn.NOT_MEASURED in found.policy.fail_on) is blocks


def test_a_gate_file_without_evaluation_files_can_be_weakened_all_the_same() -> None:
    theirs = chosen(runs=3, max_drop=0.05).model_copy(update={"places": Locator(None, "evalgate.yml")})
    gate_file = GateFile.model_validate({"suites": [{"match": ["s"], "pass_rate": 0.5}]})
    ours = chosen(runs=1, max_drop=0.5).model_copy(update={"gate_file": gate_file})
    then = dataclasses.replace(NOT_THERE, project=BaseProject(settings=theirs))
    head = (suite("s", ONE),)
    found = baseline_rules.of(ours, head, then)
    assert {each.subject for each in found.relaxed} == {"runs", "max_drop"}
    without_one = dataclasses.replace(
        NOT_THERE, project=BaseProject(settings=theirs.model_copy(update={"places": None}))
    )
    assert baseline_rules.of(ours, head, without_one).relaxed == ()


def error(file: str) -> Problem:
    return Problem(severity=Severity.ERROR, code="x", message="is not JSON", place=Place(file=file, line=3))


UNKNOWN, UNCHECKED = "base-rules-unknown", "base-rules-unchecked"


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("base", [(UNKNOWN, "bad and gone"), (UNCHECKED, "unread")]),
        ("head", [(UNCHECKED, "bad, gone and unread")]),
    ],
)
def test_where_criteria_of_the_base_cannot_be_read_heads_stand_in(policy: str, told: list[tuple[str, str]]) -> None:
    """For that file alone: a red main is repaired by the change, and weakens nothing else unseen."""
    suites = (suite("bad", ONE, threshold=0.0), suite("gone", ONE), suite("unread", ONE, cases=""), suite("whole", ONE))
    broken = with_rules(
        base(*suites, settings=chosen(runs=3)),
        errors=(error("c.json"), error("unread")),
        unread=frozenset({"unread"}),
        unruled=frozenset({"bad", "gone"}),
    )
    head = tuple(suite(key, ONE, threshold=0.5, cases="b") for key in ("whole", "bad", "unread"))
    found = baseline_rules.of(chosen(policy=policy), head, broken)
    for problem, (code, files) in zip(found.problems, told, strict=True):
        assert problem.code == code
        assert files in problem.message
        assert "c.json:3: is not JSON (and 1 more)" in problem.message
    lowered = {(each.kind.value, each.suite) for each in found.relaxed}
    assert {("threshold", "whole"), ("threshold", "unread"), ("suite_removed", "gone")} <= lowered
    assert "runs" in {each.subject for each in found.relaxed}
    assert found.by_base is (policy == "base")
    if found.by_base:
        rules = {each.key: (each.criteria[0].threshold, len(each.eval_set.cases)) for each in found.suites}
        assert rules == {"whole": (0.9, 2), "bad": (0.5, 2), "unread": (0.9, 1)}


def test_a_file_is_followed_for_its_rules_as_for_its_cases() -> None:
    """Renamed, one case of two edited, and its threshold lowered: that is no file that was merely deleted."""
    sides = [suite("old", ONE), suite("new", ONE, threshold=0.1, cases="ac")]
    told = {
        (each.kind.value, each.subject) for each in baseline_rules.of(chosen(), (sides[1],), base(sides[0])).relaxed
    }
    assert ("threshold", "m") in told
    assert ("case_removed", "b") in told
    assert "suite_removed" not in {kind for kind, _ in told}


@pytest.mark.parametrize(("policy", "named"), [("base", "kept"), ("head", "mine")])
def test_in_which_stores_the_past_is_looked_up(policy: str, named: str) -> None:
    """A store of the change's own choice has no past, or whatever past it likes."""
    theirs = chosen(policy=policy, data_branch="kept")
    found = baseline_rules.of(chosen(data_branch="mine"), (suite("s", ONE),), base(settings=theirs))
    assert found.settings.data_branch == named
    assert "data_branch" in {each.subject for each in found.relaxed}
