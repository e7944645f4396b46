"""What the last runs of the base branch say of each case and criterion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple, TypeAlias

from pydantic import Field

from evalgate.model.run import Count
from evalgate.model.trial import MOST

Mean: TypeAlias = Annotated[float, Field(ge=-MOST, le=MOST)]


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
class PastRun:
    """A run of the base branch; `number` counts all there ever were, from 1."""

    number: Count
    commit: str
    at: str
    means: Mapping[str, Mean] = field(default_factory=dict)


class PastOutcome(NamedTuple):
    """What a case did in the run of this number: repeats that passed, that were measured, that were asked for."""

    number: Count
    passes: Count
    measured: Count
    runs: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseHistory:
    """Outcomes of a case, oldest first, since its content or its criteria were last changed."""

    suite: str
    case_id: str
    question: str = ""
    fingerprint: str
    outcomes: Annotated[tuple[PastOutcome, ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The last runs of the base branch, oldest first, and what their cases did."""

    runs: tuple[PastRun, ...] = ()
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
