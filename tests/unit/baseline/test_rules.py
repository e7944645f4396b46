"""The two rule books: what each asks, and what of the change's counts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from evalgate.baseline import rules as baseline_rules
from evalgate.baseline.base import Base, BaseProject, BaseRules
from evalgate.baseline.rules import Rules
from evalgate.config import load
from evalgate.config.context import Context, Trigger
from evalgate.config.gate_file import GateFile
from evalgate.config.settings import Settings
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
    Edits,
    EvalSet,
    FailOn,
    Need,
    Policy,
    RuleBook,
    SimulatorUse,
    Suite,
)

ONE, TWO, THREE = (
    AgentUse(driver="command", options={"command": [name]}) for name in ("one", "two", "three")
)


def suite(key: str, agent: AgentUse, *, threshold: float = 0.9, cases: str = "ab") -> Suite:
    return Suite(
        key=key,
        eval_set=EvalSet(
            eval_set_id=key, cases=tuple(Case(case_id=each, conversation=()) for each in cases)
        ),
        criteria=(CriterionUse(name="m", threshold=threshold),),
        criteria_source=CriteriaSource(origin=ConfigOrigin.DEFAULTS, file=""),
        agent=agent,
    )


def chosen(*, judge: dict[str, object] | None = None, **given: object) -> Settings:
    rules = GateFile.model_validate({"judge": judge or {}})
    return Settings.model_validate({**given, "gate_file": rules})


BOTH = chosen(policy="both")


def anywhere(*_: object) -> Place:
    """The places of an evalgate.yml."""
    return Place(file="evalgate.yml", json_path="$")


def base(
    *suites: Suite, settings: Settings | None = None, renamed: dict[str, str] | None = None
) -> Base:
    rates = {suite.key: 0.75 for suite in suites if suite.key in ("old", "renamed")}
    policy = Policy(suite_pass_rate=rates, advisory=frozenset({"new"}))
    rules = BaseRules(suites=suites, policy=policy)
    project = BaseProject(rules=rules, settings=settings, renamed=renamed or {})
    return Base(origin=BaseOrigin(source=BaseSource.RERUN), project=project)


def with_rules(made: Base, **rules: object) -> Base:
    assert made.project.rules is not None
    changed = dataclasses.replace(made.project.rules, **rules)  # type: ignore[arg-type]
    return dataclasses.replace(made, project=dataclasses.replace(made.project, rules=changed))


def books(found: Rules) -> list[RuleBook]:
    """Head's, and the base's; head's twice where they are the same."""
    return [found.books[0], found.books[-1]]


def test_a_renamed_file_keeps_the_bases_rules() -> None:
    head = (suite("renamed", ONE, threshold=0.1, cases="a"),)
    known = base(suite("renamed", ONE), renamed={"renamed": "old"})
    found = baseline_rules.in_force(chosen(), head, known)
    own, theirs = books(found)
    (made,) = found.suites
    assert [use.threshold for use in made.criteria] == [0.1]
    assert [use.threshold for use in theirs.criteria["renamed"]] == [0.9]
    assert [case.case_id for case in made.eval_set.cases] == ["a"], (
        "a deleted case is an edit, no rule stops that"
    )
    assert (own.policy.suite_pass_rate, theirs.policy.suite_pass_rate["renamed"]) == ({}, 0.75)


def test_a_new_file_stands_under_the_bases_own_globs() -> None:
    """Neither is it let off more than the base says of such files, nor does a trial of theirs
    decide of a sudden."""
    rules = [
        {"match": ["critical/*"], "pass_rate": 1.0},
        {"match": ["trial/*"], "severity": "advisory"},
    ]
    gate_file = GateFile.model_validate({"suites": rules})
    theirs = chosen(pass_rate=0.5).model_copy(update={"gate_file": gate_file})
    head = tuple(suite(key, ONE) for key in ("critical/new", "trial/new", "old"))
    found = baseline_rules.in_force(chosen(), head, base(suite("old", ONE), settings=theirs)).books[
        -1
    ]
    assert found.policy.suite_pass_rate == {"old": 0.75, "critical/new": 1.0}
    assert "trial/new" in found.policy.advisory


@pytest.mark.parametrize(
    ("severities", "advisory", "told"),
    [
        (["gating", "advisory"], False, True),  # the change lets its own file off
        (["advisory", "gating"], True, True),
        (["advisory", "advisory"], True, False),
        (["gating", "gating"], False, False),
    ],
)
def test_the_severity_of_a_file_is_the_bases_word(
    severities: list[str], *, advisory: bool, told: bool
) -> None:
    then, now = (
        chosen().model_copy(
            update={
                "gate_file": GateFile.model_validate(
                    {"suites": [{"match": ["s"], "severity": severity}]}
                )
            }
        )
        for severity in severities
    )
    suites = (suite("s", ONE), suite("mine", ONE))
    before = with_rules(base(*suites[:1], settings=then), policy=load.policy_of(then, suites))
    found = baseline_rules.in_force(now, suites, before)
    assert ("s" in found.policy.advisory) is advisory
    assert ["severity-of-base" in problem.code for problem in found.problems] == [True] * told


def led(made: Suite, *, model: str) -> Suite:
    scenario = Case(
        case_id="c", scenario=ConversationScenario(starting_prompt="x", conversation_plan="y")
    )
    cases = (*made.eval_set.cases, scenario)
    return dataclasses.replace(
        made,
        eval_set=dataclasses.replace(made.eval_set, cases=cases),
        criteria=(CriterionUse(name="conversation_ended", threshold=1.0), *made.criteria),
        simulator=SimulatorUse(model=model),
    )


def use(name: str = "m", **more: object) -> CriterionUse:
    return CriterionUse(**{"name": name, "threshold": 0.5, **more})  # type: ignore[arg-type]


JUDGED = {"needs": frozenset({Need.JUDGE})}


@pytest.mark.parametrize(
    ("then", "now", "asked", "theirs", "unasked"),
    [
        # alike: one book
        ([use()], [use()], ["m"], None, 0),
        # another threshold is asked of the same score
        ([use(threshold=0.9)], [use()], ["m"], {"m": 0.9}, 0),
        ([use(threshold=0.9)], [use(informational=True)], ["m"], {"m": 0.9}, 0),
        # a criterion that the change drops is asked, for the base's book
        ([use(), use("n")], [use()], ["m", "n"], {"m": 0.5, "n": 0.5}, 0),
        # so is one of which it edits the options, beside its own
        (
            [use(options={"match_type": "EXACT"})],
            [use()],
            ["m", "m (base's)"],
            {"m (base's)": 0.5},
            0,
        ),
        ([use(code="a.score")], [use(code="b.score")], ["m", "m (base's)"], {"m (base's)": 0.5}, 0),
        # what the change adds is its own affair
        ([use()], [use(), use("n")], ["m", "n"], {"m": 0.5}, 0),
        # nobody is asked by what shows only
        ([use(), use("tokens", threshold=None, informational=True)], [use()], ["m"], None, 0),
        # a judge is not asked for the base's book alone; who judges is asked once
        ([use(), use("j", **JUDGED)], [use()], ["m"], {"m": 0.5}, 1),
        (
            [use(**JUDGED, options={"judge_model_options": {"judge_model": "a"}})],
            [use(**JUDGED)],
            ["m"],
            None,
            0,
        ),
    ],
)
def test_what_one_of_both_books_asks_is_asked(
    then: list[CriterionUse],
    now: list[CriterionUse],
    asked: list[str],
    theirs: dict[str, float] | None,
    unasked: int,
) -> None:
    before, head = (
        dataclasses.replace(suite("s", ONE), criteria=tuple(uses)) for uses in (then, now)
    )
    found = baseline_rules.in_force(chosen(), (head,), with_rules(base(before), policy=Policy()))
    criteria = found.suites[0].criteria
    assert [each.name for each in criteria] == asked
    assert criteria[: len(now)] == head.criteria, "the change's own decide as it says"
    assert all(each.informational for each in criteria[len(now) :]), (
        "the others decide in the base's book alone"
    )
    assert len(found.edits.unasked) == unasked
    if theirs is None:
        assert len(found.books) == 1
    else:
        assert {each.name: each.threshold for each in found.books[1].criteria["s"]} == theirs
    both = baseline_rules.in_force(
        chosen(policy="both"), (head,), with_rules(base(before), policy=Policy())
    )
    assert both.edits.unasked == (), "both decide: judges are asked for both"
    assert {book.policy.alpha for book in both.books} == {0.05 / len(both.books)}, (
        "each begins with its part"
    )


def test_on_the_base_branch_what_is_merged_decides() -> None:
    where = Context(
        environ={}, cache=Path("/none"), trigger=Trigger(is_pull_request=False, on_base_branch=True)
    )
    before = base(suite("s", ONE), settings=chosen(fail_on=("threshold",), policy="both"))
    found = baseline_rules.in_force(
        chosen(fail_on=()), (suite("s", ONE, threshold=0.1),), before, where
    )
    assert (len(found.books), found.both_decide, found.edits, found.problems) == (
        1,
        False,
        Edits(),
        (),
    )
    assert found.policy.fail_on == frozenset()


@pytest.mark.parametrize(
    ("ours", "theirs", "is_both"),
    [
        ("head", "head", False),
        ("both", "head", True),
        ("head", "both", True),  # head cannot take back what the base says
        ("base", None, True),  # its name until now
    ],
)
def test_whether_the_worse_of_both_counts(ours: str, theirs: str | None, *, is_both: bool) -> None:
    then = None if theirs is None else chosen(policy=theirs)
    found = baseline_rules.in_force(
        chosen(policy=ours), (suite("s", ONE),), base(suite("s", ONE), settings=then)
    )
    assert found.both_decide is is_both


NOT_THERE = Base(origin=BaseOrigin(source=BaseSource.RERUN, commit="c"))
BROKEN = dataclasses.replace(NOT_THERE, problem="its evalgate.yml cannot be read")
FIRST = dataclasses.replace(NOT_THERE, problem="it has no agent", no_agent=True)


@pytest.mark.parametrize(
    ("choice", "then", "codes", "blocks"),
    [
        (BOTH, NOT_THERE, ["base-rules-unknown"], False),  # no evaluation file of its own
        (chosen(), NOT_THERE, [], False),
        (BOTH, BROKEN, ["base-rules-unknown"], True),  # head's policy cannot wave that through
        (chosen(), BROKEN, ["base-rules-unchecked"], False),
        (BOTH, FIRST, [], False),
        (chosen(), None, [], False),
    ],
)
def test_a_base_whose_rules_are_not_known_is_said(
    choice: Settings, then: Base | None, codes: list[str], blocks: bool
) -> None:
    found = baseline_rules.in_force(choice.model_copy(update={"fail_on": ()}), (), then)
    assert [problem.code for problem in found.problems] == codes
    assert (found.policy.fail_on == {FailOn.NOT_MEASURED}) is blocks
    assert not found.both_decide


BROKEN_FILE = dataclasses.replace(suite("s", ONE, cases=""), problem="line 3: is not JSON")
ADVISORY = dataclasses.replace(BROKEN_FILE, key="new")


@pytest.mark.parametrize("policy", ["both", "head"])
@pytest.mark.parametrize(
    ("head", "then", "fail_on", "blocks"),
    [
        # the base has it, and can read it
        ((BROKEN_FILE,), base(suite("s", ONE)), "threshold", True),
        ((suite("s", ONE),), base(suite("s", ONE)), "threshold", False),
        ((BROKEN_FILE,), base(suite("other", ONE)), "threshold", False),  # new
        # what the base could not measure either
        (
            (BROKEN_FILE,),
            with_rules(base(suite("s", ONE, cases="")), unread=frozenset({"s"})),
            "threshold",
            False,
        ),
        (
            (BROKEN_FILE,),
            with_rules(base(suite("s", ONE)), unruled=frozenset({"s"})),
            "threshold",
            False,
        ),
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
    found = baseline_rules.in_force(settings, head, with_rules(then, policy=own))
    assert (FailOn.NOT_MEASURED in found.policy.fail_on) is blocks


def test_a_gate_file_without_evaluation_files_is_a_book_all_the_same() -> None:
    theirs = chosen(max_drop=0.05).model_copy(update={"places": anywhere})
    gate_file = GateFile.model_validate({"suites": [{"match": ["s"], "pass_rate": 0.5}]})
    ours = chosen(max_drop=0.5).model_copy(update={"gate_file": gate_file})
    then = dataclasses.replace(NOT_THERE, project=BaseProject(settings=theirs))
    found = baseline_rules.in_force(ours, (suite("s", ONE),), then)
    assert {edit.subject for edit in found.edits.edits} == {"max_drop", "pass_rate of s"}
    assert [book.policy.max_drop for book in found.books] == [0.5, 0.05]
    without = dataclasses.replace(
        NOT_THERE, project=BaseProject(settings=theirs.model_copy(update={"places": None}))
    )
    assert len(baseline_rules.in_force(ours, (suite("s", ONE),), without).books) == 1


def error(file: str) -> Problem:
    return Problem(
        severity=Severity.ERROR, code="x", message="is not JSON", place=Place(file=file, line=3)
    )


UNKNOWN, UNCHECKED = "base-rules-unknown", "base-rules-unchecked"


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("both", [(UNKNOWN, "bad and gone"), (UNCHECKED, "unread")]),
        ("head", [(UNCHECKED, "bad, gone and unread")]),
    ],
)
def test_where_criteria_of_the_base_cannot_be_read_heads_stand_in(
    policy: str, told: list[tuple[str, str]]
) -> None:
    """For that file alone: a red main is repaired by the change, and weakens nothing else
    unseen."""
    suites = (
        suite("bad", ONE, threshold=0.0),
        suite("gone", ONE),
        suite("unread", ONE, cases=""),
        suite("whole", ONE),
    )
    broken = with_rules(
        base(*suites, settings=chosen()),
        errors=(error("c.json"), error("unread")),
        unread=frozenset({"unread"}),
        unruled=frozenset({"bad", "gone"}),
    )
    head = tuple(suite(key, ONE, threshold=0.5, cases="b") for key in ("whole", "bad", "unread"))
    found = baseline_rules.in_force(chosen(policy=policy), head, broken)
    for problem, (code, files) in zip(found.problems, told, strict=True):
        assert problem.code == code
        assert files in problem.message
        assert "c.json:3: is not JSON (and 1 more)" in problem.message
    assert {key: uses[0].threshold for key, uses in found.books[1].criteria.items()} == {
        "whole": 0.9,
        "unread": 0.9,
    }


@pytest.mark.parametrize(("is_pull_request", "named"), [(True, "kept"), (False, "mine")])
def test_in_which_store_the_past_is_looked_up(*, is_pull_request: bool, named: str) -> None:
    """A store of the change's own choice has no past, or whatever past it likes."""
    theirs = chosen(baseline_folder="kept").model_copy(update={"places": anywhere})
    where = Context(
        environ={}, cache=Path("/none"), trigger=Trigger(is_pull_request=is_pull_request)
    )
    found = baseline_rules.in_force(
        chosen(baseline_folder="mine"), (suite("s", ONE),), base(settings=theirs), where
    )
    assert found.settings.baseline_folder == named
