"""Who plays the simulated users of a run, what is missing for it, and what a poor one or an endless one means."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final

from evalgate import criteria, judges, simulation
from evalgate.config.gate_file import SimulatorRule
from evalgate.config.settings import Settings
from evalgate.criteria.base import Need
from evalgate.errors import Problem, Severity
from evalgate.judges import models as model_names
from evalgate.judges import opening
from evalgate.judges.base import JudgeDefaults, JudgePanel
from evalgate.model import Case, CriterionUse, Json, SimulatorUse, Suite, TrialKey
from evalgate.pipeline.talking import Simulate
from evalgate.plugins import SimulatorServices, UserSimulator

ENDED: Final = "conversation_ended"
ADK_CONFIG: Final[Json] = {"thinking_config": {"include_thoughts": True, "thinking_budget": 10240}}
"""ADK's `model_configuration` where none is written; only Gemini takes it."""

REPEATS: Final = 10_000_000
"""More than any run has, so that each seed has draws of its own."""


def settle(suites: Iterable[Suite], settings: Settings) -> tuple[Suite, ...]:
    """The suites with scenarios, told who plays the user and what its faults mean; the others as they are."""
    return tuple(_settle(suite, settings) if has_scenarios(suite) else suite for suite in suites)


def has_scenarios(suite: Suite) -> bool:
    """Whether any case of a suite is led by a simulated user."""
    return any(case.scenario is not None for case in suite.eval_set.cases)


def simulator_models(suites: Iterable[Suite]) -> tuple[str, ...]:
    """Every model that plays users in the settled suites, once."""
    return tuple(dict.fromkeys(suite.simulator.model for suite in suites if has_scenarios(suite)))


def missing(suites: Iterable[Suite], defaults: JudgeDefaults, environ: Mapping[str, str]) -> list[Problem]:
    """A problem for each model that could not be asked to play a user. Asks nobody."""
    found = opening.missing(simulator_models(suites), drivers=judges.JUDGES, defaults=defaults, environment=environ)
    hint = "Fix its configuration, or use recordings (evalgate.yml: `judge: {replay: FILE}`)."
    return [
        Problem(
            severity=Severity.ERROR,
            code="simulator-credentials",
            message=f"simulated user `{model}`: {said}",
            hint=hint,
        )
        for model, said in found.items()
    ]


def simulation_of(panel: JudgePanel | None, settings: Settings) -> Simulate:
    """Makes the user of each trial; without a panel those of scenarios say that nobody may be asked."""

    def simulate(suite: Suite, case: Case, key: TrialKey) -> UserSimulator:
        draw = settings.seed * REPEATS + key.repeat
        services = SimulatorServices(panel=panel, draw=draw, adk_compat=settings.adk_compat)
        return simulation.begin(case, suite.simulator, services)

    return simulate


def _settle(suite: Suite, settings: Settings) -> Suite:
    rule = settings.gate_file.simulator
    simulator = _overridden(suite.simulator, rule, client=settings.gate_file.judge.client)
    compat = settings.adk_compat
    uses = [
        _on_the_test(use, simulator, by_policy=not compat and rule.on_poor_quality == "not_measured")
        for use in suite.criteria
    ]
    on_limit = "pass" if compat else rule.on_turn_limit
    if not any(use.name == ENDED for use in uses):
        first_informational = next((place for place, use in enumerate(uses) if use.informational), len(uses))
        uses.insert(first_informational, CriterionUse(name=ENDED, threshold=1.0))
    ended = [_ended(use, on_limit) if use.name == ENDED and use.code is None else use for use in uses]
    return dataclasses.replace(suite, simulator=simulator, criteria=tuple(ended))


def _overridden(use: SimulatorUse, rule: SimulatorRule, *, client: str) -> SimulatorUse:
    model = rule.model or use.model
    asked_by = client if client in ("gemini", "openai") else model_names.parse_name(model).client
    written: Mapping[str, Any] | None = use.config
    if written is None:
        written = ADK_CONFIG if asked_by == "gemini" else {}
    limit = rule.max_allowed_invocations
    max_turns = use.max_turns if limit is None else None if limit < 0 else limit
    return dataclasses.replace(use, model=model, config={**written, **(rule.config or {})}, max_turns=max_turns)


def _on_the_test(use: CriterionUse, simulator: SimulatorUse, *, by_policy: bool) -> CriterionUse:
    """A criterion of the simulated user, judged by its stop signal; below its threshold the test was broken."""
    spec = criteria.pick(use.name, use.code)
    if spec is None or Need.SCENARIO not in spec.needs:
        return use
    options = {"stop_signal": simulator.stop_signal, **use.options}
    return dataclasses.replace(use, options=options, on_the_test=by_policy)


def _ended(use: CriterionUse, on_limit: str) -> CriterionUse:
    if on_limit == "pass":
        return dataclasses.replace(use, threshold=None, informational=True)
    return dataclasses.replace(use, on_the_test=on_limit == "not_measured")
