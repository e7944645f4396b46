"""Every report has one word for each case, after any sequence of whole, partial and interrupted
runs."""

from __future__ import annotations

import dataclasses
import datetime as dt
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import junitparser
from builders import build
from hypothesis import HealthCheck, example, given, settings, strategies as st

from evalgate import reports
from evalgate.config import load
from evalgate.config.context import SilentWatcher
from evalgate.formats import fingerprints
from evalgate.gate import compare_files, decision, known, prepare
from evalgate.model import GradedTrial, Policy, Purpose, Report, TrialKey
from evalgate.reports import junit, view, wording
from evalgate.results import file, kept
from evalgate.results.file import StoredOutcomes
from evalgate.results.output import RESULTS

NAMES = ("a", "b", "c", "d")
EXAMPLES = int(os.environ.get("EVALGATE_EXAMPLES", "20"))
WORDS = st.sampled_from(["pass", "fail", "error", "flaky", "never"])
RUNS = st.lists(st.dictionaries(st.sampled_from(NAMES), WORDS, min_size=1), min_size=1, max_size=4)


def reran(name: str) -> tuple[GradedTrial, ...]:
    passes = build.run_of(
        [build.suite(asked(name))], {(build.SUITE, name): [build.done_of("pass")]}
    ).trials[0]
    return tuple(
        dataclasses.replace(
            passes,
            key=TrialKey(suite=build.SUITE, case_id=name, purpose=Purpose.SINGLE, number=number),
        )
        for number in range(3)
    )


def asked(name: str) -> build.Case:
    return build.case(
        name, build.turn(f"Book {name}.", build.call("book", city="Oslo"), answer="Booked.")
    )


def report_of(outcomes: Mapping[str, str], second: int) -> Report:
    suites = (build.suite(*(asked(name) for name in NAMES if name in outcomes)),)
    done = {
        (build.SUITE, name): [
            None if word == "never" else build.done_of("fail" if word == "flaky" else word)
        ]
        for name, word in outcomes.items()
    }
    run = build.run_of(suites, done, complete="never" not in outcomes.values())
    run = dataclasses.replace(
        run,
        started_at=f"2026-01-02T03:04:{second:02}+00:00",
        confirmations=tuple(
            trial for name, word in outcomes.items() if word == "flaky" for trial in reran(name)
        ),
        fingerprints=fingerprints.CaseFingerprints().of_cases(suites),
    )
    verdict, _ = decision.verdict_of(run, None, policy=Policy(), quarantined_cases={})
    return Report(run=run, verdict=verdict, policy=Policy(), version="0.1.0")


def words_of(report: Report) -> dict[str, str]:
    return {case.case_id: wording.case_word(case) for case in view.of(report).cases}


def keep(report: Report, root: Path, second: int) -> None:
    kept.write(
        [("results", RESULTS, file.render_results(report, outcomes=StoredOutcomes({}, {})))],
        root / "report",
        report,
        root=root,
        is_selected=len(view.of(report).cases) < len(NAMES),
        moment=dt.datetime(2026, 1, 2, 3, 4, second, tzinfo=dt.UTC),
        redact=str,
    )


def insist_on_counts(report: Report) -> None:
    """Terminal, comment, outputs and JUnit have the counts of the view."""
    counts = view.of(report).totals.cases
    assert counts.total == len(view.of(report).cases)
    figures = f"{counts.passed} passed, {counts.failed} failed"
    assert figures in reports.render_terminal(report)
    outputs = dict(reports.render_outputs(report))
    assert (int(outputs["passed"]), int(outputs["failed"])) == (counts.passed, counts.failed)
    tree = junitparser.JUnitXml.fromstring(junit.render(report).encode())
    assert tree.tests == counts.total
    assert tree.failures == counts.failed


@given(RUNS)
@example([{"a": "flaky", "b": "pass"}, {"b": "fail"}, {"c": "never", "b": "pass"}])
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_every_place_has_one_word_for_a_case(runs: list[dict[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "evalgate.yml").write_text("{}\n")
        expected: dict[str, str] = {}
        for second, outcomes in enumerate(runs):
            report = report_of(outcomes, second)
            insist_on_counts(report)
            keep(report, root, second)
            expected |= words_of(report)
        gate_settings = load.load_settings({"root": folder})
        stored_cases = known.newest(gate_settings)
        # `show`
        assert {
            key[1]: reports.stored_word(case.verdict.kind, case.label)
            for key, case in stored_cases.items()
        } == expected
        # `history`
        newest: dict[str, str] = {}
        for run in reversed(kept.runs(root)):
            labels = run.about.case_labels()
            newest |= {
                key[1]: reports.stored_word(kind, labels[key])
                for key, kind in run.about.kinds().items()
            }
        assert newest == expected
        # `ui`
        suites = (build.suite(*(asked(name) for name in NAMES if name in expected)),)
        context = prepare.make_context(gate_settings, environ={}, watcher=SilentWatcher())
        page = compare_files.beside(
            gate_settings, context, head=known.joined(stored_cases, suites), base=None
        )
        assert words_of(page) == expected
        # `run --failed`
        broken = {name for name, word in expected.items() if word != "pass"}
        assert {
            key[1] for key, case in stored_cases.items() if case.verdict.kind != "pass"
        } == broken
