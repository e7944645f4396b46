"""What a criterion says of a trial: a score, or why there is none."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


class Reason(enum.StrEnum):
    """Why a criterion could not be evaluated."""

    AGENT_FAILED = "agent_failed"
    REFERENCE_MISSING = "reference_missing"
    NOT_APPLICABLE = "not_applicable"
    NOTHING_RECORDED = "nothing_recorded"  # the evidence lacks what the criterion measures (no usage, no timings)
    TURNS_MISSING = "turns_missing"  # the agent gave fewer or more turns than the case has
    CRITERION_FAILED = "criterion_failed"  # the criterion itself raised or answered nonsense
    JUDGE_UNAVAILABLE = "judge_unavailable"  # the judge gave no reply: out of reach, refused, budget spent
    JUDGE_UNREADABLE = "judge_unreadable"  # it replied, but with none of the labels
    SKIPPED = "skipped"  # the user asked for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One explanation behind a score; `turn` counts from 1, None speaks of the whole conversation."""

    text: str
    turn: int | None = None
    label: str = ""
    score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A number on the criterion's own scale; `turns` one value an invocation, None where not evaluated.

    `breakdown` holds named parts (token kinds, seconds by phase). `passed`: what a custom metric said of its own
    score; the gate compares scores, and the criterion refuses one that contradicts its own word.
    """

    value: float
    turns: tuple[float | None, ...] = ()
    breakdown: Mapping[str, float] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    passed: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotEvaluated:
    """There is no score, and this is why; neither 0.0 nor a pass."""

    reason: Reason
    message: str
    turns: tuple[float | None, ...] = ()


Grade: TypeAlias = Score | NotEvaluated
