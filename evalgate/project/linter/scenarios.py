"""Checks of conversation scenarios: what would end them before they begin, or leave their user without a word."""

from __future__ import annotations

from collections.abc import Iterator

from evalgate.criteria.base import Need
from evalgate.errors import Place, Problem
from evalgate.model import Suite
from evalgate.project.linter import finding
from evalgate.project.linter.finding import Setting
from evalgate.prompts import templates


def starting_prompts(suite: Suite, _: Setting) -> Iterator[Problem]:
    """A scenario whose first message is empty, or is the end already."""
    signal = suite.simulator.stop_signal
    led = [(case, case.scenario) for case in suite.eval_set.cases if case.scenario is not None]
    for case, scenario in led:
        if not scenario.starting_prompt.strip():
            yield finding.error(
                "empty-starting-prompt",
                f"{finding.named([case])}: the starting prompt is empty",
                place=finding.place_of(suite, case),
            )
        elif signal.lower() in scenario.starting_prompt.lower():
            yield finding.error(
                "stop-signal-in-prompt",
                f"{finding.named([case])}: the starting prompt contains the stop signal `{signal}`, so ADK ends the "
                f"conversation before the agent is called",
                place=finding.place_of(suite, case),
            )
    silent = [case for case, scenario in led if not scenario.conversation_plan.strip()]
    if silent:
        yield finding.warning(
            "empty-plan",
            f"{finding.named(silent)}: the conversation plan is empty, so the simulated user has nothing to say",
            place=finding.place_of(suite, silent[0]),
        )


def instructions_without_persona(suite: Suite, _: Setting) -> Iterator[Problem]:
    """Custom instructions that never say who the user is, where a scenario has a persona."""
    template = suite.simulator.custom_instructions
    played = [case for case in suite.eval_set.cases if case.scenario is not None and case.scenario.persona is not None]
    if template is not None and played and "persona" not in templates.names_in(template):
        yield finding.error(
            "bad-instructions",
            f"the custom instructions never use `{{{{ persona }}}}`, and {finding.named(played)} "
            f"{'has' if len(played) == 1 else 'have'} a persona",
            place=suite.simulator.place or Place(file=suite.key),
            hint="ADK rejects such instructions, too: use the persona, or remove it from the cases.",
        )


def stop_signals_differ(suite: Suite, setting: Setting) -> Iterator[Problem]:
    """A criterion that judges the end by another signal than the one that ends conversations."""
    for use in finding.uses_needing(suite, Need.SCENARIO, setting):
        own = use.options.get("stop_signal")
        if own is not None and own != suite.simulator.stop_signal:
            yield finding.warning(
                "stop-signals-differ",
                f"`{use.name}` uses the stop signal `{own}`, the simulated user `{suite.simulator.stop_signal}`",
                place=use.place or Place(file=suite.key),
                hint="Remove `stop_signal` from the criterion; it defaults to the simulated user's.",
            )
