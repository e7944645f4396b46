"""Every place has one word for each case, after any sequence of whole, partial and interrupted
runs, with and without a base, and of changes of cases, thresholds and the quarantine."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import junitparser
from builders import build
from builders.nightly import NIGHTLY
from click.testing import CliRunner
from hypothesis import HealthCheck, event, example, given, settings, strategies as st

from evalgate import __version__, reports
from evalgate.cli import known as cli_known
from evalgate.config import load
from evalgate.errors import NothingToDo
from evalgate.formats import fingerprints
from evalgate.gate import prepare, stored_results
from evalgate.model import GradedTrial, Purpose, Report, Suite, TrialKey
from evalgate.model.deviations import OURS
from evalgate.reports import junit, view
from evalgate.reports.phrases import phrase
from evalgate.results import file, kept
from evalgate.results.file import Stored, StoredOutcomes
from evalgate.results.output import BASE_RESULTS, RESULTS
from evalgate.wings.ui.workspace import LATEST, Workspace

SUITE = "desk.evalset.json"
NAMES = ("a", "b", "c", "d")
TODAY = dt.datetime.now(dt.UTC)
EXAMPLES = int(os.environ.get("EVALGATE_EXAMPLES", "20" if NIGHTLY else "8"))
NOTHING = StoredOutcomes({}, {})
FLAKY = ("flaky", "shaky")
"""They fail, and pass in reruns: of head alone, and of both sides if there is a base."""
UNBEGUN = ("never", "cut")
OUTCOMES = st.dictionaries(
    st.sampled_from(NAMES),
    st.sampled_from(["pass", "fail", "wrong", "error", *FLAKY, "moved", "never", "cut"]),
    min_size=1,
)
STEPS = st.one_of(
    st.tuples(st.just("run"), OUTCOMES),
    st.tuples(st.just("compare"), OUTCOMES),
    st.tuples(st.sampled_from(["edit", "remove", "quarantine", "release"]), st.sampled_from(NAMES)),
    st.tuples(st.just("threshold"), st.sampled_from([0.5, 1.0])),
    st.tuples(st.just("rule"), st.sampled_from(["all", "confirmed"])),
)


class Desk:
    """A repository of four cases, and what is to be said of those that ran."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.questions = dict.fromkeys(NAMES, 0)  # how often each was edited
        self.quarantined: set[str] = set()
        self.threshold = 1.0
        self.rule = "confirmed"
        self.words: dict[str, str] = {}  # of those that ran, quarantine aside
        self.scores: dict[str, float] = {}  # of their answers, where these are below 1
        self.runs = 0
        self.save()

    def save(self) -> None:
        cases = [
            {
                "eval_id": name,
                "conversation": [
                    {
                        "user_content": {"role": "user", "parts": [{"text": f"Book {name}{version}."}]},
                        "final_response": {"role": "model", "parts": [{"text": "Booked."}]},
                        "intermediate_data": {"tool_uses": [{"name": "book", "args": {"city": "Oslo"}}]},
                    }
                ],
            }
            for name, version in self.questions.items()
        ]  # fmt: skip
        until = (TODAY + dt.timedelta(days=20)).date().isoformat()
        quarantine = [
            {"case": f"{SUITE}:{name}", "owner": "@desk", "until": until}
            for name in sorted(self.quarantined)
        ]
        agents = [{"driver": "command", "command": [sys.executable, "agent.py"]}]
        for name, content in {
            SUITE: {"eval_set_id": "desk", "eval_cases": cases},
            "test_config.json": {
                "criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": self.threshold}
            },
            "evalgate.yml": {"agents": agents, "quarantine": quarantine, "threshold": self.rule},
        }.items():  # fmt: skip
            (self.root / name).write_text(json.dumps(content))

    def suites(self, names: Iterable[str]) -> tuple[Suite, ...]:
        project = prepare.prepare(load.load_settings({"root": str(self.root)}), environ={})
        (suite,) = project.suites
        cases = tuple(case for case in suite.eval_set.cases if case.case_id in names)
        return (
            dataclasses.replace(suite, eval_set=dataclasses.replace(suite.eval_set, cases=cases)),
        )

    def change(self, kind: str, subject: Any) -> None:
        if kind == "threshold":
            self.threshold = subject
            for name, score in self.scores.items():
                self.words[name] = "fail" if score < subject else "pass"
        elif kind == "rule":
            self.rule = subject
        elif kind == "quarantine" and subject in self.questions:
            self.quarantined.add(subject)
        elif kind == "release":
            self.quarantined.discard(subject)
        elif kind == "edit" and subject in self.questions:
            self.questions[subject] += 1
            self.scores.pop(subject, None)
            if subject in self.words:
                self.words[subject] = "not measured"
        elif kind == "remove" and len(self.questions) > 1:
            self.questions.pop(subject, None)
            self.quarantined.discard(subject)
            self.scores.pop(subject, None)
            self.words.pop(subject, None)
        self.save()

    def run(self, outcomes: Mapping[str, str], *, has_base: bool) -> None:
        """A run of these cases, kept as those at a terminal are."""
        outcomes = {name: word for name, word in outcomes.items() if name in self.questions}
        if not outcomes:
            return
        self.runs += 1
        report, base = self.report(outcomes, has_base=has_base)
        insist_on_counts(report)
        texts = [("results", RESULTS, file.render_results(report, outcomes=NOTHING))]
        if base is not None:
            texts.append(("base", BASE_RESULTS, file.render_results(base, outcomes=NOTHING)))
        kept.write(
            texts,
            self.root / "report",
            report,
            root=self.root,
            is_selected=outcomes.keys() < self.questions.keys(),
            moment=TODAY + dt.timedelta(seconds=self.runs),
            redact=str,
        )
        # the file alone, as `evalgate report` and the page of a run show it
        alone = self.beside(
            stored_results.read_decided(kept.runs(self.root)[0].results, of=""), None
        )
        assert words_of(alone) == words_of(report)
        is_interrupted = "never" in outcomes.values()
        for case in view.view_of(report).cases:
            if is_interrupted and outcomes[case.case_id] in UNBEGUN and case.case_id in self.words:
                continue  # its earlier results stay the newest
            self.scores.pop(case.case_id, None)
            word = case.word
            if word == "quarantined":
                word = phrase("kind_word", case.kind)
            if outcomes[case.case_id] == "wrong":  # whose word depends on the threshold alone
                self.scores[case.case_id] = 0.75
            self.words[case.case_id] = word
            event(f"{word}, {'compared' if has_base else 'alone'}")

    def report(
        self, outcomes: Mapping[str, str], *, has_base: bool
    ) -> tuple[Report, Report | None]:
        suites = self.suites(outcomes)
        # what a run reruns depends on its rule and its base
        pair = Purpose.PAIR if has_base else Purpose.SINGLE
        words = {"flaky": Purpose.SINGLE, "shaky": pair, "moved": pair}
        reruns = {} if self.rule == "all" else words
        head, base = (
            stored_of(suites, outcomes, self.runs, is_base=is_base, reruns=reruns)
            for is_base in (False, True)
        )
        base = base if has_base else None
        return self.beside(head, base), None if base is None else self.beside(base, None)

    def beside(self, head: Stored, base: Stored | None) -> Report:
        gate_settings = load.load_settings({"root": str(self.root)})
        context = prepare.make_context(gate_settings, environ={})
        return stored_results.compare_stored(gate_settings, context, head=head, base=base)

    def expected(self) -> dict[str, str]:
        return {
            name: "quarantined"
            if name in self.quarantined
            else "fail"  # whatever reruns say
            if word == "flaky" and self.rule == "all"
            else word
            for name, word in self.words.items()
        }


def stored_of(
    suites: tuple[Suite, ...],
    outcomes: Mapping[str, str],
    second: int,
    *,
    is_base: bool,
    reruns: Mapping[str, Purpose],
) -> Stored:
    """The results of one side. A case that moved passed on the base at another time, and fails on
    both sides now, which only reruns of both show. `reruns`: by word."""
    words = {"flaky": "fail", "shaky": "fail", "moved": "fail", "wrong": "0.75", "cut": "never"}
    firsts = {
        name: "pass" if is_base and word != "never" else words.get(word, word)
        for name, word in outcomes.items()
    }
    done = {
        (SUITE, name): [None if word == "never" else build.done_of(word)]
        for name, word in firsts.items()
    }
    run = build.run_of(suites, done, complete="never" not in outcomes.values())
    run = dataclasses.replace(
        run,
        trials=tuple(
            dataclasses.replace(trial, apart=is_base and outcomes[trial.key.case_id] == "moved")
            for trial in run.trials
        ),
        confirmations=tuple(
            trial
            for name, word in outcomes.items()
            if word in reruns and not (is_base and reruns[word] is Purpose.SINGLE)
            for trial in reruns_of(name, word, suites, reruns[word])
        ),
        truncated="" if is_base or "cut" not in outcomes.values() else "the budget of 9 calls",
        started_at=f"2026-01-02T03:04:{second:02}+00:00",
        fingerprints=fingerprints.CaseFingerprints().of_cases(suites),
    )  # fmt: skip
    criteria = {
        (suite.key, use.name): fingerprints.of_criterion(use, version=__version__, deviations=OURS)
        for suite in suites
        for use in suite.criteria
    }
    return Stored(run=run, outcomes=NOTHING, version=__version__, criteria=criteria)


def reruns_of(
    name: str, word: str, suites: tuple[Suite, ...], purpose: Purpose
) -> Iterator[GradedTrial]:
    outcome = build.done_of("fail" if word == "moved" else "pass")
    (trial,) = build.run_of(suites, {(SUITE, name): [outcome]}).trials
    for number in range(6):
        key = TrialKey(suite=SUITE, case_id=name, purpose=purpose, number=number)
        yield dataclasses.replace(trial, key=key)


def words_of(report: Report) -> dict[str, str]:
    return {case.case_id: case.word for case in view.view_of(report).cases}


def insist_on_counts(report: Report) -> None:
    """Terminal, comment, outputs and JUnit have the counts of the view, which are those of the
    words."""
    cases = view.view_of(report).cases
    counts = view.view_of(report).counts
    words = Counter(case.word for case in cases)
    assert counts["total"] == len(cases)
    assert (counts["passed"], counts["failed"], counts["flaky"]) == (
        words["pass"],
        words["fail"],
        words["flaky"],
    )
    assert (counts["quarantined"], counts["inconclusive"]) == (
        words["quarantined"],
        words["inconclusive"],
    )
    figures = f"{counts['passed']} passed, {counts['failed']} failed"
    assert figures in reports.render_terminal(report)
    line = reports.RENDERERS["comment"].render(report).replace("**", "")
    assert re.search(rf"^{counts['total']} cases?: {counts['passed']} passed", line, re.MULTILINE)
    assert re.search(rf"· {counts['failed']} failed", line)
    assert bool(re.search(rf"· {counts['flaky']} flaky", line)) is bool(counts["flaky"])
    outputs = dict(reports.render_outputs(report))
    assert (int(outputs["passed"]), int(outputs["failed"])) == (counts["passed"], counts["failed"])
    assert (int(outputs["flaky"]), int(outputs["total"])) == (counts["flaky"], counts["total"])
    tree = junitparser.JUnitXml.fromstring(junit.render(report).encode())
    assert tree.failures == counts["failed"]


def table_of(command: Any, *arguments: str, root: Path) -> list[list[str]]:
    """The rows of what a command shows."""
    shown = CliRunner().invoke(command, [*arguments, "--root", str(root)])
    assert shown.exit_code == 0, shown.output
    rows = [re.split(r"  +", line) for line in shown.output.splitlines()]
    return [row for row in rows if len(row) > 2]


def insist_on_words(desk: Desk) -> None:
    """All that is known is said alike by the report, `show`, `history`, `--failed`, and the
    page of `evalgate ui`."""
    expected = desk.expected()
    gate_settings = load.load_settings({"root": str(desk.root)})
    report, stored_cases = stored_results.current(gate_settings)
    insist_on_counts(report)
    words = words_of(report)
    assert {name: words[name] for name in expected} == expected
    assert {words[name] for name in desk.questions.keys() - expected.keys()} <= {
        "not measured",
        "quarantined",
    }
    assert {name: case.word for (_, name), case in stored_cases.items()} == expected
    shown = {row[1]: row[0] for row in table_of(cli_known.show, root=desk.root)[1:]}
    assert shown == expected
    for name, word in expected.items():
        newest, *_ = table_of(cli_known.history, name, root=desk.root)[1:]
        assert word in newest, (name, newest)
    try:
        paths, passed_count = stored_results.failed(gate_settings)
    except NothingToDo:
        paths, passed_count = (), len(expected)
    rerun_names = {name for path in paths for name in path.partition(":")[2].split(",")}
    kinds = {name: case.verdict.kind for (_, name), case in stored_cases.items()}
    assert rerun_names == {name for name, kind in kinds.items() if kind != "pass"}
    assert passed_count == len(kinds) - len(rerun_names)
    counts = view.view_of(report).counts
    page, _ = Workspace({"root": str(desk.root)}).page(LATEST, None)
    figures = dict(re.findall(r"<dt>(\w+)[^<]*</dt>\s*<dd>(\d+)", page))
    assert figures["passed"] == str(counts["passed"])
    assert figures["failed"] == str(counts["failed"])


@given(st.lists(STEPS, min_size=1, max_size=5))
@example(
    [
        ("run", {"a": "flaky", "b": "pass"}),
        ("run", {"b": "fail"}),
        ("run", {"c": "never", "b": "pass"}),
    ]
)
# reruns of both sides, and then a part without the base
@example(
    [("compare", {"a": "shaky", "b": "pass", "c": "moved", "d": "fail"}), ("run", {"b": "pass"})]
)
@example(
    [
        ("run", dict.fromkeys(NAMES, "pass")),
        ("quarantine", "a"),
        ("edit", "b"),
        ("run", {"c": "cut", "d": "wrong"}),
    ]
)
@example(
    [
        ("quarantine", "a"),
        ("run", {"a": "fail", "d": "wrong"}),
        ("threshold", 0.5),
        ("release", "a"),
        ("remove", "d"),
    ]
)
# nothing was rerun, or nothing of the base, so nobody knows later that the base fails today, too
@example([("compare", dict.fromkeys(NAMES, "pass") | {"d": "moved"}), ("run", {"d": "moved"})])
@example([("rule", "all"), ("compare", {"a": "moved"}), ("rule", "confirmed")])
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
def test_every_place_has_one_word_for_a_case(steps: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder).resolve())
        for kind, subject in steps:
            if kind in ("run", "compare"):
                desk.run(subject, has_base=kind == "compare")
            else:
                desk.change(kind, subject)
            if desk.words:
                insist_on_words(desk)
