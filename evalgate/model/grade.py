"""What a criterion says of a trial: a score, or why there is none."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

MOST: Final = 1e100
"""No score is further from 0: the squares of a million such numbers can still be added."""


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
    CREDENTIALS_MISSING = "credentials_missing"  # the judge refused whoever asked, or cannot be asked at all
    RUBRICS_MISSING = "rubrics_missing"  # there is no rubric to judge by
    SIMULATOR_FAILED = "simulator_failed"  # the simulated user gave no message
    TEST_BROKEN = "test_broken"  # the simulated user did not do what the scenario says
    SKIPPED = "skipped"  # the user asked for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What one sample of a judge, counted from 0, said of a finding's subject.

    `label` empty: nothing that could be read; `text` then says what went wrong. `cached`: it was not asked anew.
    """

    sample: int
    label: str = ""
    text: str = ""
    cached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One explanation behind a score; `turn` counts from 1, None speaks of the whole conversation.

    `subject`: what it speaks of within the turn, as a rubric or a sentence; empty: all of it. `opinions`: the samples
    that a judge was asked for; `spared`: further ones that could not have changed the outcome.
    """

    text: str
    turn: int | None = None
    label: str = ""
    score: float | None = None
    subject: str = ""
    opinions: tuple[Opinion, ...] = ()
    spared: int = 0


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

    @property
    def is_number(self) -> bool:
        """Whether it is one that a mean can be taken of; what a metric or a file calls a score may be anything."""
        return -MOST <= self.value <= MOST


@dataclass(frozen=True, slots=True, kw_only=True)
class NotEvaluated:
    """There is no score, and this is why; neither 0.0 nor a pass. `turns`, `findings`: what is known all the same."""

    reason: Reason
    message: str
    turns: tuple[float | None, ...] = ()
    findings: tuple[Finding, ...] = ()


Grade: TypeAlias = Score | NotEvaluated
