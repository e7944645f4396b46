"""Every row of the settings' tables: each fact is said, and what is said to reach an agent or a
score counts."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import typing
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from evalgate import config
from evalgate.agents import toolbox
from evalgate.config import Decider, Door, Heading, Trait, load
from evalgate.config.context import Context
from evalgate.config.gate_file import GateFile, JudgeRule, SimulatorRule, SuiteRule
from evalgate.config.settings import OF_AGENTS, Settings, input_name
from evalgate.config.variables import AgentVariables
from evalgate.criteria import judges
from evalgate.discovery import project
from evalgate.judges import rate_limit
from evalgate.model import TrialKey
from evalgate.results import run_parts
from evalgate.results.journal import Journal
from evalgate.runner import inputs as runner_inputs
from evalgate.runner.session import Checkout, Session, Side
from evalgate.runner.trials import Task

TABLES: Mapping[str, type[BaseModel]] = {
    "": Settings,
    "file": GateFile,
    "judge": JudgeRule,
    "simulator": SimulatorRule,
    "suites": SuiteRule,
}
ROWS = [(section, name) for section, table in TABLES.items() for name in config.rows(table)]
REACHES = Trait.AGENT | Trait.MEASUREMENT


def row(section: str, name: str) -> FieldInfo:
    return TABLES[section].model_fields[name]


@pytest.mark.parametrize(("section", "name"), ROWS)
def test_every_row_says_every_fact_once(section: str, name: str) -> None:
    kinds = (Door, Heading) if section == "" else ()
    for kind in (Decider, Trait, *kinds):
        is_for_help = kind is not Heading or Door.CLI in config.fact(row(section, name), Door)
        assert sum(isinstance(mark, kind) for mark in row(section, name).metadata) == is_for_help


def test_what_is_no_row_comes_along() -> None:
    carried = {
        name
        for table in TABLES.values()
        for name in table.model_fields.keys() - config.rows(table).keys()
    }
    assert carried == {"gate_file", "problems", "explicit_options", "places"}


def test_a_row_that_does_not_say_is_an_error() -> None:
    class Table(BaseModel):
        width: int = dataclasses.field(default=1)

    Table.model_fields["width"].description = "How wide."
    with pytest.raises(ValueError, match="unpack"):
        config.names_with(Table, Trait.PATH)


def test_what_no_file_can_hold_a_door_decides() -> None:
    """Or it says which part of what both ask is looked at."""
    at_doors = set(config.rows(Settings)) - {*config.names_with(Settings, Door.FILE)}
    deciders = {config.fact(row("", name), Decider) for name in at_doors - {"tools"}}
    assert deciders == {Decider.DOOR, Decider.EITHER}


def test_the_page_on_stored_results_names_what_reaches_an_agent() -> None:
    page = (Path(__file__).parents[2] / "docs/baseline.md").read_text(encoding="utf-8")
    words = " ".join(page.replace("`", "").split())
    names = words.partition("same settings that reach it (")[2].partition(")")[0]
    assert sorted(names.split(", ")) == sorted(map(input_name, OF_AGENTS))


# --- what stands in for a run --------------------------------------------------------------------

CASE = {
    "eval_id": "written",
    "conversation": [
        {"user_content": {"parts": [{"text": "hi"}]}, "final_response": {"parts": [{"text": "hi"}]}}
    ],
}
SCENARIO = {
    "eval_id": "simulated",
    "conversation_scenario": {"starting_prompt": "hi", "conversation_plan": "Say hi, then stop."},
}
CRITERIA = {
    "criteria": {
        "response_match_score": 0.5,
        "final_response_match_v2": {
            "threshold": 0.5,
            "judge_model_options": {"judge_model": "gemini-2.5-flash"},
        },
    }
}
OTHER = {"criteria": {"final_response_match_v2": 0.5}}
REPLY = {"address": "0" * 16}

VALUES: Mapping[tuple[str, str], Any] = {
    ("", "paths"): "a.evalset.json",
    ("", "grep"): "hi",
    ("", "root"): "../copy",
    ("", "config"): "other.yml",
    ("", "criteria"): "other.json",
    ("", "agent"): "bot2",
    ("", "alpha"): 0.1,
    ("", "max_drop"): 0.2,
    ("", "pass_rate"): 0.5,
    ("", "min_measured"): 0.5,
    ("", "baseline"): "none",
    ("", "shard"): "1/2",
    ("", "python"): "3.12",
    ("", "env"): "DATABASE_URL",
    ("", "runs"): "2",
    ("", "budget"): "usd=2",
    ("", "fail_on"): "threshold",
    ("file", "agents"): [{"path": "bot2"}],
    ("file", "suites"): [{"match": ["**"], "criteria": OTHER["criteria"]}],
    ("file", "judge"): {"model": "gemini-2.5-pro"},
    ("file", "simulator"): {"model": "gemini-2.5-pro"},
    ("file", "compare"): {"response_match_score": {"gating": False}},
    ("file", "tools"): {"mode": "mock", "mocks": "mocks.yml"},
    ("file", "exclude"): ["nothing/**"],
    ("judge", "criteria"): {"final_response_match_v2": {"model": "gemini-2.5-pro"}},
    ("judge", "config"): {"temperature": 0.5},
    ("judge", "model"): "gemini-2.5-pro",
    ("judge", "base_url"): "http://127.0.0.1:8080/v1",
    ("judge", "replay"): "replies.jsonl",
    ("judge", "budget"): {"calls": 3},
    ("judge", "min_kappa"): 0.5,
    ("judge", "exhaustive"): True,
    ("simulator", "config"): {"temperature": 0.5},
    ("suites", "match"): ["other/**"],
    ("suites", "criteria"): OTHER["criteria"],
    ("suites", "config"): "other.json",
    ("suites", "pass_rate"): 0.5,
    ("suites", "severity"): "advisory",
}


def value_of(section: str, name: str) -> Any:
    """One that is not the default."""
    if (section, name) in VALUES:
        return VALUES[section, name]
    field = row(section, name)
    kinds = [
        kind
        for kind in (field.annotation, *typing.get_args(field.annotation))
        if kind is not type(None)
    ]
    options = [
        option
        for kind in kinds
        if typing.get_origin(kind) is Literal
        for option in typing.get_args(kind)
    ]
    if options:
        return next(option for option in options if option not in ("", field.default))
    if isinstance(field.default, bool):
        return not field.default
    if kinds[0] in (int, float) or int in kinds or float in kinds:
        return (field.default or 0) + 1
    return "other"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in (tmp_path / "repository", tmp_path / "copy"):
        for name in ("bot", "bot2"):
            (folder / name).mkdir(parents=True)
            (folder / name / "agent.py").write_text("root_agent = None\n")
            (folder / name / "__init__.py").write_text("from . import agent\n")
        cases = {"eval_set_id": "a", "eval_cases": [CASE, SCENARIO]}
        (folder / "a.evalset.json").write_text(json.dumps(cases))
        more = {"eval_set_id": "b", "eval_cases": [{**CASE, "eval_id": "another"}]}
        (folder / "b.evalset.json").write_text(json.dumps(more))
        (folder / "test_config.json").write_text(json.dumps(CRITERIA))
        (folder / "other.json").write_text(json.dumps(OTHER))
        (folder / "other.yml").write_text("agents: [{path: bot}]")
        (folder / "replies.jsonl").write_text(json.dumps(REPLY))
        (folder / "mocks.yml").write_text("")
    return tmp_path / "repository"


def settings_of(root: Path, given: Mapping[str, Any], file: Mapping[str, Any]) -> Settings:
    (root / "evalgate.yml").write_text(yaml.safe_dump({"agents": [{"path": "bot"}], **file}))
    return load.load_settings({**given, "root": root / given.get("root", "")})


def standing(settings: Settings, journal: Journal) -> dict[str, dict[Trait, object]]:
    """By case, what has to be equal for what an agent did, and for its grades, to stand in for a
    run."""
    suites = project.prepare(settings, environ={}).suites
    services: dict[str, Any] = {
        "limiters": rate_limit.limiters_for(judges.defaults_of(settings), rate_limit.Clock()),
        "context": Context(
            environ={}, cache=settings.root, moment=datetime(2026, 1, 1, tzinfo=UTC)
        ),
    }
    session = Session(settings, panel=None, **services)
    tools = toolbox.fingerprint(settings, settings.root)
    inputs: Any = None  # nothing is run
    checkout = Checkout(root=settings.root, suites=suites)
    side = Side(session, checkout, agents={}, criteria={}, inputs=inputs, journal=journal)
    environment = AgentVariables(environ={"DATABASE_URL": "x"}, names=settings.env).environment()
    agent: Any = SimpleNamespace(about=lambda: {"python": "3"}, description=lambda: None)
    around = runner_inputs.environment_of(
        agent, settings, environment=environment, tools=tools, key=b"k"
    )
    tasks = (
        Task(key=TrialKey(suite=suite.key, case_id=case.case_id), suite=suite, case=case)
        for suite in suites
        for case in suite.eval_set.cases
    )
    return {
        task.case.case_id: {
            Trait.AGENT: (side.addresses(task)[0], around),
            Trait.MEASUREMENT: {
                key: each for key, each in side.criterion_prints.items() if key[0] == task.suite.key
            },
        }
        for task in tasks
    }


def changed(root: Path, section: str, name: str) -> tuple[Settings, Settings]:
    """Settings without the row, and with another value of it."""
    value = value_of(section, name)
    if section == "":
        before: dict[str, Any] = {"agent": "bot"}
        return settings_of(root, before, {}), settings_of(root, {**before, name: value}, {})
    if section == "file":
        return settings_of(root, {}, {}), settings_of(root, {}, {name: value})
    rule = (
        {"match": ["**"], "criteria": {"response_match_score": 0.5}} if section == "suites" else {}
    )
    if name == "config":
        rule.pop("criteria", None)
    wrap = (lambda each: [each] if each else []) if section == "suites" else (lambda each: each)
    return settings_of(root, {}, {section: wrap(rule)}), settings_of(
        root, {}, {section: wrap({**rule, name: value})}
    )


@pytest.mark.parametrize(("section", "name"), ROWS)
def test_what_reaches_an_agent_or_a_score_lets_nothing_else_stand_in(
    root: Path, section: str, name: str
) -> None:
    """And what reaches neither costs no run again."""
    with contextlib.closing(Journal.create(root / "journal.jsonl", about={})) as journal:
        before, after = (standing(each, journal) for each in changed(root, section, name))
    both = before.keys() & after.keys()
    assert both, "there is something to compare"
    facts = config.fact(row(section, name), Trait)
    for trait in (Trait.AGENT, Trait.MEASUREMENT):
        assert any(before[case][trait] != after[case][trait] for case in both) is (
            trait in facts
        ), trait


@pytest.mark.parametrize(
    ("section", "name"),
    [each for each in ROWS if config.fact(row(*each), Trait) & REACHES and each[0] != "simulator"],
)
def test_shards_that_ran_agents_otherwise_are_of_different_plans(
    root: Path, section: str, name: str
) -> None:
    plans = set()
    for settings in changed(root, section, name):
        part = run_parts.find_part(
            settings.model_copy(update={"shard": "1/2"}),
            project.prepare(settings, environ={}).suites,
        )
        plans.add(part.fingerprint)
    assert len(plans) == 2
