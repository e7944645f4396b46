"""The shapes of a criterion and of what the world offers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, Protocol

from pydantic import BaseModel

from evalgate.agents.base import MetricRunner
from evalgate.judges.base import JudgePanel
from evalgate.model import CriterionUse, Grade, Need, Scale, TrialView
from evalgate.model.deviations import OURS, Deviations
from evalgate.model.shapes import Wire
from evalgate.values import frozen_dataclass


@frozen_dataclass
class CriterionServices:
    """What the world offers a criterion.

    `run_metric` None: the agent's driver cannot run custom metrics. `judge` None: the user wants no
    judged criterion measured; one that needs a judge is then `NotEvaluated(SKIPPED)`."""

    deviations: Deviations = OURS
    run_metric: MetricRunner | None = None
    judge: JudgePanel | None = None


class NoOptions(Wire):
    """No options except a threshold, if it has one."""


class Criterion(Protocol):
    """A criterion with its options, ready to grade; safe to call from many threads."""

    def __call__(self, evidence: TrialView) -> Grade:
        """Grade one trial. What cannot be judged is NotEvaluated with its reason."""


@frozen_dataclass
class Verdicts:
    """The yes or no that a criterion's judge model says, which a person can say as well.

    `labels`: its words, and which of them are a yes. `prompt_version`: of the question. `unit`:
    what one verdict is about within a turn (`rubric`, `sentence`), empty: the turn itself.
    `is_of_conversation`: it is about the conversation."""

    labels: Mapping[str, bool]
    prompt_version: str
    unit: str = ""
    is_of_conversation: bool = False


@frozen_dataclass
class CriterionSpec:
    """One row of `evalgate.criteria.CRITERIA`.

    `options`: shape of the object form without its threshold (unknown keys are refused). `summary`:
    one line for reports and docs. `build(options, use, services)` makes the criterion. `verdicts`:
    None if no judge model says yes or no. `either_way`: either end may be good."""

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


def with_facts(use: CriterionUse, spec: CriterionSpec) -> CriterionUse:
    """The use with what its row says of it, so that nobody asks the table again."""
    version = "" if spec.verdicts is None else spec.verdicts.prompt_version
    scale = spec.scale if use.code is None else use.scale  # a custom metric's own
    return replace(use, scale=scale, needs=spec.needs, prompt_version=version)
