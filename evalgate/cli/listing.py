"""`evalgate list`: what would run, and what it would cost at the least."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from evalgate import agents, cli
from evalgate.cli import commands
from evalgate.config import load
from evalgate.config.settings import Settings
from evalgate.errors import ExitCode
from evalgate.gate import prepare
from evalgate.model import AgentUse, Case, ConfigOrigin, CriterionUse, Invocation, Need, Suite, ToolCall
from evalgate.text import plain, words

# -- How many model calls a run will make at the least --


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A lower bound for an agent that does what its cases expect: it calls its model once a turn, and once more after
    each step of tool calls. `judge_calls`: each judged criterion asks one question of a trial or more, and of every
    question as many samples as can decide it; replies that are cached cost none.
    """

    cases: int
    trials: int
    turns: int
    model_calls: int
    judge_calls: int = 0


def estimate(suite: Suite, *, repeats: int = 1, skip_judged: bool = False, all_samples: bool = False) -> Estimate:
    """Trials, turns and calls of a suite run `repeats` times; a scenario counts as one turn. `all_samples`: no judge
    stops early, as under `adk-compat`."""
    cases = suite.eval_set.cases
    asking = [use for use in suite.criteria if use.is_judged and not skip_judged]
    questions = sum(_samples(use, all_samples=all_samples) for use in asking)
    return Estimate(
        cases=len(cases),
        trials=len(cases) * repeats,
        turns=sum(1 if case.conversation is None else len(case.conversation) for case in cases) * repeats,
        model_calls=sum(map(_calls, cases)) * repeats,
        judge_calls=questions * len(cases) * repeats,
    )


def _calls(case: Case) -> int:
    return 1 if case.conversation is None else sum(1 + _steps(turn) for turn in case.conversation)


def _steps(turn: Invocation) -> int:
    """Expected events that call tools: calls of one event are made together."""
    return sum(_calls_tools(event.content.parts) for event in turn.events or () if event.content is not None)


def _calls_tools(parts: Iterable[object]) -> bool:
    return any(isinstance(part, ToolCall) for part in parts)


def _samples(use: CriterionUse, *, all_samples: bool) -> int:
    """How often a judge is asked one question at the least; half of the samples decide where all agree."""
    written = use.options.get("judge_model_options")
    samples = written.get("num_samples") if isinstance(written, Mapping) else None
    if Need.VERTEX in use.needs or not isinstance(samples, int):
        return 1
    return samples if all_samples or use.options.get("exhaustive") else -(-samples // 2)


@click.command("list")
@commands.options(*commands.SELECTING)
@click.option("--cases/--no-cases", "with_cases", default=True, help="Show the cases of each suite.")
def command(with_cases: bool, **values: Any) -> None:
    """Show suites, cases, criteria, agents and the minimum number of model calls; makes none."""
    sys.exit(cli.guarded(lambda: show(commands.given(values), with_cases=with_cases), debug=False))


def show(given: dict[str, Any], *, with_cases: bool) -> int:
    """Print the suites; exit code 2 where a run would be refused. Raises EvalgateError."""
    settings = load.load_settings(given)
    prepared = prepare.prepare(settings, environ=os.environ)
    for suite in prepared.suites:
        for line in suite_lines(suite, estimated(suite, settings), with_cases=with_cases):
            click.echo(plain.visible(line))
    total = [estimated(suite, settings) for suite in prepared.suites]
    judge_calls = sum(each.judge_calls for each in total)
    asked = f", {judge_calls:,} judge calls (cached replies are free)" if judge_calls else ""
    click.echo(
        f"{words.counted(len(prepared.suites), 'suite')}, {words.counted(sum(each.cases for each in total), 'case')}, "
        f"{words.counted(sum(each.trials for each in total), 'trial')}, "
        f"at least {words.counted(sum(each.model_calls for each in total), 'model call')} of the agents{asked}"
    )
    for line in more_lines(settings, trials=sum(each.trials for each in total)):
        click.echo(line)
    cli.show_problems(prepared.problems)
    return ExitCode.CONFIG if prepared.stops(strict=settings.strict) else ExitCode.PASS


def more_lines(settings: Settings, *, trials: int) -> list[str]:
    """What may come on top: the base's side, further runs where outcomes differ, fresh runs of new failures."""
    runs, lines = settings.runs, []
    most = trials // runs.start * runs.most
    # as `wiring.bases`: without a base that somebody names there is none at a desk, and the event's in a workflow
    compared = settings.baseline == "rerun" or (settings.baseline == "auto" and bool(settings.base))
    if compared:
        lines.append(f"with the base: {2 * trials:,} trials in all, minus those with stored results")
    if runs.more:
        sides = 2 if compared else 1
        each = "on each side, " if compared else ""
        lines.append(
            f"for flaky cases: {words.counted(runs.more, 'further run')} of it, {each}{most * sides:,} trials at most"
        )
    if settings.threshold == "new" and compared:
        lines.append(f"each new failure: at least {words.counted(settings.confirm, 'rerun')} on both sides")
    if str(settings.budget):
        lines.append(f"budget for both sides together: {settings.budget}")
    return lines


def estimated(suite: Suite, settings: Settings) -> Estimate:
    """What a suite costs at the least under the settings."""
    return estimate(
        suite, repeats=settings.runs.start, skip_judged=settings.skip_judged, all_samples=settings.adk_compat
    )


def suite_lines(suite: Suite, expected: Estimate, *, with_cases: bool) -> list[str]:
    """A suite in a few lines."""
    source = suite.criteria_source
    where = "ADK's defaults" if source.origin is ConfigOrigin.DEFAULTS else f"{source.file} ({source.origin.value})"
    found_by = f" ({suite.agent.found_by})" if suite.agent.found_by else ""
    deciding = ", ".join(_criterion(use) for use in suite.criteria if not use.informational)
    judges = f" and {words.counted(expected.judge_calls, 'judge call')}" if expected.judge_calls else ""
    size = f"{expected.cases}, {words.counted(expected.turns, 'turn')}"
    lines = [
        suite.key,
        f"  agent     {suite.agent.driver} {named(suite.agent)}{found_by}",
        f"  criteria  {deciding}, from {where}",
        f"  cases     {size}, at least {words.counted(expected.model_calls, 'model call')}{judges}",
    ]
    if with_cases:
        lines += [f"    - {case.case_id} ({_turns(case.conversation)})" for case in suite.eval_set.cases]
    return lines


def named(agent: AgentUse) -> str:
    """What tells an agent from others of its driver: its command, its address, its function or its folder."""
    driver = agents.DRIVERS.get(agent.driver)
    return "" if driver is None else driver.label(agent.options)


def _turns(conversation: tuple[Any, ...] | None) -> str:
    return "scenario" if conversation is None else words.counted(len(conversation), "turn")


def _criterion(use: CriterionUse) -> str:
    sign = "<=" if use.lower_is_better else ">="
    return use.name if use.threshold is None else f"{use.name} {sign} {use.threshold:g}"
