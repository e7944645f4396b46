"""A comparison as it stands in results.json: what the gate found; the base's trials have a file of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, Field

from evalgate.errors import Place
from evalgate.model import (
    Arm,
    BaseOrigin,
    BaseSource,
    CaseComparison,
    Change,
    Comparison,
    CriterionComparison,
    FailureOrigin,
    Interval,
    Loosening,
    LooseningKind,
    PassRates,
    Standing,
    VerdictKind,
)
from evalgate.wire import parting as partings
from evalgate.wire.parting import PartingResult
from evalgate.wire.shapes import Wire


class _Shape(Wire):
    """Readers must ignore keys that they do not know."""

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=())


class IntervalResult(_Shape):
    """Both ends of a 95 % interval."""

    low: float
    high: float


class ArmResult(_Shape):
    """One side's trials of one case by outcome."""

    passed: int
    failed: int
    unmeasured: int
    verdict: VerdictKind


class CaseComparisonResult(_Shape):
    """One case on both sides; those that pass alike on both, in the same words, are left out."""

    suite: str
    case_id: str
    standing: Standing
    head: ArmResult | None = None
    base: ArmResult | None = None
    origin: FailureOrigin | None = None
    newly: list[str] = Field(
        default_factory=list,
        description="Criteria that head fails and the base passes; none where only the case as a whole turned.",
    )
    confirmations: int = 0
    why: str = ""
    parting: PartingResult | None = None


class CriterionComparisonResult(_Shape):
    """One criterion over the paired cases."""

    name: str
    gating: bool
    lower_is_better: bool = False
    cases: int
    unpaired: int = 0
    base: float | None = None
    head: float | None = None
    delta: float | None = None
    interval: IntervalResult | None = None
    p: float | None = Field(default=None, description="One-sided, of a drop.")
    p_rise: float | None = None
    p_adjusted: float | None = Field(default=None, description="Holm's, over the gating criteria.")
    p_rise_adjusted: float | None = None
    floor: float = Field(description="The tolerated drop, absolute.")
    change: Change
    fact: bool = Field(default=False, description="Both sides are deterministic: the difference is exact.")


class PassRatesResult(_Shape):
    """Pass rates of one side: pass^k and pass@k."""

    k: int
    rate: float
    interval: IntervalResult
    all_of_k: float
    any_of_k: float


class PowerResult(_Shape):
    """The smallest drop that could have been told from noise with a probability of 80 %."""

    drop: float | None = None
    repeats: int
    base_repeats: int | None = Field(default=None, description="Runs of the base, where they are other ones.")
    more: int = Field(default=0, description="Further runs, of both sides, of the cases whose outcomes differed.")
    would: list[tuple[int, float]] = Field(default_factory=list)


class OriginResult(_Shape):
    """Which base, and how its results came to be."""

    source: BaseSource
    commit: str = ""
    found_by: str = ""
    measured_at: str = ""
    age_days: float | None = None
    distance: int | None = None
    reused: int = 0
    run: int = 0
    notes: list[str] = Field(default_factory=list)


class PlaceResult(_Shape):
    """Where in head's files something stands."""

    file: str
    line: int | None = None
    column: int | None = None
    json_path: str = ""


class LooseningResult(_Shape):
    """A rule that is weaker than the base's."""

    kind: LooseningKind
    subject: str
    suite: str = ""
    base: str = ""
    head: str = ""
    place: PlaceResult | None = None


class ComparisonResult(_Shape):
    """Head beside base; `problem` says why there are no base results."""

    origin: OriginResult
    problem: str = ""
    no_agent: bool = Field(
        default=False, description="There are none because the base has no agent yet, or no case of these."
    )
    criteria: list[CriterionComparisonResult] = Field(default_factory=list)
    overall: CriterionComparisonResult | None = None
    cases: list[CaseComparisonResult] = Field(default_factory=list)
    head_rates: PassRatesResult | None = None
    base_rates: PassRatesResult | None = None
    power: PowerResult | None = None
    loosened: list[LooseningResult] = Field(default_factory=list)
    by_base: bool = Field(default=False, description="The base's rules apply (`policy: base`).")
    alpha: float = 0.05
    seed: int = 0
    draws: int = 0


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """A comparison as JSON-ready values."""
    origin = comparison.origin
    shown = ComparisonResult(
        origin=OriginResult(
            source=origin.source,
            commit=origin.commit,
            found_by=origin.found_by,
            measured_at=origin.measured_at,
            age_days=origin.age_days,
            distance=origin.distance,
            reused=origin.reused,
            run=origin.run,
            notes=list(origin.notes),
        ),
        problem=comparison.problem,
        no_agent=comparison.no_agent,
        criteria=[_criterion(each) for each in comparison.criteria],
        overall=None if comparison.overall is None else _criterion(comparison.overall),
        cases=[_case(each) for each in comparison.cases if _is_worth_telling(each)],
        head_rates=_rates(comparison.head_rates),
        base_rates=_rates(comparison.base_rates),
        power=None
        if comparison.power is None
        else PowerResult(
            drop=comparison.power.drop,
            repeats=comparison.power.repeats,
            base_repeats=comparison.power.base_repeats,
            more=comparison.power.more,
            would=list(comparison.power.would),
        ),
        loosened=[_loosening(each) for each in comparison.loosened],
        by_base=comparison.by_base,
        alpha=comparison.alpha,
        seed=comparison.seed,
        draws=comparison.draws,
    )
    return shown.model_dump(mode="json", exclude_none=True)


def parse_comparison(raw: Mapping[str, Any]) -> Comparison:
    """What a comparison was made of: the base's origin or problem, what is loosened, which cases are not paired (and
    of each of these nothing more). What was computed from runs is to be computed from them again.

    Raises pydantic.ValidationError.
    """
    read = ComparisonResult.model_validate(raw)
    origin = read.origin.model_dump()
    return Comparison(
        origin=BaseOrigin(**{**origin, "notes": tuple(read.origin.notes)}),
        problem=read.problem,
        no_agent=read.no_agent,
        cases=tuple(
            CaseComparison(
                suite=each.suite, case_id=each.case_id, standing=each.standing, head=None, base=None, why=each.why
            )
            for each in read.cases
            if each.standing is not Standing.PAIRED
        ),
        loosened=tuple(_parse_loosening(each) for each in read.loosened),
        by_base=read.by_base,
    )


def _is_worth_telling(case: CaseComparison) -> bool:
    alike = case.head is not None and case.base is not None and case.head == case.base
    told = case.flaky or case.origin is not None or case.parting is not None
    return not alike or told or case.standing is not Standing.PAIRED


def _criterion(each: CriterionComparison) -> CriterionComparisonResult:
    return CriterionComparisonResult(
        name=each.name,
        gating=each.gating,
        lower_is_better=each.lower_is_better,
        cases=each.cases,
        unpaired=each.unpaired,
        base=each.base,
        head=each.head,
        delta=each.delta,
        interval=_interval(each.interval),
        p=each.p,
        p_rise=each.p_rise,
        p_adjusted=each.p_adjusted,
        p_rise_adjusted=each.p_rise_adjusted,
        floor=each.floor,
        change=each.change,
        fact=each.fact,
    )


def _interval(interval: Interval | None) -> IntervalResult | None:
    return None if interval is None else IntervalResult(low=interval.low, high=interval.high)


def _case(case: CaseComparison) -> CaseComparisonResult:
    return CaseComparisonResult(
        suite=case.suite,
        case_id=case.case_id,
        standing=case.standing,
        head=_arm(case.head),
        base=_arm(case.base),
        origin=case.origin,
        newly=list(case.newly),
        confirmations=case.confirmations,
        why=case.why,
        parting=partings.of(case.parting),
    )


def _arm(arm: Arm | None) -> ArmResult | None:
    if arm is None:
        return None
    return ArmResult(passed=arm.passed, failed=arm.failed, unmeasured=arm.unmeasured, verdict=arm.kind)


def _rates(rates: PassRates | None) -> PassRatesResult | None:
    if rates is None:
        return None
    return PassRatesResult(
        k=rates.k,
        rate=rates.rate,
        interval=IntervalResult(low=rates.interval.low, high=rates.interval.high),
        all_of_k=rates.all_of_k,
        any_of_k=rates.any_of_k,
    )


def _loosening(each: Loosening) -> LooseningResult:
    place = each.place
    return LooseningResult(
        kind=each.kind,
        subject=each.subject,
        suite=each.suite,
        base=each.base,
        head=each.head,
        place=None
        if place is None
        else PlaceResult(file=place.file, line=place.line, column=place.column, json_path=place.json_path),
    )


def _parse_loosening(read: LooseningResult) -> Loosening:
    place = None if read.place is None else Place(**read.place.model_dump())
    return Loosening(**{**read.model_dump(), "place": place})
