"""Fingerprints of tasks, cases, trials, criteria and agents: short texts, equal for equal
values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from evalgate import values
from evalgate.model import (
    Case,
    CaseKey,
    CriterionUse,
    SimulatorUse,
    Suite,
)
from evalgate.model.deviations import Deviations
from evalgate.values import JsonObject
from . import adk_shapes

VERSION = 1
"""Increase it whenever a change of evalgate makes earlier transcripts or grades incomparable."""


digest = values.digest


def of_task(
    case: Case, *, simulator: SimulatorUse | None = None, of_any_agent: bool = False
) -> str:
    """The fingerprint of the agent's input: its session, and the user's turns or the scenario with
    its simulated user. References do not count. `of_any_agent`: neither does the agent's name."""
    turns = case.conversation and [
        adk_shapes.content_json(turn.user_content) for turn in case.conversation
    ]
    session = case.session
    scenario = case.scenario
    use = simulator or SimulatorUse()
    start = session and [
        "" if of_any_agent else session.app_name,
        session.user_id,
        session.session_id,
        dict(session.state),
    ]
    context: JsonObject = {}
    if case.setups:
        context["setups"] = [dataclasses.asdict(setup) for setup in case.setups]
    if case.isolated:  # expected turns are then part of the agent's input
        context["before"] = [adk_shapes.invocation_json(turn) for turn in case.turns[:-1]]
    script = scenario and [
        [scenario.starting_prompt, scenario.conversation_plan],
        scenario.persona and dataclasses.astuple(scenario.persona),
        [
            use.model,
            use.config,
            use.max_turns,
            use.custom_instructions,
            use.include_function_calls,
            use.stop_signal,
        ],
        use.prompt_version,
        *([] if scenario.max_turns is None else [scenario.max_turns]),
        *([use.endpoint] if use.endpoint else []),
    ]
    return digest({"session": start, "turns": turns, "scenario": script, **context})


def of_case(case: Case, *, task: str = "", simulator: SimulatorUse | None = None) -> str:
    """A digest of all that a criterion may see of the case, with references and rubrics. `task`: if
    it is known; else `simulator` is as in `of_task`."""
    if case.fingerprint:
        return case.fingerprint
    expected = case.conversation and [
        adk_shapes.invocation_json(turn) for turn in case.conversation
    ]
    rubrics = [adk_shapes.rubric_json(rubric) for rubric in case.rubrics]
    task = task or of_task(case, simulator=simulator)
    seen: JsonObject = {
        "task": task,
        "expected": expected,
        "rubrics": rubrics,
        "state": case.expects_state,
    }
    if case.ces is not None:
        seen["ces"] = case.ces
    if case.extras:
        seen["extras"] = case.extras
    return digest(seen)


class CaseFingerprints:
    """The fingerprints of cases that are asked by their suites' simulated users, each computed
    once."""

    def __init__(self) -> None:
        self._known: dict[CaseKey, tuple[str, str]] = {}

    def find(self, suite: Suite, case: Case) -> tuple[str, str]:
        """`of_task` and `of_case`."""
        key = suite.key, case.case_id
        if key not in self._known:
            task = of_task(case, simulator=suite.simulator)
            self._known[key] = task, of_case(case, task=task)
        return self._known[key]

    def of_cases(self, suites: Iterable[Suite]) -> dict[CaseKey, str]:
        """`of_case` for every case."""
        return {
            (suite.key, case.case_id): self.find(suite, case)[1]
            for suite in suites
            for case in suite.cases
        }


def of_criterion(use: CriterionUse, *, version: str, deviations: Deviations) -> str:
    """The fingerprint of a criterion's measurement. Its threshold is not included, because it does
    not change a score; the name of a custom metric is, because the base's code of a metric that the
    change edits scores under another name."""
    endpoints = [use.endpoint] if use.endpoint else []
    return digest(
        [
            VERSION,
            use.name if use.code else use.metric or use.name,
            dict(use.options),
            use.code,
            version,
            deviations.is_adk_compat,
            *endpoints,
        ]
    )
