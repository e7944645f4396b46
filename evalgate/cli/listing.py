"""`evalgate list`: what would run, and what it would cost at the least."""

from __future__ import annotations

import os
from typing import Any

import click

from evalgate import agents, cli
from evalgate.cli import commands
from evalgate.config import load
from evalgate.config.settings import Settings
from evalgate.errors import ExitCode
from evalgate.gate import prepare
from evalgate.gate.prepare import Estimate
from evalgate.model import AgentUse, ConfigOrigin, CriterionUse, Suite
from evalgate.text import plain, words


@click.command("list")
@commands.options(*commands.SELECTING)
@click.option(
    "--cases/--no-cases", "with_cases", default=True, help="Show the cases of each suite."
)
@cli.ends
def command(with_cases: bool, **values: Any) -> int:
    """Show suites, cases, criteria, agents and the minimum number of model calls; makes none."""
    settings = load.load_settings(commands.explicit_options(values))
    prepared = prepare.prepare(settings, environ=os.environ, unrun_suffices=True)
    estimates = [prepare.estimate(suite, settings) for suite in prepared.suites]
    for suite, expected in zip(prepared.suites, estimates, strict=True):
        for line in suite_lines(suite, expected, with_cases=with_cases):
            click.echo(plain.visible(line))
    measured_files = {suite.key for suite in prepared.suites}
    for line in (
        line
        for library in prepared.libraries
        for line in library.lines(measured_files=measured_files)
    ):
        click.echo(plain.visible(line))
    cases = sum(estimate.cases for estimate in estimates)
    trials = sum(estimate.trials for estimate in estimates)
    judge_calls = sum(estimate.judge_calls for estimate in estimates)
    judge_note = f", {judge_calls:,} judge calls (cached replies are free)" if judge_calls else ""
    click.echo(
        f"{words.counted(len(estimates), 'suite')}, {words.counted(cases, 'case')}, {words.counted(trials, 'trial')}, "
        f"at least {words.counted(sum(estimate.model_calls for estimate in estimates), 'agent model call')}{judge_note}"
    )
    for line in more_lines(settings, trials=trials) if estimates else ():
        click.echo(line)
    cli.show_problems(prepared.all_problems())
    return ExitCode.CONFIG if prepared.stops(strict=settings.strict) else ExitCode.PASS


def more_lines(settings: Settings, *, trials: int) -> list[str]:
    """The possible extra cost: the base's side, and reruns of failures."""
    lines = []
    # without a named base, only a workflow has one: the event's
    has_base = settings.baseline == "rerun" or (settings.baseline == "auto" and bool(settings.base))
    if has_base:
        lines.append(
            f"with the base: {2 * trials:,} trials in total, fewer where stored results are used"
        )
    reruns = prepare.reruns(load.policy_of(settings, ()), has_base=has_base)
    if reruns and (has_base or settings.confirm):
        lines.append(reruns)
    if str(settings.budget):
        lines.append(f"budget for both sides together: {settings.budget}")
    return lines


def suite_lines(suite: Suite, estimate: Estimate, *, with_cases: bool) -> list[str]:
    """A suite in a few lines."""
    source = suite.criteria_source
    origin = "the defaults" if source.origin is ConfigOrigin.DEFAULTS else source.file
    found_by = f" ({suite.agent.found_by})" if suite.agent.found_by else ""
    deciding_text = ", ".join(_criterion(use) for use in suite.criteria if not use.informational)
    judges = (
        f" and {words.counted(estimate.judge_calls, 'judge call')}" if estimate.judge_calls else ""
    )
    size = f"{estimate.cases} ({words.counted(estimate.turns, 'turn')})"
    lines = [
        suite.key,
        f"  agent     {suite.agent.driver} {agent_label(suite.agent)}{found_by}",
        f"  criteria  {deciding_text or 'none'}, from {origin}",
        f"  cases     {size}, at least {words.counted(estimate.model_calls, 'model call')}{judges}",
    ]
    if with_cases:
        for case in suite.eval_set.cases:
            turns = (
                "scenario"
                if case.conversation is None
                else words.counted(len(case.conversation), "turn")
            )
            lines.append(f"    - {case.case_id} ({turns})")
    return lines


def agent_label(agent: AgentUse) -> str:
    """The label that distinguishes an agent from others of its driver: its command, its address,
    its function or its folder."""
    driver = agents.DRIVERS.get(agent.driver)
    return "" if driver is None else driver.label(agent.options)


def _criterion(use: CriterionUse) -> str:
    sign = "<=" if use.lower_is_better else ">="
    return use.name if use.threshold is None else f"{use.name} {sign} {use.threshold:g}"
