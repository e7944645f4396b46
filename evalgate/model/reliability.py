"""What base runs of the recent past say of each case: the reliability ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseTally:
    """One case in one run of the base branch: of `runs` repeats `measured` had an outcome, and `passes` passed.

    `question`: equal for equal content of the case. `fingerprint`: equal for an equal question and equal deciding
    criteria, thresholds included; outcomes of different ones are never counted together.
    """

    suite: str
    case_id: str
    question: str = ""
    fingerprint: str
    passes: int
    measured: int
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run of the base branch. `at`: ISO 8601, UTC; `means`: of each criterion, over the cases with a score."""

    commit: str
    at: str
    cases: tuple[CaseTally, ...]
    means: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRun:
    """A run that the ledger remembers; `number` counts all there ever were, from 1."""

    number: int
    commit: str
    at: str
    means: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastOutcome:
    """What a case did in the run of this number; otherwise as `CaseTally`."""

    number: int
    passes: int
    measured: int
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseHistory:
    """Outcomes of a case, oldest first, since its content or its criteria were last changed; `question` is "" where
    an earlier evalgate wrote it."""

    suite: str
    case_id: str
    question: str = ""
    fingerprint: str
    outcomes: tuple[PastOutcome, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityLedger:
    """The last runs of the base branch, oldest first, and what their cases did."""

    runs: tuple[LedgerRun, ...] = ()
    cases: tuple[CaseHistory, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A criterion's mean in the last runs of the base branch, oldest first, None where a run has none; and in this run.

    `since`, `until`: when the first and the last of them ran, ISO 8601, UTC.
    """

    criterion: str
    means: tuple[float | None, ...]
    now: float | None
    since: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """What a history says. Passes, failures and unmeasured count repeats; rates are None where nothing tells them.

    `pass_rate`: passes among measured repeats; `mixed_runs`: base runs whose repeats differed; `flips`: base runs whose
    outcome differed from the run before.
    """

    base_runs: int
    passes: int
    failures: int
    unmeasured: int
    pass_rate: float | None
    mixed_runs: int
    flips: int

    @property
    def is_flaky(self) -> bool:
        """Repeats of one run differed, or it flipped to and fro; a single flip may be a true change."""
        return self.mixed_runs > 0 or self.flips > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """All cases of the newest run: how many passed in every repeat, had no outcome in one, are flaky of late."""

    total: int
    passed: int
    unmeasured: int
    flaky: int
