"""The types of a criterion and of the services that it may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
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
    """The services that a criterion may use."""

    deviations: Deviations = OURS
    run_metric: MetricRunner | None = None
    """None: the agent's driver cannot run custom metrics."""
    judge: JudgePanel | None = None
    """None: the user skips judged criteria, so that a criterion with a judge is
    `NotEvaluated(SKIPPED)`."""


class NoOptions(Wire):
    """The object form with at most a threshold."""


Criterion: TypeAlias = Callable[[TrialView], Grade]
"""A criterion with its options, ready to grade one trial. Thread-safe. A trial that cannot be
graded is NotEvaluated with its reason."""


@frozen_dataclass
class Verdicts:
    """The yes-or-no verdicts of a criterion's judge model, which humans can give too."""

    labels: Mapping[str, bool]
    """The possible words, True for a yes."""
    prompt_version: str
    """The version of the question."""
    unit: str = ""
    """The part of a turn that a verdict is about (`rubric`, `sentence`); empty: the whole turn."""
    rubrics: tuple[Rubric, ...] = ()
    """Those of the criterion itself."""
    is_of_conversation: bool = False
    """True if verdicts are about the conversation."""


@frozen_dataclass
class CriterionSpec:
    """One row of `evalgate.criteria.CRITERIA`."""

    name: str
    summary: str
    """One line for reports and docs."""
    options: type[BaseModel]
    """The shape of the object form without its threshold; unknown keys are errors."""
    build: Callable[[Any, CriterionUse, CriterionServices], Criterion]
    """Makes the criterion from its options, its use and the services."""
    scale: Scale = field(default_factory=Scale)
    needs: frozenset[Need] = frozenset()
    informational: bool = False
    lower_is_better: bool = False
    either_way: bool = False
    """True if high and low scores may both be good."""
    is_beyond_adk: bool = False
    """True if ADK does not have the criterion."""
    verdicts: Verdicts | None = None
    """None if no judge model gives yes-or-no verdicts."""
