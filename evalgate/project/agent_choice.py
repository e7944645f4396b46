"""The agent of every suite: as evalgate.yml says, else as found, and what to tell where neither helps."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from evalgate import agents
from evalgate.config import globs
from evalgate.config.gate_file import AgentRule, GateFile
from evalgate.errors import Place, Problem, Severity
from evalgate.model import AgentUse, EvalSet
from evalgate.project import agent_finding
from evalgate.project.agent_finding import Absent, AgentFolders, Ambiguous, Found, ReadSource
from evalgate.text import words

UNKNOWN = AgentUse(
    driver=agents.DEFAULT, options={agents.DRIVERS[agents.DEFAULT].argument: "."}, found_by="nothing found"
)
"""Stands in where no agent was found: the problem beside it is an error, so that it never runs."""

CODES = frozenset({"no-agent", "ambiguous-agent", "app-name-unmatched", "mixed-app-names"})
"""Of all problems that finding an agent may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChoices:
    """The agent by suite key; `problems` in the order of the keys."""

    by_key: Mapping[str, AgentUse]
    problems: tuple[Problem, ...]


def choose_agents(
    sets: Mapping[str, EvalSet], *, gate_file: GateFile, files: Mapping[str, frozenset[str]], read: ReadSource
) -> AgentChoices:
    """A rule of the gate file wins (of several the last); one of the default driver without an agent only adds options.

    `files`: names of possible agent files by folder. Nothing is imported.
    """
    folders = AgentFolders(files=files, read=read)
    argument = agents.DRIVERS[agents.DEFAULT].argument
    by_key: dict[str, AgentUse] = {}
    problems: list[Problem] = []
    absent: list[str] = []
    for key in sorted(sets):
        rule, said_by = _last_rule(key, gate_file)
        use = None if rule is None else agents.rule_use(rule)
        if use is not None and (use.driver != agents.DEFAULT or argument in use.options):
            by_key[key] = dataclasses.replace(use, found_by=said_by)
            continue
        app_name, case_id, told = _app_name(key, sets[key])
        problems.extend(told)
        finding = agent_finding.find_agent(key, folders=folders, app_name=app_name, named_by=case_id)
        by_key[key] = UNKNOWN
        match finding:
            case Found(folder=folder, found_by=found_by):
                options = {**(rule.options if rule else {}), argument: folder}
                by_key[key] = AgentUse(driver=agents.DEFAULT, options=options, found_by=found_by)
                if app_name and folder != "." and folder.rpartition("/")[2] != app_name:
                    problems.append(agent_finding.unmatched_name_problem(key, app_name=app_name, finding=finding))
            case Ambiguous():
                problems.append(agent_finding.ambiguous_problem(key, finding))
            case Absent():
                absent.append(key)
            case _:
                assert_never(finding)
    if absent:
        problems.append(agent_finding.absent_problem(absent))
    return AgentChoices(by_key=by_key, problems=tuple(problems))


def _last_rule(key: str, gate_file: GateFile) -> tuple[AgentRule | None, str]:
    for index in reversed(range(len(gate_file.agents))):
        rule = gate_file.agents[index]
        if globs.matches(key, rule.suites):
            return rule, f"evalgate.yml agents[{index}]"
    return None, ""


def _app_name(key: str, eval_set: EvalSet) -> tuple[str, str, list[Problem]]:
    """The app that the file's sessions name, the case that names it first, and a warning where there are several."""
    named: dict[str, str] = {}
    for case in eval_set.cases:
        if case.session is not None and case.session.app_name:
            named.setdefault(case.session.app_name, case.case_id)
    if not named:
        return "", "", []
    app_name, case_id = next(iter(named.items()))
    if len(named) == 1:
        return app_name, case_id, []
    problem = Problem(
        severity=Severity.WARNING,
        code="mixed-app-names",
        message=f"the file's sessions name {len(named)} apps: {words.listed(named)}; only the first ({app_name}) is "
        f"used for the whole file",
        place=Place(file=key),
        hint="Split the file by agent, or set the agent in evalgate.yml.",
    )
    return app_name, case_id, [problem]
