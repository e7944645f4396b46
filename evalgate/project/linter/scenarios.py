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
                f"{finding.named([case])}: the starting prompt is empty, so that the agent is told nothing",
                place=finding.place_of(suite, case),
            )
        elif signal.lower() in scenario.starting_prompt.lower():
            yield finding.error(
                "stop-signal-in-prompt",
                f"{finding.named([case])}: the starting prompt holds the stop signal `{signal}`, so that ADK ends the "
                "conversation before the agent is asked",
                place=finding.place_of(suite, case),
            )
    silent = [case for case, scenario in led if not scenario.conversation_plan.strip()]
    if silent:
        yield finding.warning(
            "empty-plan",
            f"{finding.named(silent)}: the conversation plan is empty, so that the simulated user knows nothing to say",
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
            hint="ADK refuses such instructions, too: say there who the user is, or take the personas out.",
        )


def stop_signals_differ(suite: Suite, setting: Setting) -> Iterator[Problem]:
    """A criterion that judges the end by another signal than the one that ends conversations."""
    for use in finding.uses_needing(suite, Need.SCENARIO, setting):
        own = use.options.get("stop_signal")
        if own is not None and own != suite.simulator.stop_signal:
            yield finding.warning(
                "stop-signals-differ",
                f"`{use.name}` takes `{own}` for the stop signal, the simulated user `{suite.simulator.stop_signal}`",
                place=use.place or Place(file=suite.key),
                hint="Leave `stop_signal` out of the criterion: it is then the simulated user's.",
            )
