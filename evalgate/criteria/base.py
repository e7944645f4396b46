"""The shapes of a criterion and of what the world offers it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel

from evalgate.agents.base import MetricRunner
from evalgate.judges.base import JudgePanel
from evalgate.model import CriterionUse, Evidence, Grade


class Need(enum.StrEnum):
    """What a criterion cannot do without; the linter checks these before anything is spent."""

    REFERENCE = "reference"  # expected invocations
    SCENARIO = "scenario"  # a conversation scenario
    RUBRICS = "rubrics"  # rubrics on the criterion, the case or an invocation
    JUDGE = "judge"  # a model
    VERTEX = "vertex"  # Google Cloud's evaluation service


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionServices:
    """What the world offers a criterion.

    `run_metric` None: the agent's driver cannot run custom metrics. `judge` None: the user wants no judged criterion
    measured; one that needs a judge is then `NotEvaluated(SKIPPED)`.
    """

    adk_compat: bool = False
    run_metric: MetricRunner | None = None
    judge: JudgePanel | None = None


class Criterion(Protocol):
    """A criterion with its options, ready to grade; safe to call from many threads."""

    def __call__(self, evidence: Evidence) -> Grade:
        """Grade one trial. What cannot be judged is NotEvaluated with its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """The yes or no that a criterion's judge model says, which a person can say as well.

    `labels`: its words, and which of them are a yes. `prompt_version`: of the question. `unit`: what one verdict is
    about within a turn (`rubric`, `sentence`), empty: the turn itself. `whole`: it is about the conversation.
    """

    labels: Mapping[str, bool]
    prompt_version: str
    unit: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionSpec:
    """One row of `evalgate.criteria.CRITERIA`.

    `options`: shape of the object form without its threshold (unknown keys refused there).
    `lowest`, `highest`: ends of the scale, None where open. `summary`: one line for reports and docs.
    `build(options, use, services)` makes the criterion. `verdicts`: None where no judge model says yes or no.
    `resolution`: a difference between two sides that measuring itself may make. `clocked`: read from a clock, which
    goes differently on another machine or at another time.
    """

    name: str
    summary: str
    options: type[BaseModel]
    build: Callable[[Any, CriterionUse, CriterionServices], Criterion]
    lowest: float | None = 0.0
    highest: float | None = 1.0
    needs: frozenset[Need] = frozenset()
    informational: bool = False
    lower_is_better: bool = False
    ours: bool = False
    verdicts: Verdicts | None = None
    resolution: float = 0.0
    clocked: bool = False
