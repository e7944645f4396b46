"""What a comparison says in words and figures."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from builders import build, comparing
from builders.compared_scenarios import COMPARED
from hypothesis import given, strategies as st

from evalgate.model import (
    BaseOrigin,
    BaseSource,
    Book,
    CaseComparison,
    CaseOutcome,
    CaseStatus,
    CaseVerdict,
    Change,
    EditKind,
    Edits,
    FailureOrigin,
    GateEdit,
    Lack,
    Power,
    VerdictKind,
)
from evalgate.reports import cases, comment, view
from evalgate.reports.phrases import phrase
from evalgate.results import labels
from evalgate.text import words

SHA = comparing.BASE_SHA


def test_every_change_has_a_color() -> None:
    assert set(cases.KINDS) == set(Change)


@pytest.mark.parametrize(
    ("delta", "shown"),
    [
        (None, "-"),
        (-0.15, "\N{MINUS SIGN}15 points"),
        (0.004, "+0.4 points"),
        (0.0, "0 points"),
    ],
)
def test_differences_are_signed(delta: float | None, shown: str) -> None:
    assert words.points(delta) == shown


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e9, max_value=1e9))
def test_swapped_sides_swap_the_sign_alone(delta: float) -> None:
    one, other = words.points(delta), words.points(-delta)
    assert one.lstrip("+\N{MINUS SIGN}") == other.lstrip("+\N{MINUS SIGN}")
    assert one == other or {one[0], other[0]} == {"+", "\N{MINUS SIGN}"}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"evidence": 43.2}, "43 : 1"),
        ({"evidence": 3.21}, "3.2 : 1"),
        ({"evidence": 4.02}, "4 : 1"),
        ({"evidence": 12_345.6}, "12,346 : 1"),
        ({"evidence": 1e9}, "over 1,000,000 : 1"),
        ({"evidence": 0.4}, "-"),  # the bets lost
        ({"evidence": 43.0, "gating": False}, "-"),  # what decides nothing claims nothing
        ({"evidence": 43.0, "lack": Lack.CLOCK}, "-"),
    ],
)
def test_evidence_stands_only_where_it_means_something(given: dict[str, Any], shown: str) -> None:
    assert cases.evidence(comparing.row(**given)) == shown


RULES = (GateEdit(kind=EditKind.RULE, subject="pass_rate", base="0.9", head="0.5"),)


@pytest.mark.parametrize(
    ("worse", "edits", "said"),
    [
        (0.7, Edits(), "No evidence that head is worse (20 : 1 blocks)."),
        (5.0, Edits(), "Evidence 5 : 1 that head is worse (20 : 1 blocks)."),
        (43.0, Edits(), "at most 1 in 43 checks would show this much evidence."),
        # both rule books have their own evidence
        (5.0, Edits(edits=RULES), "head is worse, by the change's own rules (20 : 1 blocks)."),
        (
            5.0,
            Edits(edits=RULES, by_base=True),
            "head is worse, by the base branch's rules (20 : 1 blocks).",
        ),
    ],
)
def test_evidence_in_words(worse: float, edits: Edits, said: str) -> None:
    assert said in certainty(book=Book(worse=worse), edits=edits)


@pytest.mark.parametrize(
    ("base", "head", "shown"),
    [
        (1.0, 0.75, ("1.00", "0.75")),
        (0.9733, 0.85, ("0.97", "0.85")),
        (0.9733, 0.9712, ("0.973", "0.971")),  # two decimals would hide that they differ
        (1.0, 0.9996, ("1.0000", "0.9996")),
        (0.5, 0.9996, ("0.5000", "0.9996")),  # never a false 1.00
        (532.4, 410.66, ("532.4", "410.7")),  # with a change of 121.7
        (532.0, 411.0, ("532", "411")),
        (None, None, ("-", "-")),
    ],
)
def test_means(base: float | None, head: float | None, shown: tuple[str, str]) -> None:
    assert words.compared(base, head)[:2] == shown


@given(st.floats(min_value=0, max_value=1), st.floats(min_value=0, max_value=1))
def test_means_that_differ_look_different_and_no_mean_looks_perfect_that_is_not(
    base: float, head: float
) -> None:
    shown = words.compared(base, head)[:2]
    assert (shown[0] == shown[1]) <= math.isclose(base, head, abs_tol=1e-9)
    assert all(
        text != "1.00" or value > 1 - 1e-9 for text, value in zip(shown, (base, head), strict=True)
    )


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        # it has no age
        (BaseOrigin(source=BaseSource.RERUN, age_days=9.0, distance=3), "run alongside"),
        (
            BaseOrigin(source=BaseSource.STORE, age_days=0.01),
            "cached results, less than an hour old",
        ),
        (
            BaseOrigin(source=BaseSource.STORE, age_days=0.5, distance=1),
            "cached results, 12 hours old, 1 commit before",
        ),
        (
            BaseOrigin(source=BaseSource.STORE, age_days=30.2, distance=0),
            "cached results, 30 days old",
        ),
        (BaseOrigin(source=BaseSource.MIXED, reused=12, run=1), "12 cached, 1 new trial"),
        (BaseOrigin(source=BaseSource.FILE), "results from a file"),
    ],
)
def test_where_the_base_comes_from(origin: BaseOrigin, said: str) -> None:
    assert phrase("origin", origin).startswith(said)


@pytest.mark.parametrize(
    ("power", "said"),
    [
        (None, ""),
        (
            Power(cases=20, caught=((1, 0.81),)),
            "If 1 of 20 cases no longer met its criteria, this check would notice it about 8 times in 10.",
        ),
        (Power(cases=20, caught=((1, 0.4), (2, 0.7), (3, 0.9))), "if 2 did not, about 7 times."),
        (
            Power(cases=1, caught=((1, 0.96),)),
            "If the case no longer met its criteria, this check would notice it about 10 times in 10.",
        ),
        (
            Power(cases=2, caught=((1, 0.1),), unseen=(("s", "a`b"),)),
            "A failure could go unnoticed in: `a'b`.",
        ),
    ],
)
def test_what_could_have_been_missed(power: Power | None, said: str) -> None:
    told = certainty(power=power)
    assert said in told
    assert bool(said) == ("this check" in told or "unnoticed" in told)


@pytest.mark.parametrize(
    ("head", "base", "said"),
    [
        (3, 3, "3 runs per side"),
        (1, None, "1 run per side"),
        (5, 1, "5 runs per case on head and 1 on the base"),  # stored, of fewer runs
        (1, 5, "1 run per case on head and 5 on the base"),
    ],
)
def test_how_often_each_side_ran(head: int, base: int | None, said: str) -> None:
    assert phrase("runs", head, base) == said


NO_EDITS = Edits()


def certainty(*, edits: Edits = NO_EDITS, **changes: Any) -> str:
    """What a report says of a comparison with these changes."""
    report = comparing.report("pass", "pass")
    assert report.comparison is not None
    comparison = dataclasses.replace(report.comparison, unchanged=(), **changes)
    return cases.certainty(dataclasses.replace(report, comparison=comparison, edits=edits))


def test_an_agent_beside_itself_is_no_sample() -> None:
    report = COMPARED["base_unchanged"]()
    comparison = report.comparison
    assert comparison is not None
    alone = dataclasses.replace(
        comparison, unchanged=tuple({case.suite for case in comparison.cases})
    )
    assert cases.base_words(alone) == "the same agent as head's"
    assert cases.certainty(dataclasses.replace(report, comparison=alone)) == ""


def ended(*, base: VerdictKind, newly: tuple[str, ...] = ("m",)) -> CaseComparison:
    """A new failure of a case that ended like this on the base."""
    arm = CaseOutcome(passed=1, failed=1, unmeasured=0, kind=base)
    return dataclasses.replace(comparing.compared(origin=FailureOrigin.NEW), base=arm, newly=newly)


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (None, ""),
        (comparing.compared(), ""),
        (comparing.compared(origin=FailureOrigin.KNOWN), "fails on the base too"),
        (comparing.compared(origin=FailureOrigin.UNCONFIRMED), "not confirmed"),
        (ended(base=VerdictKind.PASS), "new failure"),
        (ended(base=VerdictKind.FAIL), "new failure: the base passes a criterion"),
        (ended(base=VerdictKind.PASS, newly=()), "new failure"),
        (comparing.compared(origin=FailureOrigin.UNKNOWN, status=CaseStatus.NEW), "new case"),
        (
            comparing.compared(origin=FailureOrigin.UNKNOWN, status=CaseStatus.CHANGED),
            "changed case",
        ),
    ],
)
def test_whose_failure_it_is(case: CaseComparison | None, said: str) -> None:
    failed = CaseVerdict(suite="s", case_id="c", kind=VerdictKind.FAIL, criteria=())
    (shown,) = view.view_of(build.report("fail")).cases
    label = labels.label(failed, case)
    told = dataclasses.replace(shown, verdict=failed, label=label, compared=case).failure_origin
    assert told.startswith(said)
    assert ("a criterion" in told) is ("a criterion" in said)
    assert bool(said) == bool(told)


def test_the_worst_criteria_come_first_and_those_without_a_say_apart() -> None:
    comparison = COMPARED["base_regressed"]().comparison
    assert comparison is not None
    # those of cases that decide nothing, such as quarantined ones, are told but where they are
    # informational as well
    shown = [
        dataclasses.replace(row, rule=dataclasses.replace(row.rule, gating=False, advisory=True))
        for row in comparison.criteria
    ]
    rows = cases.rows(dataclasses.replace(comparison, criteria=(*comparison.criteria, *shown)))
    assert [each.change for each in rows[0]] == [Change.REGRESSED, Change.REGRESSED]
    assert [each.name for each in rows[1]] == ["token_usage_v1"]
    assert {each.name for each in rows[2]} == {each.name for each in rows[0]}


def test_the_comment_says_each_thing_once() -> None:
    shown = comment.render(COMPARED["base_regressed"]())
    above_the_cases = shown.partition("###")[0]
    for said in (
        "3 cases now fail",
        "4 of 20 cases",
        "0f1e2d3`",
        "5 runs per side",
        "\N{MINUS SIGN}14 points",
    ):
        assert above_the_cases.count(said) == 1
