"""Several criteria at once: what whole trials say when they are dealt anew, against every deal there is."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalgate.comparison import joint, tests
from evalgate.comparison.joint import Row, Trials
from evalgate.comparison.tests import ScoredStratum, Stratum, Tails

DRAWS = 4_000

binary = st.sampled_from([0.0, 1.0])


def rows_of(values: st.SearchStrategy[float | None], criteria: int, most: int) -> st.SearchStrategy[list[Row]]:
    return st.lists(st.tuples(*[values] * criteria), min_size=1, max_size=most)


def strata_of(values: st.SearchStrategy[float | None], *, criteria: int = 2) -> st.SearchStrategy[list[Trials]]:
    rows = rows_of(values, criteria, 2)
    return st.lists(st.builds(lambda head, base: Trials(head=head, base=base), rows, rows), min_size=1, max_size=3)


def column(strata: list[Trials], at: int) -> list[Stratum]:
    """A criterion of passes and failures by itself."""
    sides = [[[row[at] for row in rows if row[at] is not None] for rows in (each.head, each.base)] for each in strata]
    return [
        Stratum(head_passes=head.count(1.0), head_runs=len(head), base_passes=base.count(1.0), base_runs=len(base))
        for head, base in sides
    ]


def own_tails(strata: list[Trials]) -> list[Tails]:
    return [tests.exact(column(strata, at)) for at in range(len(strata[0].head[0]))]


def deals(strata: list[Trials]) -> list[list[Trials]]:
    """Every way to deal the trials of each stratum to the two sides, where a trial that lacks scores takes the place of
    one that lacks the same."""
    ways = []
    for each in strata:
        pool = [*each.head, *each.base]
        lacking = sorted(tuple(value is None for value in row) for row in each.head)
        own = []
        for chosen in itertools.combinations(range(len(pool)), len(each.head)):
            head = [pool[i] for i in chosen]
            if sorted(tuple(value is None for value in row) for row in head) == lacking:
                own.append(Trials(head=head, base=[row for i, row in enumerate(pool) if i not in chosen]))
        ways.append(own)
    return [list(deal) for deal in itertools.product(*ways)]


def brute_force(strata: list[Trials]) -> list[float]:
    """Adjusted p-values of a drop, step-down, over every deal."""
    found = [[tails.drop for tails in own_tails(deal)] for deal in deals(strata)]
    observed = [tails.drop for tails in own_tails(strata)]
    order = sorted(range(len(observed)), key=lambda at: observed[at])
    adjusted, highest = [1.0] * len(observed), 0.0
    for place, at in enumerate(order):
        smallest = [min(own[other] for other in order[place:]) for own in found]
        highest = max(highest, sum(p <= observed[at] * (1 + 1e-9) for p in smallest) / len(smallest))
        adjusted[at] = highest
    return adjusted


@settings(max_examples=60, deadline=None)
@given(strata_of(binary))
def test_it_is_the_share_of_all_deals(strata: list[Trials]) -> None:
    found = joint.adjusted(strata, own_tails(strata), draws=DRAWS, seed=1)
    for tails, expected in zip(found, brute_force(strata), strict=True):
        assert tails.drop == pytest.approx(expected, abs=0.04)  # five standard errors of so many draws


@settings(max_examples=40, deadline=None)
@given(strata_of(st.sampled_from([0.0, 1.0, None])))
def test_what_lacks_a_score_stays_where_it_is(strata: list[Trials]) -> None:
    """Dealing must not change how many scores a side has: else the deals were not as likely as what was seen."""
    own = own_tails(strata)
    found = joint.adjusted(strata, own, draws=DRAWS, seed=1)
    rows = [row for each in strata for row in (*each.head, *each.base)]
    alone = any(min(tails.drop, tails.rise) == 1 for tails in own) or all(row[0] == row[1] for row in rows)
    for tails, mine, expected in zip(found, own, brute_force(strata), strict=True):
        # one that is alone needs no dealing
        assert tails.drop == (mine.drop if alone else pytest.approx(max(mine.drop, expected), abs=0.04))


@settings(max_examples=60, deadline=None)
@given(strata_of(st.sampled_from([0.0, 0.3, 0.7, 1.0, None]), criteria=3), st.randoms(use_true_random=False))
def test_neither_order_nor_names_change_anything(strata: list[Trials], random: Random) -> None:
    own = [Tails(drop=0.1, rise=0.2)] * 3
    first = joint.adjusted(strata, own, draws=200, seed=1)
    shuffled = [
        Trials(head=random.sample(each.head, len(each.head)), base=random.sample(each.base, len(each.base)))
        for each in random.sample(strata, len(strata))
    ]
    assert joint.adjusted(shuffled, own, draws=200, seed=1) == first
    mirrored = [Trials(head=each.base, base=each.head) for each in strata]
    turned = joint.adjusted(mirrored, [Tails(drop=0.2, rise=0.1)] * 3, draws=200, seed=1)
    assert [(tails.rise, tails.drop) for tails in turned] == [(tails.drop, tails.rise) for tails in first]


@settings(max_examples=60, deadline=None)
@given(strata_of(binary), st.sampled_from(["constant", "copy", "never measured"]))
def test_a_criterion_that_says_nothing_new_changes_nothing(strata: list[Trials], kind: str) -> None:
    """So that adding one that cannot fail turns no red to green."""

    def more(row: Row) -> Row:
        return (*row, {"constant": 1.0, "copy": row[0], "never measured": None}[kind])

    wider = [Trials(head=[*map(more, each.head)], base=[*map(more, each.base)]) for each in strata]
    own = own_tails(strata)
    added = own[0] if kind == "copy" else Tails(drop=1.0, rise=1.0)
    found = joint.adjusted(wider, [*own, added], draws=200, seed=1)
    assert found[:2] == joint.adjusted(strata, own, draws=200, seed=1)
    assert found[2] == (found[0] if kind == "copy" else added)


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        ((2, 2), "few ways to deal: all are listed"),
        ((8, 8), "more ways than draws: some of them are listed"),
        ((12, 12), "too many to list, but few kinds of trials"),
        ((1, 30), "one run beside a pooled base"),
    ],
)
def test_each_way_of_drawing_gives_the_same_distribution(runs: tuple[int, int], why: str) -> None:
    """Two independent criteria, of which the first alone is known exactly."""
    head, base = runs
    random = Random(4)
    strata = [
        Trials(
            head=[(float(random.random() < 0.5), float(random.random() < 0.7)) for _ in range(head)],
            base=[(float(random.random() < 0.8), float(random.random() < 0.7)) for _ in range(base)],
        )
        for _ in range(6)
    ]
    own = own_tails(strata)
    found = joint.adjusted(strata, own, draws=DRAWS, seed=2)
    for at in (0, 1):
        # two nearly independent ones: at most what Sidak says, and hardly less
        assert own[at].drop <= found[at].drop <= 1 - (1 - own[at].drop) ** 2 + 0.03, why


def test_graded_criteria_are_dealt_with_the_others() -> None:
    """A graded criterion beside one of passes and failures that varies: near what each says alone, and never less."""
    random = Random(8)
    strata = [
        Trials(
            head=[(random.betavariate(5, 3), float(random.random() < 0.8)) for _ in range(12)],
            base=[(random.betavariate(8, 2), float(random.random() < 0.8)) for _ in range(12)],
        )
        for _ in range(3)
    ]
    graded = [ScoredStratum(head=tuple(r[0] for r in s.head), base=tuple(r[0] for r in s.base)) for s in strata]  # type: ignore[misc]
    own = [
        tests.monte_carlo(graded, draws=DRAWS, seed=1),
        tests.exact(column([Trials(head=[r[1:] for r in s.head], base=[r[1:] for r in s.base]) for s in strata], 0)),
    ]
    found = joint.adjusted(strata, own, draws=DRAWS, seed=2)
    assert own[0].drop <= found[0].drop <= 2 * own[0].drop + 0.01
    assert found[0].drop < 0.02


def test_false_alarms_are_as_rare_as_they_are_said_to_be() -> None:
    """Three criteria that share their trials' luck in part, nothing changed: any p below 0.1."""
    random, draws, wrong = Random(6), 300, 0
    for number in range(draws):
        strata = []
        for rate in (0.9, 0.7, 0.7, 0.5, 0.3):
            rows = []
            for _ in range(6):
                luck = random.random()
                rows.append(tuple(float((luck + random.random()) / 2 < rate) for _ in range(3)))
            strata.append(Trials(head=rows[:3], base=rows[3:]))
        found = joint.adjusted(strata, own_tails(strata), draws=300, seed=number)
        wrong += min(tails.drop for tails in found) < 0.1
    assert wrong / draws <= 0.1 + 3 * (0.1 * 0.9 / draws) ** 0.5
