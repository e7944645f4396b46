"""The counts of cases: one word for each case, the same numbers in every report, which add up."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import junitparser
import pytest
from builders import build, comparing
from hypothesis import given, settings, strategies as st

from evalgate import reports
from evalgate.model import CaseStatus, Policy, Report, ThresholdRule
from evalgate.model.deviations import ADKS, OURS
from evalgate.reports import view
from evalgate.results import file
from evalgate.results.file import StoredOutcomes

SAID = {
    "passed": "passed",
    "failed": "failed",
    "flaky": "flaky",
    "quarantined": "quarantined",
    "inconclusive": "inconclusive",
    "not measured": "not_measured",
    "fixed": "fixed",
    "new": "new",
    "pre-existing": "pre_existing",
    "with mixed results": "mixed",
    "without a base result": "no_base",
    "not confirmed": "not_confirmed",
}
"""The words of the strips of figures, and the names of their counts."""

WHOLE = ("passed", "failed", "flaky", "quarantined", "inconclusive", "not_measured")
OUTCOMES = st.sampled_from(
    ["pass*2", "fail*2", "wrong*2", "pass/fail", "pass/error", "error*2", "never*2", "skipped*2"]
)
RERUNS = st.sampled_from(["", "pass*9", "fail*20", "pass/fail*19", "error*9"])
STATUSES = st.sampled_from(
    [CaseStatus.PAIRED, CaseStatus.PAIRED, CaseStatus.NEW, CaseStatus.CHANGED]
)
POLICIES = st.builds(
    Policy,
    threshold=st.sampled_from(ThresholdRule),
    pass_rate=st.sampled_from([1.0, 0.5]),
    min_measured=st.sampled_from([1.0, 0.5]),
    deviations=st.sampled_from([OURS, ADKS]),
)
CASES = st.lists(st.tuples(OUTCOMES, OUTCOMES, RERUNS, RERUNS, STATUSES), min_size=1, max_size=6)


def made_of(
    cases: Sequence[tuple[str, str, str, str, CaseStatus]],
    policy: Policy,
    truncated: str,
    quarantined: frozenset[int] = frozenset(),
) -> Report:
    """A report on cases by what they gave on head, on the base, in the reruns of both; and whether
    they are paired. `quarantined`: by number, from 1."""
    sides: list[Mapping[tuple[str, str], list[build.Done | None]]] = [
        {
            (build.SUITE, f"case_{number}"): [
                build.done_of(word) for word in comparing.spread(case[side])
            ]
            for number, case in enumerate(cases, 1)
            if case[side]
        }
        for side in (2, 3)
    ]
    head, base = (" ".join(case[side] for case in cases) for side in (0, 1))
    unpaired = {
        (build.SUITE, f"case_{number}"): case[4]
        for number, case in enumerate(cases, 1)
        if case[4] is not CaseStatus.PAIRED
    }
    fresh = (sides[0], sides[1])
    waiting = frozenset((build.SUITE, f"case_{number}") for number in quarantined)
    return comparing.report(
        head,
        base,
        policy=policy,
        unpaired=unpaired,
        fresh=fresh,
        truncated=truncated,
        waiting=waiting,
    )


def told(strip: str) -> dict[str, int]:
    """The numbers of `12 cases: 7 passed (1 fixed), ...`, marks and all; a word that is left out
    counts none."""
    found = re.findall(rf"(\d+) ({'|'.join(SAID)}|cases?)\b", strip.replace("*", ""))
    known = {SAID.get(word, "total"): int(number) for number, word in found}
    return {name: known.get(name, 0) for name in ("total", *SAID.values())}


def in_html(page: str) -> dict[str, int]:
    figures = re.findall(r"<div><dt>([^<]*)</dt><dd>(\d+)</dd></div>", page)
    return told(", ".join(f"{number} {name}" for name, number in figures))


def in_junit(text: str) -> dict[str, int]:
    """The sums over all evaluation files."""
    suites = [
        each for each in junitparser.JUnitXml.fromstring(text.encode()) if each.name != "evalgate"
    ]
    found = dict.fromkeys(("total", *SAID.values()), 0)
    for suite in suites:
        for each in suite.properties():
            name = each.name.replace("-", "_")
            found |= {name: found[name] + int(each.value)} if name in found else {}
    return found


def everywhere(report: Report) -> dict[str, dict[str, int]]:
    """The counts by the report that tells them."""
    markdown = {name: reports.RENDERERS[name].render(report) for name in ("comment", "summary")}
    terminal = next(
        line
        for line in reports.render_terminal(report).splitlines()
        if re.match(r"\d+ cases?: ", line)
    )
    results = json.loads("".join(file.render_results(report, outcomes=StoredOutcomes({}, {}))))
    labels = [case.get("label", "passed") for suite in results["suites"] for case in suite["cases"]]
    strips = {
        name: re.search(r"^\*\*\d+\*\* cases?: .*$", text, re.MULTILINE)
        for name, text in markdown.items()
    }
    none = dict.fromkeys(("total", *SAID.values()), 0)
    return {
        **{
            name: told(found[0].partition(" · pass rate")[0])
            for name, found in strips.items()
            if found
        },
        "terminal": told(terminal.partition(" run")[0].rpartition(",")[0]),
        "html": in_html(reports.RENDERERS["html"].render(report)),
        "junit": in_junit(reports.RENDERERS["junit"].render(report)),
        "results": none | results["verdict"]["cases"],
        "labels": none
        | {"total": len(labels)}
        | {word: labels.count(word) for word in set(labels) - {"failed"}},
    }


def check(report: Report) -> Mapping[str, int]:
    counts = view.view_of(report).counts
    expected = {name: value for name, value in counts.items() if name in {"total", *SAID.values()}}
    found = everywhere(report)
    assert len(found) == 7
    of_cases = found.pop("labels")
    assert {name: of_cases[name] for name in of_cases if name not in ("passed", "failed")} == {
        name: expected[name] for name in expected if name not in ("passed", "failed")
    }
    assert of_cases["passed"] == counts["passed"] - counts["fixed"]
    for where, numbers in found.items():
        assert numbers == expected, where
    outputs = reports.render_outputs(report)
    assert all(int(outputs[name.replace("_", "-")]) == expected[name] for name in ("total", *WHOLE))
    assert (
        counts["total"]
        == sum(expected[name] for name in WHOLE)
        == len(report.run.suites[0].eval_set.cases)
    )
    parts = sum(
        counts[name] for name in ("new", "pre_existing", "mixed", "no_base", "not_confirmed")
    )
    is_beside = report.comparison is not None and report.comparison.base is not None
    assert parts == (
        counts["failed"] if is_beside else 0
    )  # beside a base each failure is somebody's
    return counts


@settings(max_examples=40)
@given(
    cases=CASES,
    policy=POLICIES,
    truncated=st.sampled_from(["", "the budget of 9 agent calls is spent"]),
    quarantined=st.frozensets(st.integers(1, 6), max_size=2),
)
def test_every_report_has_the_same_counts_and_they_add_up(
    cases: list[tuple[str, str, str, str, CaseStatus]],
    policy: Policy,
    truncated: str,
    quarantined: frozenset[int],
) -> None:
    counts = check(made_of(cases, policy, truncated, quarantined))
    assert counts["quarantined"] == sum(number <= len(cases) for number in quarantined)


@settings(max_examples=20)
@given(
    words=st.lists(
        st.sampled_from(["pass", "fail", "wrong/pass", "error", "never", "skipped"]),
        min_size=1,
        max_size=6,
    )
)
def test_the_same_without_a_base(words: list[str]) -> None:
    counts = check(build.report(" ".join(words)))
    assert counts["total"] == len(words)
    assert counts["fixed"] == counts["quarantined"] == 0  # which only a base, or a list, can make


@pytest.mark.parametrize(
    ("head", "base", "reruns", "label", "sentence"),
    [
        ("fail*2", "pass*2", ("fail*9", "pass*9"), "new", "1 of 9 cases failed (1 new) in"),
        (
            "fail*2",
            "pass*2",
            ("pass*9", "pass*9"),
            "flaky",
            "8 of 9 cases passed; 1 flaky (non-blocking).",
        ),
        (
            "fail*2",
            "fail*2",
            ("fail*20", ""),
            "pre_existing",
            "1 of 9 cases failed (1 pre-existing) in",
        ),
        ("pass*2", "fail*2", ("", ""), "fixed", "All 9 cases passed."),
        (
            "fail*2",
            "error*2",
            ("fail*20", ""),
            "no_base",
            "1 of 9 cases failed (1 without a base result) in",
        ),
        (
            "fail*2",
            "pass*2",
            ("error*9", ""),
            "not_confirmed",
            "1 of 9 cases failed (1 not confirmed) in",
        ),
        ("error*2", "pass*2", ("", ""), "not_measured", "1 of 9 cases could not be evaluated in"),
    ],
)
def test_the_word_of_a_case(
    head: str, base: str, reruns: tuple[str, str], label: str, sentence: str
) -> None:
    cases = [
        (head, base, *reruns, CaseStatus.PAIRED),
        *([("pass*2", "pass*2", "", "", CaseStatus.PAIRED)] * 8),
    ]
    report = made_of(cases, Policy(), "")
    counts = check(report)
    assert counts[label] == 1
    assert any(sentence in gate.reason for gate in report.verdict.gates)


def test_a_case_whose_failure_blocks_is_not_called_flaky() -> None:
    """Under `threshold: all` nothing is run again, so that runs that differ are no accident to
    anybody."""
    report = comparing.report(
        "pass/fail pass*2", "pass*2 pass*2", policy=Policy(threshold=ThresholdRule.ALL)
    )
    counts = check(report)
    assert (counts["flaky"], counts["mixed"], counts["failed"]) == (0, 1, 1)
