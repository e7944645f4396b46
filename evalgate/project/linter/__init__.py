"""The vacuous-gate linter: what evaluation files and criteria say that cannot mean what their author wants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from evalgate.criteria.base import CriterionSpec
from evalgate.errors import Problem
from evalgate.model import Suite
from evalgate.project.linter import cases, expectations, scenarios, sets
from evalgate.project.linter.finding import Setting

SuiteCheck = Callable[[Suite, Setting], Iterator[Problem]]
SuitesCheck = Callable[[tuple[Suite, ...]], Iterator[Problem]]

CHECKS: tuple[SuiteCheck, ...] = (
    sets.no_cases,
    sets.set_id_not_file_name,
    cases.duplicate_ids,
    cases.identical_cases,
    cases.empty_conversations,
    cases.empty_user_texts,
    scenarios.starting_prompts,
    scenarios.instructions_without_persona,
    scenarios.stop_signals_differ,
    expectations.nothing_expected,
    expectations.references_missing,
    expectations.reference_on_scenario,
    expectations.scenario_criterion_on_static_case,
    expectations.nothing_to_end,
    expectations.rubrics_missing,
    expectations.metrics_not_run,
)
"""What is looked for in each suite, in the order it is told."""

CROSS_CHECKS: tuple[SuitesCheck, ...] = (sets.duplicate_set_ids,)
"""What is looked for across suites."""


def lint(
    suites: Iterable[Suite],
    *,
    specs: Mapping[str, CriterionSpec],
    metricless: frozenset[str] = frozenset(),
    adk_compat: bool = False,
) -> tuple[Problem, ...]:
    """Everything suspicious in `suites`, in their order; linear in cases and turns.

    `metricless`: names of the agent drivers that run no custom metrics. `adk_compat`: as the setting. Criteria that are
    no row of `specs` are passed over here: `config.criteria` tells of them.
    """
    every = tuple(suites)
    setting = Setting(specs=specs, metricless=metricless, adk_compat=adk_compat)
    problems = [problem for suite in every for check in CHECKS for problem in check(suite, setting)]
    problems.extend(problem for check in CROSS_CHECKS for problem in check(every))
    return tuple(problems)
