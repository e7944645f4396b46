"""Which cases made a criterion fall, also where all of them reach their thresholds."""

from __future__ import annotations

import dataclasses

import pytest
from builders import build, comparing
from builders.build import TOOLS, WORDS, Done, call, case, turn
from builders.compared_scenarios import COMPARED

from evalgate import reports
from evalgate.model import Exemption, ExemptionKind, Policy, Report, VerdictKind
from evalgate.reports import view
from evalgate.reports.phrases import phrase

LOW = {TOOLS: 0.2, WORDS: 0.1}
ASKED = (
    turn("Hello!", answer="Hi."),
    turn("Book it.", call("book", city="Oslo"), answer="Booked."),
)


def done(*tools: float, words: float = 1.0, answer: str = "Booked.", city: str = "Oslo") -> Done:
    """Two turns with these scores for their calls; the second one books in `city`."""
    second = turn("Book it.", call("book", city=city), answer=answer)
    return build.scores(ASKED[0], second, **{TOOLS: list(tools), WORDS: [1.0, words]})


RIGHT, WRONG = done(1.0, 1.0), done(1.0, 0.0, city="Rome")


def report(head: list[list[Done]], base: list[list[Done]], **more: object) -> Report:
    """Cases of so many runs on each side, with thresholds that let nearly everything pass."""
    suite = build.suite(
        *(case(f"case_{at}", *ASKED, line=at) for at, _ in enumerate(head, 1)), criteria=LOW
    )
    sides = [
        {(suite.key, f"case_{at}"): runs for at, runs in enumerate(side, 1)}
        for side in (head, base)
    ]
    return comparing.beside([suite], *sides, **more)  # type: ignore[arg-type]


def told(made: Report) -> list[tuple[str, list[str], int]]:
    """The criteria that fell, with the cases that did and how many rose."""
    return [
        (
            fall.row.name,
            [f"{each.case.case_id} {phrase('moved', each)}" for each in fall.case_falls],
            fall.higher,
        )
        for fall in view.falls(view.view_of(made))
    ]


ARROW = "\N{RIGHTWARDS ARROW}"


@pytest.mark.parametrize(
    ("head", "base", "expected"),
    [
        ([[RIGHT]], [[RIGHT]], []),  # nothing fell
        ([[RIGHT]], [[WRONG]], []),  # it rose
        (
            [[WRONG], [RIGHT]],
            [[RIGHT], [RIGHT]],
            [(TOOLS, [f"case_1 1.00 {ARROW} 0.50 in turn 2 of 2"], 0)],
        ),
        # the furthest first, means over runs; one rose
        (
            [[RIGHT, WRONG], [WRONG, WRONG], [RIGHT, RIGHT]],
            [[RIGHT, RIGHT], [RIGHT, RIGHT], [WRONG, RIGHT]],
            [
                (
                    TOOLS,
                    [
                        f"case_2 1.00 {ARROW} 0.50 in turn 2 of 2",
                        f"case_1 1.00 {ARROW} 0.75 in turn 2 of 2",
                    ],
                    1,
                )
            ],
        ),
        # the criterion that fell furthest comes first
        (
            [[done(1.0, 0.0, words=0.8, answer="Done.")]],
            [[RIGHT]],
            [
                (TOOLS, [f"case_1 1.00 {ARROW} 0.50 in turn 2 of 2"], 0),
                (WORDS, [f"case_1 1.00 {ARROW} 0.90 in turn 2 of 2"], 0),
            ],
        ),
        # the turn that fell, not the first one
        (
            [[done(0.0, 1.0)]],
            [[done(0.0, 1.0), RIGHT]],
            [(TOOLS, [f"case_1 0.75 {ARROW} 0.50 in turn 1 of 2"], 0)],
        ),
    ],
)
def test_the_cases_that_moved(
    head: list[list[Done]], base: list[list[Done]], expected: list[object]
) -> None:
    assert told(report(head, base)) == expected


def test_the_runs_that_show_the_fall_best_stand_side_by_side() -> None:
    assert told(report([[RIGHT, WRONG]], [[WRONG, RIGHT]])) == []  # the means are alike
    (fall,) = view.falls(view.view_of(report([[RIGHT, WRONG, WRONG]], [[WRONG, RIGHT, RIGHT]])))
    found = fall.case_falls[0].turn
    assert found is not None
    assert (found.expected_calls, found.actual_calls) == (
        (call("book", city="Oslo"),),
        (call("book", city="Rome"),),
    )
    assert found.calls_differ
    assert found.expected_answer == found.actual_answer


@pytest.mark.parametrize(
    "policy",
    [
        Policy(advisory=frozenset({build.SUITE})),
        Policy(
            exemptions={
                (build.SUITE, "case_1"): Exemption(
                    kind=ExemptionKind.LISTED, owner="@maria", expires="2026-02-01"
                )
            }
        ),
    ],
)
def test_what_does_not_decide_is_left_out(policy: Policy) -> None:
    assert told(report([[WRONG], [RIGHT]], [[RIGHT], [RIGHT]], policy=policy)) == []


def test_without_a_base_conversation_the_case_is_named_all_the_same() -> None:
    made = report([[WRONG]], [[RIGHT]])
    assert made.comparison is not None
    assert made.comparison.base is not None
    base = dataclasses.replace(made.comparison.base, transcripts={}.get)
    made = dataclasses.replace(made, comparison=dataclasses.replace(made.comparison, base=base))
    assert told(made) == [(TOOLS, [f"case_1 1.00 {ARROW} 0.50"], 0)]
    assert f"case_1</code> · 1.00 {ARROW} 0.50</summary>" in reports.RENDERERS["comment"].render(
        made
    )


@pytest.mark.parametrize("name", ["comment", "summary", "html", "terminal"])
def test_a_drop_that_still_passes_is_told_with_what_differs(name: str) -> None:
    made = COMPARED["base_drop"]()
    assert {case.kind for case in made.verdict.cases} == {VerdictKind.PASS}
    text = (
        reports.render_terminal(made)
        if name == "terminal"
        else reports.RENDERERS[name].render(made)
    )
    for said in (
        "order_7",
        f"1.00 {ARROW} 0.50 in turn 2 of 2",
        "- track_parcel(order=7, carrier=",
    ):
        assert said in text
    assert text.count("Still passing, but") == 1
    assert text.count("More runs would tell whether by chance.") == 1


@pytest.mark.parametrize(
    ("head", "is_told"),
    [
        ([[WRONG], [RIGHT]], True),
        ([[done(1.0, 0.9)], [RIGHT]], False),  # less than a tenth of the scale
        ([[done(0.0, 0.0)], [RIGHT]], False),  # it fails, and is told as a failure
        ([[RIGHT], [RIGHT]], False),
    ],
)
def test_a_large_fall_is_told_above_all(head: list[list[Done]], is_told: bool) -> None:
    made = report(head, [[RIGHT], [RIGHT]])
    assert (view.notable(view.view_of(made)) is not None) is is_told


def test_what_failed_is_not_told_twice() -> None:
    """Its conversation stands among the failures."""
    text = reports.RENDERERS["comment"].render(COMPARED["base_reruns"]())
    assert text.count("1 criterion fell</summary>") == 1
    assert text.count("```diff") == 3
