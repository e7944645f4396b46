"""What the gate says, and by which rules."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from evalgate.model.grade import Reason


class VerdictKind(enum.StrEnum):
    """The four verdicts; they stay apart in every report."""

    PASS = "pass"  # noqa: S105 - a verdict, no password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"  # the data cannot tell
    NOT_MEASURED = "not_measured"  # something was broken


class FailOn(enum.StrEnum):
    """What can end the job red."""

    THRESHOLD = "threshold"  # cases below their thresholds
    REGRESSION = "regression"  # head is worse than base
    NOT_MEASURED = "not_measured"
    INCONCLUSIVE = "inconclusive"


class ThresholdRule(enum.StrEnum):
    """Which cases below their thresholds fail the gate where there is a base."""

    ALL = "all"
    NEW = "new"  # those that the base passes, confirmed by fresh runs


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionRule:
    """How one criterion is compared with the base; None: as the criterion itself has it.

    `max_drop`: on the criterion's scale 0..1; a share of the base's mean for open scales (tokens, seconds, calls).
    """

    gating: bool | None = None
    lower_is_better: bool | None = None
    max_drop: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules of the gate.

    `fail_on`: what ends the job red. `pass_rate`: share of a suite's cases that must pass (1.0 is ADK's meaning: all).
    `min_measured`: share of a suite's cases that must have been measured. `alpha`: how often a comparison may be
    wrong by chance. `max_drop`: the drop that is let pass. `confirm`: fresh runs of both sides that must agree before a
    failure counts as new. `advisory`: suites that are shown and never decide. `admission`: base runs that a case must
    have been reliable in before it decides; 0 asks for none. `adk_compat`: ADK's arithmetic even where ADK is wrong
    (docs/adk-parity.md).
    """

    fail_on: frozenset[FailOn] = frozenset({FailOn.THRESHOLD, FailOn.REGRESSION, FailOn.NOT_MEASURED})
    pass_rate: float = 1.0
    min_measured: float = 1.0
    suite_pass_rate: Mapping[str, float] = field(default_factory=dict)
    adk_compat: bool = False
    alpha: float = 0.05
    max_drop: float = 0.05
    threshold: ThresholdRule = ThresholdRule.ALL
    confirm: int = 2
    advisory: frozenset[str] = frozenset()
    criteria: Mapping[str, CriterionRule] = field(default_factory=dict)
    admission: int = 0


class GateKind(enum.StrEnum):
    """The two questions of the gate."""

    THRESHOLD = "threshold"  # is head good enough?
    REGRESSION = "regression"  # is head worse than base?


@dataclass(frozen=True, slots=True, kw_only=True)
class GateVerdict:
    """The answer to one of the two questions. `blocked_by`: the most severe of the kinds for which the policy ends the
    job red, where one of them is there. That may be another than `kind`: a failure hides nothing."""

    gate: GateKind
    kind: VerdictKind
    reason: str
    blocked_by: VerdictKind | None = None

    @property
    def blocks(self) -> bool:
        """Whether the policy ends the job red for it."""
        return self.blocked_by is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionVerdict:
    """One criterion of one case over its repeats.

    `value`: mean over the repeats that have a score; None where none has. `values`: one entry a repeat.
    `kind` is None for informational criteria, which never decide.
    """

    name: str
    kind: VerdictKind | None
    value: float | None
    threshold: float | None
    values: tuple[float | None, ...] = ()
    reason: Reason | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseVerdict:
    """One case: fail if any criterion fails, else not measured if any could not be, else pass.

    `doubtful`: it was not measured whole, and some of what was is below a threshold. `partial`: it fails, and some of
    it could not be measured. `admitted` False: it is shown and decides nothing yet (`admission`). `excused`: it fails,
    and the comparison with the base lets that pass (`threshold: new`).
    """

    suite: str
    case_id: str
    kind: VerdictKind
    criteria: tuple[CriterionVerdict, ...]
    reason: str = ""
    seconds: float = 0.0
    doubtful: bool = False
    partial: bool = False
    admitted: bool = True
    excused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteVerdict:
    """One suite: its cases, and the share of them that passed among those measured. `beside`: kinds that are there as
    well, behind the one that is told."""

    suite: str
    kind: VerdictKind
    cases: tuple[CaseVerdict, ...]
    required_pass_rate: float = 1.0
    reason: str = ""
    advisory: bool = False
    beside: frozenset[VerdictKind] = frozenset()

    def count(self, kind: VerdictKind) -> int:
        """How many cases ended as `kind`."""
        return sum(1 for case in self.cases if case.kind is kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer: one kind, one sentence, whether the policy ends the job red, and the answers that it is made of.

    `blocked_by`: the most severe of the kinds that end the job red. `suites`: the threshold gate's word on every suite
    and case.
    """

    kind: VerdictKind
    reason: str
    blocked_by: VerdictKind | None = None
    suites: tuple[SuiteVerdict, ...] = ()
    gates: tuple[GateVerdict, ...] = ()

    @property
    def blocks(self) -> bool:
        """Whether the policy fails the job."""
        return self.blocked_by is not None

    def count(self, kind: VerdictKind) -> int:
        """How many cases ended as `kind`, over all suites."""
        return sum(suite.count(kind) for suite in self.suites)
