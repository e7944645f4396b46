"""Whatever a change edits of its own gate, it turns nothing green in silence."""

from __future__ import annotations

import dataclasses
import functools
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders.nightly import NIGHTLY
from hypothesis import given, settings, strategies as st

from evalgate.baseline import base as baseline_base, failures, rules as baseline_rules
from evalgate.baseline.base import Base
from evalgate.comparison.book import Sides
from evalgate.config import load
from evalgate.config.context import Context, Trigger
from evalgate.discovery import project
from evalgate.errors import EvalgateError, Place
from evalgate.gate import decision, stored_results
from evalgate.gate.measure import Measurement
from evalgate.model import (
    BaseOrigin,
    BaseSource,
    Edits,
    GradedTrial,
    NotEvaluated,
    Purpose,
    Reason,
    Report,
    Run,
    Score,
    Suite,
    TrialKey,
)
from evalgate.results import file as results_file

FILES = ("desk.evalset.json", "other.evalset.json")
CRITERIA: dict[str, Any] = {
    "response_match_score": 0.8,
    "tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "EXACT"},
    "final_response_match_v2": {"threshold": 1.0},
}
FRESH_PAIRS = 8
BROKEN = ("response_match_score", "tool_trajectory_avg_score", "final_response_match_v2")
"""The criteria by which head may fail."""

Files = dict[str, Any]
"""A checkout: the content of its files by name."""
Edit = Callable[[Files], None]


def conversation(number: int) -> dict[str, Any]:
    words = {"user_content": {"role": "user", "parts": [{"text": f"question {number}"}]}}
    answer = {"final_response": {"role": "model", "parts": [{"text": f"answer {number}"}]}}
    calls = {"intermediate_data": {"tool_uses": [{"name": "look", "args": {"number": number}}]}}
    return {"eval_id": f"case_{number}", "conversation": [{**words, **answer, **calls}]}


def checkout(gate_file: str, **rules: Any) -> Files:
    cases = [conversation(number) for number in range(4)]
    files: Files = {
        name: {"eval_set_id": name.partition(".")[0], "eval_cases": cases} for name in FILES
    }
    agents = [{"driver": "command", "command": ["true"]}]
    return {
        **files,
        "test_config.json": {"criteria": dict(CRITERIA)},
        gate_file: {"agents": agents, **rules},
    }


def in_gate_file(**rules: Any) -> Edit:
    def edit(files: Files) -> None:
        name = next(name for name in files if name.endswith("evalgate.yml"))
        files[name] = {**files[name], **rules}

    return edit


def in_criteria(**criteria: Any) -> Edit:
    """None: the criterion goes."""

    def edit(files: Files) -> None:
        asked = {**files["test_config.json"]["criteria"], **criteria}
        files["test_config.json"] = {
            "criteria": {name: use for name, use in asked.items() if use is not None}
        }

    return edit


def second_gate_file(**rules: Any) -> Edit:
    """One that goes before the other."""
    return lambda files: files.update(
        {"evalgate.yml": {"agents": files[".github/evalgate.yml"]["agents"], **rules}}
    )


def second_criteria(**criteria: Any) -> Edit:
    return lambda files: files.update({"mine.json": {"criteria": criteria}})


SHARES = st.sampled_from([0.0, 0.1, 0.5, 0.9])
GLOBS = st.sampled_from([["desk*"], ["other*"], ["*"]])
WORDS = ["threshold", "regression", "not_measured", "inconclusive"]
SUITE_RULES = st.one_of(
    st.builds(lambda match, rate: {"match": match, "pass_rate": rate}, GLOBS, SHARES),
    st.builds(
        lambda match, severity: {"match": match, "severity": severity},
        GLOBS,
        st.sampled_from(["advisory"]),
    ),
    st.builds(lambda match: {"match": match, "criteria": {"response_match_score": 0.0}}, GLOBS),
    st.builds(lambda match: {"match": match, "config": "mine.json"}, GLOBS),
)
COMPARED = st.fixed_dictionaries(
    {},
    optional={"gating": st.just(False), "lower_is_better": st.just(True), "max_drop": st.just(1.0)},
)
ENTRIES = st.builds(
    lambda file, number: {"case": f"{file}:case_{number}", "owner": "@me", "until": "2026-02-01"},
    st.sampled_from(FILES),
    st.integers(0, 3),
)
RULES = st.fixed_dictionaries(
    {},
    optional={
        "pass-rate": SHARES,
        "min-measured": SHARES,
        "max-drop": SHARES,
        "alpha": st.sampled_from([0.000001, 0.4]),
        "threshold": st.sampled_from(["new", "all", "confirmed"]),
        "fail-on": st.lists(st.sampled_from(WORDS), unique=True),
        "policy": st.just("head"),
        "skip-judged": st.booleans(),
        "suites": st.lists(SUITE_RULES, max_size=3),
        "compare": st.dictionaries(st.sampled_from(BROKEN), COMPARED),
        "exclude": GLOBS,
        "paths": st.sampled_from([["desk.evalset.json"], ["other.evalset.json"]]),
        "quarantine": st.lists(ENTRIES, max_size=3, unique_by=lambda entry: entry["case"]),
        "criteria": st.just("mine.json"),
    },
)
ASKED = st.fixed_dictionaries(
    {},
    optional={
        "response_match_score": st.sampled_from([None, 0.0, 0.1, 0.9]),
        "tool_trajectory_avg_score": st.sampled_from(
            [None, 0.0, {"threshold": 1.0, "match_type": "ANY_ORDER"}]
        ),
        "final_response_match_v2": st.sampled_from([None, {"threshold": 0.0}]),
        "token_usage_v1": st.just({}),
    },
)
EDITS = st.one_of(
    st.builds(lambda rules: in_gate_file(**rules), RULES),
    st.builds(lambda criteria: in_criteria(**criteria), ASKED),
    st.builds(lambda rules: second_gate_file(**rules), RULES),
    st.builds(lambda criteria: second_criteria(**criteria), st.just({"response_match_score": 0.0})),
)


def written(files: Files, root: Path) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return root


def score_of(suite: Suite, name: str, *, broken: str) -> Score | NotEvaluated:
    """What a run gets: the worst by the criterion that broke, unless its options ask for less."""
    use = next(use for use in suite.criteria if use.name == name)
    if (use.metric or use.name) not in CRITERIA:
        return NotEvaluated(reason=Reason.NOT_APPLICABLE, message="")
    is_easy = "ANY_ORDER" in str(use.options)
    return Score(value=0.0 if broken == (use.metric or use.name) and not is_easy else 1.0)


def side(suites: tuple[Suite, ...], broken: str, cases: frozenset[str]) -> Run:
    def trials(*rounds: tuple[Purpose, int]) -> Iterator[GradedTrial]:
        for suite in suites:
            for case in suite.eval_set.cases:
                fault = broken if case.case_id in cases else ""
                grades = {
                    use.name: score_of(suite, use.name, broken=fault) for use in suite.criteria
                }
                for purpose, number in rounds:
                    key = TrialKey(
                        suite=suite.key, case_id=case.case_id, purpose=purpose, number=number
                    )
                    yield GradedTrial(key=key, failure=None, grades=grades)

    again = trials(
        *(
            (purpose, number)
            for purpose in (Purpose.PAIR, Purpose.SINGLE)
            for number in range(FRESH_PAIRS)
        )
    )
    return Run(
        suites=suites,
        trials=tuple(trials((Purpose.FIRST, 0))),
        confirmations=tuple(again),
        transcripts={}.get,
    )


def decided(
    base_files: Files, head_files: Files, *, broken: str, cases: frozenset[str]
) -> tuple[Report, Report] | None:
    """The report on a change, with its conversations made up and all else for real, and the report
    on its results; None where the gate refuses to begin, which is red."""
    with tempfile.TemporaryDirectory() as folder:
        roots = [
            written(files, Path(folder, name))
            for name, files in (("base", base_files), ("head", head_files))
        ]
        context = Context(environ={}, cache=Path(folder), trigger=Trigger(is_pull_request=True))
        try:
            own = load.load_settings({"root": str(roots[1])})
            suites = project.prepare(own, environ={}).set_apart().suites
            known = baseline_base.read(own, roots[0], suites, {})
            base = Base(origin=BaseOrigin(source=BaseSource.RERUN), root=roots[0], project=known)
            rules = baseline_rules.in_force(own, suites, base, context)
        except EvalgateError:
            return None
        rules, _ = baseline_rules.open_history(rules, own, base, context)
        head, then = side(rules.suites, broken, cases), side(rules.suites, "", frozenset())
        both = [
            Sides(
                head=book.applied(head),
                base=book.applied(then),
                policy=book.policy,
                recorded=failures.recorded_of(head),
            )
            for book in rules.books
        ]
        comparisons = [failures.compare(each, origin=base.origin) for each in both]
        measurement = Measurement(head=head, comparisons=comparisons, sides=both)
        report = decision.decide(measurement, rules, context)
        base_report = dataclasses.replace(report, run=then, edits=Edits(), comparison=None)
        stored = [
            results_file.parse(json.loads("".join(text)), Place("results.json"))
            for text in (
                results_file.render_results(report, outcomes=stored_results.NOTHING),
                results_file.render_results(base_report, outcomes=stored_results.NOTHING),
            )
        ]
        again = stored_results.compare_stored(own, context, head=stored[0], base=stored[1])
        return report, again


CHANGES = st.tuples(
    st.lists(EDITS, min_size=1, max_size=3),
    st.sampled_from(BROKEN),
    st.sets(st.sampled_from([f"case_{number}" for number in range(4)]), min_size=1).map(frozenset),
)


@functools.cache
def is_red(policy: str, broken: str, cases: frozenset[str]) -> bool:
    """Whether the change is red without an edit, and nothing is told of its rules."""
    base = checkout(".github/evalgate.yml", policy=policy)
    reports = decided(base, base, broken=broken, cases=cases)
    return reports is not None and reports[0].verdict.blocks and not reports[0].edits.decide


@pytest.mark.parametrize("policy", ["head", "both"])
@settings(max_examples=100 if NIGHTLY else 4)
@given(changes=st.lists(CHANGES, min_size=5, max_size=5))
def test_no_edit_turns_red_green_in_silence(
    policy: str, changes: list[tuple[list[Edit], str, frozenset[str]]]
) -> None:
    """Twenty changes for each policy; at night five thousand."""
    base = checkout(".github/evalgate.yml", policy=policy)
    for edits, broken, cases in changes:
        assert is_red(policy, broken, cases)
        head = {**base}
        for edit in edits:
            edit(head)
        reports = decided(base, head, broken=broken, cases=cases)
        if reports is not None and policy == "both":
            report, again = reports
            assert report.verdict.blocks, (head, "nothing turns it green")
            assert again.verdict.blocked_by is report.verdict.blocked_by, (head, "of results, too")
        elif reports is not None:
            report, _ = reports
            assert report.verdict.blocks or report.edits.decide, (
                head,
                "it is red, or the first line says why not",
            )
