"""Every setting and every rule of evalgate.yml either weakens the gate, which is told, or cannot."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from evalgate import agents, config
from evalgate.baseline import rules as baseline_rules
from evalgate.baseline.base import Base, BaseProject, BaseRules
from evalgate.config import gate_file, load, quarantine, settings
from evalgate.config.gate_file import GateFile, JudgeRule, ToolsRule
from evalgate.config.settings import Settings
from evalgate.model import (
    AgentUse,
    BaseOrigin,
    BaseSource,
    ConfigOrigin,
    CriteriaSource,
    CriterionUse,
    EvalSet,
    Policy,
    Suite,
)


def choice(root: Path, **rules: Any) -> Settings:
    root.mkdir(exist_ok=True)
    (root / "evalgate.yml").write_text(json.dumps(rules, indent=1))
    return load.load_settings({"root": str(root)})


JUDGE: dict[str, Any] = {"judge": {"calibration": "c.json", "min_kappa": 0.6}}
MOCK: dict[str, Any] = {"tools": {"mode": "mock", "mocks": "a.yml"}}


@pytest.mark.parametrize(
    ("theirs", "ours", "told"),
    [
        ({}, {}, []),
        # whose rules decide, and what head is compared with
        ({"policy": "base"}, {}, ["policy: base > head"]),
        ({}, {"policy": "base"}, []),
        ({}, {"baseline": "none"}, ["baseline: auto > none"]),
        ({}, {"baseline": "file:x.json"}, ["baseline: auto > file:x.json"]),
        ({"baseline": "none"}, {"baseline": "store"}, []),  # more than there was
        ({"data-branch": "data"}, {"data-branch": "mine"}, ["data_branch: data > mine"]),
        ({}, {"baseline-folder": "here"}, ["baseline_folder: unset > here"]),
        ({"baseline-folder": "here"}, {}, []),  # then the base is run, or is not measured
        ({}, {"max-baseline-age": 100}, ["max_baseline_age: 14 > 100"]),
        ({}, {"max_baseline_age": 3}, []),
        # how much is measured
        ({"runs": "5"}, {"runs": "2"}, ["runs: 5 > 2"]),
        ({"runs": "3"}, {"runs": "2"}, ["runs: 3 > 2"]),
        ({"runs": "2"}, {"runs": "3"}, []),
        ({}, {"budget": {"usd": 2}}, ["budget: unset > usd=2"]),
        ({"budget": "tokens=100"}, {"budget": "tokens=90"}, ["budget: tokens=100 > tokens=90"]),
        ({"budget": "tokens=100"}, {"budget": "tokens=110"}, []),
        ({"budget": "tokens=100"}, {}, []),
        ({}, {"skip-judged": True}, ["skip_judged: false > true"]),
        ({"skip-judged": True}, {}, []),
        ({"strict": True}, {}, ["strict: true > false"]),
        ({}, {"strict": True}, []),
        ({}, {"seed": 7}, ["seed: 0 > 7"]),  # the luckiest of many
        # who judges, and what people must have said of it
        ({}, {"judge": {"client": "replay"}}, ["judge.client: unset > replay"]),
        ({}, {"judge": {"base_url": "http://x"}}, ["judge.base_url: unset > http://x"]),
        ({}, {"judge": {"replay": "r.jsonl"}}, ["judge.replay: unset > r.jsonl"]),
        ({"judge": {"replay": "r.jsonl"}}, {}, []),
        (JUDGE, {"judge": {"calibration": "c.json", "min_kappa": 0.5}}, ["judge.min_kappa: 0.6 > 0.5"]),
        (JUDGE, {"judge": {"calibration": "c.json"}}, ["judge.min_kappa: 0.6 > unset"]),
        (JUDGE, {"judge": {"calibration": "d.json", "min_kappa": 0.7}}, ["judge.calibration: c.json > d.json"]),
        (JUDGE, {}, ["judge.calibration: c.json > unset", "judge.min_kappa: 0.6 > unset"]),
        ({}, JUDGE, []),
        ({}, {"judge": {"deadline": 60}}, ["judge.deadline: unset > 60"]),
        ({"judge": {"deadline": 60}}, {"judge": {"deadline": 90}}, []),
        ({}, {"judge": {"budget": {"calls": 9}}}, ["judge.budget: unset > calls=9"]),
        # tools that run no longer
        ({}, {"tools": "mock"}, ["tools.mode: live > mock"]),
        ({}, {"tools": "replay"}, ["tools.mode: live > replay"]),
        ({"tools": "replay"}, {"tools": "mock"}, ["tools.mode: replay > mock"]),
        (MOCK, {}, []),  # they run again
        ({}, {"tools": "record"}, []),  # they run
        (MOCK, {"tools": {"mode": "mock", "mocks": "b.yml"}}, ["tools.mocks: a.yml > b.yml"]),
        (
            {"tools": {"mode": "replay"}},
            {"tools": {"mode": "replay", "cassettes": "mine"}},
            ["tools.cassettes: tool-cassettes > mine"],
        ),
        ({}, {"tools": {"mode": "live", "cassettes": "mine"}}, []),  # nobody reads them
    ],
)
def test_what_asks_for_less_than_the_base_is_told(
    tmp_path: Path, theirs: dict[str, Any], ours: dict[str, Any], told: list[str]
) -> None:
    found = baseline_rules.of_settings(choice(tmp_path / "base", **theirs), choice(tmp_path / "head", **ours))
    assert [f"{each.subject}: {each.base} > {each.head}" for each in found] == told


def test_the_place_in_evalgate_yml_is_told_however_it_is_written(tmp_path: Path) -> None:
    head = choice(tmp_path / "head", **{"skip-judged": True, "judge": {"min_kappa": 0.1, "calibration": "c"}})
    base = choice(tmp_path / "base", judge={"min_kappa": 0.5, "calibration": "c"}, runs=2)
    lines = {each.subject: each.place.line if each.place else None for each in baseline_rules.of_settings(base, head)}
    assert lines == {"runs": None, "skip_judged": 2, "judge.min_kappa": 4}


def suite(*codes: str, agent: str) -> Suite:
    return Suite(
        key="a.evalset.json",
        eval_set=EvalSet(eval_set_id="a", cases=()),
        criteria=tuple(CriterionUse(name=f"own {code}", threshold=0.5, code=code) for code in codes),
        criteria_source=CriteriaSource(origin=ConfigOrigin.BESIDE),
        agent=AgentUse(driver="adk", options={"path": agent}),
    )


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
def test_files_that_judge_or_answer_otherwise_are_told(tmp_path: Path, name: str, rules: dict[str, Any]) -> None:
    sides = [choice(tmp_path / side, **rules) for side in ("base", "head")]
    for side, text in zip(sides, ("as it was", "all is well"), strict=True):
        path = side.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    suites = (suite("metrics.own.score", "agent.mine.score", agent="agents/desk"),)
    (told,) = baseline_rules.of_settings(*sides, suites)
    assert told.subject == f"contents of {name}"
    assert told.base != told.head
    assert list(baseline_rules.of_settings(sides[0], sides[0], suites)) == []
    (sides[1].root / name).unlink()
    (told,) = baseline_rules.of_settings(*sides, suites)
    assert told.head == "no file"


def test_recorded_replies_may_lie_in_a_folder(tmp_path: Path) -> None:
    sides = [choice(tmp_path / side, judge={"client": "replay", "replay": "replies"}) for side in ("base", "head")]
    for side, label in zip(sides, ("invalid", "valid"), strict=True):
        path = side.root / "replies/deep/a.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text(label)
    assert [each.subject for each in baseline_rules.of_settings(*sides)] == ["contents of replies"]
    assert list(baseline_rules.of_settings(sides[0], sides[0])) == []


def test_what_a_change_may_have_any_number_of_is_told_last(tmp_path: Path) -> None:
    sides = [choice(tmp_path / "base"), choice(tmp_path / "head", seed=7)]
    for side in sides:
        (side.root / "metrics").mkdir()
        (side.root / "metrics/own.py").write_text(side.root.name)
    for number in range(3):
        (sides[1].root / f"metrics/a{number}.py").write_text("")
    entry = "- {{file: a.json, case: {}, owner: '@me', expires: 2999-01-01, reason: x}}\n"
    (sides[1].root / "evalgate-quarantine.yml").write_text("".join(map(entry.format, "ab")))
    suites = (suite("metrics.own.score", agent="bot"),)
    rules = BaseRules(suites=suites, policy=Policy())
    project = BaseProject(rules=rules, settings=sides[0], quarantine=quarantine.read(sides[0].root))
    base = Base(origin=BaseOrigin(source=BaseSource.RERUN), project=project)
    subjects = [each.subject for each in baseline_rules.of(sides[1], suites, base).relaxed]
    assert sorted(subjects[:2]) == ["contents of metrics/own.py", "seed"]
    assert len(subjects) == 7


@pytest.mark.parametrize(
    ("mode", "other", "told"),
    [
        ("replay", {}, True),
        ("live", {}, False),  # nobody reads them
        ("replay", {"cassettes": "mine"}, False),  # which the setting says
    ],
)
def test_when_a_cassette_counts(tmp_path: Path, mode: str, other: dict[str, str], told: bool) -> None:
    base = choice(tmp_path / "base", tools={"mode": mode})
    head = choice(tmp_path / "head", tools={"mode": mode, **other})
    for side, names in ((base, ("a", "b")), (head, ("a", "b", "new"))):
        for name in names:
            path = side.root / f"tool-cassettes/{name}.json"
            path.parent.mkdir(exist_ok=True)
            path.write_text("{}" if name == "b" else f'{{"side": "{side.root.name}"}}')
    subjects = [each.subject for each in baseline_rules.of_settings(base, head) if each.subject.startswith("contents")]
    assert subjects == (["contents of tool-cassettes/a.json"] if told else [])  # a new one is of a new case


def test_other_recordings_of_an_agent_are_told(tmp_path: Path) -> None:
    base, head = choice(tmp_path / "base"), choice(tmp_path / "head")
    for side, text in ((base, "{}"), (head, '{"better": true}')):
        (side.root / "kept").mkdir()
        (side.root / "kept/a.session.json").write_text(text)
    uses = [AgentUse(driver=driver, options={"path": "kept"}) for driver in ("replay", "adk")]
    for use, expected in zip(uses, (["recordings of kept"], []), strict=True):
        suites = (dataclasses.replace(suite(agent="kept"), agent=use),)
        assert [each.subject for each in baseline_rules.of_settings(base, head, suites)] == expected
        assert list(baseline_rules.of_settings(base, base, suites)) == []


@pytest.mark.parametrize(
    ("name", "is_told"),
    [
        ("metrics/own.py", True),
        ("metrics/helper.py", True),  # beside the metric
        ("metrics/tables/words.py", True),  # in its package
        ("metrics/__init__.py", True),
        ("metrics/new.py", True),
        ("agents/desk/lists.py", True),  # beside a metric in the agent's folder
        ("agents/desk/agent.py", False),  # what is tested
        ("agents/desk/sub/agent.py", False),
        ("shared/rules.py", True),  # what the metric imports
        ("shared/limits.py", True),  # and what that imports
        ("shared/words.py", False),  # what the agent alone imports
        ("top.py", False),
        ("metrics/words.txt", False),
    ],
)
def test_what_lies_beside_a_metric_is_told(tmp_path: Path, name: str, is_told: bool) -> None:
    sides = [choice(tmp_path / side) for side in ("base", "head")]
    kept = ("metrics/own", "metrics/helper", "agents/desk/mine", "agents/desk/agent", "agents/desk/lists", "top")
    says = {
        "metrics/own": "from shared import rules\nfrom agents.desk import agent",
        "shared/rules": "def _():\n    from .limits import MOST",
        "agents/desk/agent": "import shared.words",
    }
    for side in sides:
        for each in (*kept, "shared/rules", "shared/limits", "shared/words"):
            (side.root / each).parent.mkdir(parents=True, exist_ok=True)
            (side.root / f"{each}.py").write_text(says.get(each, ""))
    suites = (suite("metrics.own.score", "agent.mine.score", "a/b.c", "..x", "a" * 300, agent="agents/desk"),)
    assert list(baseline_rules.of_settings(*sides, suites)) == []
    (sides[1].root / name).parent.mkdir(parents=True, exist_ok=True)
    (sides[1].root / name).write_text("def score(*_): return 1.0")
    assert [each.subject for each in baseline_rules.of_settings(*sides, suites)] == [f"contents of {name}"] * is_told


def test_beside_a_module_of_its_own_is_its_folder(tmp_path: Path) -> None:
    sides = [choice(tmp_path / side) for side in ("base", "head")]
    for side in sides:
        (side.root / "own.py").write_text("")
    (sides[1].root / "rouge_score.py").write_text("")
    (told,) = baseline_rules.of_settings(*sides, (suite("own.score", agent="agents/desk"),))
    assert (told.subject, told.base) == ("contents of rouge_score.py", "no file")


TOLD_ELSEWHERE = {
    "criteria": "criterion by criterion",
    "agent": "the agents of the suites",
    **dict.fromkeys(("fail_on", "threshold", "alpha", "max_drop", "pass_rate", "min_measured"), "with the policy"),
    "adk_compat": "with the policy",
    "agents": "which agent each suite has",
    "suites": "criterion by criterion, and with the policy",
    "compare": "with the policy",
    "simulator": "by suite, and with its criteria",
    "exclude": "evaluation files that are gone",
    "judge.model": "with each criterion's options",
    "judge.config": "with each criterion's options",
    "judge.num_samples": "with each criterion's options",
    "judge.exhaustive": "with each criterion's options",
    "judge.criteria": "with each criterion's options",
    "tools.mode": "below, since a door may set it as well",
    "tools.cassettes": "below, where the mode uses them",
    "tools.mocks": "below, where the mode uses them",
}
"""What else can weaken the gate, and where that is told."""

NOT_WEAKER = {
    **dict.fromkeys(("concurrency", "workers", "isolation"), "how fast, not what is asked"),
    **dict.fromkeys(
        ("turn_timeout", "case_timeout", "start_timeout", "memory", "max_output"),
        "what they stop is not measured, never passed or failed",
    ),
    "retries": "for lost connections; an answer is never asked for again",
    **dict.fromkeys(("env", "python", "requirements"), "what the agent is, which is what is tested"),
    "name": "under which name the verdict is shown",
    **dict.fromkeys(("comment", "check_run"), "a change cannot have less told by them"),
    **dict.fromkeys(("durations", "output"), "how parts are cut, and where files go"),
    **dict.fromkeys(("judge.api_key_env", "judge.record"), "whose account pays, and what is kept"),
    **dict.fromkeys(("judge.timeout", "judge.calls_at_once"), "how fast, not what is asked"),
}
"""What cannot weaken the gate, and why."""


def test_no_setting_and_no_rule_is_forgotten() -> None:
    """A new one has to be put where it belongs: told, told elsewhere, or unable to weaken anything."""
    known = set(config.names_with(settings.Settings, config.Door.FILE))
    known |= set(GateFile.model_fields) - {"judge", "tools"}
    known |= {f"judge.{name}" for name in JudgeRule.model_fields}
    known |= {f"tools.{name}" for name in ToolsRule.model_fields}
    tables = [
        set(baseline_rules.WEAKER_SETTINGS),
        {f"judge.{name}" for name in baseline_rules.WEAKER_JUDGE},
        set(TOLD_ELSEWHERE),
        set(NOT_WEAKER),
    ]
    assert set().union(*tables) == known
    assert sum(map(len, tables)) == len(known), "one place each"


def test_the_rules_of_an_agent_and_of_a_suite_are_those_that_are_looked_at() -> None:
    """What `told elsewhere` relies on: the keys of these rules, and what says which agent it is."""
    assert set(gate_file.SuiteRule.model_fields) == {"match", "criteria", "config", "pass_rate", "severity"}
    assert set(gate_file.CompareRule.model_fields) == {"gating", "lower_is_better", "max_drop"}
    assert all(driver.argument in driver.identity for driver in agents.DRIVERS.values())
