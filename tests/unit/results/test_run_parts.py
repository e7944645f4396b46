"""Dividing a plan: no case lost or doubled, the same everywhere, balanced by what is known."""

from __future__ import annotations

import dataclasses
import math

from builders import sides
from hypothesis import given, strategies as st

from evalgate.model import Case, Run
from evalgate.results import run_parts

NAMES = st.lists(
    st.tuples(st.sampled_from(["a.json", "b.json"]), st.text(max_size=4)), unique=True, max_size=40
)
SECONDS = st.one_of(
    st.floats(min_value=0, max_value=1e6), st.sampled_from([math.nan, math.inf, -1.0])
)


@given(cases=NAMES, of=st.integers(1, 12), data=st.data())
def test_every_case_has_one_home_whatever_the_order(
    cases: list[tuple[str, str]], of: int, data: st.DataObject
) -> None:
    durations = {case: data.draw(SECONDS) for case in cases if data.draw(st.booleans())}
    homes = run_parts.divide(cases, of=of, durations=durations)
    assert set(homes) == set(cases)
    assert all(1 <= home <= of for home in homes.values())
    shuffled = data.draw(st.permutations(cases))
    assert run_parts.divide(shuffled, of=of, durations=dict(reversed(durations.items()))) == homes


@given(cases=NAMES, of=st.integers(1, 12))
def test_without_durations_no_two_parts_differ_by_more_than_one_case(
    cases: list[tuple[str, str]], of: int
) -> None:
    homes = list(run_parts.divide(cases, of=of, durations={}).values())
    sizes = [homes.count(index) for index in range(1, of + 1)]
    assert max(sizes) - min(sizes) <= 1


@given(
    seconds=st.lists(st.floats(min_value=0.1, max_value=100), min_size=1, max_size=40),
    of=st.integers(1, 8),
)
def test_the_longest_part_is_within_graham_s_bound(seconds: list[float], of: int) -> None:
    """Longest first is at most 4/3 of the best division, which is at least the mean and the longest
    case."""
    durations = {("a.json", str(number)): each for number, each in enumerate(seconds)}
    homes = run_parts.divide(durations, of=of, durations=durations)
    loads = [
        sum(durations[case] for case, home in homes.items() if home == index)
        for index in range(1, of + 1)
    ]
    in_order = sorted(seconds, reverse=True)
    best = max(
        sum(seconds) / of, in_order[0], sum(in_order[of - 1 : of + 1]) if len(seconds) > of else 0
    )
    assert max(loads) <= best * 4 / 3 + 1e-6 or max(loads) <= sum(seconds) / of + in_order[0]


def test_one_long_case_gets_a_part_of_its_own() -> None:
    durations = {("a", name): 1.0 for name in "bcdef"} | {("a", "long"): 60.0}
    homes = run_parts.divide(durations, of=2, durations=durations)
    assert [name for (_, name), home in homes.items() if home == homes["a", "long"]] == ["long"]


def test_a_case_without_a_duration_counts_as_the_median() -> None:
    known = {("a", "1"): 10.0, ("a", "2"): 10.0}
    homes = run_parts.divide([*known, ("a", "new")], of=3, durations=known)
    assert sorted(homes.values()) == [1, 2, 3]


def test_names_that_would_run_together_are_told_apart() -> None:
    homes = run_parts.divide([("a", "b/c"), ("a/b", "c"), ("a", "\ud800")], of=3, durations={})
    assert sorted(homes.values()) == [1, 2, 3]


def whole() -> Run:
    return sides.run([["P", "F", "P", "P", "F"]])


def test_parts_of_a_plan_are_the_plan() -> None:
    suites = whole().suites
    all_parts = [run_parts.plan(suites, index=index, of=3, durations={}) for index in (1, 2, 3)]
    assert len({part.fingerprint for part in all_parts}) == 1
    own = [
        case
        for part in all_parts
        for suite in run_parts.suites_of(suites, part)
        for case in suite.eval_set.cases
    ]
    assert sorted(case.case_id for case in own) == ["c0", "c1", "c2", "c3", "c4"]
    # five cases, six parts
    assert run_parts.suites_of(suites, run_parts.plan(suites, index=6, of=6, durations={})) == ()


def test_a_plan_s_fingerprint_tells_of_content_criteria_division_and_settings() -> None:
    (suite,) = whole().suites
    cases = suite.eval_set.cases
    use = suite.criteria[0]
    other_case = dataclasses.replace(cases[0], expects_state={"a": 1})
    rubric = dataclasses.replace(suite, criteria=(dataclasses.replace(use, threshold=0.1),))
    content = dataclasses.replace(
        suite, eval_set=dataclasses.replace(suite.eval_set, cases=(other_case, *cases[1:]))
    )
    agent = dataclasses.replace(
        suite, agent=dataclasses.replace(suite.agent, options={"path": "b"})
    )
    seen = {
        run_parts.plan([each], index=1, of=2, durations={}).fingerprint
        for each in (suite, rubric, content, agent)
    }
    slow = {(suite.key, "c0"): 9.0, (suite.key, "c1"): 1.0}
    seen.add(run_parts.plan([suite], index=1, of=2, durations=slow).fingerprint)
    seen.add(run_parts.plan([suite], index=1, of=2, durations={}, settings=["more"]).fingerprint)
    assert len(seen) == 6


def test_a_case_that_only_the_base_has_belongs_to_the_first_part() -> None:
    (suite,) = whole().suites
    gone = dataclasses.replace(
        suite,
        eval_set=dataclasses.replace(
            suite.eval_set, cases=(Case(case_id="gone", conversation=()),)
        ),
    )
    first, second = (run_parts.plan([suite], index=index, of=2, durations={}) for index in (1, 2))
    assert run_parts.suites_of([gone], first) == (gone,)
    assert run_parts.suites_of([gone], second) == ()


def test_durations_are_the_mean_of_runs_that_ended() -> None:
    run = sides.run([["PP", "P!"]])
    trials = tuple(
        dataclasses.replace(trial, seconds=seconds)
        for trial, seconds in zip(run.trials, (1.0, 3.0, 5.0, 99.0), strict=True)
    )
    found = run_parts.durations_of(dataclasses.replace(run, trials=trials))
    assert {case: seconds for (_, case), seconds in found.items()} == {"c0": 2.0, "c1": 5.0}
