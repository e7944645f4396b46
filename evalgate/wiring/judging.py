"""Which judge each criterion asks, what is missing to ask it, and the panel that is opened for a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from evalgate import criteria, judges
from evalgate.config.gate_file import JudgeOptionsRule, JudgeRule
from evalgate.errors import Problem, Severity
from evalgate.judged import settling
from evalgate.judging import governors, opening
from evalgate.judging import models as model_names
from evalgate.judging.budget import Limits
from evalgate.judging.clock import SystemClock
from evalgate.judging.governors import Governors
from evalgate.judging.options import JudgeDefaults, JudgeOptions
from evalgate.judging.panel import VotingPanel
from evalgate.model import CriterionUse, Suite
from evalgate.plugins import Need
from evalgate.wiring import simulating
from evalgate.wiring.choosing import Choice


def defaults_of(choice: Choice) -> JudgeDefaults:
    """What evalgate.yml says of judges; its paths made absolute."""
    rule = choice.gate_file.judge
    return JudgeDefaults(
        options=_options(rule),
        criteria={name: _options(own) for name, own in rule.criteria.items()},
        client=rule.client or ("replay" if rule.replay else ""),
        base_url=rule.base_url,
        api_key_env=rule.api_key_env,
        replay=str(choice.root / rule.replay) if rule.replay else "",
        record=str(choice.root / rule.record) if rule.record else "",
        timeout_s=rule.timeout,
        calls_at_once=rule.calls_at_once,
        deadline_s=rule.deadline,
        limits=Limits(calls=rule.budget.calls, tokens=rule.budget.tokens, cost_usd=rule.budget.usd),
    )


def settle(suites: Iterable[Suite], defaults: JudgeDefaults) -> tuple[Suite, ...]:
    """The suites with the judge that each criterion will ask written into its options."""
    return tuple(
        dataclasses.replace(suite, criteria=tuple(_settle(use, defaults) for use in suite.criteria)) for suite in suites
    )


def names_elsewhere(rule: JudgeRule) -> bool:
    """Whether evalgate.yml says where judges are asked, so that the usual variables need not be there."""
    return bool(rule.client or rule.base_url or rule.api_key_env or rule.replay)


def missing(suites: Iterable[Suite], defaults: JudgeDefaults, environ: Mapping[str, str]) -> list[Problem]:
    """A problem for each judge that could not be asked."""
    found = opening.missing(judge_models(suites), drivers=judges.JUDGES, defaults=defaults, environment=environ)
    hint = "Give it what it needs, answer from recordings (`judge: {replay: FILE}`), or leave it out: --skip-judged."
    return [
        Problem(severity=Severity.ERROR, code="credentials-missing", message=f"judge `{model}`: {said}", hint=hint)
        for model, said in found.items()
    ]


def governors_of(choice: Choice) -> Governors:
    """The governors of a run, one a provider, for its agents and its judges."""
    return governors.paced_by(defaults_of(choice), SystemClock())


@contextmanager
def opened_panel(
    choice: Choice,
    suites: Iterable[Suite],
    *,
    environ: Mapping[str, str],
    cache: Path,
    say: Callable[[str], None],
    governed: Governors | None = None,
) -> Iterator[VotingPanel | None]:
    """The panel of a run; None where nobody is to be asked, neither to judge nor to play a user."""
    listed = tuple(suites)
    models = (*(() if choice.settings.skip_judged else judge_models(listed)), *simulating.simulator_models(listed))
    if not models:
        yield None
        return
    panel = opening.open_panel(
        models,
        drivers=judges.JUDGES,
        defaults=defaults_of(choice),
        environment=environ,
        cache=cache / "verdicts",
        warn=say,
        governed=governed,
    )
    try:
        yield panel
    finally:
        panel.close()


def judge_models(suites: Iterable[Suite]) -> tuple[str, ...]:
    """Every model that the settled criteria of the suites ask, once."""
    asked = [model for suite in suites for use in suite.criteria if (model := _model(use)) is not None]
    return tuple(dict.fromkeys(asked))


def _settle(use: CriterionUse, defaults: JudgeDefaults) -> CriterionUse:
    spec = criteria.pick(use.name, use.code)
    if use.code is not None or spec is None:
        return use
    return settling.settle(use, spec, defaults)


def _model(use: CriterionUse) -> str | None:
    spec = criteria.pick(use.name, use.code)
    if spec is None or spec.needs.isdisjoint({Need.JUDGE, Need.VERTEX}):
        return None
    if Need.VERTEX in spec.needs and use.options.get("judge") != "llm":
        return f"{model_names.EVALUATION}/{use.name}"
    return str(use.options["judge_model_options"]["judge_model"])


def _options(rule: JudgeOptionsRule) -> JudgeOptions:
    return JudgeOptions(model=rule.model, config=rule.config, num_samples=rule.num_samples, exhaustive=rule.exhaustive)
