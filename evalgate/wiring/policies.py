"""The rules of the gate: the settings and the suites' own rules as one Policy."""

from __future__ import annotations

from collections.abc import Iterable

from evalgate.model import CriterionRule, FailOn, Policy, Suite, ThresholdRule
from evalgate.project import globs
from evalgate.wiring.choosing import Choice


def policy_of(choice: Choice, suites: Iterable[Suite]) -> Policy:
    """The policy for these suites; of several rules in evalgate.yml that match one, the last wins."""
    settings = choice.settings
    rates: dict[str, float] = {}
    advisory: set[str] = set()
    for suite in suites:
        for rule in choice.gate_file.suites:
            if not globs.matches(suite.key, rule.match):
                continue
            if rule.pass_rate is not None:
                rates[suite.key] = rule.pass_rate
            if rule.severity is not None:
                (advisory.add if rule.severity == "advisory" else advisory.discard)(suite.key)
    return Policy(
        fail_on=frozenset(FailOn(word) for word in settings.fail_on),
        pass_rate=settings.pass_rate,
        min_measured=settings.min_measured,
        suite_pass_rate=rates,
        adk_compat=settings.adk_compat,
        alpha=settings.alpha,
        max_drop=settings.max_drop,
        threshold=ThresholdRule(settings.threshold),
        confirm=settings.confirm,
        advisory=frozenset(advisory),
        criteria={
            name: CriterionRule(gating=rule.gating, lower_is_better=rule.lower_is_better, max_drop=rule.max_drop)
            for name, rule in choice.gate_file.compare.items()
        },
        admission=settings.admission,
    )
