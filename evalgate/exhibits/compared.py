"""What a comparison says in words and figures, whatever it is then written in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from evalgate import words
from evalgate.exhibits import sensitivity
from evalgate.markup import plain
from evalgate.model import (
    BaseOrigin,
    BaseSource,
    CaseComparison,
    Change,
    Comparison,
    CriterionComparison,
    FailureOrigin,
    Loosening,
    LooseningKind,
    Standing,
    VerdictKind,
)

MINUS = "\N{MINUS SIGN}"
USUAL = 2  # decimals
FLAKY_SHARE, FEW_FLAKY = 1 / 3, 3
"""From so many flaky cases on, at least so many of them, they are called unreliable as a whole."""

CHANGES: Final[Mapping[Change, str]] = {
    Change.REGRESSED: "worse",
    Change.IMPROVED: "better",
    Change.UNCHANGED: "same",
    Change.INCONCLUSIVE: "cannot tell",
    Change.NOT_MEASURED: "not measured",
}
"""What can be said of a criterion, in a table; a test holds every change to a row."""

APART = "at other times"
"""What can be said of what is read from a clock, where the sides were not run side by side."""

MARKS: Final[Mapping[Change, str]] = {
    Change.REGRESSED: "\N{CROSS MARK}",
    Change.IMPROVED: "\N{WHITE HEAVY CHECK MARK}",
    Change.UNCHANGED: "\N{WHITE HEAVY CHECK MARK}",
    Change.INCONCLUSIVE: "\N{WHITE QUESTION MARK ORNAMENT}",
    Change.NOT_MEASURED: "\N{WARNING SIGN}\N{VARIATION SELECTOR-16}",
}

ORIGINS: Final[Mapping[FailureOrigin, str]] = {
    FailureOrigin.NEW: "new: the base passes",
    FailureOrigin.KNOWN: "known: the base fails too",
    FailureOrigin.FLAKY: "flaky: not the same in every run",
    FailureOrigin.UNKNOWN: "the base's outcome is not known",
    FailureOrigin.UNCONFIRMED: "not confirmed: too few fresh runs could be measured",
}
"""Whose failure a case is; a test holds every origin to a row."""

STANDINGS: Final[Mapping[Standing, str]] = {
    Standing.PAIRED: "compared",
    Standing.NEW: "new",
    Standing.CHANGED: "changed",
    Standing.REMOVED: "removed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many of the cases that both sides ran turned, and how many stand apart."""

    broken: int
    fixed: int
    flaky: int
    new: int
    changed: int
    removed: int


def count(comparison: Comparison) -> Counts:
    """The counts of a comparison."""
    cases = comparison.cases
    return Counts(
        broken=sum(1 for case in cases if case.broken),
        fixed=sum(1 for case in cases if case.fixed),
        flaky=sum(1 for case in cases if case.flaky),
        new=_standing(cases, Standing.NEW),
        changed=_standing(cases, Standing.CHANGED),
        removed=_standing(cases, Standing.REMOVED),
    )


def by_case(comparison: Comparison | None) -> dict[tuple[str, str], CaseComparison]:
    """The comparison of every case by suite key and case id."""
    return {} if comparison is None else {(case.suite, case.case_id): case for case in comparison.cases}


def signed(delta: float | None, *, share: bool = False, like: str = "") -> str:
    """`+0.12`, `\N{MINUS SIGN}0.12`, `0.00`; as points of 100 with `share`; with as many decimals as `like` where that
    has more or fewer than two; `-` for None."""
    if delta is None:
        return "-"
    decimals = len(like.partition(".")[2])
    if like and decimals != USUAL:
        text, unit = f"{abs(delta):,.{decimals}f}", ""
    elif share:
        text = f"{abs(delta) * 100:.0f}" if abs(delta) >= 0.0095 or delta == 0 else f"{abs(delta) * 100:.1f}"
        unit = " points"
    else:
        text, unit = _figure(abs(delta)), ""
    if float(text.replace(",", "")) == 0:
        return f"0{unit}" if share else f"{text}{unit}"
    return f"{'+' if delta > 0 else MINUS}{text}{unit}"


def _figure(value: float) -> str:
    """Three digits are enough for a difference."""
    if value == 0 or 0.005 <= value < 100:
        return f"{value:.2f}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.4f}"


def between(row: CriterionComparison, *, share: bool = False) -> str:
    """`\N{MINUS SIGN}0.38 to \N{MINUS SIGN}0.10`, the 95 % interval of a difference; "exact" for a fact."""
    if row.fact:
        return "exact"
    if row.interval is None:
        return "-"
    like = "" if share else _figures(row)[2]
    low, high = (signed(end, share=share, like=like) for end in (row.interval.low, row.interval.high))
    return f"{low.removesuffix(' points')} to {high}"


def p_value(row: CriterionComparison) -> str:
    """The p of the direction in which it went, adjusted for the criteria that decide; `-` where it means nothing: of
    what decides nothing, of a fact, of what did not move."""
    rose = row.drop is not None and row.drop < 0
    value = row.p_rise_adjusted if rose else row.p_adjusted
    if value is None or row.fact or not row.gating or not row.delta:
        return "-"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def means(row: CriterionComparison) -> tuple[str, str]:
    """Both sides' means, with the decimals with which they and `moved` agree on paper; `-` for what is not known."""
    base, head, _ = _figures(row)
    return base, head


def moved(row: CriterionComparison) -> str:
    """head - base, signed: of the numbers as they are, not as they are shown."""
    if row.delta is None or row.base is None or row.head is None:
        return signed(row.delta)
    text = _figures(row)[2]
    return text if not row.delta or not text.strip("0.,") else f"{'+' if row.delta > 0 else MINUS}{text}"


def _figures(row: CriterionComparison) -> tuple[str, str, str]:
    """Base, head, and the size of their difference."""
    if row.base is None or row.head is None or row.delta is None:
        return words.amount(row.base), words.amount(row.head), ""
    return words.change(row.base, row.head, delta=row.delta)


def turned_words(row: CriterionComparison) -> str:
    """`3 broke, 1 fixed`: the cases that turned by this criterion; "" where none did."""
    parts = (f"{row.broken:,} broke" if row.broken else "", f"{row.fixed:,} fixed" if row.fixed else "")
    return ", ".join(part for part in parts if part)


def origin_words(origin: BaseOrigin) -> str:
    """How the base's results came to be: `run beside the head`, `stored 3 days ago, 2 commits before the base`."""
    how = {
        BaseSource.RERUN: "run beside the head",
        BaseSource.STORE: "stored results",
        BaseSource.MIXED: f"{origin.reused:,} stored and {words.counted(origin.run, 'fresh trial')}",
        BaseSource.FILE: "results from a file",
    }[origin.source]
    stored = origin.source is not BaseSource.RERUN
    parts = [how]
    if stored and origin.age_days is not None:
        parts.append(_age(origin.age_days))
    if stored and origin.distance:
        parts.append(f"{words.counted(origin.distance, 'commit')} before the base")
    return ", ".join(parts)


def _age(days: float) -> str:
    if days < 1 / 24:
        return "measured within the hour"
    if days < 2:
        return f"{words.counted(round(days * 24), 'hour')} old"
    return f"{days:.0f} days old"


LOOSENINGS: Final[Mapping[LooseningKind, str]] = {
    LooseningKind.THRESHOLD: "threshold of {subject} lowered from {base} to {head}",
    LooseningKind.CRITERION_REMOVED: "criterion {subject} removed, was {base}",
    LooseningKind.CRITERION_CHANGED: "criterion {subject} changed: {base} is now {head}",
    LooseningKind.CASE_REMOVED: "case {subject} deleted",
    LooseningKind.CASE_CHANGED: "expectation of case {subject} changed",
    LooseningKind.SUITE_REMOVED: "evaluation file {subject} deleted",
    LooseningKind.POLICY: "{subject}: {base} is now {head}",
}
"""How head weakened the gate; a test holds every kind to a row."""


def loosening_sentence(each: Loosening, *, mark: Callable[[str], str] = str) -> str:
    """One rule that head weakened, in words; `mark` is put to the names and values in it."""
    values = {"subject": each.subject, "base": each.base or "set", "head": each.head or "none"}
    return LOOSENINGS[each.kind].format(**{name: mark(value) for name, value in values.items()})


def said_of(row: CriterionComparison) -> str:
    """What can be said of a criterion, in a table."""
    return APART if row.apart else CHANGES[row.change]


def changed_rows(comparison: Comparison) -> tuple[Sequence[CriterionComparison], Sequence[CriterionComparison]]:
    """The criteria that decide, worst first, and the others."""
    order = (Change.REGRESSED, Change.NOT_MEASURED, Change.INCONCLUSIVE, Change.IMPROVED, Change.UNCHANGED)
    deciding = sorted((row for row in comparison.criteria if row.gating), key=lambda row: order.index(row.change))
    return deciding, [row for row in comparison.criteria if not row.gating]


def certainty(comparison: Comparison) -> str:
    """What the differences are worth: facts of an agent that repeats itself, or a sample and what it could have told;
    "" where nothing is known of it."""
    if comparison.overall is not None and comparison.overall.fact:
        if all(row.fact for row in comparison.criteria if row.gating):
            return "Every run of a side was the same, so the differences are facts (exact) and no samples."
        return "Every run of a side was the same: differences marked exact are facts; the others may still be chance."
    return " ".join(each for each in (unreliable(comparison), sensitivity.power_sentence(comparison.power)) if each)


def unreliable(comparison: Comparison) -> str:
    """That a suite is mostly noise, and what the repeats that would help cost; "" for one that is not."""
    paired = [case for case in comparison.cases if case.standing is Standing.PAIRED]
    flaky = sum(1 for case in paired if case.flaky)
    if flaky < FEW_FLAKY or flaky < len(paired) * FLAKY_SHARE:
        return ""
    said = (
        f"{flaky:,} of {words.counted(len(paired), 'case')} do not end alike in every run: these cases are unreliable."
    )
    would = comparison.power.would if comparison.power is not None else ()
    if not would:
        return said
    repeats, drop = would[-1]
    cost = words.counted(2 * repeats * len(paired), "agent run")
    return f"{said} {repeats} runs of each on both sides ({cost}) would find a drop of {drop * 100:.0f} points."


def whose(case: CaseComparison | None) -> str:
    """Whose failure a case is; "" where it does not fail or there is no base to tell."""
    if case is None or case.origin is None:
        return ""
    if case.standing is Standing.NEW:
        return "a new case: the base does not have it"
    if case.standing is Standing.CHANGED:
        return "a changed case: the base was asked something else"
    return _of_paired(case, case.origin)


OTHERWISE = "new: the base passes a criterion that fails here"
"""Of a failed case that the base does not pass as a whole."""


def _of_paired(case: CaseComparison, origin: FailureOrigin) -> str:
    passes = case.base is not None and case.base.kind is VerdictKind.PASS
    return OTHERWISE if origin is FailureOrigin.NEW and case.newly and not passes else ORIGINS[origin]


def short_sha(commit: str) -> str:
    """The first seven characters of a commit; what is no commit cannot surprise."""
    return plain.one_line(commit[:40])[:7]


def _standing(cases: Sequence[CaseComparison], standing: Standing) -> int:
    return sum(1 for case in cases if case.standing is standing)
