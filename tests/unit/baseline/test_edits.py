"""What a change edits of its own gate: rules that decide, files that say how is measured,
expectations."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.baseline import rules as baseline_rules
from evalgate.baseline.base import Base, BaseProject, BaseRules
from evalgate.config import load
from evalgate.config.settings import Settings
from evalgate.discovery import agents as discovery_agents
from evalgate.model import (
    AgentUse,
    BaseOrigin,
    BaseSource,
    Case,
    ConfigOrigin,
    ConversationScenario,
    CriteriaSource,
    CriterionUse,
    EditKind,
    EvalSet,
    GateEdit,
    Suite,
)

METRIC = CriterionUse(name="m", threshold=0.5)


def choice(root: Path, **rules: Any) -> Settings:
    root.mkdir(exist_ok=True)
    (root / "evalgate.yml").write_text(json.dumps(rules, indent=1))
    return load.load_settings({"root": str(root)})


def suite(
    *codes: str, agent: str = "bot", cases: str = "", uses: tuple[CriterionUse, ...] = ()
) -> Suite:
    return Suite(
        key="a.evalset.json",
        eval_set=EvalSet(
            eval_set_id="a", cases=tuple(Case(case_id=name, conversation=()) for name in cases)
        ),
        criteria=(
            *uses,
            *(CriterionUse(name=f"own {code}", threshold=0.5, code=code) for code in codes),
        ),
        criteria_source=CriteriaSource(origin=ConfigOrigin.BESIDE),
        agent=AgentUse(driver="adk", options={"path": agent}),
    )


def edits(
    base: Settings,
    head: Settings,
    suites: tuple[Suite, ...] = (),
    *,
    before: tuple[Suite, ...] | None = None,
) -> tuple[GateEdit, ...]:
    """`before`: the base's suites; None: the same."""
    then = suites if before is None else before
    rules = BaseRules(suites=then, policy=load.policy_of(base, then))
    project = BaseProject(rules=rules, settings=base)
    found = baseline_rules.in_force(
        head, suites, Base(origin=BaseOrigin(source=BaseSource.RERUN), project=project)
    )
    return found.edits.edits


def files(*args: Any) -> list[str]:
    return [edit.subject for edit in edits(*args) if edit.kind is EditKind.FILE]


@pytest.mark.parametrize(
    ("theirs", "ours", "told"),
    [
        ({}, {}, []),
        # stricter or weaker: whether it decides, both books are asked
        ({}, {"pass-rate": 0.5}, ["pass_rate: 1.00 > 0.50"]),
        ({"pass-rate": 0.5}, {}, ["pass_rate: 0.50 > 1.00"]),
        (
            {},
            {"threshold": "new", "max-drop": 0.2},
            ["max_drop: 0.05 > 0.20", "threshold: confirmed > new"],
        ),
        ({}, {"alpha": 0.01}, ["alpha: 0.05 > 0.01"]),
        (
            {},
            {"suites": [{"match": ["a*"], "pass_rate": 0.5}]},
            ["pass_rate of a.evalset.json: 1.00 > 0.50"],
        ),
        ({"compare": {"m": {"gating": True}}}, {}, ["gating of m: true > unset"]),
        # what the base decides is no rule of the change's
        ({}, {"fail-on": ["not_measured"]}, []),
        ({}, {"suites": [{"match": ["a*"], "severity": "advisory"}]}, []),
        # how is measured is told by the file
        ({}, {"runs": 3, "tools": "mock"}, []),
    ],
)
def test_which_rules_of_evalgate_yml_decide_otherwise(
    tmp_path: Path, theirs: dict[str, Any], ours: dict[str, Any], told: list[str]
) -> None:
    sides = choice(tmp_path / "base", **theirs), choice(tmp_path / "head", **ours)
    found = edits(*sides, (suite(uses=(METRIC,)),))
    rules = [
        f"{edit.subject}: {edit.base} > {edit.head}" for edit in found if edit.kind is EditKind.RULE
    ]
    assert rules == told
    changed = [edit for edit in found if edit.kind is EditKind.FILE]
    assert [edit.subject for edit in changed] == ["evalgate.yml"] * (theirs != ours)
    assert all(line[0] in "-+ @" for edit in changed for line in edit.lines)


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ((METRIC,), []),
        ((dataclasses.replace(METRIC, threshold=0.2),), ["m: 0.50 > 0.20"]),
        ((), ["m: 0.50 > unset"]),
        ((METRIC, dataclasses.replace(METRIC, name="n")), ["n: unset > 0.50"]),
        ((dataclasses.replace(METRIC, informational=True),), ["m: 0.50 > informational"]),
        (
            (dataclasses.replace(METRIC, lower_is_better=True),),
            ["lower_is_better of m: false > true"],
        ),
        ((dataclasses.replace(METRIC, options={"a": {"b": 1}}),), ["a of m: unset > {'b': 1}"]),
        # shown only, before and now
        (
            (
                METRIC,
                dataclasses.replace(METRIC, name="tokens", threshold=None, informational=True),
            ),
            [],
        ),
    ],
)
def test_which_criteria_decide_otherwise(
    tmp_path: Path, now: tuple[CriterionUse, ...], told: list[str]
) -> None:
    settings = choice(tmp_path / "root")
    found = edits(settings, settings, (suite(uses=now),), before=(suite(uses=(METRIC,)),))
    assert [f"{edit.subject}: {edit.base} > {edit.head}" for edit in found] == told
    assert {edit.suite for edit in found} <= {"a.evalset.json"}


def test_expectations_are_told_apart_from_rules(tmp_path: Path) -> None:
    settings = choice(tmp_path / "root")
    edited = suite(cases="ac")
    case = dataclasses.replace(
        edited.eval_set.cases[0],
        scenario=ConversationScenario(starting_prompt="x", conversation_plan="y"),
    )
    edited = dataclasses.replace(
        edited, eval_set=dataclasses.replace(edited.eval_set, cases=(case,))
    )
    gone = dataclasses.replace(suite(cases="xy"), key="gone")
    found = edits(settings, settings, (edited,), before=(suite(cases="ab"), gone))
    assert [(edit.kind.value, edit.subject) for edit in found] == [
        ("case_changed", "a"), ("case_removed", "b"), ("suite_removed", "gone"),
    ]  # fmt: skip


@pytest.mark.parametrize("value", [True, 1.0])
def test_what_python_calls_equal_is_an_edit_all_the_same(tmp_path: Path, value: object) -> None:
    settings = choice(tmp_path / "root")
    sides = []
    for paid in (1, value):
        side = suite(cases="a")
        case = dataclasses.replace(side.eval_set.cases[0], expects_state={"paid": paid})
        eval_set = dataclasses.replace(side.eval_set, cases=(case,))
        sides.append(dataclasses.replace(side, eval_set=eval_set))
    (edit,) = edits(settings, settings, sides[1:], before=sides[:1])
    assert (edit.kind.value, edit.subject) == ("case_changed", "a")


NO_AGENT = AgentUse(driver=AgentUse.ABSENT)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (suite(agent="desk"), suite(agent="desk"), []),
        # a folder nearer to the evaluation file, or a rule of evalgate.yml
        (suite(agent="desk"), suite(agent="evals"), [("agent", "adk desk", "adk evals")]),
        # the base has none, or several without a rule
        (dataclasses.replace(suite(), agent=discovery_agents.UNKNOWN), suite(agent="desk"), []),
        # head's file cannot be evaluated
        (suite(agent="desk"), dataclasses.replace(suite(), agent=NO_AGENT), []),
        # nor the base's
        (dataclasses.replace(suite(), agent=NO_AGENT), suite(agent="desk"), []),
    ],
)
def test_a_file_that_another_agent_answers_is_told(
    tmp_path: Path, before: Suite, after: Suite, told: list[tuple[str, str, str]]
) -> None:
    settings = choice(tmp_path / "root")
    found = edits(settings, settings, (after,), before=(before,))
    assert [(edit.kind.value, edit.base, edit.head) for edit in found] == told


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("calibration.json", {"judge": {"calibration": "calibration.json"}}),
        ("replies.jsonl", {"judge": {"replay": "replies.jsonl"}}),
        ("mocks.yml", {"tools": {"mode": "mock", "mocks": "mocks.yml"}}),
        ("tool-cassettes/a/b.json", {"tools": {"mode": "replay"}}),
        ("metrics/own.py", {}),
        ("agents/desk/metrics/own.py", {}),  # in the agent's folder
        ("agents/metrics/own.py", {}),  # beside it
        ("agents/desk/mine.py", {}),  # `agent.` is its package
    ],
)
def test_files_that_judge_or_answer_otherwise_are_told(
    tmp_path: Path, name: str, rules: dict[str, Any]
) -> None:
    sides = [choice(tmp_path / side, **rules) for side in ("base", "head")]
    for side, text in zip(sides, ("as it was", "all is well"), strict=True):
        path = side.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    suites = (suite("metrics.own.score", "agent.mine.score", agent="agents/desk"),)
    (told,) = (edit for edit in edits(*sides, suites) if edit.kind is EditKind.FILE)
    assert (told.subject, told.lines[1:]) == (name, ("-as it was", "+all is well"))
    assert files(sides[0], sides[0], suites) == []
    (sides[1].root / name).unlink()
    assert files(*sides, suites) == [name]


def test_recorded_replies_may_lie_in_a_folder(tmp_path: Path) -> None:
    sides = [
        choice(tmp_path / side, judge={"client": "replay", "replay": "replies"})
        for side in ("base", "head")
    ]
    for side, label in zip(sides, ("invalid", "valid"), strict=True):
        path = side.root / "replies/deep/a.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text(label)
    assert files(*sides) == ["replies"]
    assert files(sides[0], sides[0]) == []


def test_a_huge_file_or_one_that_is_no_text_is_told_by_its_digest(tmp_path: Path) -> None:
    sides = [choice(tmp_path / side, judge={"calibration": "c"}) for side in ("base", "head")]
    for content in (b"\xff\x00", b"x\n" * 1_000_000):
        (sides[0].root / "c").write_bytes(b"old")
        (sides[1].root / "c").write_bytes(content)
        (told,) = (edit for edit in edits(*sides) if edit.kind is EditKind.FILE)
        assert len(told.lines) <= 3


@pytest.mark.parametrize(
    ("driver", "options", "name", "expected"),
    [
        ("replay", {"path": "kept"}, "kept/a.session.json", ["recordings of kept"]),
        ("replay", {"path": "kept"}, "agent.py", []),  # only recordings answer
        ("replay", {}, ".adk/eval_history/b.evalset_result.json", ["recordings of the agent"]),
        ("adk", {"path": "kept"}, "kept/a.session.json", []),  # which is asked
    ],
)
def test_other_recordings_of_an_agent_are_told(
    tmp_path: Path, driver: str, options: dict[str, str], name: str, expected: list[str]
) -> None:
    base, head = choice(tmp_path / "base"), choice(tmp_path / "head")
    for side, text in ((base, "{}"), (head, '{"better": true}')):
        (side.root / name).parent.mkdir(parents=True, exist_ok=True)
        (side.root / name).write_text(text)
    suites = (
        dataclasses.replace(suite(agent="kept"), agent=AgentUse(driver=driver, options=options)),
    )
    assert files(base, head, suites) == expected
    assert files(base, base, suites) == []


@pytest.mark.parametrize(
    ("name", "is_told"),
    [
        ("metrics/own.py", True),
        ("metrics/helper.py", True),  # beside the metric
        ("metrics/tables/words.py", True),  # in its package
        ("metrics/__init__.py", True),
        ("metrics/new.py", True),
        ("agents/desk/lists.py", False),  # beside a metric in the agent's folder, and the agent's
        ("agents/desk/words.txt", True),  # which the metric names
        ("agents/desk/checks/helper.py", True),  # in the package of a metric in the agent's package
        ("agents/desk/prompts/kind.py", False),
        ("agents/desk/agent.py", False),  # what is tested
        ("agents/desk/sub/agent.py", False),
        ("shared/rules.py", True),  # what the metric imports
        ("shared/limits.py", True),  # and what that imports
        ("shared/words.py", False),  # what the agent alone imports
        ("top.py", False),
        ("metrics/words.txt", False),
    ],
)
def test_what_lies_beside_a_metric_is_told(tmp_path: Path, name: str, *, is_told: bool) -> None:
    sides = [choice(tmp_path / side) for side in ("base", "head")]
    kept = (
        "metrics/own",
        "metrics/helper",
        "agents/desk/mine",
        "agents/desk/agent",
        "agents/desk/lists",
        "agents/desk/checks/own",
        "top",
    )
    says = {
        "metrics/own": "from shared import rules\nfrom agents.desk import agent",
        "shared/rules": "def _():\n    from .limits import MOST",
        "agents/desk/agent": "import shared.words",
        "agents/desk/mine": "open('words.txt')",
    }
    for side in sides:
        for module in (*kept, "shared/rules", "shared/limits", "shared/words"):
            (side.root / module).parent.mkdir(parents=True, exist_ok=True)
            (side.root / f"{module}.py").write_text(says.get(module, ""))
    suites = (
        suite(
            "metrics.own.score", "agent.mine.score", "agents.desk.checks.own.score", "a/b.c", "..x", "a" * 300,
            agent="agents/desk",
        ),
    )  # fmt: skip
    assert files(*sides, suites) == []
    (sides[1].root / name).parent.mkdir(parents=True, exist_ok=True)
    (sides[1].root / name).write_text("def score(*_): return 1.0")
    assert files(*sides, suites) == [name] * is_told


def test_another_code_of_a_metric_is_asked_beside_the_bases(tmp_path: Path) -> None:
    sides = [choice(tmp_path / side) for side in ("base", "head")]
    for side in sides:
        (side.root / "own.py").write_text(f"# {side.root.name}")
    suites = (suite("own.score", agent="agents/desk"),)
    rules = BaseRules(suites=suites, policy=load.policy_of(sides[0], suites))
    project = BaseProject(rules=rules, settings=sides[0])
    found = baseline_rules.in_force(
        sides[1], suites, Base(origin=BaseOrigin(source=BaseSource.RERUN), project=project)
    )
    assert [(use.name, use.metric) for use in found.suites[0].criteria] == [
        ("own own.score", ""), ("own own.score (base's)", "own own.score"),
    ]  # fmt: skip
    assert len(found.books) == 2
