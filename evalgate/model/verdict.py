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


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules of the gate.

    `blocks_on`: verdicts that end the job red. `pass_rate`: share of a suite's cases that must pass (1.0 is
    ADK's meaning: all). `min_measured`: share of a suite's cases that must have been measured.
    `adk_compat`: ADK's arithmetic even where ADK is wrong (docs/adk-parity.md).
    """

    blocks_on: frozenset[VerdictKind] = frozenset({VerdictKind.FAIL, VerdictKind.NOT_MEASURED})
    pass_rate: float = 1.0
    min_measured: float = 1.0
    suite_pass_rate: Mapping[str, float] = field(default_factory=dict)
    adk_compat: bool = False


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
    """One case: fail if any criterion fails, else not measured if any could not be, else pass."""

    suite: str
    case_id: str
    kind: VerdictKind
    criteria: tuple[CriterionVerdict, ...]
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteVerdict:
    """One suite: its cases, and the share of them that passed among those measured."""

    suite: str
    kind: VerdictKind
    cases: tuple[CaseVerdict, ...]
    required_pass_rate: float = 1.0
    reason: str = ""

    def count(self, kind: VerdictKind) -> int:
        """How many cases ended as `kind`."""
        return sum(1 for case in self.cases if case.kind is kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer: one kind, one sentence, and whether the policy ends the job red."""

    kind: VerdictKind
    reason: str
    blocks: bool
    suites: tuple[SuiteVerdict, ...] = ()

    def count(self, kind: VerdictKind) -> int:
        """How many cases ended as `kind`, over all suites."""
        return sum(suite.count(kind) for suite in self.suites)
