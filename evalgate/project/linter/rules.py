"""Checks of the gate's own rules: settings and `suites` of evalgate.yml by which nothing can block."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from evalgate.config.gate_file import SuiteRule
from evalgate.config.settings import Settings
from evalgate.config.yaml import Locator
from evalgate.errors import Place, Problem
from evalgate.project.linter import finding


def lint_rules(
    settings: Settings, suites: Sequence[SuiteRule], *, given: Collection[str], places: Locator | None
) -> tuple[Problem, ...]:
    """Rules that assert nothing. `given`: names of settings that were typed, and stand in no file."""

    def place(*path: Any) -> Place | None:
        return None if places is None else places(*path)

    def of_setting(name: str) -> Place | None:
        if name in given or places is None:
            return None
        spellings = (places(each) for each in (name.replace("_", "-"), name))
        return next((each for each in spellings if each.json_path != "$"), None)

    return (
        *_no_case_has_to_pass(settings, suites, of_setting=of_setting, place=place),
        *_nothing_blocks(settings, of_setting),
    )


def _no_case_has_to_pass(
    settings: Settings,
    suites: Sequence[SuiteRule],
    *,
    of_setting: Callable[[str], Place | None],
    place: Callable[..., Place | None],
) -> Iterator[Problem]:
    """A pass rate of 0: where every case fails, the suite passes."""
    found: Mapping[str, Place | None] = {
        **({"pass-rate": of_setting("pass_rate")} if settings.pass_rate == 0 else {}),
        **{
            f"pass_rate of {', '.join(rule.match)}": place("suites", number, "pass_rate")
            for number, rule in enumerate(suites)
            if rule.pass_rate == 0 and rule.severity != "advisory"
        },
    }
    for name, where in found.items():
        yield finding.warning(
            "pass-rate-zero",
            f"`{name}` is 0, so no threshold can fail the gate",
            place=where,
            hint="Set the share that must pass; for suites that must not fail the gate use `severity: advisory`.",
        )


def _nothing_blocks(settings: Settings, of_setting: Callable[[str], Place | None]) -> Iterator[Problem]:
    """An empty `fail-on`: the job is green whatever the verdict."""
    if not settings.fail_on:
        yield finding.warning(
            "nothing-blocks",
            "`fail-on` is empty: the job always passes",
            place=of_setting("fail_on"),
            hint="List the results that fail the job: `threshold`, `regression`, `not_measured`, `inconclusive`.",
        )
