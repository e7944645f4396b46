"""The types of a criterion and of the services that it may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, TypeAlias

from pydantic import BaseModel

from evalgate.agents.base import MetricRunner
from evalgate.judges.base import JudgePanel
from evalgate.model import CriterionUse, Grade, Need, Rubric, Scale, TrialView
from evalgate.model.deviations import OURS, Deviations
from evalgate.model.shapes import Wire
from evalgate.values import frozen_dataclass


@frozen_dataclass
class CriterionServices:
    """The services that a criterion may use.

    `run_metric` None: the agent's driver cannot run custom metrics. `judge` None: the user skips
    judged criteria, so that a criterion with a judge is `NotEvaluated(SKIPPED)`."""

    deviations: Deviations = OURS
    run_metric: MetricRunner | None = None
    judge: JudgePanel | None = None


class NoOptions(Wire):
    """The object form with at most a threshold."""


Criterion: TypeAlias = Callable[[TrialView], Grade]
"""A criterion with its options, ready to grade one trial. Thread-safe. A trial that cannot be
graded is NotEvaluated with its reason."""


@frozen_dataclass
class Verdicts:
    """The yes-or-no verdicts of a criterion's judge model, which humans can give too.

    `labels`: the possible words, True for a yes. `prompt_version`: the version of the question.
    `unit`: the part of a turn that a verdict is about (`rubric`, `sentence`); empty: the whole
    turn. `rubrics`: those of the criterion itself. `is_of_conversation`: verdicts are about the
    conversation."""

    labels: Mapping[str, bool]
    prompt_version: str
    unit: str = ""
    rubrics: tuple[Rubric, ...] = ()
    is_of_conversation: bool = False


@frozen_dataclass
class CriterionSpec:
    """One row of `evalgate.criteria.CRITERIA`.

    `options`: shape of the object form without its threshold (unknown keys are errors). `summary`:
    one line for reports and docs. `build(options, use, services)` makes the criterion. `verdicts`:
    None if no judge model gives yes-or-no verdicts. `either_way`: high and low scores may both be
    good."""

    name: str
    summary: str
    options: type[BaseModel]
    build: Callable[[Any, CriterionUse, CriterionServices], Criterion]
    scale: Scale = field(default_factory=Scale)
    needs: frozenset[Need] = frozenset()
    informational: bool = False
    lower_is_better: bool = False
    either_way: bool = False
    is_beyond_adk: bool = False
    verdicts: Verdicts | None = None


def with_facts(use: CriterionUse, spec: CriterionSpec, **fields: Any) -> CriterionUse:
    """The use with the facts of its row, and with other `fields`."""
    version = "" if spec.verdicts is None else spec.verdicts.prompt_version
    scale = spec.scale if use.code is None else use.scale  # a custom metric's own
    return replace(use, scale=scale, needs=spec.needs, prompt_version=version, **fields)
