"""What a change edits of its own gate is in sight, and said first where the change passes by
nothing else."""

from __future__ import annotations

import dataclasses
import re

import pytest
from builders import comparing

from evalgate.model import EditKind, Edits, GateEdit, Report
from evalgate.reports import comment, edits, html_report, terminal

RENDERERS = (comment.render, comment.render_summary, html_report.render, terminal.render)


def case(number: int, *, suite: str = "a.json", kind: EditKind = EditKind.CASE_CHANGED) -> GateEdit:
    return GateEdit(kind=kind, subject=f"c{number}", suite=suite)


def threshold(number: int) -> GateEdit:
    return GateEdit(
        kind=EditKind.RULE, subject="m", suite=f"s{number}.json", base="0.90", head="0.20"
    )


def policy(subject: str) -> GateEdit:
    return GateEdit(kind=EditKind.RULE, subject=subject, base="1", head="2")


def beside(*changes: GateEdit, verdict: str = "pass", **more: object) -> Report:
    made = comparing.report(f"{verdict}*2 pass*2", "pass*2 pass*2")
    return dataclasses.replace(made, edits=Edits(edits=changes, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "said", "count"),
    [
        ([], [], ""),
        ([case(1)], ["expectation of case <c1> changed in <a.json>"], "1 expectation"),
        # in whatever order they come, cases stand before no rule
        (
            [case(1), case(2), threshold(1)],
            [
                "<m> <0.90> \u2192 <0.20> in <s1.json>",
                "expectations of 2 cases changed in <a.json>: <c1> and <c2>",
            ],
            "1 rule and 2 expectations",
        ),
        (
            [case(1), case(2, suite="b.json"), case(3), case(4, kind=EditKind.CASE_REMOVED)],
            [
                "expectations of 2 cases changed in <a.json>: <c1> and <c3>",
                "expectation of case <c2> changed in <b.json>",
                "case <c4> deleted in <a.json>",
            ],
            "4 expectations",
        ),
        (
            [case(number) for number in range(9)],
            [
                "expectations of 9 cases changed in <a.json>: <c0>, <c1>, <c2>, <c3>, <c4> and 4 more"
            ],
            "9 expectations",
        ),
        (
            [policy("alpha"), policy("max_drop")],
            ["<alpha> <1> \u2192 <2>", "<max_drop> <1> \u2192 <2>"],
            "2 rules",
        ),
        (
            [GateEdit(kind=EditKind.FILE, subject="evalgate.yml", base="-1", head="+2")],
            ["<evalgate.yml> (+2, -1)"],
            "1 file",
        ),
        (
            [
                case(1),
                GateEdit(
                    kind=EditKind.AGENT, subject="agent", suite="x", base="adk a", head="adk b"
                ),
            ],
            [
                "agent <adk a> \u2192 <adk b> in <x>",
                "expectation of case <c1> changed in <a.json>",
            ],
            "1 agent and 1 expectation",
        ),
        (
            [GateEdit(kind=EditKind.SUITE_REMOVED, subject="x", suite="x", base="3 cases")],
            ["evaluation file <x> deleted"],
            "1 expectation",
        ),
    ],
)
def test_in_lines(changes: list[GateEdit], said: list[str], count: str) -> None:
    shown = edits.summarize(
        Edits(edits=tuple(changes)), mark="<{}>".format, room=99, size=lambda _: 1
    )
    assert (shown["lines"] if shown else []) == said
    assert (shown["counted"] if shown else "") == count


def test_what_finds_no_room_is_counted() -> None:
    changes = Edits(edits=(*map(threshold, range(9)), policy("alpha"), case(1), case(2)))
    rest = [edits.summarize(changes, mark=str, room=room, size=lambda _: 1) for room in (4, 99)]
    assert [shown["remaining"] for shown in rest if shown] == [7, 0]


def test_a_name_with_braces_is_no_placeholder() -> None:
    hostile = Edits(
        edits=(GateEdit(kind=EditKind.RULE, subject="{base}", base="{0}", head="{head}"),)
    )
    assert edits.rules(hostile) == "{base} {0} \u2192 {head}"


FIRST = "passes only because this change relaxes the rules"


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("edited", [13, 20_000])
def test_a_pass_by_the_changes_own_rules_alone_is_said_first(render: object, edited: int) -> None:
    """However many cases it edits, with names as long as they may be."""
    cases = [case(number, suite=f"{number % 400}{'x' * 90}") for number in range(edited)]
    shown = "".join(render(beside(*cases, threshold(0), policy("alpha"), decide=True)))  # type: ignore[operator]
    assert FIRST in shown.lower()
    assert shown.lower().index(FIRST) < len(shown) // 10 or render in (
        html_report.render,
        terminal.render,
    )
    assert "alpha" in shown


@pytest.mark.parametrize("render", RENDERERS)
def test_edits_that_decide_nothing_are_no_headline(render: object) -> None:
    shown = "".join(render(beside(threshold(0))))  # type: ignore[operator]
    assert FIRST not in shown.lower()


@pytest.mark.parametrize("render", RENDERERS)
def test_a_change_that_fails_by_its_own_rules_alone_is_told_so(render: object) -> None:
    shown = "".join(render(beside(policy("pass_rate"), verdict="fail", decide=True)))  # type: ignore[operator]
    assert "The edited rules of this change cause it (pass_rate 1 \u2192 2)" in re.sub(
        r"`|</?code>", "", shown
    )
    theirs = beside(policy("pass_rate"), verdict="fail", decide=True, by_base=True)
    assert "edited rules" not in "".join(render(theirs))  # type: ignore[operator]


@pytest.mark.parametrize(
    "render", [comment.render, comment.render_summary, html_report.render, terminal.render]
)
@pytest.mark.parametrize("by_base", [True, False])
def test_that_the_bases_rules_decided_is_said(render: object, *, by_base: bool) -> None:
    shown = "".join(render(beside(policy("alpha"), verdict="fail", by_base=by_base)))  # type: ignore[operator]
    assert (
        "The base branch's rules decided" in shown.replace("&#x27;", "'").replace("&#39;", "'")
    ) is by_base


@pytest.mark.parametrize("render", RENDERERS)
def test_without_edits_nothing_is_said_of_edits(render: object) -> None:
    shown = "".join(render(beside(verdict="fail", by_base=True)))  # type: ignore[operator]
    assert "base branch" in shown
    assert "edits its own gate" not in shown
    assert "edits of its own gate" not in shown


@pytest.mark.parametrize("render", [comment.render, comment.render_summary])
@pytest.mark.parametrize("kind", EditKind)
def test_no_value_of_an_edit_is_markup(render: object, kind: EditKind) -> None:
    """The results of a fork are anybody's words."""
    attack = "@octocat ![x](https://evil.example/x.png)"
    changed = GateEdit(kind=kind, subject="a", suite="a", base=attack, head=f"+1 {attack}")
    shown = "".join(render(beside(changed)))  # type: ignore[operator]
    assert attack not in re.sub("`[^`]*`", "", shown)


def test_the_page_shows_the_lines_that_differ() -> None:
    changed = GateEdit(
        kind=EditKind.FILE, subject="evalgate.yml", base="-1", head="+1", lines=("-a: <b>", "+a: 2")
    )
    page = html_report.render(beside(changed))
    assert "<del>-a: &lt;b&gt;</del>" in page
    assert "<ins>+a: 2</ins>" in page
