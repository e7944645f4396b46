"""Every rule that a change weakens is in sight, however many cases it edits beside."""

from __future__ import annotations

import dataclasses

import pytest
from builders import comparing
from hypothesis import given
from hypothesis import strategies as st

from evalgate import errors
from evalgate.model import RelaxedKind, RelaxedRule, Report, RuleChanges
from evalgate.reports import comment, html_report, terminal, view
from evalgate.reports.view import RelaxedLine

KIND = RelaxedKind


RENDERERS = (comment.render, comment.render_summary, html_report.render, terminal.render)


def case(number: int, *, suite: str = "a.json", kind: RelaxedKind = KIND.CASE_CHANGED) -> RelaxedRule:
    return RelaxedRule(kind=kind, subject=f"c{number}", suite=suite)


def threshold(number: int) -> RelaxedRule:
    return RelaxedRule(kind=KIND.THRESHOLD, subject="m", suite=f"s{number}.json", base="0.90", head="0.20")


def policy(subject: str) -> RelaxedRule:
    return RelaxedRule(kind=KIND.POLICY, subject=subject, base="1", head="2")


@pytest.mark.parametrize(
    ("relaxed", "said", "count"),
    [
        ([], [], ""),
        ([case(1)], ["expectation of case <c1> changed in <a.json>"], "1 case"),
        # results of others may come in any order
        (
            [case(1), case(2), threshold(1)],
            [
                "threshold of <m> lowered from <0.90> to <0.20> in <s1.json>",
                "expectations of 2 cases changed in <a.json>: <c1> and <c2>",
            ],
            "1 rule and 2 cases",
        ),
        (
            [case(1), case(2, suite="b.json"), case(3), case(4, kind=KIND.CASE_REMOVED)],
            [
                "expectations of 2 cases changed in <a.json>: <c1> and <c3>",
                "expectation of case <c2> changed in <b.json>",
                "case <c4> deleted in <a.json>",
            ],
            "4 cases",
        ),
        (
            [case(number) for number in range(5)],
            ["expectations of 5 cases changed in <a.json>: <c0>, <c1>, <c2> and 2 more"],
            "5 cases",
        ),
        (
            [policy("alpha"), policy("max_drop")],
            ["<alpha> changed from <1> to <2>", "<max_drop> changed from <1> to <2>"],
            "2 rules",
        ),
    ],
)
def test_in_lines(relaxed: list[RelaxedRule], said: list[str], count: str) -> None:
    made = comparing.report("pass*2 pass*2", "pass*2 pass*2", relaxed=tuple(relaxed))
    found = view.relaxed(made, mark="<{}>".format, named=3, room=99, size=lambda _: 1)
    assert (list(found.lines) if found else []) == said
    assert (found.counted if found else "") == count


@given(
    st.lists(st.builds(RelaxedLine, text=st.just("x"), about=st.sampled_from("abc"), rules=st.just(1)), max_size=30),
    st.integers(0, 30),
)
def test_no_kind_hides_another(found: list[RelaxedLine], room: int) -> None:
    shown = view.within(found, room=room, size=lambda _: 1)
    assert len(shown) == min(room, len(found))
    assert [line for line in found if line in shown] == found or len(shown) < len(found)
    kinds = [line.about for line in shown]
    for kind in {line.about for line in found}:
        had = sum(line.about == kind for line in found)
        fair = min(had, max((kinds.count(other) for other in "abc"), default=0))
        assert kinds.count(kind) >= fair - 1


def test_what_finds_no_room_is_counted() -> None:
    rules = [*map(threshold, range(9)), policy("alpha"), case(1), case(2)]
    shown = view.within(view.relaxed_lines(rules, mark=str, named=3), room=4, size=lambda _: 1)
    assert [line.about for line in shown] == ["threshold", "threshold", "alpha", "case_changed"]
    made = comparing.report("pass*2 pass*2", "pass*2 pass*2", relaxed=tuple(rules))
    rest = [view.relaxed(made, mark=str, named=3, room=room, size=lambda _: 1) for room in (4, 99)]
    assert [each.rest for each in rest if each] == ["7 rules more", ""]


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("edited", [13, 20_000])
def test_a_lowered_threshold_is_not_hidden_by_edited_cases(render: object, edited: int) -> None:
    """Nor are many thresholds hidden by others; with names as long as they may be."""
    cases = [case(number, suite=f"{number % 400}{'x' * 90}") for number in range(edited)]
    rules = [*(threshold(number) for number in range(40)), policy("alpha"), policy("fail_on")]
    made = comparing.report("pass*2 pass*2", "pass*2 pass*2", relaxed=(*cases, *rules))
    shown = "".join(render(made))  # type: ignore[operator]
    for name in ("s0.json", "s39.json", "alpha", "fail_on"):
        assert name in shown
    assert f"42 rules and {edited:,} cases" in shown or render is terminal.render


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("problem", ["", "the base's agent did not run"])
@pytest.mark.parametrize("by_base", [True, False])
def test_by_whose_rules_is_said_wherever_rules_are_shown(render: object, problem: str, by_base: bool) -> None:
    made = comparing.report("pass*2 pass*2", "pass*2 pass*2")
    assert made.comparison is not None
    comparison = dataclasses.replace(made.comparison, by_base=by_base, problem=problem)
    shown = "".join(render(dataclasses.replace(made, comparison=comparison)))  # type: ignore[operator]
    assert ("The base branch's rules apply" in shown.replace("&#x27;", "'").replace("&#39;", "'")) is by_base


@pytest.mark.parametrize(
    ("render", "begin", "end"),
    [
        (comment.render, "> [!WARNING]", "not this change's."),
        (comment.render_summary, "> [!WARNING]", "not this change's."),
        (html_report.render, '<div class="verdict not_measured">', "not this change"),
    ],
)
def test_where_nothing_is_compared_rules_are_told_in_the_same_words(render: object, begin: str, end: str) -> None:
    """Names that look like markup, a colon or a prefix of ours are names here as there."""
    hostile = RelaxedRule(kind=KIND.POLICY, subject="relaxed rule: `a` of *b*", base="<b>", head="2")
    rules = RuleChanges(relaxed=(hostile, threshold(1), case(1), case(2)), by_base=True)
    compared = comparing.report("pass*2 pass*2", "pass*2 pass*2", relaxed=rules.relaxed)
    assert compared.comparison is not None
    compared = dataclasses.replace(compared, comparison=dataclasses.replace(compared.comparison, by_base=True))
    shown = []
    for each in (compared, dataclasses.replace(compared, comparison=None, rules=rules)):
        text = "".join(render(each))  # type: ignore[operator]
        shown.append(begin + text.partition(begin)[2].partition(end)[0])
    assert shown[0] == shown[1]
    assert "2 rules and 2 cases" in shown[0]


@pytest.mark.parametrize(
    ("rules", "is_listed"),
    [
        (RuleChanges(relaxed=(threshold(1),)), False),  # at the top already
        (RuleChanges(), True),  # results of a version that told of it in words alone
    ],
)
def test_what_is_told_at_the_top_is_no_remark_beside(rules: RuleChanges, *, is_listed: bool) -> None:
    problem = errors.warning("relaxed-rule", "relaxed rule: told in words")
    made = comparing.report("pass", "pass")
    alone: Report = dataclasses.replace(made, comparison=None, rules=rules, problems=(problem,))
    assert ("told in words" in comment.render_summary(alone)) is is_listed
